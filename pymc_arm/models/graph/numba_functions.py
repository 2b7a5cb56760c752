"""Functions that numba compiles out of PyTensor graphs, for what needs loops."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor
from pytensor.compile.mode import Mode, get_mode
from pytensor.graph.basic import Variable
from pytensor.link.numba.linker import NumbaLinker
from pytensor.tensor.variable import TensorVariable

__all__ = ["compile_with_numba"]


class _FreeNumbaLinker(NumbaLinker):
    """Numba code that gives up the interpreter lock, so that chains can run on threads."""

    def jit_compile(self, fn_and_cache: Any) -> Any:
        """Compile with ``nogil``."""
        from pytensor.link.numba.dispatch.basic import numba_njit

        function, cache_key = fn_and_cache
        return numba_njit(
            function.py_func, final_function=True, cache=cache_key is not None, nogil=True
        )


def compile_with_numba(
    inputs: Sequence[Variable], outputs: Sequence[TensorVariable]
) -> Callable[..., Sequence[np.ndarray]]:
    """Return compiled code that threads can share.

    It is numba's own: PyTensor's function around it keeps state during a call.
    """
    mode = Mode(linker=_FreeNumbaLinker(), optimizer=get_mode("NUMBA").provided_optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = pytensor.function(
            list(inputs), list(outputs), mode=mode, on_unused_input="ignore", trust_input=True
        )
    code: Callable[..., Sequence[np.ndarray]] = compiled.vm.jit_fn
    return code
