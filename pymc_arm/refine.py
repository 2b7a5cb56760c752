"""A second, sharper estimate of log Z from the particles that exploring leaves behind.

The telescoping product carries the noise of every step. A density q fitted to the final cloud is
one short step away from the posterior, and the optimal bridge between the two (Meng and Wong, 1996)
measures that step from both sides: the standard deviation of log Z falls from a few tenths to a
few thousandths. Each chain is judged with a q that was fitted to the other chains, so that q never
sees the draws it is judged on, and how well the two overlap says whether to believe it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pymc_arm.approximation import Approximation, fit
from pymc_arm.resampling import effective_sample_size, log_mean_exp

__all__ = ["Bridge", "bridge", "refine_chains"]

# Below this share of effective draws on either side, q and the posterior hardly meet.
SMALLEST_OVERLAP = 0.05
ITERATIONS = 1000


@dataclass(frozen=True)
class Bridge:
    """A bridge estimate of log Z of one chain.

    ``variance`` is what the draws themselves predict; ``overlap`` is the smaller of the effective
    fractions of the draws from the posterior and from q, between 0 and 1.
    """

    log_evidence: float
    variance: float
    overlap: float
    components: int

    @property
    def trustworthy(self) -> bool:
        """Whether q and the posterior overlap enough."""
        return bool(np.isfinite(self.log_evidence) and self.overlap >= SMALLEST_OVERLAP)


def refine_chains(
    log_density: Callable[[np.ndarray], np.ndarray],
    clouds: Sequence[np.ndarray],
    generators: Sequence[np.random.Generator],
    score: Callable[[np.ndarray], np.ndarray | None] = lambda points: None,
) -> list[Bridge]:
    """Bridge each cloud with an approximation fitted to the others.

    Parameters
    ----------
    log_density
        log f, whose integral is Z.
    clouds
        Equally weighted draws of each chain, (size, dimension). A single one is cut in halves.
    generators
        One for each cloud.
    score
        The gradient of log f, or None where there is none.
    """
    if len(clouds) == 1:
        half = len(clouds[0]) // 2
        order = generators[0].permutation(len(clouds[0]))
        halves = [clouds[0][order[:half]], clouds[0][order[half:]]]
        two = refine_chains(log_density, halves, generators[0].spawn(2), score)
        return [
            Bridge(
                log_mean_exp(np.array([b.log_evidence for b in two])),
                # Given q, each is unbiased; that it lent its draws to the other's q makes the two
                # dependent in second order only.
                float(np.mean([b.variance for b in two])) / 2,
                min(b.overlap for b in two),
                max(b.components for b in two),
            )
        ]
    bridges = []
    for number, (cloud, rng) in enumerate(zip(clouds, generators, strict=True)):
        others = np.concatenate([c for k, c in enumerate(clouds) if k != number])
        bridges.append(bridge(log_density, cloud, fit(log_density, rng, others, score), rng))
    return bridges


def bridge(
    log_density: Callable[[np.ndarray], np.ndarray],
    cloud: np.ndarray,
    approximation: Approximation,
    rng: np.random.Generator,
) -> Bridge:
    """Estimate log Z by the optimal bridge between draws from the posterior and from q.

    With l = log f - log q, at N_1 posterior draws and N_2 draws from q, and
    s_k = N_k / (N_1 + N_2), r is iterated as the mean of e^l / (s_1 e^l + s_2 r) over q divided by
    the mean of 1 / (s_1 e^l + s_2 r) over the posterior.
    """
    first = log_density(cloud) - approximation.log_density(cloud)
    # More draws from q are cheap, and take its side of the error away.
    proposals = approximation.draw(rng, 2 * len(cloud))
    second = log_density(proposals) - approximation.log_density(proposals)
    first = first[np.isfinite(first)]
    second = np.where(np.isnan(second), -np.inf, second)
    if not len(first) or not np.isfinite(second).any():
        return Bridge(np.nan, np.inf, 0.0, approximation.components)
    share = np.log(len(first) / (len(first) + len(second)))
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
    overlaps = [effective_sample_size(n) / len(n) for n in (numerator, denominator)]
    # Relative variances of the two means (Fruehwirth-Schnatter, 2004).
    variance = sum((1 / o - 1) / len(n) for o, n in zip(overlaps, (second, first), strict=True))
    # How much of q's draws the posterior would accept, and the other way round.
    weights = effective_sample_size(second) / len(second)
    return Bridge(
        shift + log_ratio, float(variance), float(min(*overlaps, weights)), approximation.components
    )
