"""Discrete variables: random bounds, countable supports far out, and several peaks.

The truths sum over everything discrete, and integrate the rest in closed form or on a line.
"""

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import betaln, gammaln, logsumexp

from benchmarks.adversarial.exact import mixed, solve_on_grid
from benchmarks.adversarial.problem import Adversary, Answer
from benchmarks.suite.integrate import Plan
from benchmarks.suite.numerics import Rule, gauss_legendre, log_beta_binomial

__all__ = ["PROBLEMS"]

LOG_ODDS = gauss_legendre(-30, 30, 60, 8)


def counting(lower: int, upper: int) -> Rule:
    """Return the rule that sums over the integers from ``lower`` to ``upper``."""
    return np.arange(lower, upper + 1).astype(float), np.zeros(upper - lower + 1)


def thinned() -> Adversary:
    def build() -> pm.Model:
        with pm.Model() as model:
            animals = pm.Poisson("animals", 40)
            pm.Binomial("seen", n=animals, p=0.3, observed=25)
        return model

    def solve() -> Answer:
        # Unseen animals are Poisson(28) whatever was seen.
        return Answer(float(stats.poisson.logpmf(25, 12)), {"animals": (53.0, np.sqrt(28.0))})

    return Adversary(
        "thinned_poisson",
        build,
        solve,
        "closed form",
        "fewer animals than were seen are impossible, and most prior draws have fewer",
        Plan(enumerated={"animals": np.arange(25, 200)}),
    )


def thinned_unknown_detection() -> Adversary:
    seen = np.array([18, 22, 15])

    def build() -> pm.Model:
        with pm.Model() as model:
            animals = pm.Poisson("animals", 60)
            detection = pm.Beta("detection", 2, 2)
            pm.Binomial("seen", n=animals, p=detection, observed=seen)
        return model

    def solve() -> Answer:
        animals = np.arange(22, 400)
        total = seen.sum()
        log_terms = stats.poisson.logpmf(animals, 60) - betaln(2, 2)
        log_terms = log_terms + betaln(2 + total, 2 + 3 * animals - total)
        for count in seen:
            log_terms = log_terms + gammaln(animals + 1) - gammaln(count + 1)
            log_terms = log_terms - gammaln(animals - count + 1)
        shares = (2 + total) / (4 + 3 * animals)
        spreads = shares * (1 - shares) / (5 + 3 * animals)
        return Answer(
            float(logsumexp(log_terms)),
            {
                "animals": mixed(log_terms, animals, 0.0 * animals),
                "detection": mixed(log_terms, shares, spreads),
            },
        )

    return Adversary(
        "thinned_unknown_detection",
        build,
        solve,
        "countable sum over the closed form",
        "number and detection trade off",
        Plan(enumerated={"animals": np.arange(22, 160)}, grid={"detection": LOG_ODDS}),
    )


def latent_binomial_of_poisson() -> Adversary:
    """Make a count with a random bound, both of them latent."""
    readings = np.array([34.0, 36.5])

    def build() -> pm.Model:
        with pm.Model() as model:
            eggs = pm.Poisson("eggs", 20)
            hatched = pm.Binomial("hatched", n=eggs, p=0.8)
            pm.Normal("reading", hatched, 3, observed=readings)
        return model

    def solve() -> Answer:
        hatched = np.arange(200)
        log_terms = stats.poisson.logpmf(hatched, 16)
        log_terms = log_terms + stats.norm.logpdf(readings[:, None], hatched, 3).sum(0)
        found = mixed(log_terms, hatched, 0.0 * hatched)
        return Answer(
            float(logsumexp(log_terms)),
            {"hatched": found, "eggs": (found[0] + 4, float(np.hypot(found[1], 2)))},
        )

    return Adversary(
        "latent_binomial_of_poisson",
        build,
        solve,
        "countable sum",
        "the bound of one count is another, and the data are far out",
        Plan(enumerated={"eggs": np.arange(110), "hatched": np.arange(80)}),
    )


