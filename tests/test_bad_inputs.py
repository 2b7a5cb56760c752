"""Each bad input is refused before sampling, by the name of what is wrong and with a remedy."""

import inspect
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pymc as pm
import pytest

import pymc_arm
from pymc_arm import CheckpointError, ModelError, model_call
from pymc_arm.algorithm.settings import INSTEAD
from pymc_arm.testing import GaussianChain, TiltedNormals

ARGUMENTS = [
    ({"draws": 0}, ValueError, r"draws=0 must be a whole number, 1 or more"),
    ({"draws": -5}, ValueError, r"draws=-5 must be a whole number, 1 or more"),
    ({"draws": 10.5}, ValueError, r"draws=10.5 must be a whole number"),
    ({"draws": "many"}, TypeError, r"draws='many' must be a whole number"),
    ({"draws": None}, TypeError, r"draws=None must be a whole number"),
    ({"draws": True}, TypeError, r"draws=True must be a whole number"),
    ({"draws": float("nan")}, ValueError, r"draws=nan must be a whole number"),
    ({"draws": 10**13}, MemoryError, r"draws=10000000000000 .* Use draws="),
    ({"chains": 0}, ValueError, r"chains=0 must be a whole number, 1 or more"),
    ({"chains": 2.5}, ValueError, r"chains=2.5 must be a whole number"),
    ({"chains": [1, 2]}, TypeError, r"chains=\[1, 2\] must be a whole number"),
    ({"cores": 0}, ValueError, r"cores=0 must be a whole number, 1 or more"),
    ({"cores": "all"}, TypeError, r"cores='all' must be a whole number"),
    ({"random_seed": -1}, ValueError, r"random_seed=-1 is not a seed: give a whole number"),
    ({"random_seed": "x"}, TypeError, r"random_seed='x' is not a seed: give a whole number"),
    ({"variant": "smc"}, ValueError, r"variant='smc' is not one of \('rm', 'arm'"),
    ({"variant": "reseed"}, ValueError, r"no sampler of its own .* choose another variant"),
    ({"threshold": 1.5}, ValueError, r"threshold=1.5 is a fraction: choose it between 0 and 1"),
    ({"threshold": -0.1}, ValueError, r"threshold=-0.1 is a fraction"),
    ({"threshold": float("nan")}, ValueError, r"threshold=nan is a fraction"),
    ({"resample_threshold": 2.0}, ValueError, r"resample_threshold=2.0 is a fraction"),
    ({"max_rounds": -1}, ValueError, r"max_rounds=-1 must be a whole number, 0 or more"),
    ({"max_rounds": 1.5}, ValueError, r"max_rounds=1.5 must be a whole number"),
    ({"resampling": "lucky"}, ValueError, r"resampling='lucky' is not one of"),
    ({"move": "never"}, ValueError, r"move='never' is not one of \('always', 'adaptive'\)"),
    ({"allocation": "fair"}, ValueError, r"allocation='fair' is not one of .'adaptive', 'pilot'"),
    ({"budget": 100}, ValueError, r"budget=100 has a meaning only with allocation='optimal'"),
    ({"budget": 0, "allocation": "optimal"}, ValueError, r"budget=0 must be a whole number, 1"),
    ({"refine": "perhaps"}, ValueError, r"refine='perhaps' is not one of .True, False, 'auto'"),
    ({"target_se": 0}, ValueError, r"target_se=0 must be a positive number, or None"),
    ({"target_se": -1.0}, ValueError, r"target_se=-1.0 must be a positive number"),
    ({"target_se": "small"}, ValueError, r"target_se='small' must be a positive number"),
    ({"time_limit": 0}, ValueError, r"time_limit=0 must be a positive number, or None"),
    ({"time_limit": float("inf")}, ValueError, r"time_limit=inf must be a positive number"),
    ({"executor": "dask"}, TypeError, r"executor='dask' is not a concurrent.futures.Executor: g"),
    ({"executor": ThreadPoolExecutor(1), "cores": 2}, ValueError, r"cores=2 has no meaning with"),
    ({"checkpoint": 7}, TypeError, r"checkpoint=7 is not a directory or a Checkpoint"),
    ({"resume": True}, ValueError, r"resume=True needs checkpoint=, the directory"),
    ({"speed": "high"}, TypeError, r"There is no option 'speed'. Besides the arguments of the"),
    ({"treshold": 0.5}, TypeError, r"There is no option 'treshold'. Did you mean threshold\?"),
]
MODEL_ARGUMENTS = [
    ({"order": "best"}, ValueError, r"order='best' is not 'auto', 'random' or a list"),
    ({"order": ["nobody"]}, ValueError, r"order names 'nobody', which is not a free variable"),
    ({"order": [("x", 9)]}, ValueError, r"order names x\[9\], but x has shape \(2,\)"),
    ({"order": ["x", ("x", 0)]}, ValueError, r"order names a coordinate twice"),
    ({"family": "nothing"}, ValueError, r"family='nothing' is not known. Choose 'auto'"),
    ({"family": "rbm"}, ValueError, r"not of the family 'rbm': no free variable"),
    ({"backend": "fortran"}, ValueError, r"backend='fortran'"),
    ({"compile_kwargs": {"mode": "x"}}, TypeError, r"no option 'compile_kwargs'. Use backend="),
    ({"idata_kwargs": {"loo": True}}, ValueError, r"idata_kwargs has \['loo'\]; only"),
    (
        {"family_kwargs": {"lookahead": "ep"}},
        ValueError,
        r"is for models of a family; plan says why",
    ),
]


