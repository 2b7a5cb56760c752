"""Errors of a row of updates by weights, since draws were last new."""

import numpy as np
import pytest

from pymc_arm.results import Evidence
from pymc_arm.running.renewal import RESAMPLING, Renewal


def nothing_new(points):
    return np.zeros(len(points))


def ratio_since(rows):
    return nothing_new


def test_a_result_without_a_record_is_the_last_one_with_new_draws():
    found = Renewal.read({}, Evidence(-3.0, 0.1, 3), {"y": 10}, ratio_since)
    assert (found.rows, found.updates, found.evidence.log_evidence) == ({"y": 10}, 0, -3.0)


def test_what_is_recorded_is_read_again():
    first = Renewal({"y": 10}, Evidence(-3.0, 0.1, 3), 400.0, 1, nothing_new)
    again = Renewal.read(
        first.record(0.2, matched=False), Evidence(-5.0, 0.2, 3), {"y": 14}, ratio_since
    )
    assert (again.rows, again.independent, again.updates) == ({"y": 10}, 400.0, 2)
    assert again.evidence.standard_error == 0.1
    assert again.carried == pytest.approx(np.sqrt(0.2**2 - 0.1**2))
    assert not again.matched


def test_weights_of_known_second_moment_give_the_variance():
    # Of resampled draws the mean weight is the second moment: here 1.5, so that the variance of
    # a mean of 100 weights is 0.5 / 100, and each update adds a share of it.
    growth = 0.7
    own = Renewal({"y": 1}, Evidence(0.0, 0.03, 3), 100.0, 2, nothing_new)
    ratios = np.log([1.0, 2.0]) + growth
    expected = 0.03**2 + 0.5 / 100 * (1 + 2 * RESAMPLING)
    assert own.variance(ratios, growth) == pytest.approx(expected)


def test_errors_of_moved_draws_add_up_as_one():
    first = Renewal({"y": 10}, Evidence(-3.0, 0.1, 3), 400.0, 0, nothing_new)
    assert first.sum_of_errors(0.05) == pytest.approx(0.1**2 + 0.05**2)
    record = first.record(np.sqrt(first.sum_of_errors(0.05)), matched=True)
    again = Renewal.read(record, Evidence(-5.0, 0.2, 3), {"y": 14}, ratio_since)
    assert again.matched
    assert again.sum_of_errors(0.03) == pytest.approx(0.1**2 + 0.08**2)
