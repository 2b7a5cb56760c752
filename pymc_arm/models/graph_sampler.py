"""Independent draws of any graphs that are made of random variables, without compiling anything."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import in2out
from pytensor.graph.traversal import walk
from pytensor.tensor.random.type import RandomGeneratorType
from pytensor.tensor.variable import TensorVariable

from pymc_arm._compat import COMPILING
from pymc_arm.models.graph.batching import batch_draws, open_graph
from pymc_arm.models.graph.interpret import read_graph

__all__ = ["INTERPRETED", "GraphSampler", "interpreted"]

# From a generator and a size to draws.
_Draw = Callable[[np.random.Generator, int], Sequence[Any]]
INTERPRETED = Mode(linker="py", optimizer=None)


def interpreted() -> AbstractContextManager[None]:
    """Have inner graphs (of scans, say) interpreted too."""
    return pytensor.config.change_flags(mode="FAST_COMPILE")


class GraphSampler:
    """Draws of graphs, all at once where they can be batched, and one by one where not.

    Parameters
    ----------
    values
        What is drawn.
    random
        The random variables that it is made of.
    """

    def __init__(self, values: Sequence[TensorVariable], random: Sequence[TensorVariable]) -> None:
        self._values, self._random = list(values), list(random)
        self._size: Variable | None = pt.lscalar("size")
        self._function: _Draw | None = None
        #: What could not be done as usual, in words.
        self.notes: list[str] = []

    @property
    def one_by_one(self) -> bool:
        """Whether draws have been found to be taken one at a time: some milliseconds each."""
        return self._size is None

    def draw_graphs(self, rng: np.random.Generator, size: int) -> list[np.ndarray]:
        """Return an array (size, ...) for each graph."""
        if not self._values:
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
                # Operations raise what they like when they meet a batch that they can't take; one
                # draw at a time always works. What has worked before fails for another reason, and
                # other draws would not be those of the seed.
                if begun or isinstance(error, MemoryError):
                    raise
                self._size = self._function = None
                reason = f"{type(error).__name__}: {error}".splitlines()[0][:120]
                self.notes.append(f"prior draws are taken one at a time: {reason}")
                return self._draw_one_by_one(rng, size)

    def _draw_batched(self, rng: np.random.Generator, size: int) -> list[np.ndarray]:
        if self._function is None:
            graphs = batch_draws(self._values, self._random, self._size)
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
        """Return a function that draws one row after another.

        A row with parameters that its distribution does not have, such as a negative scale, can't
        be drawn: it becomes NaN, as long as there are others.
        """
        function = pm.compile([], graphs, mode=INTERPRETED)
        generators = [
            variable
            for variable in function.get_shared()
            if isinstance(variable.type, RandomGeneratorType)
        ]

        def draw(rng: np.random.Generator, size: int) -> list[list[np.ndarray]]:
            for variable, child in zip(generators, rng.spawn(len(generators)), strict=True):
                variable.set_value(child, borrow=True)
            rows: list[list[np.ndarray] | None] = []
            failure: Exception | None = None
            for _ in range(size):
                try:
                    rows.append(function())
                except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
                    failure = error
                    rows.append(None)
            good = next((row for row in rows if row is not None), None)
            if good is None and failure is not None:
                raise failure
            assert good is not None
            impossible = [
                np.full(a.shape, np.nan if a.dtype.kind == "f" else 0, a.dtype) for a in good
            ]
            return [impossible if row is None else row for row in rows]

        return draw
