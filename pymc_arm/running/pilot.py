"""A pilot run: it decides where steps end and how many particles each gets, and others repeat it.

Moves repeat what they had learnt from the particles of the pilot, where the path can do so
(:class:`Freezable`). Then nothing in a run on the path that a pilot returns depends on its own
particles, and its Z-hat is unbiased (docs/bias.md).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pymc_arm.algorithm.allocation import increment_variances, optimal_counts
from pymc_arm.algorithm.arm import run
from pymc_arm.algorithm.path import Moved, Particles, Path, Position, Proposal, Smoothed
from pymc_arm.algorithm.settings import Settings
from pymc_arm.estimation.spaces import Refinable, RefinementSpace
from pymc_arm.running.memory import fixed_bytes, particle_bytes
from pymc_arm.running.placement import Placement, Preparable, placement_of

__all__ = ["Freezable", "Replay", "ReplayedPath", "pilot"]

# The part of a budget that optimal allocation divides equally.
EQUAL_SHARE = 0.1


@runtime_checkable
class Freezable(Protocol):
    """A path whose moves adapt to the particles, and can repeat how they did so."""

    def recording(self) -> Path:
        """Return this path, with moves that note how they have adapted."""

    @property
    def recorded_moves(self) -> Any:
        """What moves have noted since :meth:`recording`; it can be pickled."""

    def with_frozen_moves(self, recorded: Any) -> Path:
        """Return this path, with moves that adapt to nothing and repeat what was noted."""


class ReplayedPath(Path):
    """A path whose positions are those of an earlier run, wherever the particles are.

    Parameters
    ----------
    path
        The path itself, which does everything else.
    following
        The position after each position.
    recorded_moves
        What its moves repeat, if they are frozen.
    """

    def __init__(
        self, path: Path, following: Mapping[Position, Position], recorded_moves: Any = None
    ) -> None:
        self.path, self.following = path, dict(following)
        self.recorded_moves = recorded_moves
        self.length, self.start = path.length, path.start

    @property
    def placement(self) -> Placement:
        """Where the chains of the path run best."""
        return placement_of(self.path)

    @property
    def flat(self) -> tuple[str, ...]:
        """Data whose density is the same wherever the path has looked."""
        return tuple(getattr(self.path, "flat", ()))

    @property
    def endless(self) -> tuple[str, ...]:
        """Coordinates along which the density has no finite integral."""
        return tuple(getattr(self.path, "endless", ()))

    def prepare(self) -> None:
        """Compile what the path needs."""
        if isinstance(self.path, Preparable):
            self.path.prepare()

    def particle_bytes(self) -> int:
        """Return what the path says of a particle."""
        return particle_bytes(self.path)

    def fixed_bytes(self) -> int:
        """Return what the path says of a chain."""
        return fixed_bytes(self.path)

    def spaces(self, particles: Particles) -> Sequence[RefinementSpace]:
        """Return where the path can be refined, if anywhere."""
        return self.path.spaces(particles) if isinstance(self.path, Refinable) else []

    def continuous(self, particles: Particles) -> np.ndarray | None:
        """Return particles as points, if the path has a space for them."""
        return self.path.continuous(particles) if isinstance(self.path, Refinable) else None

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return the path's last log-density."""
        assert isinstance(self.path, Refinable)
        return self.path.log_density(points)

    def score(self, points: np.ndarray) -> np.ndarray | None:
        """Return the gradient of that."""
        return self.path.score(points) if isinstance(self.path, Refinable) else None

    def advance(
        self, n: Position, particles: Particles, log_weights: np.ndarray, threshold: float
    ) -> Position:
        """Return the position that came after n in the earlier run."""
        return self.following[n]

    def initialize(self, rng: np.random.Generator, size: int) -> tuple[Particles, float]:
        """Draw from p_1."""
        return self.path.initialize(rng, size)

    def move(self, rng: np.random.Generator, n: Position, particles: Particles) -> Moved:
        """Move as the path does."""
        return self.path.move(rng, n, particles)

    def smooth(self, rng: np.random.Generator, n: Position, particles: Particles) -> Smoothed:
        """Smooth as the path does."""
        return self.path.smooth(rng, n, particles)

    def augment(
        self, rng: np.random.Generator, n: Position, particles: Particles, proposal: Proposal
    ) -> tuple[Particles, np.ndarray | float]:
        """Draw as the path does."""
        return self.path.augment(rng, n, particles, proposal)

    def finished(self, n: Position) -> bool:
        """Whether p_n is the last distribution."""
        return self.path.finished(n)

    def describe(self, n: Position) -> str:
        """Return the name of what comes in with p_n."""
        return self.path.describe(n)

    def observations(self, n: Position) -> tuple[int, str]:
        """Return how many observations come in with p_n, and their name."""
        return self.path.observations(n)

    def reseed(self, rng: np.random.Generator, n: Position, size: int) -> Particles:
        """Draw new particles as the path does."""
        return self.path.reseed(rng, n, size)

    def posterior(self, rng: np.random.Generator, particles: Particles) -> dict[str, np.ndarray]:
        """Return draws by variable name."""
        return self.path.posterior(rng, particles)

    def integration_error(self, proposal: Proposal, log_weights: np.ndarray) -> float:
        """Return what the path says of its integrals."""
        return self.path.integration_error(proposal, log_weights)

    def settings(self, **given: Any) -> Settings:
        """Return the path's own settings."""
        return self.path.settings(**given)

    def count(self, particles: Particles) -> int:
        """Return the number of particles."""
        return self.path.count(particles)

    def select(self, particles: Particles, indices: np.ndarray) -> Particles:
        """Return the particles at ``indices``."""
        return self.path.select(particles, indices)

    def join(self, sets: list[Particles]) -> Particles:
        """Return one set out of several."""
        return self.path.join(sets)


