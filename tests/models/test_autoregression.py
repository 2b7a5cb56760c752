"""CAR and ICAR priors are the normal distributions that they are."""

import numpy as np
import pymc as pm
import pytest
from scipy.stats import multivariate_normal

import pymc_arm
from pymc_arm import ModelError
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.prior import PriorSampler

W = np.zeros((6, 6), dtype=int)
for one, other in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5), (1, 4)]:
    W[one, other] = W[other, one] = 1
Y = np.array([0.3, -0.2, 1.0, 0.5, -0.7, 0.1])
NEIGHBOURS = np.diag(W.sum(axis=0))


def evidence(precision, noise=0.5):
    covariance = np.linalg.inv(precision) + noise**2 * np.eye(6)
    return multivariate_normal(np.zeros(6), covariance).logpdf(Y)


def car():
    x = pm.CAR("x", mu=np.zeros(6), W=W, alpha=0.6, tau=2.0)
    pm.Normal("y", x, 0.5, observed=Y)


def icar():
    x = pm.ICAR("x", W=W, zero_sum_stdev=0.1)
    pm.Normal("y", x, 0.5, observed=Y)


EXACT = [
    (car, evidence(2 * (NEIGHBOURS - 0.6 * W))),
    (icar, evidence(NEIGHBOURS - W + 1 / 0.6**2)),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("write", "exact"), EXACT)
def test_evidence_is_exact(write, exact):
    with pm.Model() as model:
        write()
    result = pymc_arm.sample(model, draws=500, chains=2, random_seed=1, progressbar=False)
    error = result.attrs["log_marginal_likelihood"] - exact
    assert abs(error) < 4 * max(result.attrs["log_marginal_likelihood_se"], 2e-3)


@pytest.mark.statistical
def test_draws_have_the_covariance():
    with pm.Model() as model:
        tau = pm.Gamma("tau", 3.0, 3.0)
        pm.CAR("x", mu=np.ones(6), W=W, alpha=0.6, tau=tau)
    tau, x = PriorSampler(model).draw(np.random.default_rng(1), 8000)
    whitened = (x - 1) * np.exp(tau / 2)[:, None]
    exact = np.linalg.inv(NEIGHBOURS - 0.6 * W)
    error = np.sqrt((np.outer(np.diag(exact), np.diag(exact)) + exact**2) / 8000)
    np.testing.assert_array_less(np.abs(whitened.T @ whitened / 8000 - exact), 4.5 * error)


def test_an_observed_vector_has_its_constants():
    with pm.Model() as model:
        pm.Normal("x")
        pm.CAR("y", mu=np.zeros(6), W=W, alpha=0.6, tau=2.0, observed=Y)
    path = compile_model(model)
    exact = multivariate_normal(np.zeros(6), np.linalg.inv(2 * (NEIGHBOURS - 0.6 * W))).logpdf(Y)
    points = np.zeros((1, 1))
    assert path.log_density(points)[0] == pytest.approx(exact - 0.5 * np.log(2 * np.pi))


def test_random_parameters():
    with pm.Model() as model:
        tau, alpha = pm.Gamma("tau", 3.0, 3.0), pm.Uniform("alpha", 0.0, 1.0)
        pm.CAR("x", mu=np.zeros(6), W=W, alpha=alpha, tau=tau)
        pm.Normal("y", model["x"], 0.5, observed=Y)
    path = compile_model(model)
    assert path.density.backend == "numpy"
    points = path._planned_with[1][:5]
    (number,) = (k for k, block in enumerate(path.density.blocks) if block.name == "x")
    rows = np.arange(path.density.offsets[number], path.density.offsets[number + 1])
    found = path.density.terms(points, rows).sum(axis=1)
    for point, value in zip(points, found, strict=True):
        strength = 1 / (1 + np.exp(-point[1]))
        covariance = np.linalg.inv(np.exp(point[0]) * (NEIGHBOURS - strength * W))
        assert value == pytest.approx(
            multivariate_normal(np.zeros(6), covariance).logpdf(point[2:])
        )


ISLANDS = np.kron(np.eye(3, dtype=int), 1 - np.eye(2, dtype=int))
LONELY = W.copy()
LONELY[5] = LONELY[:, 5] = 0


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda: pm.ICAR("x", W=W, sigma=pm.HalfNormal("s")), "sigma=1 and multiply: sigma"),
        (lambda: pm.ICAR("x", W=ISLANDS), "3 sets of neighbours that W does not join"),
        (
            lambda: pm.CAR("x", np.zeros(6), LONELY, 0.5, 1.0),
            "1 of the 6 elements of 'x' have no neighbours",
        ),
        (
            lambda: pm.CAR("x", np.zeros(6), W, 0.5, 1.0, shape=(2, 6)),
            "'x' has 2 axes.*a variable of its own",
        ),
    ],
)
def test_refusals(write, message):
    with pm.Model() as model:
        x = write()
        pm.Normal("y", x.sum(), 1, observed=1.0)
    with pytest.raises(ModelError, match=message):
        compile_model(model)
