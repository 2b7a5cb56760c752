"""Which predictors of a regression belong in it: all 2^p subsets, from one run.

Each subset is the model with all predictors and some coefficients at zero, so that its Bayes factor
against all predictors is a ratio of densities at a point, and needs draws of that model only
(:mod:`pymc_arm.comparison.point_density`). A normal approximation of the posterior of the
coefficients says which subsets may matter; these are estimated, the most probable ones first, until
all the others together can't move an inclusion probability by more than a tolerance.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import scipy

from pymc_arm._compat import InferenceTree, coords_and_dims, find_model, get_group
from pymc_arm.arguments import check_count
from pymc_arm.comparison.point_density import Nested, nested_ratio
from pymc_arm.comparison.reading import read_attributes
from pymc_arm.comparison.savage_dickey import independent_draws
from pymc_arm.estimation.convergence import effective_sizes
from pymc_arm.html import box, paragraph, table
from pymc_arm.models.compiled import ModelPath, compile_model
from pymc_arm.models.given_data import check_data
from pymc_arm.models.given_draws import read_draws
from pymc_arm.models.terms import VariableSlice

__all__ = ["Inclusion", "inclusion_probabilities"]

# More predictors than this have more subsets than can be listed.
MOST_PREDICTORS = 16
# Subsets that are estimated between two looks at what the others amount to.
BATCH = 8


@dataclass(frozen=True)
class Inclusion:
    """The probability of each predictor, and of subsets of predictors.

    :func:`inclusion_probabilities` returns it.

    Attributes
    ----------
    table
        A row for each predictor: the ``probability`` that its coefficient is not zero, its
        ``standard_error``, and the 95 % interval from ``low`` to ``high``. The interval counts the
        errors of the Bayes factors, which largely cancel since they use the same draws, and what
        the subsets that were not estimated may add.
    subsets
        A row for each subset, the most probable first: the predictors in it, the
        ``log_bayes_factor`` against all predictors, its ``standard_error``, its ``probability``,
        and whether it was ``estimated``; if not, the Bayes factor is a normal approximation.
    """

    table: pd.DataFrame
    subsets: pd.DataFrame

    def __str__(self) -> str:
        count, estimated = len(self.subsets), int(self.subsets["estimated"].sum())
        best = self.subsets.iloc[0]
        return (
            f"{count} subsets of {len(self.table)} predictors, {estimated} of them estimated. The "
            f"most probable one has {best['predictors'] or 'none'} (probability "
            f"{best['probability']:.3f})."
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the most probable subset, and the predictors."""
        rows = [
            (name, f"{row['probability']:.3f}", f"{row['low']:.3f} to {row['high']:.3f}")
            for name, row in self.table.iterrows()
        ]
        columns = ["predictor", "probability that it belongs in", "95 % interval"]
        return box(paragraph(self), table(columns, rows, numbers=(1, 2)))


