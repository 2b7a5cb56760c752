"""What all plots have in common."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["GRAY", "MOST_NAMED_STEPS", "clean", "new_axes", "new_axis"]

# With no more steps than this, each gets its own name on the axis.
MOST_NAMED_STEPS = 24
GRAY = "0.45"


def new_axes(
    rows: int, columns: int, figsize: tuple[float, float], sharex: bool, ratios: Sequence[float]
) -> np.ndarray:
    """Return the axes of a new figure."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(
        rows,
        columns,
        figsize=figsize,
        sharex=sharex,
        layout="constrained",
        gridspec_kw={"height_ratios": ratios},
    )
    return np.atleast_1d(axes)


def new_axis(ax: "Axes | None", figsize: tuple[float, float]) -> "Axes":
    """Return the axis that was given, or that of a new figure, without a frame."""
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=figsize, layout="constrained")
    clean(ax)
    return ax


def clean(axis: "Axes") -> None:
    """Take the frame away, apart from the two axes."""
    axis.spines[["top", "right"]].set_visible(False)
