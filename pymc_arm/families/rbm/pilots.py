"""Pilot runs that find where the tempered path of a machine begins, and which biases it takes.

On average log Z-hat is too low, the more so the worse the path is. So of two ways to choose biases
the second is taken only if pilot runs of the first end clearly lower.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from pymc_arm.algorithm.arm import run
from pymc_arm.algorithm.state import State
from pymc_arm.families.rbm.fantasies import own_rates
from pymc_arm.families.rbm.knots import BaseRates, Knots, base_rates, learn_knots
from pymc_arm.families.rbm.machine import Machine, as_bits
from pymc_arm.families.rbm.modes import (
    Modes,
    ascend,
    draw_from,
    join_modes,
    modes_near,
    random_hidden,
)
from pymc_arm.families.rbm.tempered import TEMPERED_SETTINGS, TemperedRBMPath, check_strength
from pymc_arm.families.rbm.threads import TilePool

__all__ = ["DATA_BIAS_STRENGTHS", "tempered_path"]

# How far biases go towards those that keep the means of the data: as far as that, or not
# quite, if a few pilot runs of each show that the first is wrong for the machine. It may succeed in
# every other run all the same; where it fails it loses ten or twenty, and noise is below one.
DATA_BIAS_STRENGTHS = (1.0, 0.7)
PILOT_MARGIN = 1.0
PILOT_RUNS = 4
PILOT_PARTICLES = 50
PILOT_SETTINGS = {**TEMPERED_SETTINGS, "threshold": 0.98}

# Without data: ascents from random starts, and particles of the pilot runs after them.
RANDOM_STARTS = 300
EXPLORING_PARTICLES = 100
# What is drawn from modes or pilots in the place of data.
EXAMPLES = 1000
# Pilots whose log Z-hat is less than this below the best count alike: one of 100 particles is off
# by several nats. On a machine of 784 x 500 units pilots had 438.1 to 444.1 where log Z is 441.6,
# and by their Z-hat nearly all draws came from the last, from few ancestors.
PILOT_NOISE = 5.0

# A path of a machine from base rates, of some strength, with biases that all chains share or not.
_MakePath = Callable[[BaseRates, Modes, float, Knots | None], TemperedRBMPath]


def tempered_path(
    machine: Machine,
    data: Any = None,
    *,
    gibbs_steps: int = 1,
    threads: int | None = None,
    name: str = "x",
    data_bias_strength: float | None = None,
) -> TemperedRBMPath:
    """Return the tempered path of a machine, after pilot runs that find what is not given.

    The pilot runs are always the same: the path of a machine does not depend on a seed.

    Parameters
    ----------
    machine
        The machine whose log Z is wanted.
    data
        Training data, (example, visible unit), zeros and ones: where the base rates come from.
        Without data, from pilot runs that start at modes of the machine.
    gibbs_steps
        The number of Gibbs steps at each temperature.
    threads, name
        As of :class:`RBMPath`.
    data_bias_strength
        How far the biases between base rates and machine go from a straight line (0) to those that
        keep the means of the data (1); by default 1, or 0.7 if that is better in pilot runs.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_arm import run
    >>> from pymc_arm.families.rbm import Machine, tempered_path
    >>> machine = Machine(W=[[1.0, -1.0], [0.5, 2.0], [0.0, 1.0]])
    >>> path = tempered_path(machine, [[1, 0, 1], [1, 1, 1], [0, 1, 0]])
    >>> found = run(path, np.random.default_rng(1), 1000, threshold=0.99, max_rounds=0)
    >>> bool(abs(found.log_evidence - machine.exact_log_evidence()) < 0.1)
    True
    """
    if data_bias_strength is not None:
        check_strength(data_bias_strength)

    def make(
        base: BaseRates, modes: Modes, strength: float, learned: Knots | None
    ) -> TemperedRBMPath:
        return TemperedRBMPath(
            machine,
            base,
            modes,
            strength,
            gibbs_steps=gibbs_steps,
            threads=threads,
            name=name,
            learned=learned,
        )

    rng = np.random.default_rng(0)
    pool = TilePool(threads)
    if data is None:
        bases, modes = _explore(machine, make, rng, pool)
    else:
        examples = np.atleast_2d(as_bits(data, machine.visible_units, "data"))
        bases, modes = [base_rates(machine, examples)], modes_near(machine, examples, rng)
    strengths = DATA_BIAS_STRENGTHS if data_bias_strength is None else (data_bias_strength,)
    candidates = [(bases[0], strength) for strength in strengths]
    candidates += [(base, strengths[0]) for base in bases[1:]]
    base, strength = (
        candidates[0]
        if len(candidates) == 1
        else _best_candidate(machine, make, candidates, modes, pool)
    )
    return make(base, modes, strength, None)


def _explore(
    machine: Machine, make: _MakePath, rng: np.random.Generator, pool: TilePool
) -> tuple[list[BaseRates], Modes]:
    """Return base rates and modes of the machine, by pilot runs from several starts.

    First on the straight path, from the rates of modes and from those that visible units have
    by themselves; then from the rates of chains that go on where these have ended. Where a machine
    has a deep mode, pilots end there, so that chains from the first two starts are others to try.
    """
    modes = ascend(machine, random_hidden(machine, rng, RANDOM_STARTS))
    some = draw_from(modes, rng.integers(len(modes.bounds), size=EXAMPLES), rng)
    alone = (rng.random(some.shape) < expit(machine.a)).astype(np.uint8)
    ended: list[State] = []
    for examples in (some, alone, None, None):
        if examples is None:
            base, strength = own_rates(machine, _draw_pooled(ended, rng), rng, pool), 1.0
        else:
            base, strength = base_rates(machine, examples), 0.0
        trial = make(base, modes, strength, None)
        pilot = run(trial, rng, EXPLORING_PARTICLES, **PILOT_SETTINGS)
        ended.append(pilot.state)
        modes = join_modes(modes, modes_near(machine, pilot.state.particles.bits, rng))
    pooled = _draw_pooled(ended, rng)
    return [own_rates(machine, bits, rng, pool) for bits in (pooled, alone, some)], modes


def _best_candidate(
    machine: Machine,
    make: _MakePath,
    candidates: Sequence[tuple[BaseRates, float]],
    modes: Modes,
    pool: TilePool,
) -> tuple[BaseRates, float]:
    """Return the base rates and the strength whose pilots have the highest mean log Z-hat.

    The first, unless another one is clearly higher.
    """
    rng = np.random.default_rng(0)
    learned: dict[int, Knots] = {}
    found = []
    for base, strength in candidates:
        if id(base) not in learned:
            learned[id(base)] = learn_knots(machine, *base, rng, pool)
        trial = make(base, modes, strength, learned[id(base)])
        pilots = [run(trial, rng, PILOT_PARTICLES, **PILOT_SETTINGS) for _ in range(PILOT_RUNS)]
        found.append(float(np.mean([pilot.log_evidence for pilot in pilots])))
    best = int(np.argmax(found))
    return candidates[best] if found[best] > found[0] + PILOT_MARGIN else candidates[0]


def _draw_pooled(ended: Sequence[State], rng: np.random.Generator) -> np.ndarray:
    """Draw visible states from the particles of several runs: of those that have ended high."""
    log_evidence = np.array([state.log_evidence for state in ended])
    shares = np.minimum(log_evidence - log_evidence.max() + PILOT_NOISE, 0.0)
    log_weights = [state.log_weights + share for state, share in zip(ended, shares, strict=True)]
    bits = np.vstack([state.particles.bits for state in ended])
    chosen = rng.choice(len(bits), size=EXAMPLES, p=softmax(np.concatenate(log_weights)))
    drawn: np.ndarray = bits[chosen]
    return drawn
