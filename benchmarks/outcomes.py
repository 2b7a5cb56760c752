"""One run on a model whose log Z is known: what came of it, and whether it was silently wrong."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = [
    "Outcome",
    "describe_error",
    "false_alarm",
    "read_attributes",
    "silently_wrong",
]

# An error below this changes no conclusion; the definition of silently wrong.
TOLERATED_ERROR = 0.05
SILENT_DEVIATION = 5.0
ALARM_DEVIATION = 2.0


@dataclass(frozen=True)
class Outcome:
    """What came of one run.

    Attributes
    ----------
    name, seed
        The problem, and the seed.
    status
        ``"done"``, ``"timeout"`` or ``"crash"``.
    truth, log_evidence, standard_error, low, high
        The exact log Z, the estimate, its standard error, and its 95 % interval.
    verdict
        As reported.
    deviation
        The largest distance of a posterior mean from the exact one, in posterior standard
        deviations; NaN where no moment is known.
    cpu_seconds
        Of the process and of what it started.
    message
        The exception, or the reasons of the verdict.
    """

    name: str
    seed: int
    status: str
    truth: float
    log_evidence: float = np.nan
    standard_error: float = np.nan
    low: float = np.nan
    high: float = np.nan
    verdict: str = ""
    deviation: float = np.nan
    cpu_seconds: float = np.nan
    message: str = ""

    @property
    def error(self) -> float:
        """The estimate minus the truth."""
        return self.log_evidence - self.truth


def read_attributes(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Return what an outcome takes from the attributes of a result."""
    return {
        "log_evidence": float(attributes["log_marginal_likelihood"]),
        "standard_error": float(attributes["log_marginal_likelihood_se"]),
        "low": float(attributes["log_marginal_likelihood_low"]),
        "high": float(attributes["log_marginal_likelihood_high"]),
        "verdict": str(attributes["verdict"]),
        "message": _one_line(str(attributes["verdict_reasons"])),
    }


def describe_error(error: Exception) -> dict[str, Any]:
    """Return what an outcome tells of an exception."""
    return {"status": "crash", "message": _one_line(f"{type(error).__name__}: {error}")}


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def silently_wrong(outcome: Outcome) -> bool:
    """Whether the verdict is ok and the error beyond max(0.05, 5 standard errors)."""
    limit = max(TOLERATED_ERROR, SILENT_DEVIATION * outcome.standard_error)
    wrong = not abs(outcome.error) <= limit
    return outcome.status == "done" and outcome.verdict == "ok" and wrong


def false_alarm(outcome: Outcome) -> bool:
    """Whether the verdict is not ok although the error is small by either measure."""
    limit = min(TOLERATED_ERROR, ALARM_DEVIATION * outcome.standard_error)
    return outcome.status == "done" and outcome.verdict != "ok" and abs(outcome.error) <= limit
