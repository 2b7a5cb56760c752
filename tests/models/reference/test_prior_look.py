"""A reference that a small run from the prior has shown more of the posterior."""

import itertools
from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import scipy

from pymc_arm.estimation.estimate import Evidence
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.reference.fit import ENOUGH, fit_reference
from pymc_arm.models.reference.guard import check_reference, is_small
from pymc_arm.models.reference.path import ReferencePath
from pymc_arm.models.reference.prior_look import look_from_prior
from pymc_arm.models.reference.target import SharedTarget

WIDE = 10.0
VALUES = np.round(np.random.default_rng(5).normal([0.0, 1.5] * 8), 2)


@cache
def overlapping():
    """Two normals for values that one explains as well: the other is then where its prior is."""
    with pm.Model() as model:
        share = pm.Beta("share", 1, 1)
        mean = pm.Normal("mean", 0, WIDE, shape=2)
        pm.NormalMixture("y", pt.stack([share, 1 - share]), mean, 1.0, observed=VALUES)
    return model


@cache
def exact():
    """Return log Z: a sum over who belongs to the first component."""
    first = np.array(list(itertools.product([0, 1], repeat=len(VALUES))))
    counts = first.sum(axis=1)
    total = scipy.special.betaln(1 + counts, 1 + len(VALUES) - counts)
    for member in (first, 1 - first):
        count, sums, squares = member.sum(axis=1), member @ VALUES, member @ VALUES**2
        precision = WIDE**-2 + count
        total = total - 0.5 * (count * np.log(2 * np.pi) + squares - sums**2 / precision)
        total = total - 0.5 * np.log(precision * WIDE**2)
    return scipy.special.logsumexp(total)


@cache
def before_and_after():
    path = compile_model(overlapping())
    target = SharedTarget(path)
    found = fit_reference(path, target=target)
    return path, target, found, look_from_prior(path, target, found)


def standard_error(reference):
    return np.sqrt((1 / reference.overlap - 1) / 4000)


def test_the_slabs_are_seen():
    """log Z of 4000 weighted draws: low by 10 se before, and within 4 se after (1 in 16,000)."""
    _, _, found, better = before_and_after()
    assert found.log_evidence < exact() - 8 * standard_error(found)
    assert better.overlap > 0.4
    assert abs(better.log_evidence - exact()) < 4 * standard_error(better)
    assert better.evaluations > found.evaluations


def test_the_guard_accepts_what_it_refused():
    """It makes a run of its own."""
    path, target, found, better = before_and_after()
    agrees = []
    for reference in (found, better):
        evidence = Evidence(reference.log_evidence, standard_error(reference), 3.0)
        agrees.append(check_reference(ReferencePath(path, reference, target), evidence).agrees)
    assert agrees == [False, True]


def test_what_fits_is_left():
    with pm.Model() as model:
        x = pm.Normal("x", shape=2)
        pm.Normal("y", x[:, None], 1, observed=np.zeros((2, 30)))
    path = compile_model(model)
    target = SharedTarget(path)
    found = fit_reference(path, target=target)
    assert found.overlap > ENOUGH
    assert is_small(path)
    assert look_from_prior(path, target, found) is found
