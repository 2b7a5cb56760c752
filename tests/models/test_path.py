"""The path of a model: what a step does to the particles, and what it corrects."""

import numpy as np
import pymc as pm
import pytest

from pymc_arm.models.compiled import compile_model
from pymc_arm.models.position import Position


def effects():
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        effect = pm.Normal("effect", 0, scale, shape=3)
        pm.Normal("y", effect, 0.5, observed=[0.3, -1.0, 0.8])
    return model


@pytest.fixture(scope="module")
def path():
    return compile_model(effects())


def test_steps_follow_the_plan(path):
    particles, log_evidence = path.initialize(np.random.default_rng(1), 50)
    assert log_evidence == 0
    n, equal = path.start, np.full(50, -np.log(50))
    seen = []
    rng = np.random.default_rng(2)
    while not path.finished(n):
        n = path.advance(n, particles, equal, 0.7)
        smoothed = path.smooth(rng, n, particles)
        particles, _ = path.augment(rng, n, particles, smoothed.proposal)
        seen.append(path.describe(n))
    assert seen == ["effect[0]", "effect[1]", "effect[2]"]


def test_an_integral_is_the_exact_one(path):
    """Given the scale s, the mean over effect of the likelihood is N(y; 0, s^2 + 0.25)."""
    particles, _ = path.initialize(np.random.default_rng(1), 40)
    found = path.smooth(np.random.default_rng(2), Position(1), particles).log_ratio
    variance = np.exp(2 * particles[:, 0]) + 0.25
    exact = -0.5 * (np.log(2 * np.pi * variance) + 0.3**2 / variance)
    np.testing.assert_allclose(found, exact, atol=1e-4)


def test_draws_are_corrected_to_the_exact_ratio(path):
    """W-hat times the correction is f_1 / (f_0 q) at the draw, whatever the nodes are."""
    rng = np.random.default_rng(3)
    particles, _ = path.initialize(rng, 200)
    smoothed = path.smooth(rng, Position(1), particles)
    _, correction = path.augment(rng, Position(1), particles, smoothed.proposal)
    assert (
        np.abs(np.mean(np.exp(correction)) - 1)
        < 4 * np.std(np.exp(correction)) / np.sqrt(200) + 1e-4
    )


def test_powers_go_down_to_nothing():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=2)
        pm.Normal("y", 1e7 * x.sum(), 1.0, observed=0.0)
    path = compile_model(model)
    particles, _ = path.initialize(np.random.default_rng(1), 100)
    first = path.advance(path.start, particles, np.full(100, -np.log(100)), 0.7)
    assert 0 < first.fraction < 1e-12


def truncated(scale):
    """Make normals cut on both sides, whose mass between the cuts is lost where they are wide."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 5)
        deviation = scale()
        data = [0.2, 0.1, 1.5, 0.4, 0.7, 2.1]
        pm.Truncated("y", pm.Normal.dist(mean, deviation), lower=0, upper=3, observed=data)
    return model


@pytest.mark.parametrize(
    "scale",
    [
        lambda: pm.HalfNormal("scale", 3),
        lambda: pm.HalfCauchy("scale", 1e5),
        lambda: pm.math.sqrt(1 / pm.Gamma("precision", 1, 1)),
    ],
)
def test_moves_do_not_end_where_the_density_overflows(scale):
    """A scale of e^342 has a prior of exp(-1e296); the term of a truncated normal there is +inf."""
    path = compile_model(truncated(scale))
    start, _ = path.initialize(np.random.default_rng(1), 20)
    far = start.copy()
    slots = {slot.name: slot.start for slot in path.plan.layout.slots}
    far[:, slots["mean"]] = -2e4
    far[:, slots.get("scale", 1)] = 342.0 if "scale" in slots else -684.0
    whole = Position(len(path.plan.steps))
    terms = path.density.terms(far)
    assert (terms == np.inf).any()  # or this tests nothing
    target = path._target(whole)
    assert (target.log_density(far) == -np.inf).all()
    assert not (target.terms(far, np.arange(path.density.count)) == np.inf).any()
    assert (target.gradient(far)[0] == -np.inf).all()
    moved = path.move(np.random.default_rng(2), whole, start).particles
    assert (path.density.sum(moved, np.ones(path.density.count)) < np.inf).all()
