"""What is assumed of the visible units that are not in yet."""

from typing import NamedTuple

import numpy as np
from scipy.special import entr, expit

from pymc_arm.families.rbm.machine import Machine

__all__ = ["LookAhead", "look_ahead"]


class LookAhead(NamedTuple):
    """A line c_m + d_m^T h under log(1 + e^{a_m + W_m^T h}), for each visible unit m."""

    gains: np.ndarray
    slopes: np.ndarray


def look_ahead(lookahead, machine, data):
    if isinstance(lookahead, str) and lookahead == "fitted":
        return fitted(machine, data)
    rates = base_rates(lookahead, machine, data)
    return LookAhead(machine.a * rates + entr(rates) + entr(1 - rates), rates[:, None] * machine.W)


def fitted(machine, data, samples=4000, transitions=20, ridge=1.0):
    r = np.random.default_rng(0)
    x = data[r.integers(len(data), size=samples)].astype(float)
    for _ in range(transitions):
        h = (r.random((samples, machine.hidden_units)) < expit(x @ machine.W + machine.b)).astype(
            float
        )
        x = (r.random(x.shape) < expit(h @ machine.W.T + machine.a)).astype(float)
    F = np.logaddexp(0, h @ machine.W.T + machine.a)
    A = np.c_[np.ones(samples), h]
    penalty = ridge * np.eye(A.shape[1])
    penalty[0, 0] = 0
    coef = np.linalg.solve(A.T @ A + penalty, A.T @ F)
    return LookAhead(coef[0], coef[1:].T.copy())


def base_rates(
    lookahead: str | np.ndarray | None, machine: Machine, data: np.ndarray | None
) -> np.ndarray:
    """Return mu, the rates at which units that are still out are assumed to be on."""
    units = machine.visible_units
    if lookahead is None:
        return np.zeros(units)
    if isinstance(lookahead, str):
        if lookahead == "mean-field":
            return mean_field_rates(machine)
        if lookahead == "data":
            if data is None:
                raise ValueError(
                    'lookahead="data" takes base rates from training data: give data=..., or '
                    'choose "mean-field" or None.'
                )
            return np.mean(data, axis=0, dtype=float)
        raise ValueError(
            f'lookahead={lookahead!r} is not one of None, "data", "mean-field", or an array of '
            "base rates."
        )
    rates = np.asarray(lookahead, dtype=float)
    if rates.shape != (units,) or not np.all((rates >= 0) & (rates <= 1)):
        raise ValueError(
            f"lookahead must hold a rate between 0 and 1 for each of the {units} visible units; "
            f"its shape is {rates.shape}."
        )
    return rates


def mean_field_rates(machine: Machine, sweeps: int = 200) -> np.ndarray:
    """Return the visible rates of the mean-field approximation of a machine.

    The fixed point mu = sigmoid(a + W sigmoid(b + W^T mu)) is approached from mu = 1/2 by averaging
    each update with the last, which damps oscillations.
    """
    rates = np.full(machine.visible_units, 0.5)
    for _ in range(sweeps):
        hidden = expit(machine.b + rates @ machine.W)
        rates = 0.5 * (rates + expit(machine.a + machine.W @ hidden))
    return rates
