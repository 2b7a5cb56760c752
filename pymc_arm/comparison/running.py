"""Run the models of a comparison that have not been run yet.

On this machine they run one after another, each with its chains on all cores. On an executor the
chains of all models are in flight together, and this process compiles a model, or refines one,
while the chains of others run elsewhere. What a model does depends on its own random stream alone,
so its result is the same either way. Everything here happens on the calling thread: it waits for
whichever chain ends next, and goes on with the model that has all of its chains.
"""

import re
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

from pymc_arm._compat import unwrap_model
from pymc_arm.comparison.data import warn_of_different_data
from pymc_arm.comparison.reading import read_evidence
from pymc_arm.errors import ChainError, ComparisonError
from pymc_arm.model_call import ModelCall
from pymc_arm.results import Evidence
from pymc_arm.running.backends import Request, make_runner
from pymc_arm.running.chains import Chain
from pymc_arm.running.executors import cancel, collect_chains, outcome_of, submit_chains
from pymc_arm.running.forked import Outcome, Starts
from pymc_arm.running.options import Options
from pymc_arm.running.processors import one_blas_thread
from pymc_arm.running.progress import ModelProgress
from pymc_arm.running.run import INTERRUPTION, PathRun

__all__ = ["run_models"]

# The arguments of a call that are neither options of a run nor settings of the algorithm.
CALL_ARGUMENTS = (
    "start",
    "marginalize",
    "order",
    "family",
    "return_inferencedata",
    "idata_kwargs",
    "backend",
    "family_kwargs",
    "settings",
)


