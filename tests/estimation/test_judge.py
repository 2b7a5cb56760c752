"""The verdict as a function of numbers: each thing that counts, alone."""

from dataclasses import replace

import numpy as np
import pytest

from pymc_arm.estimation.estimate import Evidence
from pymc_arm.estimation.facts import Facts
from pymc_arm.estimation.given import GivenDraws
from pymc_arm.estimation.steps import StepFacts
from pymc_arm.estimation.verdict import judge

STEPS = StepFacts(
    effective_fraction=np.full((4, 3), 0.8),
    particles=np.full((4, 3), 1000.0),
    distinct_fraction=np.ones((4, 3)),
    acceptance_rate=np.full((4, 3), 0.4),
    autocorrelation=np.full((4, 3), 0.2),
    introduced=np.full((4, 3), "x"),
)
SOUND = Facts(
    evidence=Evidence(-10.0, 0.001, 13),
    explore=Evidence(-10.02, 0.02, 13),
    refine=Evidence(-10.0, 0.001, 13),
    chosen="refine",
    explored=np.array([-10.0, -10.04, -10.01, -10.03]),
    explored_variances=np.full(4, 0.04**2),
    refined=np.array([-10.0, -10.002, -9.999, -10.001]),
    refined_variances=np.full(4, 0.002**2),
    steps=STEPS,
    overlap=0.8,
    pareto_k=0.2,
    r_hat=1.002,
    r_hat_variable="x",
    effective_draws=3800.0,
    independent_draws=3700.0,
    explore_r_hat=1.01,
    explore_r_hat_variable="x",
    draws_from="q",
    draws=1000,
    chains=4,
    dimension=3,
)
EXPLORED = replace(SOUND, chosen="explore", refine=None, evidence=SOUND.explore)


def test_a_sound_run_is_ok():
    report = judge(SOUND)
    assert report.status == "ok"
    assert report.r_hat == SOUND.r_hat
    assert report.effective_draws == 3700.0
    assert str(report) == "ok: nothing speaks against this estimate of log Z"


def test_a_sound_run_without_refining_is_ok():
    assert judge(replace(EXPLORED, overlap=np.nan, draws_from="particles")).status == "ok"


def shifted(by, error=0.02):
    return replace(SOUND, explore=Evidence(-10.0 - by, error, 13))


@pytest.mark.parametrize(
    ("facts", "check", "status"),
    [
        (shifted(0.3), "disagreement", "caution"),
        (shifted(2.3), "disagreement", "failed"),
        # A huge error excuses no disagreement beyond twice itself.
        (shifted(3.0, error=0.9), "disagreement", "failed"),
        (shifted(1.0, error=6.5), "rough exploring", "caution"),
        (
            replace(EXPLORED, overlap=0.002, explore=Evidence(-10.0, 0.2, 13)),
            "unconfirmed",
            "caution",
        ),
        (
            replace(EXPLORED, pareto_k=0.9, explore=Evidence(-10.0, 0.2, 13)),
            "unconfirmed",
            "caution",
        ),
        (replace(SOUND, refined=np.array([-10.0, -10.4, -9.7, -10.1])), "spread", "caution"),
        (replace(SOUND, r_hat=1.3), "R-hat", "caution"),
        (replace(SOUND, explore_r_hat=4.0), "different chains", "caution"),
        (replace(SOUND, explore_r_hat=1.3, draws_from="particles"), "different chains", "caution"),
        (replace(SOUND, independent_draws=12.0), "few draws", "caution"),
        (replace(SOUND, evidence=Evidence(-10.0, 0.7, 3)), "imprecise", "caution"),
        (replace(SOUND, missed=(-9.0, 0.7, 0.0)), "missed mode", "failed"),
        (replace(SOUND, dimension=600, fewest_particles=1200), "few particles", "caution"),
        (replace(SOUND, draws=20, chains=2), "few particles", "caution"),
        (replace(SOUND, flat=("y",)), "flat", "caution"),
        (replace(SOUND, divergent=0.01), "divergent", "caution"),
        (replace(SOUND, unfinished="The time_limit ended the run."), "incomplete", "caution"),
        (
            replace(SOUND, steps=replace(STEPS, effective_fraction=np.full((4, 3), 0.01))),
            "weak steps",
            "failed",
        ),
    ],
)
def test_each_failure_is_seen_and_named(facts, check, status):
    report = judge(facts)
    assert check in [reason.check for reason in report.reasons]
    assert report.status == status


