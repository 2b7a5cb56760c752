"""Mean and standard deviation of log Z against time, for a Gaussian process classifier.

    python -m examples.paper.gpc_time_accuracy --quick
    python -m examples.paper.gpc_time_accuracy --setting reduced
    python -m examples.paper.gpc_time_accuracy --setting full

One estimate of ARM, RM or SMC is one run with R particles; one estimate of AIS is one annealing
run. AIS runs many of them in a batch, so that its time for one is that of the batch over its size,
which flatters it: matrix products are shared. Times are those of the processor, all threads
together.
"""

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.baselines import GPCAnnealing, ep, geometric, particles_for
from benchmarks.baselines.smc import NEVER_MOVE
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
from examples.paper.problems import Classifier, small_classifier, usps
from pymc_arm import TrustWarning, run
from pymc_arm.families.gpc import GPCPath

# The paper's: residual resampling below 0.9 R, i_max = 50 for ARM, and the letter of Algorithm 2.
RM = {"variant": "rm", "resample_threshold": 0.9}
ARM = {
    "variant": "arm",
    "threshold": 0.7,
    "max_rounds": 50,
    "resample_threshold": 0.9,
    "move": "adaptive",
}
STYLES = {
    "ARM": ("C3", "o", "-"),
    "RM": ("C1", "s", "-"),
    "ARM, package sweeps": ("C6", "p", "-"),
    "ARM, EP look-ahead*": ("C4", "*", "-"),
    "SMC, no moves": ("C5", "x", "-"),
    "AIS HMC from p": ("C7", "v", "--"),
    "AIS HMC from q*": ("C2", "^", "--"),
    "AIS RMHMC from p": ("C0", "D", "--"),
    "AIS RMHMC from q*": ("C9", "d", "--"),
}


