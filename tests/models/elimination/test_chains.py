"""Chains of states that are one variable: each state is summed."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import integrate, stats

import pymc_arm
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.prior import PriorSampler

DATA = np.array([-0.8, -1.1, 0.2, 1.4, 1.9, 0.7, -0.5, -1.3, -0.9, 1.6, 1.2, 1.5])
MEANS = np.array([-1.0, 1.3])


def make_chain(length=12):
    extras = pytest.importorskip("pymc_extras")
    with pm.Model() as model:
        stay = pm.Beta("stay", 4, 2)
        matrix = pt.stack([pt.stack([stay, 1 - stay]), pt.stack([1 - stay, stay])])
        first = pm.Categorical.dist(p=[0.5, 0.5])
        states = extras.DiscreteMarkovChain("states", P=matrix, init_dist=first, shape=(length,))
        pm.Normal("y", pt.constant(MEANS)[states], 0.8, observed=np.resize(DATA, length))
    return model


def exact_log_z():
    """Return log of the forward algorithm's likelihood, integrated over its one parameter."""
    likelihood = stats.norm.pdf(DATA[:, None], MEANS, 0.8)

    def at(stay):
        forward = 0.5 * likelihood[0]
        for row in likelihood[1:]:
            forward = (stay * forward + (1 - stay) * forward[::-1]) * row
        return forward.sum() * stats.beta.pdf(stay, 4, 2)

    return np.log(integrate.quad(at, 0, 1, epsabs=1e-14)[0])


def test_a_chain_is_summed_and_exact():
    """Within 4 standard errors: one false alarm in 16,000."""
    model = make_chain()
    path = compile_model(model, marginalize="auto")
    assert path.elimination.names == ("states",)
    assert [(s.low, s.high) for s in path.elimination.density.sums.supports.values()] == [
        (0, 1)
    ] * len(DATA)
    idata = pymc_arm.sample(model, random_seed=3, progressbar=False)
    error = idata.attrs["log_marginal_likelihood"] - exact_log_z()
    assert abs(error) < 4 * idata.attrs["log_marginal_likelihood_se"] + 1e-6
    assert idata.attrs["verdict"] == "ok"


def test_draws_of_a_chain_with_a_random_matrix_are_taken_at_once():
    """The share of changes is 1 - E[stay] = 1/3, within 5 standard errors of 2000 draws."""
    model = make_chain()
    prior = PriorSampler(model)
    draws = dict(
        zip(
            [v.name for v in prior.variables],
            prior.draw(np.random.default_rng(1), 2000),
            strict=True,
        )
    )
    assert not prior.one_by_one
    changes = (draws["states"][:, 1:] != draws["states"][:, :-1]).mean(axis=1)
    assert abs(changes.mean() - 1 / 3) < 5 * changes.std() / np.sqrt(len(changes))
    # Steps of one chain have generators of their own.
    assert len(np.unique(draws["states"], axis=0)) > 500


def test_a_chain_of_ones_own_is_summed():
    matrix = np.array([[0.7, 0.3, 0.0], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]])

    def log_density(value, matrix):
        return pt.log(matrix[value[:-1], value[1:]]).sum() - np.log(3)

    def draw(matrix, rng=None, size=None):
        states = [rng.integers(3)]
        for _ in range(5):
            states.append(rng.choice(3, p=matrix[states[-1]]))
        return np.array(states)

    rows, rate = np.array([0, 1, 3, 2, 6, 1]), np.array([0.5, 2.0, 5.0])
    with pm.Model() as model:
        states = pm.CustomDist(
            "states",
            matrix,
            logp=log_density,
            random=draw,
            signature="(k,k)->(6)",
            dtype="int64",
        )
        pm.Poisson("y", pt.constant(rate)[states], observed=rows)
    forward = stats.poisson.pmf(rows[0], rate) / 3
    for row in rows[1:]:
        forward = (forward @ matrix) * stats.poisson.pmf(row, rate)
    idata = pymc_arm.sample(model, random_seed=1, progressbar=False)
    assert idata.attrs["log_marginal_likelihood"] == pytest.approx(np.log(forward.sum()), abs=1e-4)


# Five visits: an animal is alive when it is marked, and may die from then on.
HISTORIES = np.repeat(
    [[1, 1, 0, 1, 0], [1, 0, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 0, 1], [0, 0, 0, 1, 0]], 4, axis=0
)


def make_recaptures():
    marked = HISTORIES.argmax(axis=1)
    with pm.Model() as model:
        survival, capture = pm.Beta("survival", 1, 1), pm.Beta("capture", 1, 1)
        alive = pt.ones(len(HISTORIES), dtype="int64")
        for visit in range(1, 5):
            chance = pt.switch(marked >= visit, 1.0, alive * survival)
            alive = pm.Bernoulli(f"alive_{visit}", chance, shape=len(HISTORIES))
            free = np.flatnonzero(marked < visit)
            pm.Bernoulli(f"seen_{visit}", alive[free] * capture, observed=HISTORIES[free, visit])
    return model


def exact_recaptures():
    """Return the log of the forward algorithm's likelihood, integrated over both rates."""

    def at(survival, capture):
        total = 1.0
        for history in HISTORIES:
            alive, dead = 1.0, 0.0
            for seen in history[history.argmax() + 1 :]:
                alive, dead = alive * survival, dead + alive * (1 - survival)
                alive, dead = (alive * capture, 0.0) if seen else (alive * (1 - capture), dead)
            total *= alive + dead
        return total

    nodes, weights = np.polynomial.legendre.leggauss(100)
    nodes, weights = (nodes + 1) / 2, weights / 2
    return np.log(weights @ [[at(s, c) for c in nodes] for s in nodes] @ weights)


def test_states_that_are_certain_for_some_are_summed_and_exact():
    """Within 4 standard errors: one false alarm in 16,000."""
    model = make_recaptures()
    assert len(compile_model(model, marginalize="auto").elimination.names) == 4
    idata = pymc_arm.sample(model, random_seed=3, progressbar=False)
    error = idata.attrs["log_marginal_likelihood"] - exact_recaptures()
    assert abs(error) < 4 * idata.attrs["log_marginal_likelihood_se"] + 1e-6
    assert idata.attrs["verdict"] == "ok"
