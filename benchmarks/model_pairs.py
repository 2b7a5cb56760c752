"""Whether posterior probabilities are calibrated, for four pairs of models, by real runs.

``python -m benchmarks model-pairs [NAME ...] [--simulations 200] [--folder DIRECTORY]`` draws data
from the models of each pair (or of those named), estimates log Z of both, and prints what
:func:`pymc_arm.calibrate` finds, with the CPU seconds of a simulation. With a folder simulations
are kept there: the same command goes on with them, and the curves of all pairs are drawn into it.
Then log Z of one model is made wrong by 0.5, and 200 times 200 simulations are drawn from those at
hand: how often is it noticed?
"""

import argparse
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pymc as pm

import pymc_arm

__all__ = ["COMMANDS", "PAIRS"]

Pair = dict[str, pm.Model]
# A broken estimator, and how often and on how many simulations it is looked for.
OFFSET, TRIALS, RESAMPLED = 0.5, 200, 200


def beta_binomial() -> Pair:
    """Return a coin that is nearly fair and any coin, 20 tosses."""

    def coin(alpha: float) -> pm.Model:
        with pm.Model() as model:
            p = pm.Beta("p", alpha, alpha)
            pm.Binomial("heads", n=20, p=p, observed=0)
        return model

    return {"nearly fair": coin(30.0), "any coin": coin(1.0)}


def nested_regressions() -> Pair:
    """Return regressions on one predictor and on two, 20 rows."""
    x = np.random.default_rng(1).normal(size=(20, 2))

    def regression(predictors: int) -> pm.Model:
        with pm.Model() as model:
            b = pm.Normal("b", 0, 0.5, shape=predictors)
            sigma = pm.HalfNormal("sigma", 1)
            pm.Normal("y", pm.math.dot(x[:, :predictors], b), sigma, observed=np.zeros(20))
        return model

    return {"one predictor": regression(1), "two predictors": regression(2)}


def hierarchical() -> Pair:
    """Return one mean for all and means of groups, three groups of three.

    With ``spread`` ~ HalfNormal(2) the models are told apart so often that an error of 0.5 is
    caught in only nine of ten trials at 200 simulations, whatever the method (so by quadrature).
    More groups start at a fitted reference, and take 8 CPU seconds a simulation in place of 5.
    """
    group = np.repeat(np.arange(3), 3)
    with pm.Model() as pooled:
        mean = pm.Normal("mean", 0, 1)
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", mean, sigma, observed=np.zeros(9))
    with pm.Model() as hierarchy:
        mean = pm.Normal("mean", 0, 1)
        sigma = pm.HalfNormal("sigma", 1)
        spread = pm.HalfNormal("spread", 1)
        effects = pm.Normal("effects", mean, spread, shape=3)
        pm.Normal("y", effects[group], sigma, observed=np.zeros(9))
    return {"pooled": pooled, "hierarchical": hierarchy}


def mixture() -> Pair:
    """Return one normal component and two, 20 values."""
    with pm.Model() as single:
        mean = pm.Normal("mean", 0, 2)
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", mean, sigma, observed=np.zeros(20))
    with pm.Model() as double:
        share = pm.Beta("share", 2, 2)
        means = pm.Normal("means", 0, 2, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        weights = pm.math.stack([share, 1 - share])
        pm.NormalMixture("y", weights, means, sigma=sigma, observed=np.zeros(20))
    return {"one component": single, "two components": double}


PAIRS: dict[str, Callable[[], Pair]] = {
    "beta-binomial": beta_binomial,
    "nested-regressions": nested_regressions,
    "hierarchical": hierarchical,
    "mixture": mixture,
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks model-pairs")
    parser.add_argument("names", nargs="*", default=list(PAIRS))
    parser.add_argument("--simulations", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--draws", type=int, default=250)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    found = {}
    for name in options.names:
        started = time.process_time()
        found[name] = pymc_arm.calibrate(
            PAIRS[name](),
            options.simulations,
            repeats=options.repeats,
            random_seed=options.seed,
            checkpoint=None if options.folder is None else options.folder / name,
            resume=options.folder is not None,
            progressbar=False,
            draws=options.draws,
            chains=2,
            cores=1,
        )
        seconds = (time.process_time() - started) / options.simulations
        print(f"{name} ({seconds:.1f} CPU seconds a simulation)\n{found[name]}", flush=True)
        verdicts = [verdict for run in found[name].runs for verdict in run.verdicts]
        print(f"Verdicts: { {v: verdicts.count(v) for v in sorted(set(verdicts))} }")
        caught = [count_caught(found[name], place) for place in range(len(found[name].names))]
        shown = f"for the first model {caught[0]}, for the second {caught[1]}"
        print(f"log Z + {OFFSET} is caught at {RESAMPLED} simulations, of {TRIALS} times: {shown}")
    if options.folder is not None:
        _draw(found, options.folder / "pairs.png")


def count_caught(found: pymc_arm.Calibration, place: int) -> int:
    """Return how often simulations drawn from those found are not calibrated with a wrong log Z."""
    caught = 0
    # What these simulations seem to be off by is their own noise, and not that of others.
    size = OFFSET - found.means["offset"].iloc[place]
    offset = size * (np.arange(len(found.names)) == place)
    for rng in np.random.default_rng(1).spawn(TRIALS):
        own = [np.flatnonzero(found.truth == place) for place in range(len(found.names))]
        rows = np.concatenate([rng.choice(some, RESAMPLED // len(own)) for some in own])
        drawn = replace(
            found,
            truth=found.truth[rows],
            log_evidence=found.log_evidence[rows] + offset,
            standard_error=found.standard_error[rows],
            runs=(),
        )
        caught += not drawn.calibrated
    return caught


def _draw(found: dict[str, pymc_arm.Calibration], file: Path) -> None:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1, len(found), figsize=(4.6 * len(found), 4.4), squeeze=False, layout="constrained"
    )
    for axis, (name, one) in zip(axes[0], found.items(), strict=True):
        pymc_arm.plots.plot_calibration(one, axis)
        axis.set_title(f"{name}, {len(one.truth)} simulations")
    figure.savefig(file, dpi=120)


COMMANDS = {"model-pairs": main}
