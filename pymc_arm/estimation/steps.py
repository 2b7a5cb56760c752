"""What is known of the steps of a run, and what speaks against any of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_arm.estimation.reasons import Found, Reason

__all__ = ["StepFacts", "judge_steps"]

SMALLEST_FRACTION = 0.1
SMALLEST_ACCEPTANCE = 0.02


@dataclass(frozen=True)
class StepFacts:
    """What is known of the steps, as arrays (chain, step); NaN where a chain had no such step."""

    effective_fraction: np.ndarray
    particles: np.ndarray
    distinct_fraction: np.ndarray
    acceptance_rate: np.ndarray
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
