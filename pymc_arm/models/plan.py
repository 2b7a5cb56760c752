"""In which order the variables and the data of a model come in.

Variables that many data terms share (*global* ones) are drawn from their joint prior at the start,
and data that depends on them alone comes in by tempering. A *local* variable (a group effect, a
state, a label, a missing value) comes in when its data does, with the step's integral over it done
by enumeration or quadrature: the case of the paper.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pymc_arm.html import box, paragraph, table
from pymc_arm.models.density import Density
from pymc_arm.models.support import Support
from pymc_arm.models.terms import Layout

__all__ = ["FamilyPlan", "Plan", "Step", "make_plan"]

# A coordinate that brings in more than this share of all data at once is better drawn from the
# prior, with the data tempered in: one step could not bridge the two.
LARGEST_SHARE = 0.35
# About what one integral of a continuous coordinate takes, with its refinements.
QUADRATURE_NODES = 60
# Whether the terms of a coordinate are a density of its own is tried at so many coordinates of a
# variable and prior draws, so many widths of the prior away. A Cauchy has fallen by 18 nats there.
PROPER_COORDINATES, PROPER_POINTS = 8, 8
FAR, SMALLEST_FALL = 1e4, 3.0


@dataclass(frozen=True)
class Step:
    """What one step does: introduce a coordinate (or none), and activate terms."""

    method: str  # "enumerate", "quadrature" or "temper"
    label: str
    coordinate: int | None
    prior_terms: np.ndarray = field(repr=False)
    data_terms: np.ndarray = field(repr=False)
    data_labels: tuple[str, ...] = ()
    #: Evaluations of single terms that its integral takes for a particle; those of one stage,
    #: where data is tempered in.
    evaluations: int = 0


@dataclass(frozen=True)
class Plan:
    """The sequence of steps that a run will take.

    It prints as a table, and :func:`pymc_arm.plots.plot_plan` draws it. ``initial`` are the
    coordinates drawn from the prior at the start, with their terms; ``term_names`` are the names
    of the variables or potentials that terms belong to.
    """

    layout: Layout
    initial: np.ndarray = field(repr=False)
    initial_terms: np.ndarray = field(repr=False)
    steps: tuple[Step, ...]
    scopes: np.ndarray = field(repr=False)
    term_names: tuple[str, ...] = field(repr=False)
    backend: str
    notes: tuple[str, ...] = ()
    family: str = "generic"

    def __str__(self) -> str:
        rows = self._rows()
        if len(rows) > 42:
            hidden = (f"... {len(rows) - 41} more", "", "", "", "", "")
            rows = [*rows[:21], hidden, *rows[-20:]]
        widths = [max(len(row[column]) for row in rows) for column in range(6)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([*lines, *self._footer()])

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the table, and what is said below it."""
        columns, *rows = self._rows()
        return box(table(columns, rows, numbers=(4, 5)), paragraph("\n".join(self._footer())))

    def _rows(self) -> list[tuple[str, ...]]:
        """Return the table: a row of names, then one for each step."""
        names = [
            slot.name for slot in self.layout.slots if slot.start in set(self.initial.tolist())
        ]
        rows: list[tuple[str, ...]] = [
            ("step", "introduces", "integrates by", "data that comes in", "terms", "cost")
        ]
        first = str(len(self.initial_terms))
        rows.append(("0", ", ".join(names) or "-", "prior draw", "-", first, first))
        for number, step in enumerate(self.steps, start=1):
            introduced = "-" if step.coordinate is None else step.label
            terms = len(step.prior_terms) + len(step.data_terms)
            data = ", ".join(step.data_labels) or "-"
            cost = f"{step.evaluations}{' a stage' if step.coordinate is None else ''}"
            rows.append((str(number), introduced, step.method, data, str(terms), cost))
        return rows

    def _footer(self) -> list[str]:
        total = len(self.initial_terms) + sum(step.evaluations for step in self.steps)
        return [
            f"cost: evaluations of terms a particle, {total} in all; moves come on top",
            f"family: {self.family}; evaluated with {self.backend}",
            *self.notes,
        ]


