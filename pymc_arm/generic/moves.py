"""Moves that leave p_n invariant and need no tuning by the user.

Three kernels, each vectorised over particles:

* *blocks* of continuous coordinates by a preconditioned Crank-Nicolson step around a Student-t
  fitted to the cloud. It needs no gradient, and where the target is that Student-t it is an
  independent draw (Grumitt and others, 2022);
* *coordinates* that share no term, all at once, each accepted by itself (a colouring of the
  graph of terms finds the sets);
* *discrete* coordinates by Gibbs sampling over their values, again set by set.

Step sizes are drawn at random for each particle, and those that moved far are drawn more often the
next time (Buchholz, Chopin and Jacob, 2021). The sweep is repeated until the cloud has lost the
memory of where it started.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pymc_arm.generic.support import Support

__all__ = ["Kernel", "MoveTarget", "color_coordinates"]

# Sweeps end when the mean squared correlation with the start is below this, or after the last.
FORGOTTEN = 0.05
LARGEST_REPEATS = 25
# Step sizes to choose from: from an independent draw to a small perturbation.
STEPS = np.array([1.0, 0.85, 0.7, 0.5, 0.35, 0.25, 0.17, 0.12, 0.08, 0.05])
SCALES = np.array([4.0, 2.4, 1.5, 0.8, 0.4, 0.2, 0.1])
# A block of more coordinates than this is also moved in parts.
LARGEST_ENUMERATION = 40


@dataclass(frozen=True)
class MoveTarget:
    """The distribution to leave invariant, at one position of the path.

    ``log_density`` is the sum of the weighted terms; ``terms`` returns the terms of a selection,
    already weighted.
    """

    log_density: Callable[[np.ndarray], np.ndarray]
    terms: Callable[[np.ndarray, np.ndarray], np.ndarray]
    continuous: np.ndarray
    sets: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]
    discrete_sets: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]
    supports: dict[int, Support]


class Kernel:
    """Sweeps of the three kernels over a cloud of particles."""

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
        log_density = target.log_density(points)
        student = _CrossFit(rng, points[:, target.continuous]) if len(target.continuous) else None
        step_weights = np.ones(len(STEPS)) / len(STEPS)
        scale_weights = [np.ones(len(SCALES)) / len(SCALES) for _ in target.sets]
        rates: list[float] = []
        for repeat in range(LARGEST_REPEATS):
            if student is not None:
                points, log_density, rate, step_weights = self._crank_nicolson(
                    rng, points, log_density, student, step_weights
                )
                rates.append(rate)
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
            if repeat and _memory(start[:, moving], points[:, moving]) < FORGOTTEN + 4 / size:
                break
        return points, float(np.mean(rates))

    def _crank_nicolson(
        self,
        rng: np.random.Generator,
        points: np.ndarray,
        log_density: np.ndarray,
        student: "_CrossFit",
        step_weights: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
        """Propose m + sqrt(1 - s^2) (x - m) + s sqrt(g) L e, reversible for the Student-t."""
        block = self.target.continuous
        size, dimension = len(points), len(block)
        choice = rng.choice(len(STEPS), size=size, p=step_weights)
        step = STEPS[choice]
        current = student.whiten(points[:, block])
        distance = (current**2).sum(axis=1)
        shape = 0.5 * (dimension + student.freedom)
        spread = 0.5 * (student.freedom + distance) / rng.gamma(shape, size=size)
        noise = np.sqrt(spread)[:, None] * rng.normal(size=(size, dimension))
        proposed = np.sqrt(1 - step**2)[:, None] * current + step[:, None] * noise
        new_points = points.copy()
        new_points[:, block] = student.color(proposed)
        new_log_density = self.target.log_density(new_points)
        new_distance = (proposed**2).sum(axis=1)
        log_ratio = new_log_density - log_density
        log_ratio += shape * (np.log(student.freedom + new_distance))
        log_ratio -= shape * (np.log(student.freedom + distance))
        with np.errstate(invalid="ignore"):
            probability = np.exp(np.minimum(log_ratio, 0.0))
        probability = np.nan_to_num(probability, nan=0.0)
        accepted = rng.random(size) < probability
        points[accepted] = new_points[accepted]
        log_density = np.where(accepted, new_log_density, log_density)
        jump = probability * ((proposed - current) ** 2).sum(axis=1)
        weights = _learn(choice, jump, len(STEPS))
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
        student: "_CrossFit | None",
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
        log_ratio = _add_by_owner(difference, owner, len(coordinates))
        probability = np.exp(np.minimum(log_ratio, 0.0))
        accepted = rng.random(probability.shape) < probability
        columns = np.where(accepted, new_points[:, coordinates], points[:, coordinates])
        points = points.copy()
        points[:, coordinates] = columns
        gain = (probability * (jump / deviation) ** 2).mean(axis=1)
        change = np.where(accepted, log_ratio, 0.0).sum(axis=1)
        return points, change, float(probability.mean()), _learn(choice, gain, len(SCALES))

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
                table[number] = _add_by_owner(
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
            log_ratio = _add_by_owner(difference, owner, len(coordinates))
            accepted = inside & (np.log(rng.random(before.shape)) < log_ratio)
            points[:, coordinates] = np.where(accepted, trial[:, coordinates], before)
            change = np.where(accepted, log_ratio, 0.0).sum(axis=1)
        return points, change, float(np.mean(points[:, coordinates] != before))


@dataclass(frozen=True)
class _Student:
    """A multivariate Student-t fitted to a cloud."""

    mean: np.ndarray
    factor: np.ndarray
    inverse_factor: np.ndarray
    freedom: float
    conditional_deviation: np.ndarray

    @classmethod
    def fit(cls, points: np.ndarray) -> "_Student":
        """Fit by moments, with a covariance that is never singular."""
        dimension = points.shape[1]
        finite = points[np.isfinite(points).all(axis=1)]
        points = finite if len(finite) > 1 else np.zeros((2, dimension))
        mean = points.mean(axis=0)
        centered = points - mean
        covariance = centered.T @ centered / max(len(points) - 1, 1)
        variances = np.diag(covariance).copy()
        variances = np.maximum(variances, 1e-12 * max(float(variances.max()), 1e-12))
        # Few particles can't tell correlations: shrink towards none.
        shrinkage = min(1.0, (dimension + 1) / (len(points) + dimension + 1))
        covariance = (1 - shrinkage) * covariance + shrinkage * np.diag(variances)
        covariance[np.diag_indices(dimension)] += 1e-9 * variances
        factor = np.linalg.cholesky(covariance)
        inverse_factor = np.linalg.inv(factor)
        distances = ((centered @ inverse_factor.T) ** 2).sum(axis=1)
        # The kurtosis of the distances tells the degrees of freedom.
        kurtosis = float((distances**2).mean() / (dimension * (dimension + 2)))
        freedom = float(np.clip(4 + 2 / max(kurtosis - 1, 1e-2), 4.5, 100.0))
        shape = np.sqrt((freedom - 2) / freedom)
        deviation = 1 / np.sqrt((inverse_factor**2).sum(axis=0))
        return cls(mean, factor * shape, inverse_factor / shape, freedom, deviation)


class _CrossFit:
    """Two Student-t, each fitted to one half of the cloud and used to move the other.

    A kernel fitted to the very particles that it moves is not invariant, and log Z drifts: by 0.3
    for a Gaussian in 20 dimensions with 1000 particles.
    """

    def __init__(self, rng: np.random.Generator, points: np.ndarray) -> None:
        size, dimension = points.shape
        halves = _independent_halves(rng, points)
        self._parts = [
            (mine, _Student.fit(points[other]))
            for mine, other in zip(halves, halves[::-1], strict=True)
        ]
        self.freedom = np.empty(size)
        self.conditional_deviation = np.empty((size, dimension))
        for mine, student in self._parts:
            self.freedom[mine] = student.freedom
            self.conditional_deviation[mine] = student.conditional_deviation

    def whiten(self, points: np.ndarray) -> np.ndarray:
        """Return L^-1 (x - m)."""
        result = np.empty_like(points)
        for mine, student in self._parts:
            result[mine] = (points[mine] - student.mean) @ student.inverse_factor.T
        return result

    def color(self, points: np.ndarray) -> np.ndarray:
        """Return m + L x."""
        result = np.empty_like(points)
        for mine, student in self._parts:
            result[mine] = student.mean + points[mine] @ student.factor.T
        return result


def _independent_halves(rng: np.random.Generator, points: np.ndarray) -> list[np.ndarray]:
    """Divide particles at random (residual resampling sorts them), with copies kept together."""
    size = len(points)
    _, number = np.unique(points[:, 0], return_inverse=True)
    groups = int(number.max()) + 1
    if size < 4 or groups < 4:
        return [np.arange(size)]
    # Groups in random order, cut where half of the particles are reached.
    order = rng.permutation(groups)
    counts = np.bincount(number)[order]
    cut = int(np.searchsorted(np.cumsum(counts), size / 2)) + 1
    cut = min(max(cut, 1), groups - 1)
    first = np.isin(number, order[:cut])
    return [np.flatnonzero(first), np.flatnonzero(~first)]


def color_coordinates(
    coordinates: np.ndarray, scopes: np.ndarray, group: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Divide coordinates into sets that share no term.

    Returns for each set the coordinates, the terms that depend on them, and for each term the
    place of its coordinate in the set. Only coordinates of the same ``group`` go together.
    """
    sets: list[tuple[list[int], np.ndarray, int]] = []
    for coordinate in coordinates:
        mine = scopes[:, coordinate]
        for members, taken, kind in sets:
            if kind == group[coordinate] and not (taken & mine).any():
                members.append(int(coordinate))
                taken |= mine
                break
        else:
            sets.append(([int(coordinate)], mine.copy(), int(group[coordinate])))
    result = []
    for members, taken, _ in sets:
        terms = np.flatnonzero(taken)
        owner = scopes[np.ix_(terms, np.array(members))].argmax(axis=1)
        result.append((np.array(members), terms, owner))
    return result


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


