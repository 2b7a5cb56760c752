"""More data than yesterday: against exact answers, by each of the four ways, and what is refused.

Comparisons are in standard errors, with a false alarm of a fixed seed once in a thousand or less.
"""

import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import scipy
import xarray as xr
from scipy import stats

import pymc_arm
from pymc_arm import DrawsError, TrustWarning
from pymc_arm._compat import get_group, load, make_tree
from pymc_arm.comparison import read_evidence
from pymc_arm.estimation.updated import UpdateFacts, judge_update
from pymc_arm.running import updated, weighted

OPTIONS = {"random_seed": 1, "progressbar": False, "cores": 1}
ROWS = np.random.default_rng(3).normal(1.0, 1.0, 66)
OLD = 60


def normal(rows):
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 2.0)
        pm.Normal("y", mean, 1.0, observed=rows)
    return model


def normal_log_evidence(rows):
    return stats.multivariate_normal.logpdf(rows, np.zeros(len(rows)), np.eye(len(rows)) + 4.0)


def regression(data):
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 3.0, 2.0)
        slopes = pm.Normal("slopes", 0.0, 2.0 * pm.math.sqrt(variance), shape=3)
        pm.Normal("y", data[:, :3] @ slopes, pm.math.sqrt(variance), observed=data[:, 3])
    return model


def regression_log_evidence(data):
    shape = (np.eye(len(data)) + 4.0 * data[:, :3] @ data[:, :3].T) * 2.0 / 3.0
    return stats.multivariate_t.logpdf(data[:, 3], np.zeros(len(data)), shape, df=6.0)


def exact_result(draws, log_evidence, observed, error=1e-3, attrs=None, constants=None):
    """Return draws (chain, draw, ...) by name as the result of a run."""

    def dataset(arrays, leading):
        return xr.Dataset(
            {
                name: ((*leading, *(f"{name}_{k}" for k in range(v.ndim - len(leading)))), v)
                for name, v in arrays.items()
            }
        )

    groups = {"posterior": dataset(draws, ("chain", "draw"))}
    groups["observed_data"] = dataset(observed, ())
    if constants:
        groups["constant_data"] = dataset(constants, ())
    own = {
        "log_marginal_likelihood": float(log_evidence),
        "log_marginal_likelihood_se": error,
        "log_marginal_likelihood_df": 10.0,
        "verdict": "ok",
        **(attrs or {}),
    }
    return make_tree(groups, own)


def normal_result(count=OLD, shape=(4, 1000), seed=1, rows=ROWS, **options):
    """Return exact draws of the posterior of the normal mean."""
    variance = 1 / (count + 0.25)
    draws = np.random.default_rng(seed).normal(
        rows[:count].sum() * variance, np.sqrt(variance), shape
    )
    log_evidence = normal_log_evidence(rows[:count])
    return exact_result({"mean": draws}, log_evidence, {"y": rows[:count]}, **options)


