"""Which rows are new since a result was made, and which terms they are."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_arm._compat import make_tree
from pymc_arm.errors import DrawsError
from pymc_arm.models.appended import Rows, find_rows, find_terms
from pymc_arm.models.compiled import compile_model

ALL = np.array([[0.5, 1.0], [2.0, 3.0], [4.0, 5.0]])


def stored(**arrays):
    variables = {
        name: ([f"{name}_{k}" for k in range(np.ndim(value))], value)
        for name, value in arrays.items()
    }
    return make_tree({"observed_data": xr.Dataset(variables)}, {})


@pytest.fixture(scope="module")
def model():
    """A table of three rows, a vector of which no row is new, and a prior."""
    with pm.Model() as model:
        mean = pm.Normal("mean", shape=2)
        pm.Normal("y", mean, 1.0, observed=ALL)
        pm.Normal("z", mean[0], 1.0, observed=[1.0, 2.0])
    return model


def test_rows_are_counted(model):
    found = find_rows(stored(y=ALL[:2], z=np.array([1.0, 2.0])), model)
    assert found == {"y": Rows(2, 3), "z": Rows(2, 2)}


def test_the_terms_are_those_of_the_last_rows(model):
    density = compile_model(model).density
    terms = find_terms(density, {"y": Rows(2, 3), "z": Rows(2, 2)})
    # Two terms of the prior, and then six of y, row by row, of which the last two are new.
    assert [block.name for block in density.blocks] == ["mean", "y", "z"]
    np.testing.assert_array_equal(terms, [6, 7])
    points = np.array([[0.3, -0.2]])
    expected = -0.5 * (ALL[2] - points[0]) ** 2 - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(density.terms(points, terms)[0], expected)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"y": ALL, "z": [1.0, 2.0]}, "There are no new rows: 'y' has 3, 'z' has 2"),
        ({"y": ALL[:2]}, "'z' is observed in the model and not in the result"),
        ({"y": ALL[:2], "z": [1.0, 2.0], "w": [1.0]}, "'w' is observed in the result and not"),
        ({"y": ALL[:2], "z": [1.0, 2.0, 3.0]}, "rows can only be appended, along the first axis"),
        ({"y": ALL[:2, :1], "z": [1.0, 2.0]}, r"'y' has shape \(3, 2\) in the model, and \(2, 1\)"),
        ({"y": ALL[1:], "z": [1.0, 2.0]}, r"Old data have changed: 'y' is 0.5 at \[0, 0\]"),
    ],
)
def test_other_data_are_refused(model, data, message):
    with pytest.raises(DrawsError, match=message):
        find_rows(stored(**{name: np.asarray(value) for name, value in data.items()}), model)


def test_a_result_without_data_is_refused(model):
    with pytest.raises(DrawsError, match="no group 'observed_data'"):
        find_rows(make_tree({"posterior": xr.Dataset()}, {}), model)


def test_a_density_that_is_no_product_over_rows_is_refused():
    class Joint:
        """One term for all three rows."""

        blocks = (type("Block", (), {"name": "y", "kind": "data"}),)
        piece_sizes = ((1,),)

    with pytest.raises(DrawsError, match=r"'y' is no product over its rows \(1 factors for 3"):
        find_terms(Joint(), {"y": Rows(2, 3)})
