"""Coordinates that are independent given few others are integrated out, all of them at once.

Group effects, missing values, latent scales: given the parameters of their distribution, the
posterior of each is one-dimensional, and a sum over a few nodes is its integral. What is left are
the parameters, for which a reference is easily fitted: 130 coordinates become two.

The nodes of a coordinate lie around its conditional mean. For a smooth density the sum over equally
spaced nodes is exact to many digits, even if they are a standard deviation apart; beyond the last
node it goes on as a geometric series, which an exponential tail is. Whether all that holds is
checked with twice as many nodes, and against the adaptive integrals of
:mod:`pymc_arm.models.marginal`, which are slower and take nothing for granted.

The gradient in the parameters is the conditional mean of that of the joint density, by the same
nodes. Groups with the same data are integrated once (:mod:`twins`).
"""

from dataclasses import dataclass

import numpy as np
import scipy

from pymc_arm.errors import PathError
from pymc_arm.models.density import LogDensity
from pymc_arm.models.marginal import MarginalSpace
from pymc_arm.models.path import GenericPath
from pymc_arm.models.reference.collapsed import CollapsedTarget, Focus, Integrals
from pymc_arm.models.reference.twins import GroupTerms, are_twins, find_twins, merge_twins

__all__ = ["GroupTarget", "find_groups", "find_independent"]

# Groups are worth their integrals from so many on, if no more of the others than this are left. An
# evaluation takes 30 times as many terms: with 44 parameters left, an item response model of 100
# persons took minutes, and 15 s with all coordinates together.
FEWEST, LARGEST_LEFT, MOST_LEFT = 4, 0.3, 12
# Nodes that look for a conditional, in units of its width so far, and those that integrate it, in
# standard deviations: the ends have e^-32 of a normal density, and e^-8 of an exponential one. For
# the logarithm of an exponential variable the first spacing is off by 3e-6, and for that of a
# truncated normal one by 1e-4, of which 128 groups make 0.01: then the second is taken. The
# gradient takes every second node.
LOOK = np.linspace(-4, 4, 9)
SURVEY = np.concatenate([-np.logspace(10, -3, 27), [0.0], np.logspace(-3, 10, 27)])
SPACINGS = 0.5, 0.25
END = 8.0
SLOPE_NODES = slice(0, None, 2)
# How often the first may be moved and scaled, and when they are well placed. Where they never are,
# the density counts as zero: that is far from the data, where digits are lost.
LOOKS = 12
LARGEST_SHIFT, WIDTHS = 1.0, (0.6, 1.6)
# Relative to the largest value; less is nothing.
LOG_ZERO = -80.0
# A tail must fall by this much from one node to the next to have a finite sum.
SMALLEST_FALL = 0.05
# Points of a finer grid between two nodes, from which values are drawn.
BETWEEN = 8
# How far log f may be from that with twice as many nodes, in nats, and at how many points.
TOLERANCE, CHECKED = 0.002, 40
# How far it may be from adaptive integrals, beside so many standard errors of these: they are drawn
# from, so many times, and noisy (0.1 for 128 groups). Those that begin where prior draws are find
# what lies beyond the nodes: a second peak with 1 % of each of twelve conditionals made log Z 0.09
# low, with verdict "ok".
LARGEST_DIFFERENCE, DRAWN, ERRORS, PRIOR_DRAWS = 0.01, 4, 4.0, 500


def find_groups(path: GenericPath) -> np.ndarray:
    """Return coordinates that are independent given the others, if few are left; else none.

    Coordinates with many neighbours are kept first: they are the parameters.
    """
    chosen, dimension = find_independent(path), path.plan.layout.dimension
    left = dimension - len(chosen)
    most = min(max(2, LARGEST_LEFT * dimension), MOST_LEFT)
    few = len(chosen) >= FEWEST and 0 < left <= most
    return chosen if few else np.zeros(0, dtype=int)


