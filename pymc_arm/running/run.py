"""A run: chains until there are enough of them, refined, and pooled into one number."""

import copy
import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path as FilePath
from typing import Any, Literal, TypeVar

import numpy as np

from pymc_arm.algorithm.path import Path
from pymc_arm.algorithm.settings import Settings
from pymc_arm.arguments import check_choice, check_count
from pymc_arm.errors import TimeLimitError
from pymc_arm.evidence.modes import find_missed
from pymc_arm.evidence.refine import Bridge, refine_chains
from pymc_arm.results import FLOOR, Estimates, select_estimate
from pymc_arm.running.chains import Chain, Task, pilot
from pymc_arm.running.checkpoint.encoding import decode_generator, encode_generator
from pymc_arm.running.checkpoint.identity import versions
from pymc_arm.running.checkpoint.journal import (
    Checkpoint,
    Journal,
    Manifest,
    open_journal,
    read_manifest,
)
from pymc_arm.running.executors import check_executor, run_chains
from pymc_arm.running.forked import can_fork, map_forked
from pymc_arm.running.memory import check_memory
from pymc_arm.running.processors import available_cores, one_blas_thread

__all__ = ["Options", "Request", "Rounds", "path_rounds", "run_rounds"]

# Fewer draws than this can't tell how well an approximation fits.
SMALLEST_CLOUD = 50
# What target_se may ask for; an error that is not small then has another cause than few chains.
LARGEST_CHAINS = 1000
# How many times as many chains as there are target_se adds at once, and what it adds to the square
# root law, since the error is itself an estimate.
LARGEST_GROWTH = 1.0
MARGIN = 1.2


@dataclass(frozen=True)
class Options:
    """The arguments of a run that are not settings of the algorithm; see ``sample``."""

    draws: int = 1000
    chains: int = 4
    cores: int | None = None
    random_seed: int | Sequence[int] | np.random.Generator | None = None
    allocation: Literal["adaptive", "pilot", "optimal"] = "adaptive"
    budget: int | None = None
    refine: bool | Literal["auto"] = "auto"
    target_se: float | None = None
    time_limit: float | None = None
    executor: Executor | None = None
    checkpoint: str | PathLike[str] | Checkpoint | None = None
    resume: bool = False
    progressbar: bool = True

    def __post_init__(self) -> None:
        for name in ("draws", "chains", "cores", "budget"):
            value = getattr(self, name)
            if value is None and name in ("cores", "budget"):
                continue
            check_count(name, value)
        for name in ("target_se", "time_limit"):
            value = getattr(self, name)
            if value is not None and (
                not isinstance(value, int | float | np.number) or not 0 < value < np.inf
            ):
                raise ValueError(f"{name}={value!r} must be a positive number, or None.")
        if self.target_se is not None and self.target_se <= FLOOR:
            raise ValueError(
                f"target_se={self.target_se} is too small: integrals alone may be off by {FLOOR}."
            )
        check_choice("allocation", self.allocation, ("adaptive", "pilot", "optimal"))
        check_choice("refine", self.refine, (True, False, "auto"))
        if self.budget is not None and self.allocation != "optimal":
            raise ValueError(f"budget={self.budget} has a meaning only with allocation='optimal'.")
        check_executor(self.executor, self.cores)
        if self.checkpoint is None and self.resume:
            raise ValueError("resume=True needs checkpoint=, the directory to resume from.")
        if self.checkpoint is not None and not isinstance(
            self.checkpoint, str | PathLike | Checkpoint
        ):
            raise TypeError(f"checkpoint={self.checkpoint!r} is not a directory or a Checkpoint.")
        try:
            np.random.default_rng(self.random_seed)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"random_seed={self.random_seed!r} is not a seed: give a whole number, 0 or more, "
                "a sequence of such, or a numpy.random.Generator."
            ) from error

    @property
    def directory(self) -> Checkpoint | None:
        """Where to write checkpoints."""
        if self.checkpoint is None or isinstance(self.checkpoint, Checkpoint):
            return self.checkpoint
        return Checkpoint(fspath(self.checkpoint))