def uniform_with_random_bound() -> Adversary:
    def build() -> pm.Model:
        with pm.Model() as model:
            bound = pm.Geometric("bound", 0.05)
            place = pm.DiscreteUniform("place", 0, bound)
            pm.Normal("reading", place, 2, observed=np.array([45.0, 47.0]))
        return model

    def solve() -> Answer:
        bounds, places = np.arange(1, 1200)[:, None], np.arange(1200)
        log_terms = stats.geom.logpmf(bounds, 0.05) - np.log(bounds + 1)
        log_terms = np.where(places <= bounds, log_terms, -np.inf)
        log_terms = log_terms + stats.norm.logpdf(places, 45, 2) + stats.norm.logpdf(places, 47, 2)
        moments = {
            "bound": mixed(log_terms, bounds + 0.0 * places, 0.0 * log_terms.clip(0, 0)),
            "place": mixed(log_terms, places + 0.0 * bounds, 0.0 * log_terms.clip(0, 0)),
        }
        return Answer(float(logsumexp(log_terms)), moments)

    return Adversary(
        "uniform_with_random_bound",
        build,
        solve,
        "double sum",
        "the support ends where another variable says, and the data are beyond most of it",
        Plan(enumerated={"bound": np.arange(1, 500), "place": np.arange(90)}),
    )


def german_tanks(name: str, serials: list[int], most: int) -> Adversary:
    seen = np.array(serials)

    def build() -> pm.Model:
        with pm.Model() as model:
            tanks = pm.DiscreteUniform("tanks", 1, most)
            pm.DiscreteUniform("serial", 1, tanks, observed=seen)
        return model

    def solve() -> Answer:
        tanks = np.arange(seen.max(), most + 1)
        log_terms = -len(seen) * np.log(tanks) - np.log(most)
        return Answer(float(logsumexp(log_terms)), {"tanks": mixed(log_terms, tanks, 0.0 * tanks)})

    return Adversary(
        name,
        build,
        solve,
        "finite sum",
        "the data bound the parameter, and the support is long",
        Plan(enumerated={"tanks": np.arange(1, most + 1)}),
    )


def capture_recapture() -> Adversary:
    first, again, fresh = 60, 14, 41

    def build() -> pm.Model:
        with pm.Model() as model:
            animals = pm.DiscreteUniform("animals", 1, 600)
            capture = pm.Beta("capture", 1, 1)
            pm.Binomial("first", n=animals, p=capture, observed=first)
            pm.Binomial("again", n=first, p=capture, observed=again)
            pm.Binomial("fresh", n=animals - first, p=capture, observed=fresh)
        return model

    def solve() -> Answer:
        animals = np.arange(first + fresh, 601)
        hits, tries = first + again + fresh, 2 * animals
        log_terms = betaln(1 + hits, 1 + tries - hits) - np.log(600)
        for count, number in ((first, animals), (again, first), (fresh, animals - first)):
            log_terms = log_terms + gammaln(number + 1) - gammaln(count + 1)
            log_terms = log_terms - gammaln(number - count + 1)
        return Answer(
            float(logsumexp(log_terms)), {"animals": mixed(log_terms, animals, 0.0 * animals)}
        )

    return Adversary(
        "capture_recapture",
        build,
        solve,
        "finite sum over the closed form",
        "a number of trials that is negative at many prior draws",
        Plan(
            enumerated={"animals": np.arange(101, 601)},
            grid={"capture": gauss_legendre(-6, 3, 20, 8)},
        ),
    )


