"""Coordinates seen through the quantiles of their priors, where these have tails.

The logarithm of a scale with a half-Cauchy prior has exponential tails; that of a Gamma(0.01, 0.01)
has one that is 100 wide. Where the data say nothing the posterior has the same tails, and no
Student-t fits them. Let F be the distribution function of the prior of a coordinate x, and Phi that
of a standard normal: z = Phi^-1(F(x)) is normal under the prior, so that the tails of the posterior
are those of a normal or lighter, if the likelihood is bounded. Where the data say much, z is nearly
linear in x over the width of the posterior, and nothing is lost.

F is integrated numerically, and x = T(z) is a cubic spline through it. Its own derivative is the
Jacobian, so that T need not be exact: a poor one costs effort, and log Z is the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy

from pymc_arm.models.coloring import add_by_owner
from pymc_arm.models.path import GenericPath

__all__ = ["Quantiles", "find_quantiles"]

# Draws that tell where a prior is, and how wide.
PRIOR_DRAWS = 200
# The first look at a prior reaches e^40 half widths to each side of its middle, at so many points,
# dense in the middle: the tails of a Cauchy distribution end there.
REACH, FIRST_POINTS = 40.0, 2001
# Nodes of the spline, in z; at the ends is 1e-12 of the prior, and beyond them T is linear.
NODES = np.linspace(-7.0, 7.0, 141)
# Points between which z differs by more than this are halved, so many times at most; then the nodes
# themselves are added, twice.
CLOSE, HALVINGS, LOOKS = 0.1, 30, 2
# The largest factor between slopes of T, for |z| < 2.5, up to which a prior counts as normal.
LINEAR = 20.0
# The log-density at both ends must have fallen by this: an improper prior has no quantiles.
FALL = 20.0
# The log of what counts as no density at all.
LOG_ZERO = -1e4
# Where priors are compared, in half widths.
LIKE = np.array([-1.7, -0.6, 0.3, 1.1])


@dataclass(frozen=True)
class Quantiles:
    """Maps T of some coordinates; coordinates of the same prior share one.

    ``coefficients`` are those of the cubics, highest power first, (4, intervals, maps); ``place``
    is the map of each coordinate.
    """

    coordinates: np.ndarray
    place: np.ndarray
    coefficients: np.ndarray

    def __call__(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return x, log dx / dz, and the derivative of that; all are (size, coordinates)."""
        step = NODES[1] - NODES[0]
        inside = np.clip(np.nan_to_num(z, nan=0.0), NODES[0], NODES[-1])
        cell = np.minimum(((inside - NODES[0]) / step).astype(int), len(NODES) - 2)
        t = inside - NODES[cell]
        a, b, c, d = self.coefficients[:, cell, self.place]
        slope = (3 * a * t + 2 * b) * t + c
        x = ((a * t + b) * t + c) * t + d + slope * (z - inside)
        curvature = np.where(z == inside, (6 * a * t + 2 * b) / slope, 0.0)
        return x, np.log(slope), curvature

    def inverse(self, x: np.ndarray) -> np.ndarray:
        """Return z, by bisection for the cell and by Newton's method within it."""
        z = np.empty(x.shape)
        for number in range(self.coefficients.shape[2]):
            mine = self.place == number
            a, b, c, d = self.coefficients[..., number]
            own = np.clip(np.nan_to_num(x[:, mine], nan=0.0), -1e300, 1e300)
            step = NODES[1] - NODES[0]
            ends = np.append(d, ((a[-1] * step + b[-1]) * step + c[-1]) * step + d[-1])
            cell = np.clip(np.searchsorted(ends, own) - 1, 0, len(NODES) - 2)
            t = step * (own - ends[cell]) / (ends[cell + 1] - ends[cell])
            for _ in range(8):  # the cells are short: the cubic is nearly a line
                value = ((a[cell] * t + b[cell]) * t + c[cell]) * t + d[cell] - own
                t = t - value / ((3 * a[cell] * t + 2 * b[cell]) * t + c[cell])
                t = np.clip(t, 0.0, step)
            found = NODES[cell] + t
            low, high = own < ends[0], own > ends[-1]
            found = np.where(low, NODES[0] + (own - ends[0]) / c[0], found)
            last = (3 * a[-1] * step + 2 * b[-1]) * step + c[-1]
            z[:, mine] = np.where(high, NODES[-1] + (own - ends[-1]) / last, found)
        return z


