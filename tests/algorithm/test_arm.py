import dataclasses

import numpy as np
import pytest

from pymc_arm import PathError, Settings, Smoothed, ZeroEvidenceWarning, run
from pymc_arm.algorithm.allocation import predicted_variance
from pymc_arm.algorithm.arm import initialize, iterate, step
from pymc_arm.algorithm.resampling import log_mean_exp
from pymc_arm.testing import GaussianChain, IsingGrid, TiltedNormals
from tests.replicates import deviation, evidence_ratios, standard_error

EXACT_PATHS = {
    "gaussian chain": GaussianChain([0.5, -1.0, 2.0, 0.3, 0.1]),
    "ising chain": IsingGrid(1, 8, coupling=0.6, field=0.2),
    "ising grid": IsingGrid(3, 3, coupling=0.4, field=0.1),
}


class Counted(TiltedNormals):
    """A path that counts what it is asked."""

    moves = 0

    def move(self, rng, n, particles):
        self.moves += 1
        return super().move(rng, n, particles)


class WideAugment(TiltedNormals):
    """Draws x_n from a normal that is too wide, and corrects for it."""

    scale = 1.4

    def augment(self, rng, n, particles, proposal):
        new = self.scale * rng.normal(size=(len(particles), 1))
        correction = -0.5 * new**2 + 0.5 * (new / self.scale) ** 2 + np.log(self.scale)
        return np.hstack([particles, new]), correction[:, 0]


class NoisySmooth(TiltedNormals):
    """Estimates W with an error, hands it to augment as the proposal, and corrects for it."""

    def smooth(self, rng, n, particles):
        error = rng.normal(scale=0.3, size=len(particles))
        return Smoothed(super().smooth(rng, n, particles).log_ratio + error, error)

    def augment(self, rng, n, particles, proposal):
        return super().augment(rng, n, particles, None)[0], -proposal


class Broken(TiltedNormals):
    """Returns a given value from one operation at the step into p_3."""

    def __init__(self, operation, value):
        super().__init__([0.1, 0.1, 0.1])
        self.operation, self.value = operation, value

    def initialize(self, rng, size):
        particles, log_evidence = super().initialize(rng, size)
        return particles, self.value if self.operation == "initialize" else log_evidence

    def smooth(self, rng, n, particles):
        log_ratio = super().smooth(rng, n, particles).log_ratio
        if self.operation == "smooth" and n == 3:
            log_ratio = np.full(len(particles), self.value)
        return Smoothed(log_ratio)

    def augment(self, rng, n, particles, proposal):
        particles, correction = super().augment(rng, n, particles, proposal)
        if self.operation == "augment" and n == 3:
            correction = np.full(len(particles), self.value)
        return particles, correction


@pytest.mark.statistical
@pytest.mark.parametrize("name", EXACT_PATHS)
@pytest.mark.parametrize("variant", ["rm", "arm", "anticipate", "reseed"])
def test_exact_evidence(name, variant):
    """False alarms: 1e-4 a case (t with 39 degrees of freedom beyond 4.3)."""
    ratios = evidence_ratios(EXACT_PATHS[name], 40, 300, seed=1, variant=variant)
    assert deviation(ratios) < 4.3
    assert standard_error(ratios) < 0.03


@pytest.mark.parametrize("move", ["always", "adaptive"])
def test_product_of_independent_variables_never_moves(move):
    path = Counted(np.zeros(19))
    result = run(path, np.random.default_rng(1), 100, move=move)
    assert path.moves == 0
    assert sum(info.kernel_calls for info in result.history) == 0
    assert sum(info.particles for info in result.history) == 100 * (path.length - 1)
    assert not any(info.resampled for info in result.history)
    assert result.log_evidence == pytest.approx(path.exact_log_evidence, abs=1e-12)
    assert predicted_variance(result.history) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("variant", ["arm", "anticipate", "reseed"])
def test_particles_grow_at_the_planted_step_and_only_there(variant):
    path = TiltedNormals([0.1, 0.1, 0.1, 1.5, 0.1, 0.1])
    result = run(path, np.random.default_rng(1), 500, variant=variant)
    particles = np.array([info.particles for info in result.history])
    assert particles[3] > 500
    assert np.all(np.delete(particles, 3) == 500)
    assert np.flatnonzero([info.rounds for info in result.history]).tolist() == [3]


