"""Constrained variables: order, simplexes, circles, zero sums, correlations, random bounds.

The evidence is that of a properly normalised prior. An ``ordered`` transform restricts independent
variables to one of k! orders, so the prior density is k! times theirs, as in the suite.
"""

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions import transforms
from pymc.logprob.transforms import Transform
from scipy import stats
from scipy.special import betaln, gammaln, i0e

from benchmarks.adversarial.exact import log_order_probability, solve_on_grid
from benchmarks.adversarial.problem import Adversary, Answer
from benchmarks.suite.integrate import Plan
from benchmarks.suite.numerics import gauss_legendre, log_multivariate_normal

__all__ = ["PROBLEMS"]


def ordered_normals(name: str, readings: list[float], noise: float) -> Adversary:
    """Make ordered normal means, each read once, in an order that the data may contradict."""
    seen = np.array(readings)
    size = len(seen)

    def build() -> pm.Model:
        with pm.Model() as model:
            mean = pm.Normal(
                "mean",
                0,
                2,
                shape=size,
                transform=transforms.ordered,
                initval=np.linspace(-1, 1, size),
            )
            pm.Normal("reading", mean, noise, observed=seen)
        return model

    def solve() -> Answer:
        precision = 0.25 + noise**-2
        posteriors = [stats.norm(y / noise**2 / precision, precision**-0.5) for y in seen]
        log_evidence = stats.norm.logpdf(seen, 0, np.hypot(2, noise)).sum() + gammaln(size + 1)
        nodes = np.linspace(-16, 16, 16001)
        log_order = log_order_probability([p.logpdf for p in posteriors], nodes)
        return Answer(float(log_evidence + log_order))

    return Adversary(
        name,
        build,
        solve,
        "closed form and nested 1-D quadratures",
        f"{size} ordered means: prior draws are not ordered, the density lacks log {size}!",
        Plan(offset=float(gammaln(size + 1)), draws=40_000),
    )


def ordered_rates(name: str, counts: list[int]) -> Adversary:
    """Make ordered exponential rates of Poisson counts: a chain of log and ordered."""
    seen = np.array(counts)
    size = len(seen)

    def build() -> pm.Model:
        with pm.Model() as model:
            rate = pm.Exponential(
                "rate",
                0.2,
                shape=size,
                transform=transforms.ordered,
                initval=np.arange(1.0, size + 1),
            )
            pm.Poisson("count", rate, observed=seen)
        return model

    def solve() -> Answer:
        log_evidence = np.log(0.2) - (1 + seen) * np.log(1.2)
        posteriors = [stats.gamma(1 + y, scale=1 / 1.2) for y in seen]
        nodes = np.linspace(0, 90, 60001)
        log_order = log_order_probability([p.logpdf for p in posteriors], nodes)
        return Answer(float(log_evidence.sum() + log_order + gammaln(size + 1)))

    return Adversary(
        name,
        build,
        solve,
        "closed form and nested 1-D quadratures",
        f"ordered of {size} positive variables is a chain of transforms",
        Plan(offset=float(gammaln(size + 1)), draws=40_000),
    )


def ordered_shares() -> Adversary:
    """Make ordered Beta shares: a chain of log-odds and ordered."""
    hits, trials = np.array([4, 3, 9]), 12

    def build() -> pm.Model:
        with pm.Model() as model:
            share = pm.Beta(
                "share",
                2.0,
                2.0,
                shape=3,
                transform=transforms.ordered,
                initval=np.array([0.2, 0.5, 0.8]),
            )
            pm.Binomial("hits", n=trials, p=share, observed=hits)
        return model

    def solve() -> Answer:
        log_evidence = stats.betabinom.logpmf(hits, trials, 2, 2).sum() + gammaln(4)
        posteriors = [stats.beta(2 + y, 2 + trials - y) for y in hits]
        nodes = np.linspace(0, 1, 20001)
        log_order = log_order_probability([p.logpdf for p in posteriors], nodes)
        return Answer(float(log_evidence + log_order))

    return Adversary(
        "ordered_shares",
        build,
        solve,
        "closed form and nested 1-D quadratures",
        "ordered of shares in (0, 1)",
        Plan(offset=float(gammaln(4)), draws=40_000),
    )


