"""Boltzmann machines of different kinds, trained here, so that nothing is tuned to a few files.

Each is made from a seed in seconds to a minute, with data that it was trained on. log Z is exact:
by enumeration of at most 16 hidden units, or of the parts of a machine that falls into such parts.
Those of 784 x 500 units (``LARGE``) have no exact log Z.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from pymc_arm.families.rbm import Machine

__all__ = ["LARGE", "MACHINES", "Trained", "make", "train"]

BATCH = 100


class Trained(NamedTuple):
    """A machine, its training data, and log Z."""

    machine: Machine
    data: np.ndarray
    log_evidence: float


def train(
    data: np.ndarray,
    hidden_units: int,
    *,
    steps: int,
    persistent: bool = False,
    updates: int = 3000,
    rate: float = 0.05,
    seed: int = 0,
) -> Machine:
    """Train by (persistent) contrastive divergence, with a rate that falls to zero.

    Parameters
    ----------
    data
        Zeros and ones, (example, visible unit).
    hidden_units
        How many.
    steps
        Gibbs steps of an update: 1 for CD1, 25 for CD25.
    persistent
        Whether chains go on from update to update (PCD).
    updates, rate, seed
        The number of batches, the first learning rate, and the seed.
    """
    rng = np.random.default_rng(seed)
    weights = rng.normal(0, 0.01, (data.shape[1], hidden_units)).astype(np.float32)
    visible = logit(np.clip(data.mean(axis=0), 0.01, 0.99)).astype(np.float32)
    hidden = np.zeros(hidden_units, dtype=np.float32)

    def toss(activations: np.ndarray) -> np.ndarray:
        coins = rng.random(activations.shape, dtype=np.float32) < expit(activations)
        return coins.astype(np.float32)

    chains = toss(np.tile(visible, (BATCH, 1)))
    for update in range(updates):
        batch = data[rng.integers(len(data), size=BATCH)].astype(np.float32)
        given = expit(batch @ weights + hidden)
        states = chains if persistent else batch
        for _ in range(steps):
            states = toss(toss(states @ weights + hidden) @ weights.T + visible)
        chains = states
        dreamt = expit(states @ weights + hidden)
        step = np.float32(rate * (1 - update / updates))
        weights += step * (batch.T @ given - states.T @ dreamt) / BATCH
        visible += step * (batch - states).mean(axis=0)
        hidden += step * (given - dreamt).mean(axis=0)
    return Machine(weights, visible, hidden)


def _digits() -> np.ndarray:
    from sklearn.datasets import load_digits

    return (load_digits().data > 7).astype(np.uint8)


def _large_digits() -> np.ndarray:
    """Return 28 x 28 images of digits, each at nine places, with some noise."""
    size = np.arange(28) * 8 // 28
    images = _digits().reshape(-1, 8, 8)[:, size][:, :, size]
    places = [(row, column) for row in (-1, 0, 1) for column in (-1, 0, 1)]
    shifted = np.concatenate([np.roll(images, place, axis=(1, 2)) for place in places])
    noise = np.random.default_rng(7).random(shifted.shape) < 0.005
    return (shifted ^ noise).reshape(len(shifted), -1).astype(np.uint8)


def _bars(size: int, count: int, seed: int) -> np.ndarray:
    """Return images with either rows or columns on, each with probability 1/2, and some noise."""
    rng = np.random.default_rng(seed)
    lines = rng.integers(2, size=(count, size), dtype=np.uint8)
    rows = np.repeat(lines[:, :, None], size, axis=2)
    images = np.where(rng.integers(2, size=(count, 1, 1)), rows, rows.transpose(0, 2, 1))
    noise = rng.random(images.shape) < 0.02
    return (images ^ noise).reshape(count, -1).astype(np.uint8)


def _clusters(units: int, kinds: int, count: int, seed: int) -> np.ndarray:
    """Return noisy copies of a few random patterns, of very different frequencies."""
    rng = np.random.default_rng(seed)
    patterns = rng.random((kinds, units)) < rng.uniform(0.2, 0.6, (kinds, 1))
    kind = rng.choice(kinds, size=count, p=rng.dirichlet(np.ones(kinds)))
    return (patterns[kind] ^ (rng.random((count, units)) < 0.05)).astype(np.uint8)


def _strokes(count: int, seed: int) -> np.ndarray:
    """Return 28 x 28 images of ten kinds, each of three thick strokes that vary a little."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(np.arange(28), np.arange(28), indexing="ij"), axis=-1)
    ends = rng.uniform(5, 22, (10, 3, 2, 2))
    kinds = rng.integers(10, size=count)
    shifts = rng.normal(0, 1.0, (count, 3, 2, 2))
    images = np.zeros((count, 28, 28), dtype=bool)
    for image, kind, shift in zip(images, kinds, shifts, strict=True):
        for start, end in ends[kind] + shift:
            along = end - start
            part = np.clip(((grid - start) @ along) / max(along @ along, 1e-9), 0, 1)
            image |= np.hypot(*np.moveaxis(grid - start - part[..., None] * along, -1, 0)) < 1.5
    return (images ^ (rng.random(images.shape) < 0.01)).reshape(count, -1).astype(np.uint8)


