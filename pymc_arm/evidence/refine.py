"""A second, sharper estimate of log Z from the particles that exploring leaves behind.

The telescoping product carries the noise of every step. A density q fitted to the final cloud is
one short step away from the posterior, and the optimal bridge between the two (Meng and Wong, 1996)
measures that step from both sides: the standard deviation of log Z falls from a few tenths to a
few thousandths. Each chain is judged with a q that was fitted to the other chains, so that q never
sees the draws it is judged on, and how well the two overlap says whether to believe it. What is
simple given the rest (labels, group effects) need not be known to q: see
:mod:`pymc_arm.evidence.spaces`.

Draws that judge one q have fitted another, which makes the bridges dependent. Where q is of the
right family, its error is linear in the draws it was fitted to, and the error of a bridge is
bilinear in those and in the draws that judge it: each pair of draws is counted twice, once in each
role, and the error of the mean over chains has twice the variance that independent bridges would
have. Hence the variance from the draws of the posterior is counted twice; that from the draws of q,
which are independent, is not.

Where q fits, draws of it are worth as much as particles, and cost one evaluation instead of a whole
path. So there are many of them, and the bridge comes close to importance sampling, with the
particles to guard the tails.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_arm.algorithm.path import join, select
from pymc_arm.algorithm.resampling import effective_share, log_mean_exp
from pymc_arm.evidence.approximation import fit
from pymc_arm.evidence.spaces import RefinementSpace

__all__ = ["Bridge", "bridge", "refine_chains"]

# Below this share of effective draws on either side, q and the posterior hardly meet.
SMALLEST_OVERLAP = 0.05
# A space in which they overlap more than this is good enough: many draws of q make up for the rest.
GOOD_OVERLAP = 0.7
# Draws of q for each particle that show how well they overlap; if so, there will be more.
FIRST_PROPOSALS = 2
TRIAL_PARTICLES = 200
ITERATIONS = 1000
# A q hardly gains from more draws than this, and many chains have many more.
MOST_FITTED = 10_000
MOST_FITTED_PER_DIMENSION = 1000

# Calls a function with 0, 1, ..., of so many numbers, and returns what it returns.
MapFunction = Callable[[Callable[[int], "Bridge"], int], list["Bridge"]]


@dataclass(frozen=True)
class Bridge:
    """A bridge estimate of log Z of one chain.

    ``variance`` is what the draws themselves predict, and ``cloud_variance`` the part of it that
    comes from the draws of the posterior; ``overlap`` is the smaller of the effective fractions of
    the draws from the posterior and from q, between 0 and 1.
    """

    log_evidence: float
    variance: float
    cloud_variance: float
    overlap: float
    components: int

    @property
    def trustworthy(self) -> bool:
        """Whether q and the posterior overlap enough."""
        return bool(np.isfinite(self.log_evidence) and self.overlap >= SMALLEST_OVERLAP)


def refine_chains(
    spaces: Sequence[RefinementSpace],
    clouds: Sequence[Any],
    generators: Sequence[np.random.Generator],
    founders: Sequence[np.ndarray],
    map_fn: MapFunction | None = None,
) -> list[Bridge]:
    """Bridge each cloud with an approximation fitted to the others.

    Parameters
    ----------
    spaces
        Where q may be fitted, the simplest first. The first in which it overlaps well is taken.
    clouds
        Equally weighted particles of each chain. A single set is cut in halves.
    generators
        One for each cloud.
    founders
        For each cloud, which particles descend from the same one: they may be alike.
    each
        Calls a function of the number of a cloud for each of so many: by default one after another.
    """
    if len(clouds) == 1:
        # Families stay together, so that the halves are independent.
        (own,) = founders
        order = np.argsort(generators[0].permutation(own.max() + 1)[own], kind="stable")
        parts = np.split(order, [len(order) // 2])
        halves, kin = [select(clouds[0], part) for part in parts], [own[part] for part in parts]
        two = refine_chains(spaces, halves, generators[0].spawn(2), kin, map_fn)
        return [
            Bridge(
                log_mean_exp(np.array([b.log_evidence for b in two])),
                float(np.mean([b.variance for b in two])) / 2,
                float(np.mean([b.cloud_variance for b in two])) / 2,
                min(b.overlap for b in two),
                max(b.components for b in two),
            )
        ]
    some = _thin(clouds, *spaces[0].points(clouds[0]).shape)
    space = _choose(spaces, clouds[0], some[1:], generators[0]) if len(spaces) > 1 else spaces[0]

    def refine(number: int) -> Bridge:
        others = join([c for k, c in enumerate(some) if k != number])
        rng, own = generators[number], founders[number]
        found = _fit_and_bridge(space, clouds[number], others, rng, own)
        return replace(found, variance=found.variance + found.cloud_variance)

    return (
        [refine(n) for n in range(len(clouds))] if map_fn is None else map_fn(refine, len(clouds))
    )


def _thin(clouds: Sequence[Any], size: int, dimension: int) -> list[Any]:
    """Return as much of each cloud as a q is fitted to."""
    most = max(MOST_FITTED, MOST_FITTED_PER_DIMENSION * dimension) // (len(clouds) - 1)
    if size <= most:
        return list(clouds)
    return [select(cloud, np.linspace(0, size - 1, most).astype(int)) for cloud in clouds]


def _choose(
    spaces: Sequence[RefinementSpace], cloud: Any, others: list[Any], rng: np.random.Generator
) -> RefinementSpace:
    """Return the first space in which a trial bridge overlaps well, or the one where it does best.

    The trial takes a part of the first cloud, and does not look at log Z.
    """
    rng, joined = rng.spawn(1)[0], join(others)
    part = rng.permutation(len(spaces[0].points(cloud)))[:TRIAL_PARTICLES]
    best, largest = spaces[0], -1.0
    for space in spaces:
        overlap = _fit_and_bridge(space, select(cloud, part), joined, rng).overlap
        if overlap > largest:
            best, largest = space, overlap
        if overlap > GOOD_OVERLAP:
            break
    return best


def _fit_and_bridge(
    space: RefinementSpace,
    cloud: Any,
    others: Any,
    rng: np.random.Generator,
    founders: np.ndarray | None = None,
) -> Bridge:
    space = space.fit_to(others)

    def log_density(points: np.ndarray) -> np.ndarray:
        return space.draw_log_ratio(rng, points)

    approximation = fit(log_density, rng, space.points(others), space.score)
    points = space.points(cloud)
    at_draws = space.log_ratio(cloud) - approximation.log_density(points)

    first = approximation.draw(rng, FIRST_PROPOSALS * len(points))
    at_proposals = [log_density(first) - approximation.log_density(first)]
    few = bridge(at_draws, at_proposals[0], approximation.components, founders)
    rounds = space.proposals // FIRST_PROPOSALS
    if not few.trustworthy or rounds == 1:
        return few
    # In parts, so that they need no more memory than the first.
    for _ in range(rounds - 1):
        more = approximation.draw(rng, len(first))
        at_proposals.append(log_density(more) - approximation.log_density(more))
    many = bridge(at_draws, np.concatenate(at_proposals), approximation.components, founders)
    # How well they overlap must not depend on how often q was asked: rare draws would dominate.
    return replace(many, overlap=few.overlap)


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
    second = np.where(np.isnan(second), -np.inf, second)
    if not np.isfinite(first).any() or not np.isfinite(second).any():
        return Bridge(np.nan, np.inf, np.inf, 0.0, components)
    worth = len(first) ** 2 / float((np.bincount(founders) ** 2.0).sum())
    share = np.log(worth / (worth + len(second)))
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
    # Relative variances of the two means (Fruehwirth-Schnatter, 2004).
    overlaps = [effective_share(n) for n in (numerator, denominator)]
    proposal_variance, cloud_variance = (
        (1 / overlap - 1) / len(draws)
        for overlap, draws in zip(overlaps, (second, first), strict=True)
    )
    cloud_variance = max(cloud_variance, _family_variance(denominator, founders))
    # How much of q's draws the posterior would accept, and the other way round.
    return Bridge(
        shift + log_ratio,
        float(proposal_variance + cloud_variance),
        float(cloud_variance),
        float(min(*overlaps, effective_share(second))),
        components,
    )


def _family_variance(log_values: np.ndarray, founders: np.ndarray) -> float:
    """Return the relative variance of a mean, with the values of one family as one draw."""
    values = np.exp(log_values - log_mean_exp(log_values)) - 1
    sums = np.bincount(founders, weights=values)
    return float(sums @ sums) / len(values) ** 2
