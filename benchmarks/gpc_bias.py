"""Where the bias of ARM's stopping rule comes from in Gaussian process classification.

``gpc-bias`` runs ARM on the first 50 of each class of USPS. A step first looks at the mean weight
m_0 of the particles that it has, and replaces it by another, m, unless they look even. A mean that
nobody looked at is unbiased, so that

    E[Z-hat_{n-1} (m - m_0)] / E[Z-hat_n]

is what the looking adds at step n. Steps are put into groups by one half of the runs, and what they
add is measured on the other half.
"""

import argparse

import numpy as np

from benchmarks.gpc import METHODS, TRUTHS, usps
from pymc_arm import Settings
from pymc_arm.algorithm.arm import initialize, step
from pymc_arm.algorithm.path import Smoothed
from pymc_arm.algorithm.resampling import log_sum_exp
from pymc_arm.families.gpc import GPCPath

__all__ = ["COMMANDS"]

SIZE = 50


class RecordingPath(GPCPath):
    """A path that keeps the weights W of every set of particles that is smoothed."""

    def smooth(self, rng: np.random.Generator, n: int, particles: np.ndarray) -> Smoothed:
        smoothed = super().smooth(rng, n, particles)
        self.seen.append(smoothed.log_ratio)
        return smoothed


def trace(path: RecordingPath, rng: np.random.Generator, particles: int) -> np.ndarray:
    """Return, for each step of a run, log Z-hat before it, log m_0, log m, gamma_0 and rounds."""
    settings = Settings.of(METHODS["arm"][1])
    path.seen = []
    state = initialize(path, rng, particles)
    rows = []
    while not path.finished(state.position):
        path.seen = []
        before = state
        state, info = step(path, rng, before, settings)
        first = log_sum_exp(path.seen[0] + before.log_weights)
        rows.append(
            (
                before.log_evidence,
                first,
                info.log_increment,
                info.first_effective_fraction,
                info.rounds,
            )
        )
    return np.array(rows)


def with_error(values: np.ndarray) -> str:
    return f"{values.mean():+.4f} ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"


def main_bias(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpc-bias", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--particles", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    covariance, labels = usps(SIZE)
    path = RecordingPath(covariance, labels, threads=1)
    traces = np.array(
        [
            trace(path, np.random.default_rng([options.seed, index]), options.particles)
            for index in range(options.runs)
        ]
    )
    before, first, used, fraction, rounds = traces.transpose(2, 0, 1)
    ratios = np.exp(before[:, -1] + used[:, -1] - TRUTHS[SIZE][0])
    print(f"n = {len(labels)}, R = {options.particles}, {options.runs} runs")
    print(f"Z-hat / Z - 1: {with_error(ratios - 1)}")

    half = options.runs // 2
    again = np.mean(rounds[:half] > 0, axis=0)
    undecided = (again > 0.05) & (again < 0.95)
    together = np.array(
        [np.corrcoef(fraction[:half, k], np.exp(first[:half, k]))[0, 1] for k in range(len(again))]
    )
    after = before[half:] + used[half:]
    scale = after.max(axis=0)
    added = np.exp(before[half:] + used[half:] - scale) - np.exp(
        before[half:] + first[half:] - scale
    )
    added /= np.mean(np.exp(after - scale), axis=0)
    groups = {
        "no run generates (at most 5 %)": again <= 0.05,
        "some do, gamma and m go together (correlation above 0.5)": undecided & (together > 0.5),
        "some do, the other steps": undecided & ~(together > 0.5),
        "all do (95 % or more)": again >= 0.95,
    }
    print("what looking adds, by what the runs do at a step:")
    for name, chosen in groups.items():
        print(
            f"  {name}: {chosen.sum()} steps, mean correlation "
            f"{np.mean(together[chosen]) if chosen.any() else np.nan:.2f}, "
            f"{with_error(added[:, chosen].sum(axis=1))}"
        )
    print(f"  all steps: {with_error(added.sum(axis=1))}")


COMMANDS = {"gpc-bias": main_bias}
