"""The models on which estimators of log Z are compared in the literature, with their truths.

Definitions and truths are those of ``BENCHMARKS.md`` in the folder ``shared``, where the data are
too; models without data are built from their definition alone. A density without a prior is a
potential over a proper prior, by which it is divided.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

__all__ = ["ROWS", "SHARED", "Row", "logistic_model"]

ABOVE = [folder / "shared" for folder in Path(__file__).resolve().parents]
SHARED = Path(
    os.environ.get("PYMC_ARM_SHARED", next((f for f in ABOVE if f.is_dir()), "../shared"))
)
DATA = SHARED / "data" / "literature"


@dataclass(frozen=True)
class Row:
    """A row of the table of the literature.

    Attributes
    ----------
    name
        Unique name.
    dimension
        Number of unknowns.
    truth, truth_error
        The log evidence, and what it is good to; zero where it is exact.
    estimates
        The best published estimates: method, mean, and standard deviation over seeds.
    build
        Returns a fresh model.
    data
        The file that it needs, or an empty string.
    """

    name: str
    dimension: int
    truth: float
    truth_error: float
    build: Callable[[], pm.Model]
    data: str = ""
    estimates: tuple[tuple[str, float, float], ...] = ()

    @property
    def published(self) -> str:
        """The published estimates as text."""
        return ", ".join(
            f"{method} {mean:g} ({spread:g})" for method, mean, spread in self.estimates
        )

    @property
    def published_rms(self) -> float:
        """The root mean square error of the best of them; NaN where there is none."""
        errors = [np.hypot(mean - self.truth, spread) for _, mean, spread in self.estimates]
        return float(min(errors, default=np.nan))

    @property
    def is_here(self) -> bool:
        """Whether its data are there."""
        return not self.data or (DATA / self.data).is_file()


def logistic_model(design: np.ndarray, outcome: np.ndarray, deviation: float) -> pm.Model:
    """Return a logistic regression with independent normal priors."""
    with pm.Model() as model:
        weight = pm.Normal("weight", 0, deviation, shape=design.shape[1])
        pm.Bernoulli("y", logit_p=pm.math.dot(design, weight), observed=outcome)
    return model


def _load(name: str) -> dict[str, np.ndarray]:
    with np.load(DATA / name) as archive:
        return dict(archive)


def _logistic(name: str, deviation: float) -> pm.Model:
    data = _load(name)
    return logistic_model(data["X"].astype(float), data["y"], deviation)


def _brownian() -> pm.Model:
    """Return a random walk of 30 steps whose middle third is not observed."""
    data = _load("brownian.npz")["y"]
    seen = np.flatnonzero(~np.isnan(data))
    with pm.Model() as model:
        step = pm.LogNormal("step", 0, 2)
        noise = pm.LogNormal("noise", 0, 2)
        start = pm.Normal.dist(0, step)
        walk = pm.GaussianRandomWalk("walk", sigma=step, init_dist=start, steps=len(data) - 1)
        pm.Normal("y", walk[seen], noise, observed=data[seen])
    return model


def _seeds() -> pm.Model:
    """Return germination of seeds on 21 plates, the BUGS example."""
    data = _load("seeds.npz")
    with pm.Model() as model:
        precision = pm.Gamma("precision", 0.01, 0.01)
        a_0, a_1, a_2, a_12 = (pm.Normal(name, 0, 10) for name in ("a_0", "a_1", "a_2", "a_12"))
        plate = pm.Normal("plate", 0, tau=precision, shape=len(data["n"]))
        first, second = data["x1"], data["x2"]
        logit = a_0 + a_1 * first + a_2 * second + a_12 * first * second + plate
        pm.Binomial("r", n=data["n"], logit_p=logit, observed=data["r"])
    return model


def _cox_process(counts_name: str) -> pm.Model:
    """Return a log-Gaussian Cox process on a 40 x 40 grid, without -log y!."""
    counts = _load("pines.npz")[counts_name].ravel().astype(float)
    place = np.stack(np.meshgrid(np.arange(40), np.arange(40), indexing="ij"), -1).reshape(-1, 2)
    gaps = np.sqrt(((place[:, None] - place) ** 2).sum(axis=-1))
    factor = np.linalg.cholesky(1.91 * np.exp(-gaps / (40 / 33)))
    with pm.Model() as model:
        white = pm.Normal("white", 0, 1, shape=1600)
        field = np.log(126) - 1.91 / 2 + pm.math.dot(factor, white)
        pm.Potential("y", counts * field - pm.math.exp(field) / 1600)
    return model


def _density(
    dimension: int, spread: float, log_density: Callable[[TensorVariable], TensorVariable]
) -> pm.Model:
    """Return a density as a potential over independent normals."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, spread, shape=dimension)
        prior = pm.logp(pm.Normal.dist(0, spread), x).sum()
        pm.Potential("density", log_density(x) - prior)
    return model


