"""Gaussian process classification with unknown hyperparameters.

The hyperparameters t are few, and the labels given t have an unbiased estimate Z-hat(t) that hardly
varies: the look-ahead sequence of :class:`GPCPath` with a few particles. So t is drawn from a
density q(t), close to prior times EP's evidence, and weighted by

    p(t) Z-hat(t) / q(t),

whose mean is the evidence with hyperparameters integrated out, exactly, however good EP is: t and
the particles within are one draw of importance sampling on a larger space (Andrieu and Roberts,
2009; Chopin, Jacob and Papaspiliopoulos, 2013). As a path it has two distributions, q(t) and the
posterior. Draws of the process come from the particles within.
"""

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from pymc_arm.algorithm.arm import run
from pymc_arm.algorithm.path import Moved, Path, Smoothed
from pymc_arm.algorithm.resampling import SCHEMES, effective_share, normalize
from pymc_arm.algorithm.settings import Settings
from pymc_arm.errors import ArmWarning, PathError
from pymc_arm.families.gpc.ep import expectation_propagation
from pymc_arm.families.gpc.hyper_model import Conditional, HyperModel
from pymc_arm.families.gpc.path import GPCPath
from pymc_arm.models.reference.density import Component, StudentMixture
from pymc_arm.running.chains import FurtherDraws
from pymc_arm.running.placement import Placement

__all__ = ["HyperGPCPath"]

# Particles within: at n = 767 log Z-hat given t has a standard deviation of 0.06 with 100 (see
# docs/guides/gp_classification.md), and weights p / q have one of about 0.5.
INNER_PARTICLES = 50
# No generate rounds within: their stopping rule is biased (docs/bias.md).
INNER_SETTINGS: dict[str, Any] = {"max_rounds": 0}
# Draws of the process for each t, and how many draws there are for one t, with few labels and from
# so many on: each costs a run of the sequence, 10 ms with 30 labels and one second with 767. At
# least so many t are drawn.
DRAWS_EACH, DRAWS_EACH_OF_FEW, MANY, FEWEST = 10, 4, 200, 50
# Where q comes from: points around the start that are looked at, evaluations of a climb for each
# parameter, and rounds of so many draws for each parameter that q is fitted to.
LOOKED_AT, CLIMB, ROUNDS, FITTED = 8, 30, 3, 25
# EP is close enough for q from here on.
TOLERANCE = 1e-4
# Degrees of freedom of q, and its two parts: the fit, a little wider, and one for what it misses.
FREEDOM, WIDER, SECOND_SHARE, SECOND_WIDTH = 5.0, 1.15, 0.2, 2.5
# Evaluated points this far below the best say nothing.
LOWEST = 15.0


class Explored(NamedTuple):
    """Particles: hyperparameters, (particle, parameter), and draws of v, (particle, draw, n).

    There are no draws before the labels are in.
    """

    parameters: np.ndarray
    latent: np.ndarray


@dataclass(frozen=True)
class Proposal:
    """q(t), and which part of its draws is effective if EP is exact."""

    density: StudentMixture
    effective: float


