"""What the benchmark of machines concludes from runs."""

import numpy as np

from benchmarks.rbm_rows import Row, claims

REFERENCE = (100.0, 0.05)


def row(method, errors, seconds=1.0, variance=None):
    predicted = None if variance is None else np.full(len(errors), variance)
    return Row(method, 100.0 + np.array(errors), seconds, REFERENCE, predicted)


def test_distance_is_of_the_mean_of_z_in_combined_errors():
    found = row("ARM", np.log([1.0, 3.0]))
    np.testing.assert_allclose(found.error, np.log(2))
    np.testing.assert_allclose(found.distance, np.log(2) / np.hypot(0.5, 0.05))
    np.testing.assert_allclose(found.cost, np.log(3) ** 2 / 2)


def test_intervals_of_four_chains_are_counted():
    near = [0.1, -0.1, 0.05, -0.05]
    far = [5.1, 4.9, 5.05, 4.95]
    assert row("ARM", [*near, *far, 0.0], variance=0.01).coverage() == (1, 2)
    assert "covered 1/2" in str(row("ARM", near + far, variance=0.01))


def test_claims_compare_with_the_rivals_that_were_run():
    rows = [
        row("RM", [0.5, -0.5], 10.0),
        row("tempered", [0.3, -0.3], 2.0),
        row("   AIS, K = 9", [0.1, -0.1], 2.0),
    ]
    found = list(claims(rows))
    assert [line.split(":")[0].strip() for line in found] == [
        "holds",
        "holds",
        "does not hold",
        "holds",
    ]
    assert "ahead of RM" in found[1]
    assert "AIS, K = 9" in found[2]
    assert list(claims(rows[:1])) == []
