"""Parts, blocks and shifts of draws that were given."""

import numpy as np
import pytest

from pymc_arm import DrawsError
from pymc_arm.estimation.bridge import Bridge
from pymc_arm.running.given import (
    Given,
    Part,
    _block_length,
    _count_dependence,
    _shift,
    cut_draws,
)


def given(chains, draws, **more):
    points = np.arange(chains * draws, dtype=float).reshape(chains, draws, 1)
    return Given(points, ["x"], **more)


@pytest.mark.parametrize(
    ("chains", "draws", "parts"),
    [(1, 1000, 4), (1, 120, 2), (2, 100, 2), (4, 1000, 4), (4, 25, 2), (40, 50, 8), (3, 50, 3)],
)
def test_parts_have_all_draws_once(chains, draws, parts):
    found = cut_draws(given(chains, draws), chains * draws)
    assert len(found) == parts
    together = np.sort(np.concatenate([part.points for part in found]).ravel())
    np.testing.assert_array_equal(together, np.arange(chains * draws))
    assert all(len(part.blocks) == len(part.points) for part in found)


def test_a_single_chain_is_cut_in_time():
    found = cut_draws(given(1, 400), 400)
    assert all(np.all(np.diff(part.points[:, 0]) == 1) for part in found)


def test_many_draws_are_thinned():
    assert [len(part.points) for part in cut_draws(given(2, 9000), 18_000)] == [2000, 2000]


def test_blocks_do_not_join_chains():
    (part, _) = cut_draws(given(6, 20), 30)
    chains = part.points[:, 0] // 20
    assert all(len(set(chains[part.blocks == block])) == 1 for block in set(part.blocks))
    assert len(part.points) == 60


def test_too_few():
    with pytest.raises(DrawsError, match="There are 99 draws, 33 of each chain"):
        cut_draws(given(3, 33), 99)


def test_lengths_of_blocks():
    assert _block_length(0.8, 1000) == 1
    assert _block_length(5.0, 1000) == 15
    assert _block_length(500.0, 1000) == 100  # ten blocks at least
    assert _block_length(5.0, 4) == 1


def test_draws_that_are_alike_count_less():
    bridge = Bridge(0.0, 3.0, 1.0, 1.0, 1)
    assert _count_dependence(bridge, given(2, 100)) == bridge
    # 200 draws that are worth 50: the part of the variance that comes from them is fourfold.
    found = _count_dependence(bridge, given(2, 100, independent=50.0))
    assert found.variance == 3.0 + 2 * 3 * 1.0


def test_shifts():
    rng = np.random.default_rng(1)
    parts = [Part(rng.normal(size=(500, 3)), np.arange(500)) for _ in range(2)]
    moved = rng.normal(size=(500, 3)) + np.array([0.0, 2.0, 0.0])
    bridge = Bridge(0.0, 1.0, 1.0, 1.0, 1, effective_draws=5000.0, particles=moved)
    names = Given(np.zeros((2, 500, 3)), ["a", "b", "c"])
    found = _shift(parts, [bridge, bridge], names, 1000.0)
    assert found["shift_variable"] == "b"
    assert found["shift"] == pytest.approx(2.0, abs=0.2)
    assert 0.1 < found["shift_limit"] < 0.4
    assert _shift(parts, [bridge, Bridge(0.0, 1.0, 1.0, 1.0, 1)], names, 1000.0) == {}
