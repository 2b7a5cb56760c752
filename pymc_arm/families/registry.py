"""Which models have a path of their own.

A family looks at a ``pm.Model`` and says whether it is one of its kind; if so, it builds the path.
Families come from the entry point group ``pymc_arm.families`` and from :func:`register`. One that
raises is reported by name and ignored: a broken plugin must not take a user's run down.
"""

import functools
import sys
import warnings
from importlib.metadata import entry_points
from typing import Any, NamedTuple, Protocol, runtime_checkable

import pymc as pm

from pymc_arm._compat import COMPILING
from pymc_arm.algorithm.path import Path
from pymc_arm.errors import ArmWarning, callers_level

__all__ = ["Family", "Match", "find_family", "known_families", "register", "unregister"]

ENTRY_POINT_GROUP = "pymc_arm.families"
_registered: dict[str, "Family"] = {}


class Match(NamedTuple):
    """A family's answer: whether the model is of its kind, and the reason in words."""

    accepted: bool
    reason: str


@runtime_checkable
class Family(Protocol):
    """A kind of model with a path of its own; :func:`register` has an example.

    Attributes
    ----------
    name
        By which ``family=`` and ``attrs["family"]`` call it.
    """

    name: str

    def match(self, model: pm.Model) -> Match:
        """Say whether ``model`` is of this kind. Cheap: nothing is compiled."""

    def build(self, model: pm.Model, **options: Any) -> Path:
        """Build the path of a model that matched; ``options`` are the family's own."""


def register(family: Family) -> None:
    """Make a family known for the rest of the session.

    Parameters
    ----------
    family
        An object with ``name``, ``match`` and ``build``. One of the same name is replaced.

    Examples
    --------
    >>> import pymc_arm
    >>> class Never:
    ...     name = "never"
    ...     def match(self, model):
    ...         return pymc_arm.Match(False, "only an example")
    ...     def build(self, model, **options):
    ...         raise AssertionError
    >>> pymc_arm.register(Never())
    >>> pymc_arm.unregister("never")
    """
    missing = [part for part in ("name", "match", "build") if not hasattr(family, part)]
    if missing:
        raise TypeError(f"{family!r} is not a family: it has no {' and no '.join(missing)}.")
    _registered[family.name] = family


def unregister(name: str) -> None:
    """Forget a family that :func:`register` made known.

    Parameters
    ----------
    name
        The name of the family; :func:`register` has an example.
    """
    if name not in _registered:
        raise KeyError(f"No family {name!r} is registered; there are {sorted(_registered)}.")
    del _registered[name]


def known_families() -> dict[str, Family]:
    """Return all families by name: entry points first, registered ones last.

    Examples
    --------
    >>> import pymc_arm
    >>> {"gpc", "rbm"} <= set(pymc_arm.known_families())
    True
    """
    return {**_installed(tuple(sys.path)), **_registered}


@functools.cache
def _installed(places: tuple[str, ...]) -> dict[str, Family]:
    """Return the families of entry points, which it takes as long to find as a small run takes."""
    found: dict[str, Family] = {}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            family = point.load()
            family = family() if isinstance(family, type) else family
            found[family.name] = family
        except Exception as error:
            _report(point.name, "could not be loaded", error)
    return found


def find_family(model: pm.Model, family: str = "auto") -> tuple[Family | None, dict[str, Match]]:
    """Return the family that takes ``model`` (None: the generic path), and every answer.

    Parameters
    ----------
    model
        The model.
    family
        ``"auto"`` asks all families, ``"generic"`` none; a name asks that one, and its refusal is
        an error.
    """
    if family == "generic":
        return None, {}
    known = known_families()
    if family != "auto":
        if family not in known:
            raise ValueError(
                f"family={family!r} is not known. Choose 'auto', 'generic' or one of "
                f"{sorted(known)}."
            )
        match = _ask(known[family], model)
        if not match.accepted:
            raise ValueError(f"The model is not of the family {family!r}: {match.reason}.")
        return known[family], {family: match}
    answers: dict[str, Match] = {}
    for name, candidate in reversed(known.items()):
        try:
            match = _ask(candidate, model)
            accepted = match.accepted
        except Exception as error:
            _report(name, "failed to look at the model", error)
            continue
        answers[name] = match
        if accepted:
            return candidate, answers
    return None, answers


def _ask(family: Family, model: pm.Model) -> Match:
    """Have a family look at a model; it may evaluate graphs, which PyTensor compiles."""
    with COMPILING:
        return family.match(model)


def _report(name: str, what: str, error: Exception) -> None:
    warnings.warn(
        f"The model family {name!r} {what} and is ignored: {type(error).__name__}: {error}",
        ArmWarning,
        stacklevel=callers_level(),
    )
