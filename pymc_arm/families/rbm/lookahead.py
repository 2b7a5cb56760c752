"""What is assumed of the units that are not in yet.

Given the other layer h, a unit that is still out adds log(1 + e^{a_m + W_m^T h}) to the log-density
in which it is summed out. That is convex in h, so every tangent lies below it:

    log(1 + e^{a_m + W_m^T h})  >=  a_m mu_m + H(mu_m) + mu_m W_m^T h,

with mu_m the rate at which the unit is on where they touch, and H the binary entropy. The right
side is linear in h, so it only shifts the biases of the other layer, and the path with it is as
cheap as the plain one, which is mu = 0.

The mean rate of a unit is too much of a good thing: it makes every particle expect the average of
all digits. On two machines of 784 x 500 units that were trained on digits, the variance of the
weights was smallest at a fifth to two fifths of the mean rates; small machines like all of them.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import entr, expit

from pymc_arm.families.rbm.machine import Machine

__all__ = ["Tangents", "base_rates", "mean_field_rates", "tangents"]

MEAN_FIELD_SWEEPS = 200


class Tangents(NamedTuple):
    """Of each unit the constant a mu + H(mu), and the slope mu W in every unit across."""

    constants: np.ndarray
    slopes: np.ndarray


def tangents(rates: np.ndarray, machine: Machine) -> Tangents:
    """Return the tangents at given rates."""
    entropies = entr(rates) + entr(1 - rates)
    return Tangents(machine.a * rates + entropies, rates[:, None] * machine.W)


def base_rates(
    lookahead: str | np.ndarray | None,
    machine: Machine,
    data: np.ndarray | None,
    strength: float = 1.0,
) -> np.ndarray:
    """Return mu, the rates at which units that are still out are assumed to be on.

    ``strength`` multiplies rates that are found here, and not those that were given.
    """
    if not 0 <= strength <= 1:
        raise ValueError(f"strength={strength} must be between 0 (no look-ahead) and 1.")
    units = machine.visible_units
    if lookahead is None:
        return np.zeros(units)
    if isinstance(lookahead, str):
        if lookahead == "mean-field":
            return strength * mean_field_rates(machine)
        if lookahead == "data":
            if data is None:
                raise ValueError(
                    'lookahead="data" takes base rates from training data: give data=..., or '
                    'choose "mean-field" or None.'
                )
            rates: np.ndarray = strength * np.mean(data, axis=0, dtype=float)
            return rates
        raise ValueError(
            f'lookahead={lookahead!r} is not one of None, "data", "mean-field", or an array of '
            "base rates."
        )
    rates = np.asarray(lookahead, dtype=float)
    if rates.shape != (units,) or not np.all((rates >= 0) & (rates <= 1)):
        raise ValueError(
            f"lookahead must hold a rate between 0 and 1 for each of the {units} units of the "
            f"layer; its shape is {rates.shape}."
        )
    return rates


def mean_field_rates(machine: Machine) -> np.ndarray:
    """Return the visible rates of the mean-field approximation of a machine.

    The fixed point mu = sigmoid(a + W sigmoid(b + W^T mu)) is approached from mu = 1/2 by averaging
    each update with the last, which damps oscillations.
    """
    rates = np.full(machine.visible_units, 0.5)
    for _ in range(MEAN_FIELD_SWEEPS):
        hidden = expit(machine.b + rates @ machine.W)
        rates = 0.5 * (rates + expit(machine.a + machine.W @ hidden))
    return rates