def _add_by_owner(terms: np.ndarray, owner: np.ndarray, count: int) -> np.ndarray:
    """Add up the terms of each coordinate."""
    if len(owner) == count and np.array_equal(owner, np.arange(count)):
        return terms
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], np.arange(count))
    return np.add.reduceat(terms[:, order], starts, axis=1)


def _learn(choice: np.ndarray, gain: np.ndarray, count: int) -> np.ndarray:
    """Return new weights of the step sizes: in proportion to their gain, all still possible."""
    used = np.bincount(choice, minlength=count)
    mean = np.bincount(choice, weights=gain, minlength=count) / np.maximum(used, 1)
    best = mean.max()
    if not best > 0:
        return np.ones(count) / count
    weights = (mean / best) ** 4 + 0.01
    return weights / weights.sum()


def _spread(values: np.ndarray) -> np.ndarray:
    return np.maximum(values.std(axis=0), 1.0)


def _memory(start: np.ndarray, now: np.ndarray) -> float:
    """Return the mean squared correlation between where particles were and where they are."""
    first = start - start.mean(axis=0)
    second = now - now.mean(axis=0)
    scale = np.sqrt((first**2).sum(axis=0) * (second**2).sum(axis=0))
    varied = scale > 0
    if not varied.any():
        return 0.0
    correlation = (first * second).sum(axis=0)[varied] / scale[varied]
    return float(np.mean(correlation**2))