@dataclass(frozen=True)
class FamilyPlan:
    """The plan of a model that a family has taken: its own path decides the steps."""

    family: str
    reason: str

    def __str__(self) -> str:
        return f"family: {self.family}, because {self.reason}"

    def _repr_html_(self) -> str:
        return box(paragraph(self))


def make_plan(
    layout: Layout,
    density: Density,
    scopes: np.ndarray,
    supports: dict[str, Support],
    order: str | Sequence[Any] = "auto",
    rng: np.random.Generator | None = None,
    integrated: frozenset[str] = frozenset(),
    together: frozenset[str] = frozenset(),
    draws: np.ndarray | None = None,
) -> Plan:
    """Decide the order of a model's variables and data.

    Those ``integrated`` must come in by integration. Those ``together`` have no prior
    of their own, and are drawn at the start. Prior ``draws`` tell whether a prior splits.
    """
    builder = _Builder(layout, density, scopes, supports, together, draws)
    if isinstance(order, str):
        if order not in ("auto", "random"):
            raise ValueError(f"order={order!r} is not 'auto', 'random' or a list of variables.")
        wanted = None
    else:
        wanted = builder.resolve(order)
    local = builder.find_local(wanted, integrated)
    shuffle = (rng or np.random.default_rng(0)) if order == "random" else None
    return builder.build(local, wanted, shuffle)


