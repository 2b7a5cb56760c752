"""How much log Z, and so a Bayes factor, depends on a prior.

With another prior p' for a variable, Z' / Z is the posterior mean of p' / p: no new run is needed,
as long as there are enough posterior draws where the posterior under p' is. The table says whether
there are.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import scipy
from pytensor.tensor.variable import TensorVariable

from pymc_arm._compat import InferenceTree, get_group, unwrap_model
from pymc_arm.algorithm.resampling import effective_sample_size, log_mean_exp
from pymc_arm.models.functions_of_draws import function_of_draws

__all__ = ["find_center", "sensitivity"]

# The location parameter of families that have one, by its place among the parameters.
LOCATIONS = {
    "NormalRV": 0,
    "CauchyRV": 0,
    "LaplaceRV": 0,
    "LogisticRV": 0,
    "GumbelRV": 0,
    "SkewNormalRV": 0,
    "StudentTRV": 1,
}
# Importance weights with a heavier tail than this have no variance, and so no standard error.
LARGEST_TAIL_INDEX = 0.5
FEWEST_EFFECTIVE = 100


def sensitivity(
    idata: InferenceTree,
    model: pm.Model,
    priors: Mapping[str, Any],
) -> pd.DataFrame:
    """Return log Z under other priors, by reweighting the posterior draws.

    Parameters
    ----------
    idata
        The result of :func:`pymc_arm.sample`.
    model
        The model that was sampled.
    priors
        For each variable a factor, or several, by which the scale of its prior is multiplied: about
        the location of a prior that has one, about zero for a positive variable, and about the
        middle of a uniform prior. Or other priors instead, such as ``pm.HalfNormal.dist(2)``.

    Returns
    -------
    pandas.DataFrame
        A row for each prior: ``variable``, ``prior`` and ``scale`` (NaN if another distribution
        was given), ``log_evidence`` with its ``standard_error``, ``difference`` from the log Z of
        the run with its ``difference_se`` (which is smaller, since the run's own error is in both),
        ``effective_fraction``, ``tail_index`` of the weights, and whether all this is ``reliable``.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_arm
    >>> with pm.Model() as model:
    ...     mu = pm.Normal("mu", 0, 1)
    ...     y = pm.Normal("y", mu, 1, observed=0.5)
    >>> idata = pymc_arm.sample(model, random_seed=1, progressbar=False)
    >>> table = pymc_arm.sensitivity(idata, model, {"mu": [0.5, 2.0]})
    >>> table[["variable", "scale", "reliable"]]
      variable  scale  reliable
    0       mu    0.5      True
    1       mu    2.0      True
    """
    model = unwrap_model(model)
    posterior = get_group(idata, "posterior")
    if posterior.attrs.get("modeling_interface") == "bambi":
        raise ValueError(
            "idata has draws as Bambi gives them, and priors are about those of the PyMC model "
            "inside, whose intercept is another: give the result of "
            "pymc_arm.sample(model.backend.model)."
        )
    names = [rv.name for rv in model.free_RVs]
    for name in priors:
        if name not in names:
            raise ValueError(
                f"priors names {name!r}, which is not a free variable. Those are {names}."
            )
        if name not in posterior:
            raise ValueError(
                f"idata has no posterior draws of {name!r}: is it this model's result?"
            )
    attributes = get_group(idata, "arm").attrs
    log_evidence = float(attributes["log_marginal_likelihood"])
    error = float(attributes["log_marginal_likelihood_se"])
    rows = []
    for name, given in priors.items():
        several = isinstance(given, list | tuple | np.ndarray)
        for prior in given if several else [given]:
            log_ratio = _log_ratio(model, posterior, name, prior)
            rows.append({"variable": name, **_summary(prior, log_ratio, log_evidence, error)})
    return pd.DataFrame(rows)


def _summary(
    prior: Any, log_ratio: np.ndarray, log_evidence: float, error: float
) -> dict[str, Any]:
    """Average the ratio of the densities over draws, (chain, draw)."""
    flat = np.where(np.isnan(log_ratio), -np.inf, log_ratio).ravel()
    difference = log_mean_exp(flat)
    effective = effective_sample_size(flat)
    variance = 1 / effective - 1 / len(flat) if effective else np.inf
    by_chain = np.array([log_mean_exp(row) for row in log_ratio])
    if len(by_chain) > 1 and np.isfinite(by_chain).all():
        variance = max(variance, float(np.var(by_chain, ddof=1)) / len(by_chain))
    tail_index = _tail_index(flat)
    scaled = not isinstance(prior, TensorVariable)
    return {
        "prior": f"scale x {float(prior):g}" if scaled else _describe(prior),
        "scale": float(prior) if scaled else np.nan,
        "log_evidence": log_evidence + difference,
        "standard_error": float(np.hypot(error, np.sqrt(variance))),
        "difference": difference,
        "difference_se": float(np.sqrt(variance)),
        "effective_fraction": effective / len(flat),
        "tail_index": tail_index,
        "reliable": bool(effective >= FEWEST_EFFECTIVE and tail_index < LARGEST_TAIL_INDEX),
    }


def _log_ratio(model: pm.Model, posterior: Any, name: str, prior: Any) -> np.ndarray:
    """Return log p'(x) - log p(x) at each draw, (chain, draw)."""
    rv = model[name]
    before = pm.logp(rv, rv)
    if isinstance(prior, TensorVariable):
        after = pm.logp(prior, rv)
    else:
        factor = _checked_factor(name, prior)
        center = find_center(rv)
        after = pm.logp(rv, (rv - center) / factor + center) - np.log(factor)
    draws = {free.name: posterior[free.name].values for free in model.free_RVs}
    shape = draws[name].shape[:2]
    rows = {free: values.reshape(-1, *values.shape[2:]) for free, values in draws.items()}
    (ratio,) = function_of_draws(model, [after.sum() - before.sum()])(rows)
    return ratio.reshape(shape)


def _checked_factor(name: str, prior: Any) -> float:
    try:
        factor = float(prior)
    except (TypeError, ValueError):
        factor = np.nan
    if not 0 < factor < np.inf:
        raise ValueError(
            f"priors[{name!r}] has {prior!r}: give positive factors for the scale of the prior, "
            "or distributions such as pm.HalfNormal.dist(2)."
        )
    return factor


def find_center(rv: TensorVariable) -> Any:
    """Return the point about which a prior is scaled."""
    kind = type(rv.owner.op).__name__
    if kind in LOCATIONS:
        return rv.owner.op.dist_params(rv.owner)[LOCATIONS[kind]]
    if kind == "UniformRV":
        low, high = rv.owner.op.dist_params(rv.owner)
        return 0.5 * (low + high)
    draws = pm.draw(rv, 200, random_seed=1)
    bounded = kind in ("BetaRV", "KumaraswamyRV", "TriangularRV", "VonMisesRV")
    discrete = rv.type.dtype.startswith(("int", "uint", "bool"))
    if discrete or bounded or rv.owner.op.ndim_supp or np.min(draws) < 0:
        raise ValueError(
            f"The prior of {rv.name!r} ({kind[:-2]}) has no scale to multiply. Give another prior "
            f"instead, as in {{{rv.name!r}: [pm.{kind[:-2]}.dist(...)]}}."
        )
    return 0.0


def _describe(prior: TensorVariable) -> str:
    try:
        from pymc.printing import str_for_dist

        return str(str_for_dist(prior)).split("~")[-1].strip()
    except (AttributeError, NotImplementedError, TypeError, ValueError):  # no printer for it
        return type(prior.owner.op).__name__.removesuffix("RV")


def _tail_index(log_weights: np.ndarray) -> float:
    """Return the shape of a generalised Pareto distribution fitted to the largest weights."""
    size = len(log_weights)
    count = int(min(0.2 * size, 3 * np.sqrt(size)))
    weights = np.sort(np.exp(log_weights - log_weights.max()))
    excess = weights[-count:] - weights[-count - 1] if count >= 5 else np.zeros(0)
    excess = excess[excess > 0]
    if len(excess) < 5 or excess[-1] < 1e-12:
        return -np.inf if count >= 5 else np.inf
    shape, _, _ = scipy.stats.genpareto.fit(excess, floc=0)
    return float(shape)