def simplex_corner(name: str, concentration: list[float], counts: list[int]) -> Adversary:
    alpha, seen = np.array(concentration), np.array(counts)

    def build() -> pm.Model:
        with pm.Model() as model:
            share = pm.Dirichlet("share", alpha)
            pm.Multinomial("count", n=int(seen.sum()), p=share, observed=seen)
        return model

    def solve() -> Answer:
        posterior = alpha + seen
        total = posterior.sum()
        largest = int(np.argmax(posterior))
        mean = posterior[largest] / total
        spread = np.sqrt(mean * (1 - mean) / (1 + total))
        log_evidence = stats.dirichlet_multinomial.logpmf(seen, alpha, int(seen.sum()))
        return Answer(float(log_evidence), {f"share[{largest}]": (float(mean), float(spread))})

    def second() -> float:
        """Stick-breaking: a product of beta-binomials."""
        total = 0.0
        for k in range(len(alpha) - 1):
            total += stats.betabinom.logpmf(seen[k], seen[k:].sum(), alpha[k], alpha[k + 1 :].sum())
        return float(total)

    return Adversary(
        name,
        build,
        solve,
        "closed form",
        f"a simplex whose mass is at its corners, concentration {min(concentration)}",
        second=second,
    )


def truncated_tail() -> Adversary:
    reading, noise = 0.8, 0.5

    def build() -> pm.Model:
        with pm.Model() as model:
            dose = pm.TruncatedNormal("dose", mu=-3.0, sigma=1.0, lower=0.0, shape=2)
            pm.Normal("reading", dose, noise, observed=np.array([reading, 0.1]))
        return model

    def solve() -> Answer:
        total, moments = 0.0, {}
        for k, value in enumerate((reading, 0.1)):
            precision = 1 + noise**-2
            center, spread = (value / noise**2 - 3) / precision, precision**-0.5
            total += stats.norm.logpdf(value, -3, np.hypot(1, noise))
            total += stats.norm.logsf(0, center, spread) - stats.norm.logsf(0, -3, 1)
            cut = stats.truncnorm(-center / spread, np.inf, center, spread)
            moments[f"dose[{k}]"] = float(cut.mean()), float(cut.std())
        return Answer(float(total), moments)

    return Adversary(
        "truncated_tail",
        build,
        solve,
        "closed form",
        "a normal prior cut three standard deviations out",
        Plan(independent={"dose": gauss_legendre(-30, 3, 60, 8)}),
    )


def truncated_gamma() -> Adversary:
    counts = np.array([7, 11, 9])

    def build() -> pm.Model:
        with pm.Model() as model:
            rate = pm.Truncated("rate", pm.Gamma.dist(2.0, 1.0), lower=1.0, upper=8.0)
            pm.Poisson("count", rate, observed=counts)
        return model

    def solve() -> Answer:
        prior = stats.gamma(2)
        return solve_on_grid(
            lambda rate: (
                prior.logpdf(rate)
                - np.log(prior.cdf(8) - prior.cdf(1))
                + stats.poisson.logpmf(counts[:, None], rate).sum(0)
            ),
            gauss_legendre(1, 8, 40),
            moments={"rate": lambda rate: rate},
        )

    odds = gauss_legendre(-30, 30, 60, 8)
    return Adversary(
        "truncated_gamma",
        build,
        solve,
        "1-D quadrature",
        "the posterior is against the upper bound of the prior",
        Plan(grid={"rate": odds}),
    )


