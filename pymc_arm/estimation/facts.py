"""What is known of a finished run, for the verdict on it."""

from dataclasses import dataclass, field

import numpy as np

from pymc_arm.estimation.estimate import Evidence
from pymc_arm.estimation.given import GivenDraws
from pymc_arm.estimation.steps import StepFacts
from pymc_arm.estimation.unseen import Unseen
from pymc_arm.estimation.updated import UpdateFacts

__all__ = ["Facts"]


@dataclass(frozen=True)
class Facts:
    """What a verdict is made of: numbers and arrays, wherever they were read from.

    Attributes
    ----------
    evidence
        The estimate with all of its error.
    explore, refine
        Both pooled estimates; ``refine`` is None where there is none, or none to be trusted.
    chosen
        ``"explore"`` or ``"refine"``.
    explored, explored_variances
        log Z-hat of each exploring chain, and what each predicts of its variance.
    refined, refined_variances
        The same of the bridges; NaN where there is none.
    overlap, pareto_k
        The smallest overlap with q and the largest Pareto k; NaN where no bridge was tried.
    repaired, repaired_share
        How many modes that the particles had missed q covers, and their share of Z.
    refuted
        Whether draws of q have refuted the particles of all chains: shares of modes are wrong.
    missed
        The log of the mass, the expected and the found share of a mode that q does not cover.
    unseen
        What runs back from the target say that the particles have not seen, if there were any.
    r_hat, effective_draws, independent_draws
        Of the returned draws: the largest R-hat, the smallest effective number by
        autocorrelations, and how many are independent by the way they were made.
    explore_r_hat
        The largest R-hat of the exploring chains, before anything was done about it.
    draws_from
        ``"q"`` or ``"particles"``.
    divergent
        The share of trajectories that lost their energy at the posterior; NaN if none was counted.
    draws, chains, dimension
        The size of the run.
    fewest_particles
        How many a chain needs, so that what moves and fits learn from them can be relied on.
    given
        What is known of draws that were given, if they were.
    update
        What is known of an update of an earlier result, if it was one.
    flat
        Data whose density is the same wherever the run has looked.
    endless
        Coordinates along which the density has no finite integral.
    unfinished
        A sentence about a limit that ended the run early, or "".
    steps
        What is known of the steps.
    """

    evidence: Evidence
    explore: Evidence
    refine: Evidence | None
    chosen: str
    explored: np.ndarray
    explored_variances: np.ndarray
    refined: np.ndarray
    refined_variances: np.ndarray
    steps: StepFacts = field(repr=False)
    overlap: float = np.nan
    pareto_k: float = np.nan
    repaired: int = 0
    repaired_share: float = np.nan
    refuted: bool = False
    missed: tuple[float, float, float] | None = None
    unseen: Unseen | None = None
    r_hat: float = np.nan
    r_hat_variable: str = ""
    effective_draws: float = np.nan
    independent_draws: float = np.nan
    explore_r_hat: float = np.nan
    explore_r_hat_variable: str = ""
    draws_from: str = "particles"
    divergent: float = np.nan
    draws: int = 0
    chains: int = 0
    dimension: int = 0
    fewest_particles: int = 0
    given: GivenDraws | None = None
    update: UpdateFacts | None = None
    flat: tuple[str, ...] = ()
    endless: tuple[str, ...] = ()
    unfinished: str = ""

    @property
    def effective(self) -> float:
        """The number of independent draws that the returned ones are worth."""
        return float(np.fmin(self.effective_draws, self.independent_draws))
