"""Several modes: far apart and unequal, narrow and heavy, labels that switch, shells and ridges.

The truths are products of normal integrals, sums over all labels with conjugate components, and
quadratures in one radius or along one ridge.
"""

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import gammaln, log_ndtr, logsumexp

from benchmarks.adversarial.exact import mixed, solve_on_grid
from benchmarks.adversarial.problem import Adversary, Answer
from benchmarks.suite.integrate import Plan
from benchmarks.suite.numerics import configurations, gauss_legendre

__all__ = ["PROBLEMS"]

LOG_TWO_PI = np.log(2 * np.pi)


def two_modes(
    name: str, size: int, centers: tuple[float, float], widths: tuple[float, float], mass: float
) -> Adversary:
    """Make two normal modes in a cube, the second with the given share of the mass."""
    log_masses = np.log([1 - mass, mass])

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Uniform("x", -10, 10, shape=size)
            log_modes = [
                log_masses[k]
                - 0.5 * pm.math.sum(((x - centers[k]) / widths[k]) ** 2)
                - size * (np.log(widths[k]) + 0.5 * LOG_TWO_PI)
                for k in range(2)
            ]
            pm.Potential("modes", pm.math.logaddexp(*log_modes))
        return model

    def solve() -> Answer:
        place, width = np.array(centers), np.array(widths)
        ends = (-10 - place) / width, (10 - place) / width
        inside = stats.norm.cdf(ends[1]) - stats.norm.cdf(ends[0])
        log_parts = log_masses + size * (np.log(inside) - np.log(20))
        cut = stats.truncnorm(*ends, place, width)
        return Answer(
            float(logsumexp(log_parts)), {"x[0]": mixed(log_parts, cut.mean(), cut.var())}
        )

    def second() -> float:
        """Integrate one coordinate at a time, both modes apart."""
        log_parts = []
        for k in range(2):
            near = gauss_legendre(
                max(-10, centers[k] - 12 * widths[k]), min(10, centers[k] + 12 * widths[k]), 60
            )
            each = solve_on_grid(
                lambda x, k=k: stats.norm.logpdf(x, centers[k], widths[k]) - np.log(20), near
            )
            log_parts.append(log_masses[k] + size * each.log_evidence)
        return float(logsumexp(log_parts))

    return Adversary(
        name,
        build,
        solve,
        "closed form",
        f"{size} dimensions; the mode of width {widths[1]} has {mass:.0%} of the mass",
        second=second,
    )


def narrow_heavy(name: str, size: int, width: float) -> Adversary:
    """Make a broad mode at the prior and a narrow one with nine tenths of the evidence."""
    center = 1.5

    def log_overlap(noise: float, place: float) -> float:
        return float(size * stats.norm.logpdf(place, 0, np.hypot(1, noise)))

    log_weight = np.log(9) + log_overlap(0.8, 0.0) - log_overlap(width, center)

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Normal("x", 0, 1, shape=size)
            constant = size * (0.5 * LOG_TWO_PI)
            broad = -0.5 * pm.math.sum((x / 0.8) ** 2) - size * np.log(0.8) - constant
            narrow = -0.5 * pm.math.sum(((x - center) / width) ** 2) - size * np.log(width)
            pm.Potential("modes", pm.math.logaddexp(broad, log_weight + narrow - constant))
        return model

    def solve() -> Answer:
        log_parts = np.log([0.1, 0.9])
        means = np.array([0.0, center / (1 + width**2)])
        variances = np.array([0.64 / 1.64, width**2 / (1 + width**2)])
        return Answer(
            log_overlap(0.8, 0.0) + np.log(10), {"x[0]": mixed(log_parts, means, variances)}
        )

    def second() -> float:
        line = gauss_legendre(-9, 9, 40)
        near = gauss_legendre(center - 14 * width, center + 14 * width, 40)
        broad = solve_on_grid(
            lambda x: stats.norm.logpdf(x) + stats.norm.logpdf(x, 0, 0.8), line
        ).log_evidence
        narrow = solve_on_grid(
            lambda x: stats.norm.logpdf(x) + stats.norm.logpdf(x, center, width), near
        ).log_evidence
        return float(np.logaddexp(size * broad, log_weight + size * narrow))

    return Adversary(
        name,
        build,
        solve,
        "Gaussian algebra",
        f"{size} dimensions; a mode {width} wide has 90 % of Z",
        second=second,
    )


