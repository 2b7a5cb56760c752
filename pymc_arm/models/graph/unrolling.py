"""Loops that draw random variables, written out step by step.

PyTensor can't batch a scan with a generator in it, such as that of a chain of states whose
transition matrix is random. Its steps can be batched one by one. Each gets a generator of its own.
"""

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.pytensorf import constant_fold
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import graph_replace
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.scan.op import Scan
from pytensor.tensor.random.type import RandomGeneratorType

__all__ = ["unroll_draws"]

# Steps that are written out at most: 60 steps of a chain of states take 5 CPU seconds, and 1000
# draws one at a time 10, which are needed several times in a run.
MOST_STEPS = 200


@node_rewriter([Scan])
def unroll_draws(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Replace a scan that holds generators, if its number of steps is known and not too large."""
    scan, info = node.op, node.op.info
    generators = scan.outer_untraced_sit_sot(node.inputs)
    if not generators or info.n_mit_mot or info.as_while:
        return None
    if not all(isinstance(variable.type, RandomGeneratorType) for variable in generators):
        return None
    (steps,) = constant_fold([node.inputs[0]], raise_not_constant=False)
    if isinstance(steps, Variable) or not 0 < int(steps) <= MOST_STEPS:
        return None
    return _write_out(fgraph, scan, node, int(steps))


def _write_out(fgraph: FunctionGraph, scan: Any, node: Apply, steps: int) -> list[Variable]:
    info = scan.info
    inner = scan.fgraph.unfreeze() if hasattr(scan.fgraph, "unfreeze") else scan.fgraph
    inputs, outputs = list(inner.inputs), list(inner.outputs)
    buffers = [*scan.outer_mitsot(node.inputs), *scan.outer_sitsot(node.inputs)]
    taps = [*info.mit_sot_in_slices, *info.sit_sot_in_slices]
    # The values of each state so far, the first ones as they are given.
    states = [
        [buffer[k] for k in range(-min(own))] for buffer, own in zip(buffers, taps, strict=True)
    ]
    collected: list[list[Variable]] = [[] for _ in range(info.n_nit_sot)]
    first_free = sum(len(own) for own in taps) + info.n_seqs
    random = scan.inner_untraced_sit_sot(inputs)
    fixed = dict(zip(scan.inner_non_seqs(inputs), scan.outer_non_seqs(node.inputs), strict=True))
    last = [*scan.outer_untraced_sit_sot(node.inputs)]
    for step in range(steps):
        now = [sequence[step] for sequence in scan.outer_seqs(node.inputs)]
        for values, own in zip(states, taps, strict=True):
            now += [values[len(values) + tap] for tap in own]
        given = dict(zip(inputs[:first_free], now, strict=True)) | fixed
        for variable in random:
            given[variable] = pytensor.shared(np.random.default_rng())
            fgraph.add_input(given[variable])
        results = graph_replace(outputs, given, strict=False)
        traced = [*states, *collected]
        for values, result in zip(traced, results[: len(traced)], strict=True):
            values.append(result)
        last = scan.inner_untraced_sit_sot_outs(results)
    return [*(pt.stack(values) for values in (*states, *collected)), *last]
