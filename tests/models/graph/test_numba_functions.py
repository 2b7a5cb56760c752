"""What numba compiles out of a graph: the numbers of the graph, without the interpreter's lock."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytensor.tensor as pt

from pymc_arm.models.graph.numba_functions import compile_with_numba


def test_compiled_code_is_shared_by_threads_and_gives_up_the_lock():
    x, unused = pt.vector("x"), pt.vector("unused")
    function = compile_with_numba([x, unused], [pt.exp(x).sum(), 2.0 * x])
    rows = np.random.default_rng(1).normal(size=(20, 3))
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda row: function(row, row), rows))
    for row, (total, double) in zip(rows, found, strict=True):
        np.testing.assert_allclose(total, np.exp(row).sum(), rtol=1e-12)
        np.testing.assert_allclose(double, 2 * row, rtol=1e-12)
    assert function.targetoptions["nogil"]
