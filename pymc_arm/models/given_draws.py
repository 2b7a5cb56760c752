"""Posterior draws from elsewhere, as points of the unbounded space of a model.

Any sampler may have made them, so nothing is taken for granted: each free variable is found by its
name, its shape and labels are compared, its values go through the transform and back, and the
density of the model must be positive at each draw. What does not fit is named, with its value.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
import xarray as xr

from pymc_arm._compat import COMPILING, coords_and_dims
from pymc_arm.errors import DrawsError
from pymc_arm.models.density import Density, name_term
from pymc_arm.models.functions_of_draws import function_of_draws
from pymc_arm.models.terms import Layout
from pymc_arm.models.transforms import name_transform

__all__ = ["read_draws", "there_and_back"]

# Relative error of a value that has gone through its transform and back: what single precision
# leaves of a sum of a hundred elements. Ten times smaller refuses draws of JAX samplers.
TOLERANCE = 1e-4
# The share of draws that rounding may have put on the edge of a support (a probability of exactly
# one): they count as the outermost of the others. At 1 % that moves log Z by 0.01 at most.
LARGEST_AT_EDGE = 0.01

Draws = dict[str, np.ndarray]
# From draws by name to the value of each free variable and what its transform makes of that again.
_ThereAndBack = Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]


class DrawnPath(Protocol):
    """What is asked of a path whose draws are read."""

    @property
    def layout(self) -> Layout:
        """The free variables as one vector."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each free variable, as the model is written."""

    @property
    def density(self) -> Density:
        """The terms of the model."""

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return log f."""


_functions: WeakKeyDictionary[DrawnPath, _ThereAndBack] = WeakKeyDictionary()


class _Sizes(NamedTuple):
    """How many chains there are, and draws of each."""

    chains: int
    draws: int

    def place(self, row: int) -> str:
        """Return where a row is, in words."""
        chain, draw = divmod(row, self.draws)
        return f"in chain {chain}, draw {draw}"


def read_draws(
    posterior: xr.Dataset,
    model: pm.Model,
    path: DrawnPath,
    log_density: Callable[[np.ndarray], np.ndarray] | None = None,
) -> np.ndarray:
    """Return draws of a model as points, (chain, draw, coordinate), or say why they can't be its.

    Parameters
    ----------
    posterior
        With a variable for each free one of the model; what else it has is ignored.
    model
        The model.
    path
        Its path.
    log_density
        What must be positive at each draw; by default the density of the model.

    Raises
    ------
    DrawsError
        If a variable is missing, or has another shape, other labels, or a value that the model does
        not allow.
    """
    sizes = _sizes(posterior)
    draws = _read_variables(posterior, model, path, sizes)
    points = _to_points(draws, model, path, sizes)
    _check_density(points, draws, path, sizes, log_density or path.log_density)
    return points.reshape(*sizes, -1)


def _sizes(posterior: xr.Dataset) -> _Sizes:
    for dim in ("chain", "draw"):
        if dim not in posterior.sizes:
            found = ", ".join(str(name) for name in posterior.sizes)
            raise DrawsError(
                f"The posterior has no dimension {dim!r}; its dimensions are {found}. Give it as "
                "the sampler returned it, with chains and draws not yet stacked or averaged."
            )
    return _Sizes(posterior.sizes["chain"], posterior.sizes["draw"])


def _read_variables(
    posterior: xr.Dataset, model: pm.Model, path: DrawnPath, sizes: _Sizes
) -> Draws:
    """Return the draws of each free variable, one a row."""
    layout = path.layout
    names = [slot.name for slot in layout.slots]
    missing = [name for name in names if name not in posterior]
    if missing:
        has = ", ".join(str(name) for name in list(posterior.data_vars)[:8]) or "none"
        raise DrawsError(
            f"The posterior has no draws of {', '.join(repr(name) for name in missing)}, which the "
            f"model leaves free; its variables are {has}. Is it of this model? Sample all of its "
            "variables (without var_names=), or give the model that was sampled."
        )
    coords, dims = coords_and_dims(model)
    shapes = path.shapes
    draws = {}
    for slot in layout.slots:
        array = _in_order(posterior[slot.name], dims.get(slot.name), coords)
        expected, found = shapes[slot.name], array.shape[2:]
        if found != expected:
            raise DrawsError(
                f"{slot.name!r} has shape {found} in the posterior and {expected} in the model. "
                "Give the model that was sampled, with the same data and coords."
            )
        values = np.asarray(array.values).reshape(-1, *expected)
        draws[slot.name] = _check_numbers(slot.name, slot.discrete, values, sizes)
    return draws


def _in_order(
    array: xr.DataArray, dims: Sequence[str] | None, coords: Mapping[str, Any]
) -> xr.DataArray:
    """Return an array with the dimensions and labels of the model in the model's order."""
    rest = [str(dim) for dim in array.dims if dim not in ("chain", "draw")]
    if dims is not None and set(dims) == set(rest):
        rest = list(dims)
    array = array.transpose("chain", "draw", *rest)
    for dim in rest:
        own, labels = coords.get(dim), array.coords.get(dim)
        if own is None or labels is None or len(own) != array.sizes[dim]:
            continue
        mine, theirs = np.asarray(own).tolist(), labels.values.tolist()
        if mine == theirs or theirs == list(range(len(theirs))):
            continue
        if set(mine) != set(theirs) or len(set(mine)) < len(mine):
            other = next(
                label for label in (*theirs, *mine) if (label in mine) != (label in theirs)
            )
            raise DrawsError(
                f"The labels of dimension {dim!r} of {array.name!r} differ: {other!r} is not in "
                "both. Give the model that was sampled, with the same coords."
            )
        array = array.sel({dim: mine})
    return array