@pytest.mark.statistical
@pytest.mark.parametrize("resampling", ["residual", "multinomial", "systematic", "stratified"])
def test_resample_move_is_unbiased(resampling):
    """Z-hat of RM is unbiased, whatever the kernel. False alarms: 6e-5 a case (4 s.e.)."""
    path = TiltedNormals([0.6, 0.8, 0.6], correlation=0.8)
    assert (
        deviation(evidence_ratios(path, 1000, 20, seed=2, variant="rm", resampling=resampling)) < 4
    )


@pytest.mark.statistical
@pytest.mark.parametrize("resampling", ["residual", "multinomial", "systematic", "stratified"])
def test_unbiased_with_rare_resampling(resampling):
    """Weights carry over several steps before they are resampled. False alarms: 6e-5 a case."""
    path = TiltedNormals([0.4, 0.5, 0.4, 0.5], correlation=0.8)
    options = {"variant": "rm", "resample_threshold": 0.45, "resampling": resampling}
    history = run(path, np.random.default_rng(1), 20, **options).history
    assert not history[0].resampled
    assert not history[1].resampled
    assert deviation(evidence_ratios(path, 1000, 20, seed=3, **options)) < 4


@pytest.mark.statistical
@pytest.mark.parametrize("kind", [WideAugment, NoisySmooth])
@pytest.mark.parametrize("resample_threshold", [0.0, 1.0])
def test_corrections_of_augment_keep_it_unbiased(kind, resample_threshold):
    """Inexact draws and inexact ratios are paid for. False alarms: 6e-5 a case (4 s.e.)."""
    path = kind([0.5, 0.7], correlation=0.5)
    options = {"variant": "rm", "resample_threshold": resample_threshold}
    assert deviation(evidence_ratios(path, 1000, 20, seed=4, **options)) < 4


@pytest.mark.parametrize("variant", ["rm", "arm"])
def test_weights_without_resampling_are_the_products_of_all_ratios(variant):
    path = TiltedNormals([0.5, 0.9, 0.3], correlation=1.0)  # a move that stays where it is
    result = run(
        path, np.random.default_rng(1), 50, variant=variant, max_rounds=0, resample_threshold=0
    )
    products = result.state.particles[:, :-1] @ path.tilts
    assert result.log_evidence == pytest.approx(log_mean_exp(products), abs=1e-12)
    expected = np.exp(products - products.max())
    np.testing.assert_allclose(
        np.exp(result.state.log_weights), expected / expected.sum(), rtol=1e-10
    )
    increments = [info.log_increment for info in result.history]
    assert np.sum(increments) == pytest.approx(result.log_evidence, abs=1e-12)


def test_corrections_enter_weights_and_evidence_exactly():
    path = WideAugment([0.5, 0.9], correlation=1.0)
    result = run(path, np.random.default_rng(1), 50, variant="rm", resample_threshold=0)
    values, scale = result.state.particles, path.scale
    corrections = -0.5 * values**2 + 0.5 * (values / scale) ** 2 + np.log(scale)
    products = values[:, :-1] @ path.tilts + corrections[:, 1:].sum(axis=1)
    assert result.log_evidence == pytest.approx(log_mean_exp(products), abs=1e-12)


@pytest.mark.parametrize("variant", ["rm", "arm", "anticipate", "reseed"])
@pytest.mark.parametrize("operation", ["smooth", "augment"])
def test_no_particle_left(variant, operation):
    path = Broken(operation, -np.inf)
    with pytest.warns(ZeroEvidenceWarning, match=r"x\[3\]"):
        result = run(path, np.random.default_rng(1), 10, variant=variant)
    assert result.log_evidence == -np.inf
    assert len(result.history) == 2
    assert result.history[-1].log_increment == -np.inf
    assert not any(info.resampled for info in result.history[1:]) or operation == "augment"


