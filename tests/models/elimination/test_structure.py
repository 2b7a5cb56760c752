"""Runs on models whose discrete variables are summed, against exact values of log Z.

Errors must be within four standard errors (a false alarm once in 16,000 for a normal error), and
standard errors below 0.01 where one or two variables are left. Seeds are fixed. The problems, and
larger ones, are those of ``python -m benchmarks structure``.
"""

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats

import pymc_arm
from benchmarks import structure

OPTIONS = {"draws": 300, "random_seed": 5, "progressbar": False}


def run(problem, **options):
    return pymc_arm.sample(problem.build(), **{**OPTIONS, **options})


def assert_right(result, problem, largest):
    error = result.attrs["log_marginal_likelihood"] - problem.exact()
    standard_error = result.attrs["log_marginal_likelihood_se"]
    assert standard_error < largest
    assert abs(error) < 4 * standard_error + 1e-5, f"{error / standard_error:.1f} standard errors"


@pytest.mark.parametrize(
    ("problem", "states"),
    [
        (structure.grid(2, 6, 0.4), 2),
        (structure.grid(3, 4, 0.5), 3),
        (structure.indicators(8), 2),
    ],
    ids=["ising", "potts", "indicators"],
)
def test_where_nothing_is_left_log_z_is_exact(problem, states):
    result = run(problem, draws=50)
    # That of single precision, which PyTensor has for priors of whole numbers.
    standard_error = result.attrs["log_marginal_likelihood_se"]
    assert standard_error < 5e-6
    error = result.attrs["log_marginal_likelihood"] - problem.exact()
    assert abs(error) < 4 * standard_error
    (name,) = result.posterior.data_vars
    assert set(np.unique(result.posterior[name])) <= set(range(states))


@pytest.mark.parametrize("start", ["prior", "reference"])
def test_both_starts_of_a_hidden_markov_model(start):
    problem = structure.hmm_scale(3, 40)
    result = run(problem, start=start)
    assert_right(result, problem, 0.01)
    assert result.attrs["start"] == start
    assert result.attrs["summed"] == "state"


@pytest.mark.parametrize(
    "problem",
    [
        structure.hmm_matrix(40),
        structure.grid(2, 4, None),
        structure.mixture(100),
        structure.noisy_or(8, 10),
    ],
    ids=["transitions", "ising", "mixture", "noisy_or"],
)
def test_one_or_two_variables_are_left(problem):
    assert_right(run(problem), problem, 0.01)


@pytest.mark.parametrize(
    "problem",
    [
        structure.change_points(2, 24, 6.0),
        structure.change_points(3, 12, 6.0),
        structure.spike_and_slab(5),
    ],
    ids=["two_changes", "three_changes", "spike_and_slab"],
)
def test_several_variables_are_left(problem):
    assert_right(run(problem), problem, 0.05)


def test_a_hidden_markov_model_with_everything_unknown():
    problem = structure.hmm_everything(40)
    assert_right(run(problem, start="reference"), problem, 0.05)


def test_draws_of_the_discrete_variables_have_their_exact_probabilities():
    """Chi-square of four states in turn, 4 x 1000 draws; a false alarm once in 10,000 tests.

    Nothing is left, so that draws are independent and their probabilities known.
    """
    data, matrix = structure.hidden_states(3, 12), structure._transitions(3)
    with pm.Model() as model:
        state = pm.Categorical("state", p=np.full(3, 1 / 3), shape=12)
        pm.Potential("transition", pm.math.log(3 * matrix)[state[:-1], state[1:]])
        pm.Normal("y", 2.0 * state, 1, observed=data)
    result = pymc_arm.sample(model, draws=1000, random_seed=3, progressbar=False)
    emissions = stats.norm.logpdf(data[:, None], 2.0 * np.arange(3), 1)
    forwards, backwards = [emissions[0]], [np.zeros(3)]
    for emission in emissions[1:]:
        last = special.logsumexp(forwards[-1][:, None] + np.log(matrix), axis=0)
        forwards.append(last + emission)
    for emission in emissions[:0:-1]:
        backwards.append(special.logsumexp(np.log(matrix) + emission + backwards[-1], axis=1))
    marginals = special.softmax(np.array(forwards) + np.array(backwards[::-1]), axis=1)
    draws = result.posterior["state"].values.reshape(-1, 12)
    for step in (0, 4, 7, 11):
        counts = np.bincount(draws[:, step], minlength=3)
        often = marginals[step] > 1e-3
        expected = marginals[step][often] * counts[often].sum() / marginals[step][often].sum()
        assert stats.chisquare(counts[often], expected).pvalue > 2.5e-5


