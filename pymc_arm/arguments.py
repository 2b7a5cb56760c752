"""Checks of arguments that many functions share: each error names the argument and its value."""

from typing import Any

import numpy as np

__all__ = ["check_choice", "check_count"]


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Raise if a number is not whole, or smaller than ``least``.

    Examples
    --------
    >>> from pymc_arm.arguments import check_count
    >>> check_count("draws", 2.5)
    Traceback (most recent call last):
    ValueError: draws=2.5 must be a whole number, 1 or more.
    """
    if not isinstance(value, int | float | np.number) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be a whole number, {least} or more.")
    if not np.isfinite(value) or value != int(value) or value < least:
        raise ValueError(f"{name}={value} must be a whole number, {least} or more.")


def check_choice(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """Raise if an option is not one of its choices.

    Examples
    --------
    >>> from pymc_arm.arguments import check_choice
    >>> check_choice("move", "never", ("always", "adaptive"))
    Traceback (most recent call last):
    ValueError: move='never' is not one of ('always', 'adaptive').
    """
    if value not in allowed:
        raise ValueError(f"{name}={value!r} is not one of {allowed}.")
