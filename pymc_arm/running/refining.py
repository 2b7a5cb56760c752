"""What the finished chains of a run amount to: a search for modes, and a bridge for each chain."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import Any

import numpy as np

from pymc_arm.algorithm.path import Path
from pymc_arm.algorithm.resampling import log_mean_exp
from pymc_arm.estimation.bridge import Bridge
from pymc_arm.estimation.estimate import stands
from pymc_arm.estimation.ladder import Ladder, bridge_ladder, weigh_draws
from pymc_arm.estimation.modes import MOST_MODES, Mode, search_modes
from pymc_arm.estimation.refine import NEGLIGIBLE_SHARE, MapFunction, refine_chains
from pymc_arm.estimation.spaces import (
    Hinted,
    Refinable,
    RefinementSpace,
    Searchable,
    StartedElsewhere,
    Symmetric,
)
from pymc_arm.estimation.starts import survey_size
from pymc_arm.results import estimate_chains
from pymc_arm.running.chains import Chain
from pymc_arm.running.forked import can_fork, map_forked
from pymc_arm.running.placement import Placement, placement_of

__all__ = ["bridge_mapper", "describe_modes", "draw_prior", "refine_run"]

# Fewer draws than this can't tell how well an approximation fits.
SMALLEST_CLOUD = 50
# Where the search has found nearly as many modes as it keeps, there may be many more: those that
# particles have missed are not repaired then. Six coordinates with two places each have 64.
CROWDED = 0.9


def refine_run(
    path: Path,
    chains: list[Chain],
    generators: Sequence[np.random.Generator],
    workers: int,
    *,
    bridged: bool = True,
) -> tuple[list[Chain], dict[str, Any]]:
    """Look for modes, and add a bridge to each chain, if the path has a continuous space for it.

    Returns the chains, and what the search has found. Without bridges a mode that particles have
    missed is reported, and not repaired.
    """
    if any(chain.particles is None for chain in chains):
        return chains, {}
    clouds = [chain.particles for chain in chains]
    if isinstance(path, Searchable):
        positions = chains[0].run.positions
        return chains, path.search(clouds, positions, estimate_chains(chains).sampling)
    if not isinstance(path, Refinable):
        return chains, {}
    spaces = path.spaces(clouds[0])
    if not spaces or path.count(clouds[0]) < SMALLEST_CLOUD:
        return chains, {}
    founders = [chain.founders for chain in chains]
    map_fn = bridge_mapper(path, workers, len(chains))
    log_evidence = log_mean_exp(np.array([chain.log_evidence for chain in chains]))
    searched = isinstance(path, Ladder) and path.searched
    modes = [] if searched else _search(path, spaces[0], clouds, log_evidence)
    found: dict[str, Any] = {"modes_found": 1} if searched else {}
    if not bridged:
        return chains, describe_modes(modes, ()) | found
    if _needs_no_fit(path, chains, clouds[0]) and not any(s.missed for s in modes):
        assert isinstance(path, Ladder)
        bridges = _over_the_steps(path, chains)
        if stands(bridges):
            refined = [replace(c, refined=b) for c, b in zip(chains, bridges, strict=True)]
            return refined, describe_modes(modes, bridges) | found
    bridges = refine_chains(spaces, clouds, generators, founders, map_fn, modes, log_evidence)
    if not stands(bridges) and isinstance(path, Ladder):
        over = _over_the_steps(path, chains)
        if stands(over):
            pairs = zip(over, bridges, strict=True)
            bridges = [replace(f, modes_share=b.modes_share) for f, b in pairs]
    refined = [replace(c, refined=b) for c, b in zip(chains, bridges, strict=True)]
    return refined, describe_modes(modes, bridges) | found


def _search(
    path: Path, space: RefinementSpace, clouds: list[Any], log_evidence: float
) -> list[Mode]:
    """Look for modes, of which particles may have missed some."""
    # The same starting points in every run: whether a mode is found is no matter of luck.
    rng = np.random.default_rng(0)
    prior = draw_prior(path, survey_size(space.work), rng)
    score = path.score if isinstance(path, Ladder) else None
    trajectories = isinstance(path, StartedElsewhere)
    likely = path.likely_particles if isinstance(path, Hinted) else None
    cloud = path.join(clouds)
    return search_modes(
        space,
        prior,
        cloud,
        log_evidence,
        rng,
        score,
        trajectories=trajectories,
        likely=likely,
        everywhere=path.everywhere if isinstance(path, Symmetric) else None,
    )


def _needs_no_fit(path: Path, chains: Sequence[Chain], particles: Any) -> bool:
    """Whether bridges over the steps are all there is to do.

    That is so where q fits, and where a chain has too few families for another density to be fitted
    to them. A model of 777 coordinates lost 19 of 142 CPU seconds in trying.
    """
    if not isinstance(path, Ladder) or path.direct:
        return isinstance(path, Ladder)
    points = path.continuous(particles) if isinstance(path, Refinable) else None
    families = min(len(np.unique(chain.founders)) for chain in chains)
    return points is not None and families < 2 * points.shape[1]


def draw_prior(path: Path, size: int, rng: np.random.Generator) -> Any:
    """Return prior draws, wherever the path itself starts."""
    if isinstance(path, StartedElsewhere):
        return path.prior_particles(rng, size)
    return path.initialize(rng, size)[0]


def _over_the_steps(path: Ladder, chains: Sequence[Chain]) -> list[Bridge]:
    """Return bridges over every step of the chains."""
    if path.direct and all(len(chain.run.history) == 1 for chain in chains):
        return [weigh_draws(np.array(chain.run.history[0].log_ratios)) for chain in chains]
    return [
        bridge_ladder(*path.rungs(chain.run, chain.particles), chain.founders) for chain in chains
    ]


def bridge_mapper(path: Path, workers: int, count: int) -> MapFunction:
    """Return what makes so many bridges of a path at the same time, where that suits it."""
    placement = placement_of(path)
    workers = 1 if placement is Placement.SERIAL else min(workers, max(count, 2))

    def map_fn(function: Callable[[int], Bridge], count: int) -> list[Bridge]:
        if workers > 1 and placement.forks and can_fork():
            return map_forked(function, count, workers)
        # Each thread keeps the deadline of this one.
        contexts = [copy_context() for _ in range(count)]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(lambda n: contexts[n].run(function, n), range(count)))

    return map_fn


def describe_modes(modes: Sequence[Mode], bridges: Sequence[Bridge]) -> dict[str, Any]:
    """Return what is to be recorded of modes: those found, repaired, or missed for good."""
    missed = [mode for mode in modes if mode.missed]
    found: dict[str, Any] = {"modes_found": len(modes)}
    if not missed:
        return found
    shares = np.array([bridge.modes_share for bridge in bridges])
    if not len(shares) or np.isnan(shares).any() or len(modes) >= CROWDED * MOST_MODES:
        worst = max(missed, key=lambda mode: mode.log_mass)
        return found | {
            "missed_log_mass": worst.log_mass,
            "missed_expected_share": worst.expected_share,
            "missed_found_share": worst.found_share,
        }
    if np.max(shares) >= NEGLIGIBLE_SHARE:
        found |= {"repaired_modes": len(missed), "repaired_share": float(np.mean(shares))}
    return found
