"""One number with its error: chains pooled, and a choice between two estimates.

The pooled estimate is the log of the mean of Z-hat over chains: Z-hat, not log Z-hat, is what is
unbiased. Of the exploring and the refined estimate, the refined one is taken wherever it passes
its own diagnostics, and never because the error it claims is the smaller one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from pymc_arm.algorithm.resampling import log_mean_exp
from pymc_arm.estimation.bridge import Bridge

__all__ = [
    "Estimates",
    "Evidence",
    "disagreement_limit",
    "pool",
    "pool_bridges",
    "select_estimate",
    "stands",
]

# The variance that a run predicts of itself scatters by 20 to 40 % between runs, as that of a
# sample of 12 to 50 would; a little less, for what it may miss.
PREDICTION_FREEDOM = 10
# What rounding may add to any standard error.
ROUNDING = 1e-6
# The chance to discard a prediction that is right.
TOO_SMALL = 0.01
# Refined chains that differ by more than this standard deviation, in nats, and by more than they
# predict, have no common posterior: their q's, or the particles, are of different modes.
LARGEST_SPREAD = 0.5
# A sound run's two estimates differ by more than the limit about once in a thousand. The error of
# four chains has few degrees of freedom.
CHANCE = 1e-3
DISAGREEMENT_FREEDOM = 8


@dataclass(frozen=True)
class Evidence:
    """An estimate of log Z with its standard error and the degrees of freedom of that error."""

    log_evidence: float
    standard_error: float
    degrees_of_freedom: float

    def interval(self, probability: float = 0.95) -> tuple[float, float]:
        """Return an interval that covers log Z with the given probability."""
        if not np.isfinite(self.standard_error):
            return (-np.inf, np.inf)
        quantile = float(scipy.special.stdtrit(self.degrees_of_freedom, (1 + probability) / 2))
        half = quantile * self.standard_error
        return (self.log_evidence - half, self.log_evidence + half)


def pool(log_evidences: Sequence[float], predicted_variances: Sequence[float]) -> Evidence:
    """Pool chains into the log of the mean of Z-hat, with its standard error.

    Two things tell the error: the spread of Z-hat between chains, which is right but rough when
    they are few, and the variance that each run predicts of itself, which is precise but may miss
    something. They are averaged, unless the spread shows that the prediction is too small.

    Examples
    --------
    >>> from pymc_arm.estimation.estimate import pool
    >>> pool([-1.0, -1.0], [0.0, 0.0])
    Evidence(log_evidence=-1.0, standard_error=1e-06, degrees_of_freedom=1)
    """
    values = np.asarray(log_evidences, dtype=float)
    log_evidence = log_mean_exp(values)
    if not np.isfinite(log_evidence):
        return Evidence(log_evidence, np.inf, 1)
    variance, freedom = _pooled_variance(values, log_evidence, float(np.mean(predicted_variances)))
    return Evidence(
        log_evidence, float(np.hypot(np.sqrt(variance / len(values)), ROUNDING)), freedom
    )


def _pooled_variance(
    values: np.ndarray, log_evidence: float, predicted: float
) -> tuple[float, float]:
    """Return the variance of one chain, and the degrees of freedom of that."""
    chains = len(values)
    if chains == 1:
        return predicted, PREDICTION_FREEDOM
    # The two are the same when small; when one chain dominates, only logs show how far apart
    # the chains are.
    spread = float(np.exp(values - log_evidence).var(ddof=1))
    if np.all(np.isfinite(values)):
        spread = max(spread, float(values.var(ddof=1)))
    freedom = chains - 1
    limit = scipy.special.chdtri(freedom, TOO_SMALL) / freedom * predicted
    if spread > limit or not np.isfinite(predicted) or predicted == 0:
        return spread, freedom
    total = freedom + PREDICTION_FREEDOM
    return (freedom * spread + PREDICTION_FREEDOM * predicted) / total, total


@dataclass(frozen=True)
class Estimates:
    """The exploring and the refined estimate, and which of them is *the* estimate.

    Attributes
    ----------
    explore, refine
        The pooled estimates; ``refine`` is None where it is not to be trusted, or was not made.
    overlap
        The smallest overlap of q and the posterior over chains; NaN without a bridge.
    chosen
        ``"explore"`` or ``"refine"``.
    pareto_k
        The largest Pareto k of what the refined estimates are means of; NaN without a bridge.
    disagreement
        The difference of the two estimates, where their errors do not explain it; otherwise 0. It
        is part of the standard error.
    integration_error
        The standard deviation of log Z that numerical integrals add. Part of the standard error.
    repaired
        Whether draws of q have refuted the particles of all chains, which have the wrong share of
        some mode, or none of it. Then exploring is known to be wrong, and no disagreement with it
        counts.
    earlier
        The log Z that this one was added to, whose error is part of the standard error; None where
        it was estimated from the start.
    """

    explore: Evidence
    refine: Evidence | None
    overlap: float
    chosen: str
    pareto_k: float = np.nan
    disagreement: float = 0.0
    integration_error: float = 0.0
    repaired: bool = False
    earlier: Evidence | None = None

    @property
    def sampling(self) -> Evidence:
        """The chosen estimate with the part of its error that more chains would make smaller."""
        return self.refine if self.chosen == "refine" and self.refine else self.explore

    @property
    def evidence(self) -> Evidence:
        """The chosen estimate with all of its error."""
        own = replace(self.sampling, standard_error=self.own_error)
        return own if self.earlier is None else _add_errors(own, self.earlier)

    @property
    def own_error(self) -> float:
        """The standard error without that of an earlier estimate."""
        parts = (self.sampling.standard_error, self.disagreement, self.integration_error)
        return float(np.sqrt(np.sum(np.square(parts))))


def select_estimate(
    explored: Sequence[float],
    explored_variances: Sequence[float],
    bridges: Sequence[Bridge | None] = (),
    *,
    integration_error: float = 0.0,
    repaired: bool = False,
) -> Estimates:
    """Pool both estimates, and choose the refined one wherever it can be trusted.

    Parameters
    ----------
    explored, explored_variances
        log Z-hat of each exploring chain, and the variance that each predicts of itself.
    bridges
        The refined estimate of each chain, or None where there is none.
    integration_error
        The standard deviation of log Z that numerical integrals add to both, in nats.
    repaired
        Whether q covers modes that the particles have missed.
    """
    explore = pool(explored, explored_variances)
    known = [b for b in bridges if b is not None]
    overlap = float(min((b.overlap for b in known), default=np.nan))
    shape = float(max((_shape(b) for b in known), default=np.nan))
    complete = len(known) == len(explored)
    refine = (
        pool([b.log_evidence for b in known], [b.variance for b in known]) if complete else None
    )
    if refine is None or not stands(known):
        return Estimates(explore, None, overlap, "explore", shape, 0.0, integration_error)
    repaired = repaired or all(b.method == "importance" for b in known)
    difference = abs(explore.log_evidence - refine.log_evidence)
    unexplained = not repaired and difference > disagreement_limit(explore, refine)
    return Estimates(
        explore,
        refine,
        overlap,
        "refine",
        shape,
        float(difference) if unexplained else 0.0,
        integration_error,
        repaired,
    )


def _add_errors(found: Evidence, earlier: Evidence) -> Evidence:
    """Return an estimate with the error of an independent one added (Welch and Satterthwaite)."""
    errors = np.array([found.standard_error, earlier.standard_error])
    freedoms = np.array([found.degrees_of_freedom, earlier.degrees_of_freedom])
    total = float(np.hypot(*errors))
    if not 0 < total < np.inf:
        return replace(found, standard_error=total)
    return replace(
        found,
        standard_error=total,
        degrees_of_freedom=float(1 / np.sum((errors / total) ** 4 / freedoms)),
    )


def pool_bridges(bridges: Sequence[Bridge], *, repaired: bool = False) -> Estimates:
    """Pool bridges to draws that were given: nothing was explored, and there is one estimate.

    Parameters
    ----------
    bridges
        One for each chain.
    repaired
        Whether q covers modes that the draws have missed.
    """
    return Estimates(
        Evidence(np.nan, np.nan, 1),
        pool([b.log_evidence for b in bridges], [b.variance for b in bridges]),
        float(min(b.overlap for b in bridges)),
        "refine",
        float(max(_shape(b) for b in bridges)),
        repaired=repaired or all(b.method == "importance" for b in bridges),
    )


def stands(bridges: Sequence[Bridge]) -> bool:
    """Whether each bridge can be trusted, and all of them agree."""
    return all(b.trustworthy for b in bridges) and _agree(bridges)


def disagreement_limit(explore: Evidence, refine: Evidence) -> float:
    """Return by how much the two estimates of a sound run may differ."""
    quantile = float(scipy.special.stdtrit(DISAGREEMENT_FREEDOM, 1 - CHANCE / 2))
    return quantile * float(np.hypot(explore.standard_error, refine.standard_error))


def _shape(found: Bridge) -> float:
    return found.weight_k if found.method == "importance" else found.bridge_k


def _agree(bridges: Sequence[Bridge]) -> bool:
    """Whether refined chains differ by no more than they predict, or by little."""
    chains = len(bridges)
    if chains < 2:
        return True
    spread = float(np.var([b.log_evidence for b in bridges], ddof=1))
    predicted = float(np.mean([b.variance for b in bridges]))
    limit = float(scipy.special.fdtri(chains - 1, 2 * PREDICTION_FREEDOM, 1 - CHANCE)) * predicted
    return spread <= max(limit, LARGEST_SPREAD**2)