@pytest.fixture
def nothing_runs(monkeypatch):
    """Make sure that sampling does not begin."""

    def begin(*args, **options):
        raise AssertionError("sampling has begun")

    monkeypatch.setattr(pymc_arm.running.backends, "run_chains", begin)


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=2)
        pm.Normal("y", x, 1, observed=[0.1, 0.2])
    return model


def test_the_table_is_long_enough():
    assert len(ARGUMENTS) + len(MODEL_ARGUMENTS) + len(MODELS) >= 40 + 10


@pytest.mark.parametrize(("options", "kind", "message"), ARGUMENTS)
def test_arguments_of_paths(nothing_runs, options, kind, message):
    path = TiltedNormals([0.1, 0.2]) if "variant" not in options else Plain([0.1, 0.2])
    with pytest.raises(kind, match=message):
        pymc_arm.sample_path(path, **{"progressbar": False, **options})


class Plain(TiltedNormals):
    """A path without a sampler of its own."""

    reseed = pymc_arm.Path.reseed


@pytest.mark.parametrize(("options", "kind", "message"), ARGUMENTS)
def test_arguments_of_models_before_they_are_compiled(
    nothing_runs, monkeypatch, model, options, kind, message
):
    def build(*args, **more):
        if kind is MemoryError or options == {"variant": "reseed"}:
            return Plain([0.1, 0.2])
        raise AssertionError("compiled")

    monkeypatch.setattr(model_call, "_make_path", build)
    with pytest.raises(kind, match=message):
        pymc_arm.sample(model, **{"progressbar": False, **options})


@pytest.mark.parametrize(("options", "kind", "message"), MODEL_ARGUMENTS)
def test_arguments_of_models(nothing_runs, model, options, kind, message):
    with pytest.raises(kind, match=message):
        pymc_arm.sample(model, **{"progressbar": False, **options})


@pytest.mark.parametrize("sampler", [pm.sample, pm.sample_smc])
def test_arguments_of_other_samplers_work_or_are_explained(nothing_runs, model, sampler):
    """Whatever a call of PyMC's samplers names is known here, or the error says what to do."""
    own = inspect.signature(pymc_arm.sample).parameters
    others = [name for name in inspect.signature(sampler).parameters if name not in own]
    for name in others:
        if name == "kwargs":
            continue
        with pytest.raises(TypeError, match=f"There is no option {name!r}") as raised:
            pymc_arm.sample(model, progressbar=False, **{name: 1})
        assert INSTEAD[name] in str(raised.value)


@pytest.mark.parametrize("name", ["tune", "target_accept", "nuts_sampler", "initvals"])
@pytest.mark.parametrize("call", [pymc_arm.compare, pymc_arm.sample])
def test_arguments_of_nuts_are_explained(nothing_runs, model, call, name):
    with pytest.raises(TypeError, match=f"There is no option {name!r}"):
        call({"a": model} if call is pymc_arm.compare else model, **{name: 0.9})


def test_no_model(nothing_runs):
    with pytest.raises(TypeError, match="There is no model: give one, or call this inside of"):
        pymc_arm.sample(draws=10)


# What is handed over in place of a model or a result: a coin for both, and a number for neither.
WRONG_OBJECTS = [
    (lambda model, result: pymc_arm.sample(result), TypeError, "give a pm.Model"),
    (lambda model, result: pymc_arm.plan(result), TypeError, "give a pm.Model"),
    (lambda model, result: pymc_arm.sample(500), TypeError, "comes first, then draws=500"),
    (lambda model, result: pymc_arm.sample([model]), TypeError, "compare takes several"),
    (lambda model, result: pymc_arm.sample_path(model), TypeError, "path is of type Model"),
    (lambda model, result: pymc_arm.diagnose(model), ValueError, "Model has no group 'arm': give"),
    (lambda model, result: pymc_arm.sensitivity(model, result, {}), ValueError, "'posterior'"),
    (lambda model, result: pymc_arm.plots.plot_run(model), ValueError, "Model has no group 'arm'"),
    (lambda model, result: pymc_arm.plots.plot_estimates(1.0), ValueError, "float has no group"),
    (lambda model, result: pymc_arm.plots.plot_plan(model), TypeError, "plan is of type Model"),
    (lambda model, result: pymc_arm.compare([model]), TypeError, "models is of type list: give a"),
    (lambda model, result: pymc_arm.compare({"a": 1.0}), TypeError, "Model 'a' is of type float"),
    (lambda model, result: pymc_arm.average_models([result]), TypeError, "models is of type list"),
    (lambda model, result: pymc_arm.bayes_factor(model, None), TypeError, "type NoneType: give"),
    (lambda model, result: pymc_arm.bayes_factor(result, result, names="a"), ValueError, "two na"),
]