def label_switching(
    name: str, values: list[float], components: int, noise: float, unknown_weights: bool
) -> Adversary:
    """Make a mixture with exchangeable means: the truth sums over all labels."""
    seen = np.array(values)

    def build() -> pm.Model:
        with pm.Model() as model:
            mean = pm.Normal("mean", 0, 10, shape=components)
            weights = (
                pm.Dirichlet("weight", np.ones(components))
                if unknown_weights
                else np.full(components, 1 / components)
            )
            pm.NormalMixture("value", w=weights, mu=mean, sigma=noise, observed=seen)
        return model

    def solve() -> Answer:
        # The first label may be fixed: all labels that differ by a permutation have equal terms.
        labels = configurations(len(seen) - 1, components)
        labels = np.column_stack([np.zeros(len(labels), int), labels])
        log_terms = np.full(len(labels), np.log(components))
        counts = np.stack([(labels == k).sum(1) for k in range(components)], 1)
        for k in range(components):
            total = (labels == k) @ seen
            precision = counts[:, k] / noise**2 + 0.01
            log_terms += 0.5 * (total / noise**2) ** 2 / precision - 0.5 * np.log(100 * precision)
        log_terms += stats.norm.logpdf(seen, 0, noise).sum()
        if unknown_weights:
            log_terms += gammaln(1 + counts).sum(1) + gammaln(components)
            log_terms -= gammaln(components + len(seen))
        else:
            log_terms -= len(seen) * np.log(components)
        log_evidence = float(logsumexp(log_terms))
        posterior = np.exp(log_terms - log_evidence)
        # By symmetry, every mean has the average of the moments of all.
        first = second = 0.0
        for k in range(components):
            precision = counts[:, k] / noise**2 + 0.01
            center = ((labels == k) @ seen) / noise**2 / precision
            first += posterior @ center / components
            second += posterior @ (center**2 + 1 / precision) / components
        return Answer(log_evidence, {"mean[0]": (float(first), float(np.sqrt(second - first**2)))})

    def sequential() -> float:
        """Multiply the predictive probabilities of labels and values, one value after the other."""
        labels = configurations(len(seen), components)
        rows = np.arange(len(labels))
        counts, sums = np.zeros((2, len(labels), components))
        total = np.zeros(len(labels))
        for place, value in enumerate(seen):
            label = labels[:, place]
            count = counts[rows, label]
            if unknown_weights:
                total += np.log((1 + count) / (components + place))
            else:
                total -= np.log(components)
            variance = 1 / (0.01 + count / noise**2)
            center = variance * sums[rows, label] / noise**2
            total += stats.norm.logpdf(value, center, np.sqrt(variance + noise**2))
            counts[rows, label] += 1
            sums[rows, label] += value
        return float(logsumexp(total))

    exact_grid = components == 2 and not unknown_weights
    return Adversary(
        name,
        build,
        solve,
        "sum over all labels, conjugate components",
        f"{components}! equal modes, and others where a component is empty",
        Plan(grid={"mean": gauss_legendre(-50, 50, 80, 5)}) if exact_grid else None,
        second=sequential,
    )


def shells(name: str, size: int) -> Adversary:
    """Make two thin spherical shells, after Feroz et al. (2009)."""
    radius, width = 2.0, 0.1
    offset = np.zeros(size)
    offset[0] = 3.5

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Uniform("x", -6, 6, shape=size)

            def log_shell(center: np.ndarray) -> pm.Deterministic:
                distance = pm.math.sqrt(pm.math.sum((x - center) ** 2))
                return -0.5 * ((distance - radius) / width) ** 2

            pm.Potential("shells", pm.math.logaddexp(log_shell(offset), log_shell(-offset)))
        return model

    def solve() -> Answer:
        log_area = np.log(2) + size / 2 * np.log(np.pi) - gammaln(size / 2)
        radial = solve_on_grid(
            lambda r: (size - 1) * np.log(r) - 0.5 * ((r - radius) / width) ** 2,
            gauss_legendre(0.5, 3.5, 100),
            moments={"r2": lambda r: r**2},
        )
        log_evidence = np.log(2) + log_area + radial.log_evidence - size * np.log(12)
        spread = np.sqrt(radial.moments["r2"][0] / size)
        return Answer(
            float(log_evidence),
            {"x[0]": (0.0, float(np.hypot(3.5, spread))), "x[1]": (0.0, float(spread))},
        )

    def second() -> float:
        """Integrate over the first coordinate and the distance from its axis."""
        log_area = np.log(2) + (size - 1) / 2 * np.log(np.pi) - gammaln((size - 1) / 2)

        def log_joint(along: np.ndarray, away: np.ndarray) -> np.ndarray:
            parts = [
                -0.5 * ((np.hypot(along - center, away) - radius) / width) ** 2
                for center in (-3.5, 3.5)
            ]
            return np.logaddexp(*parts) + (size - 2) * np.log(away)

        total = solve_on_grid(
            log_joint, gauss_legendre(-6, 6, 120, 12), gauss_legendre(0, 6, 60, 12)
        ).log_evidence
        return float(total + log_area - size * np.log(12))

    return Adversary(
        name,
        build,
        solve,
        "radial quadrature",
        f"two shells a tenth wide, in {size} dimensions",
        second=second,
    )


