"""Two diagrams: one iteration of the algorithm, and the architecture of the package."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from scipy import stats

__all__ = ["draw_architecture", "draw_iteration"]

GRID = np.linspace(-3.2, 3.2, 300)


def draw_iteration() -> plt.Figure:
    """Draw one iteration of Resample-Move with four particles, as in the paper's first figure."""
    first = 0.6 * stats.norm.pdf(GRID, -1, 0.7) + 0.4 * stats.norm.pdf(GRID, 1.2, 0.6)
    second = 0.25 * stats.norm.pdf(GRID, -0.8, 0.7) + 0.75 * stats.norm.pdf(GRID, 1.3, 0.5)
    before = np.array([-1.7, -0.7, 0.6, 1.5])
    moved = np.array([-1.2, -0.3, 0.9, 1.7])
    weights = np.array([0.3, 0.25, 0.2, 0.25])
    smoothed = np.array([0.12, 0.10, 0.38, 0.40])
    copies = np.array([2, 2, 3, 3])
    rng = np.random.default_rng(4)
    figure, axes = plt.subplots(3, 2, figsize=(5.8, 7), layout="constrained")
    axes = axes.ravel()
    _panel(axes[0], "weighted particles\ntarget $p_1(x_1)$", first, before, weights)
    _panel(axes[1], "move\nby a kernel that leaves $p_1$ invariant", first, moved, weights)
    for start, end in zip(before, moved, strict=True):
        arrow = {"arrowstyle": "->", "color": "C1"}
        axes[1].annotate("", (end, -0.06), (start, -0.06), arrowprops=arrow)
    title = "smooth\nnew weights target $p_2(x_1)$"
    _panel(axes[2], title, second, moved, smoothed)
    axes[2].plot(GRID, first, color="0.75", linewidth=1, linestyle="--")
    title = "resample\nif the weights are too uneven"
    _panel(axes[3], title, second, moved[copies] + [-0.05, 0.05, -0.05, 0.05], np.full(4, 0.25))
    _plane(axes[4], moved[copies] + [-0.05, 0.05, -0.05, 0.05], None)
    axes[4].set_title("augment\ndraw $x_2$ from $p_2(x_2 | x_1)$", fontsize="medium")
    drawn = 0.6 * moved[copies] + 0.5 * rng.normal(size=4)
    _plane(axes[5], moved[copies] + [-0.05, 0.05, -0.05, 0.05], drawn)
    axes[5].set_title("particles\ntarget $p_2(x_1, x_2)$", fontsize="medium")
    return figure


def _panel(
    axis: Axes, title: str, density: np.ndarray, places: np.ndarray, weights: object
) -> None:
    axis.plot(GRID, density, color="C0", linewidth=1.5)
    axis.vlines(places, 0, weights, color="C1", linewidth=5)
    axis.set_title(title, fontsize="medium")
    axis.set_xlabel("$x_1$")
    axis.set_ylim(-0.1, 0.65)
    axis.set_xlim(-3.2, 3.2)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[["top", "right", "left"]].set_visible(False)


def _plane(axis: Axes, places: np.ndarray, drawn: np.ndarray | None) -> None:
    """Draw p_2(x_1, x_2), and the particles in it or the lines on which they will be."""
    across, up = np.meshgrid(GRID, GRID)
    marginal = 0.25 * stats.norm.pdf(across, -0.8, 0.7) + 0.75 * stats.norm.pdf(across, 1.3, 0.5)
    joint = marginal * stats.norm.pdf(up, 0.6 * across, 0.6)
    axis.contour(across, up, joint, levels=5, colors="C0", linewidths=0.8)
    if drawn is None:
        axis.vlines(places, -3.2, 3.2, color="C1", linewidth=1)
    else:
        axis.plot(places, drawn, "o", color="C1", markersize=7)
    axis.set_xlabel("$x_1$")
    axis.set_ylabel("$x_2$")
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_xlim(-3.2, 3.2)
    axis.set_ylim(-3.2, 3.2)
    axis.spines[["top", "right"]].set_visible(False)


LAYERS = (
    ("what users call", ("sample, plan", "compare, bayes_factor", "evidence_path", "plots")),
    ("running and evidence", ("run, chains", "backends", "refine, bridge", "estimate, verdict")),
    ("the algorithm", ("arm", "generators", "resampling", "allocation")),
    ("the abstraction", ("Path: initialize, move, smooth, augment",)),
    ("paths", ("any PyMC model", "GP classification", "RBM", "plugins")),
)


def draw_architecture() -> plt.Figure:
    """Draw the layers of the package; each uses only what is below it."""
    figure, axis = plt.subplots(figsize=(5.8, 5), layout="constrained")
    for level, (title, parts) in enumerate(LAYERS):
        bottom = len(LAYERS) - level
        axis.text(0.06, bottom + 0.57, title, va="bottom", fontsize="medium")
        width = 8 / len(parts)
        for place, part in enumerate(parts):
            box = FancyBboxPatch(
                (place * width + 0.06, bottom),
                width - 0.12,
                0.52,
                boxstyle="round,pad=0,rounding_size=0.08",
                facecolor="#dbe9f6" if level != 3 else "#fde3c8",
                edgecolor="0.4",
            )
            axis.add_patch(box)
            center = (place + 0.5) * width
            axis.text(center, bottom + 0.26, part, ha="center", va="center", fontsize=7.5)
        if level < len(LAYERS) - 1:
            # Users' functions call downwards; paths implement the abstraction above them.
            ends = ((4, bottom - 0.46), (4, bottom - 0.02))
            start, end = ends if level == 3 else ends[::-1]
            axis.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "0.3"})
    axis.set_xlim(0, 8)
    axis.set_ylim(0.95, len(LAYERS) + 0.85)
    axis.axis("off")
    return figure
