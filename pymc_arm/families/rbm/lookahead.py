"""What is assumed of the units that are not in yet.

Given the other layer h, a unit that is still out adds log(1 + e^{a_m + W_m^T h}) to the log-density
in which it is summed out. That is convex in h, so every tangent lies below it:

    log(1 + e^{a_m + W_m^T h})  >=  a_m mu_m + H(mu_m) + mu_m W_m^T h,

with mu_m the rate at which the unit is on where they touch, and H the binary entropy. The right
side is linear in h, so it only shifts the biases of the other layer, and the path with it is as
cheap as the plain one, which is mu = 0.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import entr, expit

from pymc_arm.families.rbm.machine import Machine

__all__ = ["Tangents", "base_rates", "mean_field_rates", "tangents"]

MEAN_FIELD_SWEEPS = 200


class Forest(NamedTuple):
    """Of each unit, in path order, its parent (-1: none) and its rates if that is off or on."""

    parents: np.ndarray
    rates: np.ndarray


class Grown(NamedTuple):
    """Units together with all that hang from them: weights and biases summed over the tree."""

    weights: np.ndarray
    biases: np.ndarray
    #: What a unit's tree adds to the log-density while it is out, if its parent is off or on.
    gains: np.ndarray
    #: The part of a unit's weights that its parent has while it is out.
    bonds: np.ndarray
    constants: np.ndarray


def plant(lookahead, machine, data, order) -> Forest:
    if isinstance(lookahead, str) and lookahead == "tree":
        return tree(data[:, order])
    rates = base_rates(lookahead, machine, data)[order]
    return Forest(np.full(len(order), -1), np.column_stack([rates, rates]))


def tree(data: np.ndarray) -> Forest:
    data = data[:20000].astype(np.float32)
    units = data.shape[1]
    mean = data.mean(axis=0)
    joint = data.T @ data / len(data)
    sd = np.sqrt(mean * (1 - mean))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.nan_to_num((joint - np.outer(mean, mean)) / np.outer(sd, sd))
    strength = np.tril(correlation**2, -1)
    parents = strength.argmax(axis=1)
    parents[strength.max(axis=1) <= 0] = -1
    rates = np.column_stack([mean, mean]).astype(float)
    children = np.flatnonzero(parents >= 0)
    p = parents[children]
    prior = 1 / len(data)
    rates[children, 1] = (joint[children, p] + prior * mean[children]) / (mean[p] + prior)
    rates[children, 0] = (mean[children] - joint[children, p] + prior * mean[children]) / (
        1 - mean[p] + prior
    )
    return Forest(parents, np.clip(rates, 0, 1))


def grow(forest: Forest, weights: np.ndarray, biases: np.ndarray) -> Grown:
    """Sum weights and biases over each unit's tree, from the leaves to the roots."""
    weights, biases = weights.copy(), biases.copy()
    rates = forest.rates
    entropies = entr(rates) + entr(1 - rates)
    gains = np.empty_like(rates)
    bonds = np.zeros_like(weights)
    for unit in range(len(biases) - 1, -1, -1):
        parent = forest.parents[unit]
        gains[unit] = rates[unit] * biases[unit] + entropies[unit]
        if parent >= 0:
            bonds[unit] = (rates[unit, 1] - rates[unit, 0]) * weights[unit]
            weights[parent] += bonds[unit]
            biases[parent] += gains[unit, 1] - gains[unit, 0]
    return Grown(weights, biases, gains, bonds, gains[:, 0])


def spread_order(data: np.ndarray) -> np.ndarray:
    data = data[:20000].astype(np.float32)
    variance = data.var(axis=0)
    centred = data - data.mean(axis=0)
    covariance = centred.T @ centred / len(data)
    with np.errstate(invalid="ignore", divide="ignore"):
        explained = np.nan_to_num(covariance**2 / variance)  # [m, i]: variance of m explained by i
    residual = variance.copy()
    order = []
    left = np.ones(len(variance), dtype=bool)
    for _ in range(len(variance)):
        unit = int(np.argmax(np.where(left, residual, -1)))
        order.append(unit)
        left[unit] = False
        residual = np.minimum(residual, variance - explained[:, unit])
    return np.array(order)


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