def update(idata, model, **options):
    """Return the result, whatever the verdict."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrustWarning)
        return pymc_arm.update(idata, model, **{"random_seed": 1, "cores": 1, **options})


def z_score(result, exact):
    found = read_evidence(result)
    return (found.log_evidence - exact) / found.standard_error


def only(way, monkeypatch):
    """Leave one of the four ways."""
    if way != "weights":
        monkeypatch.setattr(
            weighted.Start, "suffices", property(lambda own: own.matched and way == "moments")
        )
    if way == "moves":
        monkeypatch.setattr(updated, "FEWEST_FITTED", np.inf)


@pytest.fixture(scope="module")
def model():
    return normal(ROWS)


@pytest.fixture(scope="module")
def result(model):
    return update(normal_result(), model)


@pytest.mark.parametrize("way", ["weights", "moments", "q", "moves"])
def test_each_way_is_right(way, model, monkeypatch):
    only(way, monkeypatch)
    found = update(normal_result(), model)
    exact = normal_log_evidence(ROWS)
    assert found.attrs["updated_by"] == way
    assert found.attrs["verdict"] == "ok"
    assert abs(z_score(found, exact)) < 4
    new = exact - normal_log_evidence(ROWS[:OLD])
    assert abs(found.attrs["log_new_given_old"] - new) < 4 * found.attrs["log_new_given_old_se"]
    variance = 1 / (len(ROWS) + 0.25)
    draws = get_group(found, "posterior")["mean"].values
    standard_error = np.sqrt(variance / found.attrs["independent_draws"])
    assert abs(draws.mean() - ROWS.sum() * variance) < 4 * standard_error
    assert abs(draws.std() / np.sqrt(variance) - 1) < 4 / np.sqrt(
        2 * found.attrs["independent_draws"]
    )


@pytest.mark.one_version
@pytest.mark.parametrize("way", ["weights", "moments", "q", "moves"])
def test_errors_are_right(way, model, monkeypatch):
    """The standard deviation of 20 z-scores is within 0.6 and 1.55, but once in a thousand."""
    only(way, monkeypatch)
    exact = normal_log_evidence(ROWS)
    results = [
        update(normal_result(seed=[7, k], shape=(4, 250)), model, random_seed=k) for k in range(20)
    ]
    z = np.array([z_score(found, exact) for found in results])
    assert abs(z.mean()) < 3.3 / np.sqrt(20) * 1.3
    assert 0.45 < z.std(ddof=1) < 1.55


@pytest.mark.one_version
def test_autocorrelated_draws_have_larger_errors(model, monkeypatch):
    """AR(1) draws of coefficient 0.9 are worth a nineteenth of their number."""
    monkeypatch.setattr(weighted, "ENOUGH", 0)
    rng, noise = np.random.default_rng(1), np.sqrt(1 - 0.81)
    shocks = rng.normal(size=(4, 4000))
    chain = scipy.signal.lfilter([noise], [1.0, -0.9], shocks, axis=1)
    variance = 1 / (OLD + 0.25)
    draws = ROWS[:OLD].sum() * variance + np.sqrt(variance) * chain
    log_evidence = normal_log_evidence(ROWS[:OLD])
    correlated = exact_result({"mean": draws}, log_evidence, {"y": ROWS[:OLD]})
    found = update(correlated, model)
    independent = update(normal_result(), model)
    ratio = found.attrs["log_new_given_old_se"] / independent.attrs["log_new_given_old_se"]
    # Of 16 000 draws 4000 are kept, which are worth about as many independent ones as all of them.
    assert 1.4 < ratio < 3.5
    assert found.attrs["independent_draws"] < 1500
    assert abs(z_score(found, normal_log_evidence(ROWS))) < 4


def test_the_error_of_the_old_result_is_in_that_of_the_new(model):
    found = update(normal_result(error=0.5), model)
    assert 0.5 < read_evidence(found).standard_error < 0.51
    assert found.attrs["log_new_given_old_se"] < 0.05


def test_a_result_of_sample_is_updated_and_updated_again():
    data = np.random.default_rng(5).normal(size=(60, 4))
    data[:, 3] += data[:, 0]
    found = pymc_arm.sample(regression(data[:40]), **OPTIONS)
    for count in (44, 50, 60):
        found = update(found, regression(data[:count]))
        assert abs(z_score(found, regression_log_evidence(data[:count]))) < 4
    assert found.attrs["updates"] == 3
    assert found.attrs["verdict"] == "ok"
    assert get_group(found, "posterior").sizes["slopes_dim_0"] == 3


@pytest.mark.one_version
def test_ten_updates_in_a_row(monkeypatch):
    """Sixty rows become a hundred and twenty, six at a time."""
    rows = np.random.default_rng(8).normal(1.0, 1.0, 120)
    models = [normal(rows[:count]) for count in range(66, 121, 6)]
    z = []
    for seed in range(4):
        found = normal_result(60, (4, 500), seed=[9, seed], rows=rows)
        for number, each in enumerate(models):
            found = update(found, each, random_seed=[seed, number])
        z.append(z_score(found, normal_log_evidence(rows)))
    assert found.attrs["updates"] == 10
    assert np.max(np.abs(z)) < 4
    assert np.std(z) < 2.3


def test_errors_of_updates_by_weights_hang_together():
    """Three batches that move the mean the same way: the errors of one draw add up.

    The standard deviation of 30 z-scores is within 0.63 and 1.4, but once in a thousand; it would
    be 1.7 if errors of batches were taken for independent.
    """
    rows = np.concatenate([ROWS[:OLD], ROWS[:OLD].mean() + np.full(6, 0.6)])
    models = [normal(rows[:count]) for count in (62, 64, 66)]
    z, apart = [], []
    for seed in range(30):
        found = normal_result(seed=[11, seed], shape=(4, 500), rows=rows)
        variance = 1e-6
        for number, each in enumerate(models):
            found = update(found, each, random_seed=[seed, number])
            variance += found.attrs["log_new_given_old_se"] ** 2
        assert found.attrs["updated_by"] == "weights"
        assert found.attrs["renewed_updates"] == 3
        z.append(z_score(found, normal_log_evidence(rows)))
        apart.append(z[-1] * read_evidence(found).standard_error / np.sqrt(variance))
    assert 0.63 < np.std(z, ddof=1) < 1.4
    assert np.std(apart, ddof=1) > 1.3 * np.std(z, ddof=1)


@pytest.mark.one_version
def test_moments_in_a_row():
    """Four updates by a tenth of the rows, in nine dimensions, where weights lose the draws."""
    rng = np.random.default_rng(6)
    design = rng.normal(size=(150, 8))
    rows = design @ rng.normal(size=8) + rng.normal(size=150)

    def build(count):
        with pm.Model() as model:
            slopes = pm.Normal("slopes", 0.0, 1.0, shape=8)
            mean = pm.Normal("mean", 0.0, 1.0)
            pm.Normal("y", mean + design[:count] @ slopes, 1.0, observed=rows[:count])
        return model

    def posterior(count):
        whole = np.column_stack([design[:count], np.ones(count)])
        precision = np.eye(9) + whole.T @ whole
        covariance = np.eye(count) + whole @ whole.T
        center = np.linalg.solve(precision, whole.T @ rows[:count])
        log_evidence = stats.multivariate_normal.logpdf(rows[:count], np.zeros(count), covariance)
        return center, np.linalg.cholesky(np.linalg.inv(precision)), log_evidence

    z, ways = [], set()
    for seed in range(4):
        center, factor, log_evidence = posterior(75)
        noise = np.random.default_rng([7, seed]).normal(size=(4, 1000, 9))
        draws = center + noise @ factor.T
        found = exact_result(
            {"slopes": draws[..., :8], "mean": draws[..., 8]}, log_evidence, {"y": rows[:75]}
        )
        for number, count in enumerate((90, 108, 128, 150)):
            found = update(found, build(count), random_seed=[seed, number])
            ways.add(found.attrs["updated_by"])
        z.append(z_score(found, posterior(150)[2]))
        values = get_group(found, "posterior")["slopes"].values.reshape(-1, 8)
        width = np.sqrt(np.diag(posterior(150)[1] @ posterior(150)[1].T))[:8]
        error = width / np.sqrt(found.attrs["independent_draws"])
        assert (np.abs(values.mean(axis=0) - posterior(150)[0][:8]) < 4 * error).all()
    assert "moments" in ways
    assert np.abs(z).max() < 4


def test_data_that_was_set(tmp_path):
    with pm.Model():
        tosses = pm.Data("tosses", np.array([1, 0, 1, 1, 0, 1, 0, 1]))
        p = pm.Beta("p", 2.0, 3.0)
        pm.Bernoulli("y", p, observed=tosses)
        first = pymc_arm.sample(**OPTIONS)
        first.to_netcdf(tmp_path / "first.nc")
        pm.set_data({"tosses": np.array([1, 0, 1, 1, 0, 1, 0, 1, 1, 1])})
        second = update(load(str(tmp_path / "first.nc")), None)
    betaln = scipy.special.betaln
    assert abs(z_score(second, betaln(2 + 7, 3 + 3) - betaln(2, 3))) < 4


def test_a_rows_predictors_are_its_own():
    x = np.random.default_rng(2).normal(size=(50, 1))
    y = x[:, 0] + np.random.default_rng(3).normal(size=50)

    def build(count):
        with pm.Model() as line:
            own = pm.Data("x", x[:count])
            slope = pm.Normal("slope", 0.0, 1.0)
            pm.Normal("y", own[:, 0] * slope, 1.0, observed=y[:count])
        return line

    first = pymc_arm.sample(build(45), **OPTIONS)
    exact = stats.multivariate_normal.logpdf(y, np.zeros(50), np.eye(50) + x @ x.T)
    assert abs(z_score(update(first, build(50)), exact)) < 4
    x[3] += 1.0
    with pytest.raises(DrawsError, match=r"'x' is .* at \[3, 0\] in the model"):
        update(first, build(50))


def series(rows):
    """A constant mean with correlated noise: the density of the rows is no product."""
    kernel = np.exp(-np.abs(np.subtract.outer(np.arange(len(rows)), np.arange(len(rows)))))
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 2.0)
        pm.MvNormal("y", mean * np.ones(len(rows)), kernel, observed=rows)
    return model, stats.multivariate_normal.logpdf(rows, np.zeros(len(rows)), kernel + 4.0)


@pytest.mark.parametrize("way", ["weights", "moves"])
def test_rows_that_depend_on_each_other_need_the_previous_model(way, monkeypatch):
    only(way, monkeypatch)
    (old, before), (new, exact) = series(ROWS[:20]), series(ROWS[:24])
    first = pymc_arm.sample(old, **OPTIONS)
    assert abs(z_score(first, before)) < 4
    with pytest.raises(DrawsError, match=r"density of 'y' is no product.*previous="):
        update(first, new)
    found = update(first, new, previous=old)
    assert abs(z_score(found, exact)) < 4
    assert found.attrs["updated_by"] == way


def test_another_previous_model_is_refused(model):
    with pm.Model() as other:
        middle = pm.Normal("middle", 0.0, 2.0)
        pm.Normal("y", middle, 1.0, observed=ROWS[:OLD])
    with pytest.raises(DrawsError, match="'middle' of shape"):
        update(normal_result(), model, previous=other)
    with pytest.raises(DrawsError, match="not of this model's data"):
        update(normal_result(), model, previous=normal(ROWS[1 : OLD + 1]))


def test_discrete_variables_are_moved(monkeypatch):
    """Which of two coins it is: log Z is a sum of two."""
    rows = np.array([1, 1, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1])

    def build(count):
        with pm.Model() as coins:
            which = pm.Bernoulli("which", 0.4)
            slope = pm.Normal("slope", 0.0, 1.0)
            pm.Bernoulli("y", pm.math.switch(which, 0.6, 0.3), observed=rows[:count])
            pm.Normal("z", slope, 1.0, observed=0.5)
        return coins

    def log_evidence(count):
        heads, total = rows[:count].sum(), count
        both = [
            np.log(prior) + heads * np.log(p) + (total - heads) * np.log1p(-p)
            for prior, p in ((0.4, 0.6), (0.6, 0.3))
        ]
        return np.logaddexp(*both) + stats.norm.logpdf(0.5, 0.0, np.sqrt(2.0))

    first = pymc_arm.sample(build(8), **OPTIONS)
    only("moves", monkeypatch)
    found = update(first, build(12))
    assert found.attrs["updated_by"] == "moves"
    assert abs(z_score(found, log_evidence(12))) < 4


def test_far_data_is_tempered_in():
    """New rows whose mean is 25 old posterior deviations away."""
    rows = np.concatenate([ROWS[:OLD], np.full(30, 10.0)])
    found = update(normal_result(), normal(rows))
    assert found.attrs["updated_by"] == "moves"
    assert get_group(found, "arm").sizes["step"] > 2
    assert abs(z_score(found, normal_log_evidence(rows))) < 4


def test_a_mode_that_only_new_data_shows():
    """Old data are all in one mode of the prior, and new data are in the other one."""
    rows = np.concatenate([np.full(2, -10.0), np.full(6, 10.0)])

    def build(count):
        with pm.Model() as two:
            parts = [pm.Normal.dist(-10.0, 1.0), pm.Normal.dist(10.0, 1.0)]
            place = pm.Mixture("place", [0.5, 0.5], parts)
            pm.Normal("y", place, 3.0, observed=rows[:count])
        return two

    first = pymc_arm.sample(build(2), **OPTIONS)
    assert get_group(first, "posterior")["place"].values.max() < 0
    with pytest.warns(TrustWarning, match="mode"):
        found = pymc_arm.update(first, build(8), random_seed=1, cores=1)
    assert found.attrs["verdict"] == "failed"


def test_other_functions_take_it(model, result, tmp_path):
    with pm.Model() as other:
        mean = pm.Normal("mean", 0.0, 2.0)
        pm.Normal("y", mean, 2.0, observed=ROWS)
    second = pymc_arm.sample(other, **OPTIONS)
    table = pymc_arm.compare({"one": result, "two": second})
    assert list(table.index) == ["one", "two"]
    assert pymc_arm.bayes_factor(result, second).log > 0
    assert pymc_arm.diagnose(result).status == "ok"
    pymc_arm.plots.plot_run(result)
    result.to_netcdf(tmp_path / "result.nc")
    again = load(str(tmp_path / "result.nc"))
    assert read_evidence(again) == read_evidence(result)
    assert get_group(result, "observed_data")["y"].size == len(ROWS)


@pytest.mark.parametrize("way", ["weights", "moments", "q", "moves"])
def test_one_seed_one_answer(way, model, monkeypatch):
    only(way, monkeypatch)
    draws = normal_result(shape=(4, 250))
    first, second = (update(draws, model, cores=cores) for cores in (1, 2))
    assert first.attrs["log_marginal_likelihood"] == second.attrs["log_marginal_likelihood"]
    np.testing.assert_array_equal(
        *(get_group(r, "posterior")["mean"].values for r in (first, second))
    )
    third = update(draws, model, random_seed=2)
    assert not np.array_equal(
        get_group(first, "posterior")["mean"].values, get_group(third, "posterior")["mean"].values
    )


def test_predictors_that_all_rows_have_scaled_need_the_previous_model():
    """Divided by their largest value, old predictors change with a new one, and log Z with them."""
    x = np.append(np.random.default_rng(2).normal(size=40), 6.0)
    y = 3 * x + np.random.default_rng(3).normal(size=41)

    def build(count):
        scaled = x[:count] / np.abs(x[:count]).max()
        with pm.Model() as line:
            slope = pm.Normal("slope", 0.0, 3.0)
            pm.Normal("y", scaled * slope, 1.0, observed=y[:count])
        exact = np.eye(count) + 9.0 * np.outer(scaled, scaled)
        return line, stats.multivariate_normal.logpdf(y[:count], np.zeros(count), exact)

    (old, _), (new, exact) = build(40), build(41)
    first = pymc_arm.sample(old, **OPTIONS)
    with pytest.raises(DrawsError, match="not that of the old rows"):
        update(first, new)
    assert abs(z_score(update(first, new, previous=old), exact)) < 4


def grown(rows):
    with pm.Model() as model:
        effect = pm.Normal("effect", 0.0, 1.0, shape=len(rows))
        pm.Normal("y", effect, 1.0, observed=rows)
    return model


REFUSED = {
    "no log Z": (
        lambda: (make_tree({"posterior": get_group(normal_result(), "posterior")}, {}), ROWS),
        "no log Z to add to",
    ),
    "the wrong way round": (lambda: (normal(ROWS), ROWS), "result comes first"),
    "no posterior": (
        lambda: (
            make_tree(
                {"observed_data": get_group(normal_result(), "observed_data")},
                dict(normal_result().attrs),
            ),
            ROWS,
        ),
        "no group 'posterior'",
    ),
    "no data": (
        lambda: (
            make_tree(
                {"posterior": get_group(normal_result(), "posterior")}, dict(normal_result().attrs)
            ),
            ROWS,
        ),
        "no group 'observed_data'.*previous=",
    ),
    "nothing new": (lambda: (normal_result(), ROWS[:OLD]), "no new rows: 'y' has 60"),
    "fewer rows": (lambda: (normal_result(), ROWS[:50]), r"'y' has shape \(50,\)"),
    "old data that changed": (
        lambda: (normal_result(), np.concatenate([ROWS[:5], [9.0], ROWS[6:]])),
        r"'y' is 9 at \[5\] in the model",
    ),
    "a lost cloud": (
        lambda: (
            exact_result(
                {"mean": np.tile(np.linspace(0.9, 1.1, 25), (4, 40))}, -90.0, {"y": ROWS[:OLD]}
            ),
            ROWS,
        ),
        "Only 25 of the 4000 draws differ",
    ),
    "few draws": (lambda: (normal_result(shape=(2, 20)), ROWS), "Only 40 of the 40 draws"),
    "draws of another posterior": (
        lambda: (
            exact_result(
                {"mean": np.random.default_rng(1).normal(0.0, 0.1, (4, 1000))},
                normal_log_evidence(ROWS[:OLD]),
                {"y": ROWS[:OLD]},
            ),
            ROWS,
        ),
        "not that of the old rows",
    ),
    "an infinite log Z": (lambda: (normal_result(error=np.inf), ROWS), "standard error of inf"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    make, message = REFUSED[name]
    idata, rows = make()
    with pytest.raises(DrawsError, match=message):
        update(idata, normal(rows))


def test_other_names_are_refused():
    with pm.Model() as other:
        mean = pm.Normal("mean", 0.0, 2.0)
        pm.Normal("z", mean, 1.0, observed=ROWS)
    with pytest.raises(DrawsError, match="'y' is observed in the result and not the model"):
        update(normal_result(), other)
    with pm.Model() as other:
        middle = pm.Normal("middle", 0.0, 2.0)
        pm.Normal("y", middle, 1.0, observed=ROWS)
    with pytest.raises(DrawsError, match="no draws of 'middle'"):
        update(normal_result(), other)


def test_variables_that_grow_with_the_data_are_refused():
    draws = np.random.default_rng(1).normal(size=(4, 1000, 10))
    first = exact_result({"effect": draws}, -20.0, {"y": ROWS[:10]})
    with pytest.raises(DrawsError, match=r"'effect' has shape \(10,\).*has grown"):
        update(first, grown(ROWS[:12]))


def test_impossible_data_are_named():
    rows = np.random.default_rng(1).uniform(0.0, 2.0, 30)
    largest = rows.max() * np.random.default_rng(2).random((4, 1000)) ** (-1 / 30)

    def build(data):
        with pm.Model() as model:
            top = pm.Uniform("top", 0.0, 10.0)
            pm.Uniform("y", 0.0, top, observed=data)
        return model

    log_evidence = np.log(rows.max() ** -29 / 29 - 10.0**-29 / 29) - np.log(10.0)
    first = exact_result({"top": largest}, log_evidence, {"y": rows})
    with pytest.raises(DrawsError, match=r"impossible at each .*'y\[30\]'"):
        update(first, build(np.append(rows, 9.0)))
    some = np.append(rows, np.median(largest))
    exact = np.log(some.max() ** -30 / 30 - 10.0**-30 / 30) - np.log(10.0)
    assert abs(z_score(update(first, build(some)), exact)) < 4


def test_no_free_variables():
    with pm.Model() as nothing:
        pm.Normal("y", 0.0, 1.0, observed=ROWS)
    with pytest.raises(DrawsError, match="no free variables"):
        update(normal_result(), nothing)


@pytest.mark.parametrize(
    ("options", "error"), [({"cores": 0}, ValueError), ({"random_seed": "x"}, TypeError)]
)
def test_bad_options(options, error, model):
    with pytest.raises(error, match=next(iter(options))):
        update(normal_result(), model, **options)


def test_a_result_that_was_not_ok_stays_so(model):
    with pytest.warns(TrustWarning, match="result that was updated is 'caution'"):
        found = pymc_arm.update(
            normal_result(attrs={"verdict": "caution"}), model, random_seed=1, cores=1
        )
    assert found.attrs["verdict"] == "caution"


def test_what_speaks_against_an_update():
    good = {"verdict": "ok", "overlap": 0.8, "pareto_k": 0.1, "memory": 0.1, "survivors": 900.0}

    def checks(**facts):
        found = judge_update(UpdateFacts(**{**good, **facts}))
        return [(reason.check, severe) for reason, severe in (f for f in found if f)]

    assert not checks()
    assert not checks(memory=0.9)
    assert not checks(memory=np.nan, survivors=10.0)
    assert checks(memory=0.9, survivors=10.0) == [("not renewed", False)]
    assert checks(overlap=0.01) == [("lost", True)]
    assert checks(pareto_k=1.2) == [("lost", True)]
    assert checks(verdict="failed") == [("previous result", True)]


def test_models_of_bambi_need_the_previous_one():
    bambi = pytest.importorskip("bambi")
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"x": rng.normal(size=60)})
    data["y"] = 1.0 + data["x"] + rng.normal(size=60)
    priors = {
        "Intercept": bambi.Prior("Normal", mu=0.0, sigma=2.0),
        "x": bambi.Prior("Normal", mu=0.0, sigma=1.0),
        "sigma": bambi.Prior("HalfNormal", sigma=1.0),
    }
    old, new = (bambi.Model("y ~ x", data.iloc[:count], priors=priors) for count in (54, 60))
    first = pymc_arm.sample(old, **OPTIONS)
    with pytest.raises(DrawsError, match="model of Bambi with the old data"):
        update(first, new)
    found = update(first, new, previous=old)
    fresh = pymc_arm.sample(new, **OPTIONS)
    difference = read_evidence(found).log_evidence - read_evidence(fresh).log_evidence
    error = np.hypot(read_evidence(found).standard_error, read_evidence(fresh).standard_error)
    assert abs(difference) < 4 * error
    means = [float(get_group(r, "posterior")["Intercept"].mean()) for r in (found, fresh)]
    assert abs(means[0] - means[1]) < 0.03
