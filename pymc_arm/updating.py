"""``update``: a result of old data is carried to the same model with more data."""

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_arm._compat import (
    InferenceTree,
    constant_data,
    coords_and_dims,
    find_model,
    get_group,
    has_group,
    is_wrapper,
    observed_data,
)
from pymc_arm.comparison.reading import read_attributes, read_evidence
from pymc_arm.diagnosis import attach_verdict
from pymc_arm.errors import DrawsError
from pymc_arm.estimation.estimate import Evidence
from pymc_arm.estimation.reciprocal import reciprocal_estimate
from pymc_arm.models.appended import REMEDY, Rows, find_rows, find_terms
from pymc_arm.models.bambi import undo_bambi
from pymc_arm.models.checks import shape_of
from pymc_arm.models.compiled import ModelPath, compile_model
from pymc_arm.models.density import LogDensity
from pymc_arm.models.given_data import check_data
from pymc_arm.models.given_draws import read_draws
from pymc_arm.models.quick_path import QuickPath, quick_path
from pymc_arm.models.terms import Layout
from pymc_arm.models.update_path import (
    TwoDensities,
    UpdatePath,
    path_from_model,
    path_from_rows,
)
from pymc_arm.results import make_inference_tree
from pymc_arm.running.given import Given
from pymc_arm.running.options import Options
from pymc_arm.running.processors import available_cores
from pymc_arm.running.renewal import Renewal
from pymc_arm.running.updated import carry_draws
from pymc_arm.wrapped import finish_as_given

__all__ = ["update"]

_log = logging.getLogger("pymc")

# Fewer different draws than this, or than this share of them, are a cloud that was lost.
FEWEST_DISTINCT, SMALLEST_SHARE = 100, 0.05
# Draws at which the density of the old data is looked at, to compare its log Z with the recorded
# one, and by how much they may differ: so many errors, and so many nats.
CHECKED, CHECKED_PER_DIMENSION, LARGEST_Z, SMALLEST_DIFFERENCE = 300, 10, 5.0, 0.1


def update(
    idata: InferenceTree,
    model: Any = None,
    *,
    previous: Any = None,
    random_seed: int | Sequence[int] | np.random.Generator | None = None,
    cores: int | None = None,
    backend: str | None = None,
) -> InferenceTree:
    """Carry a result to a model with more data: new posterior draws, and the new log Z.

    The draws of the old posterior are weighted by the likelihood of the new rows and resampled. If
    too few effective draws are left, they are shifted and scaled, drawn anew from a fitted density,
    or moved in steps. log p(new | old) is added to the old log Z. Adding a few rows costs less than
    a run on all of them.

    Parameters
    ----------
    idata
        A result of :func:`sample`, :func:`evidence` or :func:`update`, with the old data.
    model
        The same model with new rows appended to its data, by ``pm.set_data`` or built again;
        optional inside of a ``with model:`` block. A model of Bambi needs ``previous``.
    previous
        The model with the old data. It is needed only where the density is no product over rows
        (time series, Gaussian processes), or where priors or predictors depend on all rows.
    random_seed
        One seed for everything.
    cores
        How many chains run at the same time; by default as many as there are processors.
    backend
        ``"numpy"``, ``"numba"`` or ``"c"``; by default whichever suits the model.

    Returns
    -------
    InferenceData or DataTree
        As that of :func:`sample`, so that another update can follow. In ``attrs`` are also
        ``log_new_given_old`` and ``log_new_given_old_se``, ``previous_log_marginal_likelihood``
        and ``updates``, the number of updates since the last run.

    Raises
    ------
    DrawsError
        If the old data are not the first rows of the new, the draws are not of this model, or too
        few of them differ; the message names variable, value and remedy.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> import pymc_arm
    >>> rows = np.array([1, 0, 1, 1, 0, 1, 1, 1, 0, 1])
    >>> with pm.Model() as model:
    ...     y = pm.Data("y", rows)
    ...     p = pm.Beta("p", 1, 1)
    ...     toss = pm.Bernoulli("toss", p, observed=y)
    ...     first = pymc_arm.sample(random_seed=1, progressbar=False)
    ...     pm.set_data({"y": np.append(rows, [1, 1])})
    ...     second = pymc_arm.update(first, random_seed=1)
    >>> round(float(np.exp(second.attrs["log_new_given_old"])), 1)  # exactly 8 / 12 * 9 / 13
    0.5
    """
    options = Options(cores=cores, random_seed=random_seed)
    earlier = _log_evidence(idata)
    attributes = read_attributes(idata)
    draws, wrapper = _posterior(idata), model
    if is_wrapper(model) and previous is None:
        raise DrawsError(
            "Bambi chooses priors and centres predictors by the data, so that the old posterior is "
            "not that of the first rows: give previous=, the model of Bambi with the old data."
        )
    model = find_model(model)
    _check_free(draws, model)
    renewal: Renewal | None = None
    if previous is None:
        rows = find_rows(idata, model)
        whole = functools.cache(lambda: _path_of_rows(model, rows, backend))
        quick = quick_path(model, draws, rows) if backend in (None, "numpy") else None
        path, given = _begin(draws, model, quick, whole, earlier, attributes)
        assert isinstance(path.density, LogDensity)
        renewal = _renewal(attributes, earlier, path.density, rows)
    else:
        if is_wrapper(previous):
            draws, previous = undo_bambi(draws, previous)
        previous = find_model(previous)
        check_data(idata, previous)
        whole = functools.cache(lambda: _path_of_models(model, previous, backend))
        path, given = _begin(draws, model, None, whole, earlier, attributes)
    rng = np.random.default_rng(options.random_seed)
    outcome = carry_draws(path, given, earlier, rng, cores or available_cores(), renewal, whole)
    coords, dims = coords_and_dims(model)
    result = make_inference_tree(
        outcome.chains,
        outcome.estimates,
        {
            **outcome.summary.to_attrs(),
            **path.describe_model(),
            "family": "generic",
            "previous_verdict": str(attributes.get("verdict", "ok")),
            "updates": int(attributes.get("updates", 0)) + 1,
        },
        coords=coords,
        dims=dims,
        observed=observed_data(model),
        constants=constant_data(model),
    )
    return attach_verdict(finish_as_given(wrapper, result))


