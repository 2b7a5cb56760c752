"""The one abstraction: a sequence of unnormalised densities on growing spaces.

A *path* is f_1, ..., f_N with four operations on a set of particles: initialize, move, smooth and
augment. The algorithm in :mod:`pymc_arm.algorithm.arm` knows nothing else, so a PyMC model, a
Gaussian process classifier and a Boltzmann machine are three implementations of this one class.

Two things differ from the letter of the paper. ``smooth`` may hand a *proposal* to ``augment``
(the nodes of a quadrature, say), because both need the same work. And the next distribution may
be chosen when it is reached (:meth:`Path.advance`), because a step that is too large can then be
split in two while the particles are at hand.

What other parts of a run may ask of a path has interfaces of its own: where log Z is refined
(:class:`pymc_arm.estimation.spaces.Refinable`), how much memory it takes
(:class:`pymc_arm.running.memory.Measured`) and where its chains run
(:class:`pymc_arm.running.placement.Placed`).
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from pymc_arm.algorithm.settings import Settings

__all__ = ["Moved", "Particles", "Path", "Position", "Proposal", "Smoothed", "join", "select"]

# Particles and proposals are an array, or a tuple or dict of arrays, whose first axis is the
# particle; a family that stores them otherwise overrides ``count``, ``select`` and ``join``.
Particles = Any
Proposal = Any
Position = Any


class Moved(NamedTuple):
    """What a move returns: the particles, and the mean acceptance rate of its proposals.

    ``autocorrelation`` is their correlation with where they started, from zero to one, if the path
    measures it.
    """

    particles: Particles
    acceptance_rate: float = 1.0
    autocorrelation: float = np.nan


class Smoothed(NamedTuple):
    """What a smooth returns: log W(x_[n]) of each particle, and what ``augment`` needs to draw."""

    log_ratio: np.ndarray
    proposal: Proposal = None


def select(tree: Any, indices: np.ndarray) -> Any:
    """Return the particles at ``indices`` of an array, tuple or dict of arrays."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {name: select(leaf, indices) for name, leaf in tree.items()}
    if isinstance(tree, tuple):
        leaves = [select(leaf, indices) for leaf in tree]
        return type(tree)(*leaves) if hasattr(tree, "_fields") else tuple(leaves)
    return tree[indices]


def join(trees: list[Any]) -> Any:
    """Return one set of particles out of several of the same structure."""
    first = trees[0]
    if first is None:
        return None
    if isinstance(first, dict):
        return {name: join([tree[name] for tree in trees]) for name in first}
    if isinstance(first, tuple):
        leaves = [join(list(leaf)) for leaf in zip(*trees, strict=True)]
        return type(first)(*leaves) if hasattr(first, "_fields") else tuple(leaves)
    return np.concatenate(trees)


