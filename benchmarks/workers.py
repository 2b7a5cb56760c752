"""One process for each method, so that no library disturbs another, and any of them can be stopped.

Threads that one library leaves behind make a fork of another hang, and native code does not hear
signals. A worker prepares one model after the other, and times its calls itself; all workers wait
while one of them runs. The import of a peer's library is charged to the first call of all.
"""

import logging
import os
import time
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from benchmarks.served import Served

__all__ = ["OURS", "Answer", "Worker"]

OURS = "pymc_arm"
# How to install what the extra does not.
INSTALLATIONS = {"particles": "pip install --no-deps particles"}


@dataclass(frozen=True)
class Answer:
    """What came of one call.

    Attributes
    ----------
    seconds
        Wall time.
    result
        The estimate of log Z, or the attributes of our own result.
    failure
        The exception, or an empty string.
    """

    seconds: float
    result: float | dict[str, Any] = np.nan
    failure: str = ""


class Worker(Served):
    """A process that runs one method.

    Parameters
    ----------
    method
        Its name.
    draws
        Of our own sampler.
    """

    def __init__(self, method: str, draws: int) -> None:
        super().__init__(_serve, method, draws)
        self.method = method

    def call(self, problem: str, seed: int, time_limit: float) -> Answer:
        """Run the method on a model; the first seed, zero, prepares it."""
        if self._process is None:
            self._start()
        started = time.perf_counter()
        self._connection.send((problem, seed))
        try:
            if self._connection.poll(None if np.isinf(time_limit) else time_limit):
                return self._connection.recv()
            failure = f"more than {time_limit:.0f} s"
        except EOFError:
            failure = "the process ended"
        self.stop()
        return Answer(time.perf_counter() - started, failure=failure)


def _serve(connection: Connection, method: str, draws: int) -> None:
    """Answer calls until the other side goes away."""
    os.setpgrp()
    from benchmarks.peers import PEERS
    from benchmarks.suite import PROBLEMS

    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    prepare = _ours(draws) if method == OURS else PEERS[method]
    connection.send("ready")
    run: Any = None
    while True:
        try:
            problem, seed = connection.recv()
        except EOFError:
            return
        result: Any = np.nan
        failure = ""
        started = time.perf_counter()
        try:
            if seed == 0:
                run = None
                run = prepare(PROBLEMS[problem].build())
            result = run(seed)
        except ModuleNotFoundError as error:
            remedy = INSTALLATIONS.get(error.name or "", "pip install '.[bench]'")
            failure = f"not installed: {remedy}"
        except Exception as error:
            failure = f"{type(error).__name__}: {error}".replace("\n", " ")[:80]
        connection.send(Answer(time.perf_counter() - started, result, failure))


def _ours(draws: int) -> Any:
    import pymc_arm

    def prepare(model: Any) -> Any:
        def run(seed: int) -> dict[str, Any]:
            tree = pymc_arm.sample(model, draws=draws, random_seed=seed, progressbar=False)
            names = ("log_marginal_likelihood", "log_marginal_likelihood_se", "verdict")
            return {name: tree.attrs[name] for name in names}

        return run

    return prepare
