"""What speaks against draws that were given, and against a bridge to them.

Here no particles explored the posterior, so nobody but the draws and q can tell what is wrong: the
sampler's own warnings, chains that differ, too few draws for what is asked of them, and draws of q
that contradict them. A sampler that has missed something is no reason to refuse log Z where q has
found it, but always one for caution.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_arm.estimation.bridge import SMALLEST_OVERLAP
from pymc_arm.estimation.convergence import LARGEST_PARETO_K, largest_sound_r_hat
from pymc_arm.estimation.estimate import LARGEST_SPREAD
from pymc_arm.estimation.reasons import Found, Reason

__all__ = ["GivenDraws", "judge_given"]

# Vehtari and others (2021) ask for R-hat below 1.01; or what independent draws would show by
# chance, if there are few.
LARGEST_R_HAT = 1.01
# They ask for 400 effective draws, to know quantiles. log Z needs fewer, since q is judged by its
# own draws: 200 draws of a beta distribution gave it to 0.003. 100 is where a Pareto k can be told.
SMALLEST_EFFECTIVE = 100
# A covariance of d dimensions out of n draws is off by about sqrt(d / n) in each direction: by half
# at four draws a dimension. 100 draws in 50 dimensions gave an error of 0.05 to 0.09.
SMALLEST_PER_DIMENSION = 4
# Chains that are further apart than this are not of one distribution, whatever their number.
SEVERE_R_HAT = 1.1
# By how many of its standard deviations a mean over the draws may differ from that over draws of q
# resampled by weight, beyond chance. A tenth costs a Gaussian q 0.005 in log Z.
LARGEST_SHIFT = 0.1
SEVERE_SHIFT = 0.5
CHANCE = 1e-3


@dataclass(frozen=True)
class GivenDraws:
    """What is known of draws that were given.

    Attributes
    ----------
    chains, draws, dimension
        How many chains, draws of each, and coordinates there are.
    r_hat, r_hat_variable, effective
        The largest R-hat, whose it is, and the smallest effective number of draws.
    divergences
        How many divergences the sampler has reported.
    shift, shift_limit, shift_variable
        The largest difference of means between the draws and draws of q by weight, in standard
        deviations, what chance explains of it, and whose it is; NaN where q can't tell.
    bridged
        Whether log Z comes from a bridge to the draws, or else from a path that starts at them.
    overlap, pareto_k, spread
        Of the bridges: the smallest overlap of q, the largest Pareto k of both sides, and the
        standard deviation between them.
    refuted, repaired_share
        Whether draws of q have refuted the draws, and the share of Z of modes they had missed.
    """

    chains: int
    draws: int
    dimension: int
    r_hat: float = np.nan
    r_hat_variable: str = ""
    effective: float = np.nan
    divergences: int = 0
    shift: float = np.nan
    shift_limit: float = np.nan
    shift_variable: str = ""
    bridged: bool = True
    overlap: float = np.nan
    pareto_k: float = np.nan
    spread: float = np.nan
    refuted: bool = False
    repaired_share: float = np.nan


def judge_given(given: GivenDraws) -> Sequence[Found]:
    """Return what speaks against draws that were given."""
    return (
        _divergences(given),
        _different_chains(given),
        _one_chain(given),
        _few_draws(given),
        _refuted(given),
        _poor_bridge(given),
    )


def _divergences(given: GivenDraws) -> Found:
    if not given.divergences:
        return None
    total = given.chains * given.draws
    reason = Reason(
        "divergences",
        f"The sampler reports {given.divergences} divergences in {total} draws: it may have "
        "avoided a part of the posterior, and q, which was fitted to its draws, with it.",
        "Reparameterise, or raise target_accept; or call pymc_arm.sample, which needs no NUTS.",
    )
    return reason, False


def _different_chains(given: GivenDraws) -> Found:
    by_chance = largest_sound_r_hat(given.chains, given.draws, given.dimension, CHANCE)
    if not given.r_hat > max(LARGEST_R_HAT, by_chance):
        return None
    reason = Reason(
        "R-hat",
        f"The chains differ: R-hat of {given.r_hat_variable} is {given.r_hat:.3g}.",
        "Draw more, with a longer warm-up. Where chains are in different modes, call "
        "pymc_arm.sample, which weighs modes.",
        variables=(given.r_hat_variable,),
    )
    # A q that can stand for the posterior has weighed what the chains disagree about.
    weighed = given.refuted or np.isfinite(given.shift)
    return reason, given.r_hat > max(SEVERE_R_HAT, by_chance) and not weighed


def _one_chain(given: GivenDraws) -> Found:
    if given.chains > 1:
        return None
    reason = Reason(
        "one chain",
        "There is one chain only, and parts of it take the place of chains: it can't show what "
        "it has missed, nor that its start is forgotten.",
        "Sample with four chains.",
    )
    return reason, False


def _few_draws(given: GivenDraws) -> Found:
    needed = max(SMALLEST_EFFECTIVE, SMALLEST_PER_DIMENSION * given.dimension)
    if np.isnan(given.effective) or given.effective >= needed:
        return None
    reason = Reason(
        "few draws",
        f"The {given.chains * given.draws} draws are worth {given.effective:.0f} independent ones "
        f"in {given.dimension} dimensions.",
        f"Draw until they are worth {needed} at least.",
    )
    return reason, False


def _refuted(given: GivenDraws) -> Found:
    """Report draws that draws of q by weight contradict."""
    share = given.repaired_share
    if share > 0:
        reason = Reason(
            "missed mode",
            f"{100 * share:.0f} % of Z is in modes that a search has found and draws of q have "
            "weighed: the draws have missed them, or have the wrong share of them.",
            "log Z counts them as they are, your draws do not: call pymc_arm.sample.",
        )
        return reason, False
    limit = max(LARGEST_SHIFT, given.shift_limit) if given.shift_limit > 0 else np.inf
    if not (given.refuted or given.shift > limit):
        return None
    where = (
        f"{given.shift_variable} is {given.shift:.2g} standard deviations off in the mean"
        if given.shift > limit
        else "their shares of the posterior are wrong"
    )
    reason = Reason(
        "refuted",
        f"Draws of q, which cover the given draws, contradict them: {where}.",
        "They may be of another model or of other data, or chains may not have mixed. log Z is "
        "estimated by draws of q.",
        variables=(given.shift_variable,) if given.shift_variable else (),
    )
    return reason, given.shift > max(SEVERE_SHIFT, limit) and not given.refuted


def _poor_bridge(given: GivenDraws) -> Found:
    """Report a bridge that does not hold, and whether a path could take its place.

    q of that path is fitted to the same draws. With a centred random slope, whose divergent draws
    leave out small scales, log Z was 0.09 low, eight of its standard errors.
    """
    if not given.bridged:
        reason = Reason(
            "by a path",
            "No density was found that fits the draws, so that a bridge to them does not hold: log "
            "Z comes from a path of small steps, which begins where the draws are.",
            "Compare it with pymc_arm.sample, which begins at the prior or at a fit of its own.",
        )
        return reason, False
    if not given.overlap >= SMALLEST_OVERLAP:
        cause = f"q and the posterior overlap by {given.overlap:.2g}"
    elif not given.pareto_k < LARGEST_PARETO_K:
        cause = f"a few draws decide the bridge (Pareto k is {given.pareto_k:.2f})"
    elif given.spread > LARGEST_SPREAD:
        cause = f"bridges differ by {given.spread:.2g}"
    else:
        return None
    reason = Reason(
        "poor bridge",
        f"No density was found that fits the draws: {cause}.",
        "Call pymc_arm.sample, which takes many small steps; or reparameterise.",
    )
    return reason, True
