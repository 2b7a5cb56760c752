"""How many trials there were, how many were survived, and what was lost."""

import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pymc as pm

import pymc_arm
from pymc_arm import errors

__all__ = ["Case", "Tally", "has_a_sentence", "run_case", "tally_cases"]

# In standard errors; a right run is beyond it less than once in 1e5 (t with 12 degrees of freedom).
LARGEST_DEVIATION = 6.0
# What rounding may add: this share of log Z, and this much. Sums of 1e6 terms lose some 1e-11.
ROUNDING = 1e-6
LARGEST_ROUNDING_SHARE = 1e-9


@dataclass
class Tally:
    """What came of a number of trials.

    Attributes
    ----------
    title
        What was tried.
    tried
        How often.
    kinds
        How many trials ended in which way.
    lost
        What was lost, in words; one for each trial that was not survived.
    """

    title: str
    tried: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)

    def add(self, kind: str, lost: str = "") -> None:
        """Count a trial."""
        self.tried += 1
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if lost:
            self.lost.append(lost)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds.items()))
        survived = self.tried - len(self.lost)
        counts = f"{self.tried} tried, {survived} survived, {len(self.lost)} lost"
        return f"{self.title}: {counts} ({kinds})"


@dataclass(frozen=True)
class Case:
    """A model that is hard on numbers, with what it must come to.

    Attributes
    ----------
    name
        What is hostile about it.
    build
        Makes the model; it may raise what PyMC raises.
    exact
        Its log Z, or None where only an error or a verdict other than "ok" is right.
    single
        Whether it is in single precision, whose density is exact to 1e-6 of its size.
    """

    name: str
    build: Callable[[], pm.Model]
    exact: float | None
    single: bool = False


def has_a_sentence(error: BaseException) -> bool:
    """Return whether an exception was raised on purpose, for a user to read.

    It is one of ours, or it was raised by a statement in this package, or the user's own code
    raised it (which tells the user more than we could).
    """
    if isinstance(error, tuple(getattr(errors, name) for name in errors.__all__)):
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    ours = "pymc_arm" in last.filename and (last.line or "").startswith("raise")
    return (ours and len(str(error)) > 30) or "benchmarks" in last.filename


def run_case(case: Case, draws: int, seed: int) -> tuple[str, str]:
    """Return how a run ended, and what was lost: nothing where it was right, or said that it isn't.

    "right", "doubted" and "refused" are survived; "silent" and "crash" are not.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = case.build()
        except Exception as error:
            return "refused", f"{case.name}: PyMC can't build it: {error!r}"
        try:
            options = {"chains": 4, "cores": 1, "progressbar": False}
            attributes = pymc_arm.sample(model, draws, random_seed=seed, **options).attrs
        except Exception as error:
            if has_a_sentence(error):
                return "refused", ""
            return "crash", f"{case.name}: {type(error).__name__}: {error}"
    if attributes["verdict"] != "ok":
        return "doubted", ""
    found, spread = (attributes[f"log_marginal_likelihood{end}"] for end in ("", "_se"))
    if case.exact is None:
        return "silent", f"{case.name}: {found:.4f} ± {spread:.4f} and ok, where there is no log Z"
    share = ROUNDING if case.single else LARGEST_ROUNDING_SHARE
    allowed = LARGEST_DEVIATION * spread + ROUNDING + share * abs(case.exact)
    if np.abs(found - case.exact) <= allowed:
        return "right", ""
    return "silent", f"{case.name}: {found:.4f} ± {spread:.4f} and ok, exactly {case.exact:.4f}"


def tally_cases(title: str, cases: Sequence[Case], draws: int, seeds: Sequence[int]) -> Tally:
    """Run every case with every seed."""
    tally = Tally(title)
    for case in cases:
        for seed in seeds:
            tally.add(*run_case(case, draws, seed))
    return tally