def seam_of_the_circle(name: str, headings: list[float], concentration: float) -> Adversary:
    seen = np.array(headings)

    def build() -> pm.Model:
        with pm.Model() as model:
            heading = pm.VonMises("heading", mu=3.0, kappa=1.0)
            pm.VonMises("seen", mu=heading, kappa=concentration, observed=seen)
        return model

    def log_bessel(kappa: float) -> float:
        return float(np.log(i0e(kappa)) + kappa)

    def solve() -> Answer:
        cosine = np.cos(3.0) + concentration * np.cos(seen).sum()
        sine = np.sin(3.0) + concentration * np.sin(seen).sum()
        log_evidence = log_bessel(float(np.hypot(cosine, sine))) - log_bessel(1.0)
        log_evidence -= len(seen) * (np.log(2 * np.pi) + log_bessel(concentration))
        return Answer(float(log_evidence))

    def second() -> float:
        return solve_on_grid(
            lambda heading: (
                stats.vonmises.logpdf(heading, 1.0, 3.0)
                + stats.vonmises.logpdf(seen[:, None], concentration, heading).sum(0)
            ),
            gauss_legendre(0, 2 * np.pi, 200),
        ).log_evidence

    return Adversary(
        name,
        build,
        solve,
        "closed form",
        "the mode is at the seam of the circle",
        Plan(grid={"heading": gauss_legendre(-np.pi, np.pi, 40)}),
        second,
    )


def zero_sum_table() -> Adversary:
    """Make an interaction that sums to zero over rows and over columns."""
    rng = np.random.default_rng(34)
    readings = rng.normal(0, 1.2, (3, 4))

    def build() -> pm.Model:
        with pm.Model() as model:
            effect = pm.ZeroSumNormal("effect", sigma=1.5, shape=(3, 4), n_zerosum_axes=2)
            pm.Normal("reading", effect, 0.7, observed=readings)
        return model

    def solve() -> Answer:
        project = np.kron(np.eye(3) - 1 / 3, np.eye(4) - 1 / 4)
        covariance = 2.25 * project + 0.49 * np.eye(12)
        shrink = 2.25 / (2.25 + 0.49)
        mean = shrink * (project @ readings.ravel())
        spread = np.sqrt(2.25 * 0.49 / 2.74 * project[0, 0])
        return Answer(
            log_multivariate_normal(readings.ravel(), 0.0, covariance),
            {"effect[0]": (float(mean[0]), float(spread))},
        )

    return Adversary(
        "zero_sum_table",
        build,
        solve,
        "Gaussian algebra",
        "a table of 12 with 6 degrees of freedom",
        Plan(gaussian=("effect",)),
    )


def correlations(size: int) -> Adversary:
    """Make an LKJ factor under a power of its determinant, with counts that inform the scales."""
    eta, power = 1.5, 2.0
    counts = np.array([2, 0, 5, 1])[:size]

    def build() -> pm.Model:
        with pm.Model() as model:
            factor, _, scales = pm.LKJCholeskyCov(
                "factor", n=size, eta=eta, sd_dist=pm.Exponential.dist(1.0, size=size)
            )
            log_diagonal = pm.math.log(pt.diagonal(factor)) - pm.math.log(scales)
            pm.Potential("volume", 2 * power * pm.math.sum(log_diagonal))
            pm.Poisson("count", scales, observed=counts)
        return model

    def log_normalizer(concentration: float) -> float:
        steps = np.arange(1, size)
        return float(
            (
                steps / 2 * np.log(np.pi)
                + gammaln(concentration + (size - 1 - steps) / 2)
                - gammaln(concentration + (size - 1) / 2)
            ).sum()
        )

    def solve() -> Answer:
        log_volume = log_normalizer(eta + power) - log_normalizer(eta)
        return Answer(float(log_volume - ((1 + counts) * np.log(2)).sum()))

    def second() -> float:
        """Take the determinant as a product over a vine of independent partial correlations."""
        total = 0.0
        for step in range(1, size):
            b = eta + (size - 1 - step) / 2
            each = power * np.log(4) + betaln(b + power, b + power) - betaln(b, b)
            total += (size - step) * each
        geometric = stats.geom.logpmf(counts + 1, 0.5).sum()
        return float(total + geometric)

    return Adversary(
        f"correlations_{size}",
        build,
        solve,
        "closed form",
        f"an LKJ prior of {size} dimensions, whose log-density PyMC does not normalise",
        second=second,
    )


