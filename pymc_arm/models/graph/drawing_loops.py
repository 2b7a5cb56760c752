"""Loops that draw random variables, for many draws at once.

PyTensor can't batch a scan with a generator in it, such as that of an autoregression, of a
stochastic differential equation, or of a chain of states. One step of it can be batched, and the
loop runs that. Each step gets a generator of its own.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.replace import _vectorize_node
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.scan.op import Scan
from pytensor.tensor.random.type import RandomGeneratorType
from pytensor.tensor.variable import TensorVariable

from pymc_arm.models.graph.interpret import read_graph

__all__ = ["DrawingLoop", "replace_drawing_loops"]

# Of graphs, variables in place of some in them, and a size: the graphs of so many draws.
Batch = Callable[
    [Sequence[Variable], dict[Variable, Variable], TensorVariable], list[TensorVariable]
]


def replace_drawing_loops(size: TensorVariable, batch: Batch) -> Any:
    """Return a rewriter that puts a :class:`DrawingLoop` in place of each scan with generators.

    Parameters
    ----------
    size
        The number of draws.
    batch
        Makes the graphs of many draws from those of one; for the step of a loop.
    """

    @node_rewriter([Scan])
    def replace(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
        scan, info = node.op, node.op.info
        generators = scan.outer_untraced_sit_sot(node.inputs)
        if not generators or info.n_mit_mot or info.as_while:
            return None
        if not all(isinstance(variable.type, RandomGeneratorType) for variable in generators):
            return None
        loop = DrawingLoop(node, batch)
        replaced: list[Variable] = loop.make_node(size, *node.inputs).outputs
        return replaced

    return replace


class DrawingLoop(Op):
    """Stands for a scan with generators in it, until it is batched.

    Parameters
    ----------
    node
        The scan.
    batch
        As of :func:`replace_drawing_loops`.
    """

    def __init__(self, node: Apply, batch: Batch) -> None:
        self.scan, self.types = node.op, [variable.type for variable in node.outputs]
        self.batch = batch

    def make_node(self, *inputs: Variable) -> Apply:
        """Take the number of draws, and the inputs of the scan."""
        return Apply(self, list(inputs), [kind() for kind in self.types])

    def perform(self, node: Apply, inputs: list[Any], output_storage: Any) -> None:
        """Refuse: a single draw is made by the scan itself."""
        raise NotImplementedError

    def batched(self, inputs: Sequence[Variable], node: Apply) -> Apply:
        """Return the loop that makes many draws, where some of the inputs have a first axis."""
        pairs = zip(inputs[1:], node.inputs[1:], strict=True)
        longer = tuple(
            isinstance(new, TensorVariable) and new.type.ndim > old.type.ndim for new, old in pairs
        )
        if longer[0]:
            raise NotImplementedError("The number of steps of a loop is random.")
        return _BatchedLoop(self, longer).make_node(*inputs)


@_vectorize_node.register(DrawingLoop)
def _vectorize_loop(op: DrawingLoop, node: Apply, *inputs: Variable) -> Apply:
    return op.batched(inputs, node)


class _BatchedLoop(Op):
    """Makes many draws of a loop; ``longer`` says which inputs of the scan have a first axis."""

    def __init__(self, loop: DrawingLoop, longer: tuple[bool, ...]) -> None:
        self._loop, self._longer = loop, longer
        scan, info = loop.scan, loop.scan.info
        self._taps = [*info.mit_sot_in_slices, *info.sit_sot_in_slices]
        self._traced = len(self._taps) + info.n_nit_sot
        inner = scan.fgraph.unfreeze() if hasattr(scan.fgraph, "unfreeze") else scan.fgraph
        inputs, self._outputs = list(inner.inputs), list(inner.outputs)[: self._traced]
        states = info.n_seqs + sum(len(own) for own in self._taps)
        self._generators = scan.inner_untraced_sit_sot(inputs)
        self._fixed = scan.inner_non_seqs(inputs)
        #: Of the inputs of a step: sequences, states, and what is the same in all steps.
        self._given = [*inputs[:states], *self._fixed]
        is_longer = [
            *scan.outer_seqs([False, *longer[1:]]),
            *[True] * (states - info.n_seqs),
            *scan.outer_non_seqs([False, *longer[1:]]),
        ]
        self._step = self._compile(is_longer)

    def make_node(self, *inputs: Variable) -> Apply:
        """Take the number of draws, and the inputs of the scan."""
        outputs = []
        for kind in self._loop.types:
            tensor = isinstance(kind, pt.TensorType)
            outputs.append((pt.TensorType(kind.dtype, (None, *kind.shape)) if tensor else kind)())
        return Apply(self, list(inputs), outputs)

    def perform(self, node: Apply, inputs: list[Any], output_storage: Any) -> None:
        """Take one step after another, all draws at once."""
        scan, info = self._loop.scan, self._loop.scan.info
        size, (steps, *rest) = int(inputs[0]), inputs[1:]
        given = [steps, *rest]
        axes = [int(longer) for longer in self._longer]
        sequences = list(zip(scan.outer_seqs(given), scan.outer_seqs(axes), strict=True))
        states = [
            [
                np.broadcast_to(_along(buffer, axis, k), _shape(buffer, axis, size))
                for k in range(-min(own))
            ]
            for buffer, axis, own in zip(
                [*scan.outer_mitsot(given), *scan.outer_sitsot(given)],
                [*scan.outer_mitsot(axes), *scan.outer_sitsot(axes)],
                self._taps,
                strict=True,
            )
        ]
        collected: list[list[np.ndarray]] = [[] for _ in range(info.n_nit_sot)]
        generators = scan.outer_untraced_sit_sot(given)
        fixed = scan.outer_non_seqs(given)
        for number in range(int(steps)):
            now = [np.take(sequence, number, axis=axis) for sequence, axis in sequences]
            for values, own in zip(states, self._taps, strict=True):
                now += [values[len(values) + tap] for tap in own]
            fresh = [generator.spawn(1)[0] for generator in generators]
            results = self._step(np.asarray(size), *fresh, *now, *fixed)
            for values, result in zip([*states, *collected], results, strict=True):
                values.append(np.asarray(result))
        for cell, values in zip(output_storage, [*states, *collected], strict=False):
            cell[0] = np.stack(values, axis=1)
        for cell, generator in zip(output_storage[self._traced :], generators, strict=True):
            cell[0] = generator

    def _compile(self, is_longer: Sequence[bool]) -> Callable[..., list[np.ndarray]]:
        """Return the step as a function of the size, generators, and the other inputs."""
        size = pt.lscalar("size")
        places = [
            pt.tensor(dtype=variable.type.dtype, shape=(None, *variable.type.shape))
            for variable, longer in zip(self._given, is_longer, strict=True)
            if longer
        ]
        longer = [v for v, more in zip(self._given, is_longer, strict=True) if more]
        graphs = self._loop.batch(self._outputs, dict(zip(longer, places, strict=True)), size)
        new = iter(places)
        inputs = [next(new) if more else v for v, more in zip(self._given, is_longer, strict=True)]
        fgraph = FunctionGraph([size, *self._generators, *inputs], graphs, clone=True)
        return read_graph(fgraph)


def _along(buffer: np.ndarray, axis: int, number: int) -> np.ndarray:
    """Return one step of a buffer, with a first axis."""
    taken = np.take(buffer, number, axis=axis)
    return taken if axis else taken[None]


def _shape(buffer: np.ndarray, axis: int, size: int) -> tuple[int, ...]:
    """Return the shape of one step of a buffer for all draws."""
    return (size, *buffer.shape[axis + 1 :])
