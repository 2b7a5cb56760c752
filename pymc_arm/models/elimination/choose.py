"""Which discrete variables of a model are summed, and whether that is right.

All of finite support are, if the tables are small enough; otherwise some are kept, and come in as
before. Counts without a largest value are summed over the values that prior draws leave any mass,
if those are few; draws of the posterior must not come near their end. What the sums rest on, that
terms depend on no other discrete variables than they seemed to (:mod:`pymc_arm.models.scopes`), is
checked with all terms on fresh draws.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pymc_arm.errors import ModelError
from pymc_arm.models.density import LogDensity
from pymc_arm.models.elimination.density import EliminatedDensity, NotNormalized
from pymc_arm.models.elimination.remaining import RemainingPrior, remaining_layout
from pymc_arm.models.elimination.schedule import TooLarge
from pymc_arm.models.prior import PriorSampler
from pymc_arm.models.support import Support
from pymc_arm.models.terms import Layout

__all__ = ["Elimination", "Marginalize", "check_sums", "eliminate"]

Marginalize = Literal["auto"] | bool | Sequence[str]

# Cells of the largest table (32 MB), and of all that is evaluated or summed for one point: a second
# or two, where nothing is left and there is one point.
LARGEST_ALONE, WORK_ALONE = 2**22, 2e8
# The same where there is a point for each particle: 1000 of them take three seconds an evaluation,
# for a 10 x 10 grid with an unknown coupling.
LARGEST, WORK = 2**17, 400_000
# The same for all values of a discrete variable that is not summed: each of its moves tries them
# all, or a hundred of them. A sweep of 1000 particles then takes a second or two.
WORK_SAMPLED, MOST_VALUES = 100_000, 100
# Cells of the tables of all terms that are evaluated together, at one point.
LARGEST_GROUP = 3e7
# Values of a count without a largest one over which it is summed, at most: the prior of a site's
# abundance reaches to some hundreds. And how far into them draws of the posterior may come: what
# falls by a factor of 1000 until there, as 60 draws of one count tell, is below 1e-4 at the end.
LARGEST_WINDOW, FURTHEST_SHARE = 1000, 0.8
# Variables that are kept at most, so that others can be summed.
MOST_KEPT = 3
# Fresh draws that the sums are checked at, and from which relative difference on they are wrong:
# ten times what scopes take for rounding.
CHECKED, TOLERANCE = 60, 1e-9


@dataclass(frozen=True)
class Elimination:
    """What is left of a model: its density, coordinates, prior draws and supports.

    ``whole`` are all coordinates, and ``names`` the variables that are summed.
    """

    whole: Layout
    density: EliminatedDensity
    layout: Layout
    prior: RemainingPrior
    supports: dict[str, Support]
    draws: np.ndarray
    names: tuple[str, ...]
    notes: tuple[str, ...]

    def check(self, points: np.ndarray) -> str:
        """Return what is wrong with the sums at points that are left, or an empty text."""
        return check_sums(self.density, self.whole, self.prior.whole, points)


def eliminate(
    layout: Layout,
    density: LogDensity,
    scopes: np.ndarray,
    supports: dict[str, Support],
    draws: np.ndarray,
    prior: PriorSampler,
    marginalize: Marginalize,
) -> tuple[Elimination | None, tuple[str, ...]]:
    """Sum the discrete variables of a model, as far as possible.

    Parameters
    ----------
    layout, density, scopes, supports, draws, prior
        Those of the whole model.
    marginalize
        ``"auto"`` or true: all that can be. False: none. Names: those, or an error.

    Returns
    -------
    Elimination or None
        What is left, or None if nothing can be summed.
    notes
        Why not, for the plan.
    """
    wanted, named = _wanted(layout, supports, marginalize), not isinstance(marginalize, str | bool)
    notes: list[str] = []
    if not wanted:
        return None, ()
    endless = [name for name in wanted if not supports[name].finite]
    if endless and not named:
        try:
            found = _try(layout, density, scopes, supports, draws, prior, wanted)
            problem = check_sums(found.density, layout, prior)
        except Exception as error:  # whatever evaluating a term at some value raises
            problem = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        if not problem:
            return _with_notes(found, notes), ()
        notes.append(f"not summed: {_list(endless)}, without a largest value ({problem})")
        wanted = [name for name in wanted if name not in endless]
    kept: list[str] = []
    while wanted:
        try:
            found = _try(layout, density, scopes, supports, draws, prior, wanted)
        except NotNormalized:
            notes.append(f"not summed: the prior of {_list(wanted)} does not sum to one")
            break
        except TooLarge:
            kept.append(_most_connected(layout, scopes, wanted))
            wanted = [name for name in wanted if name != kept[-1]]
            if named or len(kept) > MOST_KEPT or not wanted:
                notes.append(f"not summed: tables of {_list([*wanted, *kept])} would be too large")
                break
            continue
        except Exception as error:  # whatever evaluating a term at some value raises
            text = f"not summed: {_list(wanted)}: {type(error).__name__}: {error}"
            notes.append(text.splitlines()[0][:200])
            break
        problem = check_sums(found.density, layout, prior)
        if problem:
            notes.append(f"not summed: {problem}")
            break
        if kept:
            notes.append(f"kept: {_list(kept)}, since tables would be too large with it")
        return _with_notes(found, notes), ()
    if named:
        raise ModelError(f"marginalize={list(_names(marginalize))}: {'; '.join(notes)}.")
    return None, tuple(notes)


def check_sums(
    density: EliminatedDensity,
    layout: Layout,
    prior: PriorSampler,
    points: np.ndarray | None = None,
) -> str:
    """Return what is wrong with the sums, or an empty text.

    The terms themselves at draws of all variables must be what the tables say. The values of the
    discrete variables are those of the prior, random ones, and draws given the others.

    Parameters
    ----------
    density
        The density with the sums.
    layout
        That of the whole model.
    prior
        Prior draws of the whole model.
    points
        Where to look: by default at fresh draws of the prior.
    """
    rng = np.random.default_rng(20160714)
    whole = layout.ravel(prior.draw(rng, CHECKED), CHECKED)
    left = whole[:, density.kept] if points is None else points[:CHECKED]
    whole = whole[: len(left)]
    whole[:, density.kept] = left
    anything = whole.copy()
    for coordinate, support in density.sums.supports.items():
        whole[:, coordinate] = np.clip(whole[:, coordinate], support.low, support.high)
        anything[:, coordinate] = support.low + rng.integers(support.count, size=len(whole))
    base = density.expand(left)
    drawn = density.draw(rng, left)
    if points is not None and _near_an_end(density, drawn):
        return "a count may be beyond the values that were added up"
    for values in (whole, anything, drawn):
        with np.errstate(invalid="ignore"):
            # Each term by itself, since PyTensor has some in single precision.
            expected = density.whole.terms(values, density.touched).sum(axis=1)
            found = density.sums.at_values(base, values)
            wrong = np.abs(found - expected) > TOLERANCE * (1 + np.abs(expected))
            wrong = wrong & ~((found == -np.inf) & (expected == -np.inf))
        if wrong.any():
            return (
                f"a term depends on more discrete variables than it seemed to (at {wrong.sum()} of "
                f"{len(wrong)} fresh draws it is not what its table says)"
            )
    return ""


def _near_an_end(density: EliminatedDensity, drawn: np.ndarray) -> bool:
    """Whether draws of a count without a largest value come near the last that was added up."""
    return any(
        bool(np.any(drawn[:, coordinate] > support.low + FURTHEST_SHARE * support.count))
        for coordinate, support in density.sums.supports.items()
        if not support.finite
    )


def _try(
    layout: Layout,
    density: LogDensity,
    scopes: np.ndarray,
    supports: dict[str, Support],
    draws: np.ndarray,
    prior: PriorSampler,
    names: list[str],
) -> Elimination:
    chosen = [slot for slot in layout.slots if slot.name in names]
    own = {c: supports[slot.name] for slot in chosen for c in slot.coordinates}
    columns = np.array(sorted(own), dtype=int)
    alone = len(columns) == layout.dimension
    largest, most = (LARGEST_ALONE, WORK_ALONE) if alone else (LARGEST, WORK)
    sizes = np.array([own[c].count for c in columns.tolist()], dtype=float)
    with np.errstate(over="ignore"):
        cells = np.exp(np.minimum(scopes[:, columns] @ np.log(sizes), 700.0))
    touched = scopes[:, columns].any(axis=1)
    if cells.max(initial=0.0) > 1.001 * largest or cells[touched].sum() > LARGEST_GROUP:
        raise TooLarge
    if density.backend != "numpy" and any(support.varies for support in own.values()):
        # Values outside of a support may be indices elsewhere, which compiled code does not check.
        raise ValueError("a support that depends on other variables is summed on NumPy only")
    left = EliminatedDensity(density, layout, scopes, own, draws, largest)
    sampled = [supports[s.name].count for s in layout.slots if s.discrete and s not in chosen]
    values = min(max(sampled, default=1), MOST_VALUES)
    if left.sums.work > most or (values > 1 and left.sums.work * values > WORK_SAMPLED):
        raise TooLarge
    summed = frozenset(names)
    return Elimination(
        layout,
        left,
        remaining_layout(layout, summed),
        RemainingPrior(prior, [slot.name not in summed for slot in layout.slots]),
        {name: support for name, support in supports.items() if name not in summed},
        draws[:, left.kept],
        tuple(names),
        (),
    )


def _wanted(layout: Layout, supports: dict[str, Support], marginalize: Marginalize) -> list[str]:
    """Return the variables that are to be summed, if they can be."""
    if marginalize is False:
        return []
    possible = {
        slot.name: slot.discrete and slot.size > 0 and _is_summable(supports[slot.name])
        for slot in layout.slots
    }
    if marginalize == "auto" or marginalize is True:
        return [name for name, can in possible.items() if can]
    names = list(_names(marginalize))
    for name in names:
        if name not in possible:
            raise ValueError(
                f"marginalize names {name!r}, which is not a free variable. The free variables "
                f"are {sorted(possible)}."
            )
        if not possible[name]:
            raise ValueError(
                f"marginalize names {name!r}, which can't be summed: only discrete variables with "
                f"finitely many values can, or counts whose priors are below {LARGEST_WINDOW}. "
                "Those are "
                f"{sorted(n for n, can in possible.items() if can)}."
            )
    return names


def _is_summable(support: Support) -> bool:
    """Whether all values that matter can be added up."""
    if support.finite:
        return True
    return support.bounded_below and not support.varies and support.count <= LARGEST_WINDOW


def _names(marginalize: Marginalize) -> Sequence[str]:
    if isinstance(marginalize, bool | str):
        raise ValueError(f"marginalize={marginalize!r} is not 'auto', a bool or a list of names.")
    return marginalize


def _most_connected(layout: Layout, scopes: np.ndarray, names: list[str]) -> str:
    """Return the variable whose coordinates share terms with the most others, for their number."""
    slots = [slot for slot in layout.slots if slot.name in names]
    columns = np.concatenate([np.arange(s.start, s.start + s.size) for s in slots])
    own = scopes[:, columns].astype(np.float32)
    degrees = ((own.T @ own) > 0).sum(axis=1)
    parts = np.split(degrees, np.cumsum([slot.size for slot in slots])[:-1])
    scores = [part.sum() / slot.size**2 for part, slot in zip(parts, slots, strict=True)]
    return slots[int(np.argmax(scores))].name


def _list(names: Sequence[str]) -> str:
    return (
        ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:5])} and {len(names) - 5} more"
    )


def _with_notes(found: Elimination, notes: list[str]) -> Elimination:
    density = found.density
    schedule = density.sums.full.schedule
    count = len(density.sums.sizes)
    parts = len(schedule.components)
    largest = schedule.largest_table
    what = (
        f"summed exactly: {_list(found.names)} ({count} discrete coordinate{'s'[: count > 1]} in "
        f"{parts} component{'s'[: parts > 1]}; largest table {largest} cells, "
        f"{_bytes(8 * largest)} a particle; {density.sums.work} cells an evaluation)"
    )
    endless = {s.high for s in density.sums.supports.values() if not s.finite}
    if endless:
        what += f"; counts without a largest value up to {max(endless)}"
    return Elimination(**{**vars(found), "notes": (what, *notes)})


def _bytes(count: int) -> str:
    power = min(int(math.log(max(count, 1), 1000)), 3)
    return f"{count / 1000**power:.3g} {('B', 'kB', 'MB', 'GB')[power]}"
