"""Whether the particles have moved far enough: the largest correlation with the start.

Correlations with the start are taken of each coordinate, of collective directions (the leading
principal components), of the log-density and of the distance from the centre, each as it is, where
tails decide, and cut at its quantiles, where the bulk does. A cloud that still drifts has not
arrived, whatever it remembers: with some power of the likelihood that a few more dimensions of a
funnel balance, particles find the way into its narrow end sweep by sweep. And particles in the
tails must not stand where they stood.
"""

import numpy as np

from pymc_arm.models.moves.student import LARGEST

__all__ = ["Decorrelation"]

# Principal components that are looked at: collective variables such as the magnetisation of spins
# or the level of a field are the first; and rounds of subspace iteration that find them.
COMPONENTS, ROUNDS = 5, 3
# Where a summary is cut for its bulk, and which share of the particles are its tails: of 300
# particles 30, enough to tell a share of a third from one of a tenth.
CUT, TAIL = 0.1, 0.1
# A mean drifts if it has changed by so many standard errors since half as many sweeps (of forty
# means that do not, the largest change is beyond 3.5 in one of fifty cases, which costs a sweep);
# the change in standard deviations counts so many times as a correlation.
CLEAR, DRIFT = 3.5, 5.0


class Decorrelation:
    """What is left of the start of a cloud, from zero (nothing) to one (all of it).

    Parameters
    ----------
    points, log_density
        The cloud at its start.
    moving
        The coordinates that move.
    """

    def __init__(self, points: np.ndarray, log_density: np.ndarray, moving: np.ndarray) -> None:
        self._moving = moving
        self._first = _finite(points[:, moving])
        self._center = self._first.mean(axis=0)
        deviation = self._first.std(axis=0)
        self._scale = 1 / np.where(deviation > 0, deviation, 1.0)
        self._directions = _leading_directions((self._first - self._center) * self._scale)
        start = self._summaries(points, log_density)
        self._low, self._high = np.quantile(start, [CUT, 1 - CUT], axis=0)
        self._start = self._with_bulk(start)
        self._count, self._half, self._next = 0, self._start, self._start
        # The last two summaries are of whole particles: those far out in either are the tails.
        far = [np.argsort(column)[-int(np.ceil(TAIL * len(points))) :] for column in start.T[-2:]]
        self._tails = np.unique(np.concatenate(far))

    def worst(self, points: np.ndarray, log_density: np.ndarray) -> float:
        """Return the largest memory after one more sweep."""
        now = self._with_bulk(self._summaries(points, log_density))
        self._count += 1
        if self._count & (self._count - 1) == 0:  # a power of two
            self._half, self._next = self._next, now
        first, second = self._start - self._start.mean(axis=0), now - now.mean(axis=0)
        scale = np.sqrt((first**2).mean(axis=0)) * np.sqrt((second**2).mean(axis=0))
        varied = scale > 0
        correlation = np.abs((first * second).mean(axis=0)[varied] / scale[varied])
        change = (now - self._half)[:, varied]
        shift = np.abs(change.mean(axis=0))
        clear = shift > CLEAR * change.std(axis=0) / np.sqrt(len(change))
        drift = DRIFT * shift[clear] / second.std(axis=0)[varied][clear]
        still = (_finite(points[:, self._moving]) == self._first).all(axis=1)[self._tails].mean()
        worst = max(correlation.max(initial=0.0), drift.max(initial=0.0), still)
        return float(min(worst, 1.0))

    def _summaries(self, points: np.ndarray, log_density: np.ndarray) -> np.ndarray:
        """Return coordinates, components, distance from the centre, and minus the log-density."""
        seen = _finite(points[:, self._moving])
        seen = np.clip((seen - self._center) * self._scale, -LARGEST, LARGEST)
        depth = -np.nan_to_num(log_density, nan=-LARGEST, posinf=0.0, neginf=-LARGEST)
        depth = np.clip(depth, -LARGEST, LARGEST)
        distance = np.sqrt((seen**2).sum(axis=1))
        return np.column_stack([seen, seen @ self._directions, distance, depth])

    def _with_bulk(self, summaries: np.ndarray) -> np.ndarray:
        return np.hstack([summaries, np.clip(summaries, self._low, self._high)])


def _leading_directions(standardized: np.ndarray) -> np.ndarray:
    """Return the leading principal components of standardised coordinates, (dimension, count)."""
    size, dimension = standardized.shape
    count = min(COMPONENTS, dimension - 1)
    if count < 1:
        return np.zeros((dimension, 0))
    basis = np.random.default_rng(0).normal(size=(dimension, count))
    for _ in range(ROUNDS):
        basis = np.linalg.qr(standardized.T @ (standardized @ basis) / size)[0]
    return basis


def _finite(points: np.ndarray) -> np.ndarray:
    """Return points whose squares do not overflow; what is infinite counts as zero."""
    return np.clip(np.nan_to_num(points, posinf=0.0, neginf=0.0), -LARGEST, LARGEST)
