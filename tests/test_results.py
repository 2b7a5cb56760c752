import numpy as np
import pytest

import pymc_arm
from pymc_arm import Smoothed, TrustWarning, ZeroEvidenceWarning
from pymc_arm._compat import PYMC_MAJOR, get_group, has_group, load
from pymc_arm.results import PREDICTION_FREEDOM, Evidence, _convergence, make_dataset, pool
from pymc_arm.testing import GaussianChain, TiltedNormals

DATA = [0.5, -1.0, 2.0, 0.1]
HISTORY = [
    "effective_fraction",
    "particles",
    "rounds",
    "log_increment",
    "cumulative_log_marginal_likelihood",
    "acceptance_rate",
]


def sample(path=None, **options):
    options = {"draws": 40, "chains": 3, "random_seed": 1, "progressbar": False, **options}
    return pymc_arm.sample_path(GaussianChain(DATA) if path is None else path, **options)


class Fragile(GaussianChain):
    """Loses every particle in the chains whose first draw says so."""

    def smooth(self, rng, n, particles):
        log_ratio = super().smooth(rng, n, particles).log_ratio
        return Smoothed(np.full_like(log_ratio, -np.inf) if particles[0, 0] > 0.8 else log_ratio)


@pytest.fixture(scope="module")
def tree():
    return sample()


def test_type_is_that_of_the_installed_pymc(tree):
    assert type(tree).__name__ == ("InferenceData" if PYMC_MAJOR < 6 else "DataTree")


def test_groups_and_dims(tree):
    for group in ("posterior", "sample_stats", "arm"):
        assert has_group(tree, group)
    assert not has_group(tree, "prior")
    assert tree["posterior"]["x"].dims == ("chain", "draw", "x_dim_0")
    assert tree["posterior"]["x"].shape == (3, 40, 4)
    log_evidence = tree["sample_stats"]["log_marginal_likelihood"]
    assert log_evidence.dims == ("chain",)
    assert log_evidence.dtype == float
    history = get_group(tree, "arm")
    for name in HISTORY:
        assert history[name].dims == ("chain", "step")
        assert history[name].shape == (3, 3)
        assert history[name].dtype == float
    assert history["introduced"].values[0].tolist() == ["x[2]", "x[3]", "x[4]"]


def test_history_adds_up(tree):
    history = get_group(tree, "arm")
    cumulative = history["cumulative_log_marginal_likelihood"].values
    np.testing.assert_allclose(np.diff(cumulative), history["log_increment"].values[:, 1:])
    np.testing.assert_allclose(
        cumulative[:, -1], tree["sample_stats"]["log_marginal_likelihood"].values
    )


def test_attributes_have_the_estimate_and_all_settings(tree):
    values = tree["sample_stats"]["log_marginal_likelihood"].values
    for attributes in (tree.attrs, tree["arm"].attrs):
        assert attributes["log_marginal_likelihood"] == pytest.approx(
            np.log(np.mean(np.exp(values)))
        )
        assert attributes["log_marginal_likelihood_se"] > 0
        assert attributes["log_marginal_likelihood_low"] < attributes["log_marginal_likelihood"]
        assert attributes["log_marginal_likelihood"] < attributes["log_marginal_likelihood_high"]
        expected = {
            "variant": "arm",
            "threshold": 0.7,
            "max_rounds": 3,
            "resample_threshold": "None",
            "resampling": "residual",
            "move": "always",
            "draws": 40,
            "chains": 3,
            "allocation": "adaptive",
            "inference_library": "pymc_arm",
        }
        assert {name: attributes[name] for name in expected} == expected


def assert_round_trip(tree, filename):
    tree.to_netcdf(str(filename))
    again = load(str(filename))
    assert dict(again.attrs).keys() >= dict(tree.attrs).keys()
    for name, value in tree.attrs.items():
        assert again.attrs[name] == value, name
    for group in ("posterior", "sample_stats", "arm"):
        assert has_group(again, group) == has_group(tree, group)
        if not has_group(tree, group):
            continue
        saved, loaded = get_group(tree, group), get_group(again, group)
        assert set(saved.data_vars) == set(loaded.data_vars)
        for name in saved.data_vars:
            assert saved[name].dims == loaded[name].dims
            np.testing.assert_array_equal(saved[name].values, loaded[name].values)
        for name, value in saved.attrs.items():
            assert loaded.attrs[name] == value, name


def test_netcdf_round_trip(tree, tmp_path):
    assert_round_trip(tree, tmp_path / "result.nc")


def test_netcdf_round_trip_of_one_distribution(tmp_path):
    tree = sample(GaussianChain([0.3]))
    assert get_group(tree, "arm")["particles"].shape == (3, 0)
    assert_round_trip(tree, tmp_path / "result.nc")


def test_netcdf_round_trip_of_numpy_settings(tmp_path):
    tree = sample(draws=np.int64(20), threshold=np.float64(0.5))
    assert tree.attrs["draws"] == 20
    assert_round_trip(tree, tmp_path / "result.nc")


def test_chains_that_end_without_particles(tmp_path):
    with pytest.warns(TrustWarning), pytest.warns(ZeroEvidenceWarning):
        tree = sample(Fragile(DATA), chains=8, variant="rm", cores=1)
    values = tree["sample_stats"]["log_marginal_likelihood"].values
    alive = np.flatnonzero(np.isfinite(values))
    assert 0 < len(alive) < 8
    assert tree["posterior"]["x"].coords["chain"].values.tolist() == alive.tolist()
    assert tree.attrs["log_marginal_likelihood"] == pytest.approx(np.log(np.mean(np.exp(values))))
    lost = np.flatnonzero(~np.isfinite(values))
    particles = get_group(tree, "arm")["particles"].values
    assert np.isnan(particles[lost]).any(axis=1).all()
    assert_round_trip(tree, tmp_path / "result.nc")


