"""Free variables that no data depend on are left out, and drawn at the end."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.special import gammaln

import pymc_arm
from pymc_arm.models.barren import leave_out_barren
from pymc_arm.models.compiled import compile_model

IMPUTED = pytest.mark.filterwarnings("ignore:Data in .* contains missing values")
Y = np.array([1.2, 0.4, 2.1, 1.7, 0.9])


def _line(prediction: bool) -> pm.Model:
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2)
        sd = pm.HalfNormal("sd", 2)
        pm.Normal("y", mean, sd, observed=Y)
        if prediction:
            new = pm.Normal("new", mean, sd, shape=3)
            pm.Deterministic("doubled", 2 * new)
            pm.Poisson("count", pt.exp(mean))
            pm.Deterministic("squared", mean**2)
    return model


def test_log_z_is_that_of_the_rest_to_the_last_bit() -> None:
    options = {"draws": 200, "chains": 2, "random_seed": 1, "progressbar": False}
    with_new, without = (pymc_arm.sample(_line(p), **options) for p in (True, False))
    name = "log_marginal_likelihood"
    assert with_new.attrs[name] == without.attrs[name]
    posterior = with_new.posterior
    assert posterior["new"].shape == (2, 200, 3)
    assert posterior["count"].dtype.kind == "i"
    np.testing.assert_allclose(posterior["doubled"], 2 * posterior["new"])
    np.testing.assert_allclose(posterior["squared"], posterior["mean"] ** 2)


def test_draws_are_those_of_the_prediction() -> None:
    # mean | y is normal: new has its mean, and its variance plus one. 2000 draws of three elements,
    # four standard errors each for four figures: a false alarm in 4000.
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2)
        pm.Normal("y", mean, 1, observed=Y)
        pm.Normal("new", mean, 1, shape=3)
    idata = pymc_arm.sample(model, draws=1000, chains=2, random_seed=2, progressbar=False)
    new = np.asarray(idata.posterior["new"].values).reshape(-1, 3)
    variance = 1 / (len(Y) + 0.25)
    assert abs(new[:, 0].mean() - Y.sum() * variance) < 4 * np.sqrt((1 + variance) / 2000)
    assert abs(new[:, 1].var() / (1 + variance) - 1) < 4 * np.sqrt(2 / 2000)
    # Elements share the mean, and nothing else; rows share nothing.
    found = np.corrcoef(new.T)[0, 1]
    assert abs(found - variance / (1 + variance)) < 4 / np.sqrt(2000)
    assert abs(np.corrcoef(new[1:, 0], new[:-1, 0])[0, 1]) < 4 / np.sqrt(2000)


@IMPUTED
def test_missing_counts_leave_a_gradient() -> None:
    counts = np.ma.masked_equal([4, 5, -1, 0, 1, 4, 3, -1, 0, 6], -1)
    with pm.Model() as model:
        rate = pm.Exponential("rate", 1)
        pm.Poisson("count", rate, observed=counts)
    path = compile_model(model, marginalize="auto")
    assert [slot.name for slot in path.plan.layout.slots] == ["rate"]
    assert "drawn at the end: count_unobserved" in str(path.plan)
    idata = pymc_arm.sample(model, draws=300, chains=2, random_seed=1, progressbar=False)
    # Eight counts that add up to 23: a closed form.
    seen = np.array([4, 5, 0, 1, 4, 3, 0, 6])
    exact = gammaln(1 + seen.sum()) - (1 + seen.sum()) * np.log(9) - gammaln(seen + 1).sum()
    assert abs(idata.attrs["log_marginal_likelihood"] - exact) < 0.01
    whole = np.asarray(idata.posterior["count"].values)
    assert (whole[..., [0, 1, 3]] == [4, 5, 0]).all()
    # Each missing count is negative binomial with mean 24 / 9 and variance 24 / 9 + 24 / 81; 600
    # draws of two that share a rate, four standard errors.
    mean = np.asarray(idata.posterior["count_unobserved"].values).mean()
    assert abs(mean - 24 / 9) < 4 * np.sqrt((24 / 9 + 2 * 24 / 81) / 1200)


@pytest.mark.parametrize("marginalize", [False, ["z"]])
def test_as_they_are_if_so_asked(marginalize: bool | list[str]) -> None:
    with _line(True) as model:
        z = pm.Bernoulli("z", 0.5)
        pm.Normal("w", z, 1, observed=0.3)
    path = compile_model(model, marginalize=marginalize)
    assert {"new", "count"} <= {slot.name for slot in path.plan.layout.slots}


def test_what_data_potentials_and_custom_densities_need_stays() -> None:
    with _line(True) as model:
        weighed = pm.Normal("weighed", 0, 1)
        pm.Potential("weight", -(weighed**2))
        parent = pm.Normal("parent", 0, 1)
        pm.CustomDist("own", parent, logp=lambda value, mean: -abs(value - mean), random=_draw)
        pm.Normal("pair", 0, 1, shape=2, transform=pm.distributions.transforms.ordered)
    found = leave_out_barren(model)
    assert found is not None
    assert set(found.names) == {"new", "count"}


def _draw(mean: float, rng: np.random.Generator, size: tuple[int, ...] | None) -> np.ndarray:
    return rng.laplace(mean, 1, size)


@IMPUTED
def test_missing_elements_of_vectors_stay() -> None:
    rows = np.array([[1.0, np.nan], [0.2, 0.4]])
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1, shape=2)
        pm.MvNormal("y", mean, np.eye(2) + 0.5, observed=rows)
    assert leave_out_barren(model) is None
    assert leave_out_barren(_line(False)) is None
