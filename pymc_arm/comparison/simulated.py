"""Data sets that are drawn from models, and log Z of every model for each of them.

A simulation takes one of the models, draws its parameters from the prior and data from these, puts
the data in the place of the observed ones in all models, and runs them. Which model it takes is
settled beforehand: the shares of the models are those of the prior, as nearly as whole numbers
allow, which makes averages over simulations less noisy than chance would. A simulation depends on
its number and the seed alone. On an executor whole simulations run elsewhere, and with a
checkpoint each one is a file.
"""

import functools
import json
import logging
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pymc as pm

from pymc_arm._compat import COMPILING
from pymc_arm.comparison.prior_predictive import PriorPredictive, check_comparable
from pymc_arm.comparison.reading import read_evidence
from pymc_arm.errors import ArmWarning, CheckpointError
from pymc_arm.results import Evidence
from pymc_arm.running.checkpoint.identity import versions
from pymc_arm.running.checkpoint.journal import Checkpoint, Manifest, open_journal, write_file
from pymc_arm.running.executors import cancel, check_executor
from pymc_arm.running.progress import ModelProgress
from pymc_arm.sampling import sample

__all__ = ["Experiment", "Simulation", "run_simulations"]

_log = logging.getLogger("pymc")
# How long all will take is told after the first simulation, and again after so many, when the mean
# of their times is known to a third.
TIMED = 4


@dataclass(frozen=True)
class Simulation:
    """What became of one data set.

    Attributes
    ----------
    truth
        The place of the model that it was drawn from.
    evidences
        Log Z of each model, or NaN where a run failed.
    again
        The same of second runs, with other seeds; empty if there were none.
    verdicts
        Of the first runs.
    seconds
        All runs together.
    error
        The first error, if a run failed.
    """

    truth: int
    evidences: tuple[Evidence, ...]
    again: tuple[Evidence, ...] = ()
    verdicts: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str = ""

    def to_json(self) -> str:
        """Return all of it as text."""
        rows = {
            name: [[e.log_evidence, e.standard_error, e.degrees_of_freedom] for e in runs]
            for name, runs in (("evidences", self.evidences), ("again", self.again))
        }
        parts = {"truth": self.truth, "verdicts": self.verdicts, "error": self.error}
        return json.dumps({**parts, **rows, "seconds": self.seconds})

    @classmethod
    def from_json(cls, text: str) -> "Simulation":
        """Read what :meth:`to_json` wrote."""
        parts = json.loads(text)
        for name in ("evidences", "again"):
            parts[name] = tuple(Evidence(*row) for row in parts[name])
        return cls(**{**parts, "verdicts": tuple(parts["verdicts"])})


@dataclass(frozen=True)
class Experiment:
    """What is simulated: models, their prior probabilities, a seed and arguments of ``sample``."""

    models: Mapping[str, pm.Model]
    prior: Sequence[float]
    seed: Sequence[int]
    keywords: Mapping[str, Any]
    repeats: int = 0
    predictives: dict[str, PriorPredictive] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for name, model in self.models.items():
            self.predictives[name] = PriorPredictive(name, model)
        check_comparable(self.predictives)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "predictives": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def truths(self, count: int) -> list[int]:
        """Return which model each simulation is drawn from: shares are those of the prior."""
        prior, taken = np.asarray(self.prior), np.zeros(len(self.prior))
        found = []
        for number in range(count):
            place = int(np.argmax(prior * (number + 1) - taken))
            taken[place] += 1
            found.append(place)
        return found

    def runs_of(self, numbers: Iterable[int]) -> int:
        """Return how many times all models are run in some simulations."""
        return sum(1 + (number < self.repeats) for number in numbers)

    def simulate(self, number: int) -> Simulation:
        """Draw a data set, and run all models on it."""
        truth = self.truths(number + 1)[-1]
        started = time.perf_counter()
        drawn_from = list(self.predictives.values())[truth]
        data = drawn_from.draw(np.random.default_rng([*self.seed, number]))
        rounds: list[list[Evidence]] = []
        verdicts: list[str] = []
        error = ""
        for repeat in range(1 + (number < self.repeats)):
            found = []
            for place, (name, predictive) in enumerate(self.predictives.items()):
                seed = [*self.seed, number, place, repeat]
                try:
                    result = _run_quietly(predictive.with_data(data), seed, self.keywords)
                    found.append(read_evidence(result))
                    verdict = str(result.attrs.get("verdict", ""))
                except Exception as problem:
                    found.append(Evidence(np.nan, np.inf, 1))
                    verdict = "failed"
                    error = error or f"{name}: {type(problem).__name__}: {problem}"
                if not repeat:
                    verdicts.append(verdict)
            rounds.append(found)
        seconds = time.perf_counter() - started
        again = tuple(rounds[1]) if len(rounds) > 1 else ()
        return Simulation(truth, tuple(rounds[0]), again, tuple(verdicts), seconds, error)

    def manifest(self) -> Manifest:
        """Return what a checkpoint must agree with."""
        parts: dict[str, Any] = {**versions(), "random_seed": list(self.seed)}
        parts |= {"prior": [float(p) for p in self.prior], "repeats": self.repeats}
        ways = ("executor", "cores", "progressbar")
        parts["arguments"] = {k: repr(v) for k, v in self.keywords.items() if k not in ways}
        for name, predictive in self.predictives.items():
            rng = np.random.default_rng([*self.seed, 0])
            drawn = {key: np.ravel(value).tolist() for key, value in predictive.draw(rng).items()}
            kinds = [f"{v.name} {v.type}" for v in predictive.model.free_RVs]
            parts[f"model {name}"] = [kinds, repr(drawn)]
        return Manifest(parts)