def random_interval(name: str, lower: bool) -> Adversary:
    """Make a uniform variable whose bound is random, read precisely."""
    reading, noise = (1.7, 0.2)

    def build() -> pm.Model:
        with pm.Model() as model:
            width = pm.Exponential("width", 1.0)
            start = pm.Normal("start", 0, 1) if lower else 0.0
            place = pm.Uniform("place", start, start + width)
            pm.Normal("reading", place, noise, observed=reading)
        return model

    def solve() -> Answer:
        if not lower:

            def log_joint(log_width: np.ndarray) -> np.ndarray:
                width = np.exp(log_width)
                inside = stats.norm.cdf((width - reading) / noise) - stats.norm.cdf(
                    -reading / noise
                )
                with np.errstate(divide="ignore"):
                    return -width + np.log(inside)

            return solve_on_grid(
                log_joint,
                gauss_legendre(-8, 4.5, 200),
                moments={"width": lambda log_width: np.exp(log_width)},
            )

        def log_both(start: np.ndarray, log_width: np.ndarray) -> np.ndarray:
            width = np.exp(log_width)
            inside = stats.norm.cdf((start + width - reading) / noise) - stats.norm.cdf(
                (start - reading) / noise
            )
            with np.errstate(divide="ignore"):
                return stats.norm.logpdf(start) - width + np.log(inside)

        return solve_on_grid(
            log_both,
            gauss_legendre(-8, 8, 80),
            gauss_legendre(-16, 4.5, 120),
            moments={"start": lambda start, log_width: start + 0 * log_width},
        )

    odds = gauss_legendre(-32, 32, 100, 8)
    plan = Plan(grid={"width": gauss_legendre(-3, 4.2, 60, 8), "place": odds})
    return Adversary(
        name,
        build,
        solve,
        "2-D quadrature" if lower else "1-D quadrature",
        "the interval of a variable moves with other variables",
        Plan(draws=40_000) if lower else plan,
    )


class InverseHyperbolicSine(Transform):
    """A transform that PyMC does not have: the value is asinh(x)."""

    name = "asinh"
    ndim_supp = 0

    def forward(self, value: pt.TensorVariable, *inputs: pt.TensorVariable) -> pt.TensorVariable:
        """Return asinh(x)."""
        return pt.arcsinh(value)

    def backward(self, value: pt.TensorVariable, *inputs: pt.TensorVariable) -> pt.TensorVariable:
        """Return sinh of the value."""
        return pt.sinh(value)

    def log_jac_det(
        self, value: pt.TensorVariable, *inputs: pt.TensorVariable
    ) -> pt.TensorVariable:
        """Return log cosh of the value."""
        return pt.log(pt.cosh(value))


def own_transform() -> Adversary:
    readings = np.array([3.0, -40.0, 0.1])

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Normal("x", 0, 20, shape=3, transform=InverseHyperbolicSine())
            pm.Normal("reading", x, 1.0, observed=readings)
        return model

    def solve() -> Answer:
        log_evidence = stats.norm.logpdf(readings, 0, np.sqrt(401)).sum()
        return Answer(float(log_evidence), {"x[1]": (-40 * 400 / 401, float(np.sqrt(400 / 401)))})

    return Adversary(
        "own_transform",
        build,
        solve,
        "Gaussian algebra",
        "a transform that the user wrote",
        Plan(independent={"x": gauss_legendre(-6, 6, 120, 8)}),
    )


