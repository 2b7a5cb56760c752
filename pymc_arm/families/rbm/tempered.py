"""The path from base rates to a machine, by temperature.

All units are there from the start, but without weights between the layers: each is on with its
base rate, that of the data for visible units, and the one that the data bring about for hidden
units. Without data, what pilot runs have found takes their place. Then

    log f_beta(x) = A_beta^T x + sum_h softplus(L_beta,h + beta W_h^T x),

with A_0 and L_0 the log-odds of the base rates, and A_1 = a, L_1 = b. Between them biases are
linear by way of the knots of :mod:`pymc_arm.families.rbm.knots`, which keep units on about as often
as in the data; a straight line would be the geometric path of AIS. Any biases lead to the same Z.
Since biases are learned by chains of their own, which shifts all that follows a little, every run
learns them anew: then the spread between runs counts it.

Every temperature is a step of Algorithm 2 on a space that grows by a copy of x, the one that
``augment`` draws with a Gibbs step given the copy before; ``smooth`` is f_beta' / f_beta, and
``advance`` goes as far as the effective fraction allows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from pymc_arm.algorithm.path import Moved, Path, Smoothed
from pymc_arm.algorithm.settings import Settings
from pymc_arm.arguments import check_count
from pymc_arm.estimation.estimate import Evidence
from pymc_arm.estimation.unseen import measure_unseen
from pymc_arm.families.rbm.fantasies import Fantasies
from pymc_arm.families.rbm.kernels import softplus_difference_tile
from pymc_arm.families.rbm.knots import BETAS, BaseRates, Knots, learn_knots
from pymc_arm.families.rbm.machine import Machine
from pymc_arm.families.rbm.modes import (
    MIXTURE_DRAWS,
    Modes,
    draw_from,
    join_modes,
    mixture_log_weights,
    modes_near,
    search,
)
from pymc_arm.families.rbm.threads import TilePool, gibbs_steps
from pymc_arm.running.placement import Placement
from pymc_arm.running.processors import one_blas_thread

__all__ = [
    "TEMPERED_SETTINGS",
    "Temperature",
    "Tempered",
    "TemperedRBMPath",
    "check_strength",
]

# See docs/guides/rbm.md for where these come from. No generate rounds: steps are so small that
# resampling now and then, and moving, does the same at less cost.
TEMPERED_SETTINGS: dict[str, Any] = {
    "threshold": 0.997,
    "max_rounds": 0,
    "resample_threshold": 0.9,
    "resampling": "systematic",
    "move": "adaptive",
}
FIRST_STEP = 1e-3
# A step is at most so many times as long as the one before, from which it is extrapolated.
LARGEST_GROWTH = 10.0
# Runs back from where particles have gone on, as many from elsewhere, and Gibbs steps before. On
# 784 x 500 units that takes 5 CPU s, where four chains of 300 particles take 10.
RUNS_BACK, CONTINUED_STEPS, ELSEWHERE_STEPS = 200, 300, 500
# Closer to one there is no end to the path.
LARGEST_THRESHOLD = 0.99999


@dataclass(frozen=True)
class Temperature:
    """An inverse temperature, and the one before."""

    beta: float
    previous: float = 0.0


class Tempered(NamedTuple):
    """Particles: bits x, (particle, unit); products W^T x; and A^T x, (particle, knot).

    ``seeds`` is one number, once for each particle: that of the biases of the chain. All chains
    share a path, and a checkpoint holds arrays with a row for each particle, so that this is how
    a chain that goes on in another process finds its biases again.
    """

    bits: np.ndarray
    products: np.ndarray
    linear: np.ndarray
    seeds: np.ndarray


def check_strength(data_bias_strength: float) -> None:
    """Refuse a strength that is not between zero and one."""
    if not 0 <= data_bias_strength <= 1:
        raise ValueError(
            f"data_bias_strength={data_bias_strength} must be between 0 (straight biases) and "
            "1 (biases that keep the means of the data), or None to find out."
        )


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

    :func:`~pymc_arm.families.rbm.tempered_path` finds base rates and modes.

    Parameters
    ----------
    machine
        The machine whose log Z is wanted.
    base
        How often units are on where the path begins.
    modes
        Modes of the machine, with which what the particles have found is compared at the end.
    data_bias_strength
        How far the biases between base rates and machine go from a straight line (0) to those that
        keep the means of the base rates (1).
    gibbs_steps
        The number of Gibbs steps at each temperature.
    threads, name
        As of :class:`RBMPath`.
    learned
        Biases that all chains share; by default every chain learns its own.
    """

    length: int | None = None
    start = Temperature(0.0)

    def __init__(
        self,
        machine: Machine,
        base: BaseRates,
        modes: Modes,
        data_bias_strength: float = 1.0,
        *,
        gibbs_steps: int = 1,
        threads: int | None = None,
        name: str = "x",
        learned: Knots | None = None,
    ) -> None:
        check_count("gibbs_steps", gibbs_steps)
        check_strength(data_bias_strength)
        self.machine, self.name, self.gibbs_steps = machine, name, int(gibbs_steps)
        self.modes, self.data_bias_strength = modes, data_bias_strength
        self._base, self._learned = base, learned
        self._weights = np.ascontiguousarray(machine.W, dtype=np.float32)
        self._pool = TilePool(threads)
        several = self._pool.threads > 1
        self.placement = Placement.SERIAL if several else Placement.THREADS
        self._schedules: dict[int, BiasSchedule] = {}

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
        bias = schedule.knots.visible[0]
        bits = (rng.random((size, len(bias))) < expit(bias)).astype(np.uint8)
        with one_blas_thread():
            products = bits.astype(np.float32) @ self._weights
        linear = schedule.linear(bits)
        particles = Tempered(bits, products, linear, np.full(size, seed))
        return particles, self._log_start(schedule.knots)

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

    def run_back(
        self,
        rng: np.random.Generator,
        bits: np.ndarray,
        seed: int,
        positions: Sequence[Temperature],
    ) -> np.ndarray:
        """Go from the machine back to the base rates, without resampling.

        Parameters
        ----------
        rng
            Source of randomness.
        bits
            Visible states at which to start, (particle, unit).
        seed, positions
            Those of a chain: its biases and its temperatures.

        Returns
        -------
        ndarray
            For each particle, the log-weight that a run forwards on the same way would have: if
            the start is a draw from the machine, the mean of exp(-log_weight) is 1 / Z.
        """
        schedule = self._schedule_of(seed)
        with one_blas_thread():
            products = bits.astype(np.float32) @ self._weights
        particles = Tempered(bits, products, schedule.linear(bits), np.full(len(bits), seed))
        log_weights = np.full(len(bits), self._log_start(schedule.knots))
        for n in reversed([n for n in positions if n.beta > 0]):
            particles = self.move(rng, n, particles).particles
            log_weights += self._log_ratio(particles, n.previous, n.beta)
        return log_weights

    @staticmethod
    def _log_start(knots: Knots) -> float:
        """Return log Z at the base rates, where units are independent."""
        return sum(
            float(np.logaddexp(0, layer[0]).sum()) for layer in (knots.visible, knots.hidden)
        )

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

    def search(
        self,
        particles: Sequence[Tempered],
        positions: Sequence[Temperature],
        evidence: Evidence,
    ) -> dict[str, Any]:
        """Look for modes that the particles of all chains have missed, and run back from them."""
        rng = np.random.default_rng(0)
        bits = np.vstack([chain.bits for chain in particles])
        elsewhere = self._go_elsewhere(rng)
        modes = join_modes(self.modes, modes_near(self.machine, elsewhere, rng))
        found = search(self.machine, modes, bits, evidence)
        own = bits[rng.integers(len(bits), size=RUNS_BACK)]
        own = Fantasies(self.machine, own, self._pool).go_on(rng, CONTINUED_STEPS).bits
        log_weights = self.run_back(
            rng, np.vstack([own, elsewhere]), int(particles[0].seeds[0]), positions
        )
        # What draws of the mixture of modes can see has been weighed with it.
        log_z, limit = evidence.log_evidence, np.log(MIXTURE_DRAWS)
        hidden = mixture_log_weights(self.machine, modes, elsewhere) > log_z + limit
        others = np.where(hidden, log_weights[RUNS_BACK:], -np.inf)
        unseen = measure_unseen(log_weights[:RUNS_BACK], others, log_z, len(bits))
        return found | {"unseen_share": unseen.share, "unseen_elsewhere": unseen.elsewhere}

    def _go_elsewhere(self, rng: np.random.Generator) -> np.ndarray:
        """Return where chains end that start at fair coins and at modes."""
        coins = rng.integers(2, size=(RUNS_BACK // 2, self.machine.visible_units), dtype=np.uint8)
        chosen = rng.integers(len(self.modes.bounds), size=RUNS_BACK - len(coins))
        starts = np.vstack([coins, draw_from(self.modes, chosen, rng)])
        return Fantasies(self.machine, starts, self._pool).go_on(rng, ELSEWHERE_STEPS).bits

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
