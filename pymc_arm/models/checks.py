"""What makes a marginal likelihood impossible or wrong, found before any sampling.

Some models have none (improper priors), some are not what they seem (minibatches), and some priors
of PyMC are not normalised, which makes log Z useless for comparison. The first two are refused with
a remedy; known normalisers are corrected, and the result says so.
"""

from dataclasses import dataclass

import numpy as np
import pymc as pm
import scipy
from pymc.distributions import multivariate
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.multivariate import CARRV, ICARRV
from pymc.distributions.simulator import SimulatorRV
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_arm.errors import ModelError
from pymc_arm.models.autoregression import check_autoregression
from pymc_arm.models.density import LogDensity
from pymc_arm.models.partly_missing import is_partly_missing
from pymc_arm.models.prior import INTERPRETED, PriorSampler
from pymc_arm.models.terms import Layout, TermBlock

__all__ = [
    "Correction",
    "check_density",
    "check_model",
    "find_corrections",
    "find_flat",
    "shape_of",
]


# Elements of the table of terms held at once.
LARGEST_TABLE = 4_000_000
# Further prior draws that are looked at before a model is refused for its data: a run of four
# chains with the default number of particles sees as many. They take a second at most.
MORE_DRAWS = 4_000
LKJ = ("_LKJCholeskyCovRV", "_LKJCorrRV", "LKJCorrRV")


@dataclass(frozen=True)
class Correction:
    """A constant that a prior's log-density lacks, with its standard error."""

    variable: str
    log_factor: float
    reason: str
    error: float = 0.0


def check_model(model: pm.Model) -> None:
    """Refuse models that have no marginal likelihood."""
    # A distribution of another package (pymc_arm.RBM is one) may be unnormalised on purpose.
    known = all(
        type(rv.owner.op).__module__.startswith(("pymc.", "pytensor.")) for rv in model.free_RVs
    )
    if known and not model.observed_RVs and not model.potentials:
        raise ModelError(
            "The model has no observed variable and no potential: there is no likelihood to "
            "integrate, and log Z is 0 whatever the prior. Give the data as observed=, or the "
            "log-likelihood as a pm.Potential. (pm.sample_prior_predictive draws from a prior.)"
        )
    for variable in [*model.free_RVs, *model.deterministics]:
        if variable.name in ("chain", "draw"):
            raise ModelError(
                f"A variable is called {variable.name!r}, which is the name of a dimension of the "
                "posterior draws, so that these can't be returned. Give it another name."
            )
    for rv in model.free_RVs:
        operation = type(rv.owner.op).__name__
        if operation in ("FlatRV", "HalfFlatRV"):
            raise ModelError(
                f"{rv.name!r} has an improper prior ({operation[:-2]}): it has no density that "
                "integrates to one, so log Z is undefined. Give it a proper prior, such as "
                "pm.Normal or pm.HalfNormal with a wide scale."
            )
        if operation == "WishartRV":
            raise ModelError(
                f"{rv.name!r} is a Wishart: its density is one of symmetric matrices, but PyMC "
                "gives it all entries as free coordinates, almost all of which make no symmetric "
                "matrix. Use pm.LKJCholeskyCov, or pm.LKJCorr with a prior for the scales."
            )
        if isinstance(rv.owner.op, SimulatorRV):
            _refuse_simulator(rv)
        if isinstance(rv.owner.op, CARRV | ICARRV):
            check_autoregression(rv)
    for rv in model.observed_RVs:
        operation = type(rv.owner.op).__name__
        if isinstance(rv.owner.op, SimulatorRV):
            _refuse_simulator(rv)
        if isinstance(rv.owner.op, CARRV | ICARRV):
            check_autoregression(rv)
        if is_partly_missing(rv) and isinstance(rv.owner.inputs[0].owner.op, CARRV | ICARRV):
            raise ModelError(
                f"{rv.name!r} is a part of a CAR or ICAR vector with missing elements: PyMC's "
                "density of those lacks a factor. Make the whole vector a free variable, and "
                "observe what was measured with a noise of its own."
            )
        minibatch = operation == "MinibatchRandomVariable" or any(
            type(v.owner.op).__name__ == "MinibatchIndexRV"
            for v in ancestors([rv, model.rvs_to_values[rv]])
            if v.owner is not None
        )
        if minibatch:
            raise ModelError(
                f"{rv.name!r} is observed in minibatches (total_size): its likelihood is a noisy "
                "estimate, so log Z is not defined. Use all of the data, without total_size."
            )
    for potential in model.potentials:
        _check_potential(model, potential)


