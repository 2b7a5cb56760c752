"""What speaks against a result that was updated from old data to all data (``update``).

The old draws are all that is known of the posterior: particles go from there to the new one, and no
particle starts anywhere else. So the verdict on the old result is part of that on the new one, and
steps after which too few draws are effective are a reason to start afresh.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pymc_arm.estimation.bridge import SMALLEST_OVERLAP
from pymc_arm.estimation.convergence import LARGEST_PARETO_K
from pymc_arm.estimation.reasons import Found, Reason

__all__ = ["LARGEST_MEMORY", "UpdateFacts", "judge_update"]

AFRESH = "Call pymc_arm.sample(model), which starts afresh."
# Moves that leave a larger correlation with where particles were have not renewed them. Moves end
# at 0.2; those that run out of sweeps are anywhere above.
LARGEST_MEMORY = 0.3


@dataclass(frozen=True)
class UpdateFacts:
    """What is known of an update.

    Attributes
    ----------
    verdict
        That on the result which was updated.
    overlap, pareto_k
        The smallest overlap of two neighbouring steps, and the largest Pareto k of their weights.
    memory
        The largest correlation that moves have left with where particles were.
    survivors
        How many of the old draws have descendants, effectively.
    """

    verdict: str
    overlap: float
    pareto_k: float
    memory: float
    survivors: float


def judge_update(update: UpdateFacts) -> Sequence[Found]:
    """Return what speaks against an update."""
    return _previous(update), _cannot_follow(update), _not_renewed(update)


def _previous(update: UpdateFacts) -> Found:
    if update.verdict == "ok":
        return None
    reason = Reason(
        "previous result",
        f"The verdict on the result that was updated is {update.verdict!r}, and this one adds to "
        "its log Z and begins at its draws.",
        AFRESH,
    )
    return reason, update.verdict == "failed"


def _cannot_follow(update: UpdateFacts) -> Found:
    if not update.overlap >= SMALLEST_OVERLAP:
        cause = f"neighbouring steps overlap by {update.overlap:.2g}"
    elif not update.pareto_k < LARGEST_PARETO_K:
        cause = f"a few draws dominate a step (Pareto k is {update.pareto_k:.2f})"
    else:
        return None
    return Reason("lost", f"The old draws can't follow the new data: {cause}.", AFRESH), True


def _not_renewed(update: UpdateFacts) -> Found:
    if not update.memory > LARGEST_MEMORY:
        return None
    reason = Reason(
        "not renewed",
        f"Moves have not renewed the draws: their correlation with the draws before is still "
        f"{update.memory:.2f}, and they descend from {update.survivors:.0f} of the old draws.",
        f"What those have missed is missing here. {AFRESH}",
    )
    # Some hundred draws that moves have not renewed are as good as draws that need no moves.
    return (reason, False) if update.survivors < 100 else None
