"""Several peaks in one coordinate, heavy tails, and widths far from the prior's.

One coordinate looks harmless, and grids that refine the best of a few nodes lose the rest. The
truths are one-dimensional quadratures fine enough for the narrowest peak.
"""

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import logsumexp

from benchmarks.adversarial.exact import mixed, solve_on_grid
from benchmarks.adversarial.problem import Adversary, Answer
from benchmarks.suite.integrate import Plan
from benchmarks.suite.numerics import Rule, gauss_legendre

__all__ = ["PROBLEMS"]


def joined(*rules: Rule) -> Rule:
    """Join rules on neighbouring intervals."""
    return np.concatenate([rule[0] for rule in rules]), np.concatenate([rule[1] for rule in rules])


def tangent_rule(panels: int = 60, order: int = 16, width: float = 1.0) -> Rule:
    """Return a rule on the whole line, equidistant in the angle of a Cauchy variable."""
    angles, log_weights = gauss_legendre(-np.pi / 2, np.pi / 2, panels, order)
    return width * np.tan(angles), log_weights + np.log(width) - 2 * np.log(np.cos(angles))


def squares(name: str, squared: list[float], noise: float, center: float) -> Adversary:
    """Roots of noisy squares: two peaks in each coordinate, unequal where the prior is off zero."""
    observed = np.array(squared)

    def build() -> pm.Model:
        with pm.Model() as model:
            root = pm.Normal("root", center, 3, shape=len(observed))
            pm.Normal("square", root**2, noise, observed=observed)
        return model

    def solve() -> Answer:
        answers = []
        for value in observed:
            near, half = np.sqrt(value), 15 * noise / np.sqrt(value)
            nodes, log_weights = gauss_legendre(max(near - half, 0.0), near + half, 80)
            rule = joined((-nodes, log_weights), (nodes, log_weights))
            answers.append(
                solve_on_grid(
                    lambda root, value=value: (
                        stats.norm.logpdf(root, center, 3)
                        + stats.norm.logpdf(value, root**2, noise)
                    ),
                    rule,
                    moments={"root": lambda root: root},
                )
            )
        moments = {f"root[{k}]": answer.moments["root"] for k, answer in enumerate(answers[:2])}
        return Answer(sum(answer.log_evidence for answer in answers), moments)

    return Adversary(
        name,
        build,
        solve,
        "1-D quadratures",
        f"two peaks in each of {len(squared)} coordinates",
        Plan(independent={"root": gauss_legendre(-9, 9, 900, 8)}),
    )


def poisson_mixture() -> Adversary:
    readings = np.array([31.0, 24.0, 40.0])

    def build() -> pm.Model:
        with pm.Model() as model:
            components = [pm.Poisson.dist(3), pm.Poisson.dist(80)]
            count = pm.Mixture("count", w=[0.6, 0.4], comp_dists=components, shape=3)
            pm.Normal("reading", count, 14.0, observed=readings)
        return model

    def solve() -> Answer:
        counts = np.arange(400)
        log_prior = np.logaddexp(
            np.log(0.6) + stats.poisson.logpmf(counts, 3),
            np.log(0.4) + stats.poisson.logpmf(counts, 80),
        )
        log_terms = log_prior + stats.norm.logpdf(readings[:, None], counts, 14.0)
        moments = {f"count[{k}]": mixed(log_terms[k], counts, 0 * counts) for k in range(3)}
        return Answer(float(logsumexp(log_terms, axis=1).sum()), moments)

    return Adversary(
        "poisson_mixture",
        build,
        solve,
        "countable sums",
        "a count whose prior has two peaks far apart",
        Plan(independent={"count": (np.arange(200.0), np.zeros(200))}),
    )


