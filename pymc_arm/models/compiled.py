"""From a PyMC model to a path: checks, terms, scopes and plan, in that order.

A model that has not changed since it was last compiled keeps its path, for as long as it exists.
"""

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorConstant

from pymc_arm._compat import COMPILING
from pymc_arm.errors import ArmWarning, callers_level
from pymc_arm.models.barren import Barren, leave_out_barren
from pymc_arm.models.checks import (
    Correction,
    check_density,
    check_model,
    find_corrections,
    find_flat,
)
from pymc_arm.models.density import Density, LogDensity
from pymc_arm.models.elimination import Elimination, Marginalize, eliminate
from pymc_arm.models.endless import find_endless
from pymc_arm.models.functions_of_draws import batched_function
from pymc_arm.models.normalizer import check_normalizers
from pymc_arm.models.path import GenericPath
from pymc_arm.models.plan import Plan, make_plan
from pymc_arm.models.prior import Prior, PriorSampler
from pymc_arm.models.rounding import keep_inside
from pymc_arm.models.scopes import find_scopes
from pymc_arm.models.support import Support, find_supports
from pymc_arm.models.terms import Layout, build_terms

__all__ = ["ModelPath", "ToModel", "compile_model"]


_Given = tuple[str, type[Warning]]
# Density, prior, supports and draws of what is left, and the sums over the rest.
_Left = tuple[Density, Prior, dict[str, Support], np.ndarray, Elimination | None]


class _Compiled(NamedTuple):
    """The path of a model in one state, and the warnings that it gave rise to."""

    state: tuple[object, ...]
    path: "ModelPath"
    warnings: list[_Given]


_compiled: WeakKeyDictionary[pm.Model, _Compiled] = WeakKeyDictionary()
# Prior draws that the plan is made with: enough to know where a variable lives, to 0.1 %.
PLANNING_DRAWS = 2000
# The same where draws are taken one at a time.
FEW_PLANNING_DRAWS = 500


class ToModel:
    """From coordinates to the free variables and deterministics of a model, by name."""

    def __init__(self, model: pm.Model) -> None:
        outputs = [v for v in model.unobserved_value_vars if not v.name.endswith("__")]
        self._values = [model.rvs_to_values[rv] for rv in model.free_RVs]
        #: Of what is returned; none where nothing is free.
        self.names = [variable.name for variable in outputs] if self._values else []
        graphs = keep_inside(outputs, model, self._values)
        self._function = batched_function(self._values, graphs) if self._values else None

    def __call__(self, layout: Layout, particles: np.ndarray) -> dict[str, np.ndarray]:
        """Return an array (size, ...) for each name."""
        if self._function is None:
            return {}
        values = [
            array.astype(value.type.dtype)
            for array, value in zip(layout.unravel(particles), self._values, strict=True)
        ]
        return dict(zip(self.names, self._function(*values), strict=True))


class ModelPath(GenericPath):
    """The path of a model, which returns its posterior as the user wrote the model."""

    def __init__(
        self,
        model: pm.Model,
        corrections: Sequence[Correction],
        plan: Plan,
        density: Density,
        prior: Prior,
        supports: dict[str, Support],
        draws: np.ndarray,
        elimination: Elimination | None = None,
        barren: Barren | None = None,
    ) -> None:
        normalizer = sum(correction.log_factor for correction in corrections)
        super().__init__(plan, density, prior, supports, draws, normalizer)
        self.corrections = tuple(corrections)
        drawn = set(plan.initial.tolist())
        starts = {slot.name: slot.start for slot in plan.layout.slots}
        self.log_factor_integrated = sum(
            correction.log_factor
            for correction in corrections
            if correction.variable in starts and starts[correction.variable] not in drawn
        )
        self._to_model = ToModel(model)
        self._planned_with = supports, draws, elimination, barren
        self.elimination, self._barren = elimination, barren
        self.rounding = sum(correction.error for correction in corrections)
        if elimination is not None and not plan.layout.dimension:
            self.rounding += elimination.density.rounding()

    @property
    def layout(self) -> Layout:
        """The free variables as one vector."""
        return self.plan.layout

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each variable, as the model is written."""
        rng = np.random.default_rng(0)
        example = self.posterior(rng, self.initialize(rng, 1)[0])
        return {name: array.shape[1:] for name, array in example.items()}

    def describe_model(self) -> dict[str, str]:
        """Return what is recorded of a model: what evaluates it, and corrections of its priors."""
        corrections = (f"{c.variable}: {c.log_factor:+.6g} ({c.reason})" for c in self.corrections)
        return {"backend": self.density.backend, "corrections": "; ".join(corrections)}

    def along(self, model: pm.Model, plan: Plan) -> "ModelPath":
        """Return the path of the same model along another plan."""
        rest = model if self._barren is None else self._barren.rest
        path = ModelPath(
            rest, self.corrections, plan, self.density, self.prior, *self._planned_with
        )
        path.flat, path.endless = self.flat, self.endless
        return path

    def posterior(self, rng: np.random.Generator, particles: np.ndarray) -> dict[str, np.ndarray]:
        """Return draws of all free variables and deterministics.

        Those that were summed, or left out, are drawn here.
        """
        if not self._to_model.names:
            return {}
        layout = self.plan.layout
        if self.elimination is not None:
            layout, particles = (
                self.elimination.whole,
                self.elimination.density.draw(rng, particles),
            )
        draws = self._to_model(layout, particles)
        return draws if self._barren is None else {**draws, **self._barren.draw(rng, draws)}


def compile_model(
    model: pm.Model,
    *,
    order: str | Sequence[Any] = "auto",
    backend: str | None = None,
    marginalize: Marginalize = False,
) -> ModelPath:
    """Check a model, find its structure, and return its path.

    Parameters
    ----------
    model
        The model.
    order, backend, marginalize
        As in :func:`pymc_arm.sample`; by default nothing is summed.
    """
    with COMPILING:
        state = (_state(model), repr(order), backend, repr(marginalize))
        known = _compiled.get(model)
        given: list[_Given] = []
        if known is not None and known.state == state:
            given = list(known.warnings)
        try:
            if known is None or known.state != state:
                path = _compile_and_note(model, order, backend, marginalize, given)
                ours: list[_Given] = [one for one in given if issubclass(one[1], ArmWarning)]
                known = _compiled[model] = _Compiled(state, path, ours)
        finally:
            for text, kind in given:
                warnings.warn(text, kind, stacklevel=callers_level())
    return known.path


def _compile_and_note(
    model: pm.Model,
    order: str | Sequence[Any],
    backend: str | None,
    marginalize: Marginalize,
    given: list[_Given],
) -> ModelPath:
    """Compile a model, and add the warnings that this gives rise to to a list."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ArmWarning)
        # Products are NumPy's or numba's here.
        warnings.filterwarnings("ignore", "PyTensor could not link to a BLAS")
        try:
            return _compile(model, order, backend, marginalize)
        finally:
            given.extend((str(warning.message), warning.category) for warning in caught)


