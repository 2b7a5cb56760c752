"""Log Z of a mixed model with 2000 parameters from draws of NUTS, against the exact one.

``python -m benchmarks evidence-large [--persons 994] [--draws 500] [--seeds 1]`` simulates a mixed
model with 3232 rows: a random intercept and a random slope for each person, ten common slopes and
three scales. nutpie draws from its posterior (four chains), and ``pymc_arm.evidence`` is
timed from there. Given the scales everything is normal, so that the exact log Z is an integral over
three of them.
"""

import argparse
import itertools
import logging
import time
import warnings
from typing import Any

import numpy as np
import pymc as pm
import scipy
from scipy import stats

import pymc_arm
from benchmarks.limited import cpu_seconds

__all__ = ["COMMANDS"]

ROWS, COMMON = 3232, 10
# Nodes of the quadrature for each scale, and how many standard deviations it reaches. Sums over
# nodes one standard deviation apart are exact to 1e-8 for a normal density.
NODES, REACH = 11, 5.0


class MixedModel:
    """Rows of a simulated mixed model."""

    def __init__(self, persons: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.persons = persons
        self.person = np.sort(rng.integers(0, persons, ROWS))
        self.time = rng.normal(size=ROWS)
        self.design = np.column_stack([np.ones(ROWS), rng.normal(size=(ROWS, COMMON - 1))])
        effects = rng.normal(size=(2, persons)) * np.array([[0.8], [0.4]])
        mean = self.design @ rng.normal(0.0, 0.5, COMMON)
        mean += effects[0][self.person] + effects[1][self.person] * self.time
        self.rows = mean + 0.7 * rng.normal(size=ROWS)

    def build(self) -> pm.Model:
        """Return the model."""
        with pm.Model() as model:
            common = pm.Normal("common", 0.0, 2.0, shape=COMMON)
            scales = [pm.HalfNormal(name, 1.0) for name in ("between", "slopes", "within")]
            between, slopes, within = scales
            intercept = pm.Normal("intercept", 0.0, between, shape=self.persons)
            slope = pm.Normal("slope", 0.0, slopes, shape=self.persons)
            mean = self.design @ common + intercept[self.person] + slope[self.person] * self.time
            pm.Normal("y", mean, within, observed=self.rows)
        return model

    def log_density(self, log_scales: np.ndarray) -> float:
        """Return log p(rows, log scales), with all effects integrated out."""
        between, slopes, within = np.exp(log_scales)
        total = float(stats.halfnorm.logpdf(np.exp(log_scales)).sum() + log_scales.sum())
        # Common slopes are one more normal effect: Woodbury around the blocks of persons.
        information, linear = np.eye(COMMON) / 4.0, np.zeros(COMMON)
        quadratic = log_determinant = 0.0
        for start, stop in itertools.pairwise(
            np.searchsorted(self.person, range(self.persons + 1))
        ):
            if stop == start:
                continue
            time, x, y = (each[start:stop] for each in (self.time, self.design, self.rows))
            covariance = between**2 + slopes**2 * np.outer(time, time)
            covariance = covariance + within**2 * np.eye(stop - start)
            factor = scipy.linalg.cho_factor(covariance, lower=True)
            solved = scipy.linalg.cho_solve(factor, np.column_stack([x, y]))
            information += x.T @ solved[:, :-1]
            linear += x.T @ solved[:, -1]
            quadratic += float(y @ solved[:, -1])
            log_determinant += 2 * float(np.log(np.diag(factor[0])).sum())
        log_determinant += float(np.linalg.slogdet(4.0 * information)[1])
        quadratic -= float(linear @ np.linalg.solve(information, linear))
        return total - 0.5 * (ROWS * np.log(2 * np.pi) + log_determinant + quadratic)

    def log_evidence(self) -> float:
        """Return the integral over the logarithms of the scales, on a grid around the mode."""
        found = scipy.optimize.minimize(
            lambda x: -self.log_density(x), np.log([0.8, 0.4, 0.7]), method="Nelder-Mead"
        )
        factor = np.linalg.cholesky(np.linalg.inv(self._precision(found.x)))
        side = np.linspace(-REACH, REACH, NODES)
        grid = np.array(list(itertools.product(side, repeat=3)))
        grid = grid[(grid**2).sum(axis=1) <= REACH**2]
        values = [self.log_density(found.x + factor @ node) for node in grid]
        volume = float(np.log(np.diag(factor)).sum()) + 3 * np.log(side[1] - side[0])
        return float(scipy.special.logsumexp(values)) + volume

    def _precision(self, mode: np.ndarray, step: float = 0.01) -> np.ndarray:
        """Return minus the second derivatives, by differences."""
        shifts = step * np.eye(3)
        result = np.empty((3, 3))
        for j, k in itertools.product(range(3), repeat=2):
            signs = itertools.product((1, -1), repeat=2)
            second = sum(
                a * b * self.log_density(mode + a * shifts[j] + b * shifts[k]) for a, b in signs
            )
            result[j, k] = -second / (4 * step**2)
        return result


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks evidence-large")
    parser.add_argument("--persons", type=int, default=994)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    for seed in range(1, options.seeds + 1):
        own = MixedModel(options.persons, seed)
        model = own.build()
        started = time.perf_counter()
        idata = _sample(model, options.draws, seed)
        sampled, before = time.perf_counter(), cpu_seconds()
        result = pymc_arm.evidence(idata, model, random_seed=seed, progressbar=False)
        wall, cpu = time.perf_counter() - sampled, cpu_seconds() - before
        found, exact = result.attrs, own.log_evidence()
        error, deviation = (
            found["log_marginal_likelihood"] - exact,
            found["log_marginal_likelihood_se"],
        )
        checks = ", ".join(reason.check for reason in pymc_arm.diagnose(result).reasons)
        print(
            f"{found['dimension']} parameters, {ROWS} rows, seed {seed}: log Z {exact:.3f}, "
            f"error {error:+.4f}, standard error {deviation:.4f}, z {error / deviation:+.2f}, "
            f"overlap {found.get('refine_overlap', np.nan):.2f}, {found['verdict']} ({checks}); "
            f"NUTS {sampled - started:.0f} s, evidence {wall:.0f} s, {cpu:.0f} CPU s",
            flush=True,
        )


def _sample(model: pm.Model, draws: int, seed: int) -> Any:
    import nutpie

    compiled = nutpie.compile_pymc_model(model)
    return nutpie.sample(compiled, draws=draws, chains=4, seed=seed, progress_bar=False)


COMMANDS = {"evidence-large": main}
