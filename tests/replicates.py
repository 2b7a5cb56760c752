"""Repetitions: many cheap runs of one path against its exact Z, and of tests over parameters."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from pymc_arm import run


def log_evidences(
    path: Any, replicates: int, particles: int, seed: int, **options: Any
) -> np.ndarray:
    """Return log Z-hat of independent runs."""
    generators = np.random.default_rng(seed).spawn(replicates)
    return np.array([run(path, rng, particles, **options).log_evidence for rng in generators])


def evidence_ratios(
    path: Any, replicates: int, particles: int, seed: int, **options: Any
) -> np.ndarray:
    """Return Z-hat / Z of independent runs; their expectation is one if Z-hat is unbiased."""
    estimates = log_evidences(path, replicates, particles, seed, **options)
    return np.exp(estimates - path.exact_log_evidence)


def standard_error(values: np.ndarray) -> float:
    """Return the standard error of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def deviation(ratios: np.ndarray) -> float:
    """Return how many standard errors the mean of the ratios is away from one."""
    return abs(float(ratios.mean()) - 1) / standard_error(ratios)


def first_with_every_version(values: Iterable[Any]) -> list[Any]:
    """Return parameters of a test, of which all but the first run with one version of PyMC.

    See ``one_version`` in tests/conftest.py.
    """
    first, *others = values
    return [first, *(pytest.param(value, marks=pytest.mark.one_version) for value in others)]
