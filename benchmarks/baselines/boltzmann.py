r"""Restricted Boltzmann machines, annealed from their base rates.

The path goes from machine to machine, and between two of them log f_beta of visible and hidden
units together is the geometric average, so that weights and biases are linear in beta; hidden
units are summed out. With no machine between base and target it is the geometric path of
Salakhutdinov and Murray (AIS-GA); with machines whose moments are averages of those of base and
target (:func:`moment_averages`) it is the spline of Grosse and others (AIS-MAS). The base has the
data's mean for each visible unit, and no weights.

References
----------
Salakhutdinov and Murray (2008), On the quantitative analysis of deep belief networks.
Grosse, Maddison and Salakhutdinov (2013), Annealing between distributions by averaging moments.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from scipy.special import expit

from benchmarks.baselines.annealing import Annealing
from pymc_arm.algorithm.path import Moved
from pymc_arm.arguments import check_count
from pymc_arm.families.rbm.kernels import gibbs_tile
from pymc_arm.families.rbm.machine import Machine, as_bits
from pymc_arm.families.rbm.path import Units
from pymc_arm.families.rbm.threads import TilePool
from pymc_arm.running.placement import Placement
from pymc_arm.running.processors import one_blas_thread

__all__ = ["RBMAnnealing", "exact_draws"]

# Below this change of an activation, four terms of Taylor's series of softplus are exact in
# single precision; a difference of two logarithms would not be.
SMALL_CHANGE = 0.05
MOST_ENUMERABLE_UNITS = 20


@njit("void(f4[:, ::1], f4[:, ::1], f4, f8[::1])", cache=True, nogil=True, error_model="numpy")
def _small_gain(hidden: np.ndarray, slope: np.ndarray, step: float, out: np.ndarray) -> None:
    """Set ``out`` to sum_h softplus(g + step s) - softplus(g), for small steps."""
    for row in range(hidden.shape[0]):
        total = 0.0
        for unit in range(hidden.shape[1]):
            change = step * slope[row, unit]
            rate = np.float32(1.0) / (np.float32(1.0) + np.exp(-hidden[row, unit]))
            curvature = rate * (np.float32(1.0) - rate)
            skew = curvature * (np.float32(1.0) - np.float32(2.0) * rate)
            total += change * (
                rate + change * (np.float32(0.5) * curvature + change * skew / np.float32(6.0))
            )
        out[row] = total


class RBMAnnealing(Annealing):
    """The path from the base rates to a restricted Boltzmann machine.

    Parameters
    ----------
    machine
        The machine whose log Z is wanted.
    data
        Training data, (example, visible unit), zeros and ones: its means are the base rates.
    base_rates
        The base rates themselves, in place of ``data``; one half by default.
    knots
        Machines between base and target, equally spaced in beta: none for AIS-GA, those of
        :func:`moment_averages` for AIS-MAS.
    gibbs_steps
        Gibbs steps at each beta.
    target_draws
        Draws from the machine, for a run in reverse. Without them, machines with a layer of at
        most 20 units are drawn from exactly.
    threads
        How many threads work on the particles; by default one for each processor.
    name
        The name of the variable in the posterior.

    Examples
    --------
    >>> from benchmarks.baselines import RBMAnnealing, ais
    >>> from pymc_arm.families.rbm import Machine
    >>> machine = Machine(W=[[1.0, -1.0], [0.5, 2.0], [0.0, 1.0]])
    >>> result = ais(RBMAnnealing(machine), 500, temperatures=50, schedule="linear",
    ...              random_seed=1, progressbar=False)
    >>> bool(abs(result.attrs["log_marginal_likelihood"] - machine.exact_log_evidence()) < 0.1)
    True
    """

    def __init__(
        self,
        machine: Machine,
        *,
        data: Any = None,
        base_rates: Any = None,
        knots: Sequence[Machine] = (),
        gibbs_steps: int = 1,
        target_draws: Any = None,
        threads: int | None = None,
        name: str = "x",
    ) -> None:
        check_count("gibbs_steps", gibbs_steps)
        units = machine.visible_units
        for number, knot in enumerate(knots):
            if knot.W.shape != machine.W.shape:
                raise ValueError(
                    f"knots[{number}] has weights of shape {knot.W.shape}, the machine of shape "
                    f"{machine.W.shape}: they must be the same."
                )
        self.machine, self.name, self.gibbs_steps = machine, name, int(gibbs_steps)
        self.base_rates = find_base_rates(units, data, base_rates)
        base_bias = np.log(self.base_rates / (1 - self.base_rates))
        base = Machine(np.zeros_like(machine.W), base_bias)
        self._machines = [base, *knots, machine]
        self._target_draws = (
            None if target_draws is None else as_bits(target_draws, units, "target_draws")
        )
        self._pool = TilePool(threads)
        several = self._pool.threads > 1
        self.placement = Placement.SERIAL if several else Placement.THREADS
        self.length = len(self.betas)

    def on_grid(self, betas: np.ndarray) -> "RBMAnnealing":
        """Return the same path with another grid, to which the knots are added."""
        grid = np.asarray(betas, dtype=float)
        knots = np.linspace(0, 1, len(self._machines))
        apart = np.abs(grid[:, None] - knots).min(axis=1) > 1e-9
        rising = np.union1d(grid[apart], knots)
        path = super().on_grid(rising if grid[0] < grid[-1] else rising[::-1])
        assert isinstance(path, RBMAnnealing)
        return path

    def draw_base(self, rng: np.random.Generator, size: int) -> tuple[Units, float]:
        """Toss a coin for each visible unit; log Z_0 is a sum over units."""
        base = self._machines[0]
        bits = (rng.random((size, base.visible_units)) < self.base_rates).astype(np.uint8)
        log_evidence = np.logaddexp(0, base.a).sum() + base.hidden_units * np.log(2)
        return Units(bits, np.zeros((size, base.hidden_units), np.float32)), float(log_evidence)

    def draw_target(self, rng: np.random.Generator, size: int) -> Units:
        """Draw from the machine: by enumeration, or out of the draws that were given."""
        if self._target_draws is not None:
            bits = self._target_draws[rng.integers(len(self._target_draws), size=size)]
        elif min(self.machine.W.shape) <= MOST_ENUMERABLE_UNITS:
            bits = exact_draws(self.machine, rng, size)
        else:
            raise ValueError(
                f"Both layers of the machine have more than {MOST_ENUMERABLE_UNITS} units, so "
                "that a run in reverse needs target_draws. Gibbs chains from training data may "
                "not have mixed; log Z is then no upper bound."
            )
        return Units(bits, (bits @ self.machine.W + self.machine.b).astype(np.float32))

    def transition(self, rng: np.random.Generator, beta: float, particles: Units) -> Moved:
        """Sample hidden units given visible ones, and back."""
        segment, share = self._segment(beta, beta)
        low, high = self._machines[segment], self._machines[segment + 1]
        weights, visible_bias, hidden_bias = (
            np.ascontiguousarray(
                (1 - share) * getattr(low, part) + share * getattr(high, part)
            ).astype(np.float32)
            for part in ("W", "a", "b")
        )
        moved = Units(np.empty_like(particles.bits), particles.activations.copy())
        key = rng.integers(2**64, dtype=np.uint64)

        def on_tile(tile: slice) -> None:
            gibbs_tile(
                moved.activations[tile],
                moved.bits[tile],
                weights,
                visible_bias,
                hidden_bias,
                self.gibbs_steps,
                key,
                np.uint64(tile.start),
            )

        with one_blas_thread():
            self._pool.run(on_tile, len(moved.bits), moved.activations.size * self.gibbs_steps)
        return Moved(moved)

    def log_ratio(self, particles: Units, old: float, new: float) -> tuple[np.ndarray, Units]:
        """Return the change of log f, and the particles with activations at ``new``."""
        segment, share = self._segment(old, new)
        low, high = self._machines[segment], self._machines[segment + 1]
        step = (new - old) * (len(self._machines) - 1)
        slope = self._slopes(particles, segment, share)
        activations = particles.activations + np.float32(step) * slope
        visible = step * (particles.bits @ (high.a - low.a))
        gain = np.empty(len(visible))
        if abs(step) * np.abs(slope).max(initial=0.0) < SMALL_CHANGE:
            _small_gain(particles.activations, slope, np.float32(step), gain)
        else:
            before = particles.activations.astype(float)
            after = before + step * slope
            gain = (np.logaddexp(0, after) - np.logaddexp(0, before)).sum(axis=1)
        return visible + gain, Units(particles.bits, activations)

    def energy(self, particles: Units, beta: float) -> np.ndarray:
        """Return d log f_beta / d beta, to the right of a knot."""
        segment, share = self._segment(beta, min(beta + 1e-12, 1.0))
        low, high = self._machines[segment], self._machines[segment + 1]
        slope = self._slopes(particles, segment, share).astype(float)
        hidden = (expit(particles.activations) * slope).sum(axis=1)
        return (len(self._machines) - 1) * (particles.bits @ (high.a - low.a) + hidden)

    def posterior(self, rng: np.random.Generator, particles: Units) -> dict[str, np.ndarray]:
        """Return the visible units."""
        return {self.name: particles.bits}

    def _segment(self, old: float, new: float) -> tuple[int, float]:
        """Return the segment that holds both betas, and the place of the first in it."""
        segments = len(self._machines) - 1
        segment = min(int(np.floor(min(old, new) * segments + 1e-9)), segments - 1)
        return segment, float(np.clip(old * segments - segment, 0.0, 1.0))

    def _slopes(self, particles: Units, segment: int, share: float) -> np.ndarray:
        """Return the change of the activations from one end of a segment to the other."""
        if segment == 0 and share > 0:
            return particles.activations / np.float32(share)
        low, high = self._machines[segment], self._machines[segment + 1]
        weights = (high.W - low.W).astype(np.float32)
        with one_blas_thread():
            product = particles.bits.astype(np.float32) @ weights
        return product + (high.b - low.b).astype(np.float32)


def exact_draws(machine: Machine, rng: np.random.Generator, size: int) -> np.ndarray:
    """Draw visible units exactly, by enumerating the smaller layer.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.baselines.boltzmann import exact_draws
    >>> from pymc_arm.families.rbm import Machine
    >>> exact_draws(Machine(W=[[1.0, -1.0]]), np.random.default_rng(0), 3).shape
    (3, 1)
    """
    hidden_first = machine.hidden_units <= machine.visible_units
    enumerated = machine.transposed() if hidden_first else machine
    units = enumerated.visible_units
    states = ((np.arange(2**units)[:, None] >> np.arange(units)) & 1).astype(np.uint8)
    log_density = enumerated.log_density(states)
    rates = np.exp(log_density - log_density.max())
    chosen = states[rng.choice(len(states), size=size, p=rates / rates.sum())]
    if not hidden_first:
        return chosen
    visible = expit(chosen @ machine.W.T + machine.a)
    return (rng.random(visible.shape) < visible).astype(np.uint8)


def find_base_rates(units: int, data: Any, base_rates: Any) -> np.ndarray:
    """Return the base rates, away from 0 and 1 by half a count of the data."""
    if data is not None and base_rates is not None:
        raise ValueError("data and base_rates are both given: choose one.")
    if data is not None:
        examples = np.atleast_2d(as_bits(data, units, "data"))
        return (examples.sum(axis=0) + 0.5) / (len(examples) + 1)
    rates = np.full(units, 0.5) if base_rates is None else np.asarray(base_rates, dtype=float)
    if rates.shape != (units,):
        raise ValueError(f"base_rates has shape {rates.shape}; ({units},) is needed.")
    if not ((rates > 0) & (rates < 1)).all():
        unit = int(np.argmin((rates > 0) & (rates < 1)))
        raise ValueError(f"base_rates[{unit}] is {rates[unit]}; it must lie between 0 and 1.")
    return rates
