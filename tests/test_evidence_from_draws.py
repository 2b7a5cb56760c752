"""Log Z from draws that are there already: against exact answers, and what must be refused.

Draws are exact ones made with NumPy where the posterior is known. Statistical comparisons are in
standard errors, with a false alarm of a fixed seed once in a thousand or less.
"""

import warnings
from functools import cache
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_arm
from pymc_arm import DrawsError, TrustWarning
from pymc_arm._compat import get_group, has_group, load, make_tree
from pymc_arm.comparison import read_evidence
from pymc_arm.models.bambi import undo_bambi
from pymc_arm.running.summary import RunSummary

DATA = np.random.default_rng(3).normal(1.0, 1.0, 12)


def tree(draws, attrs=None, **groups):
    """Return draws by name, (chain, draw, ...), as a sampler would return them."""
    posterior = xr.Dataset(
        {
            name: (("chain", "draw", *(f"{name}_dim_{k}" for k in range(values.ndim - 2))), values)
            for name, values in draws.items()
        },
        coords={"chain": range(len(next(iter(draws.values()))))},
    )
    return make_tree({"posterior": posterior, **groups}, attrs or {})


def diverging(flags):
    return {"sample_stats": xr.Dataset({"diverging": (("chain", "draw"), flags)})}


def observed(**values):
    columns = {n: ((f"{n}_dim_0",), np.asarray(v, dtype=float)) for n, v in values.items()}
    return {"observed_data": xr.Dataset(columns)}


def estimate(idata, model, **options):
    """Return the result, whatever the verdict."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrustWarning)
        options = {"random_seed": 1, "progressbar": False, "cores": 1, **options}
        return pymc_arm.evidence(idata, model, **options)


def z_score(result, exact):
    found = read_evidence(result)
    return (found.log_evidence - exact) / found.standard_error


def coin(heads=7):
    with pm.Model() as model:
        p = pm.Beta("p", 2.0, 3.0)
        pm.Binomial("y", n=10, p=p, observed=heads)
    return model


def coin_draws(shape=(4, 500), seed=1):
    return np.random.default_rng(seed).beta(9.0, 6.0, shape)


COIN = stats.betabinom.logpmf(7, 10, 2.0, 3.0)


@pytest.fixture(scope="module")
def coin_model():
    return coin()


def location(data=DATA, size=3):
    """Means of independent normal data: each has the posterior of its column."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0, shape=size)
        pm.Normal("y", mu, 1.0, observed=np.tile(data[:, None], size))
    return model


def location_draws(shape=(4, 500), size=3, data=DATA, seed=1, persistence=0.0):
    """Draws of the posterior, exact, or as an autoregression whose stationary law is exact."""
    rng = np.random.default_rng(seed)
    variance = 1 / (1 / 4 + len(data))
    noise = rng.normal(size=(*shape, size))
    for k in range(1, shape[1] if persistence else 0):
        innovation = np.sqrt(1 - persistence**2) * noise[:, k]
        noise[:, k] = persistence * noise[:, k - 1] + innovation
    return variance * data.sum() + np.sqrt(variance) * noise


def location_evidence(data=DATA, size=3):
    covariance = np.eye(len(data)) + 4.0
    return size * stats.multivariate_normal.logpdf(data, np.zeros(len(data)), covariance)


@pytest.fixture(scope="module")
def location_model():
    return location()


# Results


