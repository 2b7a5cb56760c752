"""A second, more precise estimate of log Z, and draws, from the final particles of exploring.

The telescoping product carries the noise of every step. A density q fitted to the final cloud is
one short step away from the posterior, and the optimal bridge between the two
(:mod:`pymc_arm.estimation.bridge`) measures that step from both sides: the standard deviation of
log Z falls from a few tenths to a few thousandths. Each chain is judged with a q that was fitted to
the other chains, so that q never sees the draws it is judged on, and how well the two overlap says
whether to believe it. What is simple given the rest (labels, group effects) need not be known to q:
see :mod:`pymc_arm.estimation.spaces`.

Draws that judge one q have fitted another, which makes the bridges dependent. Where q is of the
right family, its error is linear in the draws it was fitted to, and the error of a bridge is
bilinear in those and in the draws that judge it: each pair of draws is counted twice, once in each
role, and the error of the mean over chains has twice the variance that independent bridges would
have. Hence the variance from the draws of the posterior is counted twice; that from the draws of q,
which are independent, is not. A q that was made without any draws
(:class:`~pymc_arm.estimation.spaces.HasDensity`) judges all of them, and nothing is counted twice.

Where q fits, draws of it are worth as much as particles, and cost one evaluation instead of a whole
path. So there are many of them, and the bridge comes close to importance sampling, with the
particles to guard the tails. The same draws, resampled by their weights f / q, represent the
posterior better than the particles do: they do not remember the path.

Where importance sampling and the bridge contradict each other and q reaches every particle, it is
the particles that are wrong (they have the wrong share of a mode, say), and importance sampling,
which does not use them, has the last word. So it has where a search found modes without particles:
they become components of q, and draws of that decide what they weigh.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pymc_arm.algorithm.path import join, select
from pymc_arm.algorithm.resampling import log_mean_exp, log_sum_exp, multinomial, normalize
from pymc_arm.estimation.approximation import Approximation, Combined, fit
from pymc_arm.estimation.bridge import Bridge, bridge, importance, sides_differ
from pymc_arm.estimation.modes import Mode
from pymc_arm.estimation.spaces import HasDensity, RefinementSpace

__all__ = ["refine_chains"]

# A space in which they overlap more than this is good enough: many draws of q make up for the rest.
GOOD_OVERLAP = 0.7
# Below this overlap a q with a component at each mode is tried too. Where chains had 0 to 50 % of
# their particles in a mode of 90 %, q without it had 0.003 to 0.08, and its bridge was 0.2 too low.
FAIR_OVERLAP = 0.4
# Draws of q for each particle that show how well they overlap; if so, there will be more.
FIRST_PROPOSALS = 2
TRIAL_PARTICLES = 200
# Larger coordinates have squares that overflow when they are summed.
LARGEST = 1e100
# A mode with a smaller share of Z than this, by draws of q, needs no repair: it would move log Z by
# as much, and Laplace's method was off by a factor of five.
NEGLIGIBLE_SHARE = 0.01
# A q hardly gains from more draws than this, and many chains have many more.
MOST_FITTED = 10_000
MOST_FITTED_PER_DIMENSION = 1000

# Calls a function with 0, 1, ..., of so many numbers, and returns what it returns.
MapFunction = Callable[[Callable[[int], Bridge], int], list[Bridge]]


def refine_chains(
    spaces: Sequence[RefinementSpace],
    clouds: Sequence[Any],
    generators: Sequence[np.random.Generator],
    founders: Sequence[np.ndarray],
    map_fn: MapFunction | None = None,
    modes: Sequence[Mode] = (),
    log_evidence: float = 0.0,
) -> list[Bridge]:
    """Bridge each cloud with an approximation fitted to the others, and draw through that.

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
    map_fn
        Calls a function of the number of a cloud for each of so many: by default one after another.
    modes
        Modes that a search has found in the first of the spaces.
    log_evidence
        The exploring estimate, to which the masses of modes are compared.
    """
    if len(clouds) == 1:
        # Families stay together, so that the halves are independent.
        (own,) = founders
        order = np.argsort(generators[0].permutation(own.max() + 1)[own], kind="stable")
        parts = np.split(order, [len(order) // 2])
        halves = [select(clouds[0], part) for part in parts]
        families = [own[part] for part in parts]
        two = refine_chains(
            spaces, halves, generators[0].spawn(2), families, map_fn, modes, log_evidence
        )
        return [_join_halves(two)]
    some = _thin(clouds, *spaces[0].points(clouds[0]).shape)
    space = _choose(spaces, clouds[0], some[1:], generators[0]) if len(spaces) > 1 else spaces[0]

    searched = _Modes(tuple(modes), log_evidence)

    def refine(number: int) -> Bridge:
        others = join([c for k, c in enumerate(some) if k != number])
        rng, own = generators[number], founders[number]
        found = _fit_and_bridge(space, clouds[number], others, rng, own)
        if not isinstance(space, HasDensity):
            found = replace(found, variance=found.variance + found.cloud_variance)
        return _with_modes(spaces[0], found, clouds[number], others, rng, own, searched)

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


def _join_halves(two: Sequence[Bridge]) -> Bridge:
    """Return one bridge for the halves of a single cloud."""
    drawn = [b.particles for b in two]
    return Bridge(
        log_mean_exp(np.array([b.log_evidence for b in two])),
        float(np.mean([b.variance for b in two])) / 2,
        float(np.mean([b.cloud_variance for b in two])) / 2,
        min(b.overlap for b in two),
        max(b.components for b in two),
        bridge_k=max(b.bridge_k for b in two),
        weight_k=max(b.weight_k for b in two),
        effective_draws=sum(b.effective_draws for b in two),
        unreached=max(b.unreached for b in two),
        method=two[0].method if two[0].method == two[1].method else "bridge",
        modes_share=float(np.mean([b.modes_share for b in two])),
        particles=None if any(part is None for part in drawn) else join(drawn),
    )


@dataclass
class _Proposals:
    """Draws of q in parts: their log-weights, and some of them resampled by weight.

    A draw of a later part takes the place of one that was picked earlier with the probability that
    its part has in the sum so far, so that the parts need not be kept.
    """

    space: RefinementSpace
    approximation: Approximation
    rng: np.random.Generator
    size: int
    log_weights: list[np.ndarray] = field(default_factory=list)
    picked: Any = None
    log_sum: float = -np.inf

    def draw(self, count: int) -> None:
        """Draw a part, weigh it, and pick from it."""
        points = self.approximation.draw(self.rng, count)
        particles, log_ratio = self.space.draw_particles(self.rng, points)
        weights = log_ratio - self.approximation.log_density(points)
        weights = np.where(np.isfinite(weights), weights, -np.inf)
        self.log_weights.append(weights)
        part = log_sum_exp(weights)
        if particles is None or not np.isfinite(part):
            return
        self.log_sum = float(np.logaddexp(self.log_sum, part))
        replaced = np.flatnonzero(self.rng.random(self.size) < np.exp(part - self.log_sum))
        chosen = particles[multinomial(self.rng, normalize(weights), len(replaced))]
        if self.picked is None:
            self.picked = chosen
        else:
            self.picked[replaced] = chosen

    @property
    def all_log_weights(self) -> np.ndarray:
        """Those of all parts."""
        return np.concatenate(self.log_weights)


@dataclass(frozen=True)
class _Modes:
    """Modes that a search has found, and log Z as exploring has it."""

    modes: tuple[Mode, ...]
    log_evidence: float

    @property
    def any_missed(self) -> bool:
        """Whether particles lack at one of them."""
        return any(mode.missed for mode in self.modes)

    def added_to(self, approximation: Approximation) -> Combined:
        """Return a density with a component at each mode."""
        return Combined.of(
            [approximation, *(mode.component for mode in self.modes)],
            [self.log_evidence, *(mode.log_mass for mode in self.modes)],
        )


def _with_modes(
    space: RefinementSpace,
    found: Bridge,
    cloud: Any,
    others: Any,
    rng: np.random.Generator,
    founders: np.ndarray,
    searched: _Modes,
) -> Bridge:
    """Return a bridge from a q with modes in it, where the one without them does not do.

    If particles have missed a mode, draws of q alone decide what it weighs. If they have not, but q
    can't stand for the posterior, a component at each mode may be what it lacks.
    """
    if searched.any_missed:
        weighed = _weigh_modes(space, others, rng, len(founders), searched)
        if not weighed.trustworthy:
            # What only lacks particles is in the q that was fitted to them.
            starved = any(mode.starved for mode in searched.modes)
            return found if starved else replace(found, modes_share=0.0)
        # q of another space may lack what this one has.
        if weighed.modes_share >= NEGLIGIBLE_SHARE or sides_differ(found, weighed):
            return weighed
        return replace(found, modes_share=weighed.modes_share)
    good = found.represents(len(founders)) and found.overlap > FAIR_OVERLAP
    if good or not searched.modes:
        return found
    again = _fit_and_bridge(space, cloud, others, rng, founders, searched)
    again = replace(again, variance=again.variance + again.cloud_variance)
    return again if again.trustworthy and again.overlap > found.overlap else found


def _weigh_modes(
    space: RefinementSpace, others: Any, rng: np.random.Generator, size: int, searched: _Modes
) -> Bridge:
    """Estimate log Z by importance sampling from a q with a component at each mode."""
    space = space.fit_to(others)
    if _overflows(space.points(others)):
        return Bridge(np.nan, np.inf, np.inf, 0.0, 1)
    combined = searched.added_to(_fit(space, others, rng))
    # What the components hold that q would not have had without them.
    trial = combined.draw(rng, FIRST_PROPOSALS * size)
    weights = space.draw_log_ratio(rng, trial) - combined.log_density(trial)
    weights = np.where(np.isfinite(weights), weights, -np.inf)
    if not np.isfinite(weights).any():
        return importance(weights, combined.components)
    share = float(np.exp(normalize(weights)) @ combined.share_of_others(trial))
    proposals = _Proposals(space, combined, rng, size)
    for _ in range(space.proposals // FIRST_PROPOSALS):
        proposals.draw(FIRST_PROPOSALS * size)
    found = importance(proposals.all_log_weights, combined.components)
    found = replace(found, modes_share=share)
    return replace(found, particles=proposals.picked) if found.represents(size) else found


def _overflows(points: np.ndarray) -> bool:
    """Whether squares of points overflow: exploring has failed, and there is nothing to fit."""
    return not bool((np.abs(points) < LARGEST).all())


def _fit(space: RefinementSpace, others: Any, rng: np.random.Generator) -> Approximation:
    """Fit a density to points of a space, unless it has one."""
    if isinstance(space, HasDensity):
        return space.known_density

    def log_density(points: np.ndarray) -> np.ndarray:
        return space.draw_log_ratio(rng, points)

    return fit(log_density, rng, space.points(others), space.score)


def _fit_and_bridge(
    space: RefinementSpace,
    cloud: Any,
    others: Any,
    rng: np.random.Generator,
    founders: np.ndarray | None = None,
    searched: _Modes | None = None,
) -> Bridge:
    space = space.fit_to(others)
    if _overflows(space.points(others)):
        return Bridge(np.nan, np.inf, np.inf, 0.0, 1)
    approximation = _fit(space, others, rng)
    if searched is not None:
        approximation = searched.added_to(approximation)
    points = space.points(cloud)
    size = len(points)
    at_draws = space.log_ratio(cloud) - approximation.log_density(points)
    proposals = _Proposals(space, approximation, rng, size)
    proposals.draw(FIRST_PROPOSALS * size)
    few = bridge(at_draws, proposals.all_log_weights, approximation.components, founders)
    rounds = space.proposals // FIRST_PROPOSALS
    if not few.trustworthy:
        return few
    # In parts, so that they need no more memory than the first.
    for _ in range(rounds - 1):
        proposals.draw(FIRST_PROPOSALS * size)
    weights = proposals.all_log_weights
    found = bridge(at_draws, weights, approximation.components, founders)
    weighted = importance(weights, approximation.components)
    # Where q was given modes, how many particles are in each of them is what is in doubt.
    doubted = searched is not None or sides_differ(found, weighted)
    if doubted and found.represents(size) and weighted.represents(size):
        found = replace(weighted, bridge_k=found.bridge_k)
    # How well they overlap must not depend on how often q was asked: rare draws would dominate.
    found = replace(found, overlap=few.overlap)
    return replace(found, particles=proposals.picked) if found.represents(size) else found
