from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

import pymc_arm


@cache
def coin() -> pm.Model:
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1)
        pm.Binomial("y", n=10, p=p, observed=7)
    return model


@cache
def schools() -> pm.Model:
    effects = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    errors = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    with pm.Model(coords={"school": list("ABCDEFGH")}) as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        theta = pm.Normal("theta", mu, tau, dims="school")
        pm.Deterministic("shrinkage", 1 / (1 + tau**2))
        pm.Normal("y", theta, errors, observed=effects, dims="school")
    return model


def quick(model: pm.Model, **options: object) -> object:
    defaults = {"draws": 200, "random_seed": 3, "progressbar": False}
    return pymc_arm.sample(model, **{**defaults, **options})


def test_model_is_taken_from_the_context() -> None:
    with coin():
        idata = pymc_arm.sample(draws=200, random_seed=3, progressbar=False)
    assert abs(idata.attrs["log_marginal_likelihood"] + np.log(11)) < 0.01


def test_a_model_without_free_variables_is_exact() -> None:
    with pm.Model() as model:
        pm.Binomial("y", n=10, p=0.5, observed=7)
    attributes = quick(model).attrs
    assert attributes["log_marginal_likelihood"] == pytest.approx(np.log(120 / 1024))
    assert attributes["log_marginal_likelihood_se"] == 0.0


def test_posterior_has_dims_coords_and_deterministics() -> None:
    posterior = quick(schools())["posterior"]
    assert posterior["theta"].dims == ("chain", "draw", "school")
    assert posterior["school"].values.tolist() == list("ABCDEFGH")
    assert posterior["shrinkage"].dims == ("chain", "draw")
    assert posterior.sizes["chain"] == 4
    assert posterior.sizes["draw"] == 200
    assert bool((posterior["tau"] > 0).all())
    expected = 1 / (1 + posterior["tau"] ** 2)
    np.testing.assert_allclose(posterior["shrinkage"], expected)


def test_same_seed_same_result_on_any_number_of_cores() -> None:
    one, two = (quick(schools(), cores=cores) for cores in (1, 2))
    for name in ("mu", "tau", "theta"):
        np.testing.assert_array_equal(one["posterior"][name], two["posterior"][name])
    assert one.attrs["log_marginal_likelihood"] == two.attrs["log_marginal_likelihood"]


def test_initval_does_not_touch_the_result() -> None:
    # pm.sample_smc says -0.9189 here: it starts every particle at initval.
    results = []
    for initval in (None, 1.0):
        with pm.Model() as model:
            mean = pm.Normal("mean", 0, 1, initval=initval)
            pm.Normal("y", mean, 1, observed=1.0)
        results.append(quick(model).attrs["log_marginal_likelihood"])
    assert results[0] == results[1]
    assert abs(results[0] + 1.5155) < 0.01


def test_plan_of_a_hierarchical_model() -> None:
    plan = pymc_arm.plan(schools())
    assert [step.method for step in plan.steps] == ["quadrature"] * 8
    assert plan.steps[2].label == "theta[2]"
    assert plan.steps[2].data_labels == ("y[2]",)
    assert "theta[7]" in str(plan)


def test_order_can_be_chosen() -> None:
    plan = pymc_arm.plan(schools(), order=[("theta", 5), ("theta", 0)])
    assert [step.label for step in plan.steps[:2]] == ["theta[5]", "theta[0]"]
    assert len(pymc_arm.plan(schools(), order="random").steps) == 8


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (["missing"], "order names 'missing'"),
        ([("theta", 9)], r"theta\[9\], but theta has shape \(8,\)"),
        (["theta", ("theta", 1)], "twice"),
        ("sideways", "order='sideways'"),
    ],
)
def test_a_wrong_order_is_refused(order: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pymc_arm.plan(schools(), order=order)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_backends_agree(backend: str) -> None:
    idata = quick(coin(), backend=backend)
    assert idata.attrs["backend"] == backend
    assert abs(idata.attrs["log_marginal_likelihood"] + np.log(11)) < 0.01


@pytest.mark.parametrize("variant", ["arm", "rm", "anticipate"])
def test_variants(variant: str) -> None:
    idata = quick(schools(), variant=variant)
    error = idata.attrs["log_marginal_likelihood"] + 31.3114
    assert abs(error) < 5 * idata.attrs["log_marginal_likelihood_se"]


def test_reseed_needs_a_sampler() -> None:
    with pytest.raises(ValueError, match="no sampler of its own"):
        quick(schools(), variant="reseed", threshold=1.0)


@pytest.mark.parametrize("allocation", ["pilot", "optimal"])
def test_allocations(allocation: str) -> None:
    idata = quick(schools(), allocation=allocation)
    error = idata.attrs["log_marginal_likelihood"] + 31.3114
    assert abs(error) < 5 * idata.attrs["log_marginal_likelihood_se"]


def test_refined_estimate_is_the_better_one() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3))
    with pm.Model() as model:
        slopes = pm.Normal("slopes", 0, 2, shape=3)
        pm.Bernoulli("y", logit_p=x @ slopes, observed=rng.integers(0, 2, 50))
    attributes = quick(model, start="prior").attrs
    assert attributes["estimate"] == "refine"
    error = attributes["refine_log_marginal_likelihood_se"]
    assert error < 0.3 * attributes["explore_log_marginal_likelihood_se"]
    plain = quick(model, start="prior", refine=False).attrs
    assert plain["estimate"] == "explore"
    assert "refine_log_marginal_likelihood" not in plain


