"""Densities whose integrals are known in closed form, from three values."""

import numpy as np
import pytest
import scipy

from pymc_arm.models.reference.conjugate import FAMILIES, solve

BY_NAME = {family.name: family for family in FAMILIES}
LEVEL = 3.0


def log_gamma_mass(shape, rate):
    return scipy.special.gammaln(shape) - shape * np.log(rate)


CASES = [
    *(
        (name, lambda x, a=a, b=b, s=s: s * a * x - b * np.exp(s * x), log_gamma_mass(a, b))
        for name, s in (("gamma", 1), ("inverse gamma", -1))
        for a, b in [(0.01, 0.01), (0.01, 1e-9), (3, 1e6), (1e4, 2.0), (0.01, 1e100), (2.5, 1e-40)]
    ),
    *(
        (
            "normal",
            lambda x, m=m, sd=sd: -0.5 * ((x - m) / sd) ** 2,
            np.log(sd * np.sqrt(2 * np.pi)),
        )
        for m, sd in [(0, 1), (1e4, 1), (3, 1e-5), (1e6, 1e5), (-50, 0.01)]
    ),
    *(
        (
            "beta",
            lambda x, a=a, b=b: a * x - (a + b) * np.logaddexp(0, x),
            scipy.special.betaln(a, b),
        )
        for a, b in [(0.01, 0.01), (1, 1), (300, 2), (1e5, 1e6), (0.001, 1e4)]
    ),
]


def solved(name, log_density, rows=1):
    return solve(BY_NAME[name], lambda _, x: LEVEL + log_density(x), rows, 1)


@pytest.mark.parametrize(("name", "log_density", "expected"), CASES)
def test_mass(name, log_density, expected):
    found = solved(name, log_density)
    assert found.log_mass[0, 0] == pytest.approx(LEVEL + expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("name", "log_density", "expected"), CASES)
def test_derivatives_by_the_values(name, log_density, expected):
    """The log of the mass changes by the weights times the change of the values."""
    found, step = solved(name, log_density), 1e-4
    change = (step * found.weights[0, :, 0]).sum()
    more = solve(BY_NAME[name], lambda _, x: LEVEL + step + log_density(x), 1, 1)
    assert more.log_mass[0, 0] - found.log_mass[0, 0] == pytest.approx(change, rel=1e-3, abs=1e-8)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("normal", (0.3, -0.7)),
        ("gamma", (2.5, 0.8)),
        ("inverse gamma", (2.5, 0.8)),
        ("beta", (2, 5)),
    ],
)
def test_derivatives_of_coefficients_and_draws(name, values):
    """The mean of x is the derivative by its coefficient, and of draws within 4 se: 1 in 16,000."""
    sign = -1.0 if name == "inverse gamma" else 1.0

    def log_density(x, a=values[0], b=values[1]):
        if name == "normal":
            return a * x + b * x**2
        if name == "beta":
            return a * x - (a + b) * np.logaddexp(0, x)
        return a * sign * x - b * np.exp(sign * x)

    found = solved(name, log_density)
    step, x = 1e-5, np.linspace(-60, 60, 240_001)
    mean = np.average(x, weights=np.exp(log_density(x)))
    upper = solved(name, lambda x: log_density(x) + step * x).log_mass[0, 0]
    lower = solved(name, lambda x: log_density(x) - step * x).log_mass[0, 0]
    assert (upper - lower) / (2 * step) == pytest.approx(mean, rel=1e-5)
    slope = (found.weights[0, :, 0] * found.places[0, :, 0]).sum()
    assert slope == pytest.approx(mean, rel=1e-9)
    many = solved(name, log_density, rows=4000).draw(np.random.default_rng(1), np.array([0]))
    assert abs(many.mean() - mean) < 4 * many.std() / np.sqrt(len(many))


def test_draws_of_a_vague_gamma_variable():
    """Logs of Gamma(0.01) variables are exponential far out: the mean is digamma(0.01)."""
    found = solved("gamma", lambda x: 0.01 * x - np.exp(x), rows=4000)
    draws = found.draw(np.random.default_rng(2), np.array([0]))
    assert np.isfinite(draws).all()
    error = draws.mean() - scipy.special.digamma(0.01)
    assert abs(error) < 4 * draws.std() / np.sqrt(len(draws))


@pytest.mark.parametrize(
    ("name", "log_density"),
    [
        ("normal", lambda x: x**2),
        ("gamma", lambda x: -0.1 * x - np.exp(x)),
        ("gamma", lambda x: np.full_like(x, -np.inf)),
        ("beta", lambda x: 2 * x - np.logaddexp(0, x)),
    ],
)
def test_what_has_no_integral_has_no_mass(name, log_density):
    assert solved(name, log_density).log_mass[0, 0] == -np.inf
