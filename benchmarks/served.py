"""A process of its own that answers calls, and that can be stopped with all that it has started."""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable
from typing import Any

__all__ = ["Served"]


class Served:
    """A process in a group of its own, which is started when it is needed.

    Parameters
    ----------
    serve
        What it runs, with its end of a pipe and the arguments. It calls ``os.setpgrp`` first, and
        sends something when it is ready.
    arguments
        Of ``serve``.
    """

    def __init__(self, serve: Callable[..., None], *arguments: Any) -> None:
        self._serve, self._arguments = serve, arguments
        self._process: Any = None

    def stop(self) -> None:
        """End the process and what it has started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.join()
            self._process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=self._serve, args=(other, *self._arguments))
        self._process.start()
        other.close()
        self._connection.recv()  # it is ready