def test_the_result_is_that_of_sample(coin_model):
    result = pymc_arm.evidence(tree({"p": coin_draws()}), coin_model, random_seed=1)
    assert abs(z_score(result, COIN)) < 4
    assert result.attrs["log_marginal_likelihood_se"] < 0.002
    assert result.attrs["verdict"] == "ok"
    assert pymc_arm.diagnose(result).status == "ok"
    sampled = pymc_arm.sample(coin_model, draws=100, chains=2, random_seed=1, progressbar=False)
    for group in ("posterior", "sample_stats", "arm", "observed_data"):
        own, theirs = get_group(result, group), get_group(sampled, group)
        assert set(own.data_vars) == set(theirs.data_vars), group
    # A bridge has neither settings, nor exploring chains to compare.
    settings = set(vars(pymc_arm.Settings())) | {"allocation", "guard"}
    about_exploring = {"explore_r_hat", "explore_r_hat_variable", "explore_ess"}
    absent = set(sampled.attrs) - set(result.attrs) - settings - about_exploring
    assert absent <= {"independent_draws", "particles_refuted", "disagreement"}
    assert np.isnan(result.attrs["explore_log_marginal_likelihood"])


def test_other_functions_take_it(coin_model, tmp_path):
    result = estimate(tree({"p": coin_draws()}), coin_model)
    with pm.Model() as fair:
        pm.Binomial("y", n=10, p=0.5, observed=7)
    other = pymc_arm.sample(fair, draws=50, random_seed=1, progressbar=False)
    exact = COIN - stats.binom.logpmf(7, 10, 0.5)
    assert pymc_arm.bayes_factor(result, other).log == pytest.approx(exact, abs=0.01)
    table = pymc_arm.compare({"beta": result, "fair": other})
    assert table.loc["beta", "verdict"] == "ok"
    result.to_netcdf(str(tmp_path / "result.nc"))
    back = load(str(tmp_path / "result.nc"))
    assert RunSummary.from_attrs(back.attrs) == RunSummary.from_attrs(result.attrs)
    assert pymc_arm.diagnose(back) == pymc_arm.diagnose(result)


def test_plots_take_it(coin_model):
    pytest.importorskip("matplotlib")
    result = estimate(tree({"p": coin_draws()}), coin_model)
    assert len(pymc_arm.plots.plot_run(result)) == 4
    assert pymc_arm.plots.plot_estimates(result).get_ylabel() == "log marginal likelihood"


def test_one_seed_one_answer(coin_model):
    idata = tree({"p": coin_draws()})
    first, second = (estimate(idata, coin_model, cores=cores) for cores in (1, 2))
    assert first.attrs["log_marginal_likelihood"] == second.attrs["log_marginal_likelihood"]


def test_draws_come_back_as_they_were(coin_model):
    draws = coin_draws()
    result = estimate(tree({"p": draws, "odds": draws / (1 - draws)}), coin_model)
    np.testing.assert_array_equal(get_group(result, "posterior")["p"], draws)
    assert "odds" in get_group(result, "posterior")


def test_a_model_of_the_context(coin_model):
    with coin_model:
        result = pymc_arm.evidence(tree({"p": coin_draws()}), random_seed=1, cores=1)
    assert abs(z_score(result, COIN)) < 4


def test_data_trees_and_results_of_our_own(coin_model):
    groups = {"posterior": get_group(tree({"p": coin_draws()}), "posterior")}
    assert abs(z_score(estimate(xr.DataTree.from_dict(groups), coin_model), COIN)) < 4
    sampled = pymc_arm.sample(coin_model, draws=400, random_seed=1, progressbar=False)
    again = estimate(sampled, coin_model)
    assert abs(z_score(again, COIN)) < 4
    assert again.attrs["ess"] <= sampled.attrs["independent_draws"]


# Exact answers


def make_normal():
    """Mean and variance of normal data: Student-t predictions, one after the other."""
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 3.0, 2.0)
        mean = pm.Normal("mean", 0.0, pm.math.sqrt(variance / 0.5))
        pm.Normal("y", mean, pm.math.sqrt(variance), observed=DATA)
    n, k = len(DATA), 0.5 + len(DATA)
    center = DATA.sum() / k
    scale = 2.0 + 0.5 * (DATA**2).sum() - 0.5 * k * center**2
    rng = np.random.default_rng(1)
    variance = stats.invgamma.rvs(3.0 + n / 2, scale=scale, size=(4, 500), random_state=rng)
    draws = {
        "variance": variance,
        "mean": center + np.sqrt(variance / k) * rng.normal(size=(4, 500)),
    }
    shape = 1.0 / 3.0 * (np.eye(n) + 2.0) * 2.0
    return model, draws, stats.multivariate_t.logpdf(DATA, np.zeros(n), shape, df=6)


