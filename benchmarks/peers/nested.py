"""Nested samplers: dynesty, nautilus and UltraNest.

They see the prior as the image of the unit cube, and the log-likelihood as a function of that
image, many points at a time where the library can use it.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pymc as pm

from benchmarks.peers.cube import compile_prior_transform
from benchmarks.peers.target import Target

__all__ = ["Nested", "dynesty", "nautilus", "run_dynesty", "run_nautilus", "ultranest"]

# UltraNest's own remedy for high dimension is a step sampler; where that begins is our choice.
REGION_DIMENSIONS = 10


@dataclass(frozen=True)
class Nested:
    """What a nested sampler returns: log Z, its error, and weighted points.

    The points are in the unconstrained space of the target.
    """

    log_evidence: float
    standard_error: float
    points: np.ndarray
    log_weights: np.ndarray


def dynesty(model: pm.Model) -> Callable[[int], float]:
    """Run the static sampler, which dynesty advises for evidences, in its defaults (500 points)."""
    run = run_dynesty(Target(model))
    return lambda seed: run(seed).log_evidence


def nautilus(model: pm.Model) -> Callable[[int], float]:
    """Run nautilus in its defaults (2000 points, 10,000 effective samples)."""
    run = run_nautilus(Target(model))
    return lambda seed: run(seed).log_evidence


def run_dynesty(target: Target) -> Callable[[int], Nested]:
    """Return a function from a seed to all that dynesty tells."""
    from dynesty import NestedSampler

    transform = compile_prior_transform(target)
    likelihood = target.compile(target.log_likelihood)

    def run(seed: int) -> Nested:
        rng = np.random.default_rng(seed)
        sampler = NestedSampler(
            lambda x: float(likelihood(x)), transform, target.dimension, rstate=rng
        )
        sampler.run_nested(print_progress=False)
        found = sampler.results
        return Nested(float(found.logz[-1]), float(found.logzerr[-1]), found.samples, found.logwt)

    return run


def run_nautilus(target: Target) -> Callable[[int], Nested]:
    """Return a function from a seed to all that nautilus tells."""
    from nautilus import Sampler

    transform = compile_prior_transform(target, batched=True)
    likelihood = target.compile_batched(target.log_likelihood)

    def run(seed: int) -> Nested:
        sampler = Sampler(
            transform,
            likelihood,
            target.dimension,
            vectorized=True,
            pass_dict=False,
            seed=seed,
        )
        sampler.run()
        points, log_weights, _ = sampler.posterior()
        # The error that its authors give for log Z.
        error = 1 / np.sqrt(sampler.n_eff)
        return Nested(float(sampler.log_z), float(error), np.asarray(points), log_weights)

    return run


def ultranest(model: pm.Model) -> Callable[[int], float]:
    """Run the reactive sampler in its defaults (400 points), with slices in high dimension."""
    from ultranest import ReactiveNestedSampler, stepsampler

    target = Target(model)
    transform = compile_prior_transform(target, batched=True)
    likelihood = target.compile_batched(target.log_likelihood)
    names = [f"x{i}" for i in range(target.dimension)]

    def run(seed: int) -> float:
        np.random.seed(seed)  # noqa: NPY002 (the library's only source of randomness)
        sampler = ReactiveNestedSampler(
            names,
            # Infinities are refused.
            lambda x: np.maximum(likelihood(x), -1e100),
            transform,
            vectorized=True,
        )
        logging.getLogger("ultranest").setLevel(logging.ERROR)  # which making a sampler resets
        if target.dimension > REGION_DIMENSIONS:
            sampler.stepsampler = stepsampler.SliceSampler(
                nsteps=2 * target.dimension,
                generate_direction=stepsampler.generate_mixture_random_direction,
            )
        result = sampler.run(show_status=False, viz_callback=False)
        return float(result["logz"])

    return run
