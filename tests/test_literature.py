"""The benchmarks of the literature: their models, truths found a second way, and the table."""

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import gammaln, logsumexp

from benchmarks.literature import allow_for_truth
from benchmarks.literature_models import ROWS
from benchmarks.outcomes import Outcome, silently_wrong


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ROWS)
def test_row_builds_and_has_the_stated_dimension(name):
    row = ROWS[name]
    if not row.is_here:
        pytest.skip(f"{row.data} is not there")
    start = row.build().initial_point(0)
    assert sum(np.size(value) for value in start.values()) == row.dimension


def log_quadrature(log_density, low, high, points=()):
    value, _ = integrate.quad(lambda x: np.exp(log_density(x)), low, high, points=points, limit=500)
    return np.log(value)


def many_wells():
    double = log_quadrature(lambda d: 0.5 * d + 6 * d**2 - d**4, -5, 5, [-1.7, 1.7])
    return 16 * (double + 0.5 * np.log(2 * np.pi))


def rosenbrock():
    """The second of a pair is normal given the first, but for the upper edge of the cube."""

    def log_density(x):
        inside = stats.norm.logcdf(10, x**2, np.sqrt(0.05))
        return -((x - 1) ** 2) + inside + 0.5 * np.log(np.pi / 10)

    return 5 * (log_quadrature(log_density, -4, 4, [-3.16, 3.16]) - 2 * np.log(20))


def coins(tosses):
    """The product u of two uniforms has the density -log u."""
    heads = tosses // 2
    log_choose = gammaln(tosses + 1) - 2 * gammaln(heads + 1)

    def log_density(u):
        return log_choose + heads * np.log(u * (1 - u)) + np.log(-np.log(u))

    width = 20 * 0.5 / np.sqrt(tosses)
    return log_quadrature(log_density, max(0.5 - width, 1e-9), min(0.5 + width, 1 - 1e-9), [0.5])


def phase_transition():
    wide = np.log(2 * np.pi) / 2 + np.log(stats.norm.cdf(5) - stats.norm.cdf(-5))
    narrow = np.log(2 * np.pi * 0.01) / 2
    return logsumexp([10 * wide, np.log(9e10) + 10 * narrow]) - 10 * np.log(10)


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("many_well", many_wells),
        ("rosenbrock", rosenbrock),
        ("coins_100", lambda: coins(100)),
        ("coins_100000", lambda: coins(100_000)),
        ("phase_transition", phase_transition),
    ],
)
def test_truth_is_found_a_second_way(name, truth):
    assert truth() == pytest.approx(ROWS[name].truth, abs=2e-5)


@pytest.mark.parametrize(
    ("name", "density"),
    [
        ("funnel", lambda x: stats.norm.logpdf(x, 0, [3, *[np.exp(x[0] / 2)] * 9]).sum()),
        (
            "many_well",
            lambda x: (0.5 * x + 6 * x**2 - x**4)[::2].sum() - 0.5 * (x[1::2] ** 2).sum(),
        ),
    ],
)
def test_density_over_a_prior_is_the_density(name, density):
    x = np.random.default_rng(1).normal(size=ROWS[name].dimension)
    found = ROWS[name].build().compile_logp()({"x": x})
    assert found == pytest.approx(density(x))


def test_error_of_the_truth_counts():
    outcome = Outcome("a", 1, "done", 0.0, -0.1, 0.01, -0.12, -0.08, "ok")
    assert silently_wrong(outcome)
    wide = allow_for_truth(outcome, 0.07)
    assert not silently_wrong(wide)
    assert wide.low < -0.1 - 1.96 * 0.07 < -0.1 + 1.96 * 0.07 < wide.high
    assert repr(allow_for_truth(outcome, 0.0)) == repr(outcome)


def test_published_estimates():
    assert ROWS["sonar"].published_rms == pytest.approx(np.hypot(0.524, 0.23))
    assert np.isnan(ROWS["seeds"].published_rms)
    assert ROWS["brownian"].published == "DDS 1.05 (0.16), SMC 0.865 (0.58)"