def softplus_scale() -> Adversary:
    values = np.array([0.3, -1.1, 0.8, 0.2])

    def build() -> pm.Model:
        with pm.Model() as model:
            precision = pm.Gamma("precision", 2.0, 1.0, default_transform=transforms.log_exp_m1)
            pm.Normal("value", 0, tau=precision, observed=values)
        return model

    def solve() -> Answer:
        shape, rate = 4.0, 1 + (values**2).sum() / 2
        log_evidence = gammaln(shape) - shape * np.log(rate) - 2 * np.log(2 * np.pi)
        return Answer(
            float(log_evidence), {"precision": (shape / rate, float(np.sqrt(shape) / rate))}
        )

    return Adversary(
        "softplus_precision",
        build,
        solve,
        "closed form",
        "another transform than the default",
        Plan(grid={"precision": gauss_legendre(-20, 30, 80, 8)}),
    )


def one_of_two_orders() -> Adversary:
    """Make two ordered means of a mixture, where the order decides which component is which."""
    values = np.array([-1.9, -2.6, 1.8, 2.4, 1.1, 2.9, 2.2])

    def build() -> pm.Model:
        with pm.Model() as model:
            mean = pm.Normal(
                "mean", 0, 3, shape=2, transform=transforms.ordered, initval=np.array([-1.0, 1.0])
            )
            pm.NormalMixture("value", w=[0.7, 0.3], mu=mean, sigma=1.0, observed=values)
        return model

    def log_joint(first: np.ndarray, gap: np.ndarray) -> np.ndarray:
        last = first + gap
        total = np.log(2) + stats.norm.logpdf(first, 0, 3) + stats.norm.logpdf(last, 0, 3)
        for value in values:
            total = total + np.logaddexp(
                np.log(0.7) + stats.norm.logpdf(value, first),
                np.log(0.3) + stats.norm.logpdf(value, last),
            )
        return total

    def solve() -> Answer:
        return solve_on_grid(
            log_joint,
            gauss_legendre(-16, 16, 40),
            gauss_legendre(0, 32, 40),
            moments={"mean[0]": lambda first, gap: first + 0 * gap},
        )

    return Adversary(
        "ordered_mixture_weights",
        build,
        solve,
        "2-D quadrature",
        "the order contradicts the weights",
        Plan(
            offset=float(np.log(2)),
            grid={"mean": gauss_legendre(-16, 8, 60, 8)},
        ),
    )


_MAKERS: tuple[Callable[[], Adversary], ...] = (
    ordered_shares,
    truncated_tail,
    truncated_gamma,
    zero_sum_table,
    own_transform,
    softplus_scale,
    one_of_two_orders,
)
PROBLEMS: tuple[Adversary, ...] = (
    ordered_normals("ordered_normals_2", [1.0, -0.5], 0.8),
    ordered_normals("ordered_normals_3", [-1.0, 1.5, 1.2], 0.8),
    ordered_normals("ordered_normals_5", [-2.0, -0.3, -0.6, 1.0, 2.5], 0.6),
    ordered_rates("ordered_rates_2", [6, 4]),
    ordered_rates("ordered_rates_4", [1, 5, 3, 9]),
    simplex_corner("simplex_0_01", [0.01, 0.01, 0.01, 0.01], [7, 0, 0, 1]),
    simplex_corner("simplex_0_1", [0.1] * 8, [12, 0, 3, 0, 0, 0, 0, 0]),
    seam_of_the_circle("circle_seam", [3.1, -3.0, 2.7], 4.0),
    seam_of_the_circle("circle_flat", [0.2, 3.1, 1.6, -1.5], 0.5),
    *(correlations(size) for size in (2, 3, 4)),
    random_interval("uniform_random_width", lower=False),
    random_interval("uniform_random_bounds", lower=True),
    *(make() for make in _MAKERS),
)