def abundance() -> Adversary:
    """Make Royle's N-mixture with low detection, at six sites."""
    visits = np.array([[2, 4], [0, 1], [5, 3], [1, 1], [9, 6], [0, 0]])

    def build() -> pm.Model:
        with pm.Model() as model:
            rate = pm.Gamma("rate", 2, 0.1)
            animals = pm.Poisson("animals", rate, shape=6)
            pm.Binomial("seen", n=animals[:, None], p=0.2, observed=visits)
        return model

    def log_joint(log_rate: np.ndarray, limit: int = 300) -> np.ndarray:
        animals = np.arange(limit)
        rate = np.exp(log_rate)
        log_poisson = stats.poisson.logpmf(animals, rate[:, None])
        total = stats.gamma.logpdf(rate, 2, scale=10) + log_rate
        for counts in visits:
            log_seen = stats.binom.logpmf(counts[:, None], animals, 0.2).sum(0)
            total = total + logsumexp(log_poisson + log_seen, axis=1)
        return total

    def solve() -> Answer:
        return solve_on_grid(
            log_joint,
            gauss_legendre(-1, 5, 40),
            moments={"rate": lambda log_rate: np.exp(log_rate)},
        )

    return Adversary(
        "abundance",
        build,
        solve,
        "1-D quadrature over countable sums",
        "six counts with lower bounds from the data",
        Plan(
            grid={"rate": gauss_legendre(0, 4.5, 12, 8)},
            independent={"animals": counting(0, 200)},
            start={"animals": 20.0},
        ),
    )


def zero_inflated(name: str, latent: bool) -> Adversary:
    counts = np.array([0, 0, 3, 0, 5, 0, 0, 2, 0, 4, 0, 0])

    def build() -> pm.Model:
        with pm.Model() as model:
            share = pm.Beta("share", 1, 2)
            rate = pm.Gamma("rate", 2, 1)
            if latent:
                present = pm.Bernoulli("present", share, shape=len(counts))
                pm.Poisson("count", rate * present, observed=counts)
            else:
                pm.ZeroInflatedPoisson("count", share, rate, observed=counts)
        return model

    def solve() -> Answer:
        # Sum over how many of the zeros come from places that are present.
        zeros, positive = int((counts == 0).sum()), int((counts > 0).sum())
        of_these = np.arange(zeros + 1)
        present = positive + of_these
        shape, rate = 2 + counts.sum(), 1 + present
        log_terms = gammaln(zeros + 1) - gammaln(of_these + 1) - gammaln(zeros - of_these + 1)
        log_terms = log_terms + betaln(1 + present, 2 + len(counts) - present) - betaln(1, 2)
        log_terms = log_terms + gammaln(shape) - shape * np.log(rate) - gammaln(counts + 1).sum()
        return Answer(
            float(logsumexp(log_terms)), {"rate": mixed(log_terms, shape / rate, shape / rate**2)}
        )

    plan = Plan(
        grid={"share": gauss_legendre(-15, 10, 25, 8), "rate": gauss_legendre(-5, 3.5, 15, 8)},
        independent={"present": counting(0, 1)} if latent else {},
        start={"present": 1.0} if latent else {},
    )
    return Adversary(
        name,
        build,
        solve,
        "finite sum over the closed form",
        "a Poisson with rate zero" if latent else "zeros of two kinds",
        plan,
    )


def change_point() -> Adversary:
    rng = np.random.default_rng(200)
    values = rng.normal(np.where(np.arange(200) < 130, 0.0, 0.7), 1.0)

    def build() -> pm.Model:
        with pm.Model() as model:
            switch = pm.DiscreteUniform("switch", 0, 199)
            early = pm.Normal("early", 0, 10)
            late = pm.Normal("late", 0, 10)
            mean = pm.math.where(np.arange(200) < switch, early, late)
            pm.Normal("value", mean, 1, observed=values)
        return model

    def log_segment(count: np.ndarray, total: np.ndarray) -> np.ndarray:
        return 0.5 * (total**2 / (count + 0.01) - np.log1p(100 * count))

    def solve() -> Answer:
        before = np.arange(200)
        totals = np.r_[0.0, np.cumsum(values)[:-1]]
        log_terms = log_segment(before, totals) + log_segment(200 - before, values.sum() - totals)
        log_terms = log_terms + stats.norm.logpdf(values).sum() - np.log(200)
        late = (values.sum() - totals) / (200 - before + 0.01)
        return Answer(
            float(logsumexp(log_terms)),
            {
                "switch": mixed(log_terms, before, 0.0 * before),
                "late": mixed(log_terms, late, 1 / (200 - before + 0.01)),
            },
        )

    return Adversary(
        "change_point_200",
        build,
        solve,
        "finite sum over Gaussian algebra",
        "two hundred places of a switch under vague means",
        Plan(gaussian=("early", "late"), enumerated={"switch": np.arange(200)}),
    )


