import math

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import special, stats

import pymc_arm
from pymc_arm._compat import load, make_tree
from pymc_arm.comparison import (
    BayesFactor,
    bayes_factor,
    compare,
    model_probabilities,
    read_evidence,
)
from pymc_arm.results import Evidence, pool
from pymc_arm.testing import GaussianChain

OPTIONS = {"draws": 200, "chains": 4, "progressbar": False}


def beta_binomial(alpha, heads=64, tosses=100):
    with pm.Model() as model:
        p = pm.Beta("p", alpha, alpha)
        pm.Binomial("heads", n=tosses, p=p, observed=heads)
    exact = (
        special.betaln(alpha + heads, alpha + tosses - heads)
        - special.betaln(alpha, alpha)
        + stats.binom.logpmf(heads, tosses, 0.5)
        + tosses * math.log(2)
    )
    return model, exact


def regression(columns, seed=3):
    """Return a linear regression with unit noise and normal coefficients, and its exact log Z."""
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(20, 2))
    y = 0.6 * design[:, 0] + rng.normal(size=20)
    used = design[:, :columns]
    with pm.Model() as model:
        slopes = [pm.Normal(f"slope_{k}", 0, 1) for k in range(columns)]
        mean = sum(slope * used[:, k] for k, slope in enumerate(slopes))
        pm.Normal("y", mean, 1.0, observed=y)
    covariance = np.eye(20) + used @ used.T
    return model, stats.multivariate_normal.logpdf(y, np.zeros(20), covariance)


def location(point_null, y=(0.4, 1.2, 0.7, 0.1)):
    """Return the mean of unit normals, known to be zero or with a normal prior."""
    y = np.array(y)
    if point_null:
        with pm.Model() as model:
            pm.Normal("y", 0.0, 1.0, observed=y)
        return model, stats.norm.logpdf(y).sum()
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 2.0)
        pm.Normal("y", mean, 1.0, observed=y)
    covariance = np.eye(len(y)) + 4.0
    return model, stats.multivariate_normal.logpdf(y, np.zeros(len(y)), covariance)


PAIRS = {
    "beta-binomial": lambda: (beta_binomial(1.0), beta_binomial(30.0)),
    "nested regressions": lambda: (regression(1), regression(2)),
    "point null": lambda: (location(False), location(True)),
}


@pytest.mark.statistical
@pytest.mark.parametrize("pair", PAIRS)
def test_exact_bayes_factors(pair):
    """False alarms: 1e-3 a case; the rate over 40 replicates is in benchmarks/bayes_factors.py."""
    (first, log_first), (second, log_second) = PAIRS[pair]()
    factor = bayes_factor(first, second, random_seed=1, **OPTIONS)
    low, high = factor.log_interval(0.999)
    assert low <= log_first - log_second <= high
    assert factor.standard_error < 0.2