@dataclass(frozen=True)
class Annealed:
    """One kind of AIS: its grids, its batch, and the options of its kernel."""

    base: str
    kernel: str
    temperatures: tuple[int, ...]
    batch: int
    smallest: float
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The label of the figure; a star for what is aided by q."""
        return f"AIS {self.kernel.upper()} from {'q*' if self.base == 'ep' else 'p'}"


@dataclass(frozen=True)
class Setting:
    """How much of everything to run, on which problem."""

    problem: Classifier
    particles: tuple[tuple[int, int], ...]
    lookahead: tuple[tuple[int, int], ...]
    smc_runs: int
    annealed: tuple[Annealed, ...]


def make_settings(name: str, problems: Sequence[str]) -> Iterator[Setting]:
    """Yield the settings: in reduced form first a small problem, then all of USPS."""
    if name == "quick":
        hmc, rmhmc = {"step_size": 0.1, "leapfrog_steps": 10}, {"leapfrog_steps": 3}
        yield Setting(
            small_classifier(),
            ((50, 6), (200, 6)),
            ((50, 6),),
            4,
            (
                Annealed("prior", "hmc", (30,), 20, 1e-3, hmc),
                Annealed("ep", "hmc", (10,), 20, 1e-2, hmc),
                Annealed("prior", "rmhmc", (30,), 10, 1e-3, rmhmc),
                Annealed("ep", "rmhmc", (10,), 10, 1e-2, rmhmc),
            ),
        )
        return
    if name == "reduced" and "small" in problems:
        # At n = 100 the posterior is wider than at 767, and steps of 0.1 are not stable.
        rmhmc = {"step_size": 0.05}
        yield Setting(
            usps(50),
            ((100, 40), (1000, 40), (10_000, 6)),
            ((100, 40), (1000, 20)),
            6,
            (
                Annealed("prior", "hmc", (100, 300, 1000), 20, 1e-6),
                Annealed("ep", "hmc", (100, 300, 1000), 20, 1e-3),
                Annealed("prior", "rmhmc", (30, 100, 300), 20, 1e-6, rmhmc),
                Annealed("ep", "rmhmc", (25, 100), 20, 1e-3, rmhmc),
            ),
        )
    if name == "reduced" and "usps" in problems:
        yield Setting(
            usps(),
            ((100, 10), (400, 4), (1000, 10)),
            ((100, 10), (400, 4), (1000, 10)),
            2,
            (
                Annealed("prior", "hmc", (100,), 20, 1e-6),
                Annealed("ep", "hmc", (50, 200), 20, 1e-3),
                Annealed("prior", "rmhmc", (100,), 1, 1e-6),
                Annealed("ep", "rmhmc", (10,), 4, 1e-2),
            ),
        )
    if name == "full":
        yield Setting(
            usps(),
            ((100, 80), (1000, 80), (10_000, 80), (100_000, 80)),
            ((100, 80), (1000, 80), (10_000, 80)),
            80,
            (
                Annealed("prior", "hmc", (1000, 2000, 5000, 10_000), 80, 1e-6),
                Annealed("ep", "hmc", (1000, 2000, 5000, 10_000), 80, 1e-3),
                Annealed("prior", "rmhmc", (500, 1000, 2000), 80, 1e-6),
                Annealed("ep", "rmhmc", (25, 50, 100, 500, 1000, 2000), 80, 1e-3),
            ),
        )


def sequential_rows(setting: Setting, seed: int) -> Iterator[Row]:
    """Run RM and ARM as in the paper, and SMC without moves in ARM's time."""
    covariance, labels = setting.problem.covariance(), setting.problem.labels
    plain = GPCPath(
        covariance, labels, lookahead=None, kernel="slice", order="random", random_seed=seed
    )
    run(plain, np.random.default_rng(0), 10, **RM)
    for particles, runs in setting.particles:
        label = f"R = {particles}"
        for name, options in (("RM", RM), ("ARM", ARM)):
            histories = []

            def estimate(rng, options=options, particles=particles, histories=histories):
                found = run(plain, rng, particles, **options)
                histories.append(np.mean([info.particles for info in found.history]))
                return found.log_evidence

            values, seconds = repeat(estimate, runs, seed)
            yield Row.of(name, label, values, seconds)
            if name == "ARM":
                print(f"{'':24s} average R_n = {np.mean(histories) / particles:.2f} R")
                arm_seconds = seconds
    matched = particles_for(plain, arm_seconds, random_seed=0, most=200_000)
    if matched == 200_000:
        print(f"{'':24s} fewer particles than ARM's time allows: memory")
    values, seconds = repeat(
        lambda rng: run(plain, rng, matched, resample_threshold=0.9, **NEVER_MOVE).log_evidence,
        setting.smc_runs,
        seed,
    )
    yield Row.of("SMC, no moves", f"R = {matched}", values, seconds)


def package_rows(setting: Setting, seed: int) -> Iterator[Row]:
    """Run the sweeps and order of the package on the plain path, and with its look-ahead."""
    covariance, labels = setting.problem.covariance(), setting.problem.labels
    for name, options, sizes in (
        ("ARM, package sweeps", {"lookahead": None}, setting.particles),
        ("ARM, EP look-ahead*", {"lookahead": "ep"}, setting.lookahead),
    ):
        path = GPCPath(covariance, labels, **options)
        run(path, np.random.default_rng(0), 10)
        for particles, runs in sizes:
            values, seconds = repeat(
                lambda rng, path=path, particles=particles: run(path, rng, particles).log_evidence,
                runs,
                seed,
            )
            yield Row.of(name, f"R = {particles}", values, seconds)


def annealed_rows(setting: Setting, seed: int) -> Iterator[Row]:
    """Run AIS: one chain of a batch of runs, each of whose weights is an estimate."""
    covariance, labels = setting.problem.covariance(), setting.problem.labels
    for kind in setting.annealed:
        road = GPCAnnealing(covariance, labels, base=kind.base, kernel=kind.kernel, **kind.options)
        for temperatures in kind.temperatures:
            grid = road.on_grid(geometric(temperatures, kind.smallest))
            started = time.process_time()
            found = run(
                grid,
                np.random.default_rng([seed, temperatures]),
                kind.batch,
                variant="rm",
                resample_threshold=0.0,
            )
            seconds = (time.process_time() - started) / kind.batch
            values = found.log_evidence + found.state.log_weights + np.log(kind.batch)
            acceptance = np.nanmean([info.acceptance_rate for info in found.history[1:]])
            yield Row.of(kind.name, f"B = {temperatures}", values, seconds)
            print(f"{'':24s} acceptance {acceptance:.2f}")


