"""Moves that leave p_n invariant and need no tuning by the user.

Four kernels, each vectorised over particles:

* *blocks* of continuous coordinates by a preconditioned Crank-Nicolson step around a Student-t
  fitted to the cloud. It needs no gradient, and where the target is that Student-t it is an
  independent draw (Grumitt and others, 2022). Where variables are normal given others, the cloud
  is seen by their innovations too (:mod:`pymc_arm.models.noncentered`), in turn;
* larger blocks also by Hamiltonian dynamics, where that step is held up: its gradients find their
  way where a fitted covariance does not;
* *coordinates* that share no term, all at once, each accepted by itself (a colouring of the
  graph of terms finds the sets);
* *discrete* coordinates by Gibbs sampling over their values, again set by set.

Step sizes are drawn at random for each particle, and those that moved far are drawn more often the
next time (Buchholz, Chopin and Jacob, 2021). The sweep is repeated until the cloud has lost the
memory of where it started.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from pymc_arm.models.cloud import CrossFit, independent_halves
from pymc_arm.models.coloring import add_by_owner
from pymc_arm.models.support import Support

__all__ = ["Identity", "Kernel", "MoveTarget", "View"]

# Sweeps end when the mean squared correlation with the start is below this, or after the last.
MAX_AUTOCORRELATION = 0.05
LARGEST_REPEATS = 25
# Step sizes to choose from: from an independent draw to a small perturbation.
STEPS = np.array([1.0, 0.85, 0.7, 0.5, 0.35, 0.25, 0.17, 0.12, 0.08, 0.05])
SCALES = np.array([4.0, 2.4, 1.5, 0.8, 0.4, 0.2, 0.1])
# Discrete variables with more values than this move by a random walk.
LARGEST_ENUMERATION = 40
# Leapfrog steps, as multiples of d^(-1/4), and the length of a trajectory in whitened space.
LEAPS = np.array([1.4, 1.0, 0.7, 0.5, 0.35, 0.2, 0.1])
TRAJECTORY = 1.5
LARGEST_LEAPS = 12
# Hamiltonian moves cost ten times as much: they pay where the other goes less than this share of
# the way that an independent draw would go.
FAR_ENOUGH = 0.08
# A view of the cloud in which moves go less than this share of the best one's way is given up.
SMALLEST_SHARE = 0.3


class View(Protocol):
    """Other coordinates of the same points."""

    def forward(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
        """Return points in other coordinates z, and log |dx / dz|."""

    def inverse(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
        """Return the points that are seen so, and log |dx / dz|."""


class Identity:
    """Points in the coordinates that they have."""

    def forward(self, points: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the points."""
        return points, 0.0

    inverse = forward


@dataclass(frozen=True)
class MoveTarget:
    """The distribution to leave invariant, at one position of the path.

    ``log_density`` is the sum of the weighted terms; ``terms`` returns the terms of a selection,
    already weighted; ``gradient`` returns the log-density and its gradient, where it helps.
    """

    log_density: Callable[[np.ndarray], np.ndarray]
    terms: Callable[[np.ndarray, np.ndarray], np.ndarray]
    continuous: np.ndarray
    sets: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]
    discrete_sets: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]
    supports: dict[int, Support]
    gradient: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None
    #: How blocks are seen when they move; first of all as they are.
    views: Sequence[View] = (Identity(),)


@dataclass
class _Walk:
    """A Crank-Nicolson step in one view of the cloud, around the Student-t fitted to it.

    ``jump_fraction`` is how far its best step size went, as a share of an independent draw's way.
    """

    view: View
    student: CrossFit
    step_weights: np.ndarray = field(default_factory=lambda: np.ones(len(STEPS)) / len(STEPS))
    jump_fraction: float = 1.0


