"""Draws from the prior, and from values back to variables, without compiling anything.

Both graphs run once or twice a run, on all particles at once, so NumPy's own speed is enough:
they are batched and interpreted, which saves the seconds that a compiler would take.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.transforms import Ordered
from pymc.logprob.abstract import MeasurableOp
from pytensor.compile.mode import Mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.rewriting.basic import in2out
from pytensor.graph.traversal import ancestors, walk
from pytensor.tensor.random.type import RandomGeneratorType
from pytensor.tensor.variable import TensorVariable

from pymc_arm._compat import COMPILING
from pymc_arm.models.graph.batching import batch_draws, open_graph
from pymc_arm.models.graph.interpret import read_graph

__all__ = [
    "INTERPRETED",
    "PriorSampler",
    "batched_function",
    "function_of_draws",
    "interpreted",
    "is_fixed",
    "with_deterministics",
]

# From a generator and a size to draws.
_Draw = Callable[[np.random.Generator, int], Sequence[Any]]
INTERPRETED = Mode(linker="py", optimizer=None)


def interpreted() -> AbstractContextManager[None]:
    """Have inner graphs (of scans, say) interpreted too."""
    return pytensor.config.change_flags(mode="FAST_COMPILE")


class PriorSampler:
    """Joint prior draws of the values of all free variables (transformed, unconstrained)."""

    def __init__(self, model: pm.Model) -> None:
        self.variables = list(model.free_RVs)
        self._values = [_forward(model, rv) for rv in self.variables]
        self._size: Variable | None = pt.lscalar("size")
        self._function: _Draw | None = None

    def draw(self, rng: np.random.Generator, size: int) -> list[np.ndarray]:
        """Return an array (size, ...) for each free variable."""
        if not self.variables:
            return []
        # Generators are set from outside and inner graphs compile at their first call.
        with COMPILING, warnings.catch_warnings(), interpreted():
            warnings.simplefilter("ignore")
            if self._size is None:
                return self._draw_one_by_one(rng, size)
            begun = self._function is not None
            try:
                return self._draw_batched(rng, size)
            except Exception as error:
                # Some graphs cannot be batched; one draw at a time always works. What has worked
                # before fails for another reason, and other draws would not be those of the seed.
                if begun or isinstance(error, MemoryError):
                    raise
                self._size = self._function = None
                return self._draw_one_by_one(rng, size)

    def _draw_batched(self, rng: np.random.Generator, size: int) -> list[np.ndarray]:
        if self._function is None:
            graphs = batch_draws(self._values, self.variables, self._size)
            self._function = self._interpret(graphs)
        arrays = [np.asarray(array) for array in self._function(rng, size)]
        for array, value in zip(arrays, self._values, strict=True):
            if array.ndim != value.type.ndim + 1 or len(array) != size:
                raise ValueError("the batch did not reach every variable")
        return arrays

    def _draw_one_by_one(self, rng: np.random.Generator, size: int) -> list[np.ndarray]:
        if self._function is None:
            self._function = self._compile(self._values)
        rows = self._function(rng, size)
        return [np.stack(column) for column in zip(*rows, strict=True)]

    def _interpret(self, graphs: list[TensorVariable]) -> _Draw:
        """Return the function of a batched graph."""
        # Depth first, as PyTensor's own functions have them.
        found = walk(graphs[::-1], lambda v: v.owner and v.owner.inputs[::-1], bfs=False)
        shared = [v for v in found if isinstance(v, SharedVariable)]
        fgraph = FunctionGraph([self._size, *shared], graphs, clone=True)
        in2out(open_graph).rewrite(fgraph)
        program = read_graph(fgraph)
        random = [isinstance(variable.type, RandomGeneratorType) for variable in shared]

        def draw(rng: np.random.Generator, size: int) -> list[np.ndarray]:
            generators = iter(rng.spawn(sum(random)))
            values = (
                next(generators) if is_random else variable.get_value(borrow=True)
                for variable, is_random in zip(shared, random, strict=True)
            )
            return program(np.asarray(size), *values)

        return draw

    def _compile(self, graphs: list[TensorVariable]) -> _Draw:
        """Return a function that draws one row after another."""
        function = pm.compile([], graphs, mode=INTERPRETED)
        generators = [
            variable
            for variable in function.get_shared()
            if isinstance(variable.type, RandomGeneratorType)
        ]

        def draw(rng: np.random.Generator, size: int) -> list[list[np.ndarray]]:
            for variable, child in zip(generators, rng.spawn(len(generators)), strict=True):
                variable.set_value(child, borrow=True)
            return [function() for _ in range(size)]

        return draw


def batched_function(
    inputs: Sequence[TensorVariable], outputs: Sequence[TensorVariable]
) -> Callable[..., list[np.ndarray]]:
    """Return an interpreted function of inputs with one more leading axis, the particle."""
    rows = [pt.tensor(dtype=i.type.dtype, shape=(None, *i.type.shape)) for i in inputs]
    try:
        batched = vectorize_graph(list(outputs), dict(zip(inputs, rows, strict=True)))
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
    except Exception:
        # Not every operation has a batched form.
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


def is_fixed(variables: Sequence[Variable]) -> bool:
    """Whether no random variable is among what these depend on."""
    return not any(
        variable.owner is not None and isinstance(variable.owner.op, MeasurableOp)
        for variable in ancestors(variables)
    )


def _forward(model: pm.Model, rv: TensorVariable) -> TensorVariable:
    """Return the graph of a draw, transformed as the model's value variable is."""
    transform = model.rvs_to_transforms.get(rv)
    if transform is None:
        return rv
    draw = rv
    if isinstance(transform, Ordered):
        # Sorting a draw of exchangeable elements is a draw from the ordered prior.
        draw = pt.sort(rv, axis=-1)
    return transform.forward(draw, *rv.owner.inputs)