PARTS = {"sequential": sequential_rows, "package": package_rows, "annealed": annealed_rows}


def draw(setting: Setting, rows: Sequence[Row], approximations: tuple[float, float], file) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
    truth = setting.problem.log_evidence
    for method, (color, marker, line) in STYLES.items():
        chosen = sorted((row for row in rows if row.method == method), key=lambda row: row.seconds)
        if not chosen:
            continue
        seconds = [row.seconds for row in chosen]
        style = {"color": color, "marker": marker, "linestyle": line, "label": method}
        left.plot(seconds, [row.log_mean_evidence for row in chosen], **style)
        right.plot(seconds, [row.deviation for row in chosen], **style)
    left.axhline(truth, color="black", linewidth=1, label=f"true log Z, {truth:.2f}")
    left.axhline(approximations[0], color="black", linestyle=":", label="EP")
    left.axhline(approximations[1], color="0.5", linewidth=1, label="EP, second order")
    near = [abs(row.log_mean_evidence - truth) for row in rows if row.method in ("ARM", "RM")]
    reach = max(1.0, 1.3 * max(near, default=0.0))
    left.set(
        xscale="log",
        xlabel="processor seconds for one estimate",
        ylabel="log of the mean of $\\hat{Z}$",
        ylim=(truth - reach, truth + reach),
        title=setting.problem.name,
    )
    outside = sorted({r.method for r in rows if abs(r.log_mean_evidence - truth) > reach})
    if outside:
        left.text(
            0.02,
            0.02,
            "outside the frame at some setting: " + ", ".join(outside),
            transform=left.transAxes,
            fontsize=7,
            wrap=True,
        )
    right.set(
        xscale="log",
        yscale="log",
        xlabel="processor seconds for one estimate",
        ylabel="standard deviation of log $\\hat{Z}$ (nats)",
        title="spread of single estimates",
    )
    right.legend(fontsize=7, title="* aided by EP's q(x)", title_fontsize=7)
    left.legend(
        handles=[h for h in left.get_lines() if h.get_label() not in STYLES],
        fontsize=7,
        loc="upper right",
    )
    save(figure, file)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(
        __doc__,
        arguments,
        parts=list(PARTS),
        problems=("small", "usps"),
        kernels=("hmc", "rmhmc"),
        bases=("prior", "ep"),
        particles=("50", "100", "200", "400", "1000", "10000", "100000"),
    )
    for chosen in make_settings(options.setting, options.problems):
        kinds = tuple(
            kind
            for kind in chosen.annealed
            if kind.kernel in options.kernels and kind.base in options.bases
        )
        sizes, ahead = (
            tuple(pair for pair in pairs if str(pair[0]) in options.particles)
            for pairs in (chosen.particles, chosen.lookahead)
        )
        setting = replace(chosen, annealed=kinds, particles=sizes, lookahead=ahead)
        problem = setting.problem
        size = len(problem.labels)
        file = options.output / f"gpc_time_accuracy_{size}.csv"
        found = ep(problem.covariance(), problem.labels, draws=1).attrs
        approximations = (
            found["ep_log_marginal_likelihood"],
            found["log_marginal_likelihood"],
        )
        print_header(
            f"{problem.name}: true log Z = {problem.log_evidence}, EP {approximations[0]:.4f}, "
            f"second order {approximations[1]:.4f}"
        )
        rows = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrustWarning)
            for part in () if options.redraw else options.parts:
                rows += [print_row(row) for row in PARTS[part](setting, options.seed)]
        if file.exists():
            new = {(row.method, row.setting) for row in rows}
            rows += [row for row in read_rows(file) if (row.method, row.setting) not in new]
        write_rows(file, rows)
        draw(setting, rows, approximations, file.with_suffix(".png"))


if __name__ == "__main__":
    main()
