"""Where a machine has its mass, found by mean-field ascents.

The mean-field approximation of a machine is two vectors of rates, mu for visible and nu for hidden
units, that satisfy mu = sigmoid(a + W nu) and nu = sigmoid(b + W^T mu). Replacing each by the right
side in turn never lowers

    mu^T W nu + a^T mu + b^T nu + H(mu) + H(nu)  <=  log Z,

with H the entropy of independent coins, so that ascents from many starts end at many modes, each
with a lower bound of its mass. What the modes are good for:

- Draws from them stand for training data, where there are none, in the first pilot run. Modes
  count alike in that, whatever their mass: the rates of ten machines were then 0.01 to 0.09 away
  from those of the data, and 0.03 to 0.37 with modes by mass.
- A mixture of them is a density from which one can draw, so that importance sampling gives a second
  estimate of log Z. It is exact where modes are deep, and low otherwise; a run that ends clearly
  below it has missed something.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr, expit, logit, logsumexp, softmax

from pymc_arm.estimation.estimate import Evidence
from pymc_arm.families.rbm.machine import Machine
from pymc_arm.running.processors import one_blas_thread

__all__ = [
    "Modes",
    "Weighed",
    "ascend",
    "draw_from",
    "join_modes",
    "mixture_log_weights",
    "modes_near",
    "particle_shares",
    "random_hidden",
    "search",
    "weigh",
]

# Ascents are rarely done before 20 rounds; after 60 the slowest have still some way to go, which
# costs them a little of their bound, and no more.
ROUNDS = 60
CHANGE = 1e-3
# Modes that differ by less than one visible unit are one.
SMALLEST_DISTANCE = 1.0
# An estimate by modes that is so many errors and nats above that of a run refutes it. Both checks
# are one-sided, and importance sampling is more often low than high.
ALARM = 4.0
SMALLEST_GAP = 0.05
# The best so many are kept.
MOST_MODES = 400
# Ascents from data or particles.
MOST_STARTS = 300
# Draws from the mixture, and how close to 0 and 1 its rates may be: a unit may always differ.
MIXTURE_DRAWS = 2000
LEAST_RATE = 1e-3


class Modes(NamedTuple):
    """Visible rates, (mode, unit), and the bound of each mode, best first."""

    rates: np.ndarray
    bounds: np.ndarray


class Weighed(NamedTuple):
    """What importance sampling from a mixture of modes says of a machine.

    ``log_evidence`` is its estimate of log Z, ``standard_error`` what its weights say of the error
    of that, and ``shares`` the part of Z that each mode has.
    """

    log_evidence: float
    standard_error: float
    shares: np.ndarray


def random_hidden(machine: Machine, rng: np.random.Generator, count: int) -> np.ndarray:
    """Return starts for ascents: few or many hidden units on, at random, and each one alone."""
    units = machine.hidden_units
    density = rng.random((count, 1)) ** 2
    some = rng.random((count, units)) < density
    alone = np.eye(units, dtype=bool)[rng.permutation(units)[:count]]
    return np.vstack([some, alone]).astype(np.float32)


def ascend(machine: Machine, hidden: np.ndarray) -> Modes:
    """Return the modes at which ascents from these hidden rates, (start, unit), end."""
    weights, visible_bias, hidden_bias = (
        np.asarray(part, dtype=np.float32) for part in (machine.W, machine.a, machine.b)
    )
    with one_blas_thread():
        for _ in range(ROUNDS):
            following = expit(hidden_bias + expit(visible_bias + hidden @ weights.T) @ weights)
            change = np.abs(following - hidden).max()
            hidden = following
            if change < CHANGE:
                break
        rates = expit(visible_bias + hidden @ weights.T).astype(float)
        nu = hidden.astype(float)
        bounds = np.einsum("kh,kh->k", rates @ machine.W + machine.b, nu) + rates @ machine.a
    for layer in (rates, nu):
        bounds += (entr(layer) + entr(1 - layer)).sum(axis=1)
    return _distinct(Modes(rates, bounds))


def modes_near(machine: Machine, bits: np.ndarray, rng: np.random.Generator) -> Modes:
    """Return the modes at which ascents from some of these visible states end."""
    some = bits[rng.permutation(len(bits))[:MOST_STARTS]]
    return ascend(machine, expit(some @ machine.W + machine.b).astype(np.float32))


def join_modes(*sets: Modes) -> Modes:
    """Return the distinct modes of several sets."""
    rates, bounds = (np.concatenate(parts) for parts in zip(*sets, strict=True))
    return _distinct(Modes(rates, bounds))


def _distinct(modes: Modes) -> Modes:
    """Return each mode once, best first."""
    order = np.argsort(-modes.bounds, kind="stable")
    kept: list[int] = []
    for index in order:
        distances = np.abs(modes.rates[kept] - modes.rates[index]).sum(axis=1)
        if not (distances < SMALLEST_DISTANCE).any():
            kept.append(int(index))
        if len(kept) == MOST_MODES:
            break
    return Modes(modes.rates[kept], modes.bounds[kept])


def draw_from(modes: Modes, chosen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Toss the visible units of the chosen modes, (draw, unit)."""
    rates = np.clip(modes.rates, LEAST_RATE, 1 - LEAST_RATE)[chosen]
    bits: np.ndarray = rng.random(rates.shape) < rates
    return bits.astype(np.uint8)


