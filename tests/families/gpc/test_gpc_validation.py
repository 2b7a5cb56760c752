"""Bad input: errors name the argument and the entry."""

import numpy as np
import pytest

from pymc_arm.families.gpc import GPCPath

GOOD = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 1.5]])


def altered(row, column, value):
    matrix = GOOD.copy()
    matrix[row, column] = value
    return matrix


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        (altered(0, 2, 0.4), r"not symmetric: K\[0, 2\] is 0.4, but K\[2, 0\] is 0.1"),
        (altered(1, 2, np.nan), r"K\[1, 2\] is nan"),
        (altered(2, 2, np.inf), r"K\[2, 2\] is inf"),
        (altered(2, 2, -1.0), r"not positive definite.*K\[2, 2\].*Jitter is never added"),
        (np.ones((3, 3)), r"not positive definite.*row 1"),
        (GOOD[:2], r"K has shape \(2, 3\)"),
        (np.zeros((0, 0)), r"K has shape \(0, 0\)"),
    ],
)
def test_bad_covariance(covariance, message):
    with pytest.raises(ValueError, match=message):
        GPCPath(covariance, [0, 1, 1])


def test_rounding_is_not_asymmetry():
    matrix = GOOD.copy()
    matrix[0, 2] += 1e-12
    assert np.array_equal(GPCPath(matrix, [0, 1, 1]).covariance, ((matrix + matrix.T) / 2))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], r"y has shape \(2,\), but K has 3 rows"),
        ([[0], [1], [1]], r"y has shape \(3, 1\)"),
        ([0, 1, 2], r"y\[2\] is 2"),
        ([0, np.nan, 1], r"y\[1\] is nan"),
        ([0, 1, -1], r"y\[0\] is 0 and y\[2\] is -1"),
        (["a", "b", "a"], r"y has type"),
    ],
)
def test_bad_labels(labels, message):
    with pytest.raises(ValueError, match=message):
        GPCPath(GOOD, labels)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"mean": [1, 2]}, r"mean has shape \(2,\)"),
        ({"mean": [1, np.nan, 2]}, r"mean\[1\] is nan"),
        ({"representation": "w"}, "representation='w' is not one of"),
        ({"kernel": "hmc"}, "kernel='hmc' is not one of"),
        ({"lookahead": "laplace"}, "lookahead='laplace' is not one of"),
        ({"order": "best"}, "order='best' is not one of"),
        ({"order": [0, 0, 1]}, "order must be a permutation"),
        ({"dtype": "int32"}, "dtype='int32' is not one of"),
        ({"relaxation": 0}, "relaxation=0 must be"),
        ({"sweeps": 0}, "sweeps=0 must be"),
        ({"threads": 0}, "threads=0"),
    ],
)
def test_bad_options(option, message):
    with pytest.raises(ValueError, match=message):
        GPCPath(GOOD, [0, 1, 1], **option)
