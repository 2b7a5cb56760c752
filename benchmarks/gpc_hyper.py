"""Gaussian process classification with unknown length scale and amplitude, against quadrature.

``python -m benchmarks gpc-hyper [--labels 30 100] [--link probit logit] [--forms whitened centred]
[--seeds 5] [--draws 1000]`` runs models with a process of prior Gamma(2, 2) of its length scale and
HalfNormal(3) of its amplitude. The truth is a grid over both: at each node the look-ahead sequence
of the probit classifier, or for logits importance sampling around the mode.
``--usps`` takes the threes and fives of USPS, n = 767, without a truth.
"""

import argparse
import logging
import os
import warnings
from collections.abc import Sequence
from pathlib import Path as FilePath

import numpy as np
import pymc as pm
from scipy import special, stats

import pymc_arm
from benchmarks.limited import cpu_seconds
from pymc_arm.families.gpc import GPCPath

__all__ = ["COMMANDS"]

JITTER = 1e-6
# Nodes of log length scale and of log amplitude, and particles or draws at each.
LENGTHS, HEIGHTS, PARTICLES = np.linspace(-2.2, 1.6, 20), np.linspace(-2.0, 2.5, 16), 200


def make_data(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs on a line, and labels that change a few times."""
    rng = np.random.default_rng(1)
    inputs = np.sort(rng.uniform(-3, 3, size=size))[:, None]
    return inputs, np.sin(2 * inputs[:, 0]) + 0.4 * rng.normal(size=size) > 0


def build(inputs: np.ndarray, labels: np.ndarray, link: str, *, whitened: bool) -> pm.Model:
    """Return the model; inputs of several dimensions have a longer length scale."""
    links = {"probit": pm.math.invprobit, "logit": pm.math.invlogit}
    typical = np.sqrt(inputs.shape[1])
    with pm.Model() as model:
        length, height = pm.Gamma("length", 2, 2), pm.HalfNormal("height", 3)
        kernel = pm.gp.cov.ExpQuad(inputs.shape[1], ls=typical * length)
        process = pm.gp.Latent(cov_func=height**2 * kernel)
        f = process.prior("f", X=inputs, reparameterize=whitened, jitter=JITTER)
        pm.Bernoulli("y", p=links[link](f), observed=labels.astype(int))
    return model


def integrate(inputs: np.ndarray, labels: np.ndarray, link: str) -> float:
    """Return log Z by quadrature over log length scale and log amplitude."""
    squares = (inputs - inputs.T) ** 2
    total = []
    for length in LENGTHS:
        for height in HEIGHTS:
            covariance = np.exp(2 * height - 0.5 * squares * np.exp(-2 * length))
            covariance += JITTER * np.eye(len(labels))
            prior = stats.gamma.logpdf(np.exp(length), 2, scale=0.5) + length
            prior += stats.halfnorm.logpdf(np.exp(height), 0, 3) + height
            rng = np.random.default_rng(0)
            given = _probit if link == "probit" else _logit
            total.append(prior + given(covariance, labels, rng))
    step = (LENGTHS[1] - LENGTHS[0]) * (HEIGHTS[1] - HEIGHTS[0])
    return float(special.logsumexp(total) + np.log(step))


def _probit(covariance: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> float:
    path = GPCPath(covariance, labels, threads=1)
    return pymc_arm.run(path, rng, PARTICLES, max_rounds=0).log_evidence


def _logit(covariance: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> float:
    """Return log Z by importance sampling from Laplace's approximation of the whitened process."""
    signs, factor = np.where(labels, 1.0, -1.0), np.linalg.cholesky(covariance)
    white, size = np.zeros(len(labels)), len(labels)
    for _ in range(50):
        rates = special.expit(signs * (factor @ white))
        slope = factor.T @ (signs * (1 - rates)) - white
        precision = np.eye(size) + factor.T @ ((rates * (1 - rates))[:, None] * factor)
        step = np.linalg.solve(precision, slope)
        white = white + step
        if np.abs(step).max() < 1e-9:
            break
    spread = np.linalg.cholesky(np.linalg.inv(precision))
    noise = rng.normal(size=(5 * PARTICLES, size))
    noise = np.vstack([noise, -noise])
    drawn = white + noise @ spread.T
    logs = special.log_expit(signs * (drawn @ factor.T)).sum(axis=1)
    logs += 0.5 * (noise**2 - drawn**2).sum(axis=1) + np.log(np.diag(spread)).sum()
    return float(special.logsumexp(logs) - np.log(len(logs)))


def _usps() -> tuple[np.ndarray, np.ndarray]:
    beside = FilePath(__file__).resolve().parents[1].parent / "shared" / "data"
    file = FilePath(os.environ.get("PYMC_ARM_DATA", beside)) / "usps_3v5.npz"
    with np.load(file) as data:
        return data["X_train"].astype(float), data["y_train"] > 0


def main(arguments: Sequence[str]) -> None:
    """Run models, and print a line for each run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpc-hyper")
    parser.add_argument("--labels", nargs="+", type=int, default=[30, 40, 100, 200])
    parser.add_argument("--link", nargs="+", choices=["probit", "logit"], default=["probit"])
    parser.add_argument(
        "--forms", nargs="+", choices=["whitened", "centred"], default=["whitened", "centred"]
    )
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--usps", action="store_true")
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore", pymc_arm.TrustWarning)
    data = [_usps()] if options.usps else [make_data(size) for size in options.labels]
    for inputs, labels in data:
        for link in options.link:
            truth = np.nan if options.usps else integrate(inputs, labels, link)
            for form in options.forms:
                for seed in range(1, options.seeds + 1):
                    began = cpu_seconds()
                    model = build(inputs, labels, link, whitened=form == "whitened")
                    attrs = pymc_arm.sample(
                        model, draws=options.draws, random_seed=seed, progressbar=False
                    ).attrs
                    found = attrs["log_marginal_likelihood"]
                    print(
                        f"n = {len(labels)}, {link}, {form}, seed {seed}: log Z {found:.3f}, error "
                        f"{found - truth:+.4f}, se {attrs['log_marginal_likelihood_se']:.4f}, "
                        f"{attrs['verdict']}, {attrs['family']}, "
                        f"{cpu_seconds() - began:.1f} cpu s",
                        flush=True,
                    )


COMMANDS = {"gpc-hyper": main}
