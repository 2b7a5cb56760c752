"""The choice between the estimates, and what enters the standard error."""

from dataclasses import replace

import numpy as np
import pytest

from pymc_arm.estimation.bridge import Bridge
from pymc_arm.estimation.estimate import pool_bridges, select_estimate, stands

SOUND = Bridge(-10.0, 1e-6, 5e-7, 0.9, 1, bridge_k=0.1, weight_k=0.1, effective_draws=1e4)
NOISE = [0.01, -0.02, 0.015, -0.005]


def explored(center=-10.0, sd=0.02):
    return [center + sd * 50 * noise for noise in NOISE], [sd**2] * 4


def bridges(**changes):
    values = {"log_evidence": -10.0, **changes}
    center = values.pop("log_evidence")
    return [replace(SOUND, log_evidence=center + 0.05 * n, **values) for n in NOISE]


def test_a_sound_refined_estimate_is_taken_whatever_error_it_claims():
    """Also if exploring claims a hundredth of its error: it is not chosen for its claim."""
    found = select_estimate([-10.0] * 4, [1e-12] * 4, bridges(variance=1e-4))
    assert found.chosen == "refine"
    assert found.refine.standard_error > 100 * found.explore.standard_error


@pytest.mark.parametrize(
    "changes",
    [{"overlap": 0.002}, {"bridge_k": 0.9}, {"log_evidence": np.nan}],
)
def test_a_refined_estimate_that_fails_its_diagnostics_is_not_taken(changes):
    found = select_estimate(*explored(), bridges(**changes))
    assert found.chosen == "explore"
    assert found.refine is None


def test_refined_chains_that_contradict_each_other_are_not_taken():
    some = [replace(SOUND, log_evidence=value) for value in (-10.0, -10.0, -12.0, -10.0)]
    assert select_estimate(*explored(), some).chosen == "explore"


def test_a_chain_without_a_bridge_leaves_exploring():
    found = select_estimate(*explored(), [*bridges()[:3], None])
    assert found.chosen == "explore"
    assert found.overlap == 0.9


def test_an_unexplained_difference_is_part_of_the_error():
    """Forty thousandths at an error of two: hidden by 0.05 once, with an interval of 0.0006."""
    found = select_estimate(*explored(-10.04, 0.002), bridges())
    assert found.disagreement == pytest.approx(0.04, abs=0.005)
    assert found.evidence.standard_error >= found.disagreement
    assert found.sampling.standard_error < 0.002


def test_a_difference_within_the_errors_is_not():
    found = select_estimate(*explored(-10.04, 0.04), bridges())
    assert found.disagreement == 0.0
    assert found.evidence == found.sampling


def test_exploring_that_missed_a_mode_disagrees_with_nothing():
    found = select_estimate(*explored(-12.3), bridges(), repaired=True)
    assert found.disagreement == 0.0
    assert found.repaired


@pytest.mark.parametrize("refined", [True, False])
def test_the_error_of_integrals_is_added_in_quadrature(refined):
    some = bridges() if refined else []
    without = select_estimate(*explored(), some).evidence
    found = select_estimate(*explored(), some, integration_error=0.03).evidence
    assert found.standard_error == pytest.approx(np.hypot(without.standard_error, 0.03))
    assert without.standard_error < 0.03


def test_bridges_alone_are_pooled():
    sound = [Bridge(value, 0.01, 0.0, 0.5, 1, bridge_k=0.1) for value in (-1.0, -1.1, -0.9)]
    found = pool_bridges(sound)
    assert stands(sound)
    assert (found.chosen, found.overlap, found.pareto_k) == ("refine", 0.5, 0.1)
    assert found.evidence.log_evidence == pytest.approx(-1.0, abs=0.01)
    assert np.isnan(found.explore.log_evidence)
    assert not stands([*sound, Bridge(5.0, 0.01, 0.0, 0.5, 1, bridge_k=0.1)])
    assert not stands([*sound, Bridge(-1.0, 0.01, 0.0, 0.5, 1, bridge_k=0.9)])
