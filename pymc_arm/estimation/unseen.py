r"""What runs back from the target to the start tell of those forwards.

Let p(w) be the distribution of log-weights of a run forwards without resampling, and r(w) that of
runs back that start at draws from the target. They belong together (Crooks, 1999),

    p(w) = r(w) exp(log Z - w),

so that runs back show what runs forwards can't: log-weights that are large and rare, on which most
of Z may hang. n particles have seen those up to the v with n \int_v^\infty p(w) dw = 1. What is
beyond is

    m = \int_v^\infty r(w) dw,

a part of Z that they are expected to miss, and log(1 - m) is what log Z-hat lacks. With resampling
it lacks that much at most. Five runs with 1200 particles on three machines of 784 x 500 units
lacked 0.13 to 0.42, one to three standard errors, all of them, and log(1 - m) was 1.2 to 2.7 times
that; on five small machines it was 0 to 0.04, with errors of 0 to 0.09.

Starts are draws from the target as good as can be had: chains that go on from the particles, far
enough to leave where these were; and chains from anywhere else, which should end up in the same
places.
"""

from dataclasses import dataclass

import numpy as np

from pymc_arm.estimation.reasons import Found, Reason

__all__ = ["Unseen", "judge_unseen", "measure_unseen"]

# What log Z-hat may lack, in nats, changes nobody's mind below the first, as of two estimates that
# disagree (verdict.py). Above the second most of Z is unseen. It is twice what two estimates may
# disagree by, since it is a bound: a machine of 784 x 500 units lacked 0.17 of 0.71.
NOTEWORTHY, SEVERE = 0.05, 1.0
# Chains from elsewhere that run back with larger log-weights than all others. One in 200 would be
# usual; ten machines had 0 to 5 %, and one whose particles were all in one of ten modes 12 %.
LARGEST_ELSEWHERE = 0.1
# No share is so large that nothing is left.
LARGEST_SHARE = 0.99


@dataclass(frozen=True)
class Unseen:
    """What particles forwards are expected not to have seen.

    ``share`` is the part of Z, by runs back of chains that went on from the particles, and
    ``elsewhere`` the part of other chains that run back from where none of those has been.
    """

    share: float
    elsewhere: float

    @property
    def lack(self) -> float:
        """By how much log Z-hat is likely to be low at most."""
        return float(-np.log1p(-min(self.share, LARGEST_SHARE)))


def measure_unseen(
    continued: np.ndarray, elsewhere: np.ndarray, log_evidence: float, particles: int
) -> Unseen:
    """Compare log-weights of runs back with those that particles can have seen.

    Parameters
    ----------
    continued, elsewhere
        Log-weights of runs back from both kinds of starts.
    log_evidence
        log Z-hat.
    particles
        n, the number of particles of all chains.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_arm.estimation.unseen import measure_unseen
    >>> measure_unseen(np.full(100, 3.0), np.full(100, 12.0), 3.0, 1000)
    Unseen(share=0.0, elsewhere=1.0)
    """
    largest_first = -np.sort(-continued)
    expected = particles * np.cumsum(np.exp(log_evidence - largest_first)) / len(continued)
    share = np.searchsorted(expected, 1.0) / len(continued)
    # What one particle of all would see is not elsewhere, though no run back has been there.
    furthest = max(largest_first[0], log_evidence + np.log(particles))
    return Unseen(float(share), float(np.mean(elsewhere > furthest)))


def judge_unseen(unseen: Unseen, standard_error: float) -> list[Found]:
    """Return what speaks against an estimate of this standard error."""
    return [_lack(unseen, standard_error), _elsewhere(unseen)]


def _lack(unseen: Unseen, standard_error: float) -> Found:
    if not unseen.lack > max(NOTEWORTHY, standard_error):
        return None
    reason = Reason(
        "unseen",
        f"Runs back to the start show that up to {100 * unseen.share:.0f} % of Z comes from "
        "log-weights too rare for this number of particles: log Z may be low by "
        f"{unseen.lack:.2f}, and its standard error is {standard_error:.2f}.",
        "Use more draws, or a threshold nearer to one; give training data, if there are any.",
    )
    return reason, unseen.lack > SEVERE


def _elsewhere(unseen: Unseen) -> Found:
    if not unseen.elsewhere > LARGEST_ELSEWHERE:
        return None
    reason = Reason(
        "elsewhere",
        f"{100 * unseen.elsewhere:.0f} % of the chains that did not begin at particles ended where "
        "hardly any particle comes; how much of Z is there is not known.",
        "Use more draws, and compare the draws with data, if there are any.",
    )
    return reason, False
