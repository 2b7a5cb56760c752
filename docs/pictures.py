"""The pictures of the documentation: ``python docs/pictures.py FOLDER`` draws them all.

The documentation's configuration calls :func:`draw_missing`, so that a second build is quick. Data
and seeds are fixed: the same pictures every time.
"""

import logging
import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
from diagrams import draw_architecture, draw_iteration, draw_run
from scipy import stats

import pymc_arm
from pymc_arm import plots
from pymc_arm.comparison import compare
from pymc_arm.demo import YEARS, make_models
from pymc_arm.testing import TiltedNormals

__all__ = ["PICTURES", "draw_missing"]

# In inches: narrow enough for words of ten points to be read on a phone.
WIDTH = 5.8
OPTIONS: dict[str, Any] = {"random_seed": 1, "progressbar": False}
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def new_figure(height: float) -> tuple[plt.Figure, Any]:
    """Return a figure of the common width, and its axis."""
    return plt.subplots(figsize=(WIDTH, height), layout="constrained")


@cache
def disasters() -> dict[str, Any]:
    """Return the results of the demo's three models."""
    return {name: pymc_arm.sample(model, 300, **OPTIONS) for name, model in make_models().items()}


@cache
def schools() -> tuple[pm.Model, Any]:
    """Return the eight schools, and their result."""
    with pm.Model(coords={"school": list("ABCDEFGH")}) as model:
        mu = pm.Normal("mu", 0.0, 10.0)
        tau = pm.HalfNormal("tau", 10.0)
        theta = pm.Normal("theta", mu, tau, dims="school")
        pm.Normal("effects", theta, ERRORS, observed=EFFECTS, dims="school")
    return model, pymc_arm.sample(model, 500, **OPTIONS)


def run_few() -> plt.Figure:
    """Draw a run with few steps: from the prior, since from a reference there is one."""
    result = pymc_arm.sample(schools()[0], 500, start="prior", **OPTIONS)
    return plots.plot_run(result)[0].figure


def run_many() -> plt.Figure:
    """Draw a run with 3000 steps, of which two are hard."""
    tilts = np.full(3000, 0.1)
    tilts[[500, 2000]] = 2.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pymc_arm.TrustWarning)
        result = pymc_arm.sample_path(TiltedNormals(tilts.tolist()), draws=50, **OPTIONS)
    return plots.plot_run(result)[0].figure


def estimates() -> plt.Figure:
    """Draw exploring against refined estimates."""
    return plots.plot_estimates(disasters()["steady decline"]).figure


def comparison() -> plt.Figure:
    """Draw log Z of three models."""
    return plots.plot_comparison(compare(disasters())).figure


def probabilities() -> plt.Figure:
    """Draw posterior probabilities of the hierarchical and the pooled model."""
    with pm.Model() as pooled:
        mu = pm.Normal("mu", 0.0, 10.0)
        pm.Normal("effects", mu, ERRORS, observed=EFFECTS)
    with pm.Model() as separate:
        theta = pm.Normal("theta", 0.0, 20.0, shape=8)
        pm.Normal("effects", theta, ERRORS, observed=EFFECTS)
    results = {
        "hierarchical": schools()[1],
        "pooled": pymc_arm.sample(pooled, 300, **OPTIONS),
        "separate": pymc_arm.sample(separate, 300, **OPTIONS),
    }
    return plots.plot_model_probabilities(compare(results)).figure


def evidence_path() -> plt.Figure:
    """Draw how the evidence for a change in the rate of disasters built up."""
    paths = {
        name: pymc_arm.evidence_path(model, draws=150, **OPTIONS)
        for name, model in make_models().items()
    }
    figure, axis = new_figure(3.6)
    plots.plot_evidence_path(paths, axis, x=YEARS)
    axis.set_xlabel("data up to the year")
    return figure


def sensitivity() -> plt.Figure:
    """Draw how log Z of the eight schools depends on the widths of its two priors."""
    model, result = schools()
    factors = [0.25, 0.5, 1.0, 2.0, 4.0]
    table = pymc_arm.sensitivity(result, model, {"mu": factors, "tau": factors})
    return plots.plot_sensitivity(table).figure


def lindley() -> plt.Figure:
    """Draw the Bayes factor of a mean against zero, over the width of its prior."""
    widths = np.geomspace(0.05, 100, 200)
    figure, axis = new_figure(3.5)
    for z_score, color in ((1.0, "C0"), (2.0, "C1"), (3.0, "C2")):
        # One observation y = z of N(mean, 1), with mean ~ N(0, width^2).
        log_factor = stats.norm.logpdf(z_score, 0, np.sqrt(1 + widths**2))
        log_factor -= stats.norm.logpdf(z_score)
        axis.plot(widths, log_factor, color=color, label=f"y is {z_score:g} errors from zero")
    axis.axhline(0, color="0.45", linewidth=1)
    axis.set_xscale("log")
    axis.set_xlabel("width of the prior, in standard errors of the data")
    axis.set_ylabel("log Bayes factor\nagainst mean = 0")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    return figure