def _log_evidence(idata: Any) -> Evidence:
    """Return the old log Z, or say how to get one."""
    if isinstance(idata, pm.Model):
        raise DrawsError("The result comes first, then the model: update(idata, model).")
    try:
        found = read_evidence(idata)
    except (ValueError, AttributeError, KeyError) as error:
        raise DrawsError(
            f"{type(idata).__name__} has no log Z to add to: give a result of pymc_arm.sample, or "
            "what pymc_arm.evidence(idata, old_model) makes of draws of another sampler."
        ) from error
    if not np.isfinite(found.log_evidence) or not np.isfinite(found.standard_error):
        raise DrawsError(
            f"The old log Z is {found.log_evidence:.6g} with a standard error of "
            f"{found.standard_error:.3g}, to which nothing can be added: {REMEDY}"
        )
    return found


def _posterior(idata: Any) -> xr.Dataset:
    if has_group(idata, "posterior"):
        return get_group(idata, "posterior")
    raise DrawsError(
        f"{type(idata).__name__} has no group 'posterior', so that there are no draws to begin "
        f"with: {REMEDY}"
    )


def _check_free(draws: xr.Dataset, model: pm.Model) -> None:
    """Refuse models without parameters, and parameters that grow with the data."""
    if not model.free_RVs:
        raise DrawsError(
            "The model has no free variables, so that its log Z is the log-likelihood: "
            "pymc_arm.sample(model) gives it."
        )
    for rv in model.free_RVs:
        if rv.name not in draws:
            continue
        old = draws[rv.name].shape[2:]
        new = shape_of(rv)
        grown = len(old) == len(new) and all(a <= b for a, b in zip(old, new, strict=True))
        if grown and old != new:
            raise DrawsError(
                f"{rv.name!r} has shape {old} in the result and {new} in the model: it has grown "
                "with the data, and there are no draws of what is new in it. Write the model "
                f"without a variable for each row, or {REMEDY}"
            )


def _path_of_rows(model: pm.Model, rows: Mapping[str, Rows], backend: str | None) -> UpdatePath:
    path = compile_model(model, backend=backend)
    assert isinstance(path.density, LogDensity)
    return path_from_rows(path, find_terms(path.density, rows))


def _path_of_models(model: pm.Model, previous: pm.Model, backend: str | None) -> UpdatePath:
    path = compile_model(model, backend=backend)
    return path_from_model(path, _same_space(path, previous, backend))


