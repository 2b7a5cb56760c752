"""What a kernel is: it moves a cloud of particles and leaves the target invariant."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

import numpy as np

from pymc_arm.models.moves.fit import Fit
from pymc_arm.models.moves.steps import StepSizes
from pymc_arm.models.moves.target import MoveTarget

__all__ = ["Cloud", "Factory", "Kernel", "Moves", "Role", "confirm"]


class Cloud(NamedTuple):
    """Particles, and the log-density at each."""

    points: np.ndarray
    log_density: np.ndarray


class Moves(NamedTuple):
    """What a kernel returns.

    ``jump_fraction`` is how far it went: the expected squared jump of its best step size, as a
    share of that of an independent draw.
    """

    cloud: Cloud
    acceptance_rate: float
    jump_fraction: float = 1.0


class Role(Enum):
    """When a sweep applies a kernel."""

    #: It moves all continuous coordinates, and is given up where another such goes much further.
    BLOCK = "block"
    #: It moves them at a higher price, where no kernel of the kind above goes far.
    RESERVE = "reserve"
    #: It moves some coordinates, and is always applied.
    PART = "part"


class Kernel(Protocol):
    """A Markov kernel over a cloud; it may learn its step sizes from one call to the next."""

    @property
    def role(self) -> Role:
        """When a sweep applies it."""

    @property
    def name(self) -> str:
        """What tells it from the other kernels of a target; the same for every cloud."""

    @property
    def steps(self) -> StepSizes | None:
        """The step sizes that it chooses from, if it does."""

    def move(self, rng: np.random.Generator, cloud: Cloud) -> Moves:
        """Return the cloud after one application."""


#: Makes the kernels of one kind that a target calls for, maybe none, fitted to a cloud.
Factory = Callable[[MoveTarget, Fit], Sequence[Kernel]]


def confirm(target: MoveTarget, cloud: Cloud, points: np.ndarray, change: np.ndarray) -> Cloud:
    """Take back moves whose change of the density is not what the terms in scope say.

    A missed scope would make a kernel of single coordinates wrong; so it costs moves only.
    """
    log_density = target.log_density(points)
    with np.errstate(invalid="ignore"):
        gap = np.abs(log_density - cloud.log_density - change)
    confirmed = (gap < 1e-6 * (1 + np.abs(change))) | ~np.isfinite(cloud.log_density)
    if confirmed.all():
        return Cloud(points, log_density)
    return Cloud(
        np.where(confirmed[:, None], points, cloud.points),
        np.where(confirmed, log_density, cloud.log_density),
    )