@dataclass(frozen=True)
class Request:
    """Chains that a run can't go on without.

    ``recipe`` makes the path anew in processes that have no copy of it.
    """

    path: Path
    task: Task
    generators: Sequence[np.random.Generator]
    first: int
    recipe: Callable[[], Path] | None


Result = TypeVar("Result")
# A run that asks for chains, is sent what became of them, and returns its result in the end: what
# runs the chains may do so for many runs at once.
Rounds = Generator[Request, list[Chain | None], Result]


def run_rounds(rounds: Rounds[Result], options: Options) -> Result:
    """Run the chains that a run asks for, and return its result."""
    try:
        request = next(rounds)
        while True:
            request = rounds.send(
                run_chains(
                    request.path,
                    request.task,
                    request.generators,
                    first=request.first,
                    cores=options.cores,
                    executor=options.executor,
                    recipe=request.recipe,
                    progressbar=options.progressbar,
                )
            )
    except StopIteration as end:
        result: Result = end.value
        return result


def path_rounds(
    path: Path,
    options: Options,
    settings: Mapping[str, Any],
    *,
    identity: Callable[[], Mapping[str, Any]],
    recipe: Callable[[], Path] | None = None,
    started: float | None = None,
) -> Rounds[tuple[list[Chain], Estimates, dict[str, Any]]]:
    """Ask for the chains of a path, refine them, and pool them.

    ``identity`` tells checkpoints of other runs apart, and ``recipe`` makes the path anew in other
    processes; ``started`` is when the time limit began to run. Returns the finished chains, their
    estimates, and what is to be recorded.
    """
    if not isinstance(path, Path):
        raise TypeError(
            f"path is of type {type(path).__name__}: give a pymc_arm.Path. Models are sampled by "
            "pymc_arm.sample."
        )
    started = time.time() if started is None else started
    config = Settings.of(settings)
    if config.variant == "reseed" and type(path).reseed is Path.reseed:
        path.reseed(np.random.default_rng(0), path.start, 1)  # raises, with the remedy
    workers = 1 if options.executor is not None else options.cores or available_cores()
    check_memory(path, int(options.draws), config, min(workers, int(options.chains)))
    root = np.random.default_rng(options.random_seed)
    journal, root = _open(path, options, config, root, identity)
    *generators, spare = root.spawn(int(options.chains) + 1)
    counts = None
    if options.allocation != "adaptive":
        optimal = options.allocation == "optimal"
        path, found = pilot(
            path, int(options.draws), spare, config, optimal=optimal, budget=options.budget
        )
        counts, config = tuple(found), replace(config, variant="rm")
        recipe = (
            None if recipe is None else _Replay(recipe, vars(path)["advance"], path.frozen_moves)
        )
    deadline = None if options.time_limit is None else started + options.time_limit
    task = Task(int(options.draws), config, counts, deadline, journal)
    results: list[Chain] = []
    requested, ended_by = 0, ""
    while not ended_by:
        ended = yield Request(path, task, generators, requested, recipe)
        requested += len(ended)
        results.extend(chain for chain in ended if chain is not None)
        if not results:
            raise TimeLimitError(_nothing_finished(options))
        refined = results
        if options.refine:
            with one_blas_thread():
                refined = _refine(path, results, spare.spawn(len(results)), workers)
        estimates = select_estimate(refined, options.refine)
        error = estimates.evidence.standard_error
        more = _chains_to_add(error, options.target_se, len(results), int(options.chains))
        if None in ended or (more and deadline is not None and time.time() > deadline):
            ended_by = "time_limit"
        elif not more:
            ended_by = "chains" if options.target_se is None else "target_se"
        elif requested + more > LARGEST_CHAINS or not np.isfinite(error):
            ended_by = "largest number of chains"
        else:
            generators = root.spawn(more)
    recorded = {
        "draws": int(options.draws),
        "chains": len(results),
        "allocation": options.allocation,
        **vars(config),
        "target_se": options.target_se,
        "time_limit": options.time_limit,
        "ended_by": ended_by,
        "complete": ended_by in ("chains", "target_se"),
        "chains_started": requested,
        "flat": ", ".join(path.flat),
    }
    clouds = [path.continuous(c.particles) for c in refined if c.particles is not None]
    points = [cloud for cloud in clouds if cloud is not None]
    if points:
        recorded["dimension"] = points[0].shape[1]
        if options.refine:
            with one_blas_thread():
                recorded |= _search_missed_modes(path, points, estimates)
    return refined, estimates, recorded


