"""The Bayes factor of a nested model from posterior draws of the larger one alone.

The nested model fixes some variables of the larger one, delta = delta_0, and leaves all others with
their priors. Its Bayes factor is the posterior density of delta at delta_0 over the prior density
there (Dickey, 1971; Verdinelli and Wasserman, 1995, where the prior of delta depends on others).
How the posterior density is estimated is in :mod:`pymc_arm.comparison.point_density`.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_arm._compat import COMPILING, InferenceTree, find_model, get_group
from pymc_arm.comparison.factors import BayesFactor, subtract
from pymc_arm.comparison.point_density import (
    FEWEST_EFFECTIVE,
    LARGEST_TAIL_INDEX,
    Nested,
    nested_ratio,
)
from pymc_arm.comparison.reading import read_attributes
from pymc_arm.errors import DrawsError, TrustWarning, callers_level
from pymc_arm.estimation.convergence import effective_sizes
from pymc_arm.models.compiled import ModelPath, compile_model
from pymc_arm.models.functions_of_draws import function_of_draws
from pymc_arm.models.given_data import check_data
from pymc_arm.models.given_draws import read_draws
from pymc_arm.results import Evidence, summarize

__all__ = ["SavageDickey", "independent_draws", "savage_dickey"]

# Rows that tell whether a transform or a prior depends on other variables.
ROWS = 50


@dataclass(frozen=True)
class SavageDickey(BayesFactor):
    """The Bayes factor of a nested model, by the Savage-Dickey ratio.

    It is a :class:`~pymc_arm.BayesFactor` of the nested model (``first``) against the larger one
    (``second``), with these attributes besides.

    Attributes
    ----------
    log_prior_density
        Of the fixed variables at their values; NaN if it depends on other variables.
    log_posterior_density
        Of the same.
    tail_index
        The Pareto k of the weights that were averaged.
    effective_draws
        How many independent draws the average is worth.
    """

    log_prior_density: float = math.nan
    log_posterior_density: float = math.nan
    tail_index: float = -math.inf
    effective_draws: float = math.inf

    @property
    def reliable(self) -> bool:
        """Whether the standard error can be trusted."""
        enough = self.effective_draws >= FEWEST_EFFECTIVE
        return enough and self.tail_index < LARGEST_TAIL_INDEX

    def agreement(self, other: BayesFactor) -> str:
        """Say whether another estimate of the same Bayes factor agrees with this one.

        Parameters
        ----------
        other
            Of the nested model against the larger one, as :func:`pymc_arm.bayes_factor` has it.

        Examples
        --------
        >>> from pymc_arm import BayesFactor
        >>> from pymc_arm.comparison.savage_dickey import SavageDickey
        >>> print(SavageDickey(1.0, 0.01, 3000).agreement(BayesFactor(1.02, 0.02, 6)))
        Savage-Dickey gives a log Bayes factor of 1.00 ± 0.01, log Z of both models gives 1.02 ± 0.02: they agree.
        """  # noqa: E501
        words = {
            True: "they agree",
            False: "they do not agree",
            None: "the error of one is unknown, so this tells nothing",
        }
        own, given = (summarize(_evidence(one)) for one in (self, other))
        return (
            f"Savage-Dickey gives a log Bayes factor of {own}, log Z of both models gives "
            f"{given}: {words[self.agrees(other)]}."
        )

    def agrees(self, other: BayesFactor) -> bool | None:
        """Whether another estimate is within the 95 % interval of the difference; None if unknown.

        Parameters
        ----------
        other
            As in :meth:`agreement`.
        """
        if not (self.reliable and math.isfinite(other.standard_error)):
            return None
        low, high = subtract(_evidence(self), _evidence(other)).interval()
        return low <= 0 <= high


def _evidence(factor: BayesFactor) -> Evidence:
    return Evidence(factor.log, factor.standard_error, factor.degrees_of_freedom)


def savage_dickey(
    idata: InferenceTree,
    model: pm.Model | None,
    values: Mapping[str, Any],
    *,
    prior_odds: float = 1.0,
    scale: str = "kass-raftery",
) -> SavageDickey:
    """Return the Bayes factor of a nested model against the model that was sampled.

    The nested model is ``pm.do(model, values)``: some variables are fixed, and the others keep
    their priors. It needs no run of its own. The answer is independent of log Z, and so a check of
    a Bayes factor that was estimated in another way.

    Parameters
    ----------
    idata
        Posterior draws of the larger model, by :func:`pymc_arm.sample` or by any other sampler.
    model
        The larger model; None inside of a ``with model:`` block.
    values
        Where to fix variables, by name. A number stands for all elements of a vector.
    prior_odds, scale
        As in :func:`pymc_arm.bayes_factor`.

    Returns
    -------
    SavageDickey
        The Bayes factor of the nested model against the larger one, with its standard error, which
        counts the autocorrelation of the draws.

    Raises
    ------
    DrawsError
        If the draws can't be of this model's posterior.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_arm
    >>> with pm.Model() as model:
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Binomial("y", n=10, p=p, observed=7)
    >>> idata = pymc_arm.sample(model, random_seed=1, progressbar=False)
    >>> fair = pymc_arm.savage_dickey(idata, model, {"p": 0.5})
    >>> round(fair.value, 2)  # exactly 11 * 120 / 2**10
    1.29
    """
    model = find_model(model)
    posterior = _posterior(idata)
    _check_names(model, posterior, values)
    check_data(idata, model)
    path = compile_model(model)
    points = read_draws(posterior, model, path)
    fixed, at, log_prior = _fix(model, path, posterior, values)
    nested = Nested(fixed, at, _kept(path, values))
    ratio = nested_ratio(path, points, nested, independent_draws(idata, points, fixed))
    estimate, effective = ratio.estimate, ratio.effective_draws
    log_factor = estimate.log_evidence - _log_prior_correction(path, values)
    found = SavageDickey(
        log_factor,
        estimate.standard_error,
        estimate.degrees_of_freedom,
        ", ".join(f"{name} = {_shown(value)}" for name, value in values.items()),
        f"{', '.join(values)} free",
        math.log(prior_odds),
        scale,
        log_prior,
        log_factor + log_prior,
        ratio.tail_index,
        effective,
    )
    if not found.reliable:
        warnings.warn(
            f"The Savage-Dickey ratio of {found.first} rests on few draws (worth {effective:.0f}, "
            f"Pareto k {found.tail_index:.2f}): its error is unknown. Take more draws, or run the "
            "nested model itself: pymc_arm.bayes_factor(pm.do(model, values), model).",
            TrustWarning,
            stacklevel=callers_level(),
        )
    return found


def _posterior(idata: InferenceTree) -> xr.Dataset:
    posterior = get_group(idata, "posterior")
    if posterior.attrs.get("modeling_interface") == "bambi":
        raise DrawsError(
            "idata has draws as Bambi gives them, whose intercept is not that of the PyMC model "
            "inside: give the result of pymc_arm.sample(model.backend.model), and that model."
        )
    return posterior


def _check_names(model: pm.Model, posterior: xr.Dataset, values: Mapping[str, Any]) -> None:
    """Refuse names and values that the model does not have."""
    if not isinstance(values, Mapping) or not values:
        raise TypeError(f"values={values!r} must say where to fix what, as in {{'delta': 0.0}}.")
    free = {rv.name: rv for rv in model.free_RVs}
    for name, value in values.items():
        if name not in free:
            raise ValueError(
                f"values names {name!r}, which is not a free variable. Those are {list(free)}."
            )
        if free[name].type.dtype.startswith(("int", "uint", "bool")):
            raise ValueError(
                f"{name!r} is discrete: it has no density, and the share of its draws at {value!r} "
                "over the prior probability of that is the Bayes factor."
            )
        if name not in posterior:
            raise DrawsError(f"idata has no draws of {name!r}: is it of this model?")
        shape, given = posterior[name].shape[2:], np.shape(value)
        if given not in ((), shape):
            raise ValueError(
                f"values[{name!r}] has shape {given}, and {name!r} has {shape}: give a value for "
                "each element, or one number for all."
            )
        if not np.all(np.isfinite(np.asarray(value, dtype=float))):
            raise ValueError(f"values[{name!r}]={value!r} must be finite.")


def _fix(
    model: pm.Model, path: ModelPath, posterior: xr.Dataset, values: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the coordinates that are fixed, where, and the log prior density there."""
    names = list(values)
    rows = {
        rv.name: posterior[rv.name].values.reshape(-1, *posterior[rv.name].shape[2:])[:ROWS]
        for rv in model.free_RVs
    }
    graphs: list[Any] = []
    for name in names:
        rv, transform = model[name], model.rvs_to_transforms.get(model[name])
        value = rv if transform is None else transform.forward(rv, *rv.owner.inputs)
        back = rv if transform is None else transform.backward(value, *rv.owner.inputs)
        graphs += [value, back, pm.logp(rv, rv).sum()]
        rows[name] = np.broadcast_to(np.asarray(values[name], dtype=float), rows[name].shape)
    with COMPILING, np.errstate(all="ignore"):
        results = function_of_draws(model, graphs)(rows)
    slots = {slot.name: slot for slot in path.plan.layout.slots}
    coordinates: list[int] = []
    places, log_prior = [], 0.0
    for name, value, back, density in zip(
        names, results[::3], results[1::3], results[2::3], strict=True
    ):
        wanted = rows[name]
        where = ""
        if not np.allclose(back, wanted, rtol=1e-4, atol=1e-8) or np.isinf(density).any():
            where = "outside of"
        elif not np.isfinite(value).all():
            where = "on the edge of"
        if where:
            raise ValueError(
                f"values[{name!r}]={values[name]!r} is {where} the support of {name!r}: the model "
                "has no posterior density there. Write the nested model and compare both with "
                "pymc_arm.compare."
            )
        if np.ptp(value, axis=0).max(initial=0.0) > 1e-9:
            raise ValueError(
                f"The support of {name!r} depends on other variables, so that it can't be fixed "
                "by this. Write the nested model and compare both with pymc_arm.compare."
            )
        coordinates += slots[name].coordinates
        places.append(value[0].ravel())
        spread = float(np.ptp(density))
        log_prior += float(density[0]) if spread < 1e-9 * max(1, abs(density[0])) else math.nan
    return np.array(coordinates), np.concatenate(places), log_prior


def _log_prior_correction(path: ModelPath, values: Mapping[str, Any]) -> float:
    """Return what the path multiplies the prior of the fixed variables by, which they lose."""
    return float(sum(c.log_factor for c in path.corrections if c.variable in values))


def _kept(path: ModelPath, values: Mapping[str, Any]) -> np.ndarray:
    """Return one for each term of the density, and zero for the priors of fixed variables."""
    density = path.density
    kept = np.ones(density.count)
    for number, block in enumerate(density.blocks):
        if block.kind == "prior" and block.name in values:
            kept[density.offsets[number] : density.offsets[number + 1]] = 0.0
    return kept


def independent_draws(idata: InferenceTree, points: np.ndarray, fixed: np.ndarray) -> float:
    """Return how many independent draws the fixed variables have, by all that is known."""
    known = float(read_attributes(idata).get("independent_draws", math.inf))
    found = effective_sizes(points[:, :, fixed]) if points.shape[1] >= 4 else np.array([np.inf])
    return float(np.nanmin([known, points.shape[0] * points.shape[1], *found]))


def _shown(value: Any) -> str:
    given: Sequence[float] | float = np.asarray(value, dtype=float).tolist()
    return f"{given:g}" if isinstance(given, float) else str(given)