class Path(ABC):
    """A sequence of unnormalised densities f_1, ..., f_N, and the operations from one to the next.

    A position n stands for the distribution p_n. For most paths it is the integer n, from 1 to
    :attr:`length`; a path that chooses its steps as it goes may use any immutable value and
    overrides :meth:`finished` and :meth:`advance`.

    Examples
    --------
    N independent coins with unnormalised weights (1, e): every smooth step is a constant.

    >>> import numpy as np
    >>> from pymc_arm import Path, Smoothed, run
    >>> class Coins(Path):
    ...     length = 5
    ...     def initialize(self, rng, size):
    ...         return self.draw(rng, size), np.log1p(np.e)
    ...     def draw(self, rng, size):
    ...         return (rng.random((size, 1)) < np.e / (1 + np.e)).astype(float)
    ...     def move(self, rng, n, particles):
    ...         raise AssertionError("independent variables never need a move")
    ...     def smooth(self, rng, n, particles):
    ...         return Smoothed(np.full(len(particles), np.log1p(np.e)))
    ...     def augment(self, rng, n, particles, proposal):
    ...         return np.hstack([particles, self.draw(rng, len(particles))]), 0.0
    >>> result = run(Coins(), np.random.default_rng(1), particles=100)
    >>> bool(np.isclose(result.log_evidence, 5 * np.log1p(np.e)))
    True
    """

    #: N, the number of distributions; None if the path finds it out as it goes.
    length: int | None
    #: How far rounding, or a constant that is known by draws, may put log Z off.
    rounding: float = 0.0
    #: Whether log W of each particle is kept in the history, for estimates from both sides.
    keeps_ratios: bool = False
    #: The position of the first distribution.
    start: Position = 1

    @abstractmethod
    def initialize(self, rng: np.random.Generator, size: int) -> tuple[Particles, float]:
        """Draw ``size`` particles from p_1, and return them with the exact log Z_1 (line 1)."""

    @abstractmethod
    def move(self, rng: np.random.Generator, n: Position, particles: Particles) -> Moved:
        """Apply any kernel that leaves p_n invariant (line 3)."""

    @abstractmethod
    def smooth(self, rng: np.random.Generator, n: Position, particles: Particles) -> Smoothed:
        """Return the log-ratio of the step *into* p_n, with x_n integrated out (line 4, eq. 3).

        ``n`` is the index on the left of the paper's line 4: w_n := W(x_[n-1]) w_{n-1}.
        An estimate of W is as good as W itself, if :meth:`augment` corrects for it.
        """

    @abstractmethod
    def augment(
        self, rng: np.random.Generator, n: Position, particles: Particles, proposal: Proposal
    ) -> tuple[Particles, np.ndarray | float]:
        """Draw x_n given x_[n-1] (line 11).

        Returns the particles and a log correction, zero where the draw is exact:
        log f_n - log f_{n-1} - log q - log W, with q the density of the draw.
        """

    def integration_error(self, proposal: Proposal, log_weights: np.ndarray) -> float:
        """Return how far, in nats, log m_n may be off because of mass that ``smooth`` has missed.

        That is a part of the mass that :meth:`augment` draws too seldom to correct for. The
        weights are normalised.
        """
        return 0.0

    def finished(self, n: Position) -> bool:
        """Whether p_n is the last distribution, p_N."""
        return bool(self.length is not None and n >= self.length)

    def advance(
        self, n: Position, particles: Particles, log_weights: np.ndarray, threshold: float
    ) -> Position:
        """Return the position after n; it may depend on where the particles are."""
        return n + 1

    def describe(self, n: Position) -> str:
        """Return the name of what comes in with p_n, for progress, plots and warnings."""
        return f"x[{n}]"

    def observations(self, n: Position) -> tuple[int, str]:
        """Return how many observations come in with p_n, if the path knows them, and their name.

        The name is empty unless there is a single one.
        """
        return 0, ""

    def reseed(self, rng: np.random.Generator, n: Position, size: int) -> Particles:
        """Draw new particles from p_n by another sampler (ARM-reseed)."""
        raise ValueError(
            f'{type(self).__name__} has no sampler of its own for variant="reseed". '
            "Override Path.reseed, or choose another variant."
        )

    def posterior(self, rng: np.random.Generator, particles: Particles) -> dict[str, np.ndarray]:
        """Return draws by variable name, as the user wrote the model, from particles at p_N."""
        return {"x": np.asarray(particles)}

    def settings(self, **given: Any) -> Settings:
        """Return the settings of a run: what is given, and this path's defaults for the rest.

        They are those of :class:`Settings` unless a path overrides this. The paper's own are
        :meth:`Settings.paper`.
        """
        return Settings.of(given)

    def count(self, particles: Particles) -> int:
        """Return the number of particles in a set."""
        while isinstance(particles, (dict, tuple)):
            particles = next(iter(particles.values() if isinstance(particles, dict) else particles))
        return len(particles)

    def select(self, particles: Particles, indices: np.ndarray) -> Particles:
        """Return the particles at ``indices``."""
        return select(particles, indices)

    def join(self, sets: list[Particles]) -> Particles:
        """Return one set out of several."""
        return join(sets)
