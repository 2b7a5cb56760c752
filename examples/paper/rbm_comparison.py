"""log Z of two restricted Boltzmann machines against time: RM, ARM and its variants, and AIS.

    python -m examples.paper.rbm_comparison --quick
    python -m examples.paper.rbm_comparison --setting reduced
    python -m examples.paper.rbm_comparison --setting full

The machines are CD25 of Salakhutdinov and Murray (2008), as in the paper, and a PCD machine of
Grosse and Salakhutdinov (2015) that stands in for the paper's, whose weights are not public.
"Package default" is the tempered path of ``pymc_arm.rbm``. Its time leaves out the biases that are
learned before it starts, and that of AIS-MAS the fit of its knots; both are printed.
"""

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.baselines import RBMAnnealing, linear, moment_averages
from examples.paper.common import (
    Row,
    parse,
    print_header,
    print_row,
    read_rows,
    repeat,
    save,
    write_rows,
)
from examples.paper.problems import Trained, small_machine, trained_machine
from pymc_arm import TrustWarning, run
from pymc_arm.families.rbm import RBMPath, tempered_path
from pymc_arm.families.rbm.tempered import TEMPERED_SETTINGS

STYLES = {
    "RM": ("C1", "s"),
    "ARM": ("C3", "o"),
    "ARM-anticipate": ("C4", "*"),
    "ARM-reseed": ("C5", "P"),
    "ARM, package default": ("C6", "p"),
    "AIS-GA": ("C2", "^"),
    "AIS-MAS": ("C0", "D"),
}


@dataclass(frozen=True)
class Setting:
    """How much of everything to run; pairs are (particles or temperatures, runs)."""

    problem: Trained
    particles: tuple[tuple[int, int], ...]
    reseeded: tuple[tuple[int, int], ...]
    transitions: int
    temperatures: tuple[tuple[int, int], ...]
    chains: int
    knots: dict


def make_settings(name: str, machines: Sequence[str]) -> Iterator[Setting]:
    if name == "quick":
        knots = {"knots": 4, "chains": 200, "transitions": 100, "updates": 50}
        yield Setting(
            small_machine(), ((50, 6), (200, 6)), ((50, 3),), 50, ((50, 4), (200, 4)), 50, knots
        )
        return
    for machine in machines:
        problem = trained_machine(machine)
        transitions = 3000 if machine == "PCD" else 1500
        if name == "reduced":
            yield Setting(
                problem,
                ((100, 4),),
                (),
                transitions,
                ((300, 4), (1000, 4)),
                100,
                {"knots": 9, "chains": 200, "transitions": 300, "updates": 100},
            )
        else:
            yield Setting(
                problem,
                ((100, 50), (1000, 50), (10_000, 50)),
                ((100, 50), (1000, 50), (6000 if machine == "PCD" else 10_000, 50)),
                transitions,
                ((1000, 10), (10_000, 10), (100_000, 10)),
                5000,
                {"knots": 9, "chains": 1000, "transitions": 11_000, "updates": 3000},
            )


def sequential_rows(setting: Setting, seed: int) -> Iterator[Row]:
    """Run RM, ARM, ARM-anticipate and ARM-reseed with the paper's t = 10 and i_max."""
    problem = setting.problem
    path = RBMPath(problem.machine, data=problem.data, reseed_transitions=setting.transitions)
    run(path, np.random.default_rng(0), 10, variant="rm")
    methods = [
        ("RM", setting.particles, {"variant": "rm"}),
        ("ARM", setting.particles, {"variant": "arm", "move": "adaptive"}),
        ("ARM-anticipate", setting.particles, {"variant": "anticipate", "move": "adaptive"}),
        (
            "ARM-reseed",
            setting.reseeded,
            {"variant": "reseed", "move": "adaptive", "max_rounds": 2},
        ),
    ]
    for name, sizes, options in methods:
        for particles, runs in sizes:
            values, seconds = repeat(
                lambda rng, options=options, particles=particles: (
                    run(path, rng, particles, **options).log_evidence
                ),
                runs,
                seed,
            )
            yield Row.of(name, f"R = {particles}", values, seconds)


