"""What a step of the algorithm has done, from which its :class:`Info` and the lineage follow.

:func:`pymc_arm.algorithm.arm.step` notes what it does as it goes. Nothing here decides anything.
"""

from dataclasses import dataclass, replace

import numpy as np

from pymc_arm.algorithm.path import Moved, Particles, Path, Position
from pymc_arm.algorithm.resampling import normalize, variance_of_mean
from pymc_arm.algorithm.state import Info, Lineage, ParticleSet, State

__all__ = ["StepRecord"]


@dataclass(frozen=True)
class StepRecord:
    """What a step from p_n to p_{n+1} did: its info and the lineage of its particles follow.

    Attributes
    ----------
    state
        Where the step began.
    moved
        What the move of line 3 returned; None if there was none.
    first_effective_fraction
        gamma before any particles were generated.
    chi, rounds
        The expanded set, and how often particles were generated.
    integration_error
        What the path says of the step's integrals.
    indices, scheme
        The ancestors that resampling chose, and how; None if there was no resampling.
    correction_variance
        The variance that the corrections of ``augment`` add to log m_n.
    """

    state: State
    moved: Moved | None
    first_effective_fraction: float
    chi: ParticleSet
    rounds: int
    integration_error: float = 0.0
    indices: np.ndarray | None = None
    scheme: str = ""
    correction_variance: float = 0.0

    def integrated(self, error: float) -> "StepRecord":
        """Note how far the integrals of the smooth step may be off."""
        return replace(self, integration_error=error)

    def resampled(self, indices: np.ndarray, scheme: str) -> "StepRecord":
        """Note which particles of chi were kept."""
        return replace(self, indices=indices, scheme=scheme)

    def augmented(self, log_weights: np.ndarray, correction: np.ndarray | float) -> "StepRecord":
        """Note the corrections of the draws of the new variable."""
        return replace(self, correction_variance=variance_of_mean(log_weights, correction))

    def end(
        self,
        path: Path,
        following: Position,
        particles: Particles,
        log_weights: np.ndarray,
        log_increment: float,
    ) -> tuple[State, Info]:
        """Return the state at p_{n+1}, and what happened on the way."""
        info = self._info(path, following, log_increment)
        lineage = self._entering.extend(self.chi)
        if self.indices is not None:
            lineage = lineage.resample(normalize(self.chi.reweighted), self.indices, self.scheme)
        state = State(
            following,
            particles,
            log_weights,
            info.log_evidence,
            lineage.ancestors,
            lineage.genealogy,
            self.state.step + 1,
        )
        return state, info

    @property
    def _entering(self) -> Lineage:
        """The lineage of the particles that were smoothed first."""
        lineage = Lineage.of(self.state)
        return lineage if self.moved is None else lineage.moved()

    def _info(self, path: Path, following: Position, log_increment: float) -> Info:
        chi = self.chi
        latest = chi if self.rounds or self.moved is None else self.moved
        before = 0 if self.moved is None else len(self.state.log_weights)
        observations, observed = path.observations(following)
        return Info(
            introduced=path.describe(following),
            effective_fraction=chi.effective_fraction,
            first_effective_fraction=self.first_effective_fraction,
            particles=len(chi),
            rounds=self.rounds,
            log_increment=log_increment,
            increment_variance=chi.increment_variance,
            predicted_variance=chi.predicted_variance + self.correction_variance,
            log_evidence=self.state.log_evidence + log_increment,
            acceptance_rate=latest.acceptance_rate,
            autocorrelation=latest.autocorrelation,
            kernel_calls=before + chi.kernel_calls,
            resampled=self.indices is not None,
            distinct_fraction=self._entering.distinct_fraction,
            observations=observations,
            observed=observed,
            integration_error=self.integration_error,
            log_ratios=tuple(chi.log_ratio.tolist()) if path.keeps_ratios else (),
        )
