"""Data beside draws are compared with those of the model, number by number."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_arm._compat import make_tree
from pymc_arm.errors import DrawsError
from pymc_arm.models.given_data import ROUNDING, check_data, describe_difference

ROWS = np.array([1.0, -2.0, 3.0])


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        (ROWS, ROWS, ""),
        (ROWS, ROWS * (1 + 0.5 * ROUNDING), ""),
        (ROWS, ROWS[:2], "has shape (3,) in the model, and (2,)"),
        (ROWS, np.array([1.0, -2.5, 3.0]), "is -2 at [1] in the model, and -2.5"),
        (np.arange(3), np.array([0.0, 1.0, 2.0]), ""),
        (np.arange(3), np.array([0, 1, 5]), "is 2 at [2] in the model, and 5"),
        (np.array([True, False]), np.array([1, 0]), ""),
        (np.array(["a", "b"]), np.array(["a", "c"]), ""),
        (np.zeros((0, 2)), np.zeros((0, 2)), ""),
    ],
)
def test_the_first_difference_is_described(mine, theirs, expected):
    assert describe_difference(np.ma.asarray(mine), theirs) == expected


def test_values_that_are_missing_may_be_stored_as_anything():
    mine = np.ma.masked_invalid([1.0, np.nan, 3.0])
    assert describe_difference(mine, np.array([1.0, 99.0, 3.0])) == ""
    assert describe_difference(mine, np.array([1.0, 99.0, 4.0])).startswith("is 3 at [2]")


def test_observations_and_constants_are_looked_at_and_other_names_are_not():
    with pm.Model() as model:
        x = pm.Data("x", np.array([0.0, 1.0, 2.0]))
        slope = pm.Normal("slope")
        pm.Normal("y", slope * x, 1.0, observed=ROWS)

    def stored(y=ROWS, x=(0.0, 1.0, 2.0)):
        groups = {
            "observed_data": xr.Dataset({"y": ("row", y), "other": ("row", np.ones(3))}),
            "constant_data": xr.Dataset({"x": ("row", list(x))}),
        }
        return make_tree(groups, {})

    check_data(stored(), model)
    check_data(make_tree({"posterior": xr.Dataset()}, {}), model)
    with pytest.raises(DrawsError, match=r"'y' is 1 at \[0\] in the model, and 7 in observed_data"):
        check_data(stored(y=np.array([7.0, -2.0, 3.0])), model)
    with pytest.raises(DrawsError, match=r"'x' is 2 at \[2\] in the model, and 5 in constant_data"):
        check_data(stored(x=(0.0, 1.0, 5.0)), model)


def test_a_single_number_is_stored_as_a_row_of_one():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean"), 1.0, observed=0.5)
    check_data(make_tree({"observed_data": xr.Dataset({"y": ("row", [0.5])})}, {}), model)