class Kernel:
    """Sweeps of the kernels over a cloud of particles."""

    def __init__(self, target: MoveTarget) -> None:
        self.target = target

    def run(self, rng: np.random.Generator, points: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the moved particles and the mean acceptance rate."""
        target = self.target
        moving = np.concatenate(
            [target.continuous, *(s[0] for s in target.discrete_sets), np.zeros(0, int)]
        ).astype(int)
        if not len(moving):
            return points, 1.0
        start = points
        points = points.copy()
        size = len(points)
        walks, log_density = self._fit(rng, points)
        student = walks[0].student if walks else None
        leap_weights = np.ones(len(LEAPS)) / len(LEAPS)
        scale_weights = [np.ones(len(SCALES)) / len(SCALES) for _ in target.sets]
        rates: list[float] = []
        for repeat in range(LARGEST_REPEATS):
            for walk in walks:
                points, log_density, rate = self._crank_nicolson(rng, points, log_density, walk)
                rates.append(rate)
            furthest = max((walk.jump_fraction for walk in walks), default=0.0)
            if student is not None and target.gradient is not None and furthest < FAR_ENOUGH:
                points, log_density, rates[-1], leap_weights = self._hamiltonian(
                    rng, points, student, leap_weights
                )
            walks = [walk for walk in walks if walk.jump_fraction >= SMALLEST_SHARE * furthest]
            for number, chosen in enumerate(target.sets):
                moved, change, rate, scale_weights[number] = self._coordinates(
                    rng, points, chosen, student, scale_weights[number]
                )
                points, log_density = self._confirm(points, log_density, moved, change)
                rates.append(rate)
            for chosen in target.discrete_sets:
                moved, change, rate = self._discrete(rng, points, chosen)
                points, log_density = self._confirm(points, log_density, moved, change)
                rates.append(rate)
            if (
                repeat
                and _autocorrelation(start[:, moving], points[:, moving])
                < MAX_AUTOCORRELATION + 4 / size
            ):
                break
        return points, float(np.mean(rates))

    def _fit(
        self, rng: np.random.Generator, points: np.ndarray
    ) -> tuple[list["_Walk"], np.ndarray]:
        """Fit the cloud in each view, and return the log-density at its points."""
        block = self.target.continuous
        if self.target.gradient is None:
            log_density, scores = self.target.log_density(points), None
        else:
            log_density, gradients = self.target.gradient(points)
            scores = gradients[:, block]
        if not len(block):
            return [], log_density
        halves = independent_halves(rng, points[:, block])
        walks = []
        for number, view in enumerate(self.target.views):
            seen = view.forward(points)[0][:, block]
            if number == 0 and scores is not None:  # they are of the coordinates as they are
                walks.append(_Walk(view, CrossFit(halves, seen, scores)))
                # In a funnel they say less than the points, if these are enough for correlations.
                if len(points) <= 4 * len(block):
                    continue
            walks.append(_Walk(view, CrossFit(halves, seen)))
        return walks, log_density

    def _crank_nicolson(
        self,
        rng: np.random.Generator,
        points: np.ndarray,
        log_density: np.ndarray,
        walk: "_Walk",
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Propose m + sqrt(1 - s^2) (x - m) + s sqrt(g) L e, reversible for the Student-t.

        The walk learns which step sizes go far.
        """
        block, view, student = self.target.continuous, walk.view, walk.student
        size, dimension = len(points), len(block)
        choice = rng.choice(len(STEPS), size=size, p=walk.step_weights)
        step = STEPS[choice]
        seen, log_scale = view.forward(points)
        current = student.whiten(seen[:, block])
        distance = (current**2).sum(axis=1)
        shape = 0.5 * (dimension + student.freedom)
        spread = 0.5 * (student.freedom + distance) / rng.gamma(shape, size=size)
        noise = np.sqrt(spread)[:, None] * rng.normal(size=(size, dimension))
        proposed = np.sqrt(1 - step**2)[:, None] * current + step[:, None] * noise
        trial = seen.copy()
        trial[:, block] = student.color(proposed)
        new_points, new_log_scale = view.inverse(trial)
        new_log_density = self.target.log_density(new_points)
        new_distance = (proposed**2).sum(axis=1)
        with np.errstate(invalid="ignore"):
            log_ratio = new_log_density - log_density
            log_ratio += shape * (np.log(student.freedom + new_distance))
            log_ratio -= shape * (np.log(student.freedom + distance))
            log_ratio += new_log_scale - log_scale
            probability = np.exp(np.minimum(log_ratio, 0.0))
        probability = np.nan_to_num(probability, nan=0.0)
        accepted = rng.random(size) < probability
        points[accepted] = new_points[accepted]
        log_density = np.where(accepted, new_log_density, log_density)
        jump = np.nan_to_num(probability * ((proposed - current) ** 2).sum(axis=1), nan=0.0)
        walk.step_weights, best = _learn(choice, jump, len(STEPS))
        walk.jump_fraction = best / max(2 * float(np.nanmean(distance)), 1e-12)
        return points, log_density, float(probability.mean())

    def _hamiltonian(
        self,
        rng: np.random.Generator,
        points: np.ndarray,
        student: CrossFit,
        leap_weights: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
        """Follow Hamilton's equations in the space where the fitted Student-t is round."""
        assert self.target.gradient is not None
        block = self.target.continuous
        size, dimension = len(points), len(block)
        choice = rng.choice(len(LEAPS), size=size, p=leap_weights)
        leaps = LEAPS * dimension**-0.25
        leap = leaps[choice][:, None]
        count = int(np.clip(round(TRAJECTORY / float(leaps @ leap_weights)), 1, LARGEST_LEAPS))
        current = place = student.whiten(points[:, block])
        log_density, gradients = self.target.gradient(points)
        momentum = rng.normal(size=(size, dimension))
        energy = 0.5 * (momentum**2).sum(axis=1) - log_density
        new_points, new_log_density = points.copy(), log_density
        with np.errstate(all="ignore"):  # a trajectory that diverges is not accepted
            momentum = momentum + 0.5 * leap * student.whiten_gradients(gradients[:, block])
            for number in range(count):
                place = place + leap * momentum
                new_points[:, block] = student.color(place)
                new_log_density, gradients = self.target.gradient(new_points)
                share = 0.5 if number == count - 1 else 1.0
                momentum = momentum + share * leap * student.whiten_gradients(gradients[:, block])
            change = energy - (0.5 * (momentum**2).sum(axis=1) - new_log_density)
            probability = np.nan_to_num(np.exp(np.minimum(change, 0.0)), nan=0.0)
            jump = np.nan_to_num(probability * ((place - current) ** 2).sum(axis=1), nan=0.0)
        accepted = rng.random(size) < probability
        points[accepted] = new_points[accepted]
        log_density = np.where(accepted, new_log_density, log_density)
        weights, _ = _learn(choice, jump, len(LEAPS))
        return points, log_density, float(probability.mean()), weights

    def _confirm(
        self, points: np.ndarray, log_density: np.ndarray, moved: np.ndarray, change: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Take back moves whose change of the density is not what the terms in scope say."""
        new_log_density = self.target.log_density(moved)
        with np.errstate(invalid="ignore"):
            gap = np.abs(new_log_density - log_density - change)
        confirmed = (gap < 1e-6 * (1 + np.abs(change))) | ~np.isfinite(log_density)
        if confirmed.all():
            return moved, new_log_density
        return (
            np.where(confirmed[:, None], moved, points),
            np.where(confirmed, new_log_density, log_density),
        )

    def _coordinates(
        self,
        rng: np.random.Generator,
        points: np.ndarray,
        chosen: tuple[np.ndarray, np.ndarray, np.ndarray],
        student: CrossFit | None,
        scale_weights: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
        """Move coordinates that share no term, each accepted by itself.

        Returns the particles, the change of the log-density by the terms in scope, the acceptance
        rate and the new weights of the scales.
        """
        coordinates, terms, owner = chosen
        assert student is not None
        place = np.searchsorted(self.target.continuous, coordinates)
        deviation = student.conditional_deviation[:, place]
        choice = rng.choice(len(SCALES), size=len(points), p=scale_weights)
        jump = (
            SCALES[choice][:, None] * deviation * rng.normal(size=(len(points), len(coordinates)))
        )
        new_points = points.copy()
        new_points[:, coordinates] += jump
        difference = _difference(self.target.terms, new_points, points, terms)
        log_ratio = add_by_owner(difference, owner, len(coordinates))
        probability = np.exp(np.minimum(log_ratio, 0.0))
        accepted = rng.random(probability.shape) < probability
        columns = np.where(accepted, new_points[:, coordinates], points[:, coordinates])
        points = points.copy()
        points[:, coordinates] = columns
        gain = (probability * (jump / deviation) ** 2).mean(axis=1)
        change = np.where(accepted, log_ratio, 0.0).sum(axis=1)
        weights, _ = _learn(choice, gain, len(SCALES))
        return points, change, float(probability.mean()), weights

    def _discrete(
        self,
        rng: np.random.Generator,
        points: np.ndarray,
        chosen: tuple[np.ndarray, np.ndarray, np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Draw discrete coordinates that share no term from their conditionals."""
        coordinates, terms, owner = chosen
        support = self.target.supports[int(coordinates[0])]
        values = support.values
        before = points[:, coordinates]
        points = points.copy()
        if support.finite and len(values) <= LARGEST_ENUMERATION:
            table = np.empty((len(values), len(points), len(coordinates)))
            trial = points.copy()
            for number, value in enumerate(values):
                trial[:, coordinates] = value
                table[number] = add_by_owner(
                    self.target.terms(trial, terms), owner, len(coordinates)
                )
            # Gumbel's trick draws from unnormalised log-probabilities.
            table = np.where(np.isnan(table), -np.inf, table)
            drawn = (table + rng.gumbel(size=table.shape)).argmax(axis=0)
            current = np.clip(np.rint(before - support.low), 0, len(values) - 1).astype(int)
            drawn = np.where(np.isfinite(table.max(axis=0)), drawn, current)
            points[:, coordinates] = values[drawn]
            with np.errstate(invalid="ignore"):
                gains = [np.take_along_axis(table, n[None], axis=0)[0] for n in (drawn, current)]
                change = np.nan_to_num(gains[0] - gains[1], nan=0.0).sum(axis=1)
        else:
            reach = np.maximum(np.rint(np.abs(rng.normal(size=before.shape)) * _spread(before)), 1)
            trial = points.copy()
            trial[:, coordinates] = before + reach * rng.choice([-1, 1], size=before.shape)
            low, high = support.low, support.high
            inside = (trial[:, coordinates] >= low) | (not support.bounded_below)
            inside &= (trial[:, coordinates] <= high) | (not support.bounded_above)
            trial[:, coordinates] = np.where(inside, trial[:, coordinates], before)
            difference = _difference(self.target.terms, trial, points, terms)
            log_ratio = add_by_owner(difference, owner, len(coordinates))
            accepted = inside & (np.log(rng.random(before.shape)) < log_ratio)
            points[:, coordinates] = np.where(accepted, trial[:, coordinates], before)
            change = np.where(accepted, log_ratio, 0.0).sum(axis=1)
        return points, change, float(np.mean(points[:, coordinates] != before))


def _difference(
    terms: Callable[[np.ndarray, np.ndarray], np.ndarray],
    after: np.ndarray,
    before: np.ndarray,
    selection: np.ndarray,
) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        difference = terms(after, selection) - terms(before, selection)
    # -inf on both sides: neither better nor worse.
    return np.where(np.isnan(difference), 0.0, difference)


def _learn(choice: np.ndarray, gain: np.ndarray, count: int) -> tuple[np.ndarray, float]:
    """Return new weights of the step sizes, all still possible, and the gain of the best."""
    used = np.bincount(choice, minlength=count)
    mean = np.bincount(choice, weights=gain, minlength=count) / np.maximum(used, 1)
    best = mean.max()
    if not best > 0:
        return np.ones(count) / count, 0.0
    weights = (mean / best) ** 4 + 0.01
    return weights / weights.sum(), float(best)


def _spread(values: np.ndarray) -> np.ndarray:
    return np.maximum(values.std(axis=0), 1.0)


def _autocorrelation(start: np.ndarray, now: np.ndarray) -> float:
    """Return the mean squared correlation between where particles were and where they are."""
    first = start - start.mean(axis=0)
    second = now - now.mean(axis=0)
    scale = np.sqrt((first**2).sum(axis=0) * (second**2).sum(axis=0))
    varied = scale > 0
    if not varied.any():
        return 0.0
    correlation = (first * second).sum(axis=0)[varied] / scale[varied]
    return float(np.mean(correlation**2))
