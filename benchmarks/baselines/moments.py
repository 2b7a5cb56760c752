r"""Machines with averaged moments: the knots of the spline of Grosse and others (AIS-MAS).

A knot at beta has the moments (1 - beta) s_0 + beta s_1, where s = (E[x h^T], E[x], E[h]); s_0 of
the base is known, s_1 of the target is measured on Gibbs chains. A machine with given moments is
the stationary point of

    theta <- theta + rate (s - s_theta),

with s_theta measured on persistent chains, from one knot to the next. That is what training by
persistent contrastive divergence does with the moments of data. The knots need not be exact: any
machines make a valid path.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from benchmarks.baselines.boltzmann import find_base_rates
from pymc_arm.arguments import check_count
from pymc_arm.families.rbm.kernels import gibbs_tile
from pymc_arm.families.rbm.machine import Machine, as_bits
from pymc_arm.families.rbm.threads import TilePool
from pymc_arm.running.processors import one_blas_thread

__all__ = ["moment_averages"]

# Gibbs steps between two measurements of the target's moments.
THINNING = 10


class _Moments(NamedTuple):
    """E[x h^T], E[x] and E[h]."""

    pairs: np.ndarray
    visible: np.ndarray
    hidden: np.ndarray

    def averaged(self, other: "_Moments", share: float) -> "_Moments":
        return _Moments(
            *((1 - share) * mine + share * theirs for mine, theirs in zip(self, other, strict=True))
        )


def moment_averages(
    machine: Machine,
    *,
    data: Any = None,
    base_rates: Any = None,
    knots: int = 9,
    chains: int = 1000,
    transitions: int = 1000,
    updates: int = 500,
    rate: float = 0.1,
    random_seed: Any = None,
    threads: int | None = None,
) -> list[Machine]:
    """Return machines between the base rates and a machine, with averaged moments.

    Parameters
    ----------
    machine
        The target.
    data
        Training data: its means are the base rates, and the chains for the target's moments
        start there.
    base_rates
        The base rates themselves, in place of ``data``; the chains then start at the base.
    knots
        The number of machines in between; the paper has 9.
    chains, transitions
        Gibbs chains for the moments, and their steps; the first half is left out. The paper
        has 1000 and 11000.
    updates, rate
        Steps of the fit of each knot, and their size, which falls to zero linearly.
    random_seed
        Seed.
    threads
        How many threads work on the chains.

    Examples
    --------
    >>> from benchmarks.baselines import moment_averages
    >>> from pymc_arm.families.rbm import Machine
    >>> machine = Machine(W=[[1.0, -1.0], [0.5, 2.0], [0.0, 1.0]])
    >>> len(moment_averages(machine, knots=2, transitions=20, updates=5, random_seed=1))
    2
    """
    numbers = {"knots": knots, "chains": chains, "transitions": transitions, "updates": updates}
    for argument, value in numbers.items():
        check_count(argument, value)
    rng = np.random.default_rng(random_seed)
    units = machine.visible_units
    rates = find_base_rates(units, data, base_rates)
    pool = TilePool(threads)
    if data is None:
        bits = (rng.random((chains, units)) < rates).astype(np.uint8)
    else:
        examples = np.atleast_2d(as_bits(data, units, "data"))
        bits = examples[rng.integers(len(examples), size=chains)].copy()
    with one_blas_thread():
        target = _measure(machine, bits, transitions, rng, pool)
        half = np.full(machine.hidden_units, 0.5)
        start = _Moments(np.outer(rates, half), rates, half)
        current = Machine(np.zeros_like(machine.W), np.log(rates / (1 - rates)))
        bits = (rng.random((chains, units)) < rates).astype(np.uint8)
        found = []
        for knot in range(1, knots + 1):
            wanted = start.averaged(target, knot / (knots + 1))
            current, bits = _fit(current, wanted, bits, updates, rate, rng, pool)
            found.append(current)
    return found


def _step(
    machine: Machine, bits: np.ndarray, repeats: int, rng: np.random.Generator, pool: TilePool
) -> tuple[np.ndarray, np.ndarray]:
    """Return bits and hidden rates after Gibbs steps."""
    weights, visible_bias, hidden_bias = (
        np.ascontiguousarray(part, dtype=np.float32) for part in (machine.W, machine.a, machine.b)
    )
    hidden = bits.astype(np.float32) @ weights + hidden_bias
    moved = np.empty_like(bits)
    key = rng.integers(2**64, dtype=np.uint64)

    def on_tile(tile: slice) -> None:
        gibbs_tile(
            hidden[tile],
            moved[tile],
            weights,
            visible_bias,
            hidden_bias,
            repeats,
            key,
            np.uint64(tile.start),
        )

    pool.run(on_tile, len(bits), hidden.size * repeats)
    return moved, expit(hidden)


def _moments(bits: np.ndarray, rates: np.ndarray) -> _Moments:
    visible = bits.astype(np.float32)
    return _Moments(
        visible.T @ rates / len(bits), visible.mean(axis=0), rates.mean(axis=0, dtype=float)
    )


def _measure(
    machine: Machine, bits: np.ndarray, steps: int, rng: np.random.Generator, pool: TilePool
) -> _Moments:
    """Return the moments of a machine, averaged over the second half of Gibbs chains."""
    bits, hidden = _step(machine, bits, max(1, steps // 2), rng, pool)
    total, count = _moments(bits, hidden), 1
    for _ in range(steps // 2 // THINNING):
        bits, hidden = _step(machine, bits, THINNING, rng, pool)
        count += 1
        total = total.averaged(_moments(bits, hidden), 1 / count)
    return total


def _fit(
    machine: Machine,
    wanted: _Moments,
    bits: np.ndarray,
    updates: int,
    rate: float,
    rng: np.random.Generator,
    pool: TilePool,
) -> tuple[Machine, np.ndarray]:
    """Return the machine with the wanted moments, and its persistent chains."""
    for update in range(updates):
        bits, hidden = _step(machine, bits, 1, rng, pool)
        found = _moments(bits, hidden)
        size = rate * (1 - update / updates)
        machine = Machine(
            machine.W + size * (wanted.pairs - found.pairs),
            machine.a + size * (wanted.visible - found.visible),
            machine.b + size * (wanted.hidden - found.hidden),
        )
    return machine, bits
