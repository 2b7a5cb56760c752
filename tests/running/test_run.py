"""A run between two turns: which chains it needs, and what those that ended amount to."""

import time

import numpy as np
import pytest

from pymc_arm import Settings, TimeLimitError
from pymc_arm.running.backends import make_runner
from pymc_arm.running.options import Options
from pymc_arm.running.run import PathRun, run_path
from pymc_arm.testing import GaussianChain, TiltedNormals


def begin(path, **options):
    chosen = Options(draws=60, random_seed=1, progressbar=False, **options)
    return PathRun(path, chosen, path.settings(), identity=dict)


def test_it_asks_for_its_chains_once():
    run = begin(GaussianChain([0.1, 0.2]), chains=3)
    assert len(run.request.generators) == 3
    run.receive(make_runner(cores=1)(run.request))
    assert run.request is None
    outcome = run.outcome()
    assert len(outcome.chains) == outcome.summary.chains == 3
    assert outcome.summary.ended_by == "chains"


def test_turn_by_turn_is_the_same_as_at_once():
    path = TiltedNormals([0.5, 1.0])
    at_once = run_path(begin(path, chains=2), make_runner(cores=1))
    run = begin(path, chains=2)
    while run.request is not None:
        run.receive(make_runner(cores=2)(run.request))
    first, second = at_once.estimates.evidence, run.outcome().estimates.evidence
    assert first.log_evidence == second.log_evidence


def test_a_target_asks_for_more_chains():
    run = begin(TiltedNormals([1.0, 1.0]), chains=2, target_se=0.05)
    asked = []
    while run.request is not None:
        asked.append((run.request.first, len(run.request.generators)))
        run.receive(make_runner(cores=1)(run.request))
    assert len(asked) > 1
    assert asked[1][0] == 2
    assert run.outcome().summary.ended_by == "target_se"


def test_chains_that_the_deadline_ended_end_the_run():
    run = begin(GaussianChain([0.1, 0.2]), chains=2, time_limit=100)
    first, _ = make_runner(cores=1)(run.request)
    run.receive([first, None])
    summary = run.outcome().summary
    assert (summary.chains, summary.chains_started, summary.complete) == (1, 2, False)


def test_no_chain_at_all_is_an_error():
    run = begin(GaussianChain([0.1, 0.2]), chains=2, time_limit=100)
    with pytest.raises(TimeLimitError, match="before any chain did"):
        run.receive([None, None])


def test_after_the_deadline_nothing_is_refined():
    class Late(GaussianChain):
        def spaces(self, particles):
            raise AssertionError("there is no time for this")

        def continuous(self, particles):
            return np.asarray(particles)

        def log_density(self, points):
            raise AssertionError("there is no time for this")

        score = log_density

    path = Late([0.1, 0.2])
    options = Options(draws=60, chains=2, random_seed=1, progressbar=False, time_limit=0.5)
    run = PathRun(path, options, Settings(), identity=dict)
    chains = make_runner(cores=1)(run.request)
    time.sleep(0.6)
    run.receive(chains)
    assert run.outcome().estimates.refine is None


def test_a_run_after_a_pilot_repeats_its_steps():
    run = begin(TiltedNormals([0.1, 1.5, 0.1]), chains=2, allocation="pilot")
    assert run.request.task.counts == (60, 180, 60)
    assert run.request.task.settings.variant == "rm"
    assert run.request.path.following == {1: 2, 2: 3, 3: 4}
