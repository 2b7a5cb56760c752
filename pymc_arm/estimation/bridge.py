"""The optimal bridge between draws of the posterior and draws of q (Meng and Wong, 1996).

The bridge measures the step from q to the posterior from both sides. Importance sampling measures
it from the side of q alone: it needs a q that covers all of the posterior, and no draws of that.
Where the two differ by more than their errors, the draws that were meant to be of the posterior
are not, or q does not reach all of them.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pymc_arm.algorithm.resampling import effective_share, log_mean_exp
from pymc_arm.estimation.convergence import LARGEST_PARETO_K, pareto_k

__all__ = ["Bridge", "bridge", "importance", "optimal", "worth"]

# Below this share of effective draws on either side, q and the posterior hardly meet.
SMALLEST_OVERLAP = 0.05
# Draws of q must be worth this share of the particles they stand for. Resampled by weight, R draws
# are then worth R / (1 + 1 / 0.25) = R / 5 independent ones; with half of the share R / 9.
SMALLEST_EFFECTIVE = 0.25
# The share of the particles whose f / q is larger than at any draw of q. With k < 0.7 and as many
# draws of q as there are, the largest weight is below 1 % of their sum, and so is this.
LARGEST_UNREACHED = 0.02
# How many standard errors the two sides may differ by. Either answer is right where they are not
# told apart, so that a smaller number would do no harm.
SIDES = 4.0
ITERATIONS = 1000


@dataclass(frozen=True)
class Bridge:
    """An estimate of log Z of one chain, from draws of the posterior and of q.

    Attributes
    ----------
    log_evidence
        The estimate: of the bridge, or of importance sampling where draws of the posterior are
        refuted.
    variance
        What the draws themselves predict of its variance.
    cloud_variance
        The part of it that comes from the draws of the posterior.
    overlap
        The smallest of the effective fractions of the draws, between 0 and 1.
    components
        The number of components of q.
    bridge_k
        The larger Pareto k of the terms of the bridge, over its two sides.
    weight_k
        Pareto k of the weights f / q at draws of q.
    effective_draws
        The effective number of the draws of q, as importance samples of the posterior.
    unreached
        The share of the draws of the posterior at which f / q is larger than at any draw of q.
    method
        ``"bridge"``, ``"importance"``, or ``"ladder"`` (:mod:`pymc_arm.estimation.ladder`).
    modes_share
        The share of Z at modes that were given to q besides the cloud; NaN if that is not known.
    particles
        Draws of the posterior through q, or None where q is not good enough for that.
    """

    log_evidence: float
    variance: float
    cloud_variance: float
    overlap: float
    components: int
    bridge_k: float = -np.inf
    weight_k: float = -np.inf
    effective_draws: float = 0.0
    unreached: float = 0.0
    method: str = "bridge"
    modes_share: float = field(default=np.nan, compare=False)
    particles: Any = field(default=None, repr=False, compare=False)

    @property
    def trustworthy(self) -> bool:
        """Whether q and the posterior overlap enough, and no few draws decide."""
        k = self.weight_k if self.method == "importance" else self.bridge_k
        return bool(
            np.isfinite(self.log_evidence)
            and self.overlap >= SMALLEST_OVERLAP
            and k < LARGEST_PARETO_K
        )

    def represents(self, size: int) -> bool:
        """Whether draws of q, resampled by weight, can stand for so many of the posterior."""
        return bool(
            self.trustworthy
            and self.weight_k < LARGEST_PARETO_K
            and self.effective_draws >= SMALLEST_EFFECTIVE * size
            and self.unreached <= LARGEST_UNREACHED
        )


def bridge(
    first: np.ndarray,
    second: np.ndarray,
    components: int = 1,
    founders: np.ndarray | None = None,
) -> Bridge:
    """Estimate log Z by the optimal bridge between draws from the posterior and from q.

    With l = log f - log q, ``first`` at posterior draws and ``second`` at N_2 draws from q, and
    s_k = N_k / (N_1 + N_2), r is iterated as the mean of e^l / (s_1 e^l + s_2 r) over q divided by
    the mean of 1 / (s_1 e^l + s_2 r) over the posterior. Posterior draws of one family count as
    dependent: N_1 is how many independent ones they are worth at least.
    """
    # Where q is zero l is infinite, and 1 / e^l is zero; what is not a number says nothing.
    usable = first > -np.inf
    founders = np.arange(len(first)) if founders is None else founders
    first, founders = first[usable], founders[usable]
    second = np.where(np.isfinite(second), second, -np.inf)  # an overflow says nothing
    # A q that is zero at half of the posterior's draws has nothing to say either.
    if not np.isfinite(second).any() or not len(first) or not np.isfinite(np.median(first)):
        return Bridge(np.nan, np.inf, np.inf, 0.0, components)
    log_evidence, numerator, denominator = optimal(first, second, worth(founders))
    # Relative variances of the two means (Fruehwirth-Schnatter, 2004).
    overlaps = [effective_share(n) for n in (numerator, denominator)]
    proposal_variance, cloud_variance = (
        (1 / overlap - 1) / len(draws)
        for overlap, draws in zip(overlaps, (second, first), strict=True)
    )
    cloud_variance = max(cloud_variance, _family_variance(denominator, founders))
    share_of_q = effective_share(second)
    # How much of q's draws the posterior would accept, and the other way round.
    return Bridge(
        log_evidence,
        float(proposal_variance + cloud_variance),
        float(cloud_variance),
        float(min(*overlaps, share_of_q)),
        components,
        bridge_k=max(pareto_k(numerator), pareto_k(denominator)),
        weight_k=pareto_k(second),
        effective_draws=share_of_q * len(second),
        unreached=float(np.mean(first > second.max())),
    )


def worth(founders: np.ndarray) -> float:
    """Return how many independent draws those of some families are worth at least."""
    return len(founders) ** 2 / float((np.bincount(founders) ** 2.0).sum())


def optimal(
    first: np.ndarray, second: np.ndarray, first_worth: float
) -> tuple[float, np.ndarray, np.ndarray]:
    """Iterate the optimal bridge between two sets of draws.

    Returns log r, and the logarithms of what its two means are taken of: at draws of q, and at
    draws of the posterior.
    """
    share = np.log(first_worth / (first_worth + len(second)))
    rest = np.log1p(-np.exp(share))
    shift = float(np.median(first))
    log_ratio = 0.0
    for _ in range(ITERATIONS):
        numerator = second - shift - np.logaddexp(share + second - shift, rest + log_ratio)
        denominator = -np.logaddexp(share + first - shift, rest + log_ratio)
        updated = log_mean_exp(numerator) - log_mean_exp(denominator)
        if abs(updated - log_ratio) < 1e-10:
            log_ratio = updated
            break
        log_ratio = updated
    return shift + log_ratio, numerator, denominator


def importance(second: np.ndarray, components: int = 1) -> Bridge:
    """Estimate log Z by importance sampling: the log of the mean of f / q over draws of q."""
    second = np.where(np.isfinite(second), second, -np.inf)  # an overflow says nothing
    if not np.isfinite(second).any():
        return Bridge(np.nan, np.inf, 0.0, 0.0, components, method="importance")
    share = effective_share(second)
    return Bridge(
        log_mean_exp(second),
        (1 / share - 1) / len(second),
        0.0,
        share,
        components,
        weight_k=pareto_k(second),
        effective_draws=share * len(second),
        method="importance",
    )


def sides_differ(bridged: Bridge, weighted: Bridge) -> bool:
    """Whether importance sampling refutes the draws of the posterior that the bridge used."""
    error = np.sqrt(bridged.variance + weighted.variance)
    return bool(abs(bridged.log_evidence - weighted.log_evidence) > SIDES * error)


def _family_variance(log_values: np.ndarray, founders: np.ndarray) -> float:
    """Return the relative variance of a mean, with the values of one family as one draw."""
    values = np.exp(log_values - log_mean_exp(log_values)) - 1
    sums = np.bincount(founders, weights=values)
    return float(sums @ sums) / len(values) ** 2
