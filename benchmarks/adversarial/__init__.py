"""Models that are ordinary to their users and awkward for an estimator, with exact log evidence.

Each family belongs to one cause of a wrong answer that was seen once, and has several members of
different type, shape and scale. ``PROBLEMS`` maps a name to an `Adversary`, ``FAMILIES`` a family
to the names of its members. ``python -m benchmarks adversarial`` runs them.
"""

import importlib

from benchmarks.adversarial.problem import Adversary, Answer

__all__ = ["FAMILIES", "PROBLEMS", "Adversary", "Answer"]

_MODULES = (
    "dtypes",
    "peaks",
    "vague",
    "regressions",
    "tempering",
    "supports",
    "transforms",
    "modes",
    "groups",
    "structure",
    "places",
)

_MEMBERS: dict[str, tuple[Adversary, ...]] = {
    name: importlib.import_module(f"benchmarks.adversarial.{name}").PROBLEMS for name in _MODULES
}
FAMILIES: dict[str, tuple[str, ...]] = {
    family: tuple(problem.name for problem in problems) for family, problems in _MEMBERS.items()
}
PROBLEMS: dict[str, Adversary] = {
    problem.name: problem for problems in _MEMBERS.values() for problem in problems
}