def _begin(
    draws: xr.Dataset,
    model: pm.Model,
    quick: QuickPath | None,
    whole: Callable[[], UpdatePath],
    earlier: Evidence,
    attributes: Mapping[str, Any],
) -> tuple[QuickPath | UpdatePath, Given]:
    """Return a path that suits the draws, and these: whatever is refused, by the whole path."""
    if quick is not None:
        try:
            return quick, _read(draws, model, quick, earlier, attributes)
        except DrawsError as error:
            _log.info("pymc_arm: compiled as a whole: %s", error)
    return whole(), _read(draws, model, whole(), earlier, attributes)


def _same_space(path: ModelPath, previous: pm.Model, backend: str | None) -> ModelPath:
    """Return the path of the old data, whose coordinates must be those of all data."""
    found = compile_model(previous, backend=backend)
    for old, new in zip(found.plan.layout.slots, path.plan.layout.slots, strict=False):
        if (old.name, old.shape, old.discrete) != (new.name, new.shape, new.discrete):
            raise DrawsError(
                f"{old.name!r} of shape {old.shape} in previous= stands where the model has "
                f"{new.name!r} of shape {new.shape}: give the same model with the old data."
            )
    if found.plan.layout.dimension != path.plan.layout.dimension:
        raise DrawsError(
            f"previous= has {found.plan.layout.dimension} free coordinates, and the model has "
            f"{path.plan.layout.dimension}: give the same model with the old data."
        )
    return found


def _renewal(
    attributes: Mapping[str, Any], earlier: Evidence, density: LogDensity, rows: Mapping[str, Rows]
) -> Renewal:
    """Return the last result whose draws were new: that which is updated, or one before it."""

    def log_ratio_since(then: Mapping[str, int]) -> Callable[[np.ndarray], np.ndarray]:
        since = np.zeros(density.count)
        counts = {name: Rows(then[name], own.all) for name, own in rows.items()}
        since[find_terms(density, counts)] = 1.0
        return lambda points: density.sum(points, since)

    before = {name: own.old for name, own in rows.items()}
    return Renewal.read(attributes, earlier, before, log_ratio_since)


class _OldDensity:
    """The density of the old data at some of the draws: all of them would take too long."""

    def __init__(self, path: TwoDensities) -> None:
        self._path = path
        self.points, self.values = np.empty((0, 0)), np.empty(0)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Return the density of some, and zero for others."""
        every = max(len(points) // max(CHECKED, CHECKED_PER_DIMENSION * points.shape[1]), 1)
        self.points = points[::every]
        self.values = self._path.old_log_density(self.points)
        result = np.zeros(len(points))
        result[::every] = self.values
        return result


def _read(
    draws: xr.Dataset,
    model: pm.Model,
    path: QuickPath | UpdatePath,
    earlier: Evidence,
    attributes: Mapping[str, Any],
) -> Given:
    """Return the draws as points, or refuse them."""
    old, layout = _OldDensity(path), path.layout
    given = Given(
        read_draws(draws, model, path, old),
        [layout.label(k) for k in range(layout.dimension)],
        independent=float(attributes.get("independent_draws", np.nan)),
    )
    _check_distinct(given, layout)
    if not layout.discrete.any():
        _check_log_evidence(given, earlier, old)
    return given


def _check_distinct(given: Given, layout: Layout) -> None:
    """Refuse a cloud of copies of a few draws."""
    continuous = ~layout.discrete
    if not continuous.any():
        return
    points = given.points.reshape(given.size, -1)[:, continuous]
    distinct = len(np.unique(points, axis=0))
    if distinct < max(FEWEST_DISTINCT, SMALLEST_SHARE * given.size):
        raise DrawsError(
            f"Only {distinct} of the {given.size} draws differ from each other: too few to carry "
            f"to new data. Give a result with more draws, or {REMEDY}"
        )


def _check_log_evidence(given: Given, earlier: Evidence, old: _OldDensity) -> None:
    """Refuse a result whose log Z is not that of the old data, as far as its draws can tell."""
    share = given.effective / given.size
    found = reciprocal_estimate(old.points, old.values, share * len(old.points))
    difference = abs(found.log_evidence - earlier.log_evidence)
    error = float(np.hypot(found.standard_error, earlier.standard_error))
    if difference > LARGEST_Z * error + SMALLEST_DIFFERENCE:
        raise DrawsError(
            f"The result is not that of the old rows of this model: its log Z is "
            f"{earlier.log_evidence:.2f}, and the old rows have {found.log_evidence:.2f} (error "
            f"{error:.2g}) by its draws. Priors or predictors may depend on all rows (they were "
            "centred or scaled, say): give previous=, the model with the old data. Or it is "
            f"another model: {REMEDY}"
        )
