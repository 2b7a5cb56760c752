"""Annealed importance sampling where the answer is known."""

import numpy as np
import pymc as pm
import pytest

from benchmarks.baselines import (
    GeometricAnnealing,
    ModelAnnealing,
    adaptive,
    ais,
    geometric,
    linear,
)
from benchmarks.baselines.schedules import check_schedule
from pymc_arm import ModelError, compare
from pymc_arm.comparison import read_evidence

DIMENSION = 2
EXACT = DIMENSION * 0.5 * np.log(2 * np.pi * 0.09)


def metropolis(rng, log_density, points):
    rates = []
    for _ in range(3):
        proposal = points + rng.choice([0.1, 0.3, 0.8], size=(len(points), 1)) * rng.normal(
            size=points.shape
        )
        accepted = np.log(rng.random(len(points))) < log_density(proposal) - log_density(points)
        points = np.where(accepted[:, None], proposal, points)
        rates.append(accepted.mean())
    return points, float(np.mean(rates))


@pytest.fixture
def gaussians():
    """From N(0, 1) to an unnormalised N(1, 0.3^2), in two dimensions."""
    return GeometricAnnealing(
        draw_base=lambda rng, size: rng.normal(size=(size, DIMENSION)),
        log_base=lambda x: -0.5 * (x**2).sum(axis=1) - DIMENSION * 0.5 * np.log(2 * np.pi),
        log_target=lambda x: -0.5 * ((x - 1) ** 2).sum(axis=1) / 0.09,
        kernel=metropolis,
        draw_target=lambda rng, size: 1 + 0.3 * rng.normal(size=(size, DIMENSION)),
    )


@pytest.mark.parametrize(
    "schedule", ["linear", "geometric", "adaptive", [0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1]]
)
def test_every_schedule_is_right(gaussians, schedule, errors_off):
    result = ais(
        gaussians, 400, temperatures=40, schedule=schedule, random_seed=1, progressbar=False
    )
    assert abs(errors_off(result, EXACT)) < 4
    assert result.attrs["temperatures"] == (7 if isinstance(schedule, list) else 40)
    assert result.posterior["x"].shape == (4, 400, DIMENSION)


def test_forward_and_reverse_bracket_the_truth(gaussians):
    result = ais(
        gaussians,
        300,
        temperatures=30,
        schedule="linear",
        direction="both",
        random_seed=2,
        progressbar=False,
    )
    attributes = result.attrs
    low, high = (attributes[f"{name}log_marginal_likelihood"] for name in ("", "reverse_"))
    low_error, high_error = (
        attributes[f"{name}log_marginal_likelihood_se"] for name in ("", "reverse_")
    )
    assert abs(low - EXACT) < 4 * low_error
    assert abs(high - EXACT) < 4 * high_error


def test_short_runs_are_too_low_forward_and_too_high_in_reverse(gaussians):
    """Single weights: the mean of log w is below log Z, in reverse above it."""
    sides = {}
    for direction in ("forward", "reverse"):
        with pytest.warns(UserWarning, match="log Z"):
            result = ais(
                gaussians,
                1,
                temperatures=5,
                schedule="linear",
                direction=direction,
                chains=100,
                random_seed=3,
                progressbar=False,
            )
        values = result.sample_stats["log_marginal_likelihood"].values
        sides[direction] = (values.mean() - EXACT) / (values.std() / np.sqrt(len(values)))
    assert sides["forward"] < -4
    assert sides["reverse"] > 4


def test_the_weights_predict_the_spread_between_chains(gaussians):
    """Chi-squared with 39 degrees of freedom stays within these bounds but once in 10^4 seeds."""
    result = ais(
        gaussians,
        100,
        temperatures=30,
        schedule="linear",
        chains=40,
        random_seed=4,
        progressbar=False,
    )
    spread = result.sample_stats["log_marginal_likelihood"].values.var(ddof=1)
    predicted = result.sample_stats["predicted_variance"].values.mean()
    assert 0.4 < spread / predicted < 2.0


def test_adaptive_schedule_follows_the_variance_of_the_energy(gaussians):
    grid = adaptive(gaussians, 50, np.random.default_rng(5), particles=1000)
    # Of a Gaussian energy whose precision grows by 1/0.09 - 1 the fluctuations fall with beta.
    assert len(grid) == 51
    assert grid[0] == 0
    assert grid[-1] == 1
    assert np.diff(grid)[0] < 0.2 * np.diff(grid)[-1]


def test_adaptive_schedule_finds_its_own_length(gaussians):
    few = adaptive(gaussians, None, np.random.default_rng(6))
    assert 2 < len(few) < 30


def test_results_can_be_compared(gaussians):
    results = {
        str(number): ais(gaussians, 100, temperatures=20, random_seed=number, progressbar=False)
        for number in (1, 2)
    }
    assert len(compare(results)) == 2
    assert abs(read_evidence(results["1"]).log_evidence - EXACT) < 1


def test_any_continuous_pymc_model(errors_off):
    data = np.array([0.3, 1.1, -0.4])
    with pm.Model(coords={"place": [0, 1]}) as model:
        mu = pm.Normal("mu", dims="place")
        pm.Deterministic("total", mu.sum())
        pm.Normal("y", mu[0] + mu[1], 1, observed=data)
    covariance = np.eye(3) + 2
    exact = -0.5 * (
        data @ np.linalg.solve(covariance, data)
        + np.linalg.slogdet(covariance)[1]
        + 3 * np.log(2 * np.pi)
    )
    result = ais(model, 500, temperatures=20, random_seed=1, progressbar=False)
    assert abs(errors_off(result, exact)) < 4
    assert result.posterior["mu"].dims == ("chain", "draw", "place")
    assert "total" in result.posterior


def test_discrete_models_are_refused():
    with pm.Model() as model:
        pm.Bernoulli("z", 0.5)
    with pytest.raises(ModelError, match="z is discrete"):
        ModelAnnealing(model)


def test_schedules():
    np.testing.assert_allclose(linear(2), [0, 0.5, 1])
    np.testing.assert_allclose(geometric(3, 0.01), [0, 0.01, 0.1, 1])
    assert geometric(1).tolist() == [0, 1]
    with pytest.raises(ValueError, match="temperatures=0"):
        linear(0)
    with pytest.raises(ValueError, match="smallest=2"):
        geometric(5, 2)
    with pytest.raises(ValueError, match=r"schedule\[2\] is 0.1 after 0.5"):
        check_schedule([0, 0.5, 0.1, 1])
    with pytest.raises(ValueError, match="starts at 0 and ends at 1"):
        check_schedule([0.1, 1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "cubic"}, "schedule='cubic'"),
        ({"schedule": "linear", "temperatures": None}, "temperatures=None"),
        ({"direction": "sideways"}, "direction='sideways'"),
        ({"draws": 0}, "draws=0"),
    ],
)
def test_wrong_arguments_are_named(gaussians, options, message):
    with pytest.raises(ValueError, match=message):
        ais(gaussians, **{"draws": 10, "progressbar": False, **options})


def test_reverse_needs_draws_from_the_target(gaussians):
    gaussians._draw_target = None
    with pytest.raises(Exception, match="cannot draw from its target"):
        ais(gaussians, 10, direction="reverse", schedule="linear", progressbar=False)