def make_simplex():
    counts = np.array([3, 1, 6, 2])
    with pm.Model() as model:
        share = pm.Dirichlet("share", np.ones(4))
        pm.Multinomial("counts", n=12, p=share, observed=counts)
    draws = np.random.default_rng(1).dirichlet(1.0 + counts, size=(4, 500))
    return model, {"share": draws}, stats.dirichlet_multinomial.logpmf(counts, np.ones(4), 12)


def make_random_bounds():
    """Uniform within a random bound: the transform of one variable needs the draws of another."""
    with pm.Model() as model:
        bound = pm.Uniform("bound", 1.0, 3.0)
        place = pm.Uniform("place", 0.0, bound)
        pm.Potential("tilt", pm.math.log(place))
    # p(bound) is proportional to the integral of x / b over (0, b) = b / 2; x given b to x.
    rng = np.random.default_rng(1)
    bound = np.sqrt(1 + 8 * rng.random((4, 500)))
    draws = {"bound": bound, "place": bound * np.sqrt(rng.random((4, 500)))}
    return model, draws, 0.0  # the mean of b / 2 over (1, 3) is one


def make_missing():
    """A missing value is a free variable, which PyMC calls ``y_unobserved``."""
    data = np.ma.masked_invalid([*DATA[:4], np.nan])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pm.Model() as model:
            mu = pm.Normal("mu", 0.0, 2.0)
            pm.Normal("y", mu, 1.0, observed=data)
    mu = location_draws(size=1, data=DATA[:4])
    filled = mu + np.random.default_rng(2).normal(size=mu.shape)
    draws = {"mu": mu[..., 0], "y_unobserved": filled}
    return model, draws, location_evidence(DATA[:4], 1)


@cache
def make_labels():
    """Labels of a mixture are summed, each given the rest."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0)
        label = pm.Bernoulli("label", 0.3, shape=3)
        pm.Normal("y", mu + 3.0 * label, 1.0, observed=DATA[:3])
    grid = np.array(np.meshgrid(*[[0, 1]] * 3)).reshape(3, -1).T
    covariance = np.eye(3) + 4.0
    logs = stats.multivariate_normal.logpdf(DATA[:3] - 3 * grid, np.zeros(3), covariance)
    logs = logs + stats.bernoulli.logpmf(grid, 0.3).sum(axis=1)
    exact = np.logaddexp.reduce(logs)
    rng = np.random.default_rng(1)
    labels = grid[rng.choice(8, p=np.exp(logs - exact), size=(4, 500))]
    center = (DATA[:3] - 3 * labels).sum(axis=-1) / 3.25
    draws = {"mu": center + rng.normal(size=(4, 500)) / np.sqrt(3.25), "label": labels}
    return model, draws, exact


def make_ordered():
    """Ordered means: PyMC's prior has a half of its mass there, and log Z is corrected for it."""
    with pm.Model() as model:
        mu = pm.Normal(
            "mu", 0.0, 1.0, shape=2, transform=pm.distributions.transforms.ordered, initval=[-1, 1]
        )
        pm.Normal("y", mu.sum(), 1.0, observed=1.0)
    covariance = np.linalg.inv(np.eye(2) + 1.0)
    rng = np.random.default_rng(1)
    draws = rng.multivariate_normal(covariance @ np.ones(2), covariance, size=(4, 500))
    return model, {"mu": np.sort(draws, axis=-1)}, stats.norm.logpdf(1.0, 0.0, np.sqrt(3.0))


