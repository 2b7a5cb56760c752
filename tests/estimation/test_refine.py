"""The bridge's prediction of its own error, against the error over many replicates."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from pymc_arm.algorithm.resampling import log_mean_exp
from pymc_arm.estimation import refine
from pymc_arm.estimation.bridge import bridge
from pymc_arm.estimation.refine import refine_chains
from pymc_arm.running.forked import map_forked

DIMENSION = 4
DRAWS = 60
REPLICATES = 800


def log_normal(points):
    return -0.5 * (points**2).sum(axis=1) - 0.5 * points.shape[1] * np.log(2 * np.pi)


@dataclass(frozen=True)
class Shifted:
    """A normal of the right shape, with the mean of the points that it was fitted to."""

    mean: np.ndarray
    components: int = 1

    def draw(self, rng, size):
        return self.mean + rng.normal(size=(size, len(self.mean)))

    def log_density(self, points):
        return log_normal(points - self.mean)


@dataclass(frozen=True)
class Normal:
    """The space of all coordinates of a standard normal."""

    proposals: int = 2

    def fit_to(self, particles):
        return self

    def points(self, particles):
        return particles

    def log_ratio(self, particles):
        return log_normal(particles)

    def draw_log_ratio(self, rng, points):
        return log_normal(points)

    def draw_particles(self, rng, points):
        return points, log_normal(points)

    def score(self, points):
        return None


def fit(log_density, rng, points, score):
    return Shifted(points.mean(axis=0))


def bridge_to(mean, size=DRAWS):
    rng, approximation = np.random.default_rng(1), Shifted(np.array(mean))
    draws = rng.normal(size=(size, len(mean))), approximation.draw(rng, 2 * size)
    return bridge(*(log_normal(points) - approximation.log_density(points) for points in draws))


@pytest.mark.statistical
@pytest.mark.parametrize("chains", [1, 2, 4])
@pytest.mark.parametrize("proposals", [2, 20])
def test_chains_that_fit_each_others_q_are_not_independent(monkeypatch, chains, proposals):
    """The mean prediction is within 20 % of the mean squared error over 800 replicates.

    That has a relative standard error of 5 %, so the bound is at 4 of them. As if the bridges were
    independent, with few draws of q the prediction would be too small by a quarter.
    """
    monkeypatch.setattr(refine, "fit", fit)
    errors, predictions = [], []
    for rng in np.random.default_rng(5).spawn(REPLICATES):
        clouds = [rng.normal(size=(DRAWS, DIMENSION)) for _ in range(chains)]
        alone = [np.arange(DRAWS)] * chains
        bridges = refine_chains([Normal(proposals)], clouds, rng.spawn(chains), alone)
        errors.append(log_mean_exp(np.array([b.log_evidence for b in bridges])))
        predictions.append(np.mean([b.variance for b in bridges]) / chains)
    ratio = np.mean(predictions) / np.mean(np.square(errors))
    assert 1 / 1.2 < ratio < 1.2


@pytest.mark.statistical
@pytest.mark.parametrize("chains", [1, 4])
def test_draws_of_one_family_count_as_one(monkeypatch, chains):
    """Ten copies of each draw: the mean prediction is within 25 % of the mean squared error.

    Over 400 replicates that has a relative standard error of 7 %, less than a third of the bound.
    Without families, the prediction would be too small by a factor of five or so, and the error
    itself larger, because the copies would have too much weight.
    """
    monkeypatch.setattr(refine, "fit", fit)
    errors, predictions, blind_errors, blind = [], [], [], []
    for rng in np.random.default_rng(8).spawn(REPLICATES // 2):
        founders = [rng.normal(size=(DRAWS // 4, DIMENSION)) for _ in range(chains)]
        clouds = [np.repeat(points, 10, axis=0) for points in founders]
        families = [np.repeat(np.arange(DRAWS // 4), 10)] * chains
        found = refine_chains([Normal()], clouds, rng.spawn(chains), families)
        errors.append(log_mean_exp(np.array([b.log_evidence for b in found])))
        predictions.append(np.mean([b.variance for b in found]) / chains)
        alone = [np.arange(len(clouds[0]))] * chains
        found = refine_chains([Normal()], clouds, rng.spawn(chains), alone)
        blind_errors.append(log_mean_exp(np.array([b.log_evidence for b in found])))
        blind.append(np.mean([b.variance for b in found]) / chains)
    error, blind_error = np.mean(np.square(errors)), np.mean(np.square(blind_errors))
    assert 1 / 1.25 < np.mean(predictions) / error < 1.25
    assert np.mean(blind) < 0.5 * blind_error
    assert error < blind_error


@pytest.mark.statistical
def test_more_draws_of_q_are_worth_as_many_particles(monkeypatch):
    """Ten times as many draws of q: less than a third of the variance, particles being the same."""
    monkeypatch.setattr(refine, "fit", fit)
    errors = {2: [], 20: []}
    for number in range(REPLICATES // 4):
        for proposals, found in errors.items():
            rng = np.random.default_rng([9, number])
            clouds = [rng.normal(size=(DRAWS, DIMENSION)) for _ in range(2)]
            alone = [np.arange(DRAWS)] * 2
            bridges = refine_chains([Normal(proposals)], clouds, rng.spawn(2), alone)
            found.append(log_mean_exp(np.array([b.log_evidence for b in bridges])))
    assert np.mean(np.square(errors[20])) < np.mean(np.square(errors[2])) / 3


def test_draws_of_a_bad_q_are_not_multiplied(monkeypatch):
    """Where q does not meet the posterior, ten times as many draws would be no better."""
    monkeypatch.setattr(refine, "fit", lambda *arguments: Shifted(np.full(DIMENSION, 3.0)))
    clouds = [rng.normal(size=(DRAWS, DIMENSION)) for rng in np.random.default_rng(6).spawn(2)]
    few, many = (
        refine_chains(
            [Normal(proposals)], clouds, np.random.default_rng(7).spawn(2), [np.arange(DRAWS)] * 2
        )
        for proposals in (2, 20)
    )
    assert few == many


def test_threads_and_processes_change_nothing():
    clouds = [rng.normal(size=(DRAWS, DIMENSION)) for rng in np.random.default_rng(6).spawn(3)]
    alone = [np.arange(DRAWS)] * 3

    def on_threads(function, count):
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(function, range(count)))

    one, two, three = (
        refine_chains([Normal()], clouds, np.random.default_rng(7).spawn(3), alone, each)
        for each in (None, on_threads, partial(map_forked, workers=2))
    )
    assert one == two == three


def test_many_draws_are_thinned_for_the_fit(monkeypatch):
    """A q fitted to a part of many draws is as good, and every chain has its part in it."""
    monkeypatch.setattr(refine, "MOST_FITTED", 90)
    monkeypatch.setattr(refine, "MOST_FITTED_PER_DIMENSION", 0)
    sizes = []

    def fit(log_density, rng, points, score):
        sizes.append(len(points))
        assert np.unique(points[:, 0]).tolist() == [1.0, 2.0, 3.0]
        return Shifted(np.zeros(DIMENSION))

    monkeypatch.setattr(refine, "fit", fit)
    clouds = [np.full((DRAWS, DIMENSION), float(k)) for k in range(4)]
    alone = [np.arange(DRAWS)] * 4
    only_first = lambda function, count: [function(0)] * count  # noqa: E731
    refine_chains([Normal()], clouds, np.random.default_rng(7).spawn(4), alone, only_first)
    assert sizes == [90]


def test_both_sides_add_to_the_variance():
    found = bridge_to([0.5, 0.0])
    assert 0 < found.cloud_variance < found.variance
    assert found.overlap > 0.5
    assert found.trustworthy


def test_no_overlap_is_not_trusted():
    assert not bridge_to([9.0, 0.0]).trustworthy
