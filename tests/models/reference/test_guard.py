"""Failures that a reference alone can't see are caught by the prior."""

from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_arm
from pymc_arm import model_call, run
from pymc_arm.estimation.estimate import Evidence
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.path import GenericPath
from pymc_arm.models.reference import ReferencePath, check_reference, fit_reference, modes
from pymc_arm.models.reference.guard import LARGEST_OUTSIDE, Guard, is_rounding


@cache
def far_modes():
    """Two modes of equal mass, 14 and -14 standard deviations away."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 10, shape=3)
        up, down = (-0.5 * pm.math.sum((x - m) ** 2) / 0.5**2 for m in (7.0, -7.0))
        pm.Potential("y", pm.math.logaddexp(up, down))
    volume = 1.5 * np.log(2 * np.pi) + 3 * np.log(0.5)
    # Each mode is a Gaussian times the prior's density, up to a product of Gaussians.
    variance = 100 + 0.25
    prior = -1.5 * np.log(2 * np.pi * variance) - 1.5 * 49 / variance
    return model, volume + prior + np.log(2)


def spike_in_slab():
    """A spike with as much mass as the slab around it, of 16 times its volume."""
    with pm.Model() as model:
        x = pm.Uniform("x", -1, 1, shape=4)
        spike = -0.5 * pm.math.sum(x**2) / 0.01**2 - 4 * np.log(0.01 * np.sqrt(2 * np.pi))
        pm.Potential("y", pm.math.logaddexp(np.log(16) + spike, 0.0))
    return model, np.log(2)


@pytest.fixture
def one_mode(monkeypatch):
    """A reference with only one of the far modes in it, from a single climb."""
    monkeypatch.setattr(modes, "NEAR_STARTS", 0)
    # Nor from the maxima of the two parts of the sum, which would find both.
    nowhere = property(lambda self: np.zeros((0, 3)))
    monkeypatch.setattr(GenericPath, "likely_particles", nowhere)
    model, truth = far_modes()
    path = compile_model(model)
    path.density.gradient.available()
    return path, fit_reference(path, starts=1), truth


def test_a_second_run_that_has_no_time_does_not_lose_the_first(monkeypatch):
    """The first is the result, and says that it is not complete."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=12)
        pm.Normal("y", x, 1, observed=np.linspace(-1, 1, 12))
    run_path, calls = model_call.run_path, []

    def run(*args):
        calls.append(args)
        if len(calls) == 2:
            raise pymc_arm.TimeLimitError("no time")
        return run_path(*args)

    monkeypatch.setattr(model_call, "run_path", run)
    monkeypatch.setattr(
        model_call, "check_reference", lambda *args: Guard(False, "the prior found more", 0.0)
    )
    with pytest.warns(pymc_arm.TrustWarning, match="The time_limit ended the run after its 4 of 4"):
        result = pymc_arm.sample(model, 100, cores=1, random_seed=1, progressbar=False)
    assert len(calls) == 2
    assert "for which there was no time" in result.attrs["guard"]
    assert result.attrs["start"] == "reference"


def test_a_missed_mode_is_seen(one_mode):
    path, reference, truth = one_mode
    assert reference.modes == 1
    travelled = ReferencePath(path, reference)
    done = run(travelled, np.random.default_rng(0), 300, resample_threshold=1.0)
    assert done.log_evidence < truth - 0.5
    guard = check_reference(travelled, Evidence(done.log_evidence, 0.01, 3))
    assert not guard.agrees
    assert 0.2 < guard.outside < 0.8


def test_several_starts_find_both_modes():
    model, truth = far_modes()
    path = compile_model(model)
    path.density.gradient.available()
    reference = fit_reference(path)
    assert reference.modes == 2
    travelled = ReferencePath(path, reference)
    done = run(travelled, np.random.default_rng(0), 500, resample_threshold=1.0)
    assert abs(done.log_evidence - truth) < 0.1
    assert check_reference(travelled, Evidence(done.log_evidence, 0.01, 3)).agrees


def test_a_missed_slab_is_seen():
    model, truth = spike_in_slab()
    path = compile_model(model)
    path.density.gradient.available()
    travelled = ReferencePath(path, fit_reference(path))
    done = run(travelled, np.random.default_rng(0), 300, resample_threshold=1.0)
    guard = check_reference(travelled, Evidence(done.log_evidence, 0.01, 3))
    assert not guard.agrees or abs(done.log_evidence - truth) < 0.1


def test_an_unsure_run_is_made_again(one_mode):
    path, reference, truth = one_mode
    guard = check_reference(ReferencePath(path, reference), Evidence(truth, 2.0, 3))
    assert not guard.agrees
    assert "standard error of 2" in guard.reason


def test_a_small_run_that_lost_its_way_is_no_alarm():
    """Of eight rows and a covariance of three scales it ends six nats below, in a tail."""
    rng = np.random.default_rng(1)
    mixing = rng.normal(size=(3, 3))
    y = rng.normal(size=(8, 3)) @ mixing.T
    with pm.Model() as model:
        scale = pm.HalfCauchy.dist(2.5, shape=3)
        factor, _, _ = pm.LKJCholeskyCov("factor", eta=2.0, n=3, sd_dist=scale)
        mean = pm.Normal("mean", 0, 5, shape=3)
        pm.MvNormal("y", mean, chol=factor, observed=y)
    path = compile_model(model)
    assert path.density.gradient.available()
    reference = fit_reference(path)
    guard = check_reference(
        ReferencePath(path, reference), Evidence(reference.log_evidence, 0.02, 3)
    )
    assert guard.log_evidence < reference.log_evidence - 3
    assert guard.outside > LARGEST_OUTSIDE
    assert guard.agrees


def test_rounding_errors_are_no_mass():
    """Four log-gamma functions of a heavy-tailed parameter add up to noise where it is large."""
    with pm.Model() as model:
        share = pm.Uniform("share", 0, 1)
        total = pm.Pareto("total", alpha=1, m=1)
        x = np.array([9.0, 4.0, 12.0, 7.0, 3.0, 8.0, 15.0, 6.0] * 8)
        a, b = share * total, (1 - share) * total
        terms = pt.gammaln(a + b) + pt.gammaln(b + x) - pt.gammaln(b) - pt.gammaln(a + b + x)
        pm.Potential("y", terms)
    path = compile_model(model)
    draws = np.random.default_rng(1).normal(size=(50, 2))
    assert not is_rounding(path, draws, np.zeros(50))
    draws[:, 1] = np.linspace(400.0, 450.0, 50)  # its logarithm
    assert is_rounding(path, draws, np.zeros(50))
