"""Every scalar operation, on every dtype that it accepts, is what PyTensor's own function gives."""

import itertools

import numpy as np
import pytensor
import pytensor.scalar.basic as scalar_basic
import pytensor.scalar.math as scalar_math
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.graph.fg import FunctionGraph
from pytensor.scalar.basic import Cast, ScalarOp
from pytensor.tensor.elemwise import Elemwise
from scipy.special import expit

from pymc_arm.models.graph.interpret import read_graph
from pymc_arm.models.graph.operations import array_function

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "float32", "float64"]
VALUES = {
    "b": [False, True],
    "i": [-3, -1, 0, 1, 2, 7, 40],
    "u": [0, 1, 2, 7, 40],
    "f": [-np.inf, -40.0, -2.5, -1.0, -0.5, 0.0, 0.3, 0.5, 1.0, 2.0, 40.0, np.inf, np.nan],
}
# What has no meaning for real numbers.
COMPLEX = {"angle", "complex", "complex_from_polar", "conj", "imag", "real"}
# The number of arguments of what takes any number.
ANY_NUMBER = {"add": (1, 2, 3), "mul": (1, 2, 3), "betaincinv": (3,)}
# Not in PyTensor 3, and in no model.
WITHOUT_ENTRY = {"GammaL", "GammaU"}


def operations() -> dict[str, ScalarOp]:
    found = {**vars(scalar_basic), **vars(scalar_math)}
    return {
        name: operation
        for name, operation in sorted(found.items())
        if isinstance(operation, ScalarOp) and name not in COMPLEX and "complex" not in name
        if "float16" not in name
    }


OPERATIONS = operations()


def make_node(operation, *dtypes, dimensions=1):
    inputs = [pt.tensor(dtype=dtype, shape=(None,) * dimensions) for dtype in dtypes]
    return Elemwise(operation).make_node(*inputs)


def values_of(dtype):
    return np.array(VALUES[np.dtype(dtype).kind], dtype=dtype)


def combinations(operation, name, dtype):
    """Return the dtypes of the other arguments that the operation accepts beside a first one."""
    for count in ANY_NUMBER.get(name, (operation.nin,)):
        others = DTYPES if count == 2 else ["bool", "int8", "int64", "float32", "float64"]
        # With three arguments and more, one of each kind is enough.
        choices = itertools.product(others, repeat=count - 1)
        if count > 2:
            choices = zip(*[others] * (count - 1), strict=True)
        for rest in choices:
            try:
                yield make_node(operation, dtype, *rest), (dtype, *rest)
            except (TypeError, NotImplementedError):
                continue


def reference(node, arrays):
    """Return what PyTensor gives, in C's rounding for integer powers, which NumPy refuses."""
    operation = node.op.scalar_op
    dtype = node.outputs[0].type.dtype
    if operation is scalar_basic.pow and np.dtype(dtype).kind in "iu":
        base, exponent = (np.asarray(a).astype(dtype).astype(float) for a in arrays)
        exact = np.trunc(np.power(base, exponent))
        # What does not fit is not defined.
        known = np.abs(exact) < min(2**53, np.iinfo(dtype).max)
        return np.where(known, exact, 0).astype(dtype), known
    if operation is scalar_math.softplus:  # PyTensor's own has half precision for booleans
        arrays = [np.asarray(array, dtype) for array in arrays]
    if operation is scalar_math.polygamma:  # and this one overflows in single precision
        arrays = [arrays[0].astype(np.int64), np.asarray(arrays[1], np.float64)]
    node.op.prepare_node(node, None, None, "py")
    storage = [[None]]
    node.op.perform(node, list(arrays), storage)
    return storage[0][0], np.ones(storage[0][0].shape, dtype=bool)


