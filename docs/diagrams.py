"""Three diagrams: an iteration of the algorithm, a whole run, and the architecture."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from scipy import stats

__all__ = ["draw_architecture", "draw_iteration", "draw_run"]

GRID = np.linspace(-3.2, 3.2, 300)
BLUE, ORANGE, GREEN = "#dbe9f6", "#fde3c8", "#ddefdc"


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


def draw_run() -> plt.Figure:
    """Draw what happens in a call of ``sample``, from the model to the verdict."""
    figure, axis = plt.subplots(figsize=(5.8, 6.8), layout="constrained")
    for left, bottom, width, height, color, title, text in STAGES:
        _box(axis, (left, bottom), width, height, color)
        axis.text(left + 0.2, bottom + height - 0.16, title, va="top", weight="bold", fontsize=9)
        axis.text(left + 0.2, bottom + height - 0.58, text, va="top", fontsize=7.5)
    for place, top in ((5, 11.1), (2, 9.3), (8, 9.3), (2, 5.6), (8, 5.6), (5, 3.7), (5, 1.8)):
        _arrow(axis, (place, top), (place, top - 0.4))
    steps = np.linspace(0, 1, 5)
    _ladder(axis, (0.3, 5.75), [2.4 - 1.9 * step for step in steps], [1.2 * step for step in steps])
    _ladder(axis, (6.3, 5.75), [0.75, 0.62, 0.5], [0.9, 1.1, 1.2])
    _arrow(axis, (6, 7.6), (4, 7.6), "C3")
    axis.text(5, 7.7, "guard", ha="center", color="C3", fontsize=9, weight="bold")
    text = "a small run from\nthe prior finds\nmore: start there"
    axis.text(5, 7.45, text, ha="center", va="top", color="C3", fontsize=7)
    _ladder(axis, (6.3, 3.85), [0.62, 0.5], [1.0, 1.2])
    axis.plot(
        6.3 + 0.53 * (np.array([0.4, 0.9, 1.2, 1.3, 1.8]) + 3.2), np.full(5, 3.85), "k|", ms=7
    )
    _ladder(axis, (6.3, 1.95), [0.5], [1.2])
    axis.plot(
        6.3 + 0.53 * (GRID + 3.2), 1.95 + 0.5 * stats.norm.pdf(GRID, -1.8, 0.4), "C3:", lw=1.2
    )
    axis.text(7.0, 2.55, "?", color="C3", ha="center", fontsize=9)
    _arrow(axis, (9.2, 3.3), (9.2, 3.7), "C3")
    axis.text(
        9.1, 3.5, "found: it becomes a part of q", ha="right", va="center", color="C3", fontsize=7
    )
    result = "log Z = -137.14 ± 0.01\nok"
    axis.text(9.8, 0.7, result, ha="right", va="center", fontsize=9, family="monospace")
    axis.set_xlim(-0.1, 10.1)
    axis.set_ylim(-0.1, 12.1)
    axis.axis("off")
    return figure


# Left, bottom, width, height, color, title and text of each box of a run.
STAGES = (
    (0, 11.1, 10, 0.95, "white", "your PyMC model", "pymc_arm.sample(model)"),
    (
        *(0, 9.3, 10, 1.4, BLUE, "1  make it smaller"),
        "discrete variables are summed, and groups of variables that are\n"
        "independent given the rest are integrated, where sums are exact enough",
    ),
    (
        *(0, 5.6, 4, 3.3, BLUE, "2a  start at the prior"),
        "data come in step by step;\nparticles move, and more\nare made where few are left",
    ),
    (
        *(6, 5.6, 4, 3.3, BLUE, "2b  start at a fit"),
        "q is fitted to the posterior by\nits gradient; a few steps lead\nfrom q to the posterior",
    ),
    (
        *(0, 3.7, 10, 1.5, ORANGE, "3  bridge"),
        "q, fitted to the particles of other chains,\nand the posterior are compared from both\n"
        "sides: that gives log Z and its error",
    ),
    (
        *(0, 1.8, 10, 1.5, BLUE, "4  search for modes"),
        "climbs and trajectories from prior draws:\nis there a mode without particles?",
    ),
    (
        *(0, 0, 10, 1.4, GREEN, "5  verdict"),
        "ok, caution or failed, and why: chains,\nsteps, bridge, modes and draws must agree",
    ),
)


def _ladder(
    axis: Axes, corner: tuple[float, float], widths: list[float], places: list[float]
) -> None:
    """Draw the densities that particles go through, from pale to strong; the last is the target."""
    left, bottom = corner
    for number, (width, place) in enumerate(zip(widths, places, strict=True), 1):
        curve = bottom + 1.2 * stats.norm.pdf(GRID, place, width)
        color = "C0" if number == len(widths) else "C1"
        strength = 0.25 + 0.75 * number / len(widths)
        axis.plot(left + 0.53 * (GRID + 3.2), curve, color=color, alpha=strength, lw=1.2)


def _box(axis: Axes, corner: tuple[float, float], width: float, height: float, color: str) -> None:
    box = FancyBboxPatch(
        corner,
        width,
        height,
        boxstyle="round,pad=0,rounding_size=0.08",
        facecolor=color,
        edgecolor="0.4",
    )
    axis.add_patch(box)


def _arrow(
    axis: Axes, start: tuple[float, float], end: tuple[float, float], color: str = "0.3"
) -> None:
    axis.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": color})


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
            corner = (place * width + 0.06, bottom)
            _box(axis, corner, width - 0.12, 0.52, BLUE if level != 3 else ORANGE)
            center = (place + 0.5) * width
            axis.text(center, bottom + 0.26, part, ha="center", va="center", fontsize=7.5)
        if level < len(LAYERS) - 1:
            # Users' functions call downwards; paths implement the abstraction above them.
            ends = ((4, bottom - 0.46), (4, bottom - 0.02))
            start, end = ends if level == 3 else ends[::-1]
            _arrow(axis, start, end)
    axis.set_xlim(0, 8)
    axis.set_ylim(0.95, len(LAYERS) + 0.85)
    axis.axis("off")
    return figure