def _enumerated(data: np.ndarray, hidden_units: int, **training) -> Trained:
    machine = train(data, hidden_units, **training)
    return Trained(machine, data, machine.exact_log_evidence())


def _blocks(parts: list[Trained]) -> Trained:
    """Return one sparse machine out of several that know nothing of each other."""
    rows, columns = (np.cumsum([0, *(p.machine.W.shape[axis] for p in parts)]) for axis in (0, 1))
    weights = np.zeros((rows[-1], columns[-1]))
    for number, part in enumerate(parts):
        weights[rows[number] : rows[number + 1], columns[number] : columns[number + 1]] = (
            part.machine.W
        )
    biases = (np.concatenate([getattr(p.machine, name) for p in parts]) for name in ("a", "b"))
    fewest = min(len(part.data) for part in parts)
    data = np.hstack([part.data[:fewest] for part in parts])
    return Trained(Machine(weights, *biases), data, sum(p.log_evidence for p in parts))


def _hopfield(units: int, kinds: int, depth: float, seed: int) -> Trained:
    """Return a machine with a deep mode for each hidden unit, and data drawn from it exactly."""
    rng = np.random.default_rng(seed)
    patterns = np.where(rng.random((units, kinds)) < 0.3, 1.0, -1.0)
    machine = Machine(depth * patterns, np.zeros(units), rng.normal(0, 1, kinds))
    hidden = ((np.arange(2**kinds)[:, None] >> np.arange(kinds)) & 1).astype(np.uint8)
    log_density = machine.transposed().log_density(hidden)
    log_evidence = machine.exact_log_evidence()
    chosen = rng.choice(len(hidden), size=2000, p=np.exp(log_density - log_evidence))
    rates = expit(hidden[chosen] @ machine.W.T + machine.a)
    return Trained(machine, (rng.random(rates.shape) < rates).astype(np.uint8), log_evidence)


MACHINES: dict[str, Callable[[], Trained]] = {
    "digits-cd1-12": lambda: _enumerated(_digits(), 12, steps=1),
    "digits-cd25-16": lambda: _enumerated(_digits(), 16, steps=25, updates=2000),
    "digits-pcd-16": lambda: _enumerated(_digits(), 16, steps=1, persistent=True),
    "bars-cd1-16": lambda: _enumerated(_bars(6, 3000, 1), 16, steps=1, rate=0.1, updates=6000),
    "clusters-pcd-14": lambda: _enumerated(
        _clusters(100, 8, 3000, 2), 14, steps=5, persistent=True
    ),
    "clusters-cd1-16": lambda: _enumerated(_clusters(60, 20, 3000, 3), 16, steps=1, rate=0.1),
    "strokes-cd1-14": lambda: _enumerated(_strokes(3000, 4), 14, steps=1),
    "strokes-pcd-16": lambda: _enumerated(_strokes(3000, 4), 16, steps=1, persistent=True),
    "hopfield-12": lambda: _hopfield(40, 12, 0.5, 5),
    "blocks-8x12": lambda: _blocks(
        [_enumerated(_clusters(30, 6, 2000, 10 + k), 12, steps=5, updates=1500) for k in range(8)]
    ),
}


def _large(data: np.ndarray, **training) -> Trained:
    return Trained(train(data, 500, seed=3, **training), data, np.nan)


LARGE: dict[str, Callable[[], Trained]] = {
    "digits-cd1-500": lambda: _large(_large_digits(), steps=1, updates=3000),
    "digits-pcd-500": lambda: _large(_large_digits(), steps=1, persistent=True, updates=4000),
    "strokes-pcd-500": lambda: _large(_strokes(3000, 11), steps=1, persistent=True, updates=4000),
}


@functools.cache
def make(name: str) -> Trained:
    """Make a machine of the list."""
    return MACHINES[name]()
