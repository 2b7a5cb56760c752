"""How far the stopping rule of ARM pulls Z-hat away from Z, at several numbers of particles.

The rule looks at the particles and decides whether to use them or to generate more; an estimate
that is used because it looked good is not an unbiased one. ``docs/bias.md`` has the theory and the
figures.
"""

import argparse
from collections.abc import Callable, Sequence

import numpy as np

from pymc_arm import Settings, run
from pymc_arm.running.pilot import pilot
from pymc_arm.testing import TiltedNormals

__all__ = ["COMMANDS", "main"]

# gamma of a step with tilt a tends to exp(-a^2); this tilt puts it on the default threshold, 0.7.
TILT_AT_THRESHOLD = float(np.sqrt(-np.log(0.7)))
PATHS = {
    "every step at the threshold": TiltedNormals([TILT_AT_THRESHOLD] * 4),
    "one hard step, far from it": TiltedNormals([0.2, 0.2, 1.2, 0.2]),
}
VARIANTS = ("arm", "anticipate", "reseed", "pilot")


def main(arguments: Sequence[str] = ()) -> None:
    """Print the relative bias of Z-hat for each path, variant and number of particles."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks bias", description=__doc__)
    parser.add_argument("--replicates", type=int, default=2000, help="runs of each cell")
    parser.add_argument("--particles", type=int, nargs="+", default=[10, 40, 160, 640])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(list(arguments))
    for title, path in PATHS.items():
        print(
            f"\n{title}: bias of Z-hat / Z, its standard error, and the bias in standard deviations"
        )
        print(f"\n| variant | {' | '.join(f'R = {count}' for count in options.particles)} | rate |")
        print(f"|---|{'---|' * (len(options.particles) + 1)}")
        for variant in VARIANTS:
            cells, biases, errors = [], [], []
            for count in options.particles:
                ratios = evidence_ratios(path, variant, count, options.replicates, options.seed)
                deviation = float(ratios.std(ddof=1))
                biases.append(float(ratios.mean() - 1))
                errors.append(deviation / np.sqrt(len(ratios)))
                cells.append(
                    f"{biases[-1]:+.4f} ± {errors[-1]:.4f} ({biases[-1] / deviation:+.2f})"
                )
            rate = fit_rate(options.particles, biases, errors)
            print(f"| {variant} | {' | '.join(cells)} | {rate} |", flush=True)


def evidence_ratios(
    path: TiltedNormals, variant: str, particles: int, replicates: int, seed: int
) -> np.ndarray:
    """Return Z-hat / Z of independent runs; ``"pilot"`` replays a pilot run of ARM each time."""
    one = _after_pilot if variant == "pilot" else _adaptive(variant)
    generators = np.random.default_rng([seed, particles]).spawn(replicates)
    estimates = np.array([one(path, rng, particles) for rng in generators])
    return np.exp(estimates - path.exact_log_evidence)


def fit_rate(particles: Sequence[int], biases: Sequence[float], errors: Sequence[float]) -> str:
    """Return the power of R that the bias follows, if it is measurable at two places or more."""
    size, bias, error = (np.asarray(column, dtype=float) for column in (particles, biases, errors))
    clear = np.abs(bias) > 3 * error
    if clear.sum() < 2:
        return "-"
    weights = np.abs(bias[clear]) / error[clear]
    slope = np.polyfit(np.log(size[clear]), np.log(np.abs(bias[clear])), 1, w=weights)[0]
    return f"R^{slope:.2f}"


def _adaptive(variant: str) -> Callable[[TiltedNormals, np.random.Generator, int], float]:
    def one(path: TiltedNormals, rng: np.random.Generator, particles: int) -> float:
        return run(path, rng, particles, variant=variant).log_evidence

    return one


def _after_pilot(path: TiltedNormals, rng: np.random.Generator, particles: int) -> float:
    replay, counts = pilot(path, particles, rng, Settings())
    return run(replay, rng, counts=counts, variant="rm").log_evidence


COMMANDS = {"bias": main}
