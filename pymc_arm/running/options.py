"""The arguments of a run that are not settings of the algorithm, checked once."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Literal

import numpy as np

from pymc_arm.arguments import check_choice, check_count
from pymc_arm.deadline import Deadline
from pymc_arm.running.checkpoint.journal import Checkpoint
from pymc_arm.running.executors import check_executor

__all__ = ["Options"]


@dataclass(frozen=True, kw_only=True)
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

    def deadline(self) -> Deadline | None:
        """Return when a run that begins now has to end."""
        return None if self.time_limit is None else Deadline.after(self.time_limit)
