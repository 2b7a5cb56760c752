"""A run that begins at the draws of an earlier one: from the posterior of old data to that of all.

Each chain of old draws becomes a chain of particles. New data is tempered in, as far at a time as
the particles can follow; they are resampled and moved, and log p(new | old) comes from bridges over
the steps (:mod:`pymc_arm.estimation.ladder`). Its error is that of families: old draws that are
alike (copies, or neighbours in time) found one family together, and all of its descendants count as
one. So the finite number of old draws is in it, whether moves make particles forget or not.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_arm.algorithm.arm import iterate
from pymc_arm.algorithm.genealogy import Genealogy
from pymc_arm.algorithm.settings import Settings
from pymc_arm.algorithm.state import Run, State
from pymc_arm.estimation.bridge import Bridge, worth
from pymc_arm.estimation.carried import LARGEST_MEMORY
from pymc_arm.estimation.convergence import effective_sizes
from pymc_arm.estimation.estimate import Estimates, Evidence
from pymc_arm.estimation.ladder import bridge_ladder
from pymc_arm.estimation.modes import PRIOR_STARTS, search_modes
from pymc_arm.results import estimate_chains
from pymc_arm.running.chains import Chain
from pymc_arm.running.given import MOST_COLUMNS, Given, Part, cut_draws
from pymc_arm.running.processors import one_blas_thread
from pymc_arm.running.run import Outcome, bridge_mapper, describe_modes
from pymc_arm.running.summary import RunSummary

__all__ = ["carry_draws", "effective_number"]

# New data comes in until this share of the particles is effective. A bridge over a step is good to
# 1 / sqrt(particles) then; at 0.7 there are up to twice as many steps, each with a move.
THRESHOLD = 0.5
SETTINGS = Settings(threshold=THRESHOLD, max_rounds=0, resample_threshold=1.0)


@dataclass(frozen=True)
class _Followed:
    """A chain at the end of its path, the family of each particle, and what moves have left."""

    chain: Chain
    families: np.ndarray
    memory: float


def effective_number(given: Given) -> float:
    """Return how many independent draws the given ones are worth."""
    dimension = given.points.shape[2]
    some = np.unique(np.linspace(0, dimension - 1, MOST_COLUMNS).astype(int))
    sizes = effective_sizes(given.points[:, :, some])
    by_columns = float(np.nanmin(sizes)) if np.isfinite(sizes).any() else float(given.size)
    return min(by_columns, float(given.size))


def carry_draws(
    path: Any, given: Given, earlier: Evidence, rng: np.random.Generator, workers: int
) -> Outcome:
    """Carry draws of an old posterior to a new one.

    Parameters
    ----------
    path
        From the one to the other; see :class:`pymc_arm.models.update_path.UpdatePath`.
    given
        The draws.
    earlier
        log Z of the old posterior, with its error.
    rng
        For all chains, one stream each.
    workers
        How many chains run at the same time.
    """
    parts = [_with_copies(part) for part in cut_draws(given, effective_number(given))]
    generators = rng.spawn(len(parts))

    def follow(number: int) -> _Followed:
        return _follow(path, parts[number], earlier.log_evidence, generators[number])

    with one_blas_thread():
        followed: list[Any] = bridge_mapper(path, workers, len(parts))(follow, len(parts))
        chains = [found.chain for found in followed]
        modes = _search(path, chains)
    found = estimate_chains(chains)
    memory = float(np.nanmax([each.memory for each in followed]))
    survivors = sum(worth(each.families) for each in followed)
    renewed = memory <= LARGEST_MEMORY
    sizes = sum(len(part.points) for part in parts)
    added = found.evidence
    summary = RunSummary(
        draws=len(parts[0].points),
        chains=len(parts),
        allocation="adaptive",
        settings=SETTINGS,
        target_se=None,
        time_limit=None,
        ended_by="chains",
        complete=True,
        chains_started=len(parts),
        flat=tuple(getattr(path, "flat", ())),
        dimension=given.points.shape[2],
        start="draws",
        draws_from="particles",
        independent_draws=float(sizes if renewed else survivors),
        log_new_given_old=added.log_evidence - earlier.log_evidence,
        log_new_given_old_se=added.standard_error,
        previous_log_marginal_likelihood=earlier.log_evidence,
        previous_log_marginal_likelihood_se=earlier.standard_error,
        memory=memory,
        survivors=float(survivors),
        **modes,
    )
    return Outcome(chains, _add_earlier(found, earlier), summary)


def _add_earlier(found: Estimates, earlier: Evidence) -> Estimates:
    return replace(found, earlier=earlier)


def _with_copies(part: Part) -> Part:
    """Return a part in which draws that are copies of each other are of one family."""
    if part.blocks[-1] < len(part.blocks) - 1:  # blocks of draws that follow each other
        return part
    families = np.unique(part.points, axis=0, return_inverse=True)[1]
    return Part(part.points, families.reshape(-1))


def _follow(path: Any, part: Part, log_evidence: float, rng: np.random.Generator) -> _Followed:
    """Run one chain from its draws to the new posterior."""
    since, size = time.perf_counter(), len(part.points)
    shares = np.bincount(part.blocks) / size
    state = State(
        path.start,
        part.points,
        np.full(size, -np.log(size)),
        log_evidence,
        np.arange(size),
        Genealogy(part.blocks, 1 - float(shares @ shares)),
    )
    families, first, settled = [part.blocks], 0, 0.0
    history, positions = [], [state.position]
    for state, info in iterate(path, rng, state, SETTINGS):
        history.append(info)
        positions.append(state.position)
        if state.genealogy.settled != settled:  # families were founded anew
            first, settled = int(families[-1].max()) + 1, state.genealogy.settled
        families.append(first + state.genealogy.founders)
    moved = path.move(rng, state.position, state.particles)
    run = Run(state, tuple(history), tuple(positions))
    bridge = bridge_ladder(*path.rungs(run, moved.particles), families[-1], families)
    bridge = replace(bridge, log_evidence=log_evidence + bridge.log_evidence)
    draws = path.posterior(rng, moved.particles)
    seconds = time.perf_counter() - since
    founders = np.unique(families[-1], return_inverse=True)[1]
    chain = Chain(run, moved.particles, draws, seconds, founders, bridge)
    memory = [moved.autocorrelation, *(info.autocorrelation for info in history)]
    return _Followed(chain, founders, float(np.fmax.reduce(memory)))


def _search(path: Any, chains: Sequence[Chain]) -> dict[str, Any]:
    """Look for modes that the particles have missed, where one step was not enough."""
    clouds = [chain.particles for chain in chains]
    spaces = path.spaces(clouds[0])
    if not spaces or all(len(chain.run.history) == 1 for chain in chains):
        return {}
    bridges = [chain.refined for chain in chains if chain.refined is not None]
    log_evidence = float(np.median([found.log_evidence for found in bridges]))
    if not np.isfinite(log_evidence):
        return {}
    rng = np.random.default_rng(0)
    prior = path.initialize(rng, PRIOR_STARTS)[0]
    summits = search_modes(spaces[0], prior, path.join(clouds), log_evidence, rng)
    weighed: list[Bridge] = bridges
    return describe_modes(summits, weighed)
