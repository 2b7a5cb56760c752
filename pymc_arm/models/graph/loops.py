"""The entry of the table for PyTensor's scan: a loop over steps, each for all particles at once.

PyTensor batches a scan by running it for one particle after another. Here the graph of a step is
batched instead: the cost of calls is shared by all particles, and nothing is compiled.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.scan.op import Scan
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.type import TensorType

from pymc_arm.models.graph.operations import (
    array_function,
    core_function,
    own_function,
    perform_function,
)
from pymc_arm.models.graph.program import ArrayFunction, Program, Rewrites

__all__ = ["has_loop"]


@array_function.register(Scan)
def _one_scan(operation: Scan, node: Apply) -> ArrayFunction | None:
    """Return the loop for one scan, that of all particles or of none."""
    return _make_loop(operation, node, batched=False)


@core_function.register(Scan)
def _batch_of_scans(core: Scan, node: Apply) -> ArrayFunction | None:
    if node.op.batch_ndim(node) != 1:
        return None
    return _make_loop(core, node, batched=True)


@own_function.register(Scan)
def _own_scan(operation: Scan, node: Apply) -> ArrayFunction:
    """Return the loop with PyTensor's own implementation of each step.

    That of the loop compiles for seconds, and has ended the process on gradients in PyTensor 2.38.
    """
    return _make_loop(operation, node, False, by_perform=True) or perform_function(node)


@own_function.register(Blockwise)
def _own_blockwise(operation: Blockwise, node: Apply) -> ArrayFunction:
    core = operation.core_op
    loop = None
    if isinstance(core, Scan) and operation.batch_ndim(node) == 1:
        loop = _make_loop(core, node, True, by_perform=True)
    return loop or perform_function(node)


def _make_loop(
    scan: Scan, node: Apply, batched: bool, by_perform: bool = False
) -> ArrayFunction | None:
    info = scan.info
    if info.as_while or info.n_untraced_sit_sot:  # particles would need numbers of steps each
        return None
    variables = [*scan.fgraph.inputs, *scan.fgraph.outputs]
    if not all(isinstance(variable.type, TensorType) for variable in variables):
        return None
    # Which outer inputs are the same for all particles.
    same = [not batched or bool(v.type.broadcastable[:1] == (True,)) for v in node.inputs]
    # What others are compared with first is the graph as it is.
    rewrites: Rewrites = (
        "all" if not by_perform or getattr(node.tag, "rewritten", False) else "none"
    )
    step = _read_step(scan, same, batched, by_perform, rewrites)
    return _Loop(scan, step, same, batched) if step.vectorized else None


def _read_step(
    scan: Scan, same: Sequence[bool], batched: bool, by_perform: bool, rewrites: Rewrites
) -> Program:
    """Return the program of one step. States are always those of all particles."""
    from pymc_arm.models.graph.interpret import compile_with_numpy  # which imports this table

    info = scan.info
    inner = scan.fgraph.unfreeze() if hasattr(scan.fgraph, "unfreeze") else scan.fgraph
    states = sum(map(len, info.tap_array))
    after = 1 + info.n_seqs + len(info.tap_array) + info.n_nit_sot
    fixed = [*same[1 : 1 + info.n_seqs], *[not batched] * states, *same[after:]]
    inputs = [
        variable.type()
        if is_fixed
        else TensorType(variable.type.dtype, (None, *variable.type.shape))()
        for variable, is_fixed in zip(inner.inputs, fixed, strict=True)
    ]
    replacements = dict(zip(inner.inputs, inputs, strict=True))
    outputs = vectorize_graph(list(inner.outputs), replacements)
    # What asserts that shapes agree is a quarter of the steps back of an ODE's gradient.
    return compile_with_numpy(
        inputs, *outputs, trusted=not by_perform, by_perform=by_perform, rewrites=rewrites
    )


class _Loop:
    """A scan on arrays: the outer inputs of PyTensor's operation to its outer outputs.

    Parameters
    ----------
    scan
        The operation.
    step
        The program of its inner graph.
    same
        Which outer inputs are the same for all particles.
    batched
        Whether arrays have a first axis for particles.
    """

    is_loop = True

    def __init__(self, scan: Scan, step: Program, same: Sequence[bool], batched: bool) -> None:
        info = scan.info
        self._same, self._batched = list(same), batched
        after = 1 + info.n_seqs + len(info.tap_array) + info.n_nit_sot
        # What depends on nothing that changes from step to step is evaluated once.
        self._before, self._step = step.split(len(same) - after)
        self._sequences, self._collected = info.n_seqs, info.n_nit_sot
        self._taps = [tuple(taps) for taps in info.tap_array]
        outs = [tuple(taps) for taps in info.mit_mot_out_slices]
        self._two_way = len(outs)
        # Where the results of a step go, relative to where a state is.
        self._targets = [*outs, *[(0,)] * (len(self._taps) - len(outs))]

    def __call__(self, *arrays: Any) -> Sequence[np.ndarray]:
        """Run all steps."""
        arrays = tuple(np.asarray(array) for array in arrays)
        size = max(len(array) for array in arrays) if self._batched else 1
        sequences, states, lengths, others = self._unpack(arrays, size)
        steps = int(np.max(arrays[0], initial=0))
        if np.any(np.asarray(arrays[0]) != steps):
            raise ValueError("the particles differ in the number of steps")
        once = self._before(*others)
        positions = [
            -min(taps) % max(len(s), 1) for s, taps in zip(states, self._taps, strict=True)
        ]
        collected: list[Any] = [None] * len(lengths)
        for number in range(steps):
            inputs = [sequence[number] for sequence in sequences]
            for state, taps, position in zip(states, self._taps, positions, strict=True):
                inputs += [state[(position + tap) % len(state)] for tap in taps]
            results = iter(self._step(*inputs, *once))
            for state, targets, position in zip(states, self._targets, positions, strict=True):
                for target in targets:
                    state[(position + target) % len(state)] = next(results)
            for place, length in enumerate(lengths):
                result = np.asarray(next(results))
                if collected[place] is None:
                    shape = (size, *result.shape[1:]) if self._batched else result.shape
                    collected[place] = np.empty((length, *shape), result.dtype)
                collected[place][number % length] = result
            positions = [(p + 1) % len(s) for p, s in zip(positions, states, strict=True)]
        if steps == 0 and lengths:
            raise ValueError("a loop without steps has no shape")
        ends = [*positions, *(steps % length for length in lengths)]
        needed = [steps - min(taps) for taps in self._taps] + [steps] * len(lengths)
        buffers = [*states, *collected]
        # A buffer that is shorter than the loop keeps the last values, the oldest first.
        ordered = [
            np.roll(buffer, -end, axis=0)
            if place >= self._two_way and len(buffer) < count
            else buffer
            for place, (buffer, end, count) in enumerate(zip(buffers, ends, needed, strict=True))
        ]
        return [np.moveaxis(b, 0, 1) for b in ordered] if self._batched else ordered

    def _unpack(
        self, arrays: Sequence[np.ndarray], size: int
    ) -> tuple[list[np.ndarray], list[np.ndarray], list[int], list[np.ndarray]]:
        """Return sequences and states with steps as their first axis, lengths, and the rest."""
        counts = [1, self._sequences, len(self._taps), self._collected]
        first, second, third, fourth = itertools.accumulate(counts)
        given = [
            array[0] if self._batched and is_same else array
            for array, is_same in zip(arrays, self._same, strict=True)
        ]
        sequences = [
            np.moveaxis(array, 1, 0) if self._batched and not is_same else array
            for array, is_same in zip(given[first:second], self._same[first:second], strict=True)
        ]
        states = [np.array(self._state(array, size)) for array in arrays[second:third]]
        lengths = [int(np.max(array)) for array in arrays[third:fourth]]
        return sequences, states, lengths, given[fourth:]

    def _state(self, array: np.ndarray, size: int) -> np.ndarray:
        if not self._batched:
            return array
        return np.moveaxis(np.broadcast_to(array, (size, *array.shape[1:])), 1, 0)


def has_loop(graphs: Sequence[Variable]) -> bool:
    """Whether a scan is a part of graphs."""
    nodes = (variable.owner for variable in ancestors(graphs))
    return any(n is not None and isinstance(getattr(n.op, "core_op", n.op), Scan) for n in nodes)
