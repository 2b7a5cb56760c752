"""Which terms the density has when discrete variables are summed, and the blocks they stand in.

They are the terms of the model that depend on no summed variable, log P of each component whose
prior depends on variables that are left, and log F - log P of each component with data (see
:mod:`pymc_arm.models.elimination.sums`).
"""

from dataclasses import dataclass

import numpy as np

from pymc_arm.models.density import LogDensity
from pymc_arm.models.elimination.sums import Sums
from pymc_arm.models.terms import Layout, TermBlock

__all__ = ["OF_LIKELIHOOD", "OF_MODEL", "OF_PRIOR", "Arrangement", "Given", "arrange"]

# What a term is: one of the model, a component of P, or one of F - P.
OF_MODEL, OF_PRIOR, OF_LIKELIHOOD = 0, 1, 2


@dataclass(frozen=True)
class Given:
    """The model that is summed.

    Attributes
    ----------
    density, layout, scopes
        All of its terms and coordinates, and which terms depend on which coordinates.
    summed, kept
        The coordinates that are summed, and those that are left.
    owner
        The block of each term.
    is_prior
        Which terms are priors.
    touched
        Which terms depend on what is summed.
    left
        Which variables are left.
    of_left
        Which terms are priors of variables that are left.
    """

    density: LogDensity
    layout: Layout
    scopes: np.ndarray
    summed: np.ndarray
    kept: np.ndarray
    owner: np.ndarray
    is_prior: np.ndarray
    touched: np.ndarray
    left: np.ndarray
    of_left: np.ndarray


@dataclass(frozen=True)
class Arrangement:
    """The terms of a density after the sum.

    Attributes
    ----------
    blocks, sizes
        The blocks, and the number of terms of each.
    kinds, numbers
        What each term is (``OF_MODEL``, ``OF_PRIOR`` or ``OF_LIKELIHOOD``), and its number among
        those of its kind.
    scopes
        Which terms depend on which of the coordinates that are left.
    observations
        How many observations are in each term.
    members
        The terms of the model in each component of F.
    component_of_prior
        The component of F that each component of P belongs to.
    free
        The components of P that are one, whatever is left.
    together
        Variables whose priors share a sum, so that neither has one by itself.
    """

    blocks: tuple[TermBlock, ...]
    sizes: np.ndarray
    kinds: np.ndarray
    numbers: np.ndarray
    scopes: np.ndarray
    observations: np.ndarray
    members: list[np.ndarray]
    component_of_prior: np.ndarray
    free: np.ndarray
    together: frozenset[str]


# The number of a component of P, the variables that are left whose priors are in it, its terms.
_Prior = tuple[int, set[int], np.ndarray]


def arrange(given: Given, sums: Sums) -> Arrangement:
    """Arrange the terms in blocks: priors of the variables that are left, the rest, sums."""
    members, component_of_prior, priors = _components(given, sums)
    together = frozenset(
        given.layout.slots[slot].name for _, slots, _ in priors if len(slots) > 1 for slot in slots
    )
    blocks, owner, left = given.density.blocks, given.owner, given.left
    made: list[TermBlock] = []
    kinds: list[int] = []
    numbers: list[int] = []
    sizes: list[int] = []
    scopes: list[np.ndarray] = []
    counts: list[int] = []

    def add(kind: int, number: int, terms: np.ndarray) -> None:
        kinds.append(kind)
        numbers.append(number)
        scopes.append(given.scopes[np.ix_(terms, given.kept)].any(axis=0))
        data = [blocks[b].kind == "data" for b in owner[terms].tolist()]
        counts.append(sum(data))

    for block in range(len(blocks)):
        is_slot = block < len(left)
        if is_slot and not left[block]:
            continue
        before = len(kinds)
        for term in np.flatnonzero((owner == block) & ~given.touched).tolist():
            add(OF_MODEL, term, np.array([term]))
        if is_slot:
            for number, slots, terms in priors:
                if max(slots) == block:
                    add(OF_PRIOR, number, terms)
        if is_slot or len(kinds) > before:
            made.append(TermBlock(blocks[block].name, blocks[block].kind, (), ()))
            sizes.append(len(kinds) - before)
    for (name, kind), components in _by_data(blocks, owner, members).items():
        made.append(TermBlock(name, kind, (), ()))
        sizes.append(len(components))
        for number in components:
            add(OF_LIKELIHOOD, number, members[number])
    constant = set(range(len(component_of_prior))) - {number for number, _, _ in priors}
    return Arrangement(
        blocks=tuple(made),
        sizes=np.array(sizes, dtype=np.int64),
        kinds=np.array(kinds, dtype=int),
        numbers=np.array(numbers, dtype=int),
        scopes=np.array(scopes, dtype=bool).reshape(len(kinds), len(given.kept)),
        observations=np.array(counts, dtype=int),
        members=members,
        component_of_prior=component_of_prior,
        free=np.array(sorted(constant), dtype=int),
        together=together,
    )


def _components(given: Given, sums: Sums) -> tuple[list[np.ndarray], np.ndarray, list[_Prior]]:
    """Return the terms of the components of F, where those of P belong, and those that vary."""
    touched, components = np.flatnonzero(given.touched), sums.full.schedule.components
    component_of = {
        coordinate: number
        for number, component in enumerate(components)
        for coordinate in component
    }
    first = given.summed[given.scopes[np.ix_(touched, given.summed)].argmax(axis=1)]
    member = np.array([component_of[c] for c in first.tolist()], dtype=int)
    members = [touched[member == number] for number in range(len(components))]
    priors: list[_Prior] = []
    if sums.prior is None:
        return members, np.zeros(0, dtype=int), priors
    parts = sums.prior.schedule.components
    component_of_prior = np.array([component_of[part[0]] for part in parts])
    prior_of = {c: number for number, part in enumerate(parts) for c in part}
    of_first = np.array([prior_of.get(c, -1) for c in first.tolist()])
    of_first[~given.is_prior[touched]] = -1
    for number in range(len(parts)):
        terms = touched[of_first == number]
        slots = set(given.owner[terms[given.of_left[terms]]].tolist())
        if slots:
            priors.append((number, slots, terms))
    return members, component_of_prior, priors


def _by_data(
    blocks: tuple[TermBlock, ...], owner: np.ndarray, members: list[np.ndarray]
) -> dict[tuple[str, str], list[int]]:
    """Return the components of F by the names and the kind of the data in them."""
    found: dict[tuple[str, str], list[int]] = {}
    for number, terms in enumerate(members):
        own = sorted({int(b) for b in owner[terms] if blocks[b].kind != "prior"})
        if own:
            kind = "data" if any(blocks[b].kind == "data" for b in own) else "potential"
            name = ", ".join(blocks[b].name for b in own)
            found.setdefault((name, kind), []).append(number)
    return found
