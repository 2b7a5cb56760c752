"""What is known of the steps of a run, and what speaks against any of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_arm.estimation.reasons import Found, Reason

__all__ = ["StepFacts", "judge_moves", "judge_steps"]

SMALLEST_FRACTION = 0.1
SMALLEST_ACCEPTANCE = 0.02
# What particles may remember after the last moves. Trajectories of a network that began at the
# prior end with 0.9 to 0.97: its log Z was right to two and a half of its errors, of which one in
# twenty should be (nine weights, 60 rows). Moves that mix end below 0.4.
LARGEST_AUTOCORRELATION = 0.7


@dataclass(frozen=True)
class StepFacts:
    """What is known of the steps, as arrays (chain, step); NaN where a chain had no such step."""

    effective_fraction: np.ndarray
    particles: np.ndarray
    distinct_fraction: np.ndarray
    acceptance_rate: np.ndarray
    autocorrelation: np.ndarray
    introduced: np.ndarray


def judge_steps(steps: StepFacts) -> list[Found]:
    """Return what the checks of steps say."""
    return [_weak_steps(steps), _few_ancestors(steps), _stuck(steps)]


def _weak_steps(steps: StepFacts) -> Found:
    """Find steps with few effective particles, even after generating more."""
    effective = steps.effective_fraction * steps.particles
    weak = (steps.effective_fraction < SMALLEST_FRACTION) & (effective < 50)
    if not weak.any():
        return None
    numbers = np.flatnonzero(weak.any(axis=0))
    names = _names(steps, weak)
    reason = Reason(
        "weak steps",
        f"{len(numbers)} step(s) had few effective particles, the worst "
        f"{np.nanmin(effective):.0f}: {', '.join(names[:3])}.",
        "Use more draws, another order of the variables, or a larger max_rounds.",
        tuple(int(step) for step in numbers),
        names,
    )
    return reason, True


def _few_ancestors(steps: StepFacts) -> Found:
    """Find steps whose particles were copies of few, not moved since (``move="adaptive"``)."""
    return _low_steps(
        steps,
        steps.distinct_fraction,
        SMALLEST_FRACTION,
        "few ancestors",
        "Only {lowest:.0f} % of the particles were distinct when the run came to {names}.",
        'Move copies apart with move="always", or use more draws.',
    )


def _stuck(steps: StepFacts) -> Found:
    """Find moves that were hardly ever accepted."""
    return _low_steps(
        steps,
        steps.acceptance_rate,
        SMALLEST_ACCEPTANCE,
        "stuck",
        "Moves were accepted in only {lowest:.1f} % of the proposals at {names}.",
        "Copies of particles were not moved apart there: use more draws, or reparameterise.",
    )


def judge_moves(steps: StepFacts) -> Found:
    """Find particles, returned as draws, that the last moves of a run left near where they were."""
    last = [row[np.isfinite(row)][-1:] for row in steps.autocorrelation]
    known = np.concatenate([np.zeros(0), *last])
    if not len(known) or np.median(known) <= LARGEST_AUTOCORRELATION:
        return None
    reason = Reason(
        "slow moves",
        f"Particles hardly mix at the end: their correlation with where the last moves began is "
        f"{np.median(known):.2f}.",
        "They may stay in one mode each, and the standard error may be too small: use more draws, "
        "and compare several seeds.",
    )
    return reason, False


def _low_steps(
    steps: StepFacts, fraction: np.ndarray, limit: float, check: str, message: str, advice: str
) -> Found:
    """Return a reason that names the steps at which a fraction is below its limit."""
    low = fraction < limit
    if not low.any():
        return None
    names = _names(steps, low)
    reason = Reason(
        check,
        message.format(lowest=100 * np.nanmin(fraction), names=", ".join(names[:3])),
        advice,
        tuple(int(step) for step in np.flatnonzero(low.any(axis=0))),
        names,
    )
    return reason, False


def _names(steps: StepFacts, flagged: np.ndarray) -> tuple[str, ...]:
    names: Sequence[str] = steps.introduced[flagged]
    return tuple(dict.fromkeys(str(name) for name in names))
