"""Large fields: a precision E C E, of which only the diagonal E changes with the parameters."""

import numpy as np
import pymc as pm
import pytest
import scipy

import pymc_arm
from pymc_arm.errors import PathError
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.fields import factors
from pymc_arm.models.fields.choose import find_field
from pymc_arm.models.fields.scaled import ScaledConditional, ScaledFactor
from pymc_arm.models.reference.choose import choose_path
from pymc_arm.models.reference.target import SharedTarget

SUBJECTS, ITEMS, ROWS = 30, 25, 300
RNG = np.random.default_rng(4)
SUBJECT, ITEM = RNG.integers(SUBJECTS, size=ROWS), RNG.integers(ITEMS, size=ROWS)
MEANS = 0.5 + 0.7 * RNG.normal(size=SUBJECTS)[SUBJECT] + 0.4 * RNG.normal(size=ITEMS)[ITEM]
Y = MEANS + RNG.normal(size=ROWS)


def crossed(centred=False):
    """Return crossed effects of unknown scales, with normal data."""
    with pm.Model() as model:
        level = pm.Normal("level", 0, 10)
        scales = pm.HalfNormal("scale_of_subjects", 1), pm.HalfNormal("scale_of_items", 1)
        width = scales if centred else (1.0, 1.0)
        subject = pm.Normal("subject", 0, width[0], shape=SUBJECTS)
        item = pm.Normal("item", 0, width[1], shape=ITEMS)
        if not centred:
            subject, item = scales[0] * subject, scales[1] * item
        pm.Normal("y", level + subject[SUBJECT] + item[ITEM], 1, observed=Y)
    return model


def design():
    columns = [np.ones((ROWS, 1)), np.eye(SUBJECTS)[SUBJECT], np.eye(ITEMS)[ITEM]]
    return np.concatenate(columns, axis=1)


def evidence(log_scales):
    """Return the log-density of data and log scales: the data are jointly normal."""
    scales, effects = np.exp(log_scales), design()
    variances = np.repeat([100.0, *scales**2], [1, SUBJECTS, ITEMS])
    precision = effects.T @ effects + np.diag(1 / variances)
    lower = np.linalg.cholesky(precision)
    whitened = scipy.linalg.solve_triangular(lower, effects.T @ Y, lower=True)
    log_f = -0.5 * (Y @ Y - whitened @ whitened) - 0.5 * ROWS * np.log(2 * np.pi)
    log_f -= np.log(np.diag(lower)).sum() + 0.5 * np.log(variances).sum()
    return log_f + (scipy.stats.halfnorm.logpdf(scales) + log_scales).sum()


def exact(points=61):
    first, second = np.linspace(-3, 1.5, points), np.linspace(-7, 1.5, points)
    table = [[evidence(np.array([a, b])) for b in second] for a in first]
    cell = (first[1] - first[0]) * (second[1] - second[0])
    return scipy.special.logsumexp(table) + np.log(cell)


@pytest.fixture
def large(monkeypatch):
    """Any field is too large for a factor whose elements are functions."""
    monkeypatch.setattr(factors, "LARGEST", 10)


@pytest.fixture(scope="module")
def conditional():
    path = compile_model(crossed())
    assert path.density.gradient.available()
    target = SharedTarget(path)
    prior = path.plan.layout.ravel(path.prior.draw(np.random.default_rng(0), 100), 100)
    found = ScaledConditional(target.view(), find_field(path, prior), prior)
    return found


def precision_of(rng, size=12):
    root = rng.normal(size=(2 * size, size))
    return root.T @ root


