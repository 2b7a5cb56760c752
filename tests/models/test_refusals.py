"""Models without a marginal likelihood are refused by name, before any sampling."""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

import pymc_arm
from pymc_arm import ModelError


def run(model: pm.Model, **options: object) -> None:
    pymc_arm.sample(model, **{"draws": 50, "chains": 1, "progressbar": False, **options})


def test_flat_priors() -> None:
    for name in ("Flat", "HalfFlat"):
        with pm.Model() as model:
            mean = getattr(pm, name)("mean")
            pm.Normal("y", mean, 1, observed=1.0)
        with pytest.raises(ModelError, match="'mean' has an improper prior"):
            run(model)


@pytest.mark.filterwarnings("ignore:The Wishart distribution")
def test_wishart() -> None:
    with pm.Model() as model:
        precision = pm.Wishart("precision", nu=4, V=np.eye(3), initval=np.eye(3))
        pm.MvNormal("y", mu=np.zeros(3), tau=precision, observed=np.ones((5, 3)))
    with pytest.raises(ModelError, match=r"'precision' is a Wishart.*Use pm\.LKJCholeskyCov"):
        run(model)


def test_minibatch() -> None:
    data = np.zeros(100)
    with pm.Model() as model:
        batch = pm.Minibatch(data, batch_size=10)
        mean = pm.Normal("mean")
        pm.Normal("y", mean, 1, observed=batch, total_size=100)
    with pytest.raises(ModelError, match="'y' is observed in minibatches"):
        run(model)


# PyMC 6.3 builds its simulators in ways that PyTensor announces to change.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_simulator() -> None:
    def simulate(rng: np.random.Generator, mean: float, size: tuple) -> np.ndarray:
        return rng.normal(mean, 1, size=size)

    with pm.Model() as model:
        mean = pm.Normal("mean")
        pm.Simulator("y", simulate, mean, observed=np.zeros(5))
    with pytest.raises(ModelError, match="'y' is a Simulator"):
        run(model)


def test_data_outside_of_the_support() -> None:
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 1)
        pm.Exponential("y", rate, observed=np.array([1.0, -1.0]))
    with pytest.raises(ModelError, match=r"'y\[1\]' is -inf or NaN"):
        run(model)


def test_a_distribution_without_a_density() -> None:
    with pm.Model() as model:
        eta = pm.Gamma("eta", 2, 1)
        pm.LKJCorr("correlations", n=2, eta=eta)
        pm.Normal("y", eta, 1, observed=1.0)
    with pytest.raises(ModelError, match=r"no log-density for 'correlations'"):
        run(model)


def test_nothing_observed() -> None:
    with pm.Model() as model:
        pm.Normal("x")
    with pytest.raises(ModelError, match=r"no observed variable and no potential.*observed="):
        run(model)


def test_nothing_to_draw_with() -> None:
    with pm.Model() as model:
        x = pm.CustomDist("x", logp=lambda value: -0.5 * value**2)
        pm.Normal("y", x, 1, observed=0.5)
    with pytest.raises(ModelError, match=r"'x' can't be drawn from its prior.*a random="):
        run(model)


def test_possible_data_that_no_prior_draw_reaches() -> None:
    # Possible at the initial point, which the prior has no mass near.
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, initval=30.0)
        pm.Potential("far", pm.math.switch(x > 29, 0.0, -np.inf))
    with pytest.raises(ModelError, match=r"'far\[0\]' is -inf.* 6000 draws.*it is finite, so"):
        run(model)


class SinglePrecision(Op):
    """A log-likelihood that declares doubles, and returns singles."""

    __props__ = ()

    def make_node(self, x: Any) -> Apply:  # type: ignore[override]
        return Apply(self, [x], [pt.dscalar()])

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = np.asarray(-(inputs[0] ** 2), dtype="float32")


def test_a_density_of_another_type_than_it_declares() -> None:
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("likelihood", SinglePrecision()(x))
    with pytest.raises(ModelError, match=r"of 'likelihood' .* it returned float32, and declares"):
        run(model)


@pytest.mark.filterwarnings("ignore::pymc_arm.TrustWarning")
def test_a_posterior_without_an_end_is_not_ok() -> None:
    """A potential that undoes the prior: the product is flat, and has no integral."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("undone", 0.5 * x**2)
    result = pymc_arm.sample(model, 100, random_seed=1, progressbar=False)
    assert result.attrs["verdict"] != "ok"


def test_predictors_called_x() -> None:
    # The vector of coordinates has that name too.
    with pm.Model() as model:
        x = pm.Data("x", np.zeros(3))
        pm.Normal("y", 0.0 * pm.Normal("slope") + x, 1.0, observed=np.zeros(3))
    from pymc_arm.models.compiled import compile_model

    assert compile_model(model).flat == ()


def test_missing_family() -> None:
    with pm.Model() as model:
        pm.Normal("x")
    with pytest.raises(ValueError, match="family='nothing' is not known"):
        run(model, family="nothing")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draws": 0}, "draws=0"),
        ({"draws": 10.5}, "draws=10.5"),
        ({"chains": 0}, "chains=0"),
        ({"cores": 0}, "cores=0"),
        ({"threshold": 1.5}, "threshold=1.5"),
        ({"max_rounds": -1}, "max_rounds=-1"),
        ({"variant": "best"}, "variant='best'"),
        ({"resampling": "lucky"}, "resampling='lucky'"),
        ({"move": "never"}, "move='never'"),
        ({"allocation": "fair"}, "allocation='fair'"),
        ({"budget": 100}, "budget=100"),
        ({"refine": "perhaps"}, "refine='perhaps'"),
        ({"backend": "fortran"}, "backend='fortran'"),
    ],
)
def test_bad_arguments(options: dict, message: str) -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x"), 1, observed=0.0)
    with pytest.raises(ValueError, match=message):
        run(model, **options)


def test_no_model() -> None:
    with pytest.raises(TypeError, match="model"):
        pymc_arm.sample(draws=10)


@pytest.mark.parametrize("name", ["chain", "draw"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_names_of_dimensions_of_the_draws(name: str, deterministic: bool) -> None:
    with pm.Model() as model:
        mean = pm.Normal("mean" if deterministic else name)
        if deterministic:
            pm.Deterministic(name, mean**2)
        pm.Normal("y", mean, 1, observed=1.0)
    with pytest.raises(ModelError, match=f"A variable is called {name!r}"):
        run(model)
