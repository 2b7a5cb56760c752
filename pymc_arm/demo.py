"""Three models of a famous series of counts, compared: ``python -m pymc_arm demo``.

Coal mining disasters in Britain, by year from 1851 to 1961 (Jarrett 1979, Biometrika 66). Did their
rate stay the same, fall steadily, or fall at once, when safety was regulated and unions formed?
"""

import argparse
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from rich.console import Console
from rich.table import Table

from pymc_arm.comparison import bayes_factor, compare
from pymc_arm.comparison.averaging import average_models
from pymc_arm.comparison.evidence_path import evidence_path
from pymc_arm.results import Evidence, summarize
from pymc_arm.sampling import sample

__all__ = ["DISASTERS", "YEARS", "main", "make_models"]

YEARS = np.arange(1851, 1962)
DISASTERS = np.array(
    [
        *[4, 5, 4, 0, 1, 4, 3, 4, 0, 6, 3, 3, 4, 0, 2, 6, 3, 3, 5, 4, 5, 3, 1, 4, 4, 1, 5, 5, 3],
        *[4, 2, 5, 2, 2, 3, 4, 2, 1, 3, 2, 2, 1, 1, 1, 1, 3, 0, 0, 1, 0, 1, 1, 0, 0, 3, 1, 0, 3],
        *[2, 2, 0, 1, 1, 1, 0, 1, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0, 1, 1, 0, 2, 3, 3, 1, 1, 2, 1, 1],
        *[1, 1, 2, 4, 2, 0, 0, 1, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1],
    ]
)


def make_models(years: np.ndarray = YEARS, counts: np.ndarray = DISASTERS) -> dict[str, pm.Model]:
    """Return the three models by name; ``rate`` is the expected count of each year in all of them.

    Examples
    --------
    >>> from pymc_arm.demo import make_models
    >>> list(make_models())
    ['constant rate', 'steady decline', 'abrupt change']
    """
    coords = {"year": years}
    with pm.Model(coords=coords) as constant:
        level = pm.Exponential("level", 1.0)
        pm.Deterministic("rate", level * np.ones(len(years)), dims="year")
        pm.Poisson("disasters", level, observed=counts, dims="year")
    centuries = (years - years.mean()) / 100
    with pm.Model(coords=coords) as steady:
        log_level = pm.Normal("log_level", 0.0, 1.0)
        slope = pm.Normal("slope", 0.0, 3.0)
        rate = pm.Deterministic("rate", pm.math.exp(log_level + slope * centuries), dims="year")
        pm.Poisson("disasters", rate, observed=counts, dims="year")
    with pm.Model(coords=coords) as abrupt:
        change = pm.Uniform("change", years[0], years[-1])
        early = pm.Exponential("early", 1.0)
        late = pm.Exponential("late", 1.0)
        # At once, seen by the year: nine tenths of the change happen within about four years.
        share = pm.math.sigmoid((years - change) / 0.7)
        rate = pm.Deterministic("rate", early + (late - early) * share, dims="year")
        pm.Poisson("disasters", rate, observed=counts, dims="year")
    return {"constant rate": constant, "steady decline": steady, "abrupt change": abrupt}


def main(arguments: Sequence[str] = ()) -> None:
    """Run the demo: a table, a Bayes factor in words, and plots."""
    parser = argparse.ArgumentParser(prog="python -m pymc_arm demo", description=__doc__)
    parser.add_argument("--draws", type=int, default=500, help="particles of each chain")
    parser.add_argument("--output", type=Path, default=Path("demo"), help="a folder for the plots")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(list(arguments))
    logging.getLogger("pymc").setLevel(logging.WARNING)
    started = time.perf_counter()
    console = Console(highlight=False, soft_wrap=True)
    console.print("Coal mining disasters in Britain, 1851 to 1961: what happened to their rate?")
    seeds = np.random.SeedSequence(options.seed).generate_state(3).tolist()
    results: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for seed, (name, model) in zip(seeds, make_models().items(), strict=True):
        with console.status(f"{name}: log Z"):
            results[name] = sample(model, options.draws, random_seed=seed, progressbar=False)
        with console.status(f"{name}: year by year"):
            paths[name] = evidence_path(
                model, draws=max(options.draws // 2, 1), random_seed=seed, progressbar=False
            )
    table = compare(results)
    console.print(_as_table(table))
    best, second = table.index[:2]
    console.print(str(bayes_factor(results[best], results[second], names=(best, second))))
    pooled = average_models(results, random_seed=options.seed)
    rate = pooled["posterior"]["rate"].mean(("chain", "draw"))
    console.print(
        "Averaged over the models, the rate fell from "
        f"{float(rate[0]):.1f} disasters a year in {YEARS[0]} to {float(rate[-1]):.1f} in "
        f"{YEARS[-1]}."
    )
    saved = _save_plots(options.output, results, paths, table)
    if saved:
        console.print("Plots: " + ", ".join(str(file) for file in saved))
    else:
        console.print("For plots, install matplotlib: pip install matplotlib.")
    console.print(f"{time.perf_counter() - started:.0f} seconds.")


def _as_table(table: pd.DataFrame) -> Table:
    shown = Table("model", "log Z", "log BF", "probability", "order")
    for column in shown.columns[1:-1]:
        column.justify = "right"
    for row in table.itertuples():
        shown.add_row(
            row.Index,
            summarize(Evidence(row.log_evidence, row.standard_error, row.degrees_of_freedom)),
            f"{row.log_bayes_factor:.2f}",
            f"{row.probability:.3f} ({row.probability_low:.3f}, {row.probability_high:.3f})",
            "settled" if row.settled else "open",
        )
    return shown


def _save_plots(
    folder: Path, results: dict[str, Any], paths: dict[str, Any], table: pd.DataFrame
) -> list[Path]:
    """Save one file for each plot; without matplotlib, none."""
    try:
        import matplotlib
    except ImportError:
        return []
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from pymc_arm import plots

    folder.mkdir(parents=True, exist_ok=True)
    best = table.index[0]
    axes = {
        "comparison": plots.plot_comparison(table),
        "probabilities": plots.plot_model_probabilities(table),
        "run": plots.plot_run(results[best])[0],
        "estimates": plots.plot_estimates(results[best]),
        "evidence_path": plots.plot_evidence_path(paths, x=YEARS),
    }
    axes["evidence_path"].set_xlabel("data up to the year")
    saved = []
    for name, axis in axes.items():
        saved.append(folder / f"{name}.png")
        axis.figure.savefig(saved[-1], dpi=150)
        plt.close(axis.figure)
    return saved
