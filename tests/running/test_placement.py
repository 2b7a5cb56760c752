"""Where chains run is what a path says, or threads."""

from pymc_arm.running.placement import Placement, Preparable, placement_of
from pymc_arm.testing import GaussianChain


def test_a_path_that_does_not_say_runs_on_threads():
    path = GaussianChain([0.1])
    assert placement_of(path) is Placement.THREADS
    assert not isinstance(path, Preparable)


def test_a_path_says_where():
    path = GaussianChain([0.1])
    for placement in Placement:
        path.placement = placement
        assert placement_of(path) is placement
    assert [p for p in Placement if p.forks] == [
        Placement.PROCESSES,
        Placement.PROCESSES_OR_THREADS,
    ]