def tempered_rows(setting: Setting, seed: int) -> Iterator[Row]:
    """Run ARM on the package's own path."""
    problem = setting.problem
    started = time.process_time()
    path = tempered_path(problem.machine, problem.data)
    print(f"{'':24s} pilot runs: {time.process_time() - started:.1f} s")
    for particles, runs in setting.particles:
        values, seconds = repeat(
            lambda rng, particles=particles: (
                run(path, rng, particles, **TEMPERED_SETTINGS).log_evidence
            ),
            runs,
            seed,
        )
        yield Row.of("ARM, package default", f"R = {particles}", values, seconds)


def annealed_rows(setting: Setting, seed: int) -> Iterator[Row]:
    """Run AIS on the geometric path and on the spline of averaged moments."""
    problem = setting.problem
    started = time.process_time()
    knots = moment_averages(problem.machine, data=problem.data, random_seed=seed, **setting.knots)
    fitted = time.process_time() - started
    print(f"{'':24s} fit of {len(knots)} knots of the spline: {fitted:.0f} s")
    for name, between in (("AIS-GA", ()), ("AIS-MAS", knots)):
        road = RBMAnnealing(problem.machine, data=problem.data, knots=between)
        for temperatures, runs in setting.temperatures:
            grid = road.on_grid(linear(temperatures))
            values, seconds = repeat(
                lambda rng, grid=grid: (
                    run(
                        grid, rng, setting.chains, variant="rm", resample_threshold=0.0
                    ).log_evidence
                ),
                runs,
                seed,
            )
            yield Row.of(name, f"K = {temperatures}", values, seconds)


def draw(panels: Sequence[tuple[Trained, list[Row]]], file: Path) -> None:
    figure, axes = plt.subplots(
        1, len(panels), figsize=(5.5 * len(panels), 4.6), layout="constrained", squeeze=False
    )
    for axis, (problem, rows) in zip(axes[0], panels, strict=True):
        for method, (color, marker) in STYLES.items():
            chosen = sorted((r for r in rows if r.method == method), key=lambda r: r.seconds)
            if not chosen:
                continue
            axis.errorbar(
                [row.seconds for row in chosen],
                [row.mean for row in chosen],
                [row.deviation for row in chosen],
                color=color,
                marker=marker,
                linestyle="none",
                capsize=3,
                label=method,
            )
        axis.axhspan(
            problem.log_evidence - problem.error,
            problem.log_evidence + problem.error,
            color="0.7",
        )
        axis.axhline(
            problem.log_evidence,
            color="black",
            linewidth=1,
            label=f"reference, {problem.log_evidence:.2f}",
        )
        axis.set(
            xscale="log",
            xlabel="processor seconds for one estimate",
            ylabel="log Z: mean and standard deviation over runs (nats)",
            title=f"{problem.name}, {' x '.join(map(str, problem.machine.W.shape))} units",
        )
        axis.legend(fontsize=7)
    save(figure, file)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(__doc__, arguments, machines=("CD25", "PCD"))
    panels = []
    for setting in make_settings(options.setting, options.machines):
        problem = setting.problem
        print_header(f"{problem.name}: log Z = {problem.log_evidence:.3f} (se {problem.error})")
        file = options.output / f"rbm_{problem.name.replace(' ', '')}.csv"
        if options.redraw:
            panels.append((problem, [print_row(row) for row in read_rows(file)]))
            continue
        rows: list[Row] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrustWarning)
            for make in (sequential_rows, tempered_rows, annealed_rows):
                rows += [print_row(row) for row in make(setting, options.seed)]
        write_rows(file, rows)
        panels.append((problem, rows))
    draw(panels, options.output / "rbm_comparison.png")


if __name__ == "__main__":
    main()