def sinusoid(name: str, with_amplitude: bool) -> Adversary:
    times = np.linspace(0, 5, 14)
    rng = np.random.default_rng(3)
    signal = 1.1 * np.sin(7.3 * times) + rng.normal(0, 0.8, len(times))

    def build() -> pm.Model:
        with pm.Model() as model:
            frequency = pm.Uniform("frequency", 0, 20)
            amplitude = pm.Normal("amplitude", 0, 1) if with_amplitude else 1.0
            pm.Normal("signal", amplitude * pm.math.sin(frequency * times), 0.8, observed=signal)
        return model

    def log_joint(frequency: np.ndarray) -> np.ndarray:
        wave = np.sin(frequency[:, None] * times)
        if not with_amplitude:
            return stats.norm.logpdf(signal, wave, 0.8).sum(-1) - np.log(20)
        precision = 1 + (wave**2).sum(-1) / 0.64
        linear = wave @ signal / 0.64
        quadratic = linear**2 / precision - np.log(precision)
        return stats.norm.logpdf(signal, 0, 0.8).sum() + 0.5 * quadratic - np.log(20)

    def solve() -> Answer:
        return solve_on_grid(
            log_joint,
            gauss_legendre(0, 20, 200),
            moments={"frequency": lambda frequency: frequency},
        )

    angles, log_weights = gauss_legendre(0, 20, 300, 8)
    transformed = (
        np.log(angles / (20 - angles)),
        log_weights + np.log(20) - np.log(angles) - np.log(20 - angles),
    )
    return Adversary(
        name,
        build,
        solve,
        "1-D quadrature",
        "dozens of peaks of the frequency",
        Plan(gaussian=("amplitude",) if with_amplitude else (), grid={"frequency": transformed}),
    )


def cauchy_location() -> Adversary:
    values = np.array([-40.0, -38.5, -3.0, 0.2, 25.0, 26.0, 61.0])

    def build() -> pm.Model:
        with pm.Model() as model:
            location = pm.Normal("location", 0, 30)
            pm.Cauchy("value", location, 0.5, observed=values)
        return model

    def solve() -> Answer:
        return solve_on_grid(
            lambda location: (
                stats.norm.logpdf(location, 0, 30)
                + stats.cauchy.logpdf(values[:, None], location, 0.5).sum(0)
            ),
            gauss_legendre(-400, 400, 3000),
            moments={"location": lambda location: location},
        )

    return Adversary(
        "cauchy_location",
        build,
        solve,
        "1-D quadrature",
        "a peak at each group of observations",
        Plan(grid={"location": gauss_legendre(-300, 300, 4000, 6)}),
    )


def conflict() -> Adversary:
    readings = np.array([30.0, 12.0, -7.0])

    def build() -> pm.Model:
        with pm.Model() as model:
            effect = pm.StudentT("effect", nu=2, mu=0, sigma=1, shape=3)
            pm.Normal("reading", effect, np.array([9.0, 2.5, 2.0]), observed=readings)
        return model

    def solve() -> Answer:
        answers = [
            solve_on_grid(
                lambda effect, value=value, noise=noise: (
                    stats.t.logpdf(effect, 2) + stats.norm.logpdf(value, effect, noise)
                ),
                joined(gauss_legendre(-120, -10, 60), gauss_legendre(-10, 120, 400)),
                moments={"effect": lambda effect: effect},
            )
            for value, noise in zip(readings, [9.0, 2.5, 2.0], strict=True)
        ]
        moments = {f"effect[{k}]": answer.moments["effect"] for k, answer in enumerate(answers)}
        return Answer(sum(answer.log_evidence for answer in answers), moments)

    return Adversary(
        "prior_data_conflict",
        build,
        solve,
        "1-D quadratures",
        "a heavy-tailed prior and data far out: two peaks",
        Plan(independent={"effect": gauss_legendre(-110, 110, 500, 8)}),
    )


def cauchy_tails() -> Adversary:
    readings = np.array([0.5, -200.0, 3e4, 2.0])

    def build() -> pm.Model:
        with pm.Model() as model:
            source = pm.Cauchy("source", 0, 1, shape=4)
            pm.Cauchy("reading", source, 0.1, observed=readings)
        return model

    def solve() -> Answer:
        return Answer(float(stats.cauchy.logpdf(readings, 0, 1.1).sum()))

    def second() -> float:
        """Integrate with one rule at the prior and one at the reading, and a partition of unity."""
        total = 0.0
        for value in readings:
            log_terms = []
            for center, width in ((0.0, 1.0), (value, 0.1)):
                nodes, log_weights = tangent_rule(400, 8, width)
                nodes = center + nodes
                at_prior = stats.cauchy.logpdf(nodes)
                at_reading = stats.cauchy.logpdf(value, nodes, 0.1)
                share = at_prior if width == 1.0 else at_reading
                share = share - np.logaddexp(at_prior, at_reading)
                log_terms.append(at_prior + at_reading + share + log_weights)
            total += float(logsumexp(np.concatenate(log_terms)))
        return total

    return Adversary(
        "cauchy_tails",
        build,
        solve,
        "sums of Cauchy variables",
        "no moments, and peaks at the prior and at the data",
        second=second,
    )


