"""The path of section 5: a machine that grows by one visible unit at a time.

The hidden units are summed out, so a particle is a vector of visible bits; what the hidden units
need to know of them are the running activations g_h = b_h + W_[n],h^T x_[n], which are carried
along and never computed from scratch: a Gibbs step ends with them, and a new unit adds a row of W.

The plain path is the paper's. There, a unit that is not in yet counts as if it were off. The
look-ahead lets it count as if it were on with its base rate mu_m instead:

    f_n(x_[n]) = prod_{m > n} e^{a_m mu_m + H(mu_m)}
                 e^{a_[n]^T x_[n]} prod_h (1 + e^{b_h + sum_{m > n} W_mh mu_m + W_[n],h^T x_[n]})

with H the binary entropy; see :mod:`pymc_arm.families.rbm.lookahead`. All mu lead to the same f_N,
so that the estimate of log Z is right for any of them.

The two layers of a machine are alike, so that the hidden units can come in one at a time instead,
with the visible ones summed out. With few hidden units that is much the shorter path.
"""

import warnings
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import expit

from pymc_arm.algorithm.path import Moved, Path, Smoothed
from pymc_arm.algorithm.resampling import log_sum_exp
from pymc_arm.algorithm.settings import Settings
from pymc_arm.arguments import check_choice, check_count
from pymc_arm.errors import TrustWarning
from pymc_arm.families.rbm.kernels import softplus_difference_tile
from pymc_arm.families.rbm.lookahead import base_rates, tangents
from pymc_arm.families.rbm.machine import Machine, as_bits
from pymc_arm.families.rbm.order import arrange
from pymc_arm.families.rbm.threads import TilePool, gibbs_steps
from pymc_arm.running.placement import Placement

__all__ = ["RBMPath", "Units"]

# A control group of chains that starts away from the data; see ``RBMPath.reseed``.
CONTROL_CHAINS = 50
# The two groups are said to differ beyond so many standard errors: one false alarm in 10^6.
ALARM = 5.0
# So many rows of data say enough about the hidden units.
MOST_EXAMPLES = 5000
UNSCALED = np.float32(1.0)
# No generate rounds, as on the tempered path; see docs/guides/rbm.md.
UNITS_SETTINGS: dict[str, Any] = {"threshold": 0.97, "max_rounds": 0}


class Units(NamedTuple):
    """Particles: bits x_[n], (particle, unit), and activations g, (particle, unit across)."""

    bits: np.ndarray
    activations: np.ndarray


