"""What a run is made of, and the bookkeeping of a step.

State and info are immutable. :class:`ParticleSet` is the paper's chi with its weights rho;
:class:`Lineage` follows particles through moves and resampling. None of them decides anything: the
decisions are in :mod:`pymc_arm.algorithm.arm`.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from pymc_arm.algorithm.genealogy import Genealogy
from pymc_arm.algorithm.path import Moved, Particles, Path, Position, Proposal, Smoothed
from pymc_arm.algorithm.resampling import (
    effective_sample_size,
    log_sum_exp,
    variance_of_mean,
)

__all__ = ["Batch", "Info", "Lineage", "ParticleSet", "Run", "State"]


@dataclass(frozen=True)
class State:
    """Weighted particles that target p_n, and the estimate of log Z_n.

    Attributes
    ----------
    position
        n, or what stands for it on a path that chooses its steps.
    particles, log_weights
        The particles, and their normalised log-weights.
    log_evidence
        The estimate of log Z_n.
    ancestors
        The number of the particle that each one was at the last move: copies share a number.
    genealogy
        Which particles of the start these descend from.
    step
        How many steps have been taken.
    """

    position: Position
    particles: Particles
    log_weights: np.ndarray
    log_evidence: float
    ancestors: np.ndarray
    genealogy: Genealogy
    step: int = 0

    @classmethod
    def first(
        cls, position: Position, particles: Particles, log_weights: np.ndarray, log_evidence: float
    ) -> "State":
        """Return the state of independent particles that target p_1."""
        lineage = Lineage.start(len(log_weights))
        return cls(
            position, particles, log_weights, log_evidence, lineage.ancestors, lineage.genealogy
        )

    @property
    def has_copies(self) -> bool:
        """Whether some particle has stood unmoved since it was copied."""
        return Lineage.of(self).distinct_fraction < 1


@dataclass(frozen=True)
class Info:
    """What happened in the step into p_n.

    Attributes
    ----------
    introduced
        The name of what came in.
    effective_fraction, first_effective_fraction
        gamma at the end of the step, and before any particles were generated.
    particles, rounds
        R_n, the number of particles, and how often particles were generated.
    log_increment, log_evidence
        log m_n, and log Z_n.
    increment_variance, predicted_variance
        v_n of Theorem 1, and the variance of log m_n that follows from it.
    acceptance_rate, kernel_calls
        The mean acceptance rate of moves, NaN without any, and how many particles were moved.
    resampled, distinct_fraction
        Whether particles were resampled, and the share of them that are no copies of others.
    observations, observed
        How many observations came in, and the name of a single one.
    autocorrelation
        The correlation of moved particles with where they started, if the path measures it.
    integration_error
        What :meth:`pymc_arm.Path.integration_error` says of the step.
    log_ratios
        log W of each particle, if the path keeps it.
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
    integration_error: float = 0.0
    log_ratios: tuple[float, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Run:
    """The end of a run, and its history.

    Attributes
    ----------
    state
        The particles at p_N, and log Z.
    history
        The :class:`Info` of each step.
    positions
        The positions that were passed, the first one included.
    """

    state: State
    history: tuple[Info, ...]
    positions: tuple[Position, ...] = field(repr=False)

    @property
    def log_evidence(self) -> float:
        """The estimate of log Z."""
        return self.state.log_evidence


@dataclass(frozen=True)
class Batch:
    """Particles that target p_n, smoothed; ``origins`` are their indices in the set of the state.

    ``kernel_calls`` is how many particles were moved or drawn to make it: none for the particles
    that a step begins with.
    """

    particles: Particles
    log_weights: np.ndarray
    smoothed: Smoothed
    origins: np.ndarray
    acceptance_rate: float = np.nan
    kernel_calls: int = 0
    autocorrelation: float = np.nan

    @classmethod
    def of(cls, particles: Particles, log_weights: np.ndarray, smoothed: Smoothed) -> "Batch":
        """Return the particles that a step begins with."""
        return cls(particles, log_weights, smoothed, np.arange(len(log_weights)))

    @classmethod
    def moved(
        cls, moved: Moved, log_weights: np.ndarray, smoothed: Smoothed, origins: np.ndarray
    ) -> "Batch":
        """Return particles that were moved."""
        rates = moved.acceptance_rate, len(origins), moved.autocorrelation
        return cls(moved.particles, log_weights, smoothed, origins, *rates)

    def __len__(self) -> int:
        return len(self.log_weights)

    @property
    def effective_fraction(self) -> float:
        """The paper's gamma^(0), if these are the particles that a step begins with."""
        return ParticleSet((self,)).effective_fraction


@dataclass(frozen=True)
class ParticleSet:
    """The paper's chi_n with weights rho_n: batches of particles that all target p_n.

    Each batch has a share of the weight in proportion to its size (Proposition 1).
    """

    batches: tuple[Batch, ...] = ()

    def include(self, batch: Batch) -> "ParticleSet":
        """Return the set with one more batch: rho := (R_n rho, R w) / (R_n + R)."""
        return ParticleSet((*self.batches, batch))

    def __len__(self) -> int:
        return sum(len(batch) for batch in self.batches)

    @property
    def log_weights(self) -> np.ndarray:
        """Log rho."""
        sizes = np.array([len(batch) for batch in self.batches])
        shares = np.log(sizes / sizes.sum())
        return np.concatenate(
            [batch.log_weights + share for batch, share in zip(self.batches, shares, strict=True)]
        )

    @property
    def log_ratio(self) -> np.ndarray:
        """Log W of each particle."""
        return np.concatenate([batch.smoothed.log_ratio for batch in self.batches])

    @property
    def reweighted(self) -> np.ndarray:
        """Log w_{n+1} = log W + log rho, not normalised."""
        reweighted: np.ndarray = self.log_ratio + self.log_weights
        return reweighted

    @property
    def effective_fraction(self) -> float:
        """The paper's gamma = R_eff / R_n."""
        return effective_sample_size(self.reweighted) / len(self)

    @property
    def increment_variance(self) -> float:
        """v_n-hat, the variance of W / E[W] under the weights (Theorem 1)."""
        log_mean = log_sum_exp(self.reweighted)
        if not np.isfinite(log_mean):
            return np.inf
        log_square = log_sum_exp(2 * self.log_ratio + self.log_weights)
        return max(float(np.expm1(log_square - 2 * log_mean)), 0.0)

    @property
    def predicted_variance(self) -> float:
        """Variance of log m_n, sum rho^2 (W / m_n - 1)^2; v_n-hat / R_n if weights are equal."""
        return variance_of_mean(self.log_weights, self.log_ratio)

    @property
    def origins(self) -> np.ndarray:
        """The indices of all particles in the set of the state."""
        return np.concatenate([batch.origins for batch in self.batches])

    @property
    def unmoved(self) -> int:
        """How many of the first particles are those that the step began with."""
        return sum(len(batch) for batch in self.batches[:1] if batch.kernel_calls == 0)

    @property
    def kernel_calls(self) -> int:
        """How many particles were moved or drawn."""
        return sum(batch.kernel_calls for batch in self.batches)

    @property
    def acceptance_rate(self) -> float:
        """The mean over the batches that were moved; NaN if none was."""
        rates = [b.acceptance_rate for b in self.batches if not np.isnan(b.acceptance_rate)]
        return float(np.mean(rates)) if rates else np.nan

    @property
    def autocorrelation(self) -> float:
        """The largest of the batches that were moved; NaN if none was, or none measured it."""
        found = [b.autocorrelation for b in self.batches if not np.isnan(b.autocorrelation)]
        return max(found, default=np.nan)

    def join(self, path: Path) -> tuple[Particles, Proposal]:
        """Return all particles as one set, with what ``augment`` needs to draw."""
        if len(self.batches) == 1:
            (only,) = self.batches
            return only.particles, only.smoothed.proposal
        particles = path.join([batch.particles for batch in self.batches])
        return particles, path.join([batch.smoothed.proposal for batch in self.batches])


@dataclass(frozen=True)
class Lineage:
    """Where particles come from: ``ancestors`` since the last move, ``genealogy`` since the start.

    It changes nothing in a run; it tells how many particles are distinct, and predicts the variance
    of log Z-hat.
    """

    ancestors: np.ndarray
    genealogy: Genealogy

    @classmethod
    def start(cls, count: int) -> "Lineage":
        """Return the lineage of independent particles."""
        return cls(np.arange(count), Genealogy.of(count))

    @classmethod
    def of(cls, state: State) -> "Lineage":
        """Return the lineage of a state."""
        return cls(state.ancestors, state.genealogy)

    @property
    def distinct_fraction(self) -> float:
        """The share of particles that differ from each other."""
        return len(np.unique(self.ancestors)) / len(self.ancestors)

    def moved(self) -> "Lineage":
        """Go on after a move of all particles: each is distinct from now on."""
        return replace(self, ancestors=np.arange(len(self.ancestors)))

    def extend(self, chi: ParticleSet) -> "Lineage":
        """Go on to all particles of a step; those that were generated are distinct."""
        kept, last = chi.unmoved, self.ancestors.max()
        generated = last + 1 + np.arange(len(chi) - kept)
        ancestors = np.concatenate([self.ancestors[:kept], generated])
        return Lineage(ancestors, self.genealogy.extend(chi.origins))

    def resample(self, log_weights: np.ndarray, indices: np.ndarray, scheme: str) -> "Lineage":
        """Go on to the particles at these indices."""
        genealogy = self.genealogy.resample(log_weights, indices, scheme)
        return Lineage(self.ancestors[indices], genealogy)