def _search_missed_modes(
    path: Path, points: list[np.ndarray], estimates: Estimates
) -> dict[str, float]:
    """Return what is known of a mode that the particles have missed."""
    log_evidence = estimates.evidence.log_evidence
    # The same starting points in every run: whether a mode is found is no matter of luck.
    summit = find_missed(path, np.concatenate(points), log_evidence, np.random.default_rng(0))
    if summit is None:
        return {}
    return {
        "missed_log_mass": summit.log_mass,
        "missed_expected_share": summit.expected_share,
        "missed_found_share": summit.found_share,
    }


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
    path: Path,
    options: Options,
    config: Settings,
    root: np.random.Generator,
    identity: Callable[[], Mapping[str, Any]],
) -> tuple[Journal | None, np.random.Generator]:
    """Open the journal of a run, with the seed that it began with if none is given."""
    if options.directory is None:
        return None, root
    file = FilePath(options.directory.directory) / "manifest.json"
    if options.resume and options.random_seed is None and file.exists():
        root = decode_generator(read_manifest(file).parts["random_seed"])
    parts = {
        **{f"version of {name}": number for name, number in versions().items()},
        "draws": int(options.draws),
        "chains": int(options.chains),
        "allocation": options.allocation,
        "budget": options.budget,
        "refine": options.refine,
        **vars(config),
        "random_seed": encode_generator(root),
        **identity(),
    }
    return open_journal(options.directory, Manifest(parts), options.resume), root


@dataclass(frozen=True)
class _Replay:
    """Makes a path that takes the steps of a pilot run."""

    recipe: Callable[[], Path]
    advance: Callable[..., Any]
    frozen_moves: Any

    def __call__(self) -> Path:
        path = copy.copy(self.recipe())  # that of the model stays as it is
        path.advance = self.advance  # type: ignore[method-assign]
        path.frozen_moves = self.frozen_moves
        return path


def _refine(
    path: Path, chains: list[Chain], generators: Sequence[np.random.Generator], workers: int
) -> list[Chain]:
    """Add a bridge estimate to each chain, if the path has a continuous space for it."""
    if any(chain.particles is None for chain in chains):
        return chains
    clouds = [chain.particles for chain in chains]
    spaces = path.spaces(clouds[0])
    if not spaces or path.count(clouds[0]) < SMALLEST_CLOUD:
        return chains
    alone = path.one_chain_at_a_time and not path.prefers_processes
    workers = 1 if alone else min(workers, max(len(chains), 2))
    founders = [chain.founders for chain in chains]

    def map_fn(function: Callable[[int], Bridge], count: int) -> list[Bridge]:
        if workers > 1 and path.prefers_processes and can_fork():
            return map_forked(function, count, workers)
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(function, range(count)))

    bridges = refine_chains(spaces, clouds, generators, founders, map_fn)
    return [replace(c, refined=b) for c, b in zip(chains, bridges, strict=True)]


def _nothing_finished(options: Options) -> str:
    message = f"time_limit={options.time_limit} s ended the run before any chain did. "
    if options.directory is None:
        return message + "Give it more time, or fewer draws."
    return message + "Continue it with resume=True, with more time or fewer draws."