def run_models(models: Mapping[str, Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Sample the models among these, each with a random stream and a checkpoint of its own.

    If one of them fails the others come to their end. If the user interrupts, those that have ended
    are in the error's ``finished``.
    """
    given, models = models, {name: unwrap_model(model) for name, model in models.items()}
    for name, model in models.items():
        if not isinstance(model, pm.Model | Evidence) and not hasattr(model, "attrs"):
            raise TypeError(
                f"Model {name!r} is of type {type(model).__name__}: give a pm.Model, or what "
                "pymc_arm.sample or pm.sample_smc returned."
            )
        if not isinstance(model, pm.Model):
            read_evidence(model)  # a result without log Z is refused before any model runs
    waiting = [name for name, model in models.items() if isinstance(model, pm.Model)]
    if keywords and not waiting:
        raise TypeError(
            f"{sorted(keywords)} would be passed to pymc_arm.sample, but every model has been run."
        )
    warn_of_different_data(models)
    names = {option.name for option in fields(Options)}
    shared = Options(**{name: value for name, value in keywords.items() if name in names})
    others = {name: value for name, value in keywords.items() if name not in names}
    own = {name: others.pop(name) for name in list(others) if name in CALL_ARGUMENTS}
    calls = {
        name: ModelCall(given[name], _own_options(shared, place, name), **own, given=others)
        for place, name in enumerate(waiting)
    }
    ends: dict[str, _End] = {}
    try:
        if shared.executor is None:
            _run_in_turn(calls, ends)
        else:
            with ModelProgress(waiting, shared.progressbar) as progress:
                _run_together(calls, shared.executor, progress, ends)
    except KeyboardInterrupt as interruption:
        done = {name: end.result for name, end in ends.items() if end.error is None}
        if not done:
            raise
        message = (
            f"The comparison was interrupted. The results of {sorted(done)} are in this error's "
            "`finished`: give them to compare in place of their models."
        )
        raise ComparisonError(message, done) from interruption
    results = {name: ends.get(name, _End(model)) for name, model in models.items()}
    finished = {name: end.result for name, end in results.items() if end.error is None}
    for name, end in results.items():
        if end.error is not None:
            raise ComparisonError(_explain(name, end.error, finished), finished) from end.error
    return finished


@dataclass(frozen=True)
class _End:
    """The result of a model, or its error."""

    result: Any = None
    error: Exception | None = None


def _run_in_turn(calls: Mapping[str, ModelCall], ends: dict[str, _End]) -> None:
    """Run models one after another; after one that the user has cut short, no other."""
    for name, call in calls.items():
        ends[name] = _run_alone(call)
        attributes = getattr(ends[name].result, "attrs", {})
        if attributes.get("ended_by") == INTERRUPTION and len(ends) < len(calls):
            raise KeyboardInterrupt


def _run_alone(call: ModelCall) -> _End:
    options = call.options
    try:
        return _End(call.run(make_runner(options.cores, options.executor, options.progressbar)))
    except Exception as error:
        return _End(error=error)


def _run_together(
    calls: Mapping[str, ModelCall],
    executor: Executor,
    progress: ModelProgress,
    ends: dict[str, _End],
) -> None:
    """Run models with all of their chains on an executor at once; ``ends`` takes their ends."""
    # Chains on threads share this process with the compiler, so neither may disturb the other.
    here = isinstance(executor, ThreadPoolExecutor)
    runs: dict[str, PathRun] = {}
    flights: dict[str, _Flight] = {}
    doubted: set[str] = set()

    def go_on(name: str) -> None:
        """Begin a run, or give it its chains; then ask for more of them, or end it."""
        try:
            if name in flights:
                runs[name].receive(flights.pop(name).chains())
            else:
                runs[name] = calls[name].begin()
            if runs[name].request is None:
                outcome = runs[name].outcome()
                another = None if name in doubted else calls[name].again(outcome)
                if another is None:
                    ends[name] = _End(calls[name].finish(outcome))
                    return
                doubted.add(name)
                runs[name] = another
            request = runs[name].request
            assert request is not None
            flight = _Flight(request)
            if not here:
                flight.submit(executor)
            flights[name] = flight
            progress.ask(name, len(flight.starts))
        except Exception as error:
            ends[name] = _End(error=error)

    try:
        for name in calls:
            go_on(name)
        while flights:
            with one_blas_thread():
                if here:
                    for flight in flights.values():
                        flight.submit(executor)
                landed = _wait(flights, progress, for_all=here)
            for name in landed:
                go_on(name)
                if name in ends:
                    progress.finish(name)
    except BaseException:
        for flight in flights.values():
            cancel(flight.pending)
        raise


class _Flight:
    """The chains that a model waits for."""

    def __init__(self, request: Request) -> None:
        self.starts: Starts = request.starts
        self.pending: dict[Future[Any], int] = {}
        self._request = request
        self._outcomes: dict[int, Outcome] = {}

    def submit(self, executor: Executor) -> None:
        """Start the chains."""
        asked = self._request
        recipe = asked.recipe or asked.path
        self.pending = submit_chains(executor, asked.path, recipe, asked.task, self.starts)

    def land(self, future: Future[Any]) -> None:
        """Take the outcome of a chain; after a failure start no more of them."""
        number = self.pending.pop(future)
        outcome = outcome_of(future, number)
        if outcome is not None:
            self._outcomes[number] = outcome
        if isinstance(outcome, ChainError):
            cancel(self.pending)

    @property
    def remaining(self) -> float:
        """The seconds to the deadline."""
        deadline = self._request.task.deadline
        return np.inf if deadline is None else max(0.0, deadline - time.time())

    def abandon(self) -> None:
        """Wait no longer: chains that run end with their step, and the others do not begin."""
        cancel(self.pending)
        self.pending = {}

    def chains(self) -> list[Chain | None]:
        """Return the chains, or raise the error of one."""
        return collect_chains(self.starts, self._outcomes)


def _wait(flights: Mapping[str, _Flight], progress: ModelProgress, *, for_all: bool) -> list[str]:
    """Wait until a model has all of its chains, or every model has; return which do."""
    while True:
        landed = [name for name, flight in flights.items() if not flight.pending]
        if len(landed) >= (len(flights) if for_all else 1):
            return landed
        pending = {future: name for name in flights for future in flights[name].pending}
        # Chains on threads can't be left to themselves: they would disturb the compiler.
        remaining = np.inf if for_all else min(flights[name].remaining for name in pending.values())
        patience = None if np.isinf(remaining) else remaining
        for future in wait(pending, patience, FIRST_COMPLETED).done:
            flights[pending[future]].land(future)
            progress.advance(pending[future])
        if patience is not None:
            for flight in flights.values():
                if not flight.remaining:
                    flight.abandon()


def _explain(name: str, error: Exception, finished: Mapping[str, Any]) -> str:
    message = f"Model {name!r} failed: {type(error).__name__}: {error}"
    if not finished:
        return message
    return f"{message} The results of {sorted(finished)} are in this error's `finished`."


def _own_options(shared: Options, place: int, name: str) -> Options:
    """Return the options of one of the models."""
    seed, directory = shared.random_seed, shared.directory
    # Different models on one stream would have correlated errors.
    if isinstance(seed, np.random.Generator):
        (seed,) = seed.spawn(1)
    elif seed is not None:
        entropy = [*np.atleast_1d(seed).tolist(), place]
        seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
    if directory is not None:
        # A run needs a directory for itself.
        folder = re.sub(r"[^\w.-]+", "_", f"{place}-{name}")
        directory = replace(directory, directory=Path(directory.directory) / folder)
    return replace(shared, random_seed=seed, checkpoint=directory)