class _Builder:
    def __init__(
        self,
        layout: Layout,
        density: Density,
        scopes: np.ndarray,
        supports: dict[str, Support],
        together: frozenset[str] = frozenset(),
        draws: np.ndarray | None = None,
    ) -> None:
        self.together, self.draws = together, draws
        self.layout, self.density, self.scopes, self.supports = layout, density, scopes, supports
        self.owner = np.repeat(np.arange(len(density.blocks)), density.sizes)
        priors = np.array([block.kind == "prior" for block in density.blocks], dtype=bool)
        self.is_prior = priors[self.owner]
        self.slot_of = np.concatenate(
            [np.zeros(0, int), *(np.full(s.size, k) for k, s in enumerate(layout.slots))]
        ).astype(int)
        # The terms of the prior of a coordinate: those of its own variable that end with it.
        self.prior_terms = self._assign_prior_terms()

    def _assign_prior_terms(self) -> dict[int, np.ndarray]:
        assigned: dict[int, np.ndarray] = {}
        for number, slot in enumerate(self.layout.slots):
            if not slot.size:  # a variable without elements has no coordinates
                continue
            rows = np.flatnonzero(self.is_prior & (self.owner == number))
            own = self.scopes[rows, slot.start : slot.start + slot.size]
            last = np.where(own.any(axis=1), slot.size - 1 - own[:, ::-1].argmax(axis=1), -1)
            for coordinate in slot.coordinates:
                assigned[coordinate] = rows[last == coordinate - slot.start]
        return assigned

    def splittable(self, number: int) -> bool:
        """Whether a variable's prior is a product of one conditional for each coordinate."""
        slot = self.layout.slots[number]
        if slot.name in self.together:
            return False
        rows = np.flatnonzero(self.is_prior & (self.owner == number))
        own = self.scopes[rows, slot.start : slot.start + slot.size]
        complete = bool(own.any(axis=1).all()) and all(
            len(self.prior_terms[coordinate]) for coordinate in slot.coordinates
        )
        alone = slot.discrete or not (own.sum(axis=1) > 1).any()
        some = np.unique(np.linspace(0, slot.size - 1, PROPER_COORDINATES).astype(int))
        return complete and (alone or all(self._falls(slot.start + int(place)) for place in some))

    def _falls(self, coordinate: int) -> bool:
        """Whether the prior terms of a coordinate, without those to come, fall on both sides.

        Where elements share a term, a Jacobian say, those before the last lack what makes them
        densities: the density of exp(x) is constant far to the left.
        """
        if self.draws is None:
            return True
        column = self.draws[:, coordinate]
        column = column[np.isfinite(column)]
        quarter, third = np.quantile(column, [0.25, 0.75])
        points = np.repeat(self.draws[:PROPER_POINTS], 3, axis=0)
        points[1::3, coordinate] -= FAR * max(third - quarter, 1e-8)
        points[2::3, coordinate] += FAR * max(third - quarter, 1e-8)
        weights = np.zeros(self.density.count)
        weights[self.prior_terms[coordinate]] = 1.0
        with np.errstate(all="ignore"):
            values = self.density.sum(points, weights).reshape(-1, 3)
        values = np.where(np.isnan(values), -np.inf, values)
        usable = np.isfinite(values[:, 0])
        fallen = values[:, 1:].max(axis=1) < values[:, 0] - SMALLEST_FALL
        return not usable.any() or bool(np.mean(fallen[usable]) > 0.5)

    def find_local(
        self, wanted: list[int] | None, integrated: frozenset[str] = frozenset()
    ) -> set[int]:
        """Return the variables (by number) whose coordinates come in one at a time."""
        slots = range(len(self.layout.slots))
        splittable = {number for number in slots if self.splittable(number)}
        if wanted is not None:
            chosen = {int(self.slot_of[c]) for c in wanted}
            for number in chosen - splittable:
                raise ValueError(
                    f"order names {self.layout.slots[number].name!r}, which can't be introduced "
                    "element by element: its prior does not split. Leave it out of order."
                )
            local = chosen
        elif self.layout.dimension <= 1:
            local = set(splittable)
        else:
            data = np.flatnonzero(~self.is_prior)
            scopes = self.scopes[data]
            has_scope = scopes.any(axis=1)
            # A term belongs to the coordinate in its scope that the fewest terms depend on, and to
            # the one that was declared last among equals.
            rank = scopes.sum(axis=0) * self.layout.dimension - np.arange(self.layout.dimension)
            owner = np.where(scopes, rank, np.inf).argmin(axis=1)
            counts = np.bincount(owner[has_scope], minlength=self.layout.dimension)
            limit = LARGEST_SHARE * max(int(has_scope.sum()), 1)
            local = set()
            for number in splittable:
                own = counts[list(self.layout.slots[number].coordinates)]
                if own.sum() and own.max() <= limit:
                    local.add(number)
        # What a transform restricts can't be drawn from its prior.
        local |= {n for n in splittable if self.layout.slots[n].name in integrated}
        # A variable drawn at the start can't have a parent that comes in later.
        parents = self._parents()
        changed = True
        while changed:
            changed = False
            for number in slots:
                if number not in local and parents[number] & local:
                    if number in splittable and wanted is None:
                        local.add(number)
                    else:
                        local -= parents[number]
                    changed = True
        return local

    def _parents(self) -> list[set[int]]:
        parents = []
        for number in range(len(self.layout.slots)):
            rows = self.is_prior & (self.owner == number)
            coordinates = np.flatnonzero(self.scopes[rows].any(axis=0))
            parents.append({int(self.slot_of[c]) for c in coordinates} - {number})
        return parents

    def resolve(self, order: Sequence[Any]) -> list[int]:
        """Return the coordinates that a user's order names."""
        slots = {slot.name: slot for slot in self.layout.slots}
        coordinates: list[int] = []
        for entry in order:
            name, index = entry if isinstance(entry, tuple) else (entry, None)
            if name not in slots:
                raise ValueError(
                    f"order names {name!r}, which is not a free variable. The free variables "
                    f"are {sorted(slots)}."
                )
            slot = slots[name]
            if index is None:
                coordinates.extend(slot.coordinates)
                continue
            try:
                flat = int(np.ravel_multi_index(np.atleast_1d(index), slot.shape))
            except ValueError as error:
                raise ValueError(
                    f"order names {name}[{index}], but {name} has shape {slot.shape}."
                ) from error
            coordinates.append(slot.start + flat)
        if len(set(coordinates)) < len(coordinates):
            raise ValueError(
                "order names a coordinate twice. A name alone stands for all elements of its "
                "variable: leave the second mention out."
            )
        return coordinates

    def build(
        self, local: set[int], wanted: list[int] | None, shuffle: np.random.Generator | None
    ) -> Plan:
        dimension = self.layout.dimension
        initial = np.array([c for c in range(dimension) if int(self.slot_of[c]) not in local], int)
        introduced = np.zeros(dimension, dtype=bool)
        introduced[initial] = True
        active = np.zeros(self.density.count, dtype=bool)
        # How many coordinates each term waits for; columns of a large table are far apart.
        awaited, columns = self.scopes[:, ~introduced].sum(axis=1), self.scopes.T.copy()
        initial_terms = np.flatnonzero(self.is_prior & (awaited == 0))
        active[initial_terms] = True
        steps: list[Step] = []

        def activate() -> np.ndarray:
            rows = np.flatnonzero(~active & ~self.is_prior & (awaited == 0))
            active[rows] = True
            return rows

        def introduce(coordinate: int) -> None:
            if introduced[coordinate]:
                return
            prior = self.prior_terms[coordinate]
            for parent in np.flatnonzero(self.scopes[prior].any(axis=0)):
                if parent != coordinate and not introduced[parent]:
                    introduce(int(parent))
            introduced[coordinate] = True
            np.subtract(awaited, columns[coordinate], out=awaited)
            active[prior] = True
            slot = self.layout.slot_of(coordinate)
            method = "enumerate" if slot.discrete else "quadrature"
            data = activate()
            label = slot.label(coordinate)
            nodes = len(self.supports[slot.name].values) if slot.discrete else QUADRATURE_NODES
            cost = nodes * (len(prior) + len(data))
            labels = self._data_labels(data)
            steps.append(Step(method, label, coordinate, prior, data, labels, cost))

        first = activate()
        if len(first) and dimension:
            labels = self._data_labels(first)
            none = np.zeros(0, dtype=int)
            steps.append(Step("temper", ", ".join(labels), None, none, first, labels, len(first)))
        for coordinate in self._sequence(wanted, introduced, shuffle):
            introduce(coordinate)
        missed = np.flatnonzero(~active)
        if len(missed):  # cannot happen, but log Z would be wrong if it did
            raise AssertionError(f"terms {missed} were never activated")
        return Plan(
            self.layout,
            initial,
            initial_terms,
            tuple(steps),
            self.scopes,
            tuple(self.density.blocks[block].name for block in self.owner),
            self.density.backend,
            tuple(self.density.notes),
        )

    def _sequence(
        self, wanted: list[int] | None, introduced: np.ndarray, shuffle: np.random.Generator | None
    ) -> list[int]:
        """Return the local coordinates, in the order in which the data asks for them."""
        remaining = np.flatnonzero(~introduced)
        if shuffle is not None:
            return shuffle.permutation(remaining).tolist()
        if wanted is not None:
            return [*wanted, *remaining.tolist()]
        _, asked = np.nonzero(self.scopes[~self.is_prior] & ~introduced)
        asked, firsts = np.unique(asked, return_index=True)
        return [*asked[np.argsort(firsts)].tolist(), *remaining.tolist()]

    def _data_labels(self, rows: np.ndarray) -> tuple[str, ...]:
        labels = []
        for block in np.unique(self.owner[rows]):
            local = np.flatnonzero(self.owner[rows] == block)
            name, size = self.density.blocks[block].name, int(self.density.sizes[block])
            if len(local) == size:
                labels.append(name)
            elif len(local) == 1:
                labels.append(f"{name}[{int(rows[local[0]] - self.density.offsets[block])}]")
            else:
                labels.append(f"{name}[{len(local)} of {size}]")
        return tuple(labels)
