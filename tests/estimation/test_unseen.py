import numpy as np
import pytest
from scipy.stats import norm

from pymc_arm.estimation.unseen import Unseen, judge_unseen, measure_unseen


@pytest.mark.parametrize("deviation", [1.0, 2.5, 6.0])
def test_share_beyond_what_so_many_normal_log_weights_reach(deviation):
    # By Crooks' relation log-weights are N(log Z -+ s^2/2, s^2) forwards and back.
    log_evidence, particles, runs = 7.0, 1200, 4000
    back = norm(log_evidence + deviation**2 / 2, deviation)
    forwards = norm(log_evidence - deviation**2 / 2, deviation)
    exact = back.sf(forwards.isf(1 / particles))
    found = measure_unseen(
        back.rvs(runs, random_state=1), np.full(3, log_evidence), log_evidence, particles
    )
    # One failure in a thousand; the sum that sets the limit adds as much noise again.
    assert abs(found.share - exact) < 2 * 3.3 * np.sqrt(exact * (1 - exact) / runs) + 2 / runs
    assert found.elsewhere == 0


def test_runs_back_that_no_particle_would_see_are_elsewhere():
    near, far = np.zeros(50), np.full(50, 30.0)
    assert measure_unseen(near, np.concatenate([near, far]), 0.0, 1000) == Unseen(0.0, 0.5)


@pytest.mark.parametrize(
    ("unseen", "error", "verdicts"),
    [
        (Unseen(0.04, 0.0), 0.01, []),
        (Unseen(0.3, 0.05), 0.5, []),
        (Unseen(0.3, 0.0), 0.1, [("unseen", False)]),
        (Unseen(0.6, 0.0), 0.1, [("unseen", False)]),
        (Unseen(0.7, 0.0), 0.1, [("unseen", True)]),
        (Unseen(1.0, 1.0), 0.1, [("unseen", True), ("elsewhere", False)]),
    ],
)
def test_what_is_said_of_it(unseen, error, verdicts):
    found = [each for each in judge_unseen(unseen, error) if each is not None]
    assert [(reason.check, severe) for reason, severe in found] == verdicts
