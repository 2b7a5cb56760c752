import numpy as np
import pytest

import pymc_arm
from pymc_arm._compat import get_group
from pymc_arm.testing import GaussianChain, TiltedNormals

PATH = GaussianChain([0.5, -1.0, 2.0, 0.1])


def sample(path=PATH, **options):
    options = {"draws": 60, "chains": 2, "random_seed": 1, "progressbar": False, **options}
    return pymc_arm.sample_path(path, **options)


@pytest.mark.parametrize("allocation", ["adaptive", "pilot", "optimal"])
def test_same_seed_same_result_on_any_number_of_cores(allocation):
    one, two = (sample(cores=cores, allocation=allocation) for cores in (1, 2))
    for group in ("posterior", "sample_stats", "arm"):
        first, second = (
            get_group(tree, group).drop_vars("sampling_time", errors="ignore")
            for tree in (one, two)
        )
        assert first.equals(second)
    assert not get_group(sample(random_seed=2), "posterior").equals(get_group(one, "posterior"))


@pytest.mark.statistical
@pytest.mark.parametrize("allocation", ["adaptive", "pilot", "optimal"])
@pytest.mark.parametrize("variant", ["rm", "arm", "anticipate", "reseed"])
def test_estimate_is_within_its_error(allocation, variant):
    """False alarms: 1e-3 a case (t with 7 degrees of freedom beyond 5.4)."""
    tree = sample(chains=8, draws=400, allocation=allocation, variant=variant)
    error = tree.attrs["log_marginal_likelihood"] - PATH.exact_log_evidence
    assert abs(error) < 5.4 * tree.attrs["log_marginal_likelihood_se"]
    assert abs(error) < 0.1


def test_budget_is_the_total_number_of_particles():
    path = TiltedNormals([0.1, 1.5, 0.1])
    tree = sample(path, allocation="optimal", budget=900)
    particles = get_group(tree, "arm")["particles"].values
    assert np.all(particles.sum(axis=1) <= 900)
    assert np.all(particles.argmax(axis=1) == 1)
    assert tree["posterior"]["x"].shape == (2, 60, 4)


def test_optimal_allocation_of_a_path_of_unknown_length():
    class Unknown(TiltedNormals):
        def __init__(self, tilts):
            super().__init__(tilts)
            self.length = None

        def finished(self, n):
            return n == len(self.tilts) + 1

    tree = sample(Unknown([0.3] * 6), allocation="optimal")
    particles = get_group(tree, "arm")["particles"].values
    assert np.all(particles.sum(axis=1) > 0.9 * 60 * 6)


@pytest.mark.parametrize("allocation", ["adaptive", "pilot", "optimal"])
def test_one_distribution_one_chain_one_draw(allocation):
    path = GaussianChain([0.3])
    tree = sample(path, draws=1, chains=1, allocation=allocation)
    assert tree.attrs["log_marginal_likelihood"] == path.exact_log_evidence
    assert tree.attrs["log_marginal_likelihood_se"] == 0
    assert tree["posterior"]["x"].shape == (1, 1, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chains": 0}, "chains=0"),
        ({"draws": 0}, "draws=0"),
        ({"allocation": "best"}, "allocation='best'"),
        ({"budget": 100}, "budget=100"),
        ({"variant": "smc"}, "variant='smc'"),
    ],
)
def test_errors_name_the_argument(options, message):
    with pytest.raises(ValueError, match=message):
        sample(**options)


def test_progress_is_shown_on_standard_error(capsys):
    sample(progressbar=True, cores=1)
    shown = capsys.readouterr()
    assert "Chain" in shown.err
    assert shown.out == ""
