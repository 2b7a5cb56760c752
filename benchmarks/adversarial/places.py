"""Modes at random places, closed ridges, and densities that end abruptly.

Modes lie inside of a vague prior, where hardly any of its draws are; coordinates with two places
each have 2^d modes; a ring has no mass of its own by Laplace's method; ordered positive variables
fall as a triple exponential does.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import integrate, stats
from scipy.special import gammaln, logsumexp

from benchmarks.adversarial.exact import mixed, solve_on_grid
from benchmarks.adversarial.problem import Adversary, Answer
from benchmarks.suite.numerics import gauss_legendre

__all__ = ["PROBLEMS"]

LOG_TWO_PI = np.log(2 * np.pi)


def random_places(name: str, size: int, widths: tuple[float, ...], seed: int) -> Adversary:
    """Make modes of equal mass at random places inside of a prior of width ten."""
    width, count = np.array(widths), len(widths)
    centers = np.random.default_rng(seed).normal(0, 4, (count, size))

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Normal("x", 0, 10, shape=size)
            logs = [
                -0.5 * pt.sum(((x - centers[k]) / width[k]) ** 2)
                - size * (np.log(width[k]) + 0.5 * LOG_TWO_PI)
                for k in range(count)
            ]
            pm.Potential("modes", pt.logsumexp(pt.stack(logs)) - np.log(count))
        return model

    def solve() -> Answer:
        spread = np.hypot(10, width)
        log_parts = stats.norm.logpdf(centers, 0, spread[:, None]).sum(axis=1) - np.log(count)
        shrunk = 100 / spread**2
        moment = mixed(log_parts, shrunk * centers[:, 0], shrunk * width**2)
        return Answer(float(logsumexp(log_parts)), {"x[0]": moment})

    def second() -> float:
        """Integrate one coordinate at a time, each mode apart."""
        log_parts = []
        for k in range(count):
            total = -np.log(count)
            for center in centers[k]:
                near = gauss_legendre(center - 12 * width[k], center + 12 * width[k], 40)
                total += solve_on_grid(
                    lambda x, c=center, w=width[k]: (
                        stats.norm.logpdf(x, 0, 10) + stats.norm.logpdf(x, c, w)
                    ),
                    near,
                ).log_evidence
            log_parts.append(total)
        return float(logsumexp(log_parts))

    reason = f"{count} modes at random places in {size} dimensions, of widths {widths}"
    return Adversary(name, build, solve, "Gaussian algebra", reason, second=second)


def ring(name: str, size: int, width: float) -> Adversary:
    """Make a ring in two coordinates, with normal ones besides."""
    rest = np.arange(1.0, size - 1)

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Normal("x", 0, 3, shape=size)
            pm.Normal("distance", pt.sqrt(x[0] ** 2 + x[1] ** 2), width, observed=4.0)
            pm.Normal("others", x[2:], 0.1, observed=rest)
        return model

    def log_radius(radius: np.ndarray) -> np.ndarray:
        inside = np.log(radius / 9) - radius**2 / 18
        return inside + stats.norm.logpdf(4, radius, width)

    def log_rest() -> float:
        return float(stats.norm.logpdf(rest, 0, np.hypot(3, 0.1)).sum())

    def solve() -> Answer:
        near = gauss_legendre(max(4 - 12 * width, 1e-9), 4 + 12 * width, 60)
        found = solve_on_grid(log_radius, near).log_evidence + log_rest()
        return Answer(found, {"x[2]": (9 / 9.01, 0.3 / np.sqrt(9.01))} if size > 2 else {})

    def second() -> float:
        """Integrate over the plane."""
        line = gauss_legendre(-8, 8, 200)

        def log_joint(first: np.ndarray, other: np.ndarray) -> np.ndarray:
            prior = stats.norm.logpdf(first, 0, 3) + stats.norm.logpdf(other, 0, 3)
            return prior + stats.norm.logpdf(4, np.hypot(first, other), width)

        return solve_on_grid(log_joint, line, line).log_evidence + log_rest()

    reason = "Laplace's method goes on along the tangent"
    return Adversary(name, build, solve, "quadrature in the radius", reason, second=second)


def ordered_positive(name: str, prior: Callable[..., Any], frozen: Any) -> Adversary:
    """Make three ordered positive variables whose density at zero is positive."""
    data = np.array([0.4, 1.1, 3.0])

    def build() -> pm.Model:
        with pm.Model() as model:
            x = prior("x", shape=3, initval=[0.5, 1.0, 2.0])
            pm.Normal("y", x, 0.5, observed=data)
        return model

    def by_recursion(count: int) -> float:
        nodes = np.linspace(1e-12, 30.0, count)
        accumulated = np.ones_like(nodes)
        for value in data:
            density = frozen.pdf(nodes) * stats.norm.pdf(value, nodes, 0.5)
            accumulated = integrate.cumulative_simpson(density * accumulated, x=nodes, initial=0.0)
        return float(np.log(accumulated[-1]) + gammaln(4))

    def second() -> float:
        """Integrate over the smallest and the two differences."""
        rule = gauss_legendre(0, 8, 12)

        def log_joint(*parts: np.ndarray) -> np.ndarray:
            values = (parts[0], parts[0] + parts[1], parts[0] + parts[1] + parts[2])
            return sum(
                frozen.logpdf(x) + stats.norm.logpdf(y, x, 0.5)
                for x, y in zip(values, data, strict=True)
            )

        return solve_on_grid(log_joint, rule, rule, rule).log_evidence + float(gammaln(4))

    reason = "the Jacobian of a chain of transforms belongs to all elements"
    return Adversary(
        name, build, lambda: Answer(by_recursion(60_001)), "recursion", reason, second=second
    )


def needles(name: str, size: int) -> Adversary:
    """Make a needle and a wide part in each of some coordinates."""

    def log_conditional(x: np.ndarray) -> np.ndarray:
        needle = np.log(0.7 / 1e-3) - 0.5 * ((x - 3) / 1e-3) ** 2
        return np.logaddexp(needle, np.log(0.3) - 0.5 * (x + 1) ** 2)

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Normal("x", 0, 2, shape=size)
            needle = np.log(0.7 / 1e-3) - 0.5 * ((x - 3) / 1e-3) ** 2
            bulk = np.log(0.3) - 0.5 * (x + 1) ** 2
            pm.Potential("needles", pm.math.sum(pm.math.logaddexp(needle, bulk)))
        return model

    def solve() -> Answer:
        log_parts = 0.5 * LOG_TWO_PI + np.array(
            [
                np.log(0.7) + stats.norm.logpdf(3, 0, np.hypot(2, 1e-3)),
                np.log(0.3) + stats.norm.logpdf(-1, 0, np.sqrt(5)),
            ]
        )
        return Answer(float(size * logsumexp(log_parts)))

    def second() -> float:
        pieces = [(-20, 2.98, 60), (2.98, 3.02, 60), (3.02, 20, 30)]
        each = [
            solve_on_grid(
                lambda x: stats.norm.logpdf(x, 0, 2) + log_conditional(x), gauss_legendre(*piece)
            ).log_evidence
            for piece in pieces
        ]
        return float(size * logsumexp(each))

    reason = f"{2**size} modes, of which most are found by recombining others"
    return Adversary(name, build, solve, "Gaussian algebra", reason, second=second)


def ordered(distribution: Any, *parameters: float) -> Callable[..., Any]:
    """Return what makes an ordered variable of a distribution."""

    def make(name: str, **options: Any) -> Any:
        transform = pm.distributions.transforms.ordered
        return distribution(name, *parameters, transform=transform, **options)

    return make


PROBLEMS: tuple[Adversary, ...] = (
    random_places("places_5", 5, (0.5, 0.2, 0.1), 8),
    random_places("places_10", 10, (0.5, 0.2), 9),
    random_places("places_20", 20, (0.5, 0.3), 10),
    random_places("places_5_four", 5, (1.0, 0.5, 0.3, 0.1), 5),
    random_places("places_8_three", 8, (1.0, 0.7, 0.2), 6),
    random_places("places_20_wide", 20, (0.3, 3.0), 1),
    random_places("places_50", 50, (1.0, 0.6), 9),
    random_places("places_50_narrow", 50, (1.0, 0.1), 10),
    ring("ring_2", 2, 0.05),
    ring("ring_5", 5, 0.05),
    ordered_positive("ordered_half_normals", ordered(pm.HalfNormal, 2), stats.halfnorm(scale=2)),
    ordered_positive("ordered_exponentials", ordered(pm.Exponential, 0.5), stats.expon(scale=2)),
    needles("needles_2", 2),
    needles("needles_5", 5),
)