def _run_quietly(model: pm.Model, seed: Sequence[int], keywords: Mapping[str, Any]) -> Any:
    """Run a model without bars, lines and warnings: verdicts are kept instead."""
    level = _log.level
    _log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ArmWarning)
            return sample(model, random_seed=list(seed), progressbar=False, **keywords)
    finally:
        _log.setLevel(level)


def run_simulations(
    experiment: Experiment,
    count: int,
    *,
    title: str,
    executor: Executor | None = None,
    checkpoint: Checkpoint | None = None,
    resume: bool = False,
    progressbar: bool = True,
) -> list[Simulation]:
    """Run simulations, those that a checkpoint has excepted, and return all in order.

    Parameters
    ----------
    experiment
        What is simulated.
    count
        How many simulations there are.
    title
        What to call them in messages.
    executor
        Where they run; by default here, one after another.
    checkpoint, resume
        Where they are kept, and whether to go on with what is there.
    progressbar
        Whether to show progress.
    """
    check_executor(executor, None)
    if isinstance(executor, ThreadPoolExecutor):
        raise TypeError(
            "Simulations compile their models, which threads can't do at the same time: give an "
            "executor of processes, such as ProcessPoolExecutor or that of a Dask client."
        )
    folder = _open(experiment, checkpoint, resume)
    done = _read(folder, count)
    missing = [number for number in range(count) if number not in done]
    started = time.perf_counter()
    with ModelProgress([title], progressbar, "simulations") as progress:
        progress.ask(title, len(missing))
        for ended, (number, simulation) in enumerate(_stream(experiment, missing, executor), 1):
            done[number] = simulation
            if folder is not None:
                write_file(_file(folder, number), simulation.to_json().encode())
            progress.advance(title)
            if ended in (1, TIMED) and ended < len(missing):
                ahead = experiment.runs_of(n for n in missing if n not in done)
                each = (time.perf_counter() - started) / (experiment.runs_of(missing) - ahead)
                begun = "1 simulation" if ended == 1 else f"{ended} simulations"
                _log.info(
                    "%s: by %s, all %d take %s more", title, begun, count, _time(each * ahead)
                )
        progress.finish(title)
    return [done[number] for number in range(count)]


def _stream(
    experiment: Experiment, numbers: Sequence[int], executor: Executor | None
) -> Iterator[tuple[int, Simulation]]:
    """Yield simulations as they end."""
    if executor is None:
        for number in numbers:
            yield number, experiment.simulate(number)
        return
    package = cloudpickle.dumps(experiment)
    futures = {executor.submit(_simulate_remotely, package, number): number for number in numbers}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BaseException:
        cancel(futures)
        raise


def _simulate_remotely(package: bytes, number: int) -> Simulation:
    return _unpack(package).simulate(number)


@functools.lru_cache(maxsize=4)
def _unpack(package: bytes) -> Experiment:
    with COMPILING:
        found: Experiment = cloudpickle.loads(package)
    return found


def _open(experiment: Experiment, checkpoint: Checkpoint | None, resume: bool) -> Path | None:
    if checkpoint is None:
        if resume:
            raise ValueError("resume=True needs checkpoint=, the directory to resume from.")
        return None
    return Path(open_journal(checkpoint, experiment.manifest(), resume).directory)


def _read(folder: Path | None, count: int) -> dict[int, Simulation]:
    """Return the simulations that a checkpoint has."""
    found = {}
    for number in range(count if folder is not None else 0):
        assert folder is not None
        file = _file(folder, number)
        if file.exists():
            try:
                found[number] = Simulation.from_json(file.read_text())
            except (ValueError, TypeError, KeyError) as error:
                raise CheckpointError(f"{file} is damaged: delete it, and resume.") from error
    return found


def _file(folder: Path, number: int) -> Path:
    return folder / f"simulation-{number:05d}.json"


def _time(seconds: float) -> str:
    """Return a time in words."""
    if seconds < 100:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 6000 else f"about {seconds / 3600:.1f} h"