@dataclass(frozen=True)
class Replay:
    """Makes a replayed path in a process that has no copy of it."""

    recipe: Callable[[], Path]
    following: Mapping[Position, Position]
    recorded_moves: Any = None

    def __call__(self) -> Path:
        """Make it."""
        return ReplayedPath(_freeze(self.recipe(), self.recorded_moves), self.following)


def _freeze(path: Path, recorded: Any) -> Path:
    return path.with_frozen_moves(recorded) if isinstance(path, Freezable) else path


def pilot(
    path: Path,
    particles: int,
    rng: np.random.Generator,
    settings: Settings,
    *,
    optimal: bool = False,
    budget: int | None = None,
) -> tuple[ReplayedPath, list[int]]:
    """Run once, and return a path that repeats its choices, with the particles of each step.

    If ``optimal`` they are those of Theorem 1, within ``budget`` or else ``particles`` a step;
    otherwise as many as the generate loop asked for. Moves repeat the kernels of the pilot too.
    """
    recording = path.recording() if isinstance(path, Freezable) else path
    first = run(recording, rng, particles, **vars(settings))
    if first.log_evidence == -np.inf:
        raise ValueError(
            "The pilot run, which decides the allocation, lost all of its particles: use more "
            "draws, or allocation='adaptive'."
        )
    counts = [info.particles for info in first.history]
    if optimal:
        total = particles * len(counts) if budget is None else budget
        counts = _cautious_counts(increment_variances(first.history), total)
    following = dict(zip(first.positions[:-1], first.positions[1:], strict=True))
    recorded = recording.recorded_moves if isinstance(recording, Freezable) else None
    return ReplayedPath(_freeze(path, recorded), following, recorded), counts


def _cautious_counts(variances: np.ndarray, budget: int) -> list[int]:
    """Return Theorem 1's particles for most of a budget, and an equal share of the rest.

    The theorem gives almost nothing to steps that a pilot found easy. It assumes independent
    particles; real ones remember, and a step through two of them would be felt in all later ones.
    An equal share of a tenth costs at most a ninth of V_min.
    """
    if not len(variances):
        return []
    equal = int(EQUAL_SHARE * budget / len(variances))
    counts = optimal_counts(variances, budget - equal * len(variances)) + equal
    return [int(count) for count in counts]