class HyperGPCPath(Path):
    """A classifier with probit link and unknown hyperparameters.

    Parameters
    ----------
    hyper
        The process given the hyperparameters, and their prior.
    **options
        Those of :class:`GPCPath`.
    """

    length: int | None = 2

    def __init__(self, hyper: HyperModel, **options: Any) -> None:
        self.hyper, self._options = hyper, {"threads": 1, **options}
        self.placement = Placement.THREADS
        self.proposal = _fit(hyper, np.random.default_rng(0))

    def count_particles(self, draws: int) -> int:
        """Return how many hyperparameters are drawn."""
        many = len(self.hyper.labels) >= MANY
        each = DRAWS_EACH if many else DRAWS_EACH_OF_FEW
        return min(draws, max(FEWEST, draws // each))

    def settings(self, **given: Any) -> Settings:
        """Generate nothing: more draws of q are more draws."""
        return Settings.of({"max_rounds": 0, **given})

    def initialize(self, rng: np.random.Generator, size: int) -> tuple[Explored, float]:
        """Draw hyperparameters from q."""
        drawn = self.proposal.density.draw(rng, size)
        return Explored(drawn, np.zeros((size, 0, len(self.hyper.labels)))), 0.0

    def move(self, rng: np.random.Generator, n: int, particles: Explored) -> Moved:
        """Draw from q anew; what is at the posterior stays."""
        if n == 1:
            return Moved(self.initialize(rng, len(particles.parameters))[0])
        return Moved(particles)

    def smooth(self, rng: np.random.Generator, n: int, particles: Explored) -> Smoothed:
        """Estimate the probability of the labels, given each of the hyperparameters."""
        count = len(particles.parameters)
        log_ratio = -self.proposal.density(particles.parameters)[0]
        latent = np.zeros((count, DRAWS_EACH, len(self.hyper.labels)))
        for number, parameters in enumerate(particles.parameters):
            log_weight, latent[number] = self._within(rng, parameters)
            log_ratio[number] += log_weight
        return Smoothed(log_ratio, latent)

    def augment(
        self, rng: np.random.Generator, n: int, particles: Explored, proposal: np.ndarray
    ) -> tuple[Explored, float]:
        """Take the draws of the process that came with the estimates."""
        return Explored(particles.parameters, proposal), 0.0

    def draw_further(
        self, rng: np.random.Generator, n: int, particles: Explored, rounds: int
    ) -> FurtherDraws:
        """Return the draws of the process, one after another, with their hyperparameters."""
        each = [
            Explored(particles.parameters, particles.latent[:, [number % DRAWS_EACH]])
            for number in range(rounds)
        ]
        return FurtherDraws(each, False)

    def posterior(self, rng: np.random.Generator, particles: Explored) -> dict[str, np.ndarray]:
        """Return draws of the hyperparameters, and of the latent variable."""
        return {
            **self.hyper.constrain(particles.parameters),
            self.hyper.name: particles.latent[:, 0],
        }

    def describe(self, n: int) -> str:
        """Return what comes in."""
        return "hyperparameters" if n == 1 else f"{self.hyper.name} and all labels"

    def _within(self, rng: np.random.Generator, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Return log p(t) Z-hat(t), and draws of the latent variable."""
        given = self.hyper.at(parameters)
        nothing = np.zeros((DRAWS_EACH, len(self.hyper.labels)))
        if not _usable(given):
            return -np.inf, nothing
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ArmWarning)
            try:
                path = GPCPath(
                    given.covariance,
                    self.hyper.labels,
                    mean=given.mean,
                    unwhitening=given.unwhitening,
                    offset=given.offset,
                    name=self.hyper.name,
                    **self._options,
                )
            except (ValueError, np.linalg.LinAlgError):  # singular to working precision
                return -np.inf, nothing
            found = run(path, rng, INNER_PARTICLES, **INNER_SETTINGS)
        if found.log_evidence == -np.inf:
            return -np.inf, nothing
        chosen = SCHEMES["systematic"](rng, found.state.log_weights, DRAWS_EACH)
        drawn = path.posterior(rng, path.select(found.state.particles, rng.permutation(chosen)))
        return given.log_prior + found.log_evidence, drawn[self.hyper.name]


def _usable(given: Conditional) -> bool:
    finite = np.isfinite(given.covariance).all() and np.isfinite(given.mean).all()
    return bool(finite and np.isfinite(given.log_prior))


class _Surface:
    """log p(t) + log Z_EP(t), with all points at which it was asked for."""

    def __init__(self, hyper: HyperModel) -> None:
        self._hyper = hyper
        self._signs = np.where(hyper.labels > 0, 1.0, -1.0)
        self.points: list[np.ndarray] = []
        self.values: list[float] = []

    def __call__(self, point: np.ndarray) -> float:
        value = -np.inf
        given = self._hyper.at(point)
        if _usable(given):
            absorbed = given.covariance * np.outer(self._signs, self._signs)
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    sites = expectation_propagation(
                        absorbed, given.mean * self._signs, tolerance=TOLERANCE, max_iterations=100
                    )
                    value = given.log_prior + sites.log_evidence
                except (ValueError, np.linalg.LinAlgError):
                    value = -np.inf
        value = value if np.isfinite(value) else -np.inf
        self.points.append(np.array(point))
        self.values.append(value)
        return value


def _fit(hyper: HyperModel, rng: np.random.Generator) -> Proposal:
    """Fit q to the prior times EP's evidence.

    Raises
    ------
    PathError
        If that is nowhere positive.
    """
    surface, count = _Surface(hyper), hyper.dimension
    surface(hyper.start)
    for _ in range(LOOKED_AT * count):
        surface(hyper.start + rng.normal(size=count))
    best = int(np.argmax(surface.values))
    if not np.isfinite(surface.values[best]):
        raise PathError(
            "EP gives the labels probability zero at all hyperparameters that were tried: check "
            "their priors, or use family='generic'."
        )
    simplex = surface.points[best] + np.vstack([np.zeros(count), 0.3 * np.eye(count)])
    minimize(
        lambda point: -max(surface(point), -1e10),
        surface.points[best],
        method="Nelder-Mead",
        options={"initial_simplex": simplex, "maxfev": CLIMB * count, "xatol": 0.02, "fatol": 0.02},
    )
    top = surface.points[int(np.argmax(surface.values))]
    density = _mixture(top, 0.3 * np.eye(count))
    drawn, used = [], []
    for _ in range(ROUNDS):
        fresh = density.draw(rng, FITTED * count)
        drawn.append((fresh, np.array([surface(point) for point in fresh])))
        used.append(density)
        points, values = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
        mixed = np.logaddexp.reduce([each(points)[0] for each in used], axis=0) - np.log(len(used))
        log_weights = normalize(values - mixed)
        # The largest weights are cut to their average: one of them must not decide a width.
        cut = np.minimum(np.exp(log_weights), 1 / np.sqrt(len(points)))
        cut /= cut.sum()
        center = cut @ points
        covariance = (cut[:, None] * (points - center)).T @ (points - center)
        density = _mixture(center, np.linalg.cholesky(covariance + 1e-8 * np.eye(count)))
    return Proposal(density, float(effective_share(values - density(points)[0])))


def _mixture(center: np.ndarray, factor: np.ndarray) -> StudentMixture:
    """Return q: a Student-t, and a wider one."""
    return StudentMixture(
        (
            Component(float(np.log1p(-SECOND_SHARE)), center, WIDER * factor, FREEDOM),
            Component(float(np.log(SECOND_SHARE)), center, SECOND_WIDTH * factor, FREEDOM),
        )
    )