def find_independent(path: GenericPath) -> np.ndarray:
    """Return coordinates that are independent given the others; none where there are no terms."""
    layout, scopes = path.plan.layout, path.plan.scopes
    if layout.discrete.any() or layout.dimension < FEWEST + 1:
        return np.zeros(0, dtype=int)
    if not isinstance(path.density, LogDensity):  # sums have no single terms
        return np.zeros(0, dtype=int)
    terms = scopes.astype(np.float32)
    neighbours = (terms.T @ terms) > 0
    np.fill_diagonal(neighbours, False)
    chosen = np.zeros(layout.dimension, dtype=bool)
    for coordinate in np.argsort(neighbours.sum(axis=1), kind="stable"):
        chosen[coordinate] = not (neighbours[coordinate] & chosen).any()
    chosen &= terms.any(axis=0)
    return np.flatnonzero(chosen)


def _agree(values: np.ndarray, drawn: np.ndarray) -> bool:
    """Whether values agree with others that are drawn, (times, size), within their noise."""
    differences, noise, error = _compare(values, drawn)
    if not len(differences):
        return False
    together = abs(np.median(differences)) < LARGEST_DIFFERENCE + ERRORS * error
    # The median of an absolute normal error is two thirds of its standard deviation.
    return bool(together and np.median(np.abs(differences)) < LARGEST_DIFFERENCE + noise)


def _is_more(values: np.ndarray, drawn: np.ndarray) -> bool:
    """Whether there is mass that the values lack: those that are drawn may lack some too."""
    differences, _, error = _compare(values, drawn)
    return bool(len(differences) and np.median(differences) > LARGEST_DIFFERENCE + ERRORS * error)


