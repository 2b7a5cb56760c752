"""Gibbs sampling of discrete coordinates that share no term; many values take a random walk."""

import numpy as np

from pymc_arm.models.coloring import add_by_owner
from pymc_arm.models.moves.fit import Fit
from pymc_arm.models.moves.kernel import Cloud, Kernel, Moves, Role, confirm
from pymc_arm.models.moves.steps import StepSizes
from pymc_arm.models.moves.target import ColoredSet, MoveTarget, term_difference
from pymc_arm.models.support import Support

__all__ = ["DiscreteGibbs", "DiscreteWalk", "discrete_coordinates"]

# Discrete variables with more values than this move by a random walk.
LARGEST_ENUMERATION = 40


class _OfDiscreteSet:
    """A kernel of discrete coordinates that share no term."""

    role = Role.PART
    steps: StepSizes | None = None

    def __init__(
        self, target: MoveTarget, chosen: ColoredSet, support: Support, name: str = "discrete"
    ) -> None:
        self._target, self._chosen, self._support = target, chosen, support
        self.name = name


class DiscreteGibbs(_OfDiscreteSet):
    """Draw each coordinate of a set from its conditional, by enumeration of its values."""

    def move(self, rng: np.random.Generator, cloud: Cloud) -> Moves:
        """Move each coordinate of the set."""
        coordinates, terms, owner = self._chosen
        points, values = cloud.points, self._support.values
        before = points[:, coordinates]
        table = np.empty((len(values), len(points), len(coordinates)))
        trial = points.copy()
        for number, value in enumerate(values):
            trial[:, coordinates] = value
            table[number] = add_by_owner(self._target.terms(trial, terms), owner, len(coordinates))
        # Gumbel's trick draws from unnormalised log-probabilities.
        table = np.where(np.isnan(table), -np.inf, table)
        drawn = (table + rng.gumbel(size=table.shape)).argmax(axis=0)
        current = np.clip(np.rint(before - self._support.low), 0, len(values) - 1).astype(int)
        drawn = np.where(np.isfinite(table.max(axis=0)), drawn, current)
        moved = points.copy()
        moved[:, coordinates] = values[drawn]
        with np.errstate(invalid="ignore"):
            gains = [np.take_along_axis(table, n[None], axis=0)[0] for n in (drawn, current)]
            change = np.nan_to_num(gains[0] - gains[1], nan=0.0).sum(axis=1)
        rate = float(np.mean(moved[:, coordinates] != before))
        return Moves(confirm(self._target, cloud, moved, change), rate)


class DiscreteWalk(_OfDiscreteSet):
    """A symmetric random walk over whole numbers, each coordinate accepted by itself."""

    def move(self, rng: np.random.Generator, cloud: Cloud) -> Moves:
        """Move each coordinate of the set."""
        coordinates, terms, owner = self._chosen
        points, support = cloud.points, self._support
        before = points[:, coordinates]
        reach = np.maximum(np.rint(np.abs(rng.normal(size=before.shape)) * _spread(before)), 1)
        trial = points.copy()
        trial[:, coordinates] = before + reach * rng.choice([-1, 1], size=before.shape)
        inside = (trial[:, coordinates] >= support.low) | (not support.bounded_below)
        inside &= (trial[:, coordinates] <= support.high) | (not support.bounded_above)
        trial[:, coordinates] = np.where(inside, trial[:, coordinates], before)
        difference = term_difference(self._target, trial, points, terms)
        log_ratio = add_by_owner(difference, owner, len(coordinates))
        accepted = inside & (np.log(rng.random(before.shape)) < log_ratio)
        moved = points.copy()
        moved[:, coordinates] = np.where(accepted, trial[:, coordinates], before)
        change = np.where(accepted, log_ratio, 0.0).sum(axis=1)
        rate = float(np.mean(moved[:, coordinates] != before))
        return Moves(confirm(self._target, cloud, moved, change), rate)


def discrete_coordinates(target: MoveTarget, fit: Fit) -> list[Kernel]:
    """Return a kernel for each set of discrete coordinates."""
    kernels: list[Kernel] = []
    for number, chosen in enumerate(target.discrete_sets):
        support = target.supports[int(chosen[0][0])]
        enumerable = support.finite and len(support.values) <= LARGEST_ENUMERATION
        kind = DiscreteGibbs if enumerable else DiscreteWalk
        kernels.append(kind(target, chosen, support, f"discrete {number}"))
    return kernels


def _spread(values: np.ndarray) -> np.ndarray:
    return np.maximum(values.std(axis=0), 1.0)
