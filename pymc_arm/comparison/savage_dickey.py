"""The Bayes factor of a nested model from posterior draws of the larger one alone.

The nested model fixes some variables of the larger one, delta = delta_0, and leaves all others with
their priors. Its Bayes factor is the posterior density of delta at delta_0 over the prior density
there (Dickey, 1971; Verdinelli and Wasserman, 1995, where the prior of delta depends on others).
A histogram of the draws says little about the posterior density in the tail, so the density of the
model is asked instead. With q the joint density, psi the other variables, psi' = a + D (psi - B
delta) for any shift a, diagonal matrix D and matrix B, and w any density,

    p(delta_0 | y) = E[ w(delta) |D| q(delta_0, psi') / q(delta, psi) | y ].

With psi' = psi this is the estimator of Chen (1994). With B the regression of psi on delta, and w
the posterior density of delta, the average has no variance where the posterior is normal, however
far in the tail delta_0 is. The map and w are fitted to other chains than those they are used on.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import scipy
import xarray as xr

from pymc_arm._compat import COMPILING, InferenceTree, find_model, get_group
from pymc_arm.algorithm.resampling import effective_sample_size, log_mean_exp, normalize
from pymc_arm.comparison.factors import BayesFactor, subtract
from pymc_arm.comparison.reading import read_attributes
from pymc_arm.errors import DrawsError, TrustWarning, callers_level
from pymc_arm.estimation.convergence import effective_sizes, pareto_k
from pymc_arm.models.compiled import ModelPath, compile_model
from pymc_arm.models.given_data import check_data
from pymc_arm.models.given_draws import read_draws
from pymc_arm.models.prior import function_of_draws
from pymc_arm.results import Evidence, summarize

__all__ = ["SavageDickey", "savage_dickey"]

# As in sensitivity.py: weights with a heavier tail have no variance, and so no standard error.
LARGEST_TAIL_INDEX = 0.5
FEWEST_EFFECTIVE = 100
# A single chain is cut into so many parts; of each part's draws B and w know nothing.
PARTS = 4
# w ends here, in its standard deviations: its weights are bounded, and 1 % of a normal is lost.
# Without an end, w beyond the outermost draws decides about the error; at 2 ends 5 % is lost.
END = 2.6
# Draws that the map and w are fitted to: their few parameters are known to some percent then.
MOST_FITTED = 1000
# Of fitting the map: with a variance as a nuisance two or three rounds help.
ROUNDS = 6
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
        own, given = (
            Evidence(one.log, one.standard_error, one.degrees_of_freedom) for one in (self, other)
        )
        low, high = subtract(own, given).interval()
        words = "they agree" if low <= 0 <= high else "they do not agree"
        if not (self.reliable and math.isfinite(other.standard_error)):
            words = "the error of one is unknown, so this tells nothing"
        return (
            f"Savage-Dickey gives a log Bayes factor of {summarize(own)}, log Z of both models "
            f"gives {summarize(given)}: {words}."
        )


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
    parts = np.array_split(points.reshape(-1, points.shape[2]), _parts(points))
    log_weights = np.concatenate(
        [
            _weights(path, part, np.concatenate(parts[:k] + parts[k + 1 :]), fixed, at)
            for k, part in enumerate(parts)
        ]
    ) - _log_prior_correction(path, values)
    estimate, effective = _average(log_weights, len(parts), _independent(idata, points, fixed))
    found = SavageDickey(
        estimate.log_evidence,
        estimate.standard_error,
        estimate.degrees_of_freedom,
        ", ".join(f"{name} = {_shown(value)}" for name, value in values.items()),
        f"{', '.join(values)} free",
        math.log(prior_odds),
        scale,
        log_prior,
        estimate.log_evidence + log_prior,
        pareto_k(log_weights),
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


def _parts(points: np.ndarray) -> int:
    chains = int(points.shape[0])
    if points.shape[0] * points.shape[1] < FEWEST_EFFECTIVE:
        size = points.shape[0] * points.shape[1]
        raise DrawsError(f"There are {size} draws: {FEWEST_EFFECTIVE} or more are needed.")
    return PARTS if chains == 1 else min(chains, 2 * PARTS)


def _log_prior_correction(path: ModelPath, values: Mapping[str, Any]) -> float:
    """Return what the path multiplies the prior of the fixed variables by, which they lose."""
    return float(sum(c.log_factor for c in path.corrections if c.variable in values))


def _weights(
    path: ModelPath, points: np.ndarray, others: np.ndarray, fixed: np.ndarray, at: np.ndarray
) -> np.ndarray:
    """Return the log of what is averaged, at some draws, with the map and w fitted to others."""
    others = others[:: -(-len(others) // MOST_FITTED)]
    window = _Window.fit(others[:, fixed])
    chosen, log_ratio = _fit_map(path, others, fixed, at, window.log_density(others[:, fixed]))
    window = _Window.fit(others[:, fixed], log_ratio)
    weights: np.ndarray = chosen.log_ratio(path, points) + window.log_density(points[:, fixed])
    return weights


def _fit_map(
    path: ModelPath, draws: np.ndarray, fixed: np.ndarray, at: np.ndarray, log_window: np.ndarray
) -> tuple["_Map", np.ndarray]:
    """Return the map with the least variance of the weights of these draws, and their log ratios.

    It begins with the regression of psi on delta, or without one. Then the mean of what it gives,
    and its standard deviations, are matched to those under the weights, as long as that helps
    (Paananen, Piironen, Burkner and Vehtari, 2021).
    """
    layout = path.plan.layout
    steady = np.concatenate([np.full(s.size, s.discrete or s.bound < np.inf) for s in layout.slots])
    steady[fixed] = True
    centered = draws - draws.mean(axis=0)
    regression = np.linalg.lstsq(centered[:, fixed], centered, rcond=None)[0]
    regression[:, steady] = 0.0
    zeros, ones = np.zeros(draws.shape[1]), np.ones(draws.shape[1])
    still = _Map(fixed, at, np.zeros_like(regression), zeros, ones)
    candidates = [still, _Map(fixed, at, regression, at @ regression, ones)]
    best, best_ratio, least = still, np.full(len(draws), -np.inf), math.inf
    for _ in range(ROUNDS):
        before = least
        for candidate in candidates:
            ratio = candidate.log_ratio(path, draws)
            spread = _relative_variance(ratio + log_window)
            if spread < least:
                best, best_ratio, least = candidate, ratio, spread
        if not least < before:
            break
        weights = np.exp(normalize(best_ratio + log_window))
        moved, residual = best(draws), draws - draws[:, fixed] @ best.regression
        mean = weights @ moved
        deviation = np.sqrt(weights @ (moved - mean) ** 2)
        candidates = []
        for scale in (best.scale, deviation / np.maximum(residual.std(axis=0), 1e-300)):
            scale = np.where(steady | ~(scale > 0), 1.0, scale)
            shift = np.where(steady, 0.0, mean - scale * residual.mean(axis=0))
            candidates.append(_Map(fixed, at, best.regression, shift, scale))
    return best, best_ratio


@dataclass(frozen=True)
class _Map:
    """From (delta, psi) to (delta_0, psi'), with psi' = shift + scale (psi - B delta)."""

    fixed: np.ndarray
    at: np.ndarray
    regression: np.ndarray
    shift: np.ndarray
    scale: np.ndarray

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Return where points go."""
        moved: np.ndarray = self.shift + self.scale * (
            points - points[:, self.fixed] @ self.regression
        )
        moved[:, self.fixed] = self.at
        return moved

    def log_ratio(self, path: ModelPath, points: np.ndarray) -> np.ndarray:
        """Return log q(delta_0, psi') - log p(delta_0 | psi') - log q(delta, psi) at points.

        The Jacobian of the map is in it.
        """
        names = {slot.name for slot in path.plan.layout.slots if slot.start in self.fixed}
        density = path.density
        weights = np.ones(density.count)
        for number, block in enumerate(density.blocks):
            if block.kind == "prior" and block.name in names:
                weights[density.offsets[number] : density.offsets[number + 1]] = 0.0
        with np.errstate(all="ignore"):
            nested = density.sum(self(points), weights) + np.log(self.scale).sum()
            ratio: np.ndarray = nested - density.sum(points, np.ones(density.count))
        return np.where(np.isnan(ratio), -np.inf, ratio)


@dataclass(frozen=True)
class _Window:
    """The density w: a normal one without its tails."""

    mean: np.ndarray
    inverse: np.ndarray  # of the Cholesky factor of the covariance
    log_constant: float

    @classmethod
    def make(cls, mean: np.ndarray, factor: np.ndarray) -> "_Window":
        size = len(mean)
        kept = float(scipy.special.gammainc(0.5 * size, 0.5 * _end(size) ** 2))
        constant = -0.5 * size * math.log(2 * math.pi) - float(np.log(np.diag(factor)).sum())
        return cls(mean, np.linalg.inv(factor), constant - math.log(kept))

    @classmethod
    def fit(cls, draws: np.ndarray, log_ratio: np.ndarray | None = None) -> "_Window":
        """Return a window of the draws; by ratios, that with the least variance of weights."""
        mean, size = draws.mean(axis=0), draws.shape[1]
        factor = np.linalg.cholesky(np.atleast_2d(np.cov(draws.T)))
        if log_ratio is None or not np.isfinite(log_ratio).any():
            return cls.make(mean, factor)

        def window(parameters: np.ndarray) -> _Window:
            return cls.make(mean + factor @ parameters[:-1], factor * math.exp(parameters[-1]))

        def spread(parameters: np.ndarray) -> float:
            return _relative_variance(log_ratio + window(parameters).log_density(draws))

        found = scipy.optimize.minimize(
            spread, np.zeros(size + 1), method="Nelder-Mead", options={"maxiter": 60 * (size + 1)}
        )
        return window(found.x if found.fun < spread(np.zeros(size + 1)) else np.zeros(size + 1))

    def log_density(self, draws: np.ndarray) -> np.ndarray:
        """Return log w at draws of the fixed variables."""
        squares = (((draws - self.mean) @ self.inverse.T) ** 2).sum(axis=1)
        inside = squares <= _end(len(self.mean)) ** 2
        return np.where(inside, self.log_constant - 0.5 * squares, -np.inf)


def _end(size: int) -> float:
    """Return the distance at which a window of some dimension ends: it keeps as much as of one."""
    kept = scipy.special.gammainc(0.5, 0.5 * END**2)
    return float(np.sqrt(2 * scipy.special.gammaincinv(0.5 * size, kept)))


def _relative_variance(log_weights: np.ndarray) -> float:
    effective = effective_sample_size(log_weights) if np.isfinite(log_weights).any() else 0.0
    return len(log_weights) / effective - 1 if effective else math.inf


def _independent(idata: InferenceTree, points: np.ndarray, fixed: np.ndarray) -> float:
    """Return how many independent draws the fixed variables have, by all that is known."""
    known = float(read_attributes(idata).get("independent_draws", math.inf))
    found = effective_sizes(points[:, :, fixed]) if points.shape[1] >= 4 else np.array([np.inf])
    return float(np.nanmin([known, points.shape[0] * points.shape[1], *found]))


def _average(log_weights: np.ndarray, parts: int, count: float) -> tuple[Evidence, float]:
    """Return the log of the mean weight with its error, and the independent draws behind it.

    The error is that of the weights within parts, which have a B and a w of their own, or that of
    the differences between parts, if it is larger.
    """
    if not np.isfinite(log_weights).any():
        return Evidence(-math.inf, math.inf, 1), 0.0
    weights = np.exp(log_weights - log_mean_exp(log_weights))
    by_part = np.array_split(weights, parts)
    means = np.array([part.mean() for part in by_part])
    around = np.concatenate([part - part.mean() for part in by_part])
    within, between = float(np.mean(around**2)) / count, float(means.var(ddof=1)) / parts
    effective = count * effective_sample_size(log_weights) / log_weights.size
    freedom = max(effective - 1, 1) if within >= between else parts - 1
    estimate = Evidence(log_mean_exp(log_weights), math.sqrt(max(within, between)), freedom)
    return estimate, effective


def _shown(value: Any) -> str:
    given: Sequence[float] | float = np.asarray(value, dtype=float).tolist()
    return f"{given:g}" if isinstance(given, float) else str(given)