def _check_numbers(name: str, discrete: bool, values: np.ndarray, sizes: _Sizes) -> np.ndarray:
    """Refuse what is not a number, or not whole where it must be."""
    if values.dtype.kind not in "biuf":
        raise DrawsError(f"{name!r} is of type {values.dtype} in the posterior: give numbers.")
    values = values if values.dtype.kind == "i" else values.astype(float)
    wrong = ~np.isfinite(values)
    if discrete:
        wrong |= values != np.round(values)
    if wrong.any():
        place = np.argwhere(wrong)[0]
        kind = "a whole number" if discrete else "a finite number"
        raise DrawsError(
            f"{_element(name, place[1:])} is {values[tuple(place)]:.6g} "
            f"{sizes.place(int(place[0]))}, and not {kind}. Leave such draws out, or sample again."
        )
    return values


def _to_points(draws: Draws, model: pm.Model, path: DrawnPath, sizes: _Sizes) -> np.ndarray:
    """Return the transformed draws, (draw, coordinate), and refuse values off the support."""
    with COMPILING, np.errstate(all="ignore"):
        if path not in _functions:
            _functions[path] = there_and_back(model)
        results = _functions[path](draws)
    values, again = results[::2], results[1::2]
    for rv, value, back in zip(model.free_RVs, values, again, strict=True):
        transform = model.rvs_to_transforms.get(rv)
        _check_support(rv.name, draws[rv.name], value, back, transform, sizes)
    return _from_edges(path.layout.ravel(values, sizes.chains * sizes.draws))


def _check_support(
    name: str,
    draws: np.ndarray,
    value: np.ndarray,
    back: np.ndarray,
    transform: Any,
    sizes: _Sizes,
) -> None:
    """Refuse draws that do not come back from their transform, or lie on the edge of it."""
    rows = len(draws)
    own, back = draws.astype(float).reshape(rows, -1), back.astype(float).reshape(rows, -1)
    value = value.reshape(rows, -1)
    at_edge: np.ndarray = np.isinf(value).any(axis=1)
    scale = np.abs(own).max(axis=1, keepdims=True, initial=0.0)
    wrong: np.ndarray = ~(np.abs(back - own) <= TOLERANCE * scale) & ~at_edge[:, None]
    wrong |= np.isnan(value).any(axis=1, keepdims=True)
    if wrong.any():
        row, column = (int(k) for k in np.argwhere(wrong)[0])
        _refuse_value(name, draws, row, column, sizes, transform, "outside of")
    if at_edge.mean() > LARGEST_AT_EDGE:
        _refuse_value(name, draws, int(np.argmax(at_edge)), 0, sizes, transform, "on the edge of")


def there_and_back(model: pm.Model) -> _ThereAndBack:
    """Return the function from draws to values, and to what their transforms make of them."""
    graphs = []
    for rv in model.free_RVs:
        transform, value = model.rvs_to_transforms.get(rv), rv
        back = value
        if transform is not None:
            value = transform.forward(rv, *rv.owner.inputs)
            back = transform.backward(value, *rv.owner.inputs)
        graphs += [value, back]
    return function_of_draws(model, graphs)


def _refuse_value(
    name: str,
    values: np.ndarray,
    row: int,
    column: int,
    sizes: _Sizes,
    transform: Any,
    where: str,
) -> None:
    place = np.unravel_index(column, values.shape[1:]) if values.ndim > 1 else ()
    value = values[(row, *place)]
    means = "" if transform is None else f" (transform {name_transform(transform)!r})"
    raise DrawsError(
        f"{_element(name, place)} is {value:.6g} {sizes.place(row)}, {where} the support that the "
        f"model gives it{means}. Are these draws of this model?"
    )


def _from_edges(points: np.ndarray) -> np.ndarray:
    """Return points with infinite coordinates at the outermost of the others."""
    if np.isfinite(points).all():
        return points
    finite = np.where(np.isfinite(points), points, np.nan)
    return np.clip(points, np.nanmin(finite, axis=0), np.nanmax(finite, axis=0))


def _check_density(
    points: np.ndarray,
    draws: Draws,
    path: DrawnPath,
    sizes: _Sizes,
    log_density: Callable[[np.ndarray], np.ndarray],
) -> None:
    """Refuse draws at which the model has no density, by the first term that has none."""
    impossible = ~np.isfinite(log_density(points))
    if not impossible.any():
        return
    row, density = int(np.argmax(impossible)), path.density
    terms = density.terms(points[row : row + 1])[0]
    term = int(np.argmin(np.isfinite(terms)))
    number = int(np.searchsorted(density.offsets, term, side="right")) - 1
    block, share = density.blocks[number], f"{impossible.mean():.2g} of the draws"
    if block.kind == "prior":
        values = draws[block.name][row].ravel()
        index = min(term - int(density.offsets[number]), len(values) - 1)
        raise DrawsError(
            f"{name_term(density, term)!r} is {values[index]:.6g} {sizes.place(row)}, where its "
            f"prior has density zero, as at {share}. Are these draws of this model?"
        )
    raise DrawsError(
        f"The density of {name_term(density, term)!r} is zero or not a number {sizes.place(row)}, "
        f"as at {share}: draws of the posterior can't be there. Are they of this model and of "
        "these data?"
    )


def _element(name: str, place: Sequence[Any]) -> str:
    index = ", ".join(str(int(k)) for k in place)
    return f"{name}[{index}]" if index else name