def two_change_points() -> Adversary:
    counts = np.array([1, 0, 2, 1, 0, 1, 6, 4, 7, 5, 8, 6, 3, 2, 1, 2, 3, 2, 2, 1])
    size = len(counts)

    def build() -> pm.Model:
        with pm.Model() as model:
            first = pm.DiscreteUniform("first", 0, size)
            second_ = pm.DiscreteUniform("second", first, size)
            rate = pm.Gamma("rate", 2, 1, shape=3)
            place = np.arange(size)
            segment = pm.math.ge(place, first).astype(int) + pm.math.ge(place, second_).astype(int)
            pm.Poisson("count", rate[segment], observed=counts)
        return model

    def solve() -> Answer:
        sums = np.r_[0, np.cumsum(counts)]
        log_terms, firsts = [], []
        for first in range(size + 1):
            for last in range(first, size + 1):
                log_term = -np.log(size + 1) - np.log(size + 1 - first)
                for low, high in ((0, first), (first, last), (last, size)):
                    shape = 2 + sums[high] - sums[low]
                    log_term += gammaln(shape) - shape * np.log(1 + high - low)
                log_terms.append(log_term)
                firsts.append(first)
        log_sum = np.array(log_terms) - gammaln(counts + 1).sum()
        found = mixed(log_sum, np.array(firsts), np.zeros(len(firsts)))
        return Answer(float(logsumexp(log_sum)), {"first": found})

    def second() -> float:
        rates, log_weights = gauss_legendre(-9, 5, 60)
        log_prior = stats.gamma.logpdf(np.exp(rates), 2) + rates + log_weights
        log_counts = stats.poisson.logpmf(counts[:, None], np.exp(rates))
        log_segment = np.array(
            [
                [logsumexp(log_prior + log_counts[low:high].sum(0)) for high in range(size + 1)]
                for low in range(size + 1)
            ]
        )
        log_terms = [
            log_segment[0, first]
            + log_segment[first, last]
            + log_segment[last, size]
            - np.log((size + 1) * (size + 1 - first))
            for first in range(size + 1)
            for last in range(first, size + 1)
        ]
        return float(logsumexp(log_terms))

    return Adversary(
        "two_change_points",
        build,
        solve,
        "finite sum over the closed form",
        "the second switch begins at the first",
        second=second,
    )


def categorical_fifty() -> Adversary:
    rng = np.random.default_rng(50)
    probabilities = rng.dirichlet(np.full(50, 0.3))
    means = rng.normal(0, 10, 50)
    readings = np.array([-6.0, 0.5, 9.0])

    def build() -> pm.Model:
        with pm.Model() as model:
            label = pm.Categorical("label", probabilities, shape=3)
            pm.Normal("reading", pm.math.constant(means)[label], 1.5, observed=readings)
        return model

    def solve() -> Answer:
        log_terms = np.log(probabilities) + stats.norm.logpdf(readings[:, None], means, 1.5)
        return Answer(float(logsumexp(log_terms, axis=1).sum()))

    return Adversary(
        "categorical_50",
        build,
        solve,
        "finite sums",
        "fifty values in no order, some with probability 1e-8",
        Plan(independent={"label": counting(0, 49)}),
    )


