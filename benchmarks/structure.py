"""Models whose discrete variables are summed, with an exact log Z: error, standard error, CPU time.

``python -m benchmarks structure [name ...] [--draws N] [--marginalize no]`` runs those whose name
begins so. Exact values come from the forward algorithm, transfer matrices or closed forms, inside
of quadrature over the one or two variables that are left.
"""

import argparse
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import special, stats

import pymc_arm
from benchmarks.limited import cpu_seconds

__all__ = ["COMMANDS", "PROBLEMS", "Problem"]


@dataclass(frozen=True)
class Problem:
    """A model, what its log Z is, and the options that it is run with."""

    build: Callable[[], pm.Model]
    exact: Callable[[], float]
    draws: int = 1000


def _log_trapezoid(logs: np.ndarray, *grids: np.ndarray) -> float:
    """Return the log of the integral of exp(logs) over a grid."""
    largest = logs.max()
    values = np.exp(logs - largest)
    for grid in reversed(grids):
        values = np.trapezoid(values, grid, axis=-1)
    return float(largest + np.log(values))


# --- hidden Markov models


def _transitions(states: int, stay: float = 0.8) -> np.ndarray:
    matrix = np.full((states, states), (1 - stay) / (states - 1))
    np.fill_diagonal(matrix, stay)
    return matrix


def hidden_states(states: int, steps: int, scale: float = 1.0) -> np.ndarray:
    """Return data of a chain whose states have means 0, 2, 4, ..."""
    rng = np.random.default_rng(steps + states)
    matrix, state, data = _transitions(states), 0, []
    for _ in range(steps):
        state = rng.choice(states, p=matrix[state])
        data.append(2.0 * state + scale * rng.normal())
    return np.array(data)


def forward(log_emissions: np.ndarray, log_transitions: np.ndarray) -> np.ndarray:
    """Return the log-likelihood of (steps, states, ...) emissions, from a uniform first state."""
    states = log_emissions.shape[1]
    message = log_emissions[0] - np.log(states)
    log_transitions = log_transitions.reshape(
        log_transitions.shape + (1,) * (message.ndim + 1 - log_transitions.ndim)
    )
    for emission in log_emissions[1:]:
        message = special.logsumexp(message[:, None] + log_transitions, axis=0) + emission
    return special.logsumexp(message, axis=0)


def hmm_means(steps: int) -> Problem:
    """Two states with unknown means, which may be exchanged."""
    data, matrix = hidden_states(2, steps), _transitions(2)

    def build() -> pm.Model:
        with pm.Model() as model:
            mean = pm.Normal("mean", 0, 3, shape=2)
            state = pm.Categorical("state", p=[0.5, 0.5], shape=steps)
            pm.Potential("transition", pt.constant(np.log(2 * matrix))[state[:-1], state[1:]])
            pm.Normal("y", mean[state], 1, observed=data)
        return model

    def exact() -> float:
        width = 6 / np.sqrt(steps / 4)
        near = [np.linspace(m - width, m + width, 121) for m in _modes(data, matrix)]
        wide = [np.linspace(-4, 7, 181)] * 2
        grids, folds = (near, 2) if steps > 200 else (wide, 1)
        points = np.stack(np.meshgrid(*grids, indexing="ij"))
        emissions = np.stack([stats.norm.logpdf(y, points, 1) for y in data])
        logs = forward(emissions, np.log(matrix)) + stats.norm.logpdf(points, 0, 3).sum(axis=0)
        return _log_trapezoid(logs, *grids) + np.log(folds)

    return Problem(build, exact)


