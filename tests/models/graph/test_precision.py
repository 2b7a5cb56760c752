"""Numbers of single precision in a model do not make a density of single precision.

Every density is compared with that of SciPy, to 1e-7 nats, where PyMC's own is wrong by 1e-3 to 1.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

from pymc_arm.models.compiled import compile_model
from pymc_arm.models.graph.precision import widen


def _binomial() -> Any:
    return pm.Binomial("y", n=2_000_000, p=0.25, observed=500_700)


CASES: dict[str, tuple[Callable[[], Any], float]] = {
    "poisson": (
        lambda: pm.Poisson("y", 1e6, observed=1_002_000),
        stats.poisson.logpmf(1_002_000, 1e6),
    ),
    "binomial": (_binomial, stats.binom.logpmf(500_700, 2_000_000, 0.25)),
    "negative binomial": (
        lambda: pm.NegativeBinomial("y", n=262144.0, p=0.25, observed=787_000),
        stats.nbinom.logpmf(787_000, 262144.0, 0.25),
    ),
    "gamma": (
        lambda: pm.Gamma("y", 30000.0, 8192.0, observed=3.7),
        stats.gamma.logpdf(3.7, 30000.0, scale=1 / 8192.0),
    ),
    "beta": (
        lambda: pm.Beta("y", 100000.0, 300000.0, observed=0.2507),
        stats.beta.logpdf(0.2507, 100000.0, 300000.0),
    ),
    "inverse gamma": (
        lambda: pm.InverseGamma("y", 50000.0, 100000.0, observed=2.01),
        stats.invgamma.logpdf(2.01, 50000.0, scale=100000.0),
    ),
    "many normals": (
        lambda: pm.Normal("y", 0.0, 1000.0, observed=np.full(20_000, 3.0)),
        20_000 * stats.norm.logpdf(3.0, 0, 1000.0),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("free", [False, True])
def test_densities_have_all_their_digits(name: str, free: bool) -> None:
    """``free``: beside a potential of the same value, which must not change a digit."""
    build, exact = CASES[name]
    with pm.Model() as model:
        mean = pm.Normal("mean")
        build()
        if free:
            pm.Potential("term", pt.log(pt.as_tensor(1e6)) * 1e6 + mean)
    path = compile_model(model)
    points, _ = path.initialize(np.random.default_rng(1), 3)
    data = np.concatenate(
        [
            np.full(n, b.name == "y")
            for b, n in zip(path.density.blocks, path.density.sizes, strict=True)
        ]
    )
    found = path.density.sum(points, data.astype(float))
    assert found == pytest.approx(exact, rel=1e-13, abs=1e-7)
    if free:
        own = np.array([block.name == "term" for block in path.density.blocks])
        rest = path.density.sum(points, np.repeat(own, path.density.sizes).astype(float))
        assert rest == pytest.approx(1e6 * np.log(1e6) + points[:, 0], abs=1e-7)


def test_what_a_model_casts_is_rounded() -> None:
    x = pt.dvector("x")
    (found,) = widen([pt.exp(pt.cast(x, "float32"))])
    rounded = float(np.float32(0.1))
    np.testing.assert_allclose(found.eval({x: [0.1]}), np.exp(rounded), rtol=1e-15)


def test_operations_that_insist_on_a_type_keep_it() -> None:
    """Setting elements of a narrow array to wide numbers is an error, so they are cast back."""
    x = pt.dvector("x")
    logarithm = pt.log(pt.constant(np.float32(1e6)))
    table = pt.set_subtensor(pt.cast(x, "float32")[0], logarithm)
    (found,) = widen([table + x])
    expected = np.array([np.log(1e6) + 1.0, 4.0])
    np.testing.assert_allclose(found.eval({x: [1.0, 2.0]}), expected, rtol=1e-6)


def test_graphs_without_narrow_numbers_are_not_touched() -> None:
    x = pt.dvector("x")
    graph = pt.exp(x) * 0.5
    assert widen([graph])[0] is graph