def test_a_factor_is_that_of_its_precision():
    rng = np.random.default_rng(1)
    middle, numbers = precision_of(rng), rng.normal(size=(1, 12))
    factor = ScaledFactor(np.linalg.cholesky(middle))
    precision = np.exp(numbers.T) * middle * np.exp(numbers)
    expected = -0.5 * np.linalg.slogdet(precision)[1]
    np.testing.assert_allclose(factor.log_volume(numbers), expected, rtol=1e-10)
    many = np.tile(numbers, (12, 1))
    spread = factor.spread(many, np.eye(12))
    np.testing.assert_allclose(spread.T @ spread, np.linalg.inv(precision), atol=1e-10)
    np.testing.assert_allclose(factor.gather(many, spread), np.eye(12), atol=1e-10)
    solved = factor.solve_by(many, np.eye(12))
    np.testing.assert_allclose(solved, np.linalg.inv(precision), atol=1e-10)


def test_gradients_are_differences():
    rng = np.random.default_rng(2)
    factor = ScaledFactor(np.linalg.cholesky(precision_of(rng)))
    numbers, noise, slopes = rng.normal(size=(3, 1, 12))

    def value(u, d):
        return (slopes * factor.spread(d, u)).sum() + factor.log_volume(d)[0]

    offsets = factor.spread(numbers, noise)
    to_noise, to_numbers = factor.pull_back(numbers, noise, offsets, slopes)
    for k, step in enumerate(1e-6 * np.eye(12)):
        both = value(noise + step, numbers) - value(noise - step, numbers)
        assert to_noise[0, k] == pytest.approx(both / 2e-6, rel=1e-5, abs=1e-7)
        both = value(noise, numbers + step) - value(noise, numbers - step)
        assert to_numbers[0, k] == pytest.approx(both / 2e-6, rel=1e-5, abs=1e-7)


def test_modes_are_those_of_normal_data(conditional):
    """At the place of C Laplace's method is exact; elsewhere its determinant is a little off."""
    log_scales = np.log([0.7, 0.4])
    start = np.zeros((1, len(conditional.field)))
    found = conditional.find_modes(log_scales[None], start)
    conditional.recenter(conditional.join(log_scales[None], found.points)[0])
    there = log_scales + np.array([[0.0, 0.0], [0.3, -0.3]])
    found = conditional.find_modes(there, np.tile(found.points, (2, 1)))
    assert found.log_marginal[0] == pytest.approx(evidence(there[0]), abs=1e-4)
    assert found.log_marginal[1] == pytest.approx(evidence(there[1]), abs=0.3)
    effects = design()
    for row, mode in zip(there, found.points, strict=True):
        scales = np.exp(row)
        slopes = effects * np.repeat([1.0, *scales], [1, SUBJECTS, ITEMS])
        variances = np.repeat([100.0, 1.0], [1, SUBJECTS + ITEMS])
        mean = np.linalg.solve(slopes.T @ slopes + np.diag(1 / variances), slopes.T @ Y)
        np.testing.assert_allclose(mode, mean, atol=1e-3)


@pytest.mark.parametrize("centred", [False, True])
def test_log_z_of_crossed_effects(centred, large):
    """Within 4 se of a grid over both scales (1 in 16,000), with one diagonal of 56 numbers."""
    model = crossed(centred)
    idata = pymc_arm.sample(model, draws=500, random_seed=5, cores=1, progressbar=False)
    se = idata.attrs["log_marginal_likelihood_se"]
    assert idata.attrs["verdict"] == "ok"
    assert se < 0.05
    assert abs(idata.attrs["log_marginal_likelihood"] - exact()) < 4 * se
    reference = choose_path(compile_model(model)).reference
    assert isinstance(reference.field.factor, ScaledFactor)


def test_a_dense_field_is_refused():
    rng = np.random.default_rng(3)
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        slope = pm.Normal("slope", 0, scale, shape=20)
        pm.Bernoulli("y", logit_p=rng.normal(size=(40, 20)) @ slope, observed=np.arange(40) % 2)
    path = compile_model(model)
    assert path.density.gradient.available()
    prior = path.plan.layout.ravel(path.prior.draw(rng, 100), 100)
    view, field = SharedTarget(path).view(), find_field(path, prior)
    with pytest.raises(PathError, match="depend on each other"):
        ScaledConditional(view, field, prior)
