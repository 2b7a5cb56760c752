"""Densities without an integral are told from those that have one."""

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_arm
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.endless import find_endless

LINE = 1 + 0.5 * np.arange(4.0)


def _growing_square() -> None:
    x = pm.Normal("x", 0, 1)
    pm.Potential("potential", 0.6 * x**2)


def _one_over_x_at_zero() -> None:
    x = pm.HalfNormal("x", 1)
    pm.Potential("potential", -pt.log(x))


def _one_over_x_far_out() -> None:
    x = pm.HalfCauchy("x", 1)
    pm.Potential("potential", pt.log(x))


def _heavy_tail_beside_data() -> None:
    x = pm.Cauchy("x", 0, 1)
    other = pm.Normal("other", 0, 1)
    pm.Potential("potential", pt.log1p(pt.abs(x)))
    pm.Normal("y", other, 1, observed=1.0)


def _flat_diagonal() -> None:
    x = pm.Normal("x", 0, 1, shape=3)
    pm.Potential("potential", 0.25 * (x[0] + x[1]) ** 2)
    pm.Normal("y", x[2], 1, observed=1.0)


def _equal_values() -> None:
    x = pm.HalfNormal("x", 1)
    mean = pm.Normal("mean", 0, 1)
    pm.Normal("y", mean, x, observed=[1.0, 1.0])


def _exact_line() -> None:
    x = pm.HalfCauchy("x", 1)
    coefficients = pm.Normal("coefficients", 0, 1, shape=2)
    mean = coefficients[0] + coefficients[1] * np.arange(4.0)
    pm.Normal("y", mean, x, observed=LINE)


def _growing_counts() -> None:
    x = pm.Geometric("x", 0.5)
    pm.Potential("potential", np.log(2.2) * x)


ENDLESS = [
    _growing_square,
    _one_over_x_at_zero,
    _one_over_x_far_out,
    _heavy_tail_beside_data,
    _flat_diagonal,
    _equal_values,
    _exact_line,
    _growing_counts,
]


def _nearly_growing_square() -> None:
    x = pm.Normal("x", 0, 1)
    pm.Potential("potential", 0.45 * x**2)


def _heavier_tail() -> None:
    x = pm.HalfCauchy("x", 1)
    pm.Potential("potential", 0.8 * pt.log(x))


def _one_value() -> None:
    # The density grows at sd -> 0, but where it is narrow: its integral is finite.
    mean = pm.Normal("mean", 0, 1)
    sd = pm.HalfNormal("sd", 1)
    pm.Normal("y", mean, sd, observed=[1.0])


def _nearly_equal_values() -> None:
    mean = pm.Normal("mean", 0, 1)
    sd = pm.HalfNormal("sd", 1)
    pm.Normal("y", mean, sd, observed=[1.0, 1.0 + 1e-6, 1.0 - 1e-6])


def _equal_values_and_a_prior() -> None:
    mean = pm.Normal("mean", 0, 1)
    variance = pm.InverseGamma("variance", 0.01, 0.01)
    pm.Normal("y", mean, pt.sqrt(variance), observed=[1.0, 1.0])


def _vague_precision() -> None:
    precision = pm.Gamma("precision", 0.001, 0.001)
    pm.Normal("y", 0, 1 / pt.sqrt(precision), observed=[0.1, -0.2, 0.4])


def _more_coefficients_than_rows() -> None:
    coefficients = pm.Normal("coefficients", 0, 1, shape=3)
    sd = pm.HalfNormal("sd", 1)
    design = np.array([[1.0, 0.3, -0.2], [0.4, 1.1, 0.5]])
    pm.Normal("y", pt.dot(design, coefficients), sd, observed=[0.3, 1.0])


def _collapsing_mixture() -> None:
    means = pm.Normal("means", 0, 2, shape=2)
    sds = pm.HalfNormal("sds", 1, shape=2)
    data = [-1.0, 0.2, 0.5, 2.0, 3.0]
    pm.NormalMixture("y", w=[0.5, 0.5], mu=means, sigma=sds, observed=data)


def _separated() -> None:
    slope = pm.Cauchy("slope", 0, 2.5)
    pm.Bernoulli("y", logit_p=slope * np.array([-1.0, -0.5, 0.5, 1.0]), observed=[0, 0, 1, 1])


def _vague_rates() -> None:
    # Prior draws of a rate are between exp(-500) and 1, and the likelihood grows all along.
    rates = pm.Gamma("rates", 0.01, 0.01, shape=5)
    pm.Poisson("y", rates, observed=[1, 3, 0, 2, 9])


def _labels() -> None:
    labels = pm.Categorical("labels", [0.5, 0.5], shape=3)
    means = pm.Normal("means", 0, 1, shape=2)
    pm.Normal("y", means[labels], 1, observed=[0.0, 1.0, 2.0])


FINITE = [
    _nearly_growing_square,
    _heavier_tail,
    _one_value,
    _nearly_equal_values,
    _equal_values_and_a_prior,
    _vague_precision,
    _more_coefficients_than_rows,
    _collapsing_mixture,
    _separated,
    _vague_rates,
    _labels,
]


def _compiled(write: Callable[[], None]) -> tuple[str, ...]:
    with pm.Model() as model:
        write()
    return compile_model(model).endless


@pytest.mark.parametrize("write", ENDLESS, ids=lambda write: write.__name__[1:])
def test_what_has_no_integral_is_found(write: Callable[[], None]) -> None:
    found = _compiled(write)
    assert found
    assert all(name[0] == "x" for name in found)


@pytest.mark.parametrize("write", FINITE, ids=lambda write: write.__name__[1:])
def test_what_has_one_is_not(write: Callable[[], None]) -> None:
    assert _compiled(write) == ()


def test_the_verdict_says_so() -> None:
    with pm.Model() as model:
        _one_over_x_far_out()
    with pytest.warns(pymc_arm.TrustWarning, match="no finite integral"):
        idata = pymc_arm.sample(model, draws=200, chains=2, random_seed=1, progressbar=False)
    assert idata.attrs["verdict"] == "failed"
    assert pymc_arm.diagnose(idata).reasons[0].variables == ("x",)


def test_nothing_is_looked_at_where_there_is_no_likelihood() -> None:
    with pm.Model() as model:
        pm.Normal("x", 0, 1)
        pm.Potential("potential", pt.constant(0.0))
    path = compile_model(model)
    found = find_endless(model, path.layout, path.density, {}, np.zeros((10, 1)))
    assert found == ()
