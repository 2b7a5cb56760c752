"""Sums, derivatives and draws of random factor graphs, against all configurations."""

import numpy as np
import pytest
from scipy import special, stats

from pymc_arm.models.elimination.schedule import Factors, TooLarge, make_schedule
from pymc_arm.models.elimination.sum_product import differentiate, draw, sum_out

SIZES = {0: 2, 1: 3, 2: 2, 3: 4, 4: 2, 5: 3, 6: 2}
# A loop of four with a tail, and a component of two; columns of an array have the same shape.
FACTORS = [
    Factors(((0, 1), (2, 1))),
    Factors(((3, 2), (3, 0))),
    Factors(((4, 3),)),
    Factors(((5,),)),
    Factors(((6, 5),)),
    Factors(((0,), (4,))),
]
POINTS = 4


def random_tables(rng, zeros=False):
    tables = []
    for factors in FACTORS:
        cells = int(np.prod([SIZES[v] for v in factors.scopes[0]]))
        table = rng.normal(size=(cells, len(factors.scopes), POINTS))
        if zeros:
            table[rng.random(table.shape) < 0.2] = -np.inf
        tables.append(table)
    return tables


def joint(tables, variables):
    """The log of the product of all factors at all configurations, (..., points)."""
    total = np.zeros([SIZES[v] for v in variables] + [POINTS])
    for factors, table in zip(FACTORS, tables, strict=True):
        for column, scope in enumerate(factors.scopes):
            if not set(scope) <= set(variables):
                continue
            own = table[:, column].reshape(*(SIZES[v] for v in scope), POINTS)
            order = np.argsort([variables.index(v) for v in scope]).tolist()
            own = own.transpose(*order, len(scope))
            shape = [SIZES[v] if v in scope else 1 for v in variables]
            total = total + own.reshape(*shape, POINTS)
    return total


@pytest.mark.parametrize("zeros", [False, True])
def test_sums_are_those_over_all_configurations(zeros):
    tables = random_tables(np.random.default_rng(1), zeros)
    schedule = make_schedule(FACTORS, SIZES, 1e6)
    assert schedule.components == ((0, 1, 2, 3, 4), (5, 6))
    found, _ = sum_out(schedule, tables)
    for number, variables in enumerate(([0, 1, 2, 3, 4], [5, 6])):
        logs = joint(tables, variables).reshape(-1, POINTS)
        np.testing.assert_allclose(found[number], special.logsumexp(logs, axis=0), rtol=1e-12)


def test_a_configuration_far_below_the_others_is_not_lost():
    """Log space: one factor prefers by 1000 nats what another forbids."""
    schedule = make_schedule([Factors(((0,),)), Factors(((0,),))], {0: 2}, 10)
    one = np.array([0.0, -1000.0]).reshape(2, 1, 1)
    other = np.array([-np.inf, -1000.0]).reshape(2, 1, 1)
    assert sum_out(schedule, [one, other])[0] == pytest.approx(-2000.0)


def test_derivatives_are_probabilities_of_cells():
    tables = random_tables(np.random.default_rng(2))
    schedule = make_schedule(FACTORS, SIZES, 1e6)
    _, shares = sum_out(schedule, tables, keep=True)
    weights = np.array([[1.0], [0.7]]) * np.ones(POINTS)
    found = differentiate(schedule, tables, shares, weights)
    for array, table in enumerate(tables):
        for place in np.ndindex(table.shape):
            shifted = [t.copy() for t in tables]
            ends = []
            for step in (1e-5, -1e-5):
                shifted[array][place] = table[place] + step
                total = (weights * sum_out(schedule, shifted)[0]).sum()
                ends.append(total)
            assert found[array][place] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-8)


def test_what_is_the_same_for_all_points_needs_one():
    rng = np.random.default_rng(3)
    tables = random_tables(rng)
    tables[1] = tables[1][:, :, :1]
    wide = [np.broadcast_to(t, (*t.shape[:2], POINTS)) for t in tables]
    schedule = make_schedule(FACTORS, SIZES, 1e6)
    found, shares = sum_out(schedule, tables, keep=True)
    expected, wide_shares = sum_out(schedule, wide, keep=True)
    np.testing.assert_allclose(found, expected)
    weights = np.ones(found.shape)
    some = differentiate(schedule, tables, shares, weights)
    every = differentiate(schedule, wide, wide_shares, weights)
    np.testing.assert_allclose(some[0], every[0])
    assert some[1].size == 0


def test_draws_have_the_joint_probabilities():
    """Chi-square over all 96 configurations of a component; false alarm once in 1000."""
    rng = np.random.default_rng(4)
    tables = [np.repeat(t[:, :, :1], 20_000, axis=2) for t in random_tables(rng)]
    schedule = make_schedule(FACTORS, SIZES, 1e6)
    _, shares = sum_out(schedule, tables, keep=True)
    values = draw(rng, schedule, shares, SIZES, 20_000)
    variables = [0, 1, 2, 3, 4]
    shape = [SIZES[v] for v in variables]
    logs = joint([t[:, :, :POINTS] for t in tables], variables)[..., 0].ravel()
    probabilities = special.softmax(logs)
    cell = np.ravel_multi_index([values[v] for v in variables], shape)
    counts = np.bincount(cell, minlength=len(logs))
    often = probabilities * 20_000 > 5
    observed = [*counts[often], counts[~often].sum()]
    expected = [*(20_000 * probabilities[often]), 20_000 * probabilities[~often].sum()]
    if expected[-1] == 0:
        observed, expected = observed[:-1], expected[:-1]
    assert stats.chisquare(observed, expected).pvalue > 1e-3


def test_tables_that_are_too_large_are_refused():
    with pytest.raises(TooLarge):
        make_schedule([Factors((tuple(range(8)),))], dict.fromkeys(range(8), 4), 1000)


def test_labels_are_one_batch():
    schedule = make_schedule(
        [Factors(tuple((k,) for k in range(500)))], dict.fromkeys(range(500), 3), 9
    )
    assert len(schedule.batches) == 1
    assert len(schedule.components) == 500


def test_draws_from_tables_that_all_points_share_are_the_same_as_from_copies_of_them():
    """They are searched once, and not once for each point."""
    count = 500
    one = [table[:, :, :1] for table in random_tables(np.random.default_rng(5))]
    schedule = make_schedule(FACTORS, SIZES, 1e6)
    found = []
    for tables in (one, [np.repeat(table, count, axis=2) for table in one]):
        _, shares = sum_out(schedule, tables, keep=True)
        found.append(draw(np.random.default_rng(6), schedule, shares, SIZES, count))
    shared, copied = found
    assert shared.keys() == copied.keys()
    for variable, values in shared.items():
        np.testing.assert_array_equal(values, copied[variable])
        assert len(np.unique(values)) == SIZES[variable]
