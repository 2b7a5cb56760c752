"""Can the number be trusted? A verdict on a finished run, with reasons.

A log Z that is wrong without a sign of it is the worst failure. Every check compares two
things that should agree: chains with each other, chains with their own predictions, the exploring
estimate with the refined one, q with the posterior, and each step with what its particles can
support. The draws of the posterior are judged as the number is.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from pymc_arm.estimation.bridge import SMALLEST_OVERLAP
from pymc_arm.estimation.convergence import LARGEST_PARETO_K, largest_sound_r_hat
from pymc_arm.estimation.estimate import disagreement_limit
from pymc_arm.estimation.facts import Facts
from pymc_arm.estimation.given import judge_given
from pymc_arm.estimation.reasons import Found, Reason
from pymc_arm.estimation.steps import judge_moves, judge_steps
from pymc_arm.estimation.unseen import judge_unseen
from pymc_arm.estimation.updated import judge_update

__all__ = ["Reason", "Report", "judge"]

# Each check is set so that a sound run fails it about once in a thousand.
CHANCE = 1e-3
# A difference between the two estimates that their errors do not explain is part of the standard
# error. From here on, in nats, it is also a reason for caution, and from there on for failure.
NOTEWORTHY = 0.05
SEVERE = 0.5
# An exploring error above this, in nats, excuses no disagreement beyond twice itself: Z-hat is then
# skewed, and its logarithm low by half of the variance, so that errors are no yardstick.
ROUGH = 0.5
# Chains of different log Z whose spread is smaller than this, in nats, change nobody's mind.
SMALLEST_SPREAD = 0.05
# Trajectories that lost their energy in the last moves. A regression with more columns than rows
# has 0.5 to 1.5 %, and its log Z is 0.2 low (3 to 13 errors); Scottish lip cancer 0.1 %, and five
# other models none.
LARGEST_DIVERGENT = 0.005
LARGEST_ERROR = 0.5
# An exploring estimate that q could not confirm may be biased by about as much as its error, which
# no check can measure; beyond this, in nats, that is said.
LARGEST_UNCONFIRMED = 0.1
# R-hat of draws: 1.05 is a between-chain variance of a tenth of that within; or what independent
# draws would show by chance, if there are few.
LARGEST_R_HAT = 1.05
# R-hat of exploring chains whose particles are returned. Particles of one family are alike, and a
# chain of 1000 may be worth 20: R-hat is 1.03 then, and above 1.2 once in a thousand.
LARGEST_EXPLORING_R_HAT = 1.2
# R-hat of exploring chains where draws come through q. The particles serve to place q, which
# corrects them; but chains that differ by more than their own width can't vouch for q's reach.
LARGEST_CORRECTED_R_HAT = 2.0
# Fewer independent draws than this leave quantiles unknown (Vehtari and others, 2021, ask for 100 a
# chain, of which there are four).
SMALLEST_DRAWS = 100
# Fewer particles of a chain than this are too few to fit q to, so that no second estimate is made
# (running/run.py); kernels are fitted to half of them. Eight normal means with 20 each were
# 100 nats low, and said so nowhere.
SMALLEST_CHAIN = 50
# A mode of a smaller share than this that draws of q could not weigh may be an error of Laplace's
# method, which is off by a factor of several on a ridge.
SMALLEST_MISSED = 0.05


@dataclass(frozen=True)
class Report:
    """The verdict on a run.

    ``status`` is ``"ok"``, ``"caution"`` (the error bar may be too small) or ``"failed"`` (the
    estimate should not be used). ``r_hat`` is the largest rank-normalised split R-hat of the
    returned draws, and ``effective_draws`` the smallest effective number of them; NaN where there
    are no draws. ``notes`` say what the run has corrected by itself.
    """

    status: Literal["ok", "caution", "failed"]
    reasons: tuple[Reason, ...] = ()
    notes: tuple[str, ...] = ()
    r_hat: float = np.nan
    effective_draws: float = np.nan

    def __str__(self) -> str:
        notes = [f"- {note}" for note in self.notes]
        if not self.reasons:
            return "\n".join(["ok: nothing speaks against this estimate of log Z", *notes])
        lines = [f"- {reason.message} {reason.advice}" for reason in self.reasons]
        return "\n".join([f"{self.status}:", *lines, *notes])


def judge(facts: Facts) -> Report:
    """Return the verdict on a run."""
    if not np.isfinite(facts.evidence.log_evidence):
        endless = _endless(facts)
        return Report("failed", (_nothing_left(facts) if endless is None else endless[0],))
    found = _find_reasons(facts)
    reasons = tuple(reason for reason, _ in (f for f in found if f is not None))
    failed = any(severe for _, severe in (f for f in found if f is not None))
    return Report(
        "failed" if failed else "caution" if reasons else "ok",
        reasons,
        _notes(facts),
        facts.r_hat,
        facts.effective,
    )


def _notes(facts: Facts) -> tuple[str, ...]:
    """Say what was done about particles; what was done about given draws is among the reasons."""
    if facts.given is not None and facts.given.bridged:
        return ()
    if facts.repaired:
        one = facts.repaired == 1
        modes = "A mode" if one else f"{facts.repaired} modes"
        share = f"{100 * facts.repaired_share:.0f} % of Z"
        return (
            f"{modes} that exploring missed {'was' if one else 'were'} found by a search, and "
            f"weighed by draws of q: {share}.",
        )
    if facts.refuted:
        return (
            "Particles had the wrong shares of the posterior; log Z is estimated by draws of q, "
            "which reaches all of them.",
        )
    return ()


def _nothing_left(facts: Facts) -> Reason:
    """Return why there is no number."""
    if facts.given is not None and facts.given.bridged:
        return Reason(
            "no bridge",
            "Draws of q, which was fitted to the given draws, have density zero or not a number.",
            "Call pymc_arm.sample, which needs no density that fits at once.",
        )
    return Reason(
        "no particles",
        "Every chain ran out of particles with positive weight.",
        "Use more draws, or check that the data are possible under the prior.",
    )


def _find_reasons(facts: Facts) -> list[Found]:
    """Return what the checks say: of the run, if there was one, and of draws that were given."""
    explored = facts.given is None or not facts.given.bridged
    found = [
        _endless(facts),
        _disagreement(facts),
        _spread(facts),
        _rough_exploring(facts),
        _unconfirmed(facts),
    ]
    if explored:
        found += [*judge_steps(facts.steps), _divergent(facts)]
    if explored and facts.draws_from == "particles":
        found.append(judge_moves(facts.steps))
    found.append(_imprecise(facts))
    if explored:
        found.append(_different_chains(facts))
    if facts.given is None:
        found += [_different_draws(facts), _few_draws(facts)]
    else:
        found += judge_given(facts.given)
    if facts.update is not None:
        found += judge_update(facts.update)
    if explored:
        found.append(_few_particles(facts))
    if facts.unseen is not None:
        found += judge_unseen(facts.unseen, facts.evidence.standard_error)
    return [*found, _missed_mode(facts), _flat(facts), _unfinished(facts)]


def _disagreement(facts: Facts) -> Found:
    """Compare the exploring with the refined estimate."""
    if facts.refine is None or facts.repaired or facts.refuted:
        return None
    explored, refined = facts.explore.log_evidence, facts.refine.log_evidence
    error = float(np.hypot(facts.explore.standard_error, facts.refine.standard_error))
    difference = abs(explored - refined)
    limit = disagreement_limit(facts.explore, facts.refine)
    if error > ROUGH:
        limit = min(limit, max(2 * error, 2 * ROUGH))
    if not difference > max(limit, NOTEWORTHY):  # there may have been no exploring
        return None
    reason = Reason(
        "disagreement",
        f"The exploring estimate ({explored:.2f}) and the refined one ({refined:.2f}) differ by "
        f"{difference:.2f}, and their errors together are {error:.2f}.",
        "Chains may have missed a mode or not mixed: use more draws, and compare the chains.",
    )
    return reason, difference > SEVERE


def _spread(facts: Facts) -> Found:
    """Compare the spread between chains with what each chain predicts of itself."""
    refined = facts.chosen == "refine"
    values = facts.refined if refined else facts.explored
    # What the standard error would be made of if there were one chain.
    variances = facts.refined_variances if refined else facts.explored_variances
    chains = len(values)
    if chains < 2 or not np.all(np.isfinite(values)):
        return None
    predicted = float(np.mean(variances))
    observed = float(np.var(values, ddof=1))
    limit = float(scipy.special.fdtri(chains - 1, 20, 1 - CHANCE)) * predicted
    if observed <= max(limit, SMALLEST_SPREAD**2 * chains):
        return None
    reason = Reason(
        "spread",
        f"Chains differ more than they should: their standard deviation is "
        f"{np.sqrt(observed):.2f}, and each predicts {np.sqrt(predicted):.2f}.",
        "Use more draws or chains; the standard error counts the spread, but few chains know "
        "it only roughly.",
    )
    return reason, False


def _rough_exploring(facts: Facts) -> Found:
    """Report exploring chains that are too far apart for the refined estimate to rest on them."""
    error = facts.explore.standard_error
    if facts.chosen != "refine" or facts.repaired or facts.refuted or not error > 2 * ROUGH:
        return None
    reason = Reason(
        "rough exploring",
        f"The standard error of the exploring estimate is {error:.1f}, so that it can't check the "
        "refined one.",
        "q may be right where the chains are, and chains may have missed something: use more "
        "draws, or compare several seeds.",
    )
    return reason, False


def _unconfirmed(facts: Facts) -> Found:
    """Report an exploring estimate of some error that q was asked to confirm, and could not."""
    if facts.chosen == "refine" or np.isnan(facts.overlap):
        return None
    if facts.explore.standard_error <= LARGEST_UNCONFIRMED:
        return None
    if facts.overlap < SMALLEST_OVERLAP:
        cause = f"q and the posterior overlap by {facts.overlap:.2g}"
    elif facts.pareto_k >= LARGEST_PARETO_K:
        cause = f"a few draws dominate the bridge (Pareto k is {facts.pareto_k:.2f})"
    else:
        cause = "refined chains contradict each other"
    reason = Reason(
        "unconfirmed",
        f"No second estimate confirms log Z: {cause}.",
        "Exploring alone tends to be low by about its error: use more draws, or reparameterise.",
    )
    return reason, False


def _divergent(facts: Facts) -> Found:
    """Report trajectories that lost their energy at the posterior."""
    if not facts.divergent > LARGEST_DIVERGENT:
        return None
    reason = Reason(
        "divergent",
        f"{100 * facts.divergent:.1f} % of the last trajectories diverged: the posterior has "
        "regions that are too narrow for them, and particles may lack there.",
        "log Z is likely to be low: reparameterise, give scales a prior away from zero, or compare "
        'with start="prior".',
    )
    return reason, False


def _imprecise(facts: Facts) -> Found:
    error = facts.evidence.standard_error
    if error <= LARGEST_ERROR:
        return None
    reason = Reason(
        "imprecise",
        f"The standard error of log Z is {error:.2f}.",
        "Use more draws or chains before comparing models.",
    )
    return reason, False


def _different_chains(facts: Facts) -> Found:
    """Report exploring chains that ended in different places."""
    through_q = facts.draws_from == "q"
    limit = LARGEST_CORRECTED_R_HAT if through_q else LARGEST_EXPLORING_R_HAT
    limit = max(limit, _r_hat_by_chance(facts))
    if not facts.explore_r_hat > limit or facts.repaired:
        return None
    returned = (
        "Draws come through q, which was fitted to all of them"
        if through_q
        else "Draws are a mixture of all chains, by their estimates of Z"
    )
    reason = Reason(
        "different chains",
        f"Exploring chains ended in different places: R-hat of {facts.explore_r_hat_variable} is "
        f"{facts.explore_r_hat:.2f}. {returned}.",
        "Use more draws, or reparameterise.",
        variables=(facts.explore_r_hat_variable,),
    )
    return reason, False


def _different_draws(facts: Facts) -> Found:
    """Report returned chains that do not represent the same posterior."""
    if not facts.r_hat > max(LARGEST_R_HAT, _r_hat_by_chance(facts)):
        return None
    reason = Reason(
        "R-hat",
        f"Chains of draws differ: R-hat of {facts.r_hat_variable} is {facts.r_hat:.2f}.",
        "Use more draws.",
        variables=(facts.r_hat_variable,),
    )
    return reason, False


def _r_hat_by_chance(facts: Facts) -> float:
    """Return an R-hat that as many independent draws would hardly exceed."""
    return largest_sound_r_hat(facts.chains, facts.draws, max(facts.dimension, 1), CHANCE)


def _few_draws(facts: Facts) -> Found:
    """Report draws that are worth much fewer than there are."""
    asked = facts.draws * facts.chains
    if np.isnan(facts.effective) or facts.effective >= min(SMALLEST_DRAWS, 0.1 * asked):
        return None
    reason = Reason(
        "few draws",
        f"The {asked} draws of the posterior are worth {facts.effective:.0f} independent ones.",
        "Their means are imprecise, and their tails unknown: use more draws or chains.",
    )
    return reason, False


def _unfinished(facts: Facts) -> Found:
    """Say so if a limit ended the run before it had what was asked for."""
    if not facts.unfinished:
        return None
    return Reason("incomplete", facts.unfinished, "Give it more time, or more draws."), False


def _few_particles(facts: Facts) -> Found:
    """Report fewer particles than tell a covariance, where moves and fits rely on it."""
    if facts.draws < facts.fewest_particles:
        message = (
            f"{facts.draws} particles can't represent a posterior in {facts.dimension} dimensions."
        )
        advice = f"Use at least {max(10 * facts.dimension, SMALLEST_CHAIN)} draws."
    elif facts.draws < SMALLEST_CHAIN:
        message = f"A chain of {facts.draws} particles is too small to check itself."
        advice = f"Use at least {SMALLEST_CHAIN} draws, and for a log Z to rely on some hundreds."
    else:
        return None
    return Reason("few particles", message, advice), False


def _missed_mode(facts: Facts) -> Found:
    """Report a mode that a search after the run has found, and the particles have not."""
    if facts.missed is None:
        return None
    log_mass, expected, found = facts.missed
    if expected < SMALLEST_MISSED:
        return None
    reason = Reason(
        "missed mode",
        f"There is a mode with a mass of about exp({log_mass:.2f}), {100 * expected:.0f} % of the "
        f"total, that holds {100 * found:.1f} % of the particles.",
        "Particles missed it: use many more draws, or a prior that is nearer to it; the true log Z "
        "is likely to be larger.",
    )
    return reason, True


def _flat(facts: Facts) -> Found:
    if not facts.flat:
        return None
    reason = Reason(
        "flat",
        f"The log-density of {', '.join(facts.flat)} is the same at each prior draw, although it "
        "depends on free variables.",
        "If it is larger in some small region, no particle has seen that: check the model there.",
        variables=facts.flat,
    )
    return reason, False


def _endless(facts: Facts) -> Found:
    if not facts.endless:
        return None
    names = ", ".join(facts.endless[:5]) + (" and others" if len(facts.endless) > 5 else "")
    reason = Reason(
        "endless",
        "The density has no finite integral: the likelihood or a potential grows without bound "
        f"along {names}, and the prior does not fall as fast.",
        "log Z is infinite, and there is no posterior. Where a model fits its data exactly, give "
        "scales a prior without mass near zero; otherwise check the potential.",
        variables=facts.endless,
    )
    return reason, True
