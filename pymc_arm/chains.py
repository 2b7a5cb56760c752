"""Several independent runs of one path, and the number that comes out of them.

Chains are islands: they share nothing but the compiled path, and Z-hat is averaged over them. Each
has its own random stream, spawned from one seed, so the result does not depend on how many run at
the same time.
"""

import copy
import functools
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from threadpoolctl import ThreadpoolController

from pymc_arm.allocation import increment_variances, optimal_counts, predicted_variance
from pymc_arm.arm import Info, Run, State, run
from pymc_arm.path import Particles, Path
from pymc_arm.progress import ChainProgress
from pymc_arm.refine import Bridge
from pymc_arm.resampling import SCHEMES
from pymc_arm.settings import Settings

__all__ = ["Chain", "equally_weighted", "pilot", "run_chains", "spawn_generators"]

# The part of a budget that optimal allocation divides equally.
EQUAL_SHARE = 0.1


@dataclass(frozen=True)
class Chain:
    """One run with equally weighted draws from its end."""

    run: Run
    particles: Particles = field(repr=False)
    draws: dict[str, np.ndarray] = field(repr=False)
    seconds: float
    refined: Bridge | None = None

    @property
    def log_evidence(self) -> float:
        """The estimate of log Z."""
        return self.run.log_evidence

    @property
    def predicted_variance(self) -> float:
        """Theorem 1's prediction of Var(log Z-hat) from this run alone."""
        return predicted_variance(self.run.history)


def run_chains(
    path: Path,
    particles: int,
    generators: Sequence[np.random.Generator],
    settings: Settings,
    *,
    counts: Sequence[int] | None = None,
    cores: int | None = None,
    progressbar: bool = False,
) -> list[Chain]:
    """Run one chain for each generator, on as many threads as there are cores.

    The work of a path is compiled code that releases the interpreter lock, so threads use all
    cores and nothing has to be sent anywhere; BLAS is held at one thread so that they don't fight.
    """
    if path.one_chain_at_a_time:
        workers = 1
    else:
        workers = min(len(generators), (os.cpu_count() or 1) if cores is None else cores)
    length = None if path.length is None else path.length - 1
    with (
        ChainProgress(len(generators), length, progressbar) as progress,
        _blas_controller().limit(limits=1, user_api="blas"),
    ):

        def one(chain: int) -> Chain:
            progress.start(chain)
            result = _run_chain(
                path,
                particles,
                generators[chain],
                settings,
                counts,
                lambda info: progress.update(chain, info),
            )
            progress.finish(chain)
            return result

        if workers == 1:
            return [one(chain) for chain in range(len(generators))]
        with ThreadPoolExecutor(workers) as executor:
            return list(executor.map(one, range(len(generators))))


def _run_chain(
    path: Path,
    particles: int,
    rng: np.random.Generator,
    settings: Settings,
    counts: Sequence[int] | None,
    report: Callable[[Info], None],
) -> Chain:
    started = time.perf_counter()
    result = run(path, rng, particles, counts=counts, report=report, **vars(settings))
    final = equally_weighted(path, rng, result.state, particles, settings)
    draws = {} if final is None else path.posterior(rng, final)
    return Chain(result, final, draws, time.perf_counter() - started)


def equally_weighted(
    path: Path, rng: np.random.Generator, state: State, size: int, settings: Settings
) -> Particles | None:
    """Resample the final particles, and move the copies apart; None if no particle is left."""
    if state.log_evidence == -np.inf:
        return None
    particles, count = state.particles, path.count(state.particles)
    unequal = count != size or np.ptp(state.log_weights) > 0
    if unequal:
        indices = SCHEMES[settings.resampling](rng, state.log_weights, size)
        particles = path.select(particles, indices)
        particles, _ = path.move(rng, state.position, particles)
    elif len(np.unique(state.ancestors)) < count:
        particles, _ = path.move(rng, state.position, particles)
    return particles


def pilot(
    path: Path,
    particles: int,
    rng: np.random.Generator,
    settings: Settings,
    *,
    optimal: bool = False,
    budget: int | None = None,
) -> tuple[Path, list[int]]:
    """Run once, and return a path that repeats its choices, with the particles of each step.

    If ``optimal`` they are those of Theorem 1, within ``budget`` or else ``particles`` a step;
    otherwise as many as the generate loop asked for. Nothing in a run on the returned path depends
    on its own particles, so its Z-hat is unbiased.
    """
    first = run(path, rng, particles, **vars(settings))
    if first.log_evidence == -np.inf:
        raise ValueError("The pilot run ended with no particle of positive weight: give it more.")
    counts = [info.particles for info in first.history]
    if optimal:
        total = particles * len(counts) if budget is None else budget
        counts = _cautious_counts(increment_variances(first.history), total)
    following = dict(zip(first.positions[:-1], first.positions[1:], strict=True))
    replay = copy.copy(path)
    replay.advance = lambda n, *others: following[n]  # type: ignore[method-assign]
    return replay, counts


def _cautious_counts(variances: np.ndarray, budget: int) -> list[int]:
    """Return Theorem 1's particles for most of a budget, and an equal share of the rest.

    The theorem gives almost nothing to steps that a pilot found easy. It assumes independent
    particles; real ones remember, and a step through two of them would be felt in all later ones.
    An equal share of a tenth costs at most a ninth of V_min.
    """
    if not len(variances):
        return []
    equal = int(EQUAL_SHARE * budget / len(variances))
    return (optimal_counts(variances, budget - equal * len(variances)) + equal).tolist()


def spawn_generators(
    random_seed: int | Sequence[int] | np.random.Generator | None, chains: int
) -> list[np.random.Generator]:
    """Return one independent generator a chain, and one more for pilot runs."""
    if isinstance(random_seed, np.random.Generator):
        return random_seed.spawn(chains + 1)
    sequence = np.random.SeedSequence(random_seed)
    return [np.random.default_rng(child) for child in sequence.spawn(chains + 1)]


@functools.cache
def _blas_controller() -> ThreadpoolController:
    """Find the BLAS libraries once: it takes longer than a small run."""
    return ThreadpoolController()
