"""One iteration of Resample-Move, with the particles as bars: the paper's first figure.

    python -m examples.paper.illustration --quick

p_1 is a mixture of two Gaussians in x_1, and p_2 adds x_2 with a label that prefers one side:
f_2(x_1, x_2) = f_1(x_1) N(x_2; x_1, 1) Phi(2 x_2 - 1).
"""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import ndtr

from examples.paper.common import parse, save
from pymc_arm.algorithm.resampling import residual

MEANS, SCALES, SHARES = np.array([-1.5, 1.2]), np.array([0.6, 0.8]), np.array([0.45, 0.55])
GRID = np.linspace(-4, 4, 401)


def first(x: np.ndarray) -> np.ndarray:
    """Return p_1(x_1)."""
    z = (np.asarray(x)[..., None] - MEANS) / SCALES
    return (SHARES * np.exp(-0.5 * z**2) / (SCALES * np.sqrt(2 * np.pi))).sum(axis=-1)


def ratio(x: np.ndarray) -> np.ndarray:
    """Return W(x_1): the integral of N(x_2; x_1, 1) Phi(2 x_2 - 1) over x_2."""
    return ndtr((2 * x - 1) / np.sqrt(5))


def move(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Take a few Metropolis steps that leave p_1 invariant."""
    for _ in range(10):
        proposal = x + rng.normal(size=x.shape)
        x = np.where(rng.random(len(x)) < first(proposal) / first(x), proposal, x)
    return x


def augment(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Draw x_2 given x_1 by rejection."""
    new = np.full(len(x), np.nan)
    while np.isnan(new).any():
        proposal = rng.normal(x, 1)
        accepted = np.isnan(new) & (rng.random(len(x)) < ndtr(2 * proposal - 1))
        new[accepted] = proposal[accepted]
    return new


def draw_bars(axis: plt.Axes, x: np.ndarray, weights: np.ndarray, density: np.ndarray) -> None:
    axis.plot(GRID, density, color="0.4", label="target density")
    # Copies of one particle stand side by side.
    copies = np.array([(x[:index] == x[index]).sum() for index in range(len(x))])
    x = x + 0.25 * copies
    axis.vlines(x, 0, weights, color="C0", linewidth=3, label="particles, height = weight")
    axis.plot(x, np.zeros_like(x), "o", color="C0", clip_on=False)
    axis.set(xlim=(-4, 4), ylim=(0, 0.75), xlabel="$x_1$", ylabel="density, weight")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(__doc__, arguments)
    rng = np.random.default_rng(options.seed)
    start = np.array([-1.9, -0.6, 0.7, 2.0])
    weights = first(start) / first(start).sum()
    moved = move(rng, start)
    smoothed = weights * ratio(moved)
    evidence = smoothed.sum()
    smoothed = smoothed / evidence
    chosen = residual(rng, np.log(smoothed), len(moved))
    resampled = moved[chosen]
    added = augment(rng, resampled)
    width = GRID[1] - GRID[0]
    marginal = first(GRID) * ratio(GRID)
    exact = float(marginal.sum() * width)
    marginal /= exact

    figure, axes = plt.subplots(2, 3, figsize=(10.5, 5.6), layout="constrained")
    panels = [
        ("1. start: targets $p_1(x_1)$", start, weights, first(GRID)),
        ("2. move: still targets $p_1(x_1)$", moved, weights, first(GRID)),
        ("3. smooth: targets $p_2(x_1)$", moved, smoothed, marginal),
        ("4. resample: equal weights", resampled, np.full(4, 0.25), marginal),
    ]
    for axis, (title, x, heights, density) in zip(axes.flat, panels, strict=False):
        draw_bars(axis, x, heights, density)
        axis.set_title(title, fontsize=10)
    axes[0, 0].legend(fontsize=8, loc="upper left")
    joint = axes.flat[4]
    across, up = np.meshgrid(GRID, GRID)
    density = first(across) * np.exp(-0.5 * (up - across) ** 2) * ndtr(2 * up - 1)
    joint.contour(across, up, density, levels=6, colors="0.6", linewidths=0.8)
    joint.plot(resampled, added, "o", color="C0")
    joint.set(xlabel="$x_1$", ylabel="$x_2$", xlim=(-4, 4), ylim=(-4, 4))
    joint.set_title("5. augment: targets $p_2(x_1, x_2)$", fontsize=10)
    for particle, value in zip(resampled, added, strict=True):
        joint.annotate(
            "",
            (particle, value),
            (particle, -4),
            arrowprops={"arrowstyle": "->", "color": "C0", "alpha": 0.5},
        )
    axes.flat[5].axis("off")
    table = [
        [f"{a:.2f}", f"{b:.2f}", f"{c:.2f}"]
        for a, b, c in zip(moved, weights, smoothed, strict=True)
    ]
    drawn = axes.flat[5].table(
        table, colLabels=["$x_1$, moved", "$w_1$", "$w_2$"], loc="center", cellLoc="center"
    )
    drawn.scale(1, 1.4)
    axes.flat[5].set_title(
        f"$Z_2 / Z_1$ from four particles: {evidence:.2f}; exact: {exact:.2f}", fontsize=10
    )
    print("x_1 moved   w_1    w_2    copies")
    for index, (place, before, after) in enumerate(zip(moved, weights, smoothed, strict=True)):
        print(f"{place:9.2f} {before:6.2f} {after:6.2f} {int((chosen == index).sum()):6d}")
    print(f"Z_2 / Z_1: {evidence:.3f} from four particles, exactly {exact:.3f}")
    save(figure, options.output / "illustration.png")


if __name__ == "__main__":
    main()
