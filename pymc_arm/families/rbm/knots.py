"""Biases for a machine whose weights are scaled down.

At inverse temperature beta the weights are beta W. If biases went straight from the log-odds of
the base rates to those of the machine, as they do on the geometric path of AIS, half-way machines
would have too few units on: particles would first drift away from the data, and on the last stretch
few of them would find the way back. Biases that keep the mean of each unit at its rate in the data
avoid that, but a machine need not have the means of its data, and then the detour comes at the end.
So biases may also lie between the two; which is better for a machine, the path finds out.

The biases that keep the means are learned at a few temperatures, one after the other, by chains
that go on while the biases change (persistent contrastive divergence, for biases alone).
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from pymc_arm.families.rbm.machine import Machine
from pymc_arm.families.rbm.threads import TilePool, gibbs_steps
from pymc_arm.running.processors import one_blas_thread

__all__ = ["BaseRates", "Knots", "base_rates", "clip_hidden", "learn_knots"]

# So many rows of data say enough about the hidden units.
MOST_EXAMPLES = 5000
# A hidden unit that the data never turn on must still be able to come on.
SMALLEST_HIDDEN_RATE = 0.01


BETAS = (0.5, 0.8)
CHAINS = 200
UPDATES = 60
# The first update goes this part of the way, and later ones less and less.
FIRST_RATE = 0.5
HALVED_AFTER = 10
# Units that are hardly ever on or off are not to make large leaps.
LEAST_VARIANCE = 0.02


class BaseRates(NamedTuple):
    """How often each unit of both layers is on."""

    visible: np.ndarray
    hidden: np.ndarray


def base_rates(machine: Machine, examples: np.ndarray) -> BaseRates:
    """Return the rates of visible units in examples, and of hidden units given them."""
    visible = (examples.sum(axis=0) + 0.5) / (len(examples) + 1)
    some = examples[:: -(-len(examples) // MOST_EXAMPLES)]
    hidden = expit(some @ machine.W + machine.b).mean(axis=0)
    return BaseRates(visible, clip_hidden(hidden))


def clip_hidden(rates: np.ndarray) -> np.ndarray:
    """Keep rates of hidden units away from zero and one."""
    clipped: np.ndarray = np.clip(rates, SMALLEST_HIDDEN_RATE, 1 - SMALLEST_HIDDEN_RATE)
    return clipped


class Knots(NamedTuple):
    """Biases of both layers, (knot, unit), at some betas; linear between them."""

    betas: np.ndarray
    visible: np.ndarray
    hidden: np.ndarray

    def shares(self, beta: float) -> np.ndarray:
        """Return what each knot contributes to the biases at ``beta``."""
        left = int(np.searchsorted(self.betas[1:-1], beta, side="right"))
        width = self.betas[left + 1] - self.betas[left]
        shares = np.zeros(len(self.betas))
        shares[left + 1] = (beta - self.betas[left]) / width
        shares[left] = 1 - shares[left + 1]
        return shares

    def between(self, data_bias_strength: float) -> "Knots":
        """Return knots that lie between the straight line (strength 0) and these (strength 1)."""
        lines = [
            layer[0] + self.betas[:, None] * (layer[-1] - layer[0])
            for layer in (self.visible, self.hidden)
        ]
        visible, hidden = (
            line + data_bias_strength * (layer - line)
            for line, layer in zip(lines, (self.visible, self.hidden), strict=True)
        )
        return Knots(self.betas, visible, hidden)


def learn_knots(
    machine: Machine,
    visible_rates: np.ndarray,
    hidden_rates: np.ndarray,
    rng: np.random.Generator,
    pool: TilePool,
) -> Knots:
    """Return the biases from base rates to the machine that keep the rates at the knots."""
    rates = np.concatenate([visible_rates, hidden_rates])
    split = len(visible_rates)
    base, end = logit(rates), np.concatenate([machine.a, machine.b])
    weights = np.ascontiguousarray(machine.W, dtype=np.float32)
    bits = (rng.random((CHAINS, split)) < visible_rates).astype(np.uint8)
    with one_blas_thread():
        products = bits.astype(np.float32) @ weights
        knots, biases, previous = [base], base, 0.0
        for beta in BETAS:
            biases = biases + (beta - previous) / (1 - previous) * (end - biases)
            scaled, mean, previous = np.float32(beta) * weights, np.zeros_like(base), beta
            for update in range(UPDATES):
                visible_bias, hidden_bias = np.split(biases.astype(np.float32), [split])
                activations = np.float32(beta) * products + hidden_bias
                gibbs_steps(pool, rng, activations, bits, scaled, visible_bias, hidden_bias)
                products = (activations - hidden_bias) / np.float32(beta)
                found = np.concatenate([bits.mean(axis=0), expit(activations).mean(axis=0)])
                rate = FIRST_RATE / (1 + update / HALVED_AFTER)
                biases = biases + rate * (rates - found) / (rates * (1 - rates) + LEAST_VARIANCE)
                if update >= UPDATES // 2:
                    mean += biases / (UPDATES - UPDATES // 2)
            biases = mean
            knots.append(biases)
    visible, hidden = np.split(np.array([*knots, end]), [split], axis=1)
    return Knots(np.array([0.0, *BETAS, 1.0]), visible, hidden)