def inclusion_probabilities(
    idata: InferenceTree,
    model: pm.Model | None,
    variable: str,
    *,
    prior_probability: float = 0.5,
    tolerance: float = 0.002,
    most: int | None = None,
) -> Inclusion:
    """Return how probable it is that each coefficient of a vector is not zero.

    All subsets of predictors are compared. A subset is the model with the coefficients of the
    others at zero; everything else keeps its prior.

    Parameters
    ----------
    idata
        Posterior draws of the model with all predictors.
    model
        That model; None inside of a ``with model:`` block.
    variable
        Its vector of coefficients, independent given other variables, and not transformed.
    prior_probability
        That a predictor belongs in, independently of the others.
    tolerance
        What the subsets that are not estimated may have of the posterior probability.
    most
        How many subsets to estimate at most; by default as many as the tolerance takes.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> import pymc_arm
    >>> rng = np.random.default_rng(2)
    >>> x = rng.normal(size=(50, 3))
    >>> with pm.Model() as model:
    ...     b = pm.Normal("b", 0, 1, shape=3)
    ...     y = pm.Normal("y", x @ b, 1, observed=x[:, 0] + rng.normal(size=50))
    >>> idata = pymc_arm.sample(model, random_seed=1, progressbar=False)
    >>> found = pymc_arm.inclusion_probabilities(idata, model, "b")
    >>> found.table["probability"].round(1).tolist()  # exactly 1.00, 0.14, 0.14
    [1.0, 0.1, 0.1]
    >>> found.subsets["predictors"][0]
    'b[0]'
    """
    model = find_model(model)
    if not 0 < prior_probability < 1:
        raise ValueError(f"prior_probability={prior_probability} must be between 0 and 1.")
    if not 0 < tolerance < 1:
        raise ValueError(f"tolerance={tolerance} must be between 0 and 1.")
    if most is not None:
        check_count("most", most)
    check_data(idata, model)
    path = compile_model(model)
    slot = _find_vector(model, path, variable)
    points = read_draws(get_group(idata, "posterior"), model, path)
    fixed = np.arange(slot.start, slot.start + slot.size)
    # A row for each subset; True is a predictor that is left out. The first leaves out none.
    out = (np.arange(2**slot.size)[:, None] >> np.arange(slot.size)) & 1 > 0
    log_prior = (out * np.log((1 - prior_probability) / prior_probability)).sum(axis=1)
    rough = _approximate(path, points, slot, out)
    independent = independent_draws(idata, points, fixed)
    found = np.full((len(out), 2), np.nan)
    found[0] = 0.0, 0.0  # all predictors against themselves
    weights: dict[int, np.ndarray] = {}
    doubtful = np.zeros(len(out))
    limit = len(out) if most is None else min(int(most) + 1, len(out))
    while True:
        known = ~np.isnan(found[:, 0])
        shift, spread = _calibrate(found[known, 0] - rough[known])
        # Those that are not known count with the benefit of two standard deviations.
        log_weight = log_prior + np.where(known, found[:, 0], rough + shift + 2 * spread)
        probability = scipy.special.softmax(log_weight)
        rest = float(probability[~known].sum())
        if rest < tolerance or known.sum() >= limit:
            break
        waiting = np.flatnonzero(~known)
        order = waiting[np.argsort(-probability[waiting], kind="stable")]
        for place in order[: min(BATCH, limit - int(known.sum()))]:
            nested = _nested(path, slot, out[place])
            ratio = nested_ratio(path, points, nested, independent)
            if not ratio.reliable:
                doubtful[place] = max(1.0, spread)
            error = max(ratio.estimate.standard_error, doubtful[place])
            found[place] = ratio.estimate.log_evidence, error
            weights[int(place)] = ratio.weights
    value = np.where(known, found[:, 0], rough + shift)
    error = np.where(known, found[:, 1], spread)
    probability = scipy.special.softmax(value + log_prior)
    effects = probability[:, None] * (~out - probability @ ~out)
    variance = _variance(idata, points.shape[:2], effects, weights) + doubtful**2 @ effects**2
    rows = _intervals(probability @ ~out, np.sqrt(variance), rest)
    labels, order = _labels(model, slot), np.argsort(-probability, kind="stable")
    subsets: dict[str, Any] = {
        "predictors": [", ".join(np.array(labels)[~out[place]]) for place in order],
        "log_bayes_factor": value[order],
        "standard_error": error[order],
        "probability": probability[order],
        "estimated": known[order],
    }
    return Inclusion(
        pd.DataFrame(rows, index=pd.Index(labels, name="predictor")), pd.DataFrame(subsets)
    )


def _find_vector(model: pm.Model, path: ModelPath, variable: str) -> VariableSlice:
    slots = {slot.name: slot for slot in path.plan.layout.slots}
    if variable not in slots:
        raise ValueError(f"variable={variable!r} is not a free variable. Those are {list(slots)}.")
    slot = slots[variable]
    if len(slot.shape) != 1 or slot.size > MOST_PREDICTORS:
        raise ValueError(
            f"{variable!r} has shape {slot.shape}: give a vector of {MOST_PREDICTORS} coefficients "
            "or fewer."
        )
    transform = model.rvs_to_transforms.get(model[variable])
    if slot.discrete or not slot.elementwise or transform is not None:
        raise ValueError(
            f"{variable!r} must have elements that are independent of each other given other "
            "variables and can have any value, such as those of pm.Normal: zero must be inside of "
            "their support."
        )
    if _terms(path, slot) is None:
        raise ValueError(
            f"The log-prior of {variable!r} is not a sum over its elements: give them independent "
            "priors, such as those of pm.Normal."
        )
    return slot


