"""The runs of several models, each of which may be asked for more chains when it has ended.

On this machine runs take their turns, each with its chains on all cores. On an executor the chains
of all runs are there together, and this process compiles a model, or refines one, while the
chains of others run elsewhere. What a model does depends on its own random stream alone, so its
result is the same either way. Everything here happens on the calling thread: it waits for whichever
chain ends next, and goes on with the model that has all of its chains.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from pymc_arm.errors import ChainError, TimeLimitError
from pymc_arm.model_call import ModelCall
from pymc_arm.results import Evidence
from pymc_arm.running.backends import Request, Runner, make_runner
from pymc_arm.running.chains import Chain
from pymc_arm.running.executors import cancel, collect_chains, outcome_of, submit_chains
from pymc_arm.running.forked import Outcome, Starts
from pymc_arm.running.processors import one_blas_thread
from pymc_arm.running.progress import ModelProgress
from pymc_arm.running.run import PathRun

__all__ = ["ModelRun", "rest_in_turn", "rest_together"]


class ModelRun:
    """The run of a model, between two turns: it needs chains, or it rests.

    Parameters
    ----------
    call
        The call of ``sample`` that it belongs to.
    """

    #: What made it fail; it then rests for good.
    error: Exception | None = None

    def __init__(self, call: ModelCall) -> None:
        self.call = call
        self._run: PathRun | None = None
        #: The run that has ended, and was looked at; another may have followed it.
        self._first: PathRun | None = None

    @property
    def request(self) -> Request | None:
        """The chains that it can't go on without; None if it rests."""
        return None if self._run is None or self.error is not None else self._run.request

    @property
    def evidence(self) -> Evidence:
        """Log Z by the chains so far."""
        assert self._run is not None
        return self._run.evidence

    @property
    def chains(self) -> int:
        """How many chains have been asked for."""
        return 0 if self._run is None else self._run.chains

    @property
    def ended_by(self) -> str:
        """What it has come to rest by: its ``chains``, ``time_limit`` or ``interruption``."""
        return "" if self._run is None else self._run.ended_by

    def begin(self) -> None:
        """Compile the model, and ask for the first chains."""
        self._attempt(self._begin)

    def _begin(self) -> None:
        self._run = self.call.begin()

    def extend(self, chains: int) -> None:
        """Ask for more chains, after it has come to rest."""
        assert self._run is not None
        self._run.extend(chains)

    def receive(self, ended: Callable[[], Sequence[Chain | None]]) -> None:
        """Take in the chains that were asked for, by a function that returns them or raises."""
        self._attempt(lambda: self._receive(ended()))

    def _receive(self, chains: Sequence[Chain | None]) -> None:
        assert self._run is not None
        try:
            self._run.receive(chains)
            if self._run.request is None and self._first is None:
                self._first = self._run
                self._run = self.call.again(self._run.outcome()) or self._run
        except TimeLimitError:
            if self._first is None:
                raise
            self._run = self.call.settle_for(self._first)

    def run_chains(self, runner: Runner) -> None:
        """Have a runner run what is asked for, until nothing is."""
        while self.request is not None:
            request = self.request
            try:
                self.receive(lambda request=request: runner(request))  # type: ignore[misc]
            except KeyboardInterrupt as interruption:
                assert self._run is not None
                self._run.explain(interruption)
                raise

    def finish(self) -> Any:
        """Return the result, and give the chains up; None if it failed, then or now."""
        found: list[Any] = [None]

        def end() -> None:
            assert self._run is not None
            found[0] = self.call.finish(self._run.outcome())

        if self.error is None:
            self._attempt(end)
        self._run = None
        return found[0]

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self.error = error


def rest_in_turn(runs: Mapping[str, ModelRun], progressbar: bool | None = None) -> None:
    """Begin runs that have not begun, and run chains here until all of them rest."""
    for run in runs.values():
        if not run.chains:
            run.begin()
        options = run.call.options
        shown = options.progressbar if progressbar is None else progressbar
        run.run_chains(make_runner(options.cores, None, shown))


def rest_together(
    runs: Mapping[str, ModelRun],
    executor: Executor,
    progress: ModelProgress,
    rests: Callable[[str], None] = lambda name: None,
) -> None:
    """Begin runs that have not begun, with all of their chains on an executor at once.

    ``rests`` is called with the name of each that comes to rest.
    """
    # Chains on threads share this process with the compiler, so neither may disturb the other.
    here = isinstance(executor, ThreadPoolExecutor)
    submitted: dict[str, _Submitted] = {}

    def go_on(name: str) -> None:
        """Begin a run, or give it its chains; then send off those that it needs next."""
        run = runs[name]
        if name in submitted:
            run.receive(submitted.pop(name).chains)
        elif not run.chains:
            run.begin()
        request = run.request
        if request is None:
            rests(name)
            return
        own = _Submitted(request)
        try:
            if not here:
                own.submit(executor)
        except Exception as error:
            run.error = error
            rests(name)
            return
        submitted[name] = own
        progress.ask(name, len(own.starts))

    try:
        for name in runs:
            go_on(name)
        while submitted:
            with one_blas_thread():
                if here:
                    for own in submitted.values():
                        own.submit(executor)
                complete = _wait(submitted, progress, for_all=here)
            for name in complete:
                go_on(name)
    except BaseException:
        for own in submitted.values():
            cancel(own.pending)
        raise


class _Submitted:
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

    def take(self, future: Future[Any]) -> None:
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
        return np.inf if deadline is None else deadline.remaining

    def abandon(self) -> None:
        """Wait no longer: chains that run end with their step, and the others do not begin."""
        cancel(self.pending)
        self.pending = {}

    def chains(self) -> list[Chain | None]:
        """Return the chains, or raise the error of one."""
        return collect_chains(self.starts, self._outcomes)


def _wait(
    submitted: Mapping[str, _Submitted], progress: ModelProgress, *, for_all: bool
) -> list[str]:
    """Wait until a model has all of its chains, or every model has; return which do."""
    while True:
        complete = [name for name, own in submitted.items() if not own.pending]
        if len(complete) >= (len(submitted) if for_all else 1):
            return complete
        pending = {future: name for name in submitted for future in submitted[name].pending}
        # Chains on threads can't be left to themselves: they would disturb the compiler.
        limits = [np.inf] if for_all else [submitted[name].remaining for name in pending.values()]
        seconds = None if np.isinf(min(limits)) else min(limits)
        for future in wait(pending, seconds, FIRST_COMPLETED).done:
            submitted[pending[future]].take(future)
            progress.advance(pending[future])
        if seconds is not None:
            for own in submitted.values():
                if not own.remaining:
                    own.abandon()