def _state(model: pm.Model) -> tuple[object, ...]:
    """Return what changes when a model does: its variables, and the values of its data."""
    variables = [*model.free_RVs, *model.observed_RVs, *model.potentials, *model.deterministics]
    values = [model.rvs_to_values[rv] for rv in (*model.free_RVs, *model.observed_RVs)]
    transforms = [model.rvs_to_transforms.get(rv) for rv in model.free_RVs]
    data = []
    for variable in ancestors([*variables, *values]):
        if isinstance(variable, TensorConstant):  # it may be an array of the user's
            data.append((variable, _digest(variable.data)))
        elif isinstance(variable, SharedVariable) and isinstance(variable.type, TensorType):
            data.append((variable, _digest(variable.get_value(borrow=True))))
    return (tuple(variables), tuple(values), tuple(transforms), tuple(data))


def _digest(array: np.ndarray) -> tuple[tuple[int, ...], str, bytes]:
    return array.shape, array.dtype.str, hashlib.sha256(array.tobytes()).digest()


def _compile(
    model: pm.Model,
    order: str | Sequence[Any],
    backend: str | None,
    marginalize: Marginalize,
) -> ModelPath:
    check_model(model)
    barren = leave_out_barren(model) if marginalize == "auto" or marginalize is True else None
    model = model if barren is None else barren.rest
    # A fixed seed: what the plan looks like must not depend on the seed of the run.
    rng = np.random.default_rng(20160713)
    prior = PriorSampler(model)
    prior.prepare()
    count = FEW_PLANNING_DRAWS if prior.one_by_one else PLANNING_DRAWS
    values = prior.draw(rng, count)
    layout = Layout.of(model, values)
    draws = layout.ravel(values, count)
    x, blocks = build_terms(model, layout, prior.stand_ins)
    blocks = [block.observed(x, draws) for block in blocks]
    density = LogDensity(x, blocks, draws, backend)
    check_density(model, layout, density, draws, prior)
    supports = find_supports(density, x, layout, draws)
    check_normalizers(model, layout, density, supports, draws)
    scopes = find_scopes(density, layout, draws)
    density.notes.extend(prior.notes)
    corrections = find_corrections(model, prior)
    found, notes = eliminate(layout, density, scopes, supports, draws, prior, marginalize)
    if found is None:
        density.notes.extend(notes)
        plan = make_plan(
            layout, density, scopes, supports, order, rng, prior.integrated, draws=draws
        )
        left: _Left = density, prior, supports, draws, None
    else:
        plan = make_plan(
            found.layout,
            found.density,
            found.density.scopes,
            found.supports,
            order,
            rng,
            prior.integrated,
            found.density.together,
            found.draws,
        )
        plan = replace(plan, notes=(*found.notes, *plan.notes))
        left = found.density, found.prior, found.supports, found.draws, found
    if barren is not None:
        plan = replace(plan, notes=(barren.note, *plan.notes))
    path = ModelPath(model, corrections, plan, *left, barren=barren)
    path.flat = tuple(find_flat(x, density, scopes, draws))
    path.endless = find_endless(model, layout, density, supports, draws)
    return path
