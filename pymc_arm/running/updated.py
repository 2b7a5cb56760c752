"""A run that begins at the draws of an earlier one: from the posterior of old data to that of all.

There are four methods, and the first that suffices is taken.

1. *Weights.* Old draws are weighed by the likelihood of the new rows, and resampled. It takes an
   evaluation of the new rows at each draw, and no other. Copies are left, which the next update
   knows of, so that the effective number of draws falls until they have to be renewed.
2. *Moments.* All draws are shifted and stretched alike, so that weights leave more of them
   (:mod:`pymc_arm.running.weighted`). It takes some evaluations of all rows at each draw.
3. *A density q* is fitted to the weighted draws, and bridges to it give log Z of all data anew, and
   new draws, as in refining (:mod:`pymc_arm.estimation.refine`).
4. *Moves.* New data is tempered in, as far at a time as the particles can follow; they are
   resampled and moved, and log p(new | old) comes from bridges over the steps
   (:mod:`pymc_arm.estimation.ladder`).

Errors are those of families: old draws that are alike (copies, or neighbours in time) found one
family, and all of its descendants count as one. So the finite number of old draws is in the error,
whether moves make particles forget or not.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pymc_arm.algorithm.arm import iterate
from pymc_arm.algorithm.genealogy import Genealogy
from pymc_arm.algorithm.settings import Settings
from pymc_arm.algorithm.state import Run, State
from pymc_arm.errors import DrawsError
from pymc_arm.estimation.bridge import worth
from pymc_arm.estimation.estimate import Evidence, pool_bridges, stands
from pymc_arm.estimation.ladder import bridge_ladder
from pymc_arm.estimation.modes import search_modes
from pymc_arm.estimation.refine import refine_chains
from pymc_arm.estimation.starts import survey_size
from pymc_arm.estimation.updated import LARGEST_MEMORY
from pymc_arm.results import estimate_chains
from pymc_arm.running.chains import Chain
from pymc_arm.running.given import Given, Part, cut_draws, summarize_parts
from pymc_arm.running.processors import one_blas_thread
from pymc_arm.running.refining import bridge_mapper, describe_modes, draw_prior
from pymc_arm.running.renewal import Renewal
from pymc_arm.running.run import Outcome
from pymc_arm.running.weighted import (
    Start,
    UpdatedChains,
    by_moments,
    by_weights,
    resample,
    single_step,
)

__all__ = ["carry_draws"]

# Fewer independent draws than this, or than so many a dimension, are not enough to fit q to.
FEWEST_FITTED, FEWEST_PER_DIMENSION = 100, 5
# With moves, new data comes in until this share of the particles is effective. A bridge over a step
# is good to 1 / sqrt(particles) then; at 0.7 there are up to twice as many steps.
THRESHOLD = 0.5
# Ways that keep the draws, so that errors of one update and the next are not independent.
KEEPING = ("weights", "moments")
SETTINGS = Settings(threshold=THRESHOLD, max_rounds=0, resample_threshold=1.0)


def carry_draws(
    path: Any,
    given: Given,
    earlier: Evidence,
    rng: np.random.Generator,
    workers: int,
    renewal: Renewal | None = None,
    whole: Callable[[], Any] | None = None,
) -> Outcome:
    """Carry draws of an old posterior to a new one.

    Parameters
    ----------
    path
        From the one to the other; see :class:`pymc_arm.models.update_path.UpdatePath`. One that has
        densities and no moves (:class:`pymc_arm.models.quick_path.QuickPath`) needs ``whole``.
    given
        The draws.
    earlier
        log Z of the old posterior, with its error.
    rng
        For all chains, one stream each.
    workers
        How many chains run at the same time.
    renewal
        The last result whose draws were new; None if rows can't be told apart.
    whole
        Returns the path with moves, where weights are not enough.

    Raises
    ------
    DrawsError
        If the new data are impossible at all of the draws.
    """
    effective = given.effective
    parts = [_with_copies(part) for part in cut_draws(given, effective)]
    ratios = [path.log_ratio(part.points) for part in parts]
    if whole is not None and not all(np.isfinite(ratio).all() for ratio in ratios):
        path, whole = whole(), None  # which tells an overflow from a density of zero
        ratios = [path.log_ratio(part.points) for part in parts]
    if not any(np.isfinite(ratio).any() for ratio in ratios):
        raise DrawsError(
            f"The new data are impossible at each of the {given.size} old draws (the density of "
            f"{path.impossible(given.points[0, 0])!r} is zero): call pymc_arm.sample(model), which "
            "starts afresh."
        )
    size = sum(len(part.points) for part in parts)
    independent = float(np.fmin(min(effective, size), given.independent))
    known = given.independent if given.independent > 0 else size
    start = Start(parts, ratios, earlier.log_evidence, independent, max(size / known, 1.0))
    if renewal is not None and np.isnan(renewal.independent):
        renewal = replace(renewal, independent=independent)
    with one_blas_thread():
        found = by_weights(path, start, rng) if start.suffices else None
        if found is None and not path.layout.discrete.any():
            found = by_moments(path, start, rng)
        if found is None and whole is not None:
            path = whole()
        found = found or _by_q(path, start, rng, workers)
        found = found or _by_moves(path, start, rng, workers)
        modes = _search(path, found)
    estimates, record = found.estimates, {}
    if found.updated_by != "q":
        before = _with_covariance(earlier, found, renewal)
        estimates = replace(estimates, earlier=before)
        if renewal is not None and found.updated_by in KEEPING:
            total = float(np.hypot(before.standard_error, estimates.own_error))
            record = renewal.record(total, matched=found.updated_by == "moments")
    evidence = estimates.evidence
    error = estimates.own_error
    if found.updated_by == "q":
        error = float(np.hypot(error, earlier.standard_error))
    summary = summarize_parts(
        path,
        given,
        parts,
        allocation="adaptive",
        settings=SETTINGS,
        ended_by="chains",
        draws_from="q" if found.updated_by == "q" else "particles",
        independent_draws=found.independent,
        updated_by=found.updated_by,
        log_new_given_old=evidence.log_evidence - earlier.log_evidence,
        log_new_given_old_se=error,
        previous_log_marginal_likelihood=earlier.log_evidence,
        previous_log_marginal_likelihood_se=earlier.standard_error,
        memory=found.memory,
        survivors=found.survivors,
        **record,
        **modes,
    )
    return Outcome(found.chains, estimates, summary)


def _with_covariance(earlier: Evidence, found: UpdatedChains, renewal: Renewal | None) -> Evidence:
    """Return the old log Z with what its error has in common with that of an update."""
    if renewal is None or found.updated_by not in KEEPING:
        return earlier
    own = found.estimates.own_error
    if found.updated_by == "moments" or renewal.matched:
        total = renewal.sum_of_errors(own)
    else:
        ratios = np.concatenate(found.log_ratios)
        if renewal.updates:  # data that came in before count as well
            particles = np.concatenate([chain.particles for chain in found.chains])
            ratios = renewal.log_ratio(particles)
        total = renewal.variance(ratios, found.estimates.evidence.log_evidence)
    rest = total - own**2
    return replace(earlier, standard_error=float(np.sqrt(max(earlier.standard_error**2, rest))))


def _with_copies(part: Part) -> Part:
    """Return a part in which draws that are copies of each other are of one family."""
    if part.blocks[-1] < len(part.blocks) - 1:  # blocks of draws that follow each other
        return part
    families = np.unique(part.points, axis=0, return_inverse=True)[1]
    return Part(part.points, families.reshape(-1))


def _by_q(path: Any, start: Start, rng: np.random.Generator, workers: int) -> UpdatedChains | None:
    """Bridge the weighted draws to densities fitted to them, if those can stand for them."""
    left = start.independent * start.effective_fraction
    points = start.parts[0].points
    spaces = path.spaces(points)
    if not spaces or left < max(FEWEST_FITTED, FEWEST_PER_DIMENSION * points.shape[1]):
        return None
    since, count = time.perf_counter(), len(start.parts)
    indices = [resample(rng, ratio) for ratio in start.log_ratios]
    clouds = [part.points[own] for part, own in zip(start.parts, indices, strict=True)]
    families = [part.blocks[own] for part, own in zip(start.parts, indices, strict=True)]
    families = [np.unique(own, return_inverse=True)[1] for own in families]
    map_fn = bridge_mapper(path, workers, count)
    bridges = refine_chains(spaces, clouds, rng.spawn(count), families, map_fn)
    more = start.dependence - 1
    bridges = [replace(b, variance=b.variance + 2 * more * b.cloud_variance) for b in bridges]
    if not stands(bridges) or any(b.particles is None for b in bridges):
        return None
    each = [1 / (1 / len(b.particles) + 1 / b.effective_draws) for b in bridges]
    seconds, chains = (time.perf_counter() - since) / count, []
    for bridge, ratio, own in zip(bridges, start.log_ratios, rng.spawn(count), strict=True):
        founders = np.arange(len(bridge.particles))
        chain = single_step(path, bridge.particles, founders, bridge, ratio, start.log_evidence)
        draws = path.posterior(own, bridge.particles)
        chains.append(replace(chain, draws=draws, seconds=seconds))
    independent = min(float(sum(each)), float(start.size))
    return UpdatedChains(chains, pool_bridges(bridges), "q", independent, left)


def _by_moves(path: Any, start: Start, rng: np.random.Generator, workers: int) -> UpdatedChains:
    """Temper the new data in, with a move after each step."""
    count = len(start.parts)
    generators = rng.spawn(count)

    def follow(number: int) -> tuple[Chain, float]:
        return _follow(path, start.parts[number], start, generators[number])

    map_fn: Any = bridge_mapper(path, workers, count)
    followed = map_fn(follow, count)
    chains, memories = [chain for chain, _ in followed], [memory for _, memory in followed]
    memory = float(np.fmax.reduce(memories))
    survivors = sum(worth(chain.founders) for chain in chains)
    renewed = memory <= LARGEST_MEMORY
    independent = float(start.size) if renewed else min(survivors, start.independent)
    return UpdatedChains(chains, estimate_chains(chains), "moves", independent, survivors, memory)


def _follow(path: Any, part: Part, start: Start, rng: np.random.Generator) -> tuple[Chain, float]:
    """Run one chain from its draws to the new posterior; also return what moves have left."""
    since, size = time.perf_counter(), len(part.points)
    shares = np.bincount(part.blocks) / size
    first_state = state = State(
        path.start,
        part.points,
        np.full(size, -np.log(size)),
        start.log_evidence,
        np.arange(size),
        Genealogy(part.blocks, 1 - float(shares @ shares)),
    )
    families, first, settled = [part.blocks], 0, 0.0
    history, positions = [], [state.position]
    for state, info in iterate(path, rng, first_state, SETTINGS):
        history.append(info)
        positions.append(state.position)
        if state.genealogy.settled != settled:  # families were founded anew
            first, settled = int(families[-1].max()) + 1, state.genealogy.settled
        families.append(first + state.genealogy.founders)
    moved = path.move(rng, state.position, state.particles)
    run = Run(state, tuple(history), tuple(positions))
    betas, ratios = path.rungs(run, moved.particles)
    bridge = bridge_ladder(betas, ratios, families[-1], families)
    bridge = replace(
        bridge,
        log_evidence=start.log_evidence + bridge.log_evidence,
        variance=start.dependence * bridge.variance,
    )
    draws = path.posterior(rng, moved.particles)
    founders = np.unique(families[-1], return_inverse=True)[1]
    seconds = time.perf_counter() - since
    chain = Chain(run, moved.particles, draws, seconds, founders, bridge)
    memory = [moved.autocorrelation, *(info.autocorrelation for info in history)]
    return chain, float(np.fmax.reduce(memory))


def _search(path: Any, found: UpdatedChains) -> dict[str, Any]:
    """Look for modes that the draws have missed, where weights were not enough."""
    if found.updated_by in KEEPING:
        return {}
    clouds = [chain.particles for chain in found.chains]
    spaces = path.spaces(clouds[0])
    log_evidence = found.estimates.evidence.log_evidence
    if not spaces or not np.isfinite(log_evidence):
        return {}
    # The same starting points in every call: whether a mode is found is no matter of luck.
    rng = np.random.default_rng(0)
    prior = draw_prior(path, survey_size(spaces[0].work), rng)
    found_modes = search_modes(spaces[0], prior, path.join(clouds), log_evidence, rng)
    return describe_modes(found_modes, [c.refined for c in found.chains if c.refined is not None])