def find_quantiles(path: GenericPath, coordinates: np.ndarray) -> Quantiles | None:
    """Return maps for those coordinates whose prior hangs on nothing else, and is not normal.

    Parameters
    ----------
    path
        The path of the model.
    coordinates
        Those that are looked at.
    """
    chosen, owners, terms = _alone(path, coordinates)
    rng, layout = np.random.default_rng(0), path.plan.layout
    prior = layout.ravel(path.prior.draw(rng, PRIOR_DRAWS), PRIOR_DRAWS)
    prior = prior[np.isfinite(prior).all(axis=1)]
    if not len(chosen) or not len(prior):
        return None
    low, middle, high = np.quantile(prior[:, chosen], [0.16, 0.5, 0.84], axis=0)
    half = np.maximum(0.5 * (high - low), 1e-8)

    def log_prior(values: np.ndarray, some: np.ndarray) -> np.ndarray:
        """Return the log-priors of some of the chosen at values, (points, some)."""
        points = np.tile(prior[:1], (len(values), 1))
        points[:, chosen[some]] = values
        mine = np.isin(owners, some)
        owner = np.searchsorted(some, owners[mine])
        with np.errstate(all="ignore"):
            return add_by_owner(path.density.terms(points, terms[mine]), owner, len(some))

    # Coordinates of the same prior have the same values at the same points.
    every = np.arange(len(chosen))
    places = np.concatenate([[-1.3, 0.4, 1.7], np.median(middle) + np.median(half) * LIKE])
    values = log_prior(np.tile(places[:, None], len(every)), every)
    _, first, place = np.unique(np.round(values, 9), axis=1, return_index=True, return_inverse=True)
    place = place.ravel()
    splines = []
    for k in first:
        alike = place == place[k]
        at, width = float(np.median(middle[alike])), float(np.median(half[alike]))
        splines.append(_spline(partial(_single, log_prior, k), at, width))
    good = np.array([spline is not None for spline in splines])
    if not good.any():
        return None
    coefficients = np.stack([s for s in splines if s is not None], axis=2)
    kept = good[place]
    return Quantiles(chosen[kept], (np.cumsum(good) - 1)[place[kept]], coefficients)


def _single(
    log_prior: Callable[[np.ndarray, np.ndarray], np.ndarray], number: int, x: np.ndarray
) -> np.ndarray:
    """Return the log-prior of one of the coordinates at points."""
    return log_prior(x[:, None], np.array([number]))[:, 0]


def _alone(path: GenericPath, coordinates: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the coordinates whose prior terms depend on nothing else, and these by owner."""
    layout, scopes, offsets = path.plan.layout, path.plan.scopes, path.density.offsets
    chosen: list[int] = []
    owners: list[int] = []
    terms: list[int] = []
    for number, slot in enumerate(layout.slots):
        rows = np.arange(offsets[number], offsets[number + 1])
        own = scopes[rows]
        if slot.discrete or not len(rows):
            continue
        alone = own.sum(axis=1) == 1
        owner = own.argmax(axis=1)
        for coordinate in range(slot.start, slot.start + slot.size):
            mine = own[:, coordinate]
            if coordinate in coordinates and mine.any() and alone[mine].all():
                owners += [len(chosen)] * int(mine.sum())
                terms += rows[mine & (owner == coordinate)].tolist()
                chosen.append(coordinate)
    return np.array(chosen, dtype=int), np.array(owners, dtype=int), np.array(terms, dtype=int)


def _spline(
    log_prior: Callable[[np.ndarray], np.ndarray], middle: float, half: float
) -> np.ndarray | None:
    """Return the coefficients of T, or None if it is a line, or there is none."""
    x = middle + half * np.sinh(np.linspace(-REACH, REACH, FIRST_POINTS))
    values = log_prior(x)
    z = _normal_scores(x, values)
    for _ in range(HALVINGS):
        if z is None:
            return None
        far = np.diff(np.clip(z, NODES[0] - 1, NODES[-1] + 1)) > CLOSE
        if not far.any():
            break
        more = 0.5 * (x[1:] + x[:-1])[far]
        x, values = _insert(x, values, more, log_prior(more))
        z = _normal_scores(x, values)
    for _ in range(LOOKS):
        if z is None:
            return None
        usable = np.isfinite(z)
        usable[1:] &= z[1:] > z[:-1]
        if usable.sum() < 3 or z[usable][0] > NODES[0] or z[usable][-1] < NODES[-1]:
            return None
        nodes = np.interp(NODES, z[usable], x[usable])
        x, values = _insert(x, values, nodes, log_prior(nodes))
        z = _normal_scores(x, values)
    spline = scipy.interpolate.CubicSpline(NODES, nodes)
    fine = np.linspace(NODES[0], NODES[-1], 8 * len(NODES))
    slopes = spline(fine, 1)
    if not (np.isfinite(slopes).all() and (slopes > 0).all()):
        return None
    inner = slopes[np.abs(fine) < 2.5]
    return None if inner.max() < LINEAR * inner.min() else spline.c


def _insert(
    x: np.ndarray, values: np.ndarray, more: np.ndarray, log_density: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return points and values with some more, in order."""
    together, first = np.unique(np.concatenate([x, more]), return_index=True)
    return together, np.concatenate([values, log_density])[first]


def _normal_scores(x: np.ndarray, log_density: np.ndarray) -> np.ndarray | None:
    """Return z at points, from sums over log-linear pieces; None if the density has no end."""
    if not np.isfinite(log_density).any():
        return None
    values = np.where(log_density < np.inf, log_density, -np.inf)
    values = np.maximum(values - np.max(values), LOG_ZERO)
    if max(values[0], values[-1]) > -FALL:
        return None
    fall = np.maximum(np.abs(np.diff(values)), 1e-9)
    pieces = np.maximum(values[1:], values[:-1]) + np.log(-np.expm1(-fall) / fall * np.diff(x))
    below = np.append(-np.inf, np.logaddexp.accumulate(pieces))
    above = np.append(np.logaddexp.accumulate(pieces[::-1])[::-1], -np.inf)
    below, above = below - below[-1], above - above[0]
    ndtri_exp = scipy.special.ndtri_exp
    return np.where(below < above, ndtri_exp(below), -ndtri_exp(above))