def _compare(values: np.ndarray, drawn: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Return differences, their noise, and the standard error of their median."""
    spread = np.std(drawn, axis=0, ddof=1)
    known = np.isfinite(values) & np.isfinite(spread)
    if not np.any(known):
        return np.zeros(0), np.nan, np.nan
    noise = float(np.sqrt(np.mean(spread[known] ** 2) / len(drawn)))
    # The standard deviation of a median is 1.25 times that of a mean.
    return (drawn.mean(axis=0) - values)[known], noise, 1.25 * noise / np.sqrt(known.sum())


@dataclass(frozen=True)
class _Quadrature:
    """Of each row: the integral over all groups, and mean, width and values at the nodes of each.

    ``log_values`` are (size, nodes, groups), relative to the largest; of groups with the same data
    there is one.
    """

    log_mass: np.ndarray
    nodes: np.ndarray
    means: np.ndarray
    widths: np.ndarray
    log_values: np.ndarray

    def shares(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return every second node, and the share of the mass that it stands for."""
        places, log_values = self.nodes[SLOPE_NODES], self.log_values[rows][:, SLOPE_NODES]
        shares = np.exp(log_values)
        shares /= shares.sum(axis=1, keepdims=True)
        return self.means[rows][:, None] + places[:, None] * self.widths[rows][:, None], shares


class GroupTarget(CollapsedTarget):
    """The density of the parameters, with groups integrated out.

    Parameters
    ----------
    path
        The path of a model without discrete variables whose gradient is available.
    collapsed
        The coordinates that are integrated, from :func:`find_groups`.
    focus
        Where they are, if that is known already.
    """

    def __init__(
        self, path: GenericPath, collapsed: np.ndarray, focus: Focus | None = None
    ) -> None:
        everyone = GroupTerms.of(path.density, path.plan.scopes[:, collapsed])
        twins = find_twins(everyone, collapsed)
        groups = merge_twins(everyone, twins)
        super().__init__(path, collapsed, groups, collapsed[groups.first])
        self._everyone, self._twins, self.focus = everyone, twins, focus
        self._set_spacing(SPACINGS[0] if focus is None else focus.spacing)

    def complete(self, rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
        """Draw the groups given the parameters, from a cubic through the logs at the nodes."""
        points = points.copy()
        for part in self._parts(points, BETWEEN):
            found = self._integrate(points[part])
            twin = self._groups.twin
            fine = np.exp(np.einsum("fk,pkj->pfj", self._finer, found.log_values))[:, :, twin]
            steps = 0.5 * (fine[:, 1:] + fine[:, :-1])
            sums = np.concatenate([0 * steps[:, :1], np.cumsum(steps, axis=1)], axis=1)
            wanted = rng.random((len(sums), 1, sums.shape[2])) * sums[:, -1:]
            cell = np.minimum((sums[:, 1:] < wanted).sum(axis=1), steps.shape[1] - 1)[:, None]
            before, step = (np.take_along_axis(a, cell, axis=1)[:, 0] for a in (sums, steps))
            share = (wanted[:, 0] - before) / np.maximum(step, 1e-300)
            place = self._nodes[0] + self._spacing / BETWEEN * (cell[:, 0] + share)
            points[part][:, self.collapsed] = found.means[:, twin] + place * found.widths[:, twin]
        return points

    def look_around(self, points: np.ndarray) -> None:
        """Learn where the conditionals are from points with all coordinates."""
        found = [self._integrate(points[part]) for part in self._parts(points)]
        means, widths, log_mass = (
            np.concatenate([getattr(each, name) for each in found])
            for name in ("means", "widths", "log_mass")
        )
        good = np.isfinite(log_mass)
        parameters = points[good][:, self.kept]
        if len(parameters) < 3 * (1 + parameters.shape[1]):
            return
        center = parameters.mean(axis=0)
        design = np.column_stack([np.ones(len(parameters)), parameters - center])
        both = np.concatenate([means[good], np.log(widths[good])], axis=1)
        fitted = np.linalg.lstsq(design, both, rcond=None)[0]
        if np.isfinite(fitted).all():
            means, log_widths = np.split(fitted, 2, axis=1)
            self.focus = Focus(center, means, log_widths, self._spacing)

    def check(self, points: np.ndarray) -> None:
        """Compare with twice as many nodes, and with nodes that take nothing for granted.

        Raises
        ------
        PathError
            If the two differ.
        """
        points = points[:CHECKED]
        path = self.path
        drawn = self.complete(np.random.default_rng(0), points)
        merged = self._groups is not self._everyone
        if merged and not are_twins(self._everyone, self.collapsed, self._twins, drawn):
            raise PathError("Groups that seemed to have the same data differ.")
        space = MarginalSpace(path.plan, path.density, {}, path.log_normalizer, self.collapsed)
        near = self._draw_adaptive(space.fit_to(drawn), points)
        prior = path.initialize(np.random.default_rng(2), PRIOR_DRAWS)[0]
        wide = self._draw_adaptive(space.fit_to(prior), points)
        for spacing in SPACINGS:
            self._set_spacing(0.5 * spacing)
            finer = self.log_density(points)
            self._set_spacing(spacing)
            error = np.abs(self.log_density(points) - finer)
            if np.quantile(error, 0.9) < TOLERANCE:
                if _agree(finer, near) and not _is_more(finer, wide):
                    return
                break
        names = {self.path.plan.layout.slot_of(int(c)).name for c in self.collapsed}
        raise PathError(f"Integrals over {', '.join(sorted(names))} are not smooth enough.")

    def _draw_adaptive(self, space: MarginalSpace, points: np.ndarray) -> np.ndarray:
        """Return log f by adaptive integrals, (times, size), each time with other draws."""
        rng, parameters = np.random.default_rng(1), points[:, self.kept]
        return np.stack([space.draw_log_ratio(rng, parameters) for _ in range(DRAWN)])

    def _set_spacing(self, spacing: float) -> None:
        self._spacing = spacing
        self._nodes = nodes = np.arange(-END, END + 0.5 * spacing, spacing)
        # Takes values at nodes to those of a cubic through them, (fine, nodes).
        fine = np.linspace(nodes[0], nodes[-1], BETWEEN * (len(nodes) - 1) + 1)
        self._finer = scipy.interpolate.CubicSpline(nodes, np.eye(len(nodes)))(fine)

    @property
    def _node_count(self) -> int:
        return len(self._nodes)

    def _integrals(self, points: np.ndarray) -> Integrals:
        return self._integrate(points)

    def _integrate(self, points: np.ndarray) -> _Quadrature:
        means, widths, lost = self._find(points)
        table = self._table(points, means, widths, self._nodes)
        with np.errstate(all="ignore"):
            largest = table.max(axis=1)
            log_values = np.maximum(table - largest[:, None], LOG_ZERO)
            total = np.exp(log_values).sum(axis=1)
            for end, inner in ((0, 1), (-1, -2)):
                fall = np.maximum(log_values[:, inner] - log_values[:, end], SMALLEST_FALL)
                total += np.exp(log_values[:, end]) / np.expm1(fall)
            log_mass = largest + np.log(total * self._spacing * widths)
            log_mass = (self._groups.times * log_mass).sum(axis=1)
            log_mass[np.isnan(log_mass) | lost] = -np.inf
        return _Quadrature(log_mass, self._nodes, means, widths, log_values)

    def _find(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return conditional means and widths, and where they were not found."""
        if self.focus is None:
            means, widths = self._survey(points)
        else:
            means, widths = self.focus(points[:, self.kept])
        rows = np.arange(len(points))
        for _ in range(LOOKS):
            place, scale = means[rows], widths[rows]
            shift, ratio = self._look(points[rows], place, scale)
            means[rows], widths[rows] = place + shift * scale, ratio * scale
            near = (np.abs(shift) < LARGEST_SHIFT) & (ratio > WIDTHS[0]) & (ratio < WIDTHS[1])
            rows = rows[~near.all(axis=1)]
            if not len(rows):
                break
        return means, widths, np.isin(np.arange(len(points)), rows)

    def _survey(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the best of places of all sizes, and about how far the next ones are."""
        nothing = np.zeros((len(points), len(self._columns)))
        table = self._table(points, nothing, nothing + 1.0, SURVEY)
        means = SURVEY[np.argmax(np.nan_to_num(table, nan=-np.inf), axis=1)]
        return means, np.maximum(0.5 * np.abs(means), SURVEY[len(SURVEY) // 2 + 1])

    def _look(
        self, points: np.ndarray, means: np.ndarray, widths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return how far the means are off, and by which factor the widths, in their units."""
        table = self._table(points, means, widths, LOOK)
        with np.errstate(all="ignore"):
            weights = np.exp(table - table.max(axis=1, keepdims=True))
            weights = np.nan_to_num(weights / weights.sum(axis=1, keepdims=True), nan=0.0)
            shift = np.einsum("pkj,k->pj", weights, LOOK)
            square = np.einsum("pkj,k->pj", weights, LOOK**2) - shift**2
        ratio = np.sqrt(np.maximum(square, 0.0))
        # A conditional narrower than the spacing shows at one node; one at an end is further out.
        at_end = np.abs(shift) > 3.0
        ratio = np.where(at_end, 2.0, np.clip(ratio, 0.2, 3.0))
        # None of the nodes is possible: look nearer, where the parameters were drawn from.
        lost = weights.sum(axis=1) == 0
        return np.where(lost, 0.0, shift), np.where(lost, 0.5, ratio)

    def _table(
        self, points: np.ndarray, means: np.ndarray, widths: np.ndarray, nodes: np.ndarray
    ) -> np.ndarray:
        """Return the log-density of each group at its nodes, (size, nodes, groups)."""
        values = means[:, None] + nodes[:, None] * widths[:, None]
        return self._groups.table(points, self._columns, values)