@pytest.mark.statistical
def test_intervals_cover_at_their_rate():
    """Of 400 simulated pairs, 95 % within 4 binomial standard deviations: false alarms 1e-4."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        # Chains whose Z-hat is log-normal about Z, with mean exactly Z.
        spreads = (0.1, 0.3)
        pooled = [
            pool((rng.normal(-0.5 * spread**2, spread, size=4)).tolist(), [0.0] * 4)
            for spread in spreads
        ]
        low, high = bayes_factor(*pooled).log_interval()
        covered += low <= 0.0 <= high
    assert abs(covered / 400 - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 400)


def test_table_is_sorted_and_consistent():
    table = compare(
        {
            "worst": Evidence(-110.0, 0.1, 3),
            "best": Evidence(-100.0, 0.1, 3),
            "close": Evidence(-100.1, 0.1, 3),
        }
    )
    assert isinstance(table, pd.DataFrame)
    assert table.index.tolist() == ["best", "close", "worst"]
    assert table["log_bayes_factor"].tolist() == pytest.approx([0.0, -0.1, -10.0])
    assert table["log_bayes_factor_se"].tolist() == pytest.approx([0.0, 0.02**0.5, 0.02**0.5])
    assert table["settled"].tolist() == [False, True, True]
    assert table["probability"].sum() == pytest.approx(1)
    assert (table["probability_low"] <= table["probability"]).all()
    assert (table["probability"] <= table["probability_high"]).all()
    assert table["probability_low"].iloc[0] < 0.5 < table["probability_high"].iloc[0]
    assert table["verdict"].tolist() == ["", "", ""]


def test_probability_intervals_follow_from_two_models():
    """For two models the interval is that of their t-distributed difference, to Monte Carlo."""
    evidences = {"a": Evidence(-1.0, 0.3, 5), "b": Evidence(-1.5, 0.0, 5)}
    _, low, high = model_probabilities(evidences)["a"]
    quantile = stats.t.ppf(0.975, 5) * 0.3
    assert low == pytest.approx(special.expit(0.5 - quantile), abs=0.01)
    assert high == pytest.approx(special.expit(0.5 + quantile), abs=0.01)


def test_prior_odds_by_name_and_by_place():
    models = {"a": Evidence(-1.0, 0.0, 3), "b": Evidence(-1.0, 0.0, 3)}
    for odds in ({"b": 1.0, "a": 3.0}, [3.0, 1.0]):
        assert compare(models, odds).loc["a", "probability"] == pytest.approx(0.75)
    with pytest.raises(ValueError, match="prior_odds names"):
        compare(models, {"a": 1.0})
    with pytest.raises(ValueError, match="prior_odds has 1"):
        compare(models, [1.0])
    with pytest.raises(ValueError, match=r"prior_odds\['a'\]=0"):
        compare(models, {"a": 0.0, "b": 1.0})


def test_models_run_and_results_are_kept():
    model, exact = beta_binomial(1.0)
    result = pymc_arm.sample(beta_binomial(30.0)[0], random_seed=2, **OPTIONS)
    table = compare({"run": model, "done": result}, random_seed=1, **OPTIONS)
    assert table.loc["run", "log_evidence"] == pytest.approx(exact, abs=0.1)
    assert table.loc["done", "log_evidence"] == result.attrs["log_marginal_likelihood"]
    assert (table["seconds"] > 0).all()
    again = compare({"run": model, "done": result}, random_seed=1, **OPTIONS)
    pd.testing.assert_frame_equal(table.drop(columns="seconds"), again.drop(columns="seconds"))


def test_one_seed_gives_each_model_its_own_stream():
    model, _ = regression(2)
    table = compare({"a": model, "b": model}, random_seed=1, **OPTIONS)
    assert table["log_evidence"].iloc[0] != table["log_evidence"].iloc[1]


def test_target_se_adds_chains():
    model, _ = regression(2)
    options = {**OPTIONS, "draws": 20}
    first = compare({"a": model}, random_seed=1, **options)["standard_error"].iloc[0]
    target = first / 1.5
    table = compare({"a": model}, random_seed=1, target_se=target, **options)
    assert table["standard_error"].iloc[0] <= target


def test_each_model_has_its_own_checkpoint(tmp_path):
    models = {"a": location(False)[0], "b/c": location(False)[0]}
    options = {**OPTIONS, "draws": 20, "random_seed": 1, "checkpoint": tmp_path}
    first = compare(models, **options)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["0-a", "1-b_c"]
    again = compare(models, resume=True, **options)
    assert again["log_evidence"].tolist() == first["log_evidence"].tolist()


def test_verdict_is_read_from_a_result():
    result = pymc_arm.sample_path(GaussianChain([0.1, 0.2]), draws=20, progressbar=False)
    result.attrs["verdict"] = "good"
    assert compare({"a": result})["verdict"].tolist() == ["good"]


def test_zero_evidence():
    nothing = Evidence(-math.inf, math.inf, 1)
    table = compare({"a": Evidence(-1.0, 0.1, 3), "b": nothing})
    assert table["probability"].tolist() == [1.0, 0.0]
    assert table["probability_low"].tolist() == [0.0, 0.0]
    assert table["settled"].tolist() == [False, True]
    factor = bayes_factor(Evidence(-1.0, 0.1, 3), nothing)
    assert factor.value == math.inf
    assert factor.strength() == "unknown"
    assert "unknown error" in str(factor)
    with pytest.raises(ValueError, match="No model has positive"):
        compare({"a": nothing, "b": nothing})


@pytest.mark.parametrize("log", [1e5, -1e5, 709.9, -745.2])
def test_never_an_overflow(log):
    factor = bayes_factor(Evidence(log, 0.1, 3), Evidence(0.0, 0.1, 3), prior_odds=2.0)
    assert factor.log == log
    assert factor.log10 == pytest.approx(log / math.log(10))
    assert factor.log_posterior_odds == pytest.approx(log + math.log(2))
    for value in (factor.value, factor.posterior_odds, *factor.interval()):
        assert value >= 0
    assert factor.probability in (0.0, 1.0)
    assert f"e+{int(abs(factor.log10))}" in str(factor)


def test_posterior_odds():
    factor = bayes_factor(Evidence(math.log(6), 0, 3), Evidence(0, 0, 3), prior_odds=0.5)
    assert factor.posterior_odds == pytest.approx(3)
    assert factor.probability == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("factor", "kass_raftery", "jeffreys"),
    [
        (2, "not worth more than a bare mention", "not worth more than a bare mention"),
        (5, "positive", "substantial"),
        (15, "positive", "strong"),
        (50, "strong", "very strong"),
        (120, "strong", "decisive"),
        (200, "very strong", "decisive"),
    ],
)
def test_words(factor, kass_raftery, jeffreys):
    for log in (math.log(factor), -math.log(factor)):
        exact = BayesFactor(log, 0.0, math.inf)
        assert exact.strength() == kass_raftery
        assert exact.strength("jeffreys") == jeffreys


def test_words_say_how_sure_they_are():
    assert BayesFactor(3.0, 0.5, 10).strength() == "positive to strong"
    assert BayesFactor(0.5, 0.5, 10).strength() == "not worth more than a bare mention to positive"
    unsure = BayesFactor(0.5, 0.5, 10, "a", "b")
    assert not unsure.settled
    assert str(unsure).startswith("The data lean towards a over b")
    sure = BayesFactor(-4.0, 0.1, 10, "a", "b", scale="jeffreys")
    assert str(sure).startswith("The data favour b over a: Bayes factor 54.6")
    assert "Jeffreys: very strong" in str(sure)


def test_errors_name_the_argument():
    one = Evidence(0.0, 0.0, 3)
    with pytest.raises(ValueError, match="scale='bayes'"):
        bayes_factor(one, one, scale="bayes")
    with pytest.raises(ValueError, match="prior_odds=-1"):
        bayes_factor(one, one, prior_odds=-1)
    with pytest.raises(ValueError, match="models is empty"):
        compare({})
    with pytest.raises(TypeError, match="draws"):
        compare({"a": one}, draws=10)
    with pytest.raises(ValueError, match="target_se=0"):
        compare({"a": location(True)[0]}, target_se=0)


def stored(values, chains, dims=("chain",)):
    """Return a result that stores log Z as given, with a posterior of some chains."""
    posterior = xr.Dataset({"x": (("chain", "draw"), np.zeros((chains, 5)))})
    statistics = xr.Dataset({"log_marginal_likelihood": (dims, values)})
    statistics.attrs["_t_sampling"] = 1.5
    return make_tree({"posterior": posterior, "sample_stats": statistics}, {})


def ragged(*rows):
    array = np.empty(len(rows), dtype=object)
    array[:] = [list(row) for row in rows]
    return array


NAN = math.nan
SHAPES = {
    "floats": ([-1.0, -1.2], 2, ("chain",)),
    "rows of stages": ([[NAN, NAN, -1.0], [NAN, NAN, -1.2]], 2, ("chain", "draw")),
    "object rows": (np.array([[NAN, -1.0], [NAN, -1.2]], object), 2, ("chain", "stage")),
    "lists": (ragged([NAN, -1.0], [NAN, NAN, -1.2]), 2, ("chain",)),
    "lists as draws": (ragged([NAN, -1.0], [NAN, NAN, -1.2])[None], 2, ("chain", "draw")),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_stored_shapes_of_sample_smc(shape):
    values, chains, dims = SHAPES[shape]
    evidence = read_evidence(stored(values, chains, dims))
    assert evidence == pool([-1.0, -1.2], [0.0, 0.0])


@pytest.mark.parametrize("dims", [("chain",), ("chain", "draw")])
def test_stages_of_one_chain_are_not_chains(dims):
    values = np.array([NAN, NAN, -1.0])
    result = stored(values if len(dims) == 1 else values[None], 1, dims)
    evidence = read_evidence(result)
    assert evidence.log_evidence == -1.0
    assert evidence.standard_error == math.inf
    table = compare({"a": result, "b": Evidence(-2.0, 0.1, 3)})
    assert table["settled"].tolist() == [False, True]
    assert table.loc["a", "seconds"] == 1.5


@pytest.mark.parametrize("chains", [1, 2])
def test_sample_smc_itself(chains):
    model, exact = location(False)
    with model, pytest.MonkeyPatch.context() as patch:
        patch.setattr("pymc.smc.sampling.run_convergence_checks", lambda *_: [])
        result = pm.sample_smc(200, chains=chains, cores=1, random_seed=1, progressbar=False)
    assert read_evidence(result).log_evidence == pytest.approx(exact, abs=0.5)
    factor = bayes_factor(result, Evidence(exact, 0.0, math.inf))
    assert math.isinf(factor.standard_error) == (chains == 1)


def test_read_back_from_a_file(tmp_path):
    result = pymc_arm.sample_path(GaussianChain([0.1, 0.2]), draws=20, progressbar=False)
    result.to_netcdf(str(tmp_path / "result.nc"))
    back = load(str(tmp_path / "result.nc"))
    assert read_evidence(back) == read_evidence(result)
    # Some ways of reading lose the attributes of the root; the group has a copy.
    back.attrs.clear()
    assert read_evidence(back) == read_evidence(result)


def test_nothing_to_read():
    with pytest.raises(ValueError, match="no log_marginal_likelihood"):
        read_evidence(make_tree({"posterior": xr.Dataset()}, {}))
    with pytest.raises(ValueError, match="nothing but NaN"):
        read_evidence(stored([NAN, NAN], 2))


def test_probabilities_with_an_exact_log_evidence():
    exact = Evidence(-1.0, 0.0, math.inf)
    table = compare({"a": exact, "b": Evidence(-1.0, 0.1, math.inf)})
    assert table["probability"].tolist() == pytest.approx([0.5, 0.5])
    assert np.all(np.isfinite(table[["probability_low", "probability_high"]]))