def _in_a_cube(
    dimension: int, half: float, log_likelihood: Callable[[TensorVariable], TensorVariable]
) -> pm.Model:
    """Return a likelihood over independent uniforms."""
    with pm.Model() as model:
        x = pm.Uniform("x", -half, half, shape=dimension)
        pm.Potential("likelihood", log_likelihood(x))
    return model


def _funnel(x: TensorVariable) -> TensorVariable:
    rest = pm.logp(pm.Normal.dist(0, pt.exp(x[0] / 2)), x[1:]).sum()
    return pm.logp(pm.Normal.dist(0, 3), x[0]) + rest


def _many_wells(x: TensorVariable) -> TensorVariable:
    double, single = x[::2], x[1::2]
    return (0.5 * double + 6 * double**2 - double**4 - single**2 / 2).sum()


def _phase_transition(x: TensorVariable) -> TensorVariable:
    square = (x**2).sum()
    return pt.logaddexp(-square / 2, np.log(9e10) - square / 0.02)


def _rosenbrock(x: TensorVariable) -> TensorVariable:
    first, second = x[::2], x[1::2]
    return -(10 * (first**2 - second) ** 2 + (first - 1) ** 2).sum()


def _shells(x: TensorVariable) -> TensorVariable:
    def shell(sign: float) -> TensorVariable:
        center = np.zeros(x.type.shape[0])
        center[0] = sign * 3.5
        return pm.logp(pm.Normal.dist(2, 0.1), pt.sqrt(((x - center) ** 2).sum()))

    return pt.logaddexp(shell(1), shell(-1))


def _coins(tosses: int) -> pm.Model:
    """Return tosses of a product of two chances, of which only the product is identified."""
    with pm.Model() as model:
        first, second = pm.Uniform("p1", 0, 1), pm.Uniform("p2", 0, 1)
        pm.Binomial("heads", n=tosses, p=first * second, observed=tosses // 2)
    return model


PUBLISHED = {
    "ionosphere": (("DDS", -111.58, 0.12), ("SMC", -111.585, 0.19)),
    "sonar": (("SMC", -108.81, 0.49), ("DDS", -108.90, 0.23)),
    "brownian": (("DDS", 1.05, 0.16), ("SMC", 0.865, 0.58)),
    "lgcp_127": (("PIS", 506.3, 0.63), ("SMC", 504.2, 2.9), ("DDS", 503.0, 0.77)),
    "funnel": (("SMC", -0.05, 0.44), ("DDS", -0.176, 0.099)),
    "phase_transition": (("tempered SMC", -13.8, 0.0),),
}
# Name, dimension, truth, what the truth is good to, model, file of the data.
_TABLE: tuple[tuple[str, int, float, float, Callable[[], pm.Model], str], ...] = (
    ("ionosphere", 35, -111.610, 0.004, partial(_logistic, "ionosphere.npz", 1.0), "ionosphere"),
    ("sonar", 61, -108.376, 0.005, partial(_logistic, "sonar.npz", 1.0), "sonar"),
    ("brownian", 32, 1.18775, 1e-5, _brownian, "brownian"),
    ("seeds", 26, -73.404, 0.002, _seeds, "seeds"),
    ("lgcp_126", 1600, 501.73, 0.03, partial(_cox_process, "counts_126"), "pines"),
    ("lgcp_127", 1600, 512.51, 0.07, partial(_cox_process, "counts_127"), "pines"),
    ("credit_wide", 25, -585.099, 0.003, partial(_logistic, "credit.npz", 10.0), "credit"),
    ("credit_unit", 25, -531.282, 0.003, partial(_logistic, "credit.npz", 1.0), "credit"),
    ("cancer", 31, -67.489, 0.006, partial(_logistic, "cancer.npz", 1.0), "cancer"),
    ("funnel", 10, 0.0, 0.0, partial(_density, 10, 10.0, _funnel), ""),
    ("many_well", 32, 164.69568, 0.0, partial(_density, 32, 2.0, _many_wells), ""),
    ("phase_transition", 10, -11.53388, 0.0, partial(_in_a_cube, 10, 5.0, _phase_transition), ""),
    ("rosenbrock", 10, -29.99579, 1e-5, partial(_in_a_cube, 10, 10.0, _rosenbrock), ""),
    ("coins_100", 2, -4.97455, 0.0, partial(_coins, 100), ""),
    ("coins_100000", 2, -11.87944, 0.0, partial(_coins, 100_000), ""),
    ("shells_2", 2, -1.74564, 1e-5, partial(_in_a_cube, 2, 6.0, _shells), ""),
    ("shells_10", 10, -14.59049, 1e-5, partial(_in_a_cube, 10, 6.0, _shells), ""),
    ("shells_30", 30, -60.12777, 1e-5, partial(_in_a_cube, 30, 6.0, _shells), ""),
)
ROWS = {
    name: Row(name, *values, f"{file}.npz" if file else "", PUBLISHED.get(name, ()))
    for name, *values, file in _TABLE
}