@pytest.mark.parametrize(
    "make",
    [make_normal, make_simplex, make_random_bounds, make_missing, make_labels, make_ordered],
    ids=lambda make: make.__name__.removeprefix("make_"),
)
def test_exact_draws_give_exact_answers(make):
    model, draws, exact = make()
    result = estimate(tree(draws), model)
    assert abs(z_score(result, exact)) < 4
    assert result.attrs["log_marginal_likelihood_se"] < 0.03
    assert result.attrs["verdict"] == "ok", result.attrs["verdict_reasons"]


def test_draws_of_nuts():
    """One run of NUTS, with divergences, statistics and all that a sampler stores."""
    model = coin()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = pm.sample(
            300, tune=300, chains=2, cores=1, random_seed=1, progressbar=False, model=model
        )
    result = estimate(idata, model)
    assert abs(z_score(result, COIN)) < 4
    assert has_group(idata, "sample_stats")
    assert result.attrs["divergences"] == 0


@pytest.mark.one_version
@pytest.mark.statistical
def test_errors_are_right_for_autocorrelated_draws(location_model):
    """Chi-squared of 30 z-scores at 1e-4; draws that follow each other count as they should."""
    exact = location_evidence()
    for persistence in (0.0, 0.7):
        scores = []
        for seed in range(30):
            draws = location_draws((2, 400), persistence=persistence, seed=seed)
            result = estimate(tree({"mu": draws}), location_model, random_seed=seed)
            scores.append(z_score(result, exact))
        # The standard errors have about ten degrees of freedom each.
        limit = stats.chi2.ppf(1 - 1e-4, 30) * 1.25
        assert np.square(scores).sum() < limit, persistence
        assert np.square(scores).sum() > stats.chi2.ppf(1e-4, 30), persistence


@pytest.mark.one_version
def test_autocorrelation_makes_the_error_larger(location_model):
    errors = [
        estimate(tree({"mu": location_draws(persistence=p)}), location_model).attrs
        for p in (0.0, 0.9)
    ]
    sizes = [one["ess"] for one in errors]
    assert sizes[1] < 0.2 * sizes[0]
    variances = [one["log_marginal_likelihood_se"] ** 2 for one in errors]
    assert variances[1] > 2 * variances[0]


def test_draws_of_bambi():
    """Bambi moves the intercept of its draws to where predictors are zero: it is moved back."""
    bambi = pytest.importorskip("bambi")
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": rng.normal(5.0, 1.0, size=20)})
    data["y"] = 0.5 * data["x"] + rng.normal(size=20)
    priors = {name: bambi.Prior("Normal", mu=0, sigma=1) for name in ("x", "Intercept")}
    model = bambi.Model("y ~ x", data, priors={**priors, "sigma": 1})
    model.build()
    x, y = data["x"].to_numpy(), data["y"].to_numpy()
    design = np.column_stack([np.ones(20), x - x.mean()])
    covariance = np.linalg.inv(np.eye(2) + design.T @ design)
    centered, slope = np.moveaxis(
        rng.multivariate_normal(covariance @ design.T @ y, covariance, size=(4, 500)), -1, 0
    )
    draws = tree({"Intercept": centered - slope * x.mean(), "x": slope})
    draws["posterior"].attrs["modeling_interface"] = "bambi"
    exact = stats.multivariate_normal.logpdf(y, np.zeros(20), np.eye(20) + design @ design.T)
    result = estimate(draws, model)
    assert abs(z_score(result, exact)) < 4
    assert result.attrs["verdict"] == "ok"
    with pytest.raises(DrawsError, match=r"give the model of Bambi itself"):
        estimate(draws, model.backend.model)


