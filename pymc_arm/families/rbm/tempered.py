"""The path from base rates to a machine, by temperature.

All units are there from the start, but without weights between the layers: each is on with its
base rate, that of the data for visible units, and the one that the data bring about for hidden
units. Without data, what pilot runs have found takes their place. Then

    log f_beta(x) = A_beta^T x + sum_h softplus(L_beta,h + beta W_h^T x),

with A_0 and L_0 the log-odds of the base rates, and A_1 = a, L_1 = b. Between them biases are
linear by way of the knots of :mod:`pymc_arm.families.rbm.knots`, which keep units on about as often
as in the data; a straight line would be the geometric path of AIS. Any biases lead to the same Z.
On average log Z-hat is too low, the more so the worse the path is. So of two ways to choose biases
the second is taken only if pilot runs of the first end clearly lower. And since biases are learned
by chains of their own, which shifts all that follows a little, every run learns them anew: then the
spread between runs counts it.

Every temperature is a step of Algorithm 2 on a space that grows by a copy of x, the one that
``augment`` draws with a Gibbs step given the copy before; ``smooth`` is f_beta' / f_beta, and
``advance`` goes as far as the effective fraction allows.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, softmax

from pymc_arm.algorithm.arm import run
from pymc_arm.algorithm.path import Moved, Path, Smoothed
from pymc_arm.algorithm.settings import Settings
from pymc_arm.algorithm.state import State
from pymc_arm.arguments import check_count
from pymc_arm.estimation.estimate import Evidence
from pymc_arm.families.rbm.kernels import softplus_difference_tile
from pymc_arm.families.rbm.knots import BETAS, BaseRates, Knots, base_rates, learn_knots
from pymc_arm.families.rbm.machine import Machine, as_bits
from pymc_arm.families.rbm.modes import (
    Modes,
    ascend,
    draw_from,
    join_modes,
    modes_near,
    random_hidden,
    search,
)
from pymc_arm.families.rbm.threads import TilePool, gibbs_steps
from pymc_arm.running.placement import Placement
from pymc_arm.running.processors import one_blas_thread

__all__ = ["TEMPERED_SETTINGS", "Temperature", "Tempered", "TemperedRBMPath"]

# See docs/guides/rbm.md for where these come from. No generate rounds: steps are so small that
# resampling now and then, and moving, does the same at less cost.
TEMPERED_SETTINGS: dict[str, Any] = {
    "threshold": 0.997,
    "max_rounds": 0,
    "resample_threshold": 0.9,
    "resampling": "systematic",
    "move": "adaptive",
}
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

FIRST_STEP = 1e-3
# A step is at most so many times as long as the one before, from which it is extrapolated.
LARGEST_GROWTH = 10.0
# Closer to one there is no end to the path.
LARGEST_THRESHOLD = 0.99999


@dataclass(frozen=True)
class Temperature:
    """An inverse temperature, and the one before."""

    beta: float
    previous: float = 0.0


class Tempered(NamedTuple):
    """Particles: bits x, (particle, unit); products W^T x; and A^T x, (particle, knot).

    ``seeds`` is one number, once for each particle: that of the biases of the chain.
    """

    bits: np.ndarray
    products: np.ndarray
    linear: np.ndarray
    seeds: np.ndarray


class BiasSchedule:
    """The biases between base rates and machine on which a chain travels."""

    def __init__(self, knots: Knots) -> None:
        self.knots = knots
        self._columns = np.ascontiguousarray(knots.visible.T, dtype=np.float32)

    def linear(self, bits: np.ndarray) -> np.ndarray:
        """Return A^T x at each knot, (particle, knot)."""
        with one_blas_thread():
            products: np.ndarray = bits.astype(np.float32) @ self._columns
        return products

    def hidden_line(self, beta: float) -> tuple[np.float32, np.ndarray]:
        """Return slope and intercept of the hidden activations in the products."""
        bias = self.knots.shares(beta) @ self.knots.hidden
        return np.float32(beta), bias.astype(np.float32)


class TemperedRBMPath(Path):
    """A machine whose weights grow from nothing, with a Gibbs step at each temperature.

    Parameters
    ----------
    machine
        The machine whose log Z is wanted.
    data
        Training data, (example, visible unit), zeros and ones: where the base rates come from.
        Without data, from pilot runs that start at modes of the machine; see
        :mod:`pymc_arm.families.rbm.modes`.
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
    >>> from pymc_arm.families.rbm import Machine, TemperedRBMPath
    >>> machine = Machine(W=[[1.0, -1.0], [0.5, 2.0], [0.0, 1.0]])
    >>> path = TemperedRBMPath(machine, [[1, 0, 1], [1, 1, 1], [0, 1, 0]])
    >>> found = run(path, np.random.default_rng(1), 1000, threshold=0.99, max_rounds=0)
    >>> bool(abs(found.log_evidence - machine.exact_log_evidence()) < 0.1)
    True
    """

    length: int | None = None
    start = Temperature(0.0)

    def __init__(
        self,
        machine: Machine,
        data: Any = None,
        *,
        gibbs_steps: int = 1,
        threads: int | None = None,
        name: str = "x",
        data_bias_strength: float | None = None,
    ) -> None:
        check_count("gibbs_steps", gibbs_steps)
        if data_bias_strength is not None and not 0 <= data_bias_strength <= 1:
            raise ValueError(
                f"data_bias_strength={data_bias_strength} must be between 0 (straight biases) and "
                "1 (biases that keep the means of the data), or None to find out."
            )
        self.machine, self.name, self.gibbs_steps = machine, name, int(gibbs_steps)
        self._weights = np.ascontiguousarray(machine.W, dtype=np.float32)
        self._pool = TilePool(threads)
        several = self._pool.threads > 1
        self.placement = Placement.SERIAL if several else Placement.THREADS
        self._schedules: dict[int, BiasSchedule] = {}
        #: Biases that all chains share; None if every chain learns its own.
        self._learned: Knots | None = None
        rng = np.random.default_rng(
            0
        )  # the path of a machine is no matter of luck, nor of the seed
        if data is None:
            self._base, self.modes = self._explore(rng)
        else:
            examples = np.atleast_2d(as_bits(data, machine.visible_units, "data"))
            self._base = base_rates(machine, examples)
            self.modes = modes_near(machine, examples, rng)
        self.data_bias_strength = (
            self._better_strength() if data_bias_strength is None else data_bias_strength
        )

    def _explore(self, rng: np.random.Generator) -> tuple[BaseRates, Modes]:
        """Return base rates and modes of the machine, by pilot runs from several starts.

        First on the straight path, from the rates of modes and from those that visible units have
        by themselves; then from the means of what these have found, by their Z-hat.
        """
        modes = ascend(self.machine, random_hidden(self.machine, rng, RANDOM_STARTS))
        some = draw_from(modes, rng.integers(len(modes.bounds), size=EXAMPLES), rng)
        alone = (rng.random(some.shape) < expit(self.machine.a)).astype(np.uint8)
        ended: list[State] = []
        for examples, data_bias_strength in ((some, 0.0), (alone, 0.0), *((None, 1.0),) * 2):
            drawn = _draw_pooled(ended, rng) if examples is None else examples
            trial = self._trial(base_rates(self.machine, drawn), data_bias_strength)
            pilot = run(trial, rng, EXPLORING_PARTICLES, **PILOT_SETTINGS)
            ended.append(pilot.state)
            modes = join_modes(modes, modes_near(self.machine, pilot.state.particles.bits, rng))
        return base_rates(self.machine, _draw_pooled(ended, rng)), modes

    def _trial(
        self, base: BaseRates, data_bias_strength: float, learned: Knots | None = None
    ) -> "TemperedRBMPath":
        """Return a path of the same machine from other base rates."""
        trial = copy.copy(self)
        trial._base, trial._learned, trial._schedules = base, learned, {}
        trial.data_bias_strength = data_bias_strength
        return trial

    def _better_strength(self) -> float:
        """Return the first strength, unless the mean log Z-hat of its pilots is clearly lower."""
        # Always the same runs: the path of a machine is no matter of luck, nor of the seed.
        rng = np.random.default_rng(0)
        learned = self._learn(rng)
        found = []
        for data_bias_strength in DATA_BIAS_STRENGTHS:
            trial = self._trial(self._base, data_bias_strength, learned)
            pilots = [run(trial, rng, PILOT_PARTICLES, **PILOT_SETTINGS) for _ in range(PILOT_RUNS)]
            found.append(np.mean([pilot.log_evidence for pilot in pilots]))
        return (
            DATA_BIAS_STRENGTHS[0] if found[0] > found[1] - PILOT_MARGIN else DATA_BIAS_STRENGTHS[1]
        )

    def _learn(self, rng: np.random.Generator) -> Knots:
        if self._learned is not None:
            return self._learned
        return learn_knots(self.machine, *self._base, rng, self._pool)

    def _schedule(self, particles: Tempered) -> BiasSchedule:
        return self._schedule_of(int(particles.seeds[0]))

    def _schedule_of(self, seed: int) -> BiasSchedule:
        """Return the biases of a chain, which it learns when they are first needed."""
        if seed not in self._schedules:
            learned = self._learn(np.random.default_rng(seed))
            self._schedules[seed] = BiasSchedule(learned.between(self.data_bias_strength))
        return self._schedules[seed]

    def initialize(self, rng: np.random.Generator, size: int) -> tuple[Tempered, float]:
        """Toss a coin for each visible unit; Z_0 is a product over units."""
        seed = int(rng.integers(2**63))
        schedule = self._schedule_of(seed)
        layers = schedule.knots.visible[0], schedule.knots.hidden[0]
        bits = (rng.random((size, len(layers[0]))) < expit(layers[0])).astype(np.uint8)
        with one_blas_thread():
            products = bits.astype(np.float32) @ self._weights
        log_evidence = sum(float(np.logaddexp(0, bias).sum()) for bias in layers)
        linear = schedule.linear(bits)
        return Tempered(bits, products, linear, np.full(size, seed)), log_evidence

    def particle_bytes(self) -> int:
        """Return about how much memory a particle takes."""
        visible, hidden = self.machine.W.shape
        return int(visible + 4 * (hidden + len(BETAS) + 2) + 8)

    def fixed_bytes(self) -> int:
        """Return nothing: the weights are shared by all chains."""
        return 0

    def settings(self, **given: Any) -> Settings:
        """Take many small steps, and generate nothing."""
        return Settings.of({**TEMPERED_SETTINGS, **given})

    def finished(self, n: Temperature) -> bool:
        """Whether the machine is reached."""
        return n.beta >= 1

    def advance(
        self, n: Temperature, particles: Tempered, log_weights: np.ndarray, threshold: float
    ) -> Temperature:
        """Go as far as gamma stays at the threshold, by the spread of a step like the last.

        A step ends at the next knot at the latest, where the path changes its direction.
        """
        betas = self._schedule(particles).knots.betas
        end = float(betas[betas > n.beta][0])
        trial = min(max(n.beta - n.previous, FIRST_STEP), end - n.beta)
        ratio = self._log_ratio(particles, n.beta, n.beta + trial)
        weights = np.exp(log_weights)
        deviation = np.sqrt(weights @ (ratio - weights @ ratio) ** 2)
        wanted = np.sqrt(1 / min(threshold, LARGEST_THRESHOLD) - 1) if threshold else np.inf
        growth = min(wanted / deviation, LARGEST_GROWTH) if deviation > 0 else LARGEST_GROWTH
        return Temperature(min(end, n.beta + float(growth) * trial), n.beta)

    def smooth(self, rng: np.random.Generator, n: Temperature, particles: Tempered) -> Smoothed:
        """Return the log ratio of f at this temperature and at the one before."""
        return Smoothed(self._log_ratio(particles, n.previous, n.beta))

    def augment(
        self, rng: np.random.Generator, n: Temperature, particles: Tempered, proposal: None
    ) -> tuple[Tempered, float]:
        """Draw the next copy of x by Gibbs steps from this one."""
        return self.move(rng, n, particles).particles, 0.0

    def move(self, rng: np.random.Generator, n: Temperature, particles: Tempered) -> Moved:
        """Sample h given x, and x given h; draws from the base are exact and stay as they are."""
        if n.beta == 0:
            return Moved(particles)
        schedule = self._schedule(particles)
        scale, hidden_bias = schedule.hidden_line(n.beta)
        visible_bias = (schedule.knots.shares(n.beta) @ schedule.knots.visible).astype(np.float32)
        bits = np.empty_like(particles.bits)
        activations = scale * particles.products + hidden_bias
        weights, biases = scale * self._weights, (visible_bias, hidden_bias)
        gibbs_steps(self._pool, rng, activations, bits, weights, *biases, self.gibbs_steps)
        activations -= hidden_bias
        activations /= scale
        return Moved(Tempered(bits, activations, schedule.linear(bits), particles.seeds))

    def describe(self, n: Temperature) -> str:
        """Return the inverse temperature."""
        return f"beta = {n.beta:.4g}"

    def posterior(self, rng: np.random.Generator, particles: Tempered) -> dict[str, np.ndarray]:
        """Return visible bits, (draw, unit)."""
        return {self.name: particles.bits}

    def search(self, particles: Sequence[Tempered], evidence: Evidence) -> dict[str, Any]:
        """Look for modes that the particles of all chains have missed."""
        bits = np.vstack([chain.bits for chain in particles])
        return search(self.machine, self.modes, bits, evidence)

    def _log_ratio(self, particles: Tempered, old: float, new: float) -> np.ndarray:
        """Return log f_new - log f_old of each particle."""
        out = np.empty(len(particles.linear))
        schedule = self._schedule(particles)
        before, after = schedule.hidden_line(old), schedule.hidden_line(new)

        def tile_ratio(tile: slice) -> None:
            softplus_difference_tile(particles.products[tile], *before, *after, out[tile])

        self._pool.run(tile_ratio, len(out), work=particles.products.size)
        out += particles.linear @ (schedule.knots.shares(new) - schedule.knots.shares(old))
        return out


def _draw_pooled(ended: Sequence[State], rng: np.random.Generator) -> np.ndarray:
    """Draw visible states from the particles of several runs, by their weights and Z-hat."""
    log_weights = [state.log_weights + state.log_evidence for state in ended]
    bits = np.vstack([state.particles.bits for state in ended])
    chosen = rng.choice(len(bits), size=EXAMPLES, p=softmax(np.concatenate(log_weights)))
    drawn: np.ndarray = bits[chosen]
    return drawn
