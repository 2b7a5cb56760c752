"""Hostile files, disks and numbers: a small part of `python -m benchmarks faults`."""

import sys

import pytest

from benchmarks.hostile.files import tally_checkpoints, tally_results
from benchmarks.hostile.interruptions import tally_disks
from benchmarks.hostile.models import model_cases
from benchmarks.hostile.numerics import numeric_cases
from benchmarks.hostile.tally import Tally, run_case

posix = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes are those of POSIX")
# Each is a second, and right with a verdict of ok.
NUMBERS = ("raw years", "equal columns", "data of 1e+30", "counts of 1e9, uint32")
MODELS = ("a scale of NaN", "a potential of x^4", "a potential of 0.5 x^2", "NaN among the data")


@posix
def test_mutated_files_are_refused():
    assert tally_checkpoints(300, seed=2).lost == []
    assert tally_results(50, seed=2).lost == []


@posix
@pytest.mark.one_version
def test_disks_that_fail_end_no_run():
    assert tally_disks().lost == []


@pytest.mark.one_version
@pytest.mark.parametrize("name", NUMBERS)
def test_hostile_numbers(name):
    """False alarms: below 1e-4 a case (six standard errors; t with 12 degrees of freedom)."""
    (case,) = (case for case in numeric_cases(quick=True) if case.name == name)
    assert run_case(case, 150, 1) == ("right", "")


@pytest.mark.one_version
@pytest.mark.parametrize("name", MODELS)
def test_hostile_models(name):
    (case,) = (case for case in model_cases() if case.name == name)
    kind, lost = run_case(case, 100, 1)
    assert kind in ("doubted", "refused")
    assert lost == ""


def test_a_tally_counts():
    tally = Tally("trials")
    tally.add("right")
    tally.add("wrong", "a number")
    assert str(tally) == "trials: 2 tried, 1 survived, 1 lost (1 right, 1 wrong)"