def test_standardised_effects_that_bambi_left_out():
    """A group effect over its standard deviation is the variable that was sampled."""
    with pm.Model() as model:
        scale = pm.HalfNormal("1|g_sigma")
        offset = pm.Normal("1|g_offset", shape=2)
        effect = pm.Deterministic("1|g", offset * scale)
        pm.Normal("y", effect, 1.0, observed=[0.0, 1.0])
    scale = np.array([[0.5, 2.0]])
    draws = tree({"1|g_sigma": scale, "1|g": scale[..., None] * np.array([1.0, -1.0])})
    fitted = SimpleNamespace(
        backend=SimpleNamespace(model=model, distributional_components={}), center_predictors=True
    )
    found, behind = undo_bambi(get_group(draws, "posterior"), fitted)
    assert behind is model
    np.testing.assert_allclose(found["1|g_offset"], np.broadcast_to([1.0, -1.0], (1, 2, 2)))
    fitted.backend.model = None
    with pytest.raises(DrawsError, match=r"is not built"):
        undo_bambi(get_group(draws, "posterior"), fitted)


# Dimensions and labels


@cache
def labelled():
    with pm.Model(coords={"school": ["a", "b", "c"]}) as model:
        effect = pm.Normal("effect", 0.0, 1.0, dims="school")
        pm.Normal("y", effect, 1.0, observed=[0.0, 3.0, -3.0], dims="school")
    return model


def labelled_draws(labels):
    noise = np.random.default_rng(1).normal(size=(4, 500, 3))
    values = np.array([0.0, 1.5, -1.5]) + np.sqrt(0.5) * noise
    array = xr.DataArray(
        values, dims=("chain", "draw", "school"), coords={"school": ["a", "b", "c"]}
    )
    return array.assign_coords(school=labels), stats.norm.logpdf(
        [0.0, 3.0, -3.0], 0.0, np.sqrt(2.0)
    ).sum()


def test_labels_in_another_order_are_put_in_order():
    array, exact = labelled_draws(["a", "b", "c"])
    shuffled = array.sel(school=["c", "a", "b"]).transpose("school", "draw", "chain")
    idata = make_tree({"posterior": xr.Dataset({"effect": shuffled})}, {})
    result = estimate(idata, labelled())
    assert abs(z_score(result, exact)) < 4
    assert result.attrs["verdict"] == "ok"


def test_other_labels_are_refused():
    array, _ = labelled_draws(["a", "b", "d"])
    idata = make_tree({"posterior": xr.Dataset({"effect": array})}, {})
    with pytest.raises(DrawsError, match=r"dimension 'school' of 'effect' differ: 'd' is not in"):
        estimate(idata, labelled())


# What is refused