def test_no_chain_with_particles(tmp_path):
    class Impossible(GaussianChain):
        def smooth(self, rng, n, particles):
            return Smoothed(np.full(len(particles), -np.inf))

    with (
        pytest.warns(TrustWarning, match="ran out of particles"),
        pytest.warns(ZeroEvidenceWarning, match=r"x\[2\]"),
    ):
        tree = sample(Impossible(DATA))
    assert tree.attrs["log_marginal_likelihood"] == -np.inf
    assert not has_group(tree, "posterior")
    assert_round_trip(tree, tmp_path / "result.nc")


def test_bayes_factor_example_of_pymc_works_unchanged():
    idatas = [sample(GaussianChain(DATA, noise_variance=noise)) for noise in (0.5, 3.0)]
    bayes_factor = np.exp(
        idatas[1].sample_stats["log_marginal_likelihood"].mean()
        - idatas[0].sample_stats["log_marginal_likelihood"].mean()
    )
    exact = [GaussianChain(DATA, noise_variance=noise).exact_log_evidence for noise in (0.5, 3.0)]
    assert bayes_factor.item() == pytest.approx(np.exp(exact[1] - exact[0]), rel=0.3)
    assert isinstance(np.round(bayes_factor).item(), float)


def test_coords_and_dims():
    tree = sample(coords={"time": list("abcd")}, dims={"x": ["time"]})
    assert tree["posterior"]["x"].dims == ("chain", "draw", "time")
    assert tree["posterior"]["x"].coords["time"].values.tolist() == list("abcd")


def test_dataset_without_labels():
    dataset = make_dataset({"y": np.zeros((2, 3))}, (), {"a": [1]}, {"y": ["a"]})
    assert dataset["y"].dims == ("a", "y_dim_1")
    assert dataset["a"].values.tolist() == [0, 1]


def test_pooled_estimate_is_the_log_of_the_mean():
    # Without a prediction the error is the spread of log Z-hat over the root of their number.
    evidence = pool([np.log(1.0), np.log(3.0)], [0.0, 0.0])
    assert evidence.log_evidence == pytest.approx(np.log(2))
    spread = np.std(np.log([1.0, 3.0]), ddof=1)
    assert evidence.standard_error == pytest.approx(spread / np.sqrt(2), rel=1e-5)
    assert evidence.degrees_of_freedom == 1


def test_prediction_and_spread_are_averaged_by_their_degrees_of_freedom():
    values, predicted = np.log([0.98, 1.0, 1.01, 1.02]), 4e-4
    evidence = pool(values, [predicted] * 4)
    freedom = PREDICTION_FREEDOM
    assert evidence.degrees_of_freedom == 3 + freedom
    expected = (3 * values.var(ddof=1) + freedom * predicted) / (3 + freedom) / 4
    assert evidence.standard_error == pytest.approx(np.sqrt(expected), rel=0.01)


def test_a_prediction_that_the_spread_refutes_is_discarded():
    evidence = pool([0.0, 1.0, -1.0, 5.0], [1e-4] * 4)
    assert evidence.degrees_of_freedom == 3
    assert evidence.standard_error > 1


def test_pooled_estimate_is_safe_from_overflow():
    assert pool([-1e5, -1e5 + 1], [0, 0]).log_evidence == pytest.approx(
        -1e5 + np.log(np.mean([1, np.e]))
    )


def test_one_chain_has_the_error_it_predicts():
    expected = Evidence(2.0, pytest.approx(0.3, rel=1e-4), PREDICTION_FREEDOM)
    assert pool([2.0], [0.09]) == expected


def test_no_evidence_has_no_interval():
    evidence = pool([-np.inf, -np.inf], [np.inf, np.inf])
    assert evidence.log_evidence == -np.inf
    assert evidence.interval() == (-np.inf, np.inf)


@pytest.mark.one_version
@pytest.mark.statistical
def test_intervals_cover_the_truth():
    """Coverage of nominal 95 %, over 200 samples of 4 chains: at least 0.89.

    A true coverage of 0.95 falls below that with a probability of 3e-4.
    """
    path = TiltedNormals([0.5, 0.5])
    options = {"variant": "rm", "resample_threshold": 1.0}
    estimates = np.array(
        [
            [pymc_arm.run(path, rng, 60, **options).log_evidence for _ in range(4)]
            for rng in np.random.default_rng(1).spawn(200)
        ]
    )
    intervals = np.array([pool(row, np.zeros(4)).interval() for row in estimates])
    covered = np.mean(
        (intervals[:, 0] < path.exact_log_evidence) & (path.exact_log_evidence < intervals[:, 1])
    )
    assert covered >= 0.89


def test_no_small_variable_is_overlooked_beside_large_ones():
    """Two chains that disagree about one scalar, beside 30,000 fitted values that agree."""
    rng = np.random.default_rng(1)
    chains = [
        {
            "fitted": rng.normal(size=(100, 30, 1000)),
            "intercept": rng.normal(size=100),
            "scale": rng.normal(loc=5.0 * chain, size=100),
            "slopes": rng.normal(size=(100, 3)),
        }
        for chain in range(2)
    ]
    found = _convergence(chains)
    assert found["r_hat_variable"] == "scale"
    assert found["r_hat"] > 1.5
