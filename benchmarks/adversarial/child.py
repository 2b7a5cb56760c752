"""A process that samples one adversary after the other.

It can be stopped with all that it has started, and it measures its own time. The limit of a run is
in CPU seconds, so that a busy machine does not turn answers into timeouts; it begins when the
imports are done, and the system enforces it, since native code does not hear signals.
"""

import logging
import os
import resource
import signal
import warnings
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from benchmarks.limited import WALL_FACTOR, cpu_seconds
from benchmarks.outcomes import Outcome, describe_error, read_attributes
from benchmarks.served import Served

__all__ = ["Child"]


class Child(Served):
    """Samples problems in a process group of its own, which is started when it is needed.

    Parameters
    ----------
    draws, cores
        Passed to `pymc_arm.sample`.
    """

    def __init__(self, draws: int, cores: int) -> None:
        super().__init__(_serve, draws, cores)

    def run(self, name: str, seed: int, truth: float, time_limit: float) -> Outcome:
        """Sample once; the process is ended where it takes longer than the limit."""
        try:
            if self._process is None:
                self._start()
            self._connection.send((name, seed, time_limit))
            if self._connection.poll(WALL_FACTOR * time_limit):
                return Outcome(name, seed, truth=truth, **self._connection.recv())
            status, message = "timeout", f"over {WALL_FACTOR * time_limit:.0f} s of wall time"
        except (EOFError, BrokenPipeError):
            self._process.join()
            status, message = "crash", f"the process ended with {self._process.exitcode}"
            if self._process.exitcode == -signal.SIGXCPU:
                status, message = "timeout", f"over {time_limit:.0f} CPU s"
        self.stop()
        return Outcome(name, seed, status, truth, message=message)


def _serve(connection: Connection, draws: int, cores: int) -> None:
    """Answer names and seeds until the other side goes away."""
    os.setpgrp()
    import pymc_arm
    from benchmarks.adversarial import PROBLEMS

    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    connection.send("ready")
    while True:
        try:
            name, seed, time_limit = connection.recv()
        except EOFError:
            return
        problem = PROBLEMS[name]
        moments = problem.answer.moments
        started = cpu_seconds()
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(np.ceil(started + time_limit)), hard))
        record: dict[str, Any] = {"status": "done"}
        try:
            tree = pymc_arm.sample(
                problem.build(), draws=draws, cores=cores, random_seed=seed, progressbar=False
            )
            record |= read_attributes(tree.attrs)
            record["deviation"] = _worst_deviation(tree.posterior, moments)
        except Exception as error:
            record |= describe_error(error)
        record["cpu_seconds"] = cpu_seconds() - started
        connection.send(record)


def _worst_deviation(posterior: Any, moments: Any) -> float:
    """Return the largest distance of a mean of the draws from the exact one, in exact sds."""
    worst = np.nan
    for label, (mean, spread) in moments.items():
        variable, _, index = label.removeprefix("log ").partition("[")
        draws = np.asarray(posterior[variable].values, dtype=float)
        draws = draws.reshape(draws.shape[0] * draws.shape[1], -1)
        column = draws[:, int(index[:-1]) if index else 0]
        with np.errstate(divide="ignore"):
            values = np.log(column) if label.startswith("log ") else column
        worst = np.fmax(worst, abs(values.mean() - mean) / spread)
    return float(worst)