def truncated_count() -> Adversary:
    readings = np.array([11.0, 13.5])

    def build() -> pm.Model:
        with pm.Model() as model:
            count = pm.Truncated("count", pm.Poisson.dist(4.0), lower=6, upper=30)
            pm.Normal("reading", count, 1.0, observed=readings)
        return model

    def solve() -> Answer:
        counts = np.arange(6, 31)
        log_prior = stats.poisson.logpmf(counts, 4.0)
        log_terms = log_prior - logsumexp(log_prior)
        log_terms = log_terms + stats.norm.logpdf(readings[:, None], counts, 1.0).sum(0)
        return Answer(
            float(logsumexp(log_terms)), {"count": mixed(log_terms, counts, 0.0 * counts)}
        )

    return Adversary(
        "truncated_poisson",
        build,
        solve,
        "finite sum",
        "a truncated count in the tail of its parent",
        Plan(enumerated={"count": np.arange(6, 31)}),
    )


def far_count() -> Adversary:
    def build() -> pm.Model:
        with pm.Model() as model:
            # PyTensor 3 keeps Python numbers in single precision, which is off by 5e-4 here.
            photons = pm.NegativeBinomial("photons", mu=np.float64(10_000), alpha=np.float64(5))
            pm.Normal("reading", photons, 3.0, observed=np.array([18_250.0, 18_252.0]))
        return model

    def solve() -> Answer:
        photons = np.arange(18_000, 18_500)
        log_terms = stats.nbinom.logpmf(photons, 5, 5 / 10_005)
        log_terms = log_terms + stats.norm.logpdf(photons, 18_250, 3)
        log_terms = log_terms + stats.norm.logpdf(photons, 18_252, 3)
        return Answer(
            float(logsumexp(log_terms)), {"photons": mixed(log_terms, photons, 0.0 * photons)}
        )

    return Adversary(
        "far_count",
        build,
        solve,
        "countable sum",
        "a count of 18 000 known to 2, with a prior of a width of 4500",
        Plan(enumerated={"photons": np.arange(18_100, 18_400)}),
    )


def overdispersed_trials() -> Adversary:
    """Make shares and counts where the counts' bound is data of many sizes."""
    trials = np.array([3, 50, 1000])

    def build() -> pm.Model:
        with pm.Model() as model:
            hits = pm.BetaBinomial("hits", alpha=0.5, beta=0.5, n=trials)
            pm.Normal("reading", hits / trials, 0.05, observed=np.array([0.6, 0.02, 0.97]))
        return model

    def solve() -> Answer:
        total = 0.0
        for number, reading in zip(trials, [0.6, 0.02, 0.97], strict=True):
            hits = np.arange(number + 1)
            log_terms = log_beta_binomial(hits, number, 0.5, 0.5)
            total += logsumexp(log_terms + stats.norm.logpdf(reading, hits / number, 0.05))
        return Answer(float(total))

    return Adversary(
        "overdispersed_trials",
        build,
        solve,
        "finite sums",
        "supports of 4, 51 and 1001 values in one variable, peaked at their ends",
        Plan(independent={"hits": counting(0, 1000)}),
        second=lambda: float(
            sum(
                np.log(
                    sum(
                        stats.betabinom.pmf(k, n, 0.5, 0.5) * stats.norm.pdf(y, k / n, 0.05)
                        for k in range(n + 1)
                    )
                )
                for n, y in zip(trials, [0.6, 0.02, 0.97], strict=True)
            )
        ),
    )


PROBLEMS: tuple[Adversary, ...] = (
    thinned(),
    thinned_unknown_detection(),
    latent_binomial_of_poisson(),
    uniform_with_random_bound(),
    german_tanks("german_tanks", [19, 40, 42, 60], 1000),
    german_tanks("german_tanks_edge", [4001, 4988, 3500], 5000),
    capture_recapture(),
    abundance(),
    zero_inflated("zero_inflated", latent=False),
    zero_inflated("zero_inflated_latent", latent=True),
    change_point(),
    two_change_points(),
    categorical_fifty(),
    truncated_count(),
    far_count(),
    overdispersed_trials(),
)
