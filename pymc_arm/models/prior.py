"""Draws from the prior, and from values back to variables, without compiling anything.

Both graphs run once or twice a run, on all particles at once, so NumPy's own speed is enough:
they are batched and interpreted, which saves the seconds that a compiler would take.
"""

import logging
from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.variable import TensorVariable

from pymc_arm.errors import ModelError
from pymc_arm.models.graph.vectorizing import put_in_place
from pymc_arm.models.graph_sampler import INTERPRETED, GraphSampler, interpreted
from pymc_arm.models.partly_missing import StandIn, find_stand_ins
from pymc_arm.models.redraw import redraw
from pymc_arm.models.stable import stabilize
from pymc_arm.models.transforms import (
    TOLERANCE,
    Kept,
    is_fixed,
    is_usual,
    name_transform,
    understand,
)

__all__ = [
    "INTERPRETED",
    "Prior",
    "PriorSampler",
    "interpreted",
    "is_fixed",
]

_log = logging.getLogger("pymc")

# Where draws that overflow are put: the largest power of ten whose square can be summed over any
# number of particles. A draw of 1e150 and one of 1e600 are alike to any likelihood.
LARGEST = 1e150
# The same on the scale of a transform, where exp and 1 - sigmoid are about to be rounded to zero.
LARGEST_TRANSFORMED = 700.0
# Draws that tell which share of the prior is possible: the logarithm of a half to 0.01.
MASS_DRAWS = 10_000
# The same where draws are taken one at a time: scans of random steps took a minute.
FEW_MASS_DRAWS = 1000
# Where log Z is divided by the share (an order of elements that differ) its error is one of log Z,
# whatever the run does: draws go on until it is this small, in nats, or there are so many of them.
# A tenth of the prior takes all of them, and has an error of 0.007.
SMALL_ERROR, MOST_MASS_DRAWS = 0.003, 200_000
# With a smaller share, a run would need more draws for one that is possible than it has particles.
SMALLEST_SHARE = 1e-3
_SEED = 20160713


class Prior(Protocol):
    """Joint prior draws of the coordinates of a path."""

    @property
    def log_mass(self) -> float:
        """The logarithm of the prior's mass where draws are possible."""

    @property
    def integrated(self) -> frozenset[str]:
        """The variables whose transform keeps a part of the prior that has no constant mass."""

    def draw(self, rng: np.random.Generator, size: int) -> list[np.ndarray]:
        """Return an array (size, ...) for each variable."""