REFUSED = {
    "no posterior": (
        lambda: make_tree(observed(y=[7.0]), {}),
        r"has no group 'posterior': give what pm.sample returned",
    ),
    "a dictionary": (lambda: {"p": coin_draws()}, r"dict has no group 'posterior'"),
    "a model": (lambda: coin(), r"Model has no group 'posterior': the draws come first"),
    "stacked": (
        lambda: make_tree({"posterior": xr.Dataset({"p": ("sample", coin_draws((200,)))})}, {}),
        r"no dimension 'chain'; its dimensions are sample",
    ),
    "a missing variable": (
        lambda: tree({"q": coin_draws()}),
        r"no draws of 'p', which the model leaves free; its variables are q",
    ),
    "another shape": (
        lambda: tree({"p": coin_draws((4, 100, 2))}),
        r"'p' has shape \(2,\) in the posterior and \(\) in the model",
    ),
    "off the support": (
        lambda: tree({"p": np.where(np.arange(100) == 7, 1.5, coin_draws((2, 100)))}),
        r"p is 1.5 in chain 0, draw 7, outside of the support .* \(transform 'logodds'\)",
    ),
    "on the edge": (
        lambda: tree({"p": np.where(np.arange(100) > 90, 1.0, coin_draws((2, 100)))}),
        r"p is 1 in chain 0, draw 91, on the edge of the support",
    ),
    "not a number": (
        lambda: tree({"p": np.where(np.arange(100) == 7, np.nan, coin_draws((2, 100)))}),
        r"p is nan in chain 0, draw 7, and not a finite number",
    ),
    "too few": (lambda: tree({"p": coin_draws((4, 20))}), r"There are 80 draws, 20 of each chain"),
    "all the same": (lambda: tree({"p": np.full((4, 100), 0.5)}), r"draws are all the same"),
    "other data": (
        lambda: tree({"p": coin_draws()}, **observed(y=[6.0])),
        r"not of this model's data: 'y' is 7 at \[0\] in the model, and 6 in observed_data",
    ),
    "more data": (
        lambda: tree({"p": coin_draws()}, **observed(y=[7.0, 7.0])),
        r"'y' has shape \(1,\) in the model, and \(2,\) in observed_data",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name_and_value(name, coin_model):
    make, message = REFUSED[name]
    with pytest.raises(DrawsError, match=message):
        estimate(make(), coin_model)


def test_impossible_draws_are_refused_by_the_term():
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Uniform("y", 0.0, pm.math.exp(x), observed=[0.5, 2.0])
    draws = np.random.default_rng(1).normal(2.0, 0.1, (2, 100))
    draws[1, 3] = 0.5
    with pytest.raises(DrawsError, match=r"density of 'y\[1\]' is zero .* in chain 1, draw 3"):
        estimate(tree({"x": draws}), model)


def test_values_of_discrete_variables_are_whole_numbers():
    model, draws, _ = make_labels()
    with pytest.raises(DrawsError, match=r"label\[0\] is 1.5 in chain 0, draw 0.* whole number"):
        estimate(tree({**draws, "label": draws["label"] + 0.5}), model)
    with pytest.raises(DrawsError, match=r"'label\[0\]' is 2 in chain 0, draw 0, where its prior"):
        estimate(tree({**draws, "label": np.full((4, 500, 3), 2)}), model)


def test_constants_that_were_changed_are_refused():
    with pm.Model() as model:
        x = pm.Data("x", [1.0, 2.0])
        slope = pm.Normal("slope")
        pm.Normal("y", slope * x, 1.0, observed=[1.0, 2.0])
    given = {"constant_data": xr.Dataset({"x": (("x_dim_0",), [1.0, 2.5])})}
    draws = np.random.default_rng(1).normal(size=(4, 100))
    with pytest.raises(DrawsError, match=r"'x' is 2 at \[1\] in the model, and 2.5 in constant_"):
        estimate(tree({"slope": draws}, **given), model)


def test_discrete_variables_that_depend_on_each_other_are_for_sample():
    with pm.Model() as model:
        first = pm.Bernoulli("first", 0.5)
        second = pm.Bernoulli("second", 0.2 + 0.5 * first)
        mu = pm.Normal("mu", second, 1.0)
        pm.Normal("y", mu, 1.0, observed=1.0)
    draws = {"first": np.ones((4, 50), int), "second": np.ones((4, 50), int)}
    with pytest.raises(DrawsError, match=r"\(first, second\) depend on each other.*sample\(model"):
        estimate(tree({**draws, "mu": np.zeros((4, 50))}), model)


def test_draws_far_from_the_posterior_are_refused(location_model):
    with pytest.raises(DrawsError, match=r"not where the posterior of this model is"):
        estimate(tree({"mu": location_draws() + 8.0}), location_model)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"cores": 0}, ValueError, r"cores=0 must be a whole number"),
        ({"random_seed": -1}, ValueError, r"random_seed=-1 is not a seed"),
        ({"backend": "fortran"}, ValueError, r"backend='fortran' is not one of"),
    ],
)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        estimate(tree({"p": coin_draws()}), coin(), **options)


def test_no_free_variables():
    with pm.Model() as model:
        pm.Normal("y", 0.0, 1.0, observed=1.0)
    with pytest.raises(DrawsError, match=r"no free variables"):
        estimate(tree({"p": coin_draws()}), model)


# What the verdict must see


def checks(result):
    return {reason.check for reason in pymc_arm.diagnose(result).reasons}