@pytest.mark.filterwarnings("ignore::pymc_arm.TrustWarning")
@pytest.mark.parametrize("height", [0.0, 3e5])
def test_a_missed_mode_is_reported_without_refining(height) -> None:
    """Of the two modes the far one holds nearly everything, or there is none."""
    with pm.Model() as model:
        theta = pm.Normal("theta", 0.0, 2.0)
        far = pt.log(height) + pm.logp(pm.Normal.dist(9.5, 0.1), theta)
        near = pm.logp(pm.Normal.dist(-1.0, 0.6), theta)
        pm.Potential("likelihood", pt.logaddexp(near, far) if height else near)
    attributes = quick(model, start="prior", refine=False, random_seed=1).attrs
    assert attributes["estimate"] == "explore"
    assert attributes["verdict"] == ("failed" if height else "ok")
    assert ("There is a mode" in attributes["verdict_reasons"]) == bool(height)


def test_one_chain_predicts_its_error() -> None:
    attributes = quick(schools(), chains=1).attrs
    assert 0 < attributes["log_marginal_likelihood_se"] < 0.3


def test_log_likelihood_on_request() -> None:
    idata = quick(coin(), idata_kwargs={"log_likelihood": True})
    assert idata["log_likelihood"]["y"].shape[:2] == (4, 200)


def test_ordered_prior_is_renormalised() -> None:
    # The ordered transform keeps half of the mass of two exchangeable means.
    with pm.Model() as model:
        pm.Normal("means", 0, 1, shape=2, transform=pm.distributions.transforms.ordered)
        pm.Potential("no_data", pt.constant(0.0))
    attributes = quick(model, draws=400).attrs
    assert "ordered" in attributes["corrections"]
    assert abs(attributes["explore_log_marginal_likelihood"]) < 1e-6
    error = attributes["log_marginal_likelihood_se"]
    assert abs(attributes["log_marginal_likelihood"]) < 4 * error < 0.01


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("eta", [1.0, 2.5])
def test_lkj_prior_is_renormalised(dimension: int, eta: float) -> None:
    # The log-density, corrected, must integrate to one over forward draws of another scale:
    # E[f(x) / q(x)] under q, with q a wide Student-t around the prior draws.
    from pymc_arm.algorithm.resampling import log_mean_exp
    from pymc_arm.estimation.approximation import SinhArcsinhStudent
    from pymc_arm.models.compiled import compile_model

    with pm.Model() as model:
        sd_dist = pm.Exponential.dist(1.0, size=dimension)
        pm.LKJCholeskyCov("chol", n=dimension, eta=eta, sd_dist=sd_dist, compute_corr=False)
        pm.Potential("no_data", pt.constant(0.0))
    path = compile_model(model, backend="numpy")
    rng = np.random.default_rng(5)
    values = path.prior.draw(rng, 4000)
    points = path.plan.layout.ravel(values, 4000)
    q = SinhArcsinhStudent.fit(points)
    draws = q.draw(rng, 4000)
    log_weights = path.log_density(draws) - q.log_density(draws)
    weights = np.exp(log_weights)
    standard_error = weights.std() / weights.mean() / np.sqrt(len(weights))
    assert abs(log_mean_exp(log_weights)) < 4 * standard_error


@pytest.mark.parametrize("labels_first", [True, False])
def test_labels_come_in_one_by_one_in_whatever_order_they_are_declared(labels_first) -> None:
    heights = np.array([-1.9, 2.2, 1.8])
    with pm.Model() as model:
        if labels_first:
            label = pm.Bernoulli("label", 0.3, shape=3)
            centers = pm.Normal("centers", [-2.0, 2.0], 1.0)
        else:
            centers = pm.Normal("centers", [-2.0, 2.0], 1.0)
            label = pm.Bernoulli("label", 0.3, shape=3)
        pm.Normal("height", centers[label], 0.5, observed=heights)
    plan = pymc_arm.plan(model, marginalize=False)
    assert [step.label for step in plan.steps] == ["label[0]", "label[1]", "label[2]"]
    assert [step.data_labels for step in plan.steps] == [(f"height[{i}]",) for i in range(3)]


@pytest.mark.parametrize("shape", [0, (0, 3), (2, 0)])
def test_a_variable_without_elements_changes_nothing(shape: int | tuple[int, ...]) -> None:
    """So does a group of effects of which the data have none; two observations are a density."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2)
        empty = pm.Normal("empty", 0, 1, shape=shape)
        pm.Deterministic("odd", empty + mean)
        pm.Normal("y", mean + empty.sum(), 1, observed=[1.0, 2.0])
    found = quick(model)
    exact = stats.multivariate_normal.logpdf([1.0, 2.0], np.zeros(2), np.eye(2) + 4)
    attributes = found.attrs
    error = abs(attributes["log_marginal_likelihood"] - exact)
    assert error < max(5 * attributes["log_marginal_likelihood_se"], 1e-3)
    expected = (shape,) if isinstance(shape, int) else shape
    assert found["posterior"]["empty"].shape[2:] == expected
