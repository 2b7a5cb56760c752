"""What a run is made of: the state after a step, what happened in it, and the whole."""

from dataclasses import dataclass, field

import numpy as np

from pymc_arm.algorithm.genealogy import Genealogy
from pymc_arm.algorithm.path import Particles, Position

__all__ = ["Info", "Run", "State"]


@dataclass(frozen=True)
class State:
    """Weighted particles that target p_n, and the estimate of log Z_n.

    ``ancestors`` numbers the distinct particles since the last move, so that copies share a
    number; ``genealogy`` knows the families since the start.
    """

    position: Position
    particles: Particles
    log_weights: np.ndarray
    log_evidence: float
    ancestors: np.ndarray
    genealogy: Genealogy
    step: int = 0


@dataclass(frozen=True)
class Info:
    """What happened in the step into p_n.

    ``autocorrelation`` is what moved particles still remember, if the path measures it;
    ``observations`` is how many came in with it, and ``observed`` the name of a single one.
    """

    introduced: str
    effective_fraction: float
    first_effective_fraction: float
    particles: int
    rounds: int
    log_increment: float
    increment_variance: float
    predicted_variance: float
    log_evidence: float
    acceptance_rate: float
    kernel_calls: int
    resampled: bool
    distinct_fraction: float
    observations: int = 0
    observed: str = ""
    autocorrelation: float = np.nan


@dataclass(frozen=True)
class Run:
    """The end of a run, and its history."""

    state: State
    history: tuple[Info, ...]
    positions: tuple[Position, ...] = field(repr=False)

    @property
    def log_evidence(self) -> float:
        """The estimate of log Z."""
        return self.state.log_evidence