class RBMPath(Path):
    """The units of one layer introduced one at a time, with block Gibbs moves.

    Parameters
    ----------
    machine
        The machine whose log Z is wanted.
    layer
        The layer that grows: ``"visible"`` is the paper's; ``"hidden"`` pays off when it has few
        units. What is said of units below is said of this layer.
    order
        ``"given"``, ``"random"``, ``"active"`` (the paper's: the units whose variance in ``data``
        is highest come first), or the indices themselves. By default ``"active"`` if there are
        data, else ``"given"``.
    data
        Training data, (example, visible unit), zeros and ones. For ``layer="hidden"``, hidden
        units are drawn given some of the examples.
    lookahead
        The base rates mu of the units that are not in yet: ``None`` for the plain path,
        ``"data"`` for a part of their means in ``data``, ``"mean-field"`` for a part of those of
        the machine's mean-field approximation, or an array of them.
    strength
        The part: by how much the rates of ``lookahead="data"`` or ``"mean-field"`` are multiplied.
    gibbs_steps
        t, the number of Gibbs steps in a move.
    reseed_transitions
        The number of Gibbs steps from training data to a reseeded particle.
    threads
        How many threads work on the particles; by default one for each processor. The result
        does not depend on it.
    name
        The name of the variable in the posterior.
    random_seed
        For ``order="random"``, and for hidden units drawn from data.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        layer: Literal["visible", "hidden"] = "visible",
        order: str | np.ndarray | None = None,
        data: np.ndarray | None = None,
        lookahead: str | np.ndarray | None = None,
        strength: float = 0.2,
        gibbs_steps: int = 10,
        reseed_transitions: int = 1500,
        threads: int | None = None,
        name: str = "x",
        random_seed: int | np.random.Generator | None = None,
    ) -> None:
        for argument, value in (
            ("gibbs_steps", gibbs_steps),
            ("reseed_transitions", reseed_transitions),
        ):
            check_count(argument, value)
        check_choice("layer", layer, ("visible", "hidden"))
        self.machine = machine
        self.layer = layer
        self.name = name
        self.gibbs_steps = int(gibbs_steps)
        self.reseed_transitions = int(reseed_transitions)
        examples = None if data is None else as_bits(data, machine.visible_units, "data")
        if layer == "hidden":
            rng = np.random.default_rng(random_seed)
            examples = None if examples is None else _draw_hidden(rng, machine, examples)
            machine = machine.transposed()
        self.data = examples
        self.length = machine.visible_units
        self.order = arrange(order, self.length, examples, random_seed)
        rates = base_rates(lookahead, machine, examples, strength)
        self._gains, slopes = (part[self.order] for part in tangents(rates, machine))

        weights = machine.W[self.order]
        visible_bias = machine.a[self.order]
        # Row n: the hidden biases when n units are in.
        to_come = np.cumsum(slopes[::-1], axis=0)[::-1]
        self._hidden_bias = np.vstack([machine.b + to_come, machine.b]).astype(np.float32)
        self._plain = not slopes.any()
        self._slopes = slopes.astype(np.float32)
        self._exact_slopes = slopes
        self._exact_hidden_bias = machine.b
        self._exact_weights = weights
        self._visible_bias = visible_bias
        self._weights = np.ascontiguousarray(weights, dtype=np.float32)
        self._float_visible_bias = visible_bias.astype(np.float32)
        self._unshifted = np.zeros(machine.hidden_units, dtype=np.float32)
        self._pool = TilePool(threads)
        several = self._pool.threads > 1
        self.placement = Placement.SERIAL if several else Placement.THREADS

    def settings(self, **given: Any) -> Settings:
        """Generate nothing, as on the tempered path, unless a variant does."""
        own = UNITS_SETTINGS if given.get("variant", "arm") == "arm" else {}
        return Settings.of({**own, **given})

    def initialize(self, rng: np.random.Generator, size: int) -> tuple[Units, float]:
        """Draw from p_1 exactly; Z_1 is a sum of two terms."""
        bias = self._exact_hidden_bias + self._exact_slopes[1:].sum(axis=0)
        off = np.logaddexp(0, bias).sum() + self._gains[1:].sum()
        joined = np.logaddexp(0, bias + self._exact_weights[0]) - np.logaddexp(0, bias)
        on = off + self._visible_bias[0] + joined.sum()
        bits = (rng.random((size, 1)) < expit(on - off)).astype(np.uint8)
        activations = self._hidden_bias[1] + bits * self._weights[0]
        return Units(bits, activations.astype(np.float32)), log_sum_exp(np.array([off, on]))

    def move(self, rng: np.random.Generator, n: int, particles: Units) -> Moved:
        """Sample h given x, and x given h, t times; every proposal is accepted."""
        return Moved(self._gibbs(rng, n, particles.activations, self.gibbs_steps))

    def smooth(self, rng: np.random.Generator, n: int, particles: Units) -> Smoothed:
        """Return the two-term sum of eq. (upd_rbm) in logs, and the log-odds of x_n for augment."""
        weights, slopes = self._weights[n - 1], self._slopes[n - 1]
        on = self._softplus_difference(particles.activations, weights - slopes)
        log_on = self._visible_bias[n - 1] - self._gains[n - 1] + on
        log_off = np.full_like(on, -self._gains[n - 1])
        if not self._plain:
            log_off += self._softplus_difference(particles.activations, -slopes)
        return Smoothed(np.logaddexp(log_off, log_on), log_on - log_off)

    def augment(
        self, rng: np.random.Generator, n: int, particles: Units, proposal: np.ndarray
    ) -> tuple[Units, float]:
        """Draw x_n from its two terms, exactly."""
        column = (rng.random(len(proposal)) < expit(proposal)).astype(np.uint8)
        activations = column[:, None] * self._weights[n - 1] - self._slopes[n - 1]
        activations += particles.activations
        return Units(np.column_stack([particles.bits, column]), activations), 0.0

    def describe(self, n: int) -> str:
        """Name the unit that comes in with p_n, by its row (hidden: its column) of W."""
        name = self.name if self.layer == "visible" else "hidden"
        return f"{name}[{self.order[n - 1]}]"

    def reseed(self, rng: np.random.Generator, n: int, size: int) -> Units:
        """Run Gibbs chains from random training examples (section 5.1).

        The chains stand for p_n only if they mix. A control group starts from fair coins instead;
        when the two groups end at different mean densities, neither can be trusted.
        """
        if self.data is None:
            raise ValueError('variant="reseed" starts Gibbs chains at training data: give data=...')
        rows = rng.integers(len(self.data), size=size)
        bits = np.vstack(
            [
                self.data[np.ix_(rows, self.order[:n])],
                rng.integers(2, size=(CONTROL_CHAINS, n), dtype=np.uint8),
            ]
        )
        activations = bits.astype(np.float32) @ self._weights[:n] + self._hidden_bias[n]
        chains = self._gibbs(rng, n, activations, self.reseed_transitions)
        self._compare(n, self.log_target(n, chains), size)
        return Units(chains.bits[:size], chains.activations[:size])

    def posterior(self, rng: np.random.Generator, particles: Units) -> dict[str, np.ndarray]:
        """Return visible bits, (draw, unit), with units in the order of the rows of W."""
        if self.layer == "hidden":
            rates = expit(particles.activations)
            return {self.name: (rng.random(rates.shape) < rates).astype(np.uint8)}
        bits = np.empty_like(particles.bits)
        bits[:, self.order] = particles.bits
        return {self.name: bits}

    def log_target(self, n: int, particles: Units) -> np.ndarray:
        """Return log f_n of each particle, but for its constant."""
        hidden = np.logaddexp(0, particles.activations, dtype=float).sum(axis=1)
        log_density: np.ndarray = particles.bits @ self._visible_bias[:n] + hidden
        return log_density

    def _gibbs(
        self, rng: np.random.Generator, n: int, activations: np.ndarray, repeats: int
    ) -> Units:
        moved = Units(np.empty((len(activations), n), dtype=np.uint8), activations.copy())
        gibbs_steps(
            self._pool,
            rng,
            moved.activations,
            moved.bits,
            self._weights[:n],
            self._float_visible_bias[:n],
            self._hidden_bias[n],
            repeats,
        )
        return moved

    def _softplus_difference(self, activations: np.ndarray, shift: np.ndarray) -> np.ndarray:
        out = np.empty(len(activations))

        def smooth_tile(tile: slice) -> None:
            softplus_difference_tile(
                activations[tile], UNSCALED, self._unshifted, UNSCALED, shift, out[tile]
            )

        self._pool.run(smooth_tile, len(activations), work=activations.size)
        return out

    def _compare(self, n: int, log_density: np.ndarray, size: int) -> None:
        """Warn if chains from data and chains from coins have not reached the same densities."""
        groups = log_density[:size], log_density[size:]
        variance = sum(np.var(group) / len(group) for group in groups)
        difference = float(np.mean(groups[0]) - np.mean(groups[1]))
        if difference**2 > ALARM**2 * variance:
            warnings.warn(
                f"Reseeding from chains that have not mixed: after {self.reseed_transitions} Gibbs "
                f"steps, chains from training data and chains from random bits differ in their "
                f"mean log-density with {n} units by {difference:.1f}, {ALARM:.0f} times its "
                "standard error or more. The estimate of log Z is then biased. Raise "
                'reseed_transitions, or use variant="arm" or "anticipate".',
                TrustWarning,
                stacklevel=2,
            )


def _draw_hidden(rng: np.random.Generator, machine: Machine, examples: np.ndarray) -> np.ndarray:
    """Draw hidden units given some of the examples."""
    rows = rng.permutation(len(examples))[:MOST_EXAMPLES]
    rates = expit(np.atleast_2d(examples)[rows] @ machine.W + machine.b)
    hidden: np.ndarray = rng.random(rates.shape) < rates
    return hidden.astype(np.uint8)