def _terms(path: ModelPath, slot: VariableSlice) -> np.ndarray | None:
    """Return the places of the prior terms of the elements among all terms."""
    density = path.density
    for number, block in enumerate(density.blocks):
        if block.kind == "prior" and block.name == slot.name:
            places = np.arange(density.offsets[number], density.offsets[number + 1])
            return places if len(places) == slot.size else None
    return None


def _nested(path: ModelPath, slot: VariableSlice, out: np.ndarray) -> Nested:
    terms, kept = _terms(path, slot), np.ones(path.density.count)
    assert terms is not None
    kept[terms[out]] = 0.0
    fixed = slot.start + np.flatnonzero(out)
    return Nested(fixed, np.zeros(len(fixed)), kept)


def _approximate(
    path: ModelPath, points: np.ndarray, slot: VariableSlice, out: np.ndarray
) -> np.ndarray:
    """Return log Bayes factors of subsets if the posterior of the coefficients were normal."""
    flat = points.reshape(-1, points.shape[2])
    draws = flat[:, slot.start : slot.start + slot.size]
    mean, covariance = draws.mean(axis=0), np.atleast_2d(np.cov(draws.T))
    at_zero = flat.copy()
    at_zero[:, slot.start : slot.start + slot.size] = 0.0
    prior = path.density.terms(at_zero, _terms(path, slot)).mean(axis=0)
    found = np.zeros(len(out))
    for place, left_out in enumerate(out):
        if left_out.any():
            inner = np.linalg.cholesky(covariance[np.ix_(left_out, left_out)])
            scaled = np.linalg.solve(inner, mean[left_out])
            density = -0.5 * scaled @ scaled - np.log(np.diag(inner)).sum()
            density -= 0.5 * left_out.sum() * np.log(2 * np.pi)
            found[place] = density - prior[left_out].sum()
    return found


def _calibrate(errors: np.ndarray) -> tuple[float, float]:
    """Return the mean and the standard deviation of the errors of the approximation so far."""
    own = errors[errors != 0]
    if len(own) < 3:
        return 0.0, 1.0
    return float(own.mean()), float(own.std(ddof=1))


def _variance(
    idata: InferenceTree,
    shape: tuple[int, ...],
    effects: np.ndarray,
    weights: Mapping[int, np.ndarray],
) -> np.ndarray:
    """Return the variances of inclusion probabilities by the draws that all subsets share.

    Parameters
    ----------
    idata
        Where the draws are from.
    shape
        Chains and draws.
    effects
        The derivatives of inclusion probabilities with respect to log Bayes factors, (subset,
        predictor).
    weights
        Of the draws, for each subset that was estimated: their mean is one.
    """
    places = list(weights)
    if not places:
        return np.zeros(effects.shape[1])
    # To first order a probability is an average over draws of this.
    influence = (np.stack(list(weights.values()), axis=1) - 1) @ effects[places]
    by_chain = influence.reshape(*shape, -1)
    known = float(read_attributes(idata).get("independent_draws", np.inf))
    sizes = effective_sizes(by_chain) if shape[1] >= 4 else np.full(effects.shape[1], np.nan)
    independent = np.fmin(np.fmin(sizes, known), len(influence))
    found: np.ndarray = influence.var(axis=0) / independent
    return found


def _intervals(point: np.ndarray, error: np.ndarray, rest: float) -> dict[str, np.ndarray]:
    """Return the columns of the table: what was not estimated may all be on one side."""
    half = scipy.special.ndtri(0.975) * error + rest
    return {
        "probability": point,
        "standard_error": np.hypot(error, 0.5 * rest),
        "low": np.clip(point - half, 0, 1),
        "high": np.clip(point + half, 0, 1),
    }


def _labels(model: pm.Model, slot: VariableSlice) -> list[str]:
    """Return names of the elements: labels of their dimension, or the variable with an index."""
    coords, dims = coords_and_dims(model)
    own = coords.get((dims.get(slot.name) or [""])[0])
    if own is not None and len(own) == slot.size:
        return [str(label) for label in own]
    return [slot.label(coordinate) for coordinate in slot.coordinates]