def relative_width(name: str, noise: float, size: int) -> Adversary:
    readings = np.linspace(-1.1, 1.3, size)

    def build() -> pm.Model:
        with pm.Model() as model:
            position = pm.Normal("position", 0, 1, shape=size)
            pm.Normal("reading", position, noise, observed=readings)
        return model

    def solve() -> Answer:
        shrink = 1 / (1 + noise**2)
        spread = noise / np.sqrt(1 + noise**2)
        log_evidence = stats.norm.logpdf(readings, 0, np.hypot(1, noise)).sum()
        return Answer(float(log_evidence), {"position[0]": (readings[0] * shrink, spread)})

    return Adversary(
        name,
        build,
        solve,
        "Gaussian algebra",
        f"the likelihood is {noise:g} times as wide as the prior",
        Plan(gaussian=("position",)),
    )


def nested_peaks() -> Adversary:
    centers = np.array([-3.0, 4.0, 4.5])
    widths = np.array([1e-4, 0.1, 2.0])
    masses = np.array([0.5, 0.3, 0.2])

    def build() -> pm.Model:
        with pm.Model() as model:
            position = pm.Uniform("position", -10, 10)
            standardized = (position - centers) / widths
            log_terms = np.log(masses / widths) - 0.5 * standardized**2
            pm.Potential("peaks", pm.math.logsumexp(log_terms) - 0.5 * np.log(2 * np.pi))
        return model

    def solve() -> Answer:
        normal = stats.norm(centers, widths)
        inside = masses * (normal.cdf(10) - normal.cdf(-10))
        first = masses @ centers
        # The widest peak loses 0.3 % of its mass at the wall; its moments are those cut there.
        cut = stats.truncnorm((-10 - centers) / widths, (10 - centers) / widths, centers, widths)
        means, variances = cut.mean(), cut.var()
        shares = inside / inside.sum()
        first = float(shares @ means)
        spread = float(np.sqrt(shares @ (variances + (means - first) ** 2)))
        return Answer(float(np.log(inside.sum() / 20)), {"position": (first, spread)})

    nodes, log_weights = joined(
        gauss_legendre(-10, -3.01, 40),
        gauss_legendre(-3.01, -2.99, 400),
        gauss_legendre(-2.99, 10, 400),
    )
    inside = np.log(10 + nodes) + np.log(10 - nodes) - np.log(20)
    rule = np.log(10 + nodes) - np.log(10 - nodes), log_weights - inside

    return Adversary(
        "nested_peaks",
        build,
        solve,
        "closed form",
        "a peak 1e-5 of the prior's width has half of the mass",
        Plan(grid={"position": rule}),
    )


def many_needles() -> Adversary:
    """Three coordinates with a needle each: eight modes, the narrowest with the most mass."""

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Normal("x", 0, 2, shape=3)
            needle = np.log(0.7 / 1e-3) - 0.5 * ((x - 3) / 1e-3) ** 2
            bulk = np.log(0.3) - 0.5 * (x + 1) ** 2
            pm.Potential("needles", pm.math.sum(pm.math.logaddexp(needle, bulk)))
        return model

    def solve() -> Answer:
        log_parts = np.array(
            [
                np.log(0.7) + stats.norm.logpdf(3, 0, np.hypot(2, 1e-3)),
                np.log(0.3) + stats.norm.logpdf(-1, 0, np.sqrt(5)),
            ]
        ) + 0.5 * np.log(2 * np.pi)
        means = np.array([3 / (1 + 1e-6 / 4), -0.8])
        variances = np.array([1e-6 / (1 + 1e-6 / 4), 0.8])
        return Answer(float(3 * logsumexp(log_parts)), {"x[0]": mixed(log_parts, means, variances)})

    rule = joined(
        gauss_legendre(-20, 2.98, 60), gauss_legendre(2.98, 3.02, 60), gauss_legendre(3.02, 20, 30)
    )
    return Adversary(
        "many_needles",
        build,
        solve,
        "Gaussian algebra",
        "a narrow and a wide peak in each coordinate",
        Plan(independent={"x": rule}),
    )


PROBLEMS: tuple[Adversary, ...] = (
    squares("square_root_narrow", [4.0], 0.01, 0.0),
    squares("square_root_six", [4.0, 2.0, 9.0, 6.0, 3.0, 5.0], 0.3, 0.4),
    poisson_mixture(),
    sinusoid("sinusoid_frequency", False),
    sinusoid("sinusoid_amplitude", True),
    cauchy_location(),
    conflict(),
    cauchy_tails(),
    relative_width("needle_in_prior", 1e-6, 1),
    relative_width("flat_likelihood", 1e6, 3),
    nested_peaks(),
    many_needles(),
)
