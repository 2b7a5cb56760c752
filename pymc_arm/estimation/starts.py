"""Where the optimisations (climbs) of the search for modes begin.

A climb ends at the mode in whose basin it began, and the basin of a narrow mode is small. So many
points are looked at and few are climbed from: prior draws that stand out, and the maxima along
lines through the particles, on which modes of exchangeable coordinates lie.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

__all__ = ["Survey", "climbs_afforded", "find_starts", "recombine", "survey_size"]

LogDensity = Callable[[np.ndarray], np.ndarray]

# How many points each kind of start has. With 32 a mode that draws one climb in sixteen is found
# with a probability of 0.87, with 16 of 0.64. Neither finds narrow modes whose climbs all lead to a
# wider one: of six modes in five dimensions both missed two. The cost, by counting evaluations and
# not by measuring, is some 3 % of exploring where there is a gradient.
PRIOR_STARTS = 32
CLOUD_STARTS = 8
FEWEST_STARTS = 4
# Some start outside of where prior draws lie, some between particles and the prior.
WIDER = 3.0
# Where an evaluation is cheap there are more climbs, from as many prior draws as from particles
# drawn towards their middle: a narrow mode inside of a wide one is nearer to it than they are. So
# many elements may be computed for them, by climbs of so many evaluations.
CLIMBED = 10_000_000
EVALUATIONS = 240
MOST_CLIMBS = 1000
# Of the prior draws that are looked at, so many are climbed from: the highest, and those that are
# highest above a normal density with the moments of the particles.
OUTSTANDING = 16
# Elements that may be computed to look at prior draws, some 50 ms, and the most draws.
SURVEYED = 5_000_000
MOST_DRAWS = 50_000
# They are looked at as they are, and drawn towards the middle of the prior by these factors: modes
# lie inside of a vague prior, and in ten dimensions hardly any of its draws do.
NEARER = (1.0, 0.5, 0.25)
# Particles are taken for a normal density a little wider than they are: with an error of 1 % of its
# width it is 8 nats too low at 40 standard deviations, where prior draws may be.
WIDENED = 1.05
# With so many prior draws, all of them are looked at by each factor.
PLENTY = 10_000
# Points on a line, how many lines there may be, and how many of their maxima are climbed from.
ON_A_LINE = 256
MOST_LINES = 64
MOST_MAXIMA = 96


def survey_size(work: int | None) -> int:
    """Return how many prior draws to look at, if an evaluation computes so many elements.

    Examples
    --------
    >>> survey_size(20), survey_size(5_000), survey_size(None)
    (50000, 1000, 32)
    """
    if work is None:
        return PRIOR_STARTS
    return int(np.clip(SURVEYED // max(work, 1), PRIOR_STARTS, MOST_DRAWS))


@dataclass(frozen=True)
class Survey:
    """Points that were looked at: their heights, and those that what is known would give them.

    Attributes
    ----------
    points
        Prior draws, some of them drawn towards the middle.
    heights
        The log-density there.
    explained
        The logarithm of what the particles and the modes that are known would have there.
    groups
        Which of the factors they were drawn to the middle by.
    """

    points: np.ndarray
    heights: np.ndarray
    explained: np.ndarray
    groups: np.ndarray

    @classmethod
    def of(
        cls, prior: np.ndarray, particles: np.ndarray, log_density: LogDensity, log_evidence: float
    ) -> "Survey":
        """Look at prior draws; particles are taken for a normal distribution."""
        prior = prior[np.isfinite(prior).all(axis=1)]
        prior = prior if len(prior) > PRIOR_STARTS else prior[:0]
        middle = np.median(prior, axis=0) if len(prior) else np.zeros(prior.shape[1])
        # Where an evaluation is dear there are few draws, and each is looked at once.
        every = 1 if len(prior) >= PLENTY else len(NEARER)
        parts = [
            middle + factor * (prior[number % every :: every] - middle)
            for number, factor in enumerate(NEARER)
        ]
        points = np.concatenate(parts)
        groups = np.repeat(np.arange(len(NEARER)), [len(part) for part in parts])
        heights = log_density(points) if len(points) else np.zeros(0)
        finite = np.isfinite(heights)
        points, heights, groups = points[finite], heights[finite], groups[finite]
        scale = np.maximum(WIDENED * particles.std(axis=0), 1e-300)
        centered = (points - particles.mean(axis=0)) / scale
        explained = -0.5 * np.square(centered).sum(axis=1) - np.log(scale).sum()
        explained += log_evidence - 0.5 * points.shape[1] * np.log(2 * np.pi)
        return cls(points, heights, explained, groups)

    def outstanding(self, most: int = MOST_CLIMBS) -> np.ndarray:
        """Return the points that are highest, and those that what is known explains least.

        About ``most`` of them, if that is few.
        """
        each = int(np.clip(most // (1 + len(NEARER)), FEWEST_STARTS, OUTSTANDING))
        ranks = [np.argsort(-self.heights)[:each]]
        unexplained = self.unexplained
        for group in range(len(NEARER)):
            own = np.flatnonzero(self.groups == group)
            ranks.append(own[np.argsort(-unexplained[own])[:each]])
        outstanding: np.ndarray = self.points[np.unique(np.concatenate(ranks))]
        return outstanding

    @property
    def unexplained(self) -> np.ndarray:
        """How far the density is above what is known of it."""
        above: np.ndarray = self.heights - self.explained
        return above

    def explain(self, log_mass: float, mode: np.ndarray, precision: np.ndarray) -> "Survey":
        """Return the survey with one more normal mode known."""
        centered = self.points - mode
        squared = np.einsum("si,si->s", centered @ precision, centered)
        own = log_mass + 0.5 * np.linalg.slogdet(precision)[1] - 0.5 * squared
        own -= 0.5 * len(mode) * np.log(2 * np.pi)
        return replace(self, explained=np.logaddexp(self.explained, own))


def climbs_afforded(work: int | None) -> int:
    """Return how many climbs may be added, if an evaluation computes so many elements.

    Examples
    --------
    >>> climbs_afforded(20), climbs_afforded(5_000), climbs_afforded(None)
    (1000, 8, 0)
    """
    if work is None:
        return 0
    return int(min(MOST_CLIMBS, CLIMBED // (EVALUATIONS * max(work, 1))))


def recombine(modes: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Return points with some coordinates of one mode, and the others of another one.

    Where coordinates have two places each, there are 2^d modes, and each is such a point.

    Parameters
    ----------
    modes
        Their places, (number, dimension), the highest first.
    most
        How many points there may be.
    rng
        For the choice of coordinates.
    """
    count, dimension = modes.shape
    pairs = [(one, other) for one in range(count) for other in range(count) if one != other]
    single = [(one, other, place) for one, other in pairs for place in range(dimension)]
    points = []
    for one, other, place in single[: most // 2]:
        point = modes[one].copy()
        point[place] = modes[other, place]
        points.append(point)
    # Half of them by single coordinates, the rest by coin.
    for number in rng.integers(max(len(pairs), 1), size=most - len(points)) if pairs else ():
        one, other = pairs[number]
        points.append(np.where(rng.random(dimension) < 0.5, modes[one], modes[other]))
    return np.array(points).reshape(-1, dimension)


def find_starts(
    prior: np.ndarray,
    points: np.ndarray,
    log_density: LogDensity,
    rng: np.random.Generator,
    share: float = 1.0,
    work: int | None = None,
) -> np.ndarray:
    """Return where climbs begin.

    Parameters
    ----------
    prior
        Prior draws, of which the first are climbed from and all are looked at.
    points
        The final particles of all chains.
    log_density
        Its logarithm at points, minus infinity where it is zero.
    rng
        For the choice of particles.
    share
        How many climbs there may be, as a share of what a cheap density gets.
    work
        How many elements an evaluation computes, where that is known.
    """
    prior_starts, cloud_starts = (
        max(FEWEST_STARTS, round(share * count)) for count in (PRIOR_STARTS, CLOUD_STARTS)
    )
    prior = prior[np.isfinite(prior).all(axis=1)]
    chosen = points[rng.permutation(len(points))[:cloud_starts]]
    center = np.median(points, axis=0)
    some = points[:: max(1, len(points) // 1000)]
    best = some[np.argsort(log_density(some))[-2:]]
    parts = [chosen, best, points.mean(axis=0)[None], center[None]]
    if len(prior):
        first = prior[:prior_starts]
        middle = first.mean(axis=0)
        # A mode in the tails of the prior has no particles either.
        parts += [first, WIDER * (first - middle) + middle]
    # Beyond the particles, at a few times their width.
    parts.append(center + WIDER * (chosen - center))
    more = climbs_afforded(work)
    if more > prior_starts:
        parts.append(prior[prior_starts:more])
        inward = points[rng.integers(len(points), size=more)] - center
        parts.append(center + rng.uniform(size=(more, 1)) * inward)
    if len(prior) > PRIOR_STARTS:
        inside = np.stack([best[-1], center])
        lines = _lines(prior, inside[np.argmax(log_density(inside))])
        if lines.shape[0] * lines.shape[1] <= len(prior):
            parts.append(_maxima(lines, log_density))
    starts = np.concatenate(parts)
    usable: np.ndarray = starts[np.isfinite(log_density(starts))]
    return usable if len(usable) else chosen


def _lines(prior: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """Return points on lines, (lines, points, dimension), over the range of the prior.

    They are: the curve on which all coordinates have the same quantile of the prior, a line through
    the origin and the middle of the prior, and one along each coordinate.
    """
    levels = (np.arange(ON_A_LINE) + 0.5) / ON_A_LINE
    quantiles = np.quantile(prior, levels, axis=0)
    middle = quantiles[ON_A_LINE // 2]
    away = np.linspace(-2.0, 2.0, ON_A_LINE)[:, None] * (middle - origin)
    lines = [quantiles, middle + away]
    if len(origin) <= MOST_LINES:
        for place in range(len(origin)):
            line = np.tile(origin, (ON_A_LINE, 1))
            line[:, place] = quantiles[:, place]
            lines.append(line)
    return np.stack(lines)


def _maxima(lines: np.ndarray, log_density: LogDensity) -> np.ndarray:
    """Return the highest maxima along lines."""
    heights = log_density(lines.reshape(-1, lines.shape[-1])).reshape(lines.shape[:2])
    inner = heights[:, 1:-1]
    peaks = (inner > heights[:, :-2]) & (inner >= heights[:, 2:]) & np.isfinite(inner)
    line, place = np.nonzero(peaks)
    order = np.argsort(-inner[line, place])[:MOST_MAXIMA]
    maxima: np.ndarray = lines[line[order], place[order] + 1]
    return maxima
