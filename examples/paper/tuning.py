"""What has to be tuned: the step size of HMC and RMHMC, and the threshold and rounds of ARM.

    python -m examples.paper.tuning --quick
    python -m examples.paper.tuning --setting reduced

Left, how often proposals at beta = 1 are accepted, from draws of EP's q(x) that a few careful
proposals have moved on. Right, standard deviation and time of log Z by ARM on the paper's path, for
several thresholds and largest numbers of rounds; the table says how many steps ran to that number,
and how far gamma came in them. RM and ARM on the package's own path are beside them.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.baselines import GPCAnnealing
from examples.paper.common import Row, parse, print_header, print_row, repeat, save
from examples.paper.gpc_time_accuracy import ARM, RM
from examples.paper.problems import Classifier, small_classifier, usps
from pymc_arm import Run, TrustWarning, run
from pymc_arm.families.gpc import GPCPath

STEP_SIZES = {"hmc": (0.01, 0.02, 0.05, 0.1, 0.2, 0.5), "rmhmc": (0.01, 0.03, 0.05, 0.1, 0.2, 0.5)}
PAPER_STEPS = {"hmc": 0.02, "rmhmc": 0.1}
THRESHOLDS = (0.5, 0.7, 0.9)
ROUNDS = (3, 10, 50)


@dataclass(frozen=True)
class Setting:
    """How much to run, on which problem."""

    problem: Classifier
    chains: int
    proposals: int
    particles: tuple[int, ...]
    runs: int


SETTINGS = {
    "quick": lambda: Setting(small_classifier(), 10, 2, (50,), 4),
    "reduced": lambda: Setting(usps(50), 20, 10, (100, 1000), 20),
    "full": lambda: Setting(usps(), 20, 10, (100, 1000), 40),
}


def acceptances(setting: Setting, kernel: str, seed: int) -> Iterator[tuple[float, float]]:
    """Yield step sizes with the mean acceptance of proposals at beta = 1."""
    problem = setting.problem
    covariance = problem.covariance()
    for step_size in STEP_SIZES[kernel]:
        rng = np.random.default_rng(seed)
        careful, tried = (
            GPCAnnealing(covariance, problem.labels, base="ep", kernel=kernel, step_size=size)
            for size in (STEP_SIZES[kernel][0], step_size)
        )
        points, _ = careful.draw_base(rng, setting.chains)
        for _ in range(setting.proposals):
            points = careful.transition(rng, 1.0, points).particles
        rates = []
        for _ in range(setting.proposals):
            points, rate, *_ = tried.transition(rng, 1.0, points)
            rates.append(rate)
        yield step_size, float(np.mean(rates))


def arm_rows(setting: Setting, seed: int) -> Iterator[Row]:
    """Run RM, and ARM with each threshold and number of rounds, on the paper's path and on ours."""
    covariance, labels = setting.problem.covariance(), setting.problem.labels
    plain = GPCPath(
        covariance, labels, lookahead=None, kernel="slice", order="random", random_seed=seed
    )
    default = GPCPath(covariance, labels, lookahead=None)
    for path in (plain, default):
        run(path, np.random.default_rng(0), 10, **RM)
    methods: list[tuple[str, str, GPCPath, dict[str, Any]]] = [
        ("RM", "", plain, RM),
        *(
            (
                "ARM",
                f", {threshold}, {rounds}",
                plain,
                {**ARM, "threshold": threshold, "max_rounds": rounds},
            )
            for threshold in THRESHOLDS
            for rounds in ROUNDS
        ),
        ("RM, package path", "", default, RM),
        ("ARM, package path", "", default, {}),
    ]
    for particles in setting.particles:
        for name, label, path, options in methods:
            found: list[Run] = []

            def estimate(rng, path=path, particles=particles, options=options, found=found):
                found.append(run(path, rng, particles, **options))
                return found[-1].log_evidence

            values, seconds = repeat(estimate, setting.runs, seed)
            yield Row.of(name, f"R = {particles}{label}", values, seconds)
            if "max_rounds" in options:
                print(f"{'':24s} {_rounds(found, particles, options['max_rounds'])}")


def _rounds(runs: Sequence[Run], particles: int, most: int) -> str:
    """Say how many particles steps took, and what the longest generate loops came to."""
    steps = [info for found in runs for info in found.history]
    last = [info for info in steps if info.rounds >= most]
    text = f"average R_n = {np.mean([info.particles for info in steps]) / particles:.2f} R"
    if last:
        share = sum(info.rounds for info in last) / sum(info.rounds for info in steps)
        first, final = (
            np.mean([getattr(info, name) for info in last])
            for name in ("first_effective_fraction", "effective_fraction")
        )
        text += (
            f"; {len(last) / len(steps):.1%} of the steps take all {most} rounds, and {share:.0%} "
            f"of all rounds; gamma there is {first:.2f} at first, {final:.2f} in the end"
        )
    return text


def draw(accepted: dict[str, list[tuple[float, float]]], rows: Sequence[Row], name: str) -> Any:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for kernel, points in accepted.items():
        sizes, rates = zip(*points, strict=True)
        line = left.plot(sizes, rates, marker="o", label=f"{kernel.upper()}")[0]
        left.axvline(
            PAPER_STEPS[kernel],
            color=line.get_color(),
            linestyle=":",
            label=f"the paper's step of {kernel.upper()}",
        )
    left.set(
        xscale="log",
        xlabel="step size",
        ylabel="mean acceptance at $\\beta = 1$",
        ylim=(-0.03, 1.03),
        title=name,
    )
    left.legend(fontsize=8)
    for method, marker in (
        ("ARM", "o"),
        ("RM", "s"),
        ("ARM, package path", "p"),
        ("RM, package path", "D"),
    ):
        chosen = [row for row in rows if row.method == method]
        label = f"{method}: nine settings" if method == "ARM" else method
        right.plot(
            [row.seconds for row in chosen],
            [row.deviation for row in chosen],
            linestyle="none",
            marker=marker,
            alpha=0.7,
            label=label,
        )
    right.set(
        xscale="log",
        yscale="log",
        xlabel="processor seconds for one estimate",
        ylabel="standard deviation of log $\\hat{Z}$ (nats)",
        title=f"R = {', '.join(dict.fromkeys(row.setting.split(',')[0][4:] for row in rows))}",
    )
    right.legend(fontsize=8)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(__doc__, arguments)
    setting = SETTINGS[options.setting]()
    accepted = {kernel: list(acceptances(setting, kernel, options.seed)) for kernel in STEP_SIZES}
    for kernel, points in accepted.items():
        text = ", ".join(f"{size}: {rate:.2f}" for size, rate in points)
        print(f"{kernel.upper()}, acceptance by step size: {text}", flush=True)
    print_header(f"{setting.problem.name}: true log Z = {setting.problem.log_evidence}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrustWarning)
        rows = [print_row(row) for row in arm_rows(setting, options.seed)]
    save(draw(accepted, rows, setting.problem.name), options.output / "tuning.png")


if __name__ == "__main__":
    main()