@pytest.mark.parametrize("variant", ["rm", "arm", "anticipate", "reseed"])
@pytest.mark.parametrize("operation", ["smooth", "augment"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_number_from_a_path_names_step_and_operation(variant, operation, value):
    with pytest.raises(PathError, match=rf"introduces x\[3\] \(its {operation} returned"):
        run(Broken(operation, value), np.random.default_rng(1), 10, variant=variant)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_number_from_initialize(value):
    with pytest.raises(PathError, match="initialize"):
        run(Broken("initialize", value), np.random.default_rng(1), 10)


def test_zero_evidence_from_initialize():
    with pytest.warns(ZeroEvidenceWarning, match="first distribution has no mass"):
        result = run(Broken("initialize", -np.inf), np.random.default_rng(1), 10)
    assert result.log_evidence == -np.inf
    assert result.history == ()


@pytest.mark.parametrize("variant", ["rm", "arm", "anticipate", "reseed"])
def test_one_particle(variant):
    path = TiltedNormals([0.5, 0.5], correlation=1.0)
    result = run(path, np.random.default_rng(1), 1, variant=variant)
    expected = float(result.state.particles[0, :-1] @ path.tilts)
    assert result.log_evidence == pytest.approx(expected)
    assert [info.effective_fraction for info in result.history] == pytest.approx([1, 1])


@pytest.mark.parametrize("variant", ["rm", "arm", "anticipate", "reseed"])
def test_one_distribution(variant):
    path = GaussianChain([0.7])
    result = run(path, np.random.default_rng(1), 10, variant=variant)
    assert result.log_evidence == path.exact_log_evidence
    assert result.history == ()
    assert predicted_variance(result.history) == 0


@pytest.mark.parametrize("variant", ["arm", "anticipate", "reseed"])
def test_threshold_zero_never_generates(variant):
    path = TiltedNormals([2.0, 2.0])
    result = run(path, np.random.default_rng(1), 50, variant=variant, threshold=0)
    assert [info.rounds for info in result.history] == [0, 0]
    assert not any(info.resampled for info in result.history)
    assert sum(info.kernel_calls for info in result.history) == 0


def test_threshold_one_always_does_all_rounds():
    path = TiltedNormals([0.1, 0.1])
    result = run(path, np.random.default_rng(1), 50, threshold=1, max_rounds=4)
    assert [info.rounds for info in result.history] == [4, 4]
    assert [info.particles for info in result.history] == [200, 200]
    assert all(info.resampled for info in result.history)
    assert len(result.state.log_weights) == 50


@pytest.mark.parametrize("variant", ["arm", "anticipate", "reseed"])
def test_no_rounds_still_resamples(variant):
    path = TiltedNormals([1.5, 1.5])
    result = run(path, np.random.default_rng(1), 50, variant=variant, max_rounds=0)
    assert [info.particles for info in result.history] == [50, 50]
    assert all(info.resampled for info in result.history)


def test_move_always_moves_copies_and_adaptive_does_not():
    always, adaptive = (
        run(Counted([1.5, 0.0, 0.0]), np.random.default_rng(1), 50, max_rounds=0, move=move).history
        for move in ("always", "adaptive")
    )
    assert [info.kernel_calls for info in always] == [0, 50, 0]
    assert [info.kernel_calls for info in adaptive] == [0, 0, 0]
    assert always[1].distinct_fraction == 1
    assert adaptive[1].distinct_fraction < 1


def test_counts_set_the_particles_of_each_step():
    counts = [10, 40, 25]
    result = run(
        TiltedNormals([0.5, 0.5, 0.5]), np.random.default_rng(1), counts=counts, variant="rm"
    )
    assert [info.particles for info in result.history] == counts
    assert len(result.state.log_weights) == 25


def test_founders_are_indices_of_the_first_particles():
    path = TiltedNormals([1.0, 1.0], correlation=1.0)
    rng = np.random.default_rng(1)
    first = initialize(path, rng, 30)
    for state, _ in iterate(path, rng, first, Settings(variant="rm")):
        last = state
    np.testing.assert_allclose(last.particles[:, 0], first.particles[last.genealogy.founders, 0])


def test_a_run_can_be_stopped_and_continued():
    path, settings = EXACT_PATHS["gaussian chain"], Settings()
    whole = run(path, np.random.default_rng(1), 40)
    rng = np.random.default_rng(1)
    state = initialize(path, rng, 40)
    state, _ = step(path, rng, state, settings)
    saved = dataclasses.replace(state)
    for later, _ in iterate(path, rng, saved, settings):
        state = later
    assert state.log_evidence == whole.log_evidence
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.log_evidence = 0.0


def test_same_seed_same_run():
    path = EXACT_PATHS["ising grid"]
    first, second = (run(path, np.random.default_rng(5), 50) for _ in range(2))
    assert first.log_evidence == second.log_evidence
    assert repr(first.history) == repr(second.history)


def test_at_least_one_particle():
    with pytest.raises(ValueError, match="particles=0"):
        run(EXACT_PATHS["ising grid"], np.random.default_rng(1), 0)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("variant", "smc"),
        ("resampling", "none"),
        ("move", "never"),
        ("threshold", 1.1),
        ("resample_threshold", -0.1),
        ("max_rounds", -1),
        ("max_rounds", 1.5),
    ],
)
def test_settings_name_what_is_wrong(option, value):
    with pytest.raises(ValueError, match=f"{option}="):
        Settings(**{option: value})