def test_few_draws_may_differ_by_chance():
    """Two chains of 60 independent draws have an R-hat of 1.1 now and then."""
    assert judge(replace(SOUND, r_hat=1.08, draws=60, chains=2)).status == "ok"


def test_particles_that_do_not_mix_are_told_unless_draws_come_from_q():
    slow = replace(STEPS, autocorrelation=np.array([[0.1, 0.95, np.nan]] * 4))
    explored = replace(EXPLORED, overlap=np.nan, draws_from="particles", steps=slow)
    report = judge(explored)
    assert report.status == "caution"
    assert [reason.check for reason in report.reasons] == ["slow moves"]
    assert judge(replace(SOUND, steps=slow)).status == "ok"
    mixed = replace(STEPS, autocorrelation=np.array([[0.95, 0.3, np.nan]] * 4))
    assert judge(replace(explored, steps=mixed)).status == "ok"


def test_a_repaired_mode_is_told_and_is_no_disagreement():
    report = judge(replace(shifted(2.3), repaired=1, repaired_share=0.9))
    assert report.status == "ok"
    assert "A mode that exploring missed was found by a search" in str(report)
    assert "90 % of Z" in str(report)


def test_no_particles_at_all():
    assert judge(replace(SOUND, evidence=Evidence(-np.inf, np.inf, 1))).status == "failed"


GIVEN = GivenDraws(
    chains=4,
    draws=1000,
    dimension=3,
    r_hat=1.002,
    r_hat_variable="x",
    effective=3000.0,
    shift=0.02,
    shift_limit=0.09,
    shift_variable="x",
    overlap=0.9,
    pareto_k=0.2,
    spread=0.002,
)
BRIDGED = replace(SOUND, explore=Evidence(np.nan, np.nan, 1), explored=np.full(4, np.nan))


def test_sound_draws_that_were_given_are_ok():
    report = judge(replace(BRIDGED, given=GIVEN))
    assert report.status == "ok", str(report)


@pytest.mark.parametrize(
    ("change", "check", "status"),
    [
        ({"divergences": 1}, "divergences", "caution"),
        ({"r_hat": 1.02}, "R-hat", "caution"),
        ({"r_hat": 1.3, "shift": np.nan}, "R-hat", "failed"),
        ({"r_hat": 1.3, "shift": np.nan, "refuted": True}, "R-hat", "caution"),
        ({"r_hat": 1.3}, "R-hat", "caution"),
        ({"chains": 1}, "one chain", "caution"),
        ({"effective": 50.0}, "few draws", "caution"),
        ({"effective": 150.0, "dimension": 50}, "few draws", "caution"),
        ({"refuted": True}, "refuted", "caution"),
        ({"shift": 0.3}, "refuted", "caution"),
        ({"shift": 0.8}, "refuted", "failed"),
        ({"repaired_share": 0.4}, "missed mode", "caution"),
        ({"overlap": 0.01}, "poor bridge", "failed"),
        ({"pareto_k": 0.9}, "poor bridge", "failed"),
        ({"spread": 0.8}, "poor bridge", "failed"),
        ({"bridged": False}, "by a path", "caution"),
    ],
)
def test_what_speaks_against_draws_that_were_given(change, check, status):
    facts = replace(BRIDGED, given=replace(GIVEN, **change))
    report = judge(facts)
    assert report.status == status
    assert check in {reason.check for reason in report.reasons}


def test_no_bridge_at_all():
    facts = replace(BRIDGED, given=GIVEN, evidence=Evidence(np.nan, np.inf, 1))
    assert judge(facts).reasons[0].check == "no bridge"