class PriorSampler(GraphSampler):
    """Joint prior draws of the values of all free variables (transformed, unconstrained).

    Attributes
    ----------
    kept
        By name, what part of the prior a transform keeps, where it is not PyMC's own choice.
    stand_ins
        By name, the densities that missing elements of vectors are drawn from.
    log_mass
        The logarithm of the prior's mass where draws are possible: they are from that part. Zero
        for most models, and where a correction takes it into account.
    notes
        What a user should know about the draws.
    """

    def __init__(self, model: pm.Model) -> None:
        self.variables = list(model.free_RVs)
        self._transforms = {
            rv.name: name_transform(transform)
            for rv, transform in model.rvs_to_transforms.items()
            if transform is not None
        }
        rng = np.random.default_rng(_SEED)
        self.kept: dict[str, Kept] = {}
        for rv in self.variables:
            if not is_usual(rv, model.rvs_to_transforms.get(rv)):
                self.kept[rv.name] = understand(model, rv, rng)
        self._transformed = [model.rvs_to_transforms.get(rv) is not None for rv in self.variables]
        self.stand_ins = find_stand_ins(model)
        values, flags, random = _graphs(model, self.kept, self.stand_ins)
        super().__init__([*values, *flags], random)
        for name in sorted(self.integrated):
            self.notes.append(
                f"{name}: its transform keeps {self.kept[name].share:.2g} of its prior, and log Z "
                "is of the density as it is written, with that factor in it"
            )
        self.log_mass, self._share, self._share_error = 0.0, 1.0, 0.0
        self._prepared = False

    def draw(self, rng: np.random.Generator, size: int) -> list[np.ndarray]:
        """Return an array (size, ...) for each free variable."""
        if not self.variables:
            return []
        self.prepare()
        arrays, possible = self._draw_finite(rng, size)
        if possible.all():
            return arrays
        parts, found = [[a[possible] for a in arrays]], int(possible.sum())
        while found < size:
            more = max(size - found, 10)
            arrays, possible = self._draw_finite(rng, int(1.2 * more / self._share))
            parts.append([a[possible] for a in arrays])
            found += int(possible.sum())
        return [np.concatenate(column)[:size] for column in zip(*parts, strict=True)]

    def prepare(self) -> None:
        """Find out how draws are made, and which share of them is possible."""
        if self.variables and not self._prepared:
            self._measure()
            self._prepared = True

    @property
    def integrated(self) -> frozenset[str]:
        """The variables that a transform restricts, element by element: no draw is in the rest."""
        return frozenset(name for name, kept in self.kept.items() if kept.part == "elements")

    @property
    def ordered_mass(self) -> tuple[float, float]:
        """The logarithm of the prior's mass in an order that its elements have, and its error."""
        if not any(kept.orders for kept in self.kept.values()):
            return 0.0, 0.0
        return float(np.log(self._share)), self._share_error

    def _draw_finite(
        self, rng: np.random.Generator, size: int
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Return draws without infinities, and which of them are possible."""
        results = self.draw_graphs(rng, size)
        arrays, flags = results[: len(self.variables)], results[len(self.variables) :]
        possible = np.ones(size, dtype=bool)
        for flag in flags:
            possible &= flag.astype(bool)
        finished = []
        for rv, array, transformed in zip(self.variables, arrays, self._transformed, strict=True):
            if array.dtype.kind == "f" and array.size:
                array = _tame(array, transformed)
                if rv.name in self.integrated:
                    array = _fill(rng, array)
                possible &= np.isfinite(array).reshape(size, -1).all(axis=1)
            finished.append(array)
        return finished, possible

    def _measure(self) -> None:
        """Find out which share of the draws is possible, and note what is unusual."""
        rng = np.random.default_rng(_SEED)
        try:
            raw = self.draw_graphs(rng, 500)
        except MemoryError:
            raise
        except Exception as error:  # whatever a distribution of a user raises
            raise ModelError(self._why_not(error)) from error
        for rv, array, transformed in zip(self.variables, raw, self._transformed, strict=False):
            if array.dtype.kind == "f" and array.size and rv.name not in self.integrated:
                array = array.astype(float)  # single precision has no 1e150
                far = np.isfinite(array) & (np.abs(array) > (np.inf if transformed else LARGEST))
                beyond = (np.isinf(array) | far).reshape(len(array), -1).any(axis=1).mean()
                if beyond:
                    edge = "the edge of its support" if transformed else f"{LARGEST:g}"
                    self.notes.append(
                        f"{rv.name}: {beyond:.2g} of the prior draws are beyond {edge} in floating "
                        "point and are put there"
                    )
        _, possible = self._draw_finite(rng, 500)
        if possible.all():
            return
        tried = FEW_MASS_DRAWS if self.one_by_one else MASS_DRAWS
        rest = [self._draw_finite(rng, 1000)[1] for _ in range(tried // 1000)]
        possible = np.concatenate([possible, *rest])
        share = float(possible.mean())
        if share < SMALLEST_SHARE:
            raise ModelError(self._refusal(share, len(possible)))
        count, orders = len(possible), any(kept.orders for kept in self.kept.values())
        most = 0 if self.one_by_one else MOST_MASS_DRAWS
        while orders and _log_error(share, count) > SMALL_ERROR and count < most:
            more = self._draw_finite(rng, MASS_DRAWS)[1]
            share = (share * count + more.sum()) / (count + len(more))
            count += len(more)
        self._share, self._share_error = float(share), _log_error(share, count)
        if not orders:
            self.log_mass = float(np.log(share))
            self.notes.append(
                f"{share:.3g} (to {self._share_error * share:.1g}) of the prior draws are "
                "possible; the others have density zero, or a transform leaves them out, and log Z "
                "is of the density as it is written, with that factor in it"
            )

    def _why_not(self, error: Exception) -> str:
        """Return why no prior draw can be had, with the name of the first variable at fault."""
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        for rv, value in zip(self.variables, self._values, strict=False):
            try:
                GraphSampler([value], self._random).draw_graphs(np.random.default_rng(_SEED), 2)
            except Exception as own:
                reason = f"{type(own).__name__}: {own}".splitlines()[0][:200]
                return (
                    f"{rv.name!r} can't be drawn from its prior ({reason}). A run begins with "
                    "prior draws. Give pm.CustomDist a random=, keep parameters within what the "
                    "distribution allows, or use another distribution."
                )
        return f"The prior of the model can't be drawn from ({reason})."

    def _refusal(self, share: float, count: int) -> str:
        restricted = [name for name, kept in self.kept.items() if kept.part == "rows"]
        if restricted:
            return (
                f"The transform {self._transforms[restricted[0]]!r} of {restricted[0]!r} keeps "
                f"{share:.2g} of its prior ({count} draws went there and back): too little to draw "
                "from. PyMC puts transform= after the distribution's own transform; "
                "default_transform= replaces that one. Or give it a prior that lives where the "
                "transform does."
            )
        raw = self.draw_graphs(np.random.default_rng(_SEED), 500)
        shares = [
            np.isnan(a).reshape(len(a), -1).any(axis=1).mean() if a.dtype.kind == "f" else 0.0
            for a in raw[: len(self.variables)]
        ]
        name = self.variables[int(np.argmax(np.array(shares) > 0))].name
        return (
            f"{1 - share:.3g} of the prior draws of {name!r} are not a number: its parameters are "
            "outside of what its distribution allows (a scale that is not positive, a covariance "
            "that is not positive definite), or overflow. Give its parents priors within that."
        )


def _log_error(share: float, count: int) -> float:
    """Return the standard error of the logarithm of a share of so many draws."""
    return float(np.sqrt((1 - share) / (share * count)))


def _tame(array: np.ndarray, transformed: bool) -> np.ndarray:
    """Return draws with what is beyond floating point put at the end of it."""
    if transformed:
        return np.where(np.isinf(array), np.sign(array) * LARGEST_TRANSFORMED, array)
    if array.dtype.kind != "f":
        return array
    # In single precision squares overflow sooner.
    limit = min(LARGEST, float(np.finfo(array.dtype).max) ** 0.5)
    return np.clip(array, -limit, limit)


def _fill(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """Return an array whose missing elements are some of the others.

    They stand for elements that a transform leaves out, until these come in by integration.
    """
    missing = np.isnan(array)
    if not missing.any():
        return array
    others = array[~missing]
    filled = array.copy()
    count = int(missing.sum())
    filled[missing] = rng.choice(others, count) if len(others) else rng.normal(size=count)
    return filled


def _graphs(
    model: pm.Model, kept: Mapping[str, Kept], stand_ins: Mapping[str, StandIn]
) -> tuple[list[TensorVariable], list[TensorVariable], list[TensorVariable]]:
    """Return the graphs of the transformed draws, of their being possible, and what is random."""
    places = {node: place for place, node in enumerate(toposort(list(model.free_RVs)))}
    # What depends on an observed variable is drawn given the data.
    above = set(ancestors(model.free_RVs))
    draws: dict[Variable, TensorVariable] = {
        rv: model.rvs_to_values[rv] for rv in model.observed_RVs if rv in above
    }
    values: dict[Variable, TensorVariable] = {}
    flags: list[TensorVariable] = []
    random: list[TensorVariable] = []
    changed = bool(draws)
    for rv in sorted(model.free_RVs, key=lambda rv: places[rv.owner]):
        node, transform = rv.owner, model.rvs_to_transforms.get(rv)
        if rv.name in stand_ins:
            changed = True
            draw, parts = stand_ins[rv.name].draw()
            values[rv] = draws[rv] = draw.astype(rv.type.dtype)
            random.extend(parts)
            continue
        number = node.outputs.index(rv)
        if changed:
            inputs = put_in_place(node.inputs, draws)
            node = node.clone_with_new_inputs(inputs, strict=False)
        again = redraw(node.op, node, transform) if rv.name not in kept else None
        if again is not None:
            changed = True
            values[rv], draws[rv] = again.value.astype(rv.type.dtype), again.draw
            random.extend(again.random)
            continue
        draw = node.outputs[number]
        random.append(draw)
        part = kept[rv.name].part if rv.name in kept else "all"
        if part in ("ascending", "descending"):
            # Sorting a draw of exchangeable elements is a draw from the ordered prior.
            draw = pt.sort(draw, axis=-1)
            draw = draw if part == "ascending" else draw[..., ::-1]
            changed = True
        draws[rv] = draw
        values[rv] = draw if transform is None else transform.forward(draw, *node.inputs)
        if part == "rows":
            back = transform.backward(values[rv], *node.inputs)
            flags.append(pt.all(pt.isclose(back, draw, rtol=TOLERANCE, atol=TOLERANCE)))
    # An underflow in a parameter (a precision of zero has no sign) must not make a draw a NaN.
    graphs = stabilize([*(values[rv] for rv in model.free_RVs), *flags, *random])
    ends = np.cumsum([len(values), len(flags)])
    return graphs[: ends[0]], graphs[ends[0] : ends[1]], graphs[ends[1] :]