def check(node, arrays):
    with np.errstate(all="ignore"):
        function = array_function(node.op, node)
        if function is None:
            assert type(node.op.scalar_op).__name__ in WITHOUT_ENTRY
            return
        (found,) = function(*arrays)
        expected, known = reference(node, arrays)
    assert found.dtype == node.outputs[0].type.dtype
    assert found.shape == expected.shape
    tolerance = 2e-5 if found.dtype == np.float32 else 1e-11
    np.testing.assert_allclose(found[known], expected[known], rtol=tolerance, atol=1e-300)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_entry_agrees_with_pytensor(name, dtype):
    operation = OPERATIONS[name]
    for node, dtypes in combinations(operation, name, dtype):
        grid = np.meshgrid(*map(values_of, dtypes), indexing="ij")
        arrays = [array.ravel() for array in grid]
        if len(arrays) > 2:  # products of more would not fit into 8 bits
            keep = np.all([~(np.abs(array * 1.0) > 2.5) for array in arrays], axis=0)
            arrays = [array[keep] for array in arrays]
        if isinstance(operation, Cast) and np.dtype(node.outputs[0].dtype).kind in "iu":
            # What does not fit is not defined.
            info = np.iinfo(node.outputs[0].dtype)
            number = arrays[0].astype(float)
            keep = np.isfinite(number) & (number >= info.min) & (number <= info.max)
            arrays = [array[keep] for array in arrays]
        check(node, arrays)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_entry_takes_no_elements_no_axes_and_broadcasts(name):
    operation = OPERATIONS[name]
    for dtype in ("bool", "int64", "float64"):
        for count in ANY_NUMBER.get(name, (operation.nin,)):
            try:
                node = make_node(operation, *[dtype] * count)
                scalars = make_node(operation, *[dtype] * count, dimensions=0)
                tables = make_node(operation, *[dtype] * count, dimensions=2)
            except (TypeError, NotImplementedError):
                continue
            check(node, [np.zeros(0, dtype)] * count)
            check(scalars, [np.array(1, dtype)] * count)
            shapes = itertools.cycle([(1, 3), (2, 1), (2, 3)])
            some = [np.ones(shape, dtype) for shape, _ in zip(shapes, range(count), strict=False)]
            inputs = [
                pt.tensor(dtype=dtype, shape=tuple(1 if n == 1 else None for n in array.shape))
                for array in some
            ]
            tables = Elemwise(operation).make_node(*inputs)
            check(tables, some)


def evaluate(output, inputs, values):
    return read_graph(FunctionGraph(inputs, [output], clone=True))(*values)[0]


@pytest.mark.parametrize("dtype", ["int8", "int64", "bool"])
def test_booleans_among_numbers_are_counted(dtype):
    inputs = [pt.vector(dtype="bool"), pt.vector(dtype="bool"), pt.vector(dtype=dtype)]
    found = evaluate(pt.add(*inputs), inputs, [np.ones(2, "bool")] * 2 + [np.ones(2, dtype)])
    np.testing.assert_array_equal(found, np.full(2, True if dtype == "bool" else 3))


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "float64"])
def test_a_fused_operation_keeps_the_types_inside(dtype):
    x = scalar_basic.get_scalar_type(dtype)("x")
    inner = scalar_basic.Composite([x], [scalar_basic.reciprocal(x) + scalar_basic.exp(x) / 2])
    vector = pt.vector(dtype=dtype)
    found = evaluate(Elemwise(inner)(vector), [vector], [np.array([1, 2, 4], dtype)])
    expected = np.array([1.0, 0.5, 0.25]) + np.exp([1.0, 2.0, 4.0]) / 2
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("function", [pt.gammainc, pt.gammaincc])
def test_derivatives_that_are_loops_agree_with_pytensor(function):
    shape, x = pt.vector("shape"), pt.vector("x")
    slope = pt.grad(function(shape, x).sum(), shape)
    graph = FunctionGraph([shape, x], [slope], clone=True)
    program = read_graph(graph)
    assert program.vectorized
    places = np.array([0.3, 1.0, 2.5, 9.0, 20.0]), np.array([0.2, 3.0, 2.5, 35.0, 8.0])
    expected = pytensor.function([shape, x], slope, mode=Mode("py", None))(*places)
    np.testing.assert_allclose(program(*places)[0], expected, rtol=1e-12)


def test_a_sum_of_more_than_a_ufunc_takes_has_a_reference():
    inputs = [pt.vector() for _ in range(40)]
    graph = FunctionGraph(inputs, [pt.add(*inputs)], clone=True)
    found = read_graph(graph, by_perform=True)(*[np.ones(2)] * 40)[0]
    np.testing.assert_array_equal(found, [40.0, 40.0])


def test_logistic_functions_are_exact_from_end_to_end():
    x = pt.vector()
    at = np.concatenate([np.linspace(-740, 740, 2001), [-np.inf, np.inf, np.nan, 0.0, -1e-300]])
    with np.errstate(invalid="ignore"):
        expected = {pt.sigmoid: expit(at), pt.softplus: np.logaddexp(0.0, at)}
    for function, values in expected.items():
        found = evaluate(function(x), [x], [at])
        np.testing.assert_allclose(found, values, rtol=1e-15, atol=1e-305)
    one = pt.scalar()
    assert evaluate(pt.softplus(one), [one], [np.array(0.0)]) == np.log(2)