@pytest.mark.parametrize(("call", "kind", "message"), WRONG_OBJECTS)
def test_neither_a_model_nor_a_result(nothing_runs, model, finished, call, kind, message):
    with pytest.raises(kind, match=message):
        call(model, finished)


@pytest.fixture(scope="module")
def finished(model):
    return pymc_arm.sample(model, draws=50, chains=2, random_seed=1, progressbar=False)


def flat():
    mean = pm.Flat("mean")
    pm.Normal("y", mean, 1, observed=1.0)


def half_flat():
    scale = pm.HalfFlat("scale")
    pm.Normal("y", 0, scale, observed=1.0)


def minibatch():
    mean = pm.Normal("mean")
    pm.Normal("y", mean, 1, observed=pm.Minibatch(np.zeros(50), batch_size=5), total_size=50)


def negative_count():
    rate = pm.Gamma("rate", 2, 1)
    pm.Poisson("y", rate, observed=np.array([3, -1]))


def outside_of_the_interval():
    p = pm.Beta("p", 1, 1)
    pm.Binomial("y", n=5, p=p, observed=np.array([1, 7]))


def infinite_data():
    mean = pm.Normal("mean")
    pm.Normal("y", mean, 1, observed=np.array([0.0, np.inf]))


def impossible_prior():
    mean = pm.Uniform("mean", 0, 1)
    pm.Uniform("y", mean, mean + 1, observed=np.array([5.0]))


def potential_that_is_nowhere():
    x = pm.Normal("x")
    pm.Potential("wall", pm.math.log(-(x**2) - 1))


def potential_that_is_a_variable():
    pm.Potential("tilt", pm.Normal("x"))


def potential_that_is_drawn():
    pm.Potential("noise", -(pm.Normal.dist(pm.Normal("x"), 1) ** 2))


def potential_that_overflows():
    pm.Potential("tower", pm.math.exp(1e3 * pm.Normal("x")))


def negative_scale():
    x = pm.Normal("x")
    pm.Normal("y", x, -1.0, observed=0.5)


MODELS = [
    (flat, r"'mean' has an improper prior \(Flat\).*Give it a proper prior"),
    (half_flat, r"'scale' has an improper prior \(HalfFlat\).*Give it a proper prior"),
    (minibatch, r"'y' is observed in minibatches.*Use all of the data"),
    (negative_count, r"'y\[1\]' is -inf or NaN.*Check the data"),
    (outside_of_the_interval, r"'y\[1\]' is -inf or NaN.*Check the data"),
    (infinite_data, r"'y\[1\]' is -inf or NaN.*Check the data"),
    (impossible_prior, r"'y\[0\]' is -inf or NaN.*the prior's range"),
    (potential_that_is_nowhere, r"'wall.*' is -inf or NaN"),
    (potential_that_is_a_variable, r"potential 'tilt' is a random variable.*1.0 \* variable"),
    (potential_that_is_drawn, r"'noise' has a draw of NormalRV in it.*variable of the model"),
    (potential_that_overflows, r"'tower' is \+inf at 0\.\d+ of the draws.*Check its expression"),
    (negative_scale, r"'y.*' is -inf or NaN"),
]


@pytest.mark.parametrize(("write", "message"), MODELS)
def test_models(nothing_runs, write, message):
    with pm.Model() as model:
        write()
    with pytest.raises(ModelError, match=message):
        pymc_arm.sample(model, draws=50, progressbar=False)


def test_a_checkpoint_of_another_run(tmp_path):
    path = GaussianChain([0.1, 0.2])
    options = {"draws": 20, "chains": 1, "random_seed": 1, "progressbar": False}
    pymc_arm.sample_path(path, checkpoint=tmp_path, **options)
    with pytest.raises(CheckpointError, match=r"random_seed.*Make them the same, or choose"):
        pymc_arm.sample_path(path, checkpoint=tmp_path, resume=True, **options | {"random_seed": 2})
    with pytest.raises(ValueError, match=r"seconds=-1 of a checkpoint must be 0 or more"):
        pymc_arm.Checkpoint(tmp_path, -1)