def _modes(data: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    from scipy.optimize import minimize

    def loss(means: np.ndarray) -> float:
        emissions = stats.norm.logpdf(data[:, None], means, 1)
        return -float(forward(emissions, np.log(matrix)))

    return minimize(loss, [0.0, 2.0], method="Nelder-Mead").x


def hmm_scale(states: int, steps: int) -> Problem:
    """States with known means and one unknown scale."""
    data, matrix = hidden_states(states, steps, 0.7), _transitions(states)
    means = 2.0 * np.arange(states)

    def build() -> pm.Model:
        with pm.Model() as model:
            scale = pm.HalfNormal("scale", 1)
            state = pm.Categorical("state", p=np.full(states, 1 / states), shape=steps)
            table = pt.constant(np.log(states * matrix))
            pm.Potential("transition", table[state[:-1], state[1:]])
            pm.Normal("y", pt.constant(means)[state], scale, observed=data)
        return model

    def exact() -> float:
        grid = np.linspace(0.3, 1.8, 1201)
        emissions = np.stack([stats.norm.logpdf(y, means[:, None], grid) for y in data])
        logs = forward(emissions, np.log(matrix)) + stats.halfnorm.logpdf(grid)
        return _log_trapezoid(logs, grid)

    return Problem(build, exact)


def hmm_matrix(steps: int) -> Problem:
    """Two states of known means, with an unknown transition matrix."""
    data = hidden_states(2, steps)

    def build() -> pm.Model:
        with pm.Model() as model:
            stay = pm.Beta("stay", 3, 1, shape=2)
            rows = pt.stack([pt.stack([stay[0], 1 - stay[0]]), pt.stack([1 - stay[1], stay[1]])])
            state = pm.Categorical("state", p=[0.5, 0.5], shape=steps)
            pm.Potential("transition", pt.log(2 * rows)[state[:-1], state[1:]])
            pm.Normal("y", 2.0 * state, 1, observed=data)
        return model

    def exact() -> float:
        grid = np.linspace(0.0005, 0.9995, 400)
        one, other = np.meshgrid(grid, grid, indexing="ij")
        logs = np.log(np.array([[one, 1 - one], [1 - other, other]]))
        emissions = stats.norm.logpdf(data[:, None], [0.0, 2.0], 1)[..., None, None]
        total = forward(emissions, logs)
        total = total + stats.beta.logpdf(one, 3, 1) + stats.beta.logpdf(other, 3, 1)
        return _log_trapezoid(total, grid, grid)

    return Problem(build, exact)


def hmm_everything(steps: int) -> Problem:
    """Two ordered states: unknown means, scale and transitions."""
    data = hidden_states(2, steps)

    def build() -> pm.Model:
        with pm.Model() as model:
            low = pm.Normal("low", 0, 1)
            gap = pm.HalfNormal("gap", 3)
            scale = pm.HalfNormal("scale", 1)
            stay = pm.Beta("stay", 3, 1, shape=2)
            rows = pt.stack([pt.stack([stay[0], 1 - stay[0]]), pt.stack([1 - stay[1], stay[1]])])
            state = pm.Categorical("state", p=[0.5, 0.5], shape=steps)
            pm.Potential("transition", pt.log(2 * rows)[state[:-1], state[1:]])
            pm.Normal("y", low + gap * state, scale, observed=data)
        return model

    def log_density(x: np.ndarray) -> np.ndarray:
        low, log_gap, log_scale, *logits = x
        gap, scale = np.exp(log_gap), np.exp(log_scale)
        stay = special.expit(np.array(logits))
        log_stay, log_leave = (
            special.log_expit(np.array(logits)),
            special.log_expit(-np.array(logits)),
        )
        matrix = np.array([[log_stay[0], log_leave[0]], [log_leave[1], log_stay[1]]])
        emissions = np.stack([stats.norm.logpdf(y, [low, low + gap], scale) for y in data])
        total = forward(emissions, matrix) + stats.norm.logpdf(low)
        total = total + stats.halfnorm.logpdf(gap, 0, 3) + log_gap
        total = total + stats.halfnorm.logpdf(scale) + log_scale
        priors = stats.beta.logpdf(stay, 3, 1) + log_stay + log_leave
        return total + priors.sum(axis=0)

    def exact() -> float:
        """Return what 300,000 draws of a Student-t say, which is fitted to draws before."""
        rng = np.random.default_rng(0)
        center, shape = np.array([0.0, 0.7, 0.0, 1.4, 1.4]), 0.25 * np.eye(5)
        for size in (20_000, 20_000, 20_000, 300_000):
            student = stats.multivariate_t(center, shape, df=5, seed=rng)
            draws = student.rvs(size)
            logs = log_density(draws.T) - student.logpdf(draws)
            weights = special.softmax(logs)
            center = weights @ draws
            shape = 1.2 * np.cov(draws.T, aweights=weights)
        return float(special.logsumexp(logs) - np.log(len(logs)))

    return Problem(build, exact)


# --- grids


def _log_transfer(states: int, columns: int, rows: int, coupling: float) -> float:
    """Return the log of the sum over a grid of exp(coupling * equal neighbours)."""
    configurations = np.array(list(itertools.product(range(states), repeat=columns)))
    inside = (configurations[:, 1:] == configurations[:, :-1]).sum(axis=1)
    log_row = coupling * inside
    message = log_row.astype(float)
    link = np.exp(coupling * (np.arange(states)[:, None] == np.arange(states)))
    for _ in range(rows - 1):
        largest = message.max()
        table = np.exp(message - largest).reshape((states,) * columns)
        for axis in range(columns):  # a row of links is a product, one column at a time
            table = np.moveaxis(np.tensordot(link, table, axes=(1, axis)), 0, axis)
        message = np.log(table.ravel()) + largest + log_row
    return float(special.logsumexp(message))


def grid(states: int, side: int, coupling: float | None) -> Problem:
    """Potts model (Ising for two states) on a square, with a fixed or an unknown coupling."""

    def build() -> pm.Model:
        with pm.Model() as model:
            strength = coupling if coupling is not None else pm.HalfNormal("coupling", 3 / side**2)
            spin = pm.Categorical("spin", p=np.full(states, 1 / states), shape=(side, side))
            for name, pairs in (
                ("across", pt.eq(spin[:, 1:], spin[:, :-1])),
                ("down", pt.eq(spin[1:], spin[:-1])),
            ):
                pm.Potential(name, strength * pairs.astype("float64"))
        return model

    def exact() -> float:
        uniform = side * side * np.log(states)
        if coupling is not None:
            return _log_transfer(states, side, side, coupling) - uniform
        # Z grows by a factor of exp for each of 2 side^2 pairs, and the prior keeps up with that.
        values = np.linspace(0, 3, 301)
        logs = np.array([_log_transfer(states, side, side, value) for value in values])
        return _log_trapezoid(
            logs - uniform + stats.halfnorm.logpdf(values, 0, 3 / side**2), values
        )

    return Problem(build, exact, draws=200 if coupling is None else 1000)


# --- labels, causes, change points, indicators


def mixture(count: int) -> Problem:
    """Two components with unknown means; a label for each observation."""
    rng = np.random.default_rng(count)
    data = np.where(rng.random(count) < 0.3, -1.0, 1.5) + rng.normal(size=count)

    def build() -> pm.Model:
        with pm.Model() as model:
            mean = pm.Normal("mean", [-1.0, 1.0], 1.0)
            label = pm.Bernoulli("label", 0.7, shape=count)
            pm.Normal("y", mean[label], 1, observed=data)
        return model

    def exact() -> float:
        grids = [np.linspace(-2.5, 2.5, 401)] * 2
        one, other = np.meshgrid(*grids, indexing="ij")
        logs = stats.norm.logpdf(one, -1, 1) + stats.norm.logpdf(other, 1, 1)
        for y in data:
            logs = logs + np.logaddexp(
                np.log(0.3) + stats.norm.logpdf(y, one, 1),
                np.log(0.7) + stats.norm.logpdf(y, other, 1),
            )
        return _log_trapezoid(logs, *grids)

    return Problem(build, exact)


def noisy_or(causes: int = 12, effects: int = 20) -> Problem:
    """Causes with an unknown strength, each of which may bring about a few effects."""
    rng = np.random.default_rng(3)
    links = np.array([rng.choice(causes, 3, replace=False) for _ in range(effects)])
    seen = rng.random(effects) < 0.4

    def build() -> pm.Model:
        with pm.Model() as model:
            strength = pm.Beta("strength", 2, 2)
            cause = pm.Bernoulli("cause", 0.2, shape=causes)
            absent = 0.95 * pt.prod(1 - strength * cause[links], axis=1)
            pm.Bernoulli("effect", 1 - absent, observed=seen.astype(int))
        return model

    def exact() -> float:
        values = np.linspace(1e-4, 1 - 1e-4, 400)
        every = np.array(list(itertools.product((0, 1), repeat=causes)))
        prior = stats.bernoulli.logpmf(every, 0.2).sum(axis=1)
        number = every[:, links].sum(axis=2)
        logs = []
        for value in values:
            absent = 0.95 * (1 - value) ** number
            likelihood = np.where(seen, np.log1p(-absent), np.log(absent)).sum(axis=1)
            logs.append(special.logsumexp(prior + likelihood) + stats.beta.logpdf(value, 2, 2))
        return _log_trapezoid(np.array(logs), values)

    return Problem(build, exact)


def change_points(points: int, years: int, scale: float = 1.0) -> Problem:
    """Poisson counts whose rate changes at unknown years; the clearer the larger rates are."""
    rng = np.random.default_rng(5)
    rates = scale * np.array([4.0, 1.5, 5.0, 2.0])
    segment = np.arange(years) * (points + 1) // years
    counts = rng.poisson(rates[segment])

    def build() -> pm.Model:
        with pm.Model() as model:
            rate = pm.Gamma("rate", 2.0, 1.0 / scale, shape=points + 1)
            switches = [pm.DiscreteUniform(f"switch_{k}", 0, years) for k in range(points)]
            # The number of switch points that have passed is the segment.
            passed = sum(pt.ge(np.arange(years), switch).astype("int64") for switch in switches)
            pm.Poisson("y", rate[passed], observed=counts)
        return model

    def exact() -> float:
        def log_segment(total: np.ndarray, length: np.ndarray) -> np.ndarray:
            posterior = special.gammaln(2 + total) - (2 + total) * np.log(length + 1 / scale)
            return posterior - 2 * np.log(scale)

        ends = np.concatenate([[0], np.cumsum(counts)])
        logs = []
        for places in itertools.combinations_with_replacement(range(years + 1), points):
            cuts = np.array([0, *places, years])
            ways = special.gammaln(points + 1) - sum(
                special.gammaln(places.count(p) + 1) for p in set(places)
            )
            logs.append(log_segment(np.diff(ends[cuts]), np.diff(cuts)).sum() + ways)
        constant = special.gammaln(counts + 1).sum() + points * np.log(years + 1)
        return float(special.logsumexp(logs) - constant)

    return Problem(build, exact)


def _regression(size: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    table = rng.normal(size=(size, columns))
    truth = np.where(np.arange(columns) % 4 == 0, 1.0, 0.0)
    return table, table @ truth + rng.normal(size=size)


def _log_slabs(table: np.ndarray, y: np.ndarray, spike: float) -> float:
    """Return log Z of slopes of scale 1 or of the spike's, with probability 0.25 of the first."""
    columns, logs = table.shape[1], []
    for chosen in itertools.product((0, 1), repeat=columns):
        scales = np.where(chosen, 1.0, spike)
        covariance = np.eye(len(y)) + (table * scales**2) @ table.T
        factor = np.linalg.cholesky(covariance)
        white = np.linalg.solve(factor, y)
        likelihood = -0.5 * white @ white - np.log(np.diag(factor)).sum()
        prior = np.log(np.where(chosen, 0.25, 0.75)).sum()
        logs.append(likelihood + prior)
    return float(special.logsumexp(logs) - 0.5 * len(y) * np.log(2 * np.pi))


def spike_and_slab(columns: int = 12) -> Problem:
    """Return slopes whose scales have an indicator each: their prior is a sum."""
    table, y = _regression(40, columns)

    def build() -> pm.Model:
        with pm.Model() as model:
            slab = pm.Bernoulli("slab", 0.25, shape=columns)
            slope = pm.Normal("slope", 0, pt.switch(slab, 1.0, 0.1), shape=columns)
            pm.Normal("y", table @ slope, 1, observed=y)
        return model

    return Problem(build, lambda: _log_slabs(table, y, 0.1))


def indicators(columns: int = 12) -> Problem:
    """Return indicators of slopes that are integrated already: nothing is left."""
    table, y = _regression(15, columns)

    def build() -> pm.Model:
        with pm.Model() as model:
            slab = pm.Bernoulli("slab", 0.25, shape=columns)
            covariance = np.eye(len(y)) + pt.dot(table * slab, table.T)
            pm.MvNormal("y", np.zeros(len(y)), covariance, observed=y)
        return model

    return Problem(build, lambda: _log_slabs(table, y, 0.0))


PROBLEMS: dict[str, Problem] = {
    "hmm_40_means": hmm_means(40),
    "hmm_2000_means": hmm_means(2000),
    "hmm_4x200_scale": hmm_scale(4, 200),
    "hmm_8x40_scale": hmm_scale(8, 40),
    "hmm_40_matrix": hmm_matrix(40),
    "hmm_100_everything": hmm_everything(100),
    "ising_10": grid(2, 10, 0.4),
    "ising_6_unknown": grid(2, 6, None),
    "ising_10_unknown": grid(2, 10, None),
    "potts_6": grid(3, 6, 0.5),
    "potts_4_unknown": grid(3, 4, None),
    "mixture_500": mixture(500),
    "noisy_or": noisy_or(),
    "change_points_1": change_points(1, 111),
    "change_points_2": change_points(2, 60),
    "change_points_3": change_points(3, 20),
    "spike_and_slab_12": spike_and_slab(),
    "indicators_12": indicators(),
}


def run(arguments: Sequence[str]) -> None:
    """Run problems, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks structure")
    parser.add_argument("names", nargs="*", help="beginnings of names; by default all")
    parser.add_argument("--draws", type=int, help="particles of each of 4 chains")
    parser.add_argument("--marginalize", choices=("auto", "no"), default="auto")
    options = parser.parse_args(arguments)
    print(
        f"{'problem':20s} {'error':>9s} {'se':>8s} {'error/se':>8s} {'CPU s':>7s}  start, verdict"
    )
    for name, problem in PROBLEMS.items():
        if options.names and not name.startswith(tuple(options.names)):
            continue
        model, began = problem.build(), cpu_seconds()
        result = pymc_arm.sample(
            model,
            draws=options.draws or problem.draws,
            random_seed=1,
            progressbar=False,
            marginalize="auto" if options.marginalize == "auto" else False,
        )
        seconds, attributes = cpu_seconds() - began, result.attrs
        error = attributes["log_marginal_likelihood"] - problem.exact()
        standard_error = attributes["log_marginal_likelihood_se"]
        ratio = error / standard_error if standard_error else 0.0
        print(
            f"{name:20s} {error:+9.5f} {standard_error:8.5f} {ratio:+8.2f} {seconds:7.1f}  "
            f"{attributes.get('start')}, {attributes.get('verdict')}",
            flush=True,
        )


COMMANDS = {"structure": run}
