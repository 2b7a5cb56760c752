"""A bridge over every step of a path from q to the posterior: p_beta ~ q^(1 - beta) f^beta.

Where q and the posterior hardly overlap, no single bridge joins them. The particles that went from
one to the other have left draws of every distribution between. The path weighs each step by draws
of the wider distribution alone, and what those do not reach is missing: the estimate is low. Here
each step is measured from both sides, by the optimal bridge between two neighbours (Bennett, 1976).
It takes no evaluation that the path has not made.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pymc_arm.algorithm.resampling import effective_share, log_mean_exp
from pymc_arm.algorithm.state import Run
from pymc_arm.estimation.bridge import Bridge, importance, optimal, worth
from pymc_arm.estimation.convergence import pareto_k

__all__ = ["Ladder", "bridge_ladder", "weigh_draws"]


@runtime_checkable
class Ladder(Protocol):
    """A path whose steps are powers beta of f / q.

    ``direct`` says that q fits so well that there is nothing to refine.
    """

    @property
    def direct(self) -> bool:
        """Whether draws of q, weighed, are all that is needed."""

    @property
    def searched(self) -> bool:
        """Whether other modes were looked for when q was fitted."""

    def score(self, points: np.ndarray) -> np.ndarray:
        """Return the gradient of log f at points of the space that particles live in."""

    def rungs(self, run: Run, particles: Any) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return beta of each step, and log f - log q of its particles.

        From draws of q (beta is 0) to those of the posterior (1), which are ``particles``.
        """


def weigh_draws(log_ratio: np.ndarray) -> Bridge:
    """Return what a single step from q to the posterior amounts to: importance sampling.

    Its particles are the draws themselves, so that there is no other side to measure it from.

    Parameters
    ----------
    log_ratio
        log f - log q at draws of q.
    """
    found = importance(log_ratio)
    return replace(found, method="ladder", bridge_k=found.weight_k)


def bridge_ladder(
    betas: np.ndarray,
    log_ratios: Sequence[np.ndarray],
    founders: np.ndarray,
    lineages: Sequence[np.ndarray] | None = None,
) -> Bridge:
    """Add up the bridges between neighbours.

    Parameters
    ----------
    betas
        From 0 to 1.
    log_ratios
        log f - log q at draws of each distribution, equally weighted.
    founders
        Which draws of the last distribution are of one family, and may be alike.
    lineages
        For draws of every distribution, the family they are of, if families go through all of
        them: what all draws of a family add to log Z is then summed before it is squared. That is
        right whether draws remember their ancestors or not.

    Examples
    --------
    Between two Gaussians of widths 1 and 2, f = exp(-x^2 / 8), in two steps:

    >>> import numpy as np
    >>> from pymc_arm.estimation.ladder import bridge_ladder
    >>> rng, betas = np.random.default_rng(1), np.array([0.0, 0.5, 1.0])
    >>> precision = 1 - 0.75 * betas
    >>> draws = [rng.normal(size=1000) / np.sqrt(p) for p in precision]
    >>> ratios = [-(x**2) / 8 + x**2 / 2 + np.log(2 * np.pi) / 2 for x in draws]
    >>> found = bridge_ladder(betas, ratios, np.arange(1000))
    >>> bool(abs(found.log_evidence - np.log(2 * np.sqrt(2 * np.pi))) < 4 * found.variance**0.5)
    True
    """
    families = [np.arange(len(ratio)) for ratio in log_ratios[:-1]] + [founders]
    families = families if lineages is None else list(lineages)
    # What each draw adds to log Z, in both of the bridges that it is part of.
    influence = [np.zeros(len(ratio)) for ratio in log_ratios]
    log_evidence, overlap, shape = 0.0, 1.0, -np.inf
    for step, width in enumerate(np.diff(betas)):
        second, first = width * log_ratios[step], width * log_ratios[step + 1]
        second = np.where(np.isfinite(second), second, -np.inf)
        if not np.isfinite(second).any() or not np.isfinite(first).all():
            return Bridge(np.nan, np.inf, np.inf, 0.0, 1, method="ladder")
        increment, numerator, denominator = optimal(first, second, worth(families[step + 1]))
        log_evidence += increment
        influence[step] += np.expm1(numerator - log_mean_exp(numerator)) / len(second)
        influence[step + 1] -= np.expm1(denominator - log_mean_exp(denominator)) / len(first)
        overlap = min(overlap, effective_share(numerator), effective_share(denominator))
        shape = max(shape, pareto_k(numerator), pareto_k(denominator))
    count = max(int(family.max()) for family in families) + 1
    sums = [
        np.bincount(family, weights=own, minlength=count)
        for family, own in zip(families, influence, strict=True)
    ]
    parts = [float(own @ own) for own in sums]
    variance = sum(parts) if lineages is None else float(np.square(np.sum(sums, axis=0)).sum())
    return Bridge(
        float(log_evidence), variance, parts[-1], overlap, 1, bridge_k=shape, method="ladder"
    )
