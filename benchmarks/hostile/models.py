"""Models that misbehave: densities that raise, are NaN, infinite or slow, and data that can't be.

Where a model has a log Z it is known; where it has none, only an error or a verdict other than "ok"
is right.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from scipy import stats
from scipy.special import log_ndtr

from benchmarks.hostile.tally import Case
from benchmarks.suite.numerics import gauss_legendre, log_integral

__all__ = ["BlackBox", "black_box_model", "model_cases"]

Y = np.array([0.3, 1.2, -0.4])
# Normal prior, three observations with noise one: y is normal with covariance 1 + the identity.
EXACT = float(stats.multivariate_normal(np.zeros(3), np.ones((3, 3)) + np.eye(3)).logpdf(Y))


class BlackBox(Op):
    """A log-likelihood as users write one: Python on numbers, without a gradient."""

    __props__ = ("function",)

    def __init__(self, function: Callable[[np.ndarray], Any]) -> None:
        self.function = function

    def make_node(self, x: Any) -> Apply:  # type: ignore[override]
        """Return the node of one argument."""
        return Apply(self, [pt.as_tensor_variable(x)], [pt.dscalar()])

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        """Call the function."""
        outputs[0][0] = np.asarray(self.function(inputs[0]))


def log_likelihood(x: np.ndarray) -> float:
    """Return that of the data, at one mean."""
    return float(stats.norm.logpdf(Y, x, 1.0).sum())


def black_box_model(function: Callable[[np.ndarray], Any]) -> pm.Model:
    """Return a model of a mean whose likelihood is a black box."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("likelihood", BlackBox(function)(x))
    return model


def _custom_model(function: Callable[[np.ndarray], Any]) -> pm.Model:
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.CustomDist("y", x, logp=lambda value, mean: BlackBox(function)(mean), observed=Y)
    return model


def _raise_above(limit: float) -> Callable[[np.ndarray], float]:
    def function(x: np.ndarray) -> float:
        if x > limit:
            raise ValueError(f"the simulator can't take {float(x):.2f}")
        return log_likelihood(x)

    return function


def _simple(prior: Callable[[], Any], **observed: Any) -> Callable[[], pm.Model]:
    """Return a model of a mean with this prior; further arguments are of the data."""

    def build() -> pm.Model:
        with pm.Model() as model:
            x = prior()
            pm.Normal("y", **{"mu": x, "sigma": 1, "observed": Y, **observed})
        return model

    return build


def _potential(term: Callable[[Any], Any]) -> Callable[[], pm.Model]:
    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Normal("x", 0, 1)
            pm.Potential("term", term(x))
        return model

    return build


def model_cases() -> Iterator[Case]:
    """Yield the cases."""

    def boxes(name: str, function: Callable[[np.ndarray], Any], exact: float | None) -> list[Case]:
        return [
            Case(f"a black box {name}", lambda: black_box_model(function), exact),
            Case(f"a distribution {name}", lambda: _custom_model(function), exact),
        ]

    yield from boxes("without a gradient", log_likelihood, EXACT)
    for limit in (-10.0, 0.0, 2.0, 4.0):
        yield from boxes(f"that raises above {limit}", _raise_above(limit), None)

    def nan_above(x: np.ndarray) -> float:
        return np.nan if x > 0.5 else log_likelihood(x)

    # NaN is no density; samplers take it for zero. The posterior is normal with precision four.
    center, scale = Y.sum() / 4, 0.5
    below = EXACT + float(log_ndtr((0.5 - center) / scale))
    yield from boxes("that is NaN above 0.5", nan_above, below)
    yield from boxes("that is always NaN", lambda x: np.nan, None)
    yield from boxes("that is infinite above 0.5", lambda x: np.inf if x > 0.5 else 0.0, None)
    yield from boxes("in single precision", lambda x: np.float32(log_likelihood(x)), None)
    yield from boxes("of another shape", lambda x: np.zeros(3), None)
    yield from boxes("that is text", lambda x: "text", None)
    yield from boxes("that is complex", lambda x: 1j, None)

    normal = lambda **options: lambda: pm.Normal("x", **options)  # noqa: E731
    yield Case("NaN among the data", _simple(normal(), observed=np.array([1.0, np.inf])), None)
    yield Case("a scale of zero", _simple(normal(), sigma=0.0), None)
    yield Case("a negative scale", _simple(normal(), sigma=-1.0), None)
    yield Case("a scale of NaN", _simple(normal(), sigma=np.nan), None)
    yield Case("a prior scale of zero", _simple(normal(sigma=0.0)), None)
    yield Case("a prior scale of infinity", _simple(normal(sigma=np.inf)), None)
    yield Case("a prior mean of NaN", _simple(normal(mu=np.nan)), None)
    yield Case("an empty interval", _simple(lambda: pm.Uniform("x", 2, 1)), None)
    for scale in (1e100, 1e300):
        exact = EXACT + 0.5 * np.log(4) - np.log(scale) - 0.5 * np.log(3)
        exact += 0.5 * (Y.sum() ** 2 / 3 - Y.sum() ** 2 / 4)
        yield Case(f"a prior scale of {scale:.0e}", _simple(normal(sigma=scale)), float(exact))
    yield Case("a predictor of infinity", _simple(normal(), mu=np.array([np.inf, 1.0, 2.0])), None)
    for shift in (1e6, -1e6, 1e12):
        yield Case(f"a potential of {shift:.0e}", _potential(lambda x, s=shift: 0 * x + s), shift)
    yield Case("a potential that is NaN", _potential(lambda x: pt.log(-1 - x**2)), None)
    rule = gauss_legendre(0, 12, 400)
    half = log_integral(lambda x: stats.norm.logpdf(x) + np.sqrt(x), rule)
    yield Case("a root of negative numbers", _potential(pt.sqrt), half)
    # These have no finite Z.
    yield Case("a potential of 0.6 x^2", _potential(lambda x: 0.6 * x**2), None)
    yield Case("a potential of x^4", _potential(lambda x: x**4), None)
    yield Case("a potential of exp(x)", _potential(lambda x: pt.exp(x)), None)
    yield Case("a potential of 0.5 x^2", _potential(lambda x: 0.5 * x**2), None)
    yield Case("a pole", _potential(lambda x: -1.5 * pt.log(pt.abs(x))), None)
