"""The path from the prior by trajectories: log Z with exact truths, and which models take it.

Statistical tests allow four standard errors, plus 0.02 for what adapting to few particles costs: a
false alarm in about one of 10,000 runs, and seeds are fixed.
"""

import numpy as np
import pymc as pm
import pytest
import scipy

from pymc_arm import sample_path
from pymc_arm.algorithm.path import Path
from pymc_arm.algorithm.resampling import effective_share
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.reference import ChartRecipe, PriorPath, ReferencePath, choose, choose_path
from pymc_arm.models.reference.chart_path import Position
from tests.models.reference.test_reference import gaussian, schools

# A small run of a hard model may be careful about itself; log Z is compared with the truth here.
pytestmark = pytest.mark.filterwarnings("ignore::pymc_arm.errors.TrustWarning")


def run(path: Path, seed=1):
    return sample_path(path, 500, chains=2, random_seed=seed, progressbar=False)


def error_of(result, truth):
    """Return how far log Z is off, in standard errors."""
    found, error = (result.attrs[f"log_marginal_likelihood{end}"] for end in ("", "_se"))
    return max(abs(found - truth) - 0.02, 0.0) / error


@pytest.mark.parametrize("dimension", [8, 40])
def test_a_linear_regression(dimension):
    model, truth, mean, deviation = gaussian(dimension)
    result = run(PriorPath(compile_model(model)))
    assert error_of(result, truth) < 4
    draws = result.posterior["x"].values.mean(axis=(0, 1))
    # A particle is one draw at least; 250 of each chain explore.
    assert np.abs((draws - mean) / deviation).max() < 5 / np.sqrt(500)


def test_group_effects_are_seen_non_centred():
    model, truth = schools()[:2]
    path = PriorPath(compile_model(model))
    particles, log_evidence = path.initialize(np.random.default_rng(0), 4000)
    assert log_evidence == 0.0
    effects = particles[:, 2:]
    # As they are, large scales make all of them large: their squares are correlated.
    assert np.abs(np.corrcoef(effects.T**2) - np.eye(8)).max() < 5 / np.sqrt(4000)
    assert error_of(run(path), truth) < 4


def test_both_signs_of_a_neuron():
    """One hidden neuron, y = v tanh(w x): a mode for each sign, and log Z by a sum on a grid."""
    rng = np.random.default_rng(2)
    x = np.linspace(-2, 2, 12)
    y = 1.2 * np.tanh(1.5 * x) + 0.3 * rng.normal(size=12)
    with pm.Model() as model:
        w = pm.Normal("w", 0, 2)
        v = pm.Normal("v", 0, 1)
        pm.Normal("y", v * pm.math.tanh(w * x), 0.3, observed=y)
    grid_w, grid_v = np.meshgrid(np.linspace(-12, 12, 481), np.linspace(-5, 5, 401))
    error = y[:, None, None] - grid_v * np.tanh(grid_w * x[:, None, None])
    values = scipy.stats.norm(0, 0.3).logpdf(error).sum(axis=0)
    values += scipy.stats.norm(0, 2).logpdf(grid_w) + scipy.stats.norm(0, 1).logpdf(grid_v)
    truth = scipy.special.logsumexp(values) + np.log(24 / 480 * 10 / 400)
    result = run(PriorPath(compile_model(model)))
    assert error_of(result, truth) < 4
    positive = float((result.posterior["v"] > 0).mean())
    # 500 particles, of which no more than one in five has a family of its own.
    assert abs(positive - 0.5) < 4 * 0.5 / np.sqrt(100)


def test_a_step_goes_as_far_as_particles_can_follow():
    path = PriorPath(compile_model(gaussian(8)[0]))
    particles = path.initialize(np.random.default_rng(5), 400)[0]
    reached = path.advance(path.start, particles, np.full(400, -np.log(400)), 0.5)
    assert 0 < reached.beta < 1
    assert reached.previous == 0
    log_ratio = path.smooth(np.random.default_rng(5), reached, particles).log_ratio
    assert 0.5 <= effective_share(log_ratio) < 0.52
    whole = path.smooth(np.random.default_rng(5), Position(1.0, 0.0), particles).log_ratio
    assert np.allclose(log_ratio, reached.beta * whole, rtol=1e-9)


def many_weights(dimension, rows):
    design = np.random.default_rng(0).normal(size=(rows, dimension))
    with pm.Model() as model:
        scale = pm.HalfCauchy("scale", 1.0)
        weights = pm.Laplace("weights", 0, 1, shape=dimension)
        pm.Bernoulli("y", logit_p=scale * (design @ weights), observed=np.arange(rows) % 2)
    return model


def test_nothing_is_fitted_where_data_are_few(monkeypatch):
    """Neither in the first process nor in another one, which makes the same path."""

    def refuse(*arguments, **options):
        raise AssertionError("a reference was fitted")

    monkeypatch.setattr(choose, "fit_reference", refuse)
    path = compile_model(many_weights(700, 20))
    choice = choose_path(path)
    assert isinstance(choice.path, PriorPath)
    assert "few data" in choice.reason
    again = ChartRecipe(lambda: path, None)()
    draws = [p.initialize(np.random.default_rng(3), 5)[0] for p in (choice.path, again)]
    assert np.array_equal(*draws)
    with pytest.raises(AssertionError, match="was fitted"):
        choose.start_model(many_weights(700, 20), start="reference")


def test_a_reference_is_fitted_where_a_look_shows_a_normal_mode():
    design = np.random.default_rng(0).normal(size=(20, 700))
    with pm.Model() as model:
        weights = pm.Normal("weights", 0, 1, shape=700)
        pm.Normal("y", design @ weights, 1.0, observed=np.arange(20.0))
    assert isinstance(choose_path(compile_model(model)).path, ReferencePath)
