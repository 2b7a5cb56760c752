"""The two starts check each other: what a reference can't see, a small run from the prior may.

Z-hat from the prior is unbiased and positive, so Markov's inequality bounds how often it exceeds Z
by a factor of K: at most once in K runs, whatever the model. A small run that comes out *above* the
estimate from the reference by such a factor therefore shows that mass was missed. One that comes
out below shows nothing, since small runs from the prior often do.

Where the particles of the small run are tells more than their number. With weights
w = f / (Z q), a posterior that q covers has a share of at most E[w^2] / K of its particles where
w > K, and E[w^2] is one over the overlap. More of them there are a mode, or a slab, that q missed,
if they stand for mass: the share of them times Z-hat is an unbiased estimate of the mass that lies
there. Of a small run that lost its way and ends six nats below, most particles may lie in a tail of
the posterior (a covariance matrix of three scales with half-Cauchy priors, eight rows): taken for a
missed mode, they cost a run from the prior of minutes.
"""

from dataclasses import dataclass

import numpy as np

from pymc_arm.algorithm.arm import run
from pymc_arm.algorithm.resampling import log_mean_exp
from pymc_arm.algorithm.state import Run
from pymc_arm.estimation.estimate import Evidence
from pymc_arm.models.density import likelihood_powers
from pymc_arm.models.path import GenericPath
from pymc_arm.models.reference.path import ReferencePath
from pymc_arm.running.processors import one_blas_thread

__all__ = ["Guard", "check_reference", "is_rounding", "is_small", "run_from_prior"]

# Particles of the small run. A mode with a tenth of Z then holds 15 of them; with 50, five.
PARTICLES = 150
PRIOR_DRAWS = 2000
# Sweeps of a move: Z-hat is unbiased however short they are, and a mode is found by particles that
# start near it.
SWEEPS = 3
# A false alarm at most once in so many runs, and the share of particles, and of Z, that must lie
# outside.
FACTOR = 100.0
LARGEST_OUTSIDE = 0.05
# A run that is less sure than this has a reference that does not fit.
LARGEST_ERROR = 0.3
# How far points are shifted, relative to their size, and by how much a density may change then.
LAST_DIGITS, LARGEST_ROUNDING = 1e-15, 0.5
# Larger models are compared with draws of the prior only: a run from it takes more evaluations than
# the whole run from the reference (BUGS seeds, 26 dimensions and 22 steps: over 60 CPU s, where the
# reference took 16).
LARGEST_DIMENSION, LARGEST_WORK = 12, 5_000


@dataclass(frozen=True)
class Guard:
    """Whether the two starts agree, and a sentence for the verdict.

    ``outside`` is the share of particles from the prior that the reference does not cover, NaN if
    there was no run; ``log_evidence`` is what the run, or draws of the prior, estimate.
    """

    agrees: bool
    reason: str
    log_evidence: float
    outside: float = np.nan


def check_reference(
    path: ReferencePath,
    evidence: Evidence,
    rng: np.random.Generator | None = None,
    particles: int = PARTICLES,
) -> Guard:
    """Compare an estimate from a reference with what the prior knows.

    Parameters
    ----------
    path
        The path from the reference.
    evidence
        What it gave.
    rng
        By default of a fixed seed.
    particles
        Of the small run.
    """
    rng = np.random.default_rng(20160713) if rng is None else rng
    model_path, log_evidence = path.model_path, evidence.log_evidence
    error = evidence.standard_error
    small = is_small(model_path)
    if small and not error < LARGEST_ERROR:
        reason = f"the run from the reference has a standard error of {error:.2g}"
        return Guard(False, reason, log_evidence)
    with one_blas_thread(), np.errstate(all="ignore"):
        by_draws = _prior_estimate(model_path, rng)
        if by_draws > log_evidence + np.log(FACTOR):
            reason = f"draws of the prior alone hold more: log Z is at least about {by_draws:.1f}"
            return Guard(False, reason, by_draws)
        if not small:
            return Guard(True, "compared with draws of the prior only", by_draws)
        done = run_from_prior(model_path, rng, particles)
        found = done.log_evidence
        if found == -np.inf:
            return Guard(True, "a small run from the prior lost its particles", found)
        if found > log_evidence + np.log(FACTOR):
            if is_rounding(model_path, done.state.particles, done.state.log_weights):
                reason = "a small run from the prior came to where the density is rounding error"
                return Guard(True, reason, found)
            reason = f"a small run from the prior found more mass: log Z {found:.4g}"
            return Guard(False, reason, found)
        points = path.chart_points(done.state.particles)
        ratio = path.log_density(points) - path.reference.mixture(points)[0] - log_evidence
        limit = np.log(FACTOR / max(path.reference.overlap, 1e-6))
        outside = float(np.exp(done.state.log_weights) @ (ratio > limit))
        mass = outside * float(np.exp(found - log_evidence))
    if outside > LARGEST_OUTSIDE and mass > LARGEST_OUTSIDE:
        share = f"{100 * outside:.0f} % of the particles of a small run from the prior"
        return Guard(False, f"{share} are where the reference is not", found, outside)
    return Guard(True, "a small run from the prior agrees", found, outside)


def is_small(path: GenericPath) -> bool:
    """Whether a small run from the prior takes little beside a run from a reference."""
    dimension = path.plan.layout.dimension
    return dimension <= LARGEST_DIMENSION and dimension * path.density.work <= LARGEST_WORK


def run_from_prior(path: GenericPath, rng: np.random.Generator, particles: int = PARTICLES) -> Run:
    """Return a small run from the prior, with short moves."""
    short = path.with_short_moves(SWEEPS)
    return run(short, rng, particles, **vars(short.settings()))


def is_rounding(path: GenericPath, points: np.ndarray, log_weights: np.ndarray) -> bool:
    """Whether most of the particles are where changes in the last digits change the density.

    Differences of log-gamma functions of a parameter with a heavy-tailed prior are such: of 1e200
    they are any number up to 1e185, and a particle that comes there stays.
    """
    rng = np.random.default_rng(0)
    shifts = LAST_DIGITS * rng.uniform(-1, 1, size=(4, *points.shape))
    shifts[0] = 0.0
    around = [path.log_density(points * (1 + shift)) for shift in shifts]
    noisy = ~(np.ptp(around, axis=0) < LARGEST_ROUNDING)
    weights = np.exp(log_weights - log_weights.max())
    return bool(weights @ noisy > 0.5 * weights.sum())


def _prior_estimate(path: GenericPath, rng: np.random.Generator) -> float:
    """Return the log of the mean likelihood of prior draws, times the mass of what they are of.

    That is minus infinity where a transform keeps a part of the prior that depends on parameters:
    draws of such a part are not those of the density as it is written.
    """
    if path.prior.integrated:
        return -np.inf
    draws = path.plan.layout.ravel(path.prior.draw(rng, PRIOR_DRAWS), PRIOR_DRAWS)
    powers = likelihood_powers(path.density)
    values = path.density.sum(draws[np.isfinite(draws).all(axis=1)], powers)
    return float(log_mean_exp(values)) + path.prior.log_mass if len(values) else -np.inf