def rosenbrock(name: str, pairs: int) -> Adversary:
    """Make the banana of Rosenbrock's function, in independent pairs."""

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Uniform("x", -5, 5, shape=pairs)
            y = pm.Uniform("y", -5, 15, shape=pairs)
            pm.Potential("valley", -pm.math.sum((1 - x) ** 2 + 100 * (y - x**2) ** 2))
        return model

    def solve() -> Answer:
        # Across the valley the integral is normal, with standard deviation 200 ** -0.5.
        scale = np.sqrt(200)

        def log_joint(x: np.ndarray) -> np.ndarray:
            upper, lower = log_ndtr(scale * (15 - x**2)), log_ndtr(scale * (-5 - x**2))
            inside = upper + np.log1p(-np.exp(lower - upper))
            return -((1 - x) ** 2) + 0.5 * np.log(np.pi / 100) + inside - np.log(200)

        each = solve_on_grid(log_joint, gauss_legendre(-5, 5, 400), moments={"x": lambda x: x})
        return Answer(pairs * each.log_evidence, {"x[0]": each.moments["x"]})

    def second() -> float:
        each = solve_on_grid(
            lambda x, y: -((1 - x) ** 2) - 100 * (y - x**2) ** 2 - np.log(200),
            gauss_legendre(-5, 5, 120, 12),
            gauss_legendre(-5, 15, 150, 12),
        )
        return pairs * each.log_evidence

    return Adversary(
        name,
        build,
        solve,
        "1-D quadrature over normal integrals",
        f"{pairs} curved valleys, cut by the edge of the prior",
        second=second,
    )


def egg_box() -> Adversary:
    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Uniform("x", 0, 10 * np.pi, shape=2)
            pm.Potential("box", (2 + pm.math.prod(pm.math.cos(x / 2))) ** 5)
        return model

    def log_joint(first: np.ndarray, last: np.ndarray) -> np.ndarray:
        height = (2 + np.cos(first / 2) * np.cos(last / 2)) ** 5
        return height - 2 * np.log(10 * np.pi)

    def solve() -> Answer:
        rule = gauss_legendre(0, 10 * np.pi, 80)
        moments = {"x[0]": lambda first, last: first + 0 * last}
        return solve_on_grid(log_joint, rule, rule, moments=moments)

    def second() -> float:
        # The trapezoidal rule is spectrally exact for a periodic function; 10 pi is 2.5 periods.
        nodes = np.linspace(0, 10 * np.pi, 4001)
        log_weights = np.full(4001, np.log(10 * np.pi / 4000))
        log_weights[[0, -1]] -= np.log(2)
        return solve_on_grid(log_joint, (nodes, log_weights), (nodes, log_weights)).log_evidence

    return Adversary(
        "egg_box",
        build,
        solve,
        "2-D quadrature",
        "eighteen modes of a height of 243 nats",
        second=second,
    )


def corner_of_a_cube() -> Adversary:
    rates = np.array([5.0, 20.0, 50.0, 100.0, 400.0, 1000.0])

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Uniform("x", 0, 1, shape=6)
            pm.Potential("slope", -pm.math.sum(rates * x))
        return model

    def solve() -> Answer:
        log_evidence = (np.log(-np.expm1(-rates)) - np.log(rates)).sum()
        return Answer(float(log_evidence), {"x[3]": (0.01, 0.01)})

    return Adversary(
        "corner_of_a_cube",
        build,
        solve,
        "closed form",
        "a posterior in one corner of a uniform prior",
        Plan(independent={"x": gauss_legendre(-30, 20, 100, 8)}),
    )


PROBLEMS: tuple[Adversary, ...] = (
    two_modes("two_modes_2", 2, (-5.0, 5.0), (1.0, 0.1), 0.8),
    two_modes("two_modes_5", 5, (-4.0, 4.0), (1.0, 0.3), 0.5),
    two_modes("two_modes_10", 10, (-3.0, 4.0), (1.0, 0.4), 0.7),
    two_modes("phase_transition_20", 20, (0.0, 0.0), (1.0, 0.1), 0.9),
    two_modes("phase_off_centre_20", 20, (0.0, 0.3), (1.0, 0.1), 0.9),
    two_modes("three_to_one_5", 5, (-6.0, 6.0), (0.5, 0.5), 0.25),
    narrow_heavy("narrow_mode_5", 5, 0.05),
    narrow_heavy("narrow_mode_10", 10, 0.1),
    label_switching(
        "switching_2", [-4.1, -3.2, -3.8, 4.4, 3.0, 3.7, 4.9, 3.5, 4.1, 2.8], 2, 1.0, False
    ),
    label_switching(
        "switching_2_weights", [-2.1, -1.2, -1.8, 2.4, 2.0, 1.7, 1.9, 2.5], 2, 1.0, True
    ),
    label_switching(
        "switching_3", [-9.1, -8.0, -8.7, 0.3, 1.2, 0.8, 9.9, 8.8, 9.4, 10.1, 9.0], 3, 1.0, False
    ),
    label_switching(
        "switching_3_weights", [-6.1, -5.0, 0.3, 1.2, 0.1, 6.9, 5.8, 6.4, 7.1], 3, 1.0, True
    ),
    shells("shells_2", 2),
    shells("shells_5", 5),
    rosenbrock("rosenbrock_2", 1),
    rosenbrock("rosenbrock_6", 3),
    egg_box(),
    corner_of_a_cube(),
)
