"""Random draws that PyTensor leaves to SciPy, and SciPy to NumPy, taken from NumPy at once.

``scipy.stats`` takes longer to import than a small model to run. The draws are the same.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.tensor.random.basic import (
    BernoulliRV,
    CauchyRV,
    HalfNormalRV,
    NegBinomialRV,
    StudentTRV,
)

__all__ = ["draw_function"]

Size = tuple[int, ...]


def _bernoulli(rng: np.random.Generator, probability: np.ndarray, size: Size) -> np.ndarray:
    return rng.binomial(1, probability, size)


def _cauchy(
    rng: np.random.Generator, location: np.ndarray, scale: np.ndarray, size: Size
) -> np.ndarray:
    level = rng.uniform(size=size)
    draws: np.ndarray = -1 / np.tan(np.pi * np.where(level > 0.5, level - 1, level))
    return draws * scale + location


def _half_normal(
    rng: np.random.Generator, location: np.ndarray, scale: np.ndarray, size: Size
) -> np.ndarray:
    return np.abs(rng.standard_normal(size)) * scale + location


def _negative_binomial(
    rng: np.random.Generator, number: np.ndarray, probability: np.ndarray, size: Size
) -> np.ndarray:
    return rng.negative_binomial(number, probability, size)


def _student(
    rng: np.random.Generator,
    freedom: np.ndarray,
    location: np.ndarray,
    scale: np.ndarray,
    size: Size,
) -> np.ndarray:
    return rng.standard_t(freedom, size) * scale + location


# With the number of the parameter that is a scale, and must not be negative.
_FUNCTIONS: dict[type, tuple[Callable[..., np.ndarray], int | None]] = {
    BernoulliRV: (_bernoulli, None),
    CauchyRV: (_cauchy, 1),
    HalfNormalRV: (_half_normal, 1),
    NegBinomialRV: (_negative_binomial, None),
    StudentTRV: (_student, 2),
}


def draw_function(node: Apply) -> Callable[..., Sequence[Any]] | None:
    """Return what draws a random variable: from its inputs to the next generator and a draw."""
    if type(node.op) not in _FUNCTIONS:
        return None
    function, scale = _FUNCTIONS[type(node.op)]

    def draw(rng: np.random.Generator, size: Any, *parameters: np.ndarray) -> Sequence[Any]:
        if scale is not None and np.any(parameters[scale] < 0):
            raise ValueError(f"{node.op} has a negative scale, {np.min(parameters[scale])}.")
        following = copy.deepcopy(rng)
        shape = np.broadcast_shapes(*(p.shape for p in parameters)) if size is None else tuple(size)
        draws = function(following, *parameters, shape)
        return following, np.asarray(draws, dtype=node.op.dtype)

    return draw
