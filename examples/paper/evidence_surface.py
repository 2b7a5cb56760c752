"""log Z over (log l, log sigma), as Kuss and Rasmussen draw it, by ARM and by EP.

python -m examples.paper.evidence_surface --quick
python -m examples.paper.evidence_surface --setting reduced
python -m examples.paper.evidence_surface --setting full
"""

import time
import warnings
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.baselines import ep
from examples.paper.common import parse, save
from examples.paper.problems import small_classifier, usps
from pymc_arm import TrustWarning, run
from pymc_arm.algorithm.resampling import log_mean_exp
from pymc_arm.families.gpc import GPCPath


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(__doc__, arguments)
    quick = options.setting == "quick"
    problem = {"quick": small_classifier, "reduced": lambda: usps(50), "full": usps}[
        options.setting
    ]()
    cells, particles, runs = {
        "quick": (4, 200, 4),
        "reduced": (9, 100, 4),
        "full": (21, 1000, 10),
    }[options.setting]
    lengths = np.linspace(0.5, 3.0, cells) if quick else np.linspace(2.0, 5.0, cells)
    amplitudes = np.linspace(0.0, 3.0, cells) if quick else np.linspace(0.0, 5.1, cells)
    surfaces = {name: np.empty((cells, cells)) for name in ("ARM", "EP", "EP2")}
    spread = np.empty((cells, cells))
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrustWarning)
        for row, amplitude in enumerate(amplitudes):
            for column, length in enumerate(lengths):
                covariance = problem.covariance(length, amplitude)
                path = GPCPath(
                    covariance, problem.labels, lookahead=None, order="random", random_seed=0
                )
                estimates = [
                    run(
                        path,
                        np.random.default_rng([options.seed, row, column, number]),
                        particles,
                        max_rounds=50,
                        resample_threshold=0.9,
                    ).log_evidence
                    for number in range(runs)
                ]
                surfaces["ARM"][row, column] = log_mean_exp(np.array(estimates))
                spread[row, column] = np.std(estimates, ddof=1)
                found = ep(covariance, problem.labels, draws=1, chains=1).attrs
                surfaces["EP"][row, column] = found["ep_log_marginal_likelihood"]
                surfaces["EP2"][row, column] = found["log_marginal_likelihood"]
    seconds = time.process_time() - started
    arm, approximate, corrected = surfaces.values()
    print(
        f"{problem.name}: {cells} x {cells} cells, R = {particles}, {runs} runs, "
        f"{seconds:.0f} processor seconds"
    )
    print("log l   log sigma       ARM   sd of a run        EP   EP, second order")
    for row, amplitude in enumerate(amplitudes):
        for column, length in enumerate(lengths):
            print(
                f"{length:5.2f} {amplitude:11.2f} {arm[row, column]:9.2f} "
                f"{spread[row, column]:13.3f} {approximate[row, column]:9.2f} "
                f"{corrected[row, column]:18.2f}"
            )
    best = np.unravel_index(np.argmax(arm), arm.shape)
    worst = np.unravel_index(np.argmax(spread), spread.shape)
    print(f"best: log l = {lengths[best[1]]:.2f}, log sigma = {amplitudes[best[0]]:.2f}")
    print(f"largest sd: log l = {lengths[worst[1]]:.2f}, log sigma = {amplitudes[worst[0]]:.2f}")
    print(f"largest |ARM - EP, second order|: {np.abs(arm - corrected).max():.2f}")

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    drawn = left.contourf(lengths, amplitudes, arm, 20, cmap="viridis")
    lines = left.contour(
        lengths, amplitudes, arm, 8, colors="white", linewidths=0.8, linestyles="solid"
    )
    left.clabel(lines, fmt="%.0f", fontsize=7)
    figure.colorbar(drawn, ax=left, label="log Z (nats)")
    left.set_title(f"{problem.name}: log Z by ARM, R = {particles}", fontsize=10)
    difference = arm - approximate
    limit = np.abs(difference).max()
    panels = [
        (middle, difference, "ARM minus EP (nats)", "RdBu", {"vmin": -limit, "vmax": limit}),
        (right, spread, "standard deviation of one ARM run (nats)", "magma", {}),
    ]
    for axis, values, label, colors, limits in panels:
        shown = axis.pcolormesh(lengths, amplitudes, values, cmap=colors, **limits)
        figure.colorbar(shown, ax=axis, label=label)
    for axis in (left, middle, right):
        axis.set(xlabel="log length scale, log $\\ell$", ylabel="log amplitude, log $\\sigma$")
    middle.set_title("ARM against EP", fontsize=10)
    right.set_title("where it is hard", fontsize=10)
    save(figure, options.output / "evidence_surface.png")


if __name__ == "__main__":
    main()