def test_draws_come_with_deterministics_and_the_right_means():
    """Posterior probabilities of labels, within five standard errors of 2000 draws."""
    data = np.array([-1.0, 0.2, 0.9, 2.5])
    with pm.Model() as model:
        mean = pm.Normal("mean", 1.0, 0.5)
        label = pm.Bernoulli("label", 0.5, shape=4)
        pm.Deterministic("shift", 2 * label)
        pm.Normal("y", mean * label, 0.7, observed=data)
    result = pymc_arm.sample(model, draws=500, random_seed=2, progressbar=False)
    grid = np.linspace(-2, 4, 2001)
    one = stats.norm.logpdf(data[:, None], grid, 0.7)
    other = stats.norm.logpdf(data, 0, 0.7)[:, None]
    density = special.softmax(
        stats.norm.logpdf(grid, 1, 0.5) + np.logaddexp(one, other).sum(axis=0)
    )
    expected = (special.expit(one - other) * density).sum(axis=1)
    found = result.posterior["label"].values.reshape(-1, 4)
    np.testing.assert_array_equal(result.posterior["shift"].values.reshape(-1, 4), 2 * found)
    assert result.posterior["label"].dtype.kind == "i"
    assert (np.abs(found.mean(axis=0) - expected) < 5 * 0.5 / np.sqrt(2000)).all()


def test_the_density_is_that_of_pymc_extras():
    extras = pytest.importorskip("pymc_extras")
    data = np.array([-1.0, 0.2, 0.9, 2.5])
    with pm.Model() as model:
        mean = pm.Normal("mean", [-1.0, 1.0], 1.0)
        label = pm.Bernoulli("label", 0.3, shape=4)
        pm.Normal("y", mean[label], 1, observed=data)
    theirs = extras.marginalize(model, ["label"]).compile_logp(mode="FAST_COMPILE")
    from pymc_arm.models.compiled import compile_model

    path = compile_model(model, marginalize="auto")
    for point in path.density.reference[:5]:
        assert path.log_density(point[None])[0] == pytest.approx(theirs({"mean": point}))


def test_what_is_not_summed_comes_in_as_before():
    """A count that is to be kept comes in from the prior; labels given it are summed."""
    data = np.array([3.4, 5.2, 4.1, 2.6])
    with pm.Model() as model:
        count = pm.Poisson("count", 3.0)
        label = pm.Bernoulli("label", 0.3, shape=4)
        pm.Normal("y", count + 1.5 * label, 1, observed=data)
    result = pymc_arm.sample(model, marginalize=["label"], **OPTIONS)
    counts = np.arange(60)[:, None]
    logs = np.logaddexp(
        np.log(0.7) + stats.norm.logpdf(data, counts, 1),
        np.log(0.3) + stats.norm.logpdf(data, counts + 1.5, 1),
    )
    exact = special.logsumexp(logs.sum(axis=1) + stats.poisson.logpmf(counts[:, 0], 3))
    assert result.attrs["summed"] == "label"
    error = result.attrs["log_marginal_likelihood"] - exact
    assert abs(error) < 4 * result.attrs["log_marginal_likelihood_se"] + 1e-5