def _check_potential(model: pm.Model, potential: TensorVariable) -> None:
    """Refuse a potential that is a variable of the model, or is drawn anew at each look."""
    known = set(model.basic_RVs)
    if potential in known:
        raise ModelError(
            f"The potential {potential.name!r} is a random variable, which pm.Potential has "
            "renamed. Give it an expression, such as 1.0 * variable or pm.logp(prior, value)."
        )
    for variable in ancestors([potential], blockers=known):
        node = variable.owner
        random = node is not None and isinstance(node.op, RandomVariable | SymbolicRandomVariable)
        if random and variable not in known:
            raise ModelError(
                f"The potential {potential.name!r} has a draw of {type(node.op).__name__} in it, "
                "which is another one at each evaluation. Make it a variable of the model, or use "
                "its pm.logp."
            )


def _refuse_simulator(rv: TensorVariable) -> None:
    raise ModelError(
        f"{rv.name!r} is a Simulator: it has no likelihood to integrate. pm.sample_smc does "
        "approximate Bayesian computation for such models."
    )


def check_density(
    model: pm.Model, layout: Layout, density: LogDensity, draws: np.ndarray, prior: PriorSampler
) -> None:
    """Refuse models whose density is zero or not a number wherever a run could begin.

    Where none of the given draws is possible, more are taken; what is refused then has been looked
    for at all of these, and at the model's initial point.
    """
    if not density.count:
        return
    possible, ever = _find_possible(density, draws)
    seen = len(draws)
    if not possible.all():
        rng = np.random.default_rng(1)
        for _ in range(MORE_DRAWS // len(draws)):
            more = layout.ravel(prior.draw(rng, len(draws)), len(draws))
            now, ever_now = _find_possible(density, more)
            possible, ever, seen = possible | now, ever | ever_now, seen + len(draws)
            if possible.all():
                density.notes.append(
                    f"the data are possible at fewer than one in {len(draws)} prior draws: the "
                    "prior is far from them, or much wider"
                )
                break
    if possible.all():
        return
    number = int(possible.argmin())
    block = density.blocks[number]
    rows = slice(int(density.offsets[number]), int(density.offsets[number + 1]))
    bad = np.flatnonzero(~ever[rows])
    where = f"{block.name}[{bad[0]}]" if len(bad) else block.name
    if block.kind == "prior":
        raise ModelError(
            f"The prior of {block.name!r} has density zero, or not a number, at each of {seen} of "
            "its own draws. Check its parameters; if it is a CustomDist, that logp= and random= "
            "are of the same distribution."
        )
    start = _initial_terms(model, layout, density)[rows]
    there = (
        "At the model's initial point it is finite, so the data are possible, but a run begins "
        "with prior draws: use a prior that reaches such points more often."
        if np.isfinite(start).all()
        else "Nor is it finite at the model's initial point. Check the data and predictors for NaN "
        "and for values outside of the distribution's support, the prior's range, and parameters "
        "that can't be, such as a scale of zero."
    )
    if not len(bad):
        there = f"Each term of it is finite at some draw, but never all at once. {there}"
    raise ModelError(
        f"The log-density of {where!r} is -inf or NaN at each of {seen} draws from the prior. "
        f"{there}"
    )


def _find_possible(density: LogDensity, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each block whether it is finite at some draw, and for each term."""
    possible = np.zeros(len(density.blocks), dtype=bool)
    ever = np.zeros(density.count, dtype=bool)
    chunk = max(1, LARGEST_TABLE // density.count)
    for first in range(0, len(draws), chunk):
        terms = density.terms(draws[first : first + chunk])
        _refuse_infinite(density, terms)
        finite = np.isfinite(terms)
        ever |= finite.any(axis=0)
        for number in range(len(density.blocks)):
            columns = finite[:, density.offsets[number] : density.offsets[number + 1]]
            possible[number] |= columns.all(axis=1).any()
        if possible.all():
            break
    return possible, ever


def _initial_terms(model: pm.Model, layout: Layout, density: LogDensity) -> np.ndarray:
    """Return all terms at the model's initial point, NaN if it has none."""
    try:
        start = model.initial_point(random_seed=0)
        values = [np.asarray(start[model.rvs_to_values[rv].name])[None] for rv in model.free_RVs]
        return density.terms(layout.ravel(values, 1))[0]
    except (ValueError, NotImplementedError, KeyError):
        return np.full(density.count, np.nan)


def _refuse_infinite(density: LogDensity, terms: np.ndarray) -> None:
    """Refuse data and potentials whose log-density is +inf; a prior may be, on its edge."""
    for number, block in enumerate(density.blocks):
        columns = terms[:, density.offsets[number] : density.offsets[number + 1]]
        infinite = np.isposinf(columns).any(axis=1).mean()
        if infinite and block.kind != "prior":
            raise ModelError(
                f"The log-density of {block.name!r} is +inf at {infinite:.2g} of the draws from "
                "the prior: it overflows, or log Z is infinite. Check its expression."
            )


def find_flat(
    x: TensorVariable, density: LogDensity, scopes: np.ndarray, draws: np.ndarray
) -> list[str]:
    """Return the data and potentials that have free variables but the same value at all draws."""
    names = []
    for number, block in enumerate(density.blocks):
        rows = np.arange(density.offsets[number], density.offsets[number + 1])
        if block.kind == "prior" or not len(rows) or scopes[rows].any():
            continue
        terms = density.terms(draws[:200], rows[:20])
        if np.all(terms == terms[0]) and _varies(x, block, draws):
            names.append(block.name)
    return names


def _varies(x: TensorVariable, block: TermBlock, draws: np.ndarray) -> bool:
    """Whether variables that vary are in a graph, also when it is simplified (0 * x is not)."""
    pieces = [p for p, variable in zip(block.pieces, block.variable, strict=True) if variable]
    for piece in pieces:
        simple = rewrite_graph(piece, include=("canonicalize",))
        if x in ancestors([simple]):
            return bool(np.any(np.ptp(draws, axis=0) > 0))
    return False


def find_corrections(model: pm.Model, prior: PriorSampler | None = None) -> list[Correction]:
    """Return what is known to be missing from the priors of a model."""
    prior = PriorSampler(model) if prior is None else prior
    corrections = []
    # The share of draws in which all of them are in order counts once.
    partly = [rv for rv in model.free_RVs if rv.name in prior.kept and prior.kept[rv.name].orders]
    if partly:
        corrections.append(_partly_ordered(partly[0], *prior.ordered_mass))
    for rv in model.free_RVs:
        kept = prior.kept.get(rv.name)
        if kept is not None and kept.part in ("ascending", "descending"):
            corrections.append(_ordered(rv))
        if type(rv.owner.op).__name__ in LKJ:
            corrections.extend(_lkj(rv))
    return corrections


def _ordered(rv: TensorVariable) -> Correction:
    """Return log k!: sorting keeps one of the k! orders of exchangeable elements."""
    shape = shape_of(rv)
    length = shape[-1]
    rows = int(np.prod(shape[:-1], dtype=int))
    factor = rows * float(scipy.special.gammaln(length + 1))
    return Correction(rv.name, factor, f"ordered: the prior keeps 1/{length}! of its mass")


def _partly_ordered(rv: TensorVariable, log_mass: float, error: float) -> Correction:
    """Return the logarithm of the inverse share of prior draws that have the order."""
    return Correction(
        rv.name,
        -log_mass,
        f"ordered: the prior keeps {np.exp(log_mass):.3g} of its mass, by draws, to {error:.2g}",
        error,
    )


def _lkj(rv: TensorVariable) -> list[Correction]:
    """Return what makes an LKJ density integrate to one.

    The integral of det(R)^(eta - 1) over correlation matrices is
    I = prod_k pi^(k/2) Gamma(eta + (n - 1 - k)/2) / Gamma(eta + (n - 1)/2), k = 1, ..., n - 1
    (Lewandowski, Kurowicka and Joe, 2009). PyMC adds its logarithm, where it should subtract it.
    """
    scalars = [i for i in rv.owner.inputs if getattr(i.type, "ndim", None) == 0][:2]
    if any(v.owner and isinstance(v.owner.op, RandomVariable) for v in ancestors(scalars)):
        raise ModelError(
            f"There is no log-density for {rv.name!r} that integrates to one: its eta is random, "
            "and the normaliser of LKJ priors, which changes with eta, has the wrong sign in PyMC. "
            "Use a constant eta."
        )
    size, shape = (float(pm.compile([], scalar, mode=INTERPRETED)()) for scalar in scalars)
    size = int(size)
    k = np.arange(1, size)
    log_integral = np.sum(
        0.5 * k * np.log(np.pi) + scipy.special.gammaln(shape + 0.5 * (size - 1 - k))
    )
    log_integral -= (size - 1) * scipy.special.gammaln(shape + 0.5 * (size - 1))
    used = multivariate._lkj_normalizing_constant(shape, size)
    used = float(pm.compile([], used, mode=INTERPRETED)())
    factor = float(-log_integral - used)
    if abs(factor) < 1e-12:
        return []
    # A correlation matrix is a vector of its entries in PyMC 5, and a matrix in PyMC 6.
    batch = shape_of(rv)[: rv.type.ndim - rv.owner.op.ndim_supp]
    rows = int(np.prod(batch, dtype=int))
    return [Correction(rv.name, rows * factor, "LKJ: the normaliser has the wrong sign in PyMC")]


def shape_of(rv: TensorVariable) -> tuple[int, ...]:
    """Return the shape of a variable, evaluated where its type does not tell."""
    known = rv.type.shape
    if None not in known:
        return tuple(known)
    return tuple(int(n) for n in pm.compile([], rv.shape, mode=INTERPRETED)())