def pooling() -> plt.Figure:
    """Draw the bias of two ways to pool chains, over the spread of log Z-hat."""
    spread = np.linspace(0, 2, 100)
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(4000, 4))
    pooled = []
    for sigma in spread:
        logs = sigma * noise - 0.5 * sigma**2
        pooled.append(np.mean(np.logaddexp.reduce(logs, axis=1) - np.log(4)))
    figure, axis = new_figure(3.2)
    axis.plot(spread, -0.5 * spread**2, color="C1", label="mean of log Z-hat")
    axis.plot(spread, pooled, color="C0", label="log of the mean of Z-hat")
    axis.axhline(0, color="0.45", linewidth=1)
    axis.set_xlabel("standard deviation of log Z-hat of one chain")
    axis.set_ylabel("bias of log Z,\nfour chains")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    return figure


def missed_mode() -> plt.Figure:
    """Draw a posterior whose second mode lies where the prior has hardly any draws."""
    grid = np.linspace(-6, 14, 2000)
    prior = stats.norm.pdf(grid, 0, 2)
    likelihood = stats.norm.pdf(grid, -1, 0.6) + 3e5 * stats.norm.pdf(grid, 9.5, 0.1)
    figure, axis = new_figure(3.2)
    axis.plot(grid, prior / prior.max(), color="0.45", label="prior")
    posterior = prior * likelihood
    axis.plot(grid, posterior / posterior.max(), color="C0", label="posterior")
    drawn = np.random.default_rng(1).normal(0, 2, size=1000)
    axis.vlines(drawn, -0.08, -0.02, color="C1", linewidth=0.7, label="1000 prior draws")
    axis.set_yticks([])
    axis.set_xlabel("parameter")
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.4, 1.0))
    return figure


SLEEP = np.array([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])


def sleep_model(with_effect: bool) -> pm.Model:
    """Return one of the two models of Student's differences in sleep."""
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 3.0)
        delta = pm.Normal("delta", 0.0, 1.0) if with_effect else 0.0
        pm.Normal("y", delta * sigma, sigma, observed=SLEEP)
    return model


def sensitivity_curve() -> plt.Figure:
    """Draw the Bayes factor of an effect on sleep over the scale of its prior."""
    curve = pymc_arm.sensitivity_curve(
        sleep_model(True),
        sleep_model(False),
        {"delta": [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50]},
        names=("effect", "no effect"),
        draws=500,
        **OPTIONS,
    )
    return plots.plot_sensitivity_curve(curve).figure


def normal_means(n: int, simulations: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which mean was true, zero or normal, and log Z of both for the mean of n draws."""
    rng = np.random.default_rng(1)
    truth = np.arange(simulations) % 2
    found = rng.normal(truth * rng.normal(size=simulations), n**-0.5)[:, None]
    return truth, stats.norm.logpdf(found, 0, np.sqrt(1 / n + np.array([0.0, 1.0])))


def calibration() -> plt.Figure:
    """Draw the calibration of exact probabilities, and of some with an error of 1 in log Z."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.3), layout="constrained")
    truth, exact = normal_means(10, 400)
    for axis, title, error in zip(axes, ("exact", "log Z of the effect + 1"), (0, 1), strict=True):
        log_evidence = exact + np.array([0.0, error])
        names, prior = ("no effect", "effect"), np.array([0.5, 0.5])
        found = pymc_arm.Calibration(names, prior, truth, log_evidence, np.zeros_like(exact))
        plots.plot_calibration(found, axis, bins=5)
        axis.set_title(title)
    return figure


def design() -> plt.Figure:
    """Draw how much evidence is to be expected about the mean of normal data, by sample size."""
    rows = []
    for n in (10, 20, 40, 80, 160, 320):
        truth, exact = normal_means(n, 400)
        for place, logs in zip(truth, exact, strict=True):
            name = ("no effect", "effect")[place]
            rows.append((n, name, logs[place] - logs[1 - place]))
    factors = pd.DataFrame(rows, columns=["n", "truth", "log_bayes_factor"])
    return plots.plot_design(pymc_arm.Design(factors))[0].figure


PICTURES: dict[str, Callable[[], plt.Figure]] = {
    "iteration": draw_iteration,
    "run": draw_run,
    "architecture": draw_architecture,
    "run_few": run_few,
    "run_many": run_many,
    "estimates": estimates,
    "comparison": comparison,
    "probabilities": probabilities,
    "evidence_path": evidence_path,
    "sensitivity": sensitivity,
    "sensitivity_curve": sensitivity_curve,
    "calibration": calibration,
    "design": design,
    "lindley": lindley,
    "pooling": pooling,
    "missed_mode": missed_mode,
}


def draw_missing(folder: Path) -> None:
    """Draw the pictures that are not in a folder yet."""
    folder.mkdir(parents=True, exist_ok=True)
    logging.getLogger("pymc").setLevel(logging.WARNING)
    for name, draw in PICTURES.items():
        file = folder / f"{name}.png"
        if not file.exists():
            figure = draw()
            figure.set_figwidth(WIDTH)
            figure.savefig(file, dpi=200)
            plt.close(figure)


if __name__ == "__main__":
    draw_missing(Path(sys.argv[1]))