def test_one_chain_is_cut_in_time_and_never_ok(coin_model):
    with pytest.warns(TrustWarning, match="There is one chain only"):
        result = pymc_arm.evidence(tree({"p": coin_draws((1, 800))}), coin_model, random_seed=1)
    assert abs(z_score(result, COIN)) < 4
    assert checks(result) == {"one chain"}
    assert get_group(result, "sample_stats").sizes["chain"] == 4


def test_many_short_chains_share_parts(coin_model):
    result = estimate(tree({"p": coin_draws((40, 50))}), coin_model)
    assert abs(z_score(result, COIN)) < 4
    assert get_group(result, "sample_stats").sizes["chain"] == 8
    assert result.attrs["verdict"] == "ok"


def test_divergences(coin_model):
    flags = np.zeros((4, 500), dtype=bool)
    flags[2, 10:13] = True
    result = estimate(tree({"p": coin_draws()}, **diverging(flags)), coin_model)
    assert checks(result) == {"divergences"}
    assert "3 divergences in 2000 draws" in result.attrs["verdict_reasons"]
    assert checks(estimate(result, coin_model)) == {"divergences"}


def test_chains_that_have_not_mixed(location_model):
    result = estimate(tree({"mu": location_draws(persistence=0.97)}), location_model)
    assert {"R-hat", "few draws"} <= checks(result)


def test_few_draws_for_the_dimension():
    model, draws = location(size=50), location_draws((4, 25), size=50)
    result = estimate(tree({"mu": draws}), model)
    assert "few draws" in checks(result)
    assert "in 50 dimensions" in result.attrs["verdict_reasons"]


@cache
def two_modes():
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 5.0)
        left, right = (pm.logp(pm.Normal.dist(place, 0.5), x) for place in (-4.0, 4.0))
        pm.Potential("y", pm.math.logaddexp(np.log(0.3) + left, np.log(0.7) + right))
    height = stats.norm.logpdf(4.0, 0.0, np.sqrt(25.25))
    return model, height


def stuck(signs, seed=1):
    variance = 1 / (1 / 25 + 4)
    noise = np.random.default_rng(seed).normal(size=(len(signs), 400))
    return {"x": np.array(signs)[:, None] * 16 * variance + np.sqrt(variance) * noise}


def test_chains_in_different_modes():
    model, _ = two_modes()
    for signs in ([1, 1, -1, -1], [1, -1, -1, -1]):
        result = estimate(tree(stuck(signs)), model)
        assert "R-hat" in checks(result)
        assert result.attrs["verdict"] != "ok"


def test_a_mode_that_all_chains_have_missed():
    """The search finds it, and draws of q weigh it."""
    model, exact = two_modes()
    result = estimate(tree(stuck([-1, -1, -1, -1])), model)
    assert abs(z_score(result, exact)) < 4
    assert checks(result) == {"missed mode"}


def test_draws_of_other_data_without_a_trace_of_it(location_model):
    """Data half a posterior standard deviation away: draws of q tell."""
    moved = location_draws(data=DATA + 0.15)
    result = estimate(tree({"mu": moved}), location_model)
    assert "refuted" in checks(result)


# A path where a bridge is not enough


def test_a_poor_bridge_is_replaced_by_a_path(location_model, monkeypatch):
    monkeypatch.setattr("pymc_arm.evidence_from_draws.stands", lambda bridges: False)
    draws = tree({"mu": location_draws()})
    result = estimate(draws, location_model)
    assert result.attrs["bridged"] == 0
    assert result.attrs["divergences"] == 0
    assert checks(result) == {"by a path"}
    assert abs(z_score(result, location_evidence())) < 4
    np.testing.assert_array_equal(get_group(result, "posterior")["mu"], location_draws())
    assert estimate(draws, location_model, path=False).attrs["bridged"] == 1


def test_discrete_variables_have_no_path(monkeypatch):
    monkeypatch.setattr("pymc_arm.evidence_from_draws.stands", lambda bridges: False)
    model, draws, _ = make_labels()
    assert estimate(tree(draws), model).attrs["bridged"] == 1