def weigh(machine: Machine, modes: Modes, rng: np.random.Generator) -> Weighed:
    """Estimate log Z by importance sampling from the mixture of modes."""
    chosen = rng.choice(len(modes.bounds), size=MIXTURE_DRAWS, p=softmax(modes.bounds))
    bits = draw_from(modes, chosen, rng)
    joint = _log_joint(modes, bits)
    log_weights = mixture_log_weights(machine, modes, bits)
    total = logsumexp(log_weights)
    weights = np.exp(log_weights - total)
    error = np.sqrt(np.sum(weights**2) - 1 / MIXTURE_DRAWS)
    shares = weights @ softmax(joint, axis=1)
    return Weighed(float(total - np.log(MIXTURE_DRAWS)), float(error), shares)


def mixture_log_weights(machine: Machine, modes: Modes, bits: np.ndarray) -> np.ndarray:
    """Return log f(x) less the log-density of the mixture, of visible states, (state, unit)."""
    log_weights: np.ndarray = machine.log_density(bits) - logsumexp(_log_joint(modes, bits), axis=1)
    return log_weights


def particle_shares(modes: Modes, bits: np.ndarray) -> np.ndarray:
    """Return the part of some particles, (particle, unit), that each mode has."""
    shares: np.ndarray = softmax(_log_joint(modes, bits), axis=1).mean(axis=0)
    return shares


def search(machine: Machine, modes: Modes, bits: np.ndarray, evidence: Evidence) -> dict[str, Any]:
    """Compare chains with what a mixture of modes says: of log Z, and of the shares of modes.

    Parameters
    ----------
    machine
        The machine.
    modes
        Modes that are known; those near the particles are added.
    bits
        Particles at the end of all chains, (particle, unit).
    evidence
        log Z of the run, with its error.

    Returns
    -------
    dict
        Fields of :class:`pymc_arm.running.summary.RunSummary`: how many modes there are, what their
        mixture says of log Z, and, if
        the mixture has clearly more mass than the chains have found, the mass and shares of the
        modes that have too few particles.
    """
    rng = np.random.default_rng(0)
    modes = join_modes(modes, modes_near(machine, bits, rng))
    weighed = weigh(machine, modes, rng)
    found: dict[str, Any] = {
        "modes_found": len(modes.bounds),
        "modes_log_evidence": weighed.log_evidence,
    }
    error = np.hypot(weighed.standard_error, evidence.standard_error)
    gap = weighed.log_evidence - evidence.log_evidence
    if not gap > max(ALARM * error, SMALLEST_GAP):
        return found
    shares = particle_shares(modes, bits)
    scarce = shares < weighed.shares
    expected = float(weighed.shares[scarce].sum())
    return found | {
        "missed_log_mass": weighed.log_evidence + np.log(expected),
        "missed_expected_share": max(expected, float(-np.expm1(-gap))),
        "missed_found_share": float(shares[scarce].sum()),
    }


def _log_joint(modes: Modes, bits: np.ndarray) -> np.ndarray:
    """Return log of weight times density of each mode, (draw, mode)."""
    rates = np.clip(modes.rates, LEAST_RATE, 1 - LEAST_RATE)
    with one_blas_thread():
        log_joint: np.ndarray = bits @ logit(rates).T + np.log1p(-rates).sum(axis=1)
    log_joint += modes.bounds - logsumexp(modes.bounds)
    return log_joint
