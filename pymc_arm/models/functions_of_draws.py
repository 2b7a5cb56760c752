"""Functions of draws: graphs of a model, interpreted for all draws at once."""

import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace
from pytensor.tensor.variable import TensorVariable

from pymc_arm._compat import COMPILING
from pymc_arm.models.graph.vectorizing import vectorize
from pymc_arm.models.graph_sampler import INTERPRETED

__all__ = ["batched_function", "function_of_draws", "with_deterministics"]

_log = logging.getLogger("pymc")


def batched_function(
    inputs: Sequence[TensorVariable], outputs: Sequence[TensorVariable]
) -> Callable[..., list[np.ndarray]]:
    """Return an interpreted function of inputs with one more leading axis, the particle.

    Not every operation has a batched form: then it is called for one particle after another, and
    the log says why.
    """
    rows = [pt.tensor(dtype=i.type.dtype, shape=(None, *i.type.shape)) for i in inputs]
    try:
        batched = vectorize(outputs, dict(zip(inputs, rows, strict=True)))
        function = pytensor.function(rows, batched, mode=INTERPRETED, on_unused_input="ignore")
        shapes = [output.type.ndim for output in outputs]

        def evaluate(*arrays: np.ndarray) -> list[np.ndarray]:
            count = len(arrays[0])
            with COMPILING:  # PyTensor's functions keep state during a call
                results = [np.array(result) for result in function(*arrays)]
            return [
                result if result.ndim == ndim + 1 else np.repeat(result[None], count, axis=0)
                for result, ndim in zip(results, shapes, strict=True)
            ]

        return evaluate
    except Exception as error:  # compilers raise anything: it is logged
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:120]
        names = ", ".join(str(output.name) for output in outputs)
        _log.info("pymc_arm: %s are evaluated one draw at a time: %s", names, reason)
        single = pytensor.function(
            list(inputs), list(outputs), mode=INTERPRETED, on_unused_input="ignore"
        )

        def loop(*arrays: np.ndarray) -> list[np.ndarray]:
            with COMPILING:
                rows_of_results = [single(*row) for row in zip(*arrays, strict=True)]
            return [np.stack(column) for column in zip(*rows_of_results, strict=True)]

        return loop


def function_of_draws(
    model: pm.Model, outputs: Sequence[TensorVariable]
) -> Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]:
    """Return a function from draws of the free variables by name, one a row, to the outputs.

    The variables themselves become inputs, so that parents are at their draws too.
    """
    inputs = [rv.clone() for rv in model.free_RVs]
    graphs = clone_replace(list(outputs), dict(zip(model.free_RVs, inputs, strict=True)))
    function = batched_function(inputs, graphs)

    def evaluate(draws: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        return function(*(np.asarray(draws[i.name]).astype(i.type.dtype) for i in inputs))

    return evaluate


def with_deterministics(model: pm.Model, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return draws of the free variables by name, with the model's deterministics."""
    if not model.deterministics or not draws:
        return dict(draws)
    values = function_of_draws(model, model.deterministics)(draws)
    names = [variable.name for variable in model.deterministics]
    return {**draws, **dict(zip(names, values, strict=True))}
