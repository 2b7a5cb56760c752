"""A run: chains until there are enough of them, refined, and pooled into one number.

:func:`run_path` is the whole of it: a run says which chains it needs, a runner runs them, and the
run takes them in, until it needs no more. :class:`PathRun` is a run between two such turns, so that
the chains of many runs can be in flight together (:mod:`pymc_arm.comparison.running`).
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from pymc_arm.algorithm.path import Path
from pymc_arm.algorithm.settings import Settings
from pymc_arm.deadline import Deadline, OutOfTimeError, keep_deadline
from pymc_arm.errors import ArmWarning, CheckpointError, TimeLimitError, callers_level
from pymc_arm.estimation.ladder import Ladder
from pymc_arm.estimation.spaces import Refinable
from pymc_arm.results import Estimates, Evidence, estimate_chains, represent_posterior
from pymc_arm.running.backends import Request, Runner
from pymc_arm.running.chains import Chain, Task
from pymc_arm.running.checkpoint.encoding import decode_generator, encode_generator
from pymc_arm.running.checkpoint.identity import versions
from pymc_arm.running.checkpoint.journal import Journal, Manifest, open_journal, read_manifest
from pymc_arm.running.memory import check_memory
from pymc_arm.running.options import Options
from pymc_arm.running.pilot import Replay, pilot
from pymc_arm.running.processors import available_cores, one_blas_thread
from pymc_arm.running.refining import refine_run
from pymc_arm.running.summary import RunSummary

__all__ = ["INTERRUPTION", "Outcome", "PathRun", "run_path"]

# What target_se may ask for; an error that is not small then has another cause than few chains.
LARGEST_CHAINS = 1000
# How many times as many chains as there are target_se adds at once, and what it adds to the square
# root law, since the error is itself an estimate.
LARGEST_GROWTH = 1.0
MARGIN = 1.2
# What ended a run that the user stopped, by Ctrl-C or by the button of a notebook.
INTERRUPTION = "interruption"
# What ended one whose chains are there, and whose second estimate failed.
REFINING_ERROR = "error in refining"


@dataclass(frozen=True)
class Outcome:
    """The finished chains of a run, their estimates, and what is to be recorded."""

    chains: list[Chain]
    estimates: Estimates
    summary: RunSummary


def run_path(run: "PathRun", runner: Runner) -> Outcome:
    """Run the chains that a run needs, until it needs no more."""
    while run.request is not None:
        try:
            run.receive(runner(run.request))
        except KeyboardInterrupt as interruption:
            run.explain(interruption)
            raise
    return run.outcome()


class PathRun:
    """A run of a path: which chains it needs next, and what those that have ended amount to.

    Parameters
    ----------
    path
        What is run.
    options
        How many chains, and so on.
    settings
        The settings of the algorithm.
    identity
        Tells checkpoints of other runs apart.
    recipe
        Makes the path anew in processes that have no copy of it.
    deadline
        When it has to end; by default the time limit of the options begins now.
    """

    #: The chains that the run can't go on without; None at its end.
    request: Request | None

    def __init__(
        self,
        path: Path,
        options: Options,
        settings: Settings,
        *,
        identity: Callable[[], Mapping[str, Any]],
        recipe: Callable[[], Path] | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        if settings.variant == "reseed" and type(path).reseed is Path.reseed:
            path.reseed(np.random.default_rng(0), path.start, 1)  # raises, with the remedy
        self._workers = 1 if options.executor is not None else options.cores or available_cores()
        check_memory(path, int(options.draws), settings, min(self._workers, int(options.chains)))
        self._root = np.random.default_rng(options.random_seed)
        journal, self._root = _open(options, settings, self._root, identity)
        *generators, self._spare = self._root.spawn(int(options.chains) + 1)
        counts = None
        if options.allocation != "adaptive":
            optimal = options.allocation == "optimal"
            path, found = pilot(
                path,
                int(options.draws),
                self._spare,
                settings,
                optimal=optimal,
                budget=options.budget,
            )
            counts, settings = tuple(found), replace(settings, variant="rm")
            recipe = None if recipe is None else Replay(recipe, path.following, path.recorded_moves)
        self._path, self._options, self._settings = path, options, settings
        self._deadline = options.deadline() if deadline is None else deadline
        task = Task(int(options.draws), settings, counts, self._deadline, journal)
        self._first_request = self.request = Request(path, task, generators, 0, recipe)
        self._finished: list[Chain] = []
        self._refined: list[Chain] = []
        self._searched: dict[str, Any] = {}
        self._requested = 0
        self._ended_by = ""

    def receive(self, ended: Sequence[Chain | None]) -> None:
        """Take in the chains that were asked for; None are those that did not end.

        The deadline ended them, or the user did (Ctrl-C); during refining, the user ends that.
        """
        assert self.request is not None
        options = self._options
        self._requested += len(ended)
        self._finished.extend(chain for chain in ended if chain is not None)
        if not self._finished:
            raise time_limit_error(options)
        self._refined, self._searched = self._finished, {}
        interrupted = failed = late = False
        if not self._late():
            with one_blas_thread():
                generators = self._spare.spawn(len(self._finished))
                try:
                    with keep_deadline(self._deadline):
                        self._refined, self._searched = refine_run(
                            self._path,
                            self._finished,
                            generators,
                            self._workers,
                            bridged=bool(options.refine),
                        )
                except KeyboardInterrupt:
                    interrupted = True
                except OutOfTimeError:
                    late = True
                except Exception as failure:  # a density of the user's may raise anywhere
                    failed = True
                    warnings.warn(
                        f"log Z could not be refined: {type(failure).__name__}: {failure}. The "
                        "chains had ended, and their estimate is kept, without a second one.",
                        ArmWarning,
                        stacklevel=callers_level(),
                    )
        integration_error = float(np.mean([c.integration_error for c in self._refined]))
        self._estimates = estimate_chains(
            self._refined,
            integration_error=integration_error + self._path.rounding,
            repaired="repaired_modes" in self._searched,
        )
        error = self._estimates.sampling.standard_error
        chains = len(self._finished)
        more = _chains_to_add(error, options.target_se, chains, int(options.chains))
        if interrupted or (None in ended and not self._late()):
            self._ended_by = INTERRUPTION
        elif failed:
            self._ended_by = REFINING_ERROR
        elif late or None in ended or (more and self._late()):
            self._ended_by = "time_limit"
        elif not more:
            self._ended_by = "chains" if options.target_se is None else "target_se"
        elif self._requested + more > LARGEST_CHAINS or not np.isfinite(error):
            self._ended_by = "largest number of chains"
        self.request = None
        if not self._ended_by:
            self.extend(more)

    def extend(self, chains: int) -> None:
        """Ask for more chains."""
        self._ended_by = ""
        self.request = replace(
            self._first_request, generators=self._root.spawn(chains), first=self._requested
        )

    @property
    def evidence(self) -> Evidence:
        """Log Z by the chains so far."""
        return self._estimates.evidence

    @property
    def chains(self) -> int:
        """How many chains have been asked for."""
        waiting = 0 if self.request is None else len(self.request.generators)
        return self._requested + waiting

    @property
    def ended_by(self) -> str:
        """What has ended it; empty if it has not ended."""
        return self._ended_by

    def leave_unconfirmed(self) -> None:
        """Record that there was no time for what it was to be compared with."""
        self._ended_by = "time_limit"

    def outcome(self) -> Outcome:
        """Return what the run amounts to."""
        options, path = self._options, self._path
        chains, represented = represent_posterior(path, self._refined, self._spare.spawn(1)[0])
        dimension = _dimension(path, chains)
        summary = RunSummary(
            draws=int(options.draws),
            chains=len(self._finished),
            allocation=options.allocation,
            settings=self._settings,
            target_se=options.target_se,
            time_limit=options.time_limit,
            ended_by=self._ended_by,
            complete=self._ended_by in ("chains", "target_se"),
            chains_started=self._requested,
            flat=tuple(getattr(path, "flat", ())),
            endless=tuple(getattr(path, "endless", ())),
            dimension=dimension,
            # The metric of a path from q is that of q, and of gradients.
            fewest_particles=0 if isinstance(path, Ladder) else 2 * (dimension or 0),
            **represented,
            **self._searched,
        )
        return Outcome(chains, self._estimates, summary)

    def explain(self, interruption: KeyboardInterrupt) -> None:
        """Say what is left of a run that is interrupted before any of its chains has ended."""
        directory = self._options.directory
        kept = "No chain had ended, so nothing is kept; checkpoint= keeps what chains have done."
        if directory is not None:
            kept = f"What chains had done is in {directory.directory}: go on with resume=True."
        interruption.add_note(kept)

    def _late(self) -> bool:
        return self._deadline is not None and self._deadline.passed


def _dimension(path: Path, chains: Sequence[Chain]) -> int | None:
    """Return the dimension of the unbounded space that particles live in, if there is one."""
    if not isinstance(path, Refinable):
        return None
    clouds = [path.continuous(c.particles) for c in chains[:1] if c.particles is not None]
    return clouds[0].shape[1] if clouds and clouds[0] is not None else None


def _chains_to_add(error: float, target: float | None, chains: int, asked: int) -> int:
    """Return how many more chains bring the error down to the target; none if it is there."""
    if target is None or error <= target:
        return 0
    if not np.isfinite(error):
        return asked
    wanted = math.ceil(min(MARGIN * (error / target) ** 2, 1 + LARGEST_GROWTH) * chains) - chains
    # As many at a time as the user finds fit to run together, and as many on any machine.
    return asked * math.ceil(max(wanted, 1) / asked)


def _open(
    options: Options,
    settings: Settings,
    root: np.random.Generator,
    identity: Callable[[], Mapping[str, Any]],
) -> tuple[Journal | None, np.random.Generator]:
    """Open the journal of a run, with the seed that it began with if none is given."""
    if options.directory is None:
        return None, root
    file = FilePath(options.directory.directory) / "manifest.json"
    if options.resume and options.random_seed is None and file.exists():
        root = _seed_of(read_manifest(file))
    parts = {
        **{f"version of {name}": number for name, number in versions().items()},
        "draws": int(options.draws),
        "chains": int(options.chains),
        "allocation": options.allocation,
        "budget": options.budget,
        "refine": options.refine,
        **vars(settings),
        "random_seed": encode_generator(root),
        **identity(),
    }
    return open_journal(options.directory, Manifest(parts), options.resume), root


def _seed_of(manifest: Manifest) -> np.random.Generator:
    """Return the generator that a checkpoint began with."""
    try:
        return decode_generator(manifest.parts["random_seed"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            "The manifest of the checkpoint has no random seed that can be read. Delete the "
            "directory, or choose another one."
        ) from error


def time_limit_error(options: Options) -> TimeLimitError:
    """Return the error of a run that has not come to the end of a chain."""
    message = f"time_limit={options.time_limit} s ended the run before any chain did. "
    if options.directory is None:
        return TimeLimitError(message + "Give it more time, or fewer draws.")
    return TimeLimitError(message + "Continue it with resume=True, with more time or fewer draws.")
