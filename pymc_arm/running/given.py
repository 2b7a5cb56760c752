"""A run without exploring: bridges from q to posterior draws that were given.

Chains take the place of those that explore. A single one is cut in parts, one after another in
time; of many, several make a part. q is fitted to all parts but one and judged on that one, as in
refining (:mod:`pymc_arm.estimation.refine`). Draws that follow each other are alike: blocks of them
count as families do, so that the error of the bridge is that of batch means.
"""

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy

from pymc_arm.algorithm.genealogy import Genealogy
from pymc_arm.algorithm.path import Path
from pymc_arm.algorithm.state import Info, Run, State
from pymc_arm.errors import DrawsError
from pymc_arm.estimation.bridge import Bridge
from pymc_arm.estimation.convergence import effective_sizes, split_r_hat
from pymc_arm.estimation.estimate import pool_bridges
from pymc_arm.estimation.given import SEVERE_R_HAT
from pymc_arm.estimation.modes import Mode, search_modes
from pymc_arm.estimation.refine import FAIR_OVERLAP, refine_chains
from pymc_arm.estimation.spaces import Refinable
from pymc_arm.estimation.starts import survey_size
from pymc_arm.running.chains import Chain
from pymc_arm.running.processors import one_blas_thread
from pymc_arm.running.refining import (
    SMALLEST_CLOUD,
    bridge_mapper,
    describe_modes,
    draw_prior,
)
from pymc_arm.running.run import Outcome
from pymc_arm.running.summary import RunSummary

__all__ = ["Given", "Part", "bridge_draws", "cut_draws"]

# A single chain is cut in so many parts, and more chains than this share parts: each part costs a
# fit, and the error of their mean hardly gains from more than eight.
PARTS_OF_ONE = 4
MOST_PARTS = 8
# More draws than this, of all chains, or than so many a dimension, are thinned. Twenty draws of q
# for each make the error a few thousandths by then; twice as many draws take twice the time, and
# make it smaller by a third.
MOST_DRAWS = 4000
MOST_PER_DIMENSION = 10
# Blocks of so many autocorrelation times. The variance of batch means is low by about 1 / (2 times)
# of itself (AR(1)); more blocks than that would be few.
TIMES = 3
FEWEST_BLOCKS = 10
# More columns than this are not all looked at, as in results.py.
MOST_COLUMNS = 500
# Modes with this share of Z that hold next to none of the draws: those are somewhere else.
ELSEWHERE = 0.99
CHANCE = 1e-3


@dataclass(frozen=True)
class Given:
    """Posterior draws from elsewhere.

    Attributes
    ----------
    points
        (chain, draw, coordinate), in the space of a path.
    names
        Of the coordinates.
    divergences
        That the sampler has reported.
    independent
        How many independent draws they are worth by the way they were made; NaN if only their
        autocorrelation can tell.
    """

    points: np.ndarray
    names: Sequence[str]
    divergences: int = 0
    independent: float = np.nan

    @property
    def size(self) -> int:
        """The number of draws, of all chains."""
        return int(self.points.shape[0] * self.points.shape[1])

    @functools.cached_property
    def effective(self) -> float:
        """How many independent draws they are worth by their autocorrelation."""
        dimension = self.points.shape[2]
        some = np.unique(np.linspace(0, dimension - 1, MOST_COLUMNS).astype(int))
        sizes = effective_sizes(self.points[:, :, some])
        by_columns = float(np.nanmin(sizes)) if np.isfinite(sizes).any() else float(self.size)
        return min(by_columns, float(self.size))


@dataclass(frozen=True)
class Part:
    """Some draws that are judged together; those of one block may be alike."""

    points: np.ndarray
    blocks: np.ndarray


@runtime_checkable
class Charted(Protocol):
    """A path over other coordinates than those of the model."""

    def chart_points(self, points: np.ndarray) -> np.ndarray:
        """Return points of the model's coordinates as particles."""


def bridge_draws(
    path: Path,
    given: Given,
    rng: np.random.Generator,
    workers: int,
    within: Path | None = None,
    otherwise: Callable[[], Path | None] | None = None,
) -> Outcome:
    """Estimate log Z by bridges between given draws and densities fitted to the others.

    Parameters
    ----------
    path
        Whose last density has a space to fit in (:class:`~pymc_arm.estimation.spaces.Refinable`).
    given
        The draws.
    rng
        For draws of q.
    workers
        How many bridges are made at the same time.
    within
        The same posterior over other coordinates, in which to make the bridges
        (:class:`Charted`).
    otherwise
        Returns such coordinates, or None, where q fits badly in those of the model.

    Raises
    ------
    DrawsError
        If there are too few draws, or nearly all of Z is where they are not.
    """
    started = time.perf_counter()
    assert isinstance(path, Refinable)
    convergence = _convergence(path, given)
    parts = cut_draws(given, convergence["given_ess"])
    with one_blas_thread():
        mixed = convergence["given_r_hat"] <= SEVERE_R_HAT
        place: Any = path if within is None else within
        own = parts if within is None else _charted(within, parts)
        bridges = _fit_and_bridge(place, own, rng, workers)
        if otherwise is not None and not _good(bridges, own):
            within = otherwise()
            if within is not None:
                other = _charted(within, parts)
                again = _fit_and_bridge(within, other, rng, workers)
                if _least_overlap(again) > _least_overlap(bridges):
                    place, own, bridges = within, other, again
        bridges, modes = _search(place, own, bridges, mixed, rng, workers)
    bridges = [_count_dependence(b, given) for b in bridges]
    recorded = describe_modes(modes, bridges)
    _refuse_elsewhere(modes, recorded.get("repaired_share", 0.0))
    seconds = (time.perf_counter() - started) / len(parts)
    chains = [_as_chain(path, p, b, seconds) for p, b in zip(parts, bridges, strict=True)]
    summary = summarize_parts(
        path,
        given,
        parts,
        allocation=None,
        settings=None,
        ended_by="bridge",
        draws_from="given",
        bridged=True,
        given_chains=given.points.shape[0],
        given_draws=given.points.shape[1],
        divergences=given.divergences,
        **convergence,
        **_shift(own, bridges, given, convergence["given_ess"]),
        **recorded,
    )
    estimates = pool_bridges(bridges, repaired="repaired_modes" in recorded)
    return Outcome(chains, estimates, summary)


def summarize_parts(path: Path, given: Given, parts: Sequence[Part], **own: Any) -> RunSummary:
    """Return the summary of a run that began at given draws, with what is the run's own."""
    return RunSummary(
        draws=len(parts[0].points),
        chains=len(parts),
        target_se=None,
        time_limit=None,
        complete=True,
        chains_started=len(parts),
        flat=tuple(getattr(path, "flat", ())),
        endless=tuple(getattr(path, "endless", ())),
        dimension=given.points.shape[2],
        fewest_particles=0,
        start="draws",
        **own,
    )


def _convergence(path: Refinable, given: Given) -> dict[str, Any]:
    """Return R-hat, whose it is, and the smallest effective size; the density is a column too."""
    chains, draws, dimension = given.points.shape
    some = np.unique(np.linspace(0, dimension - 1, MOST_COLUMNS).astype(int))
    heights = path.log_density(given.points.reshape(-1, dimension)).reshape(chains, draws, 1)
    table = np.concatenate([given.points[:, :, some], heights], axis=2)
    names = [*(given.names[k] for k in some), "the log-density"]
    r_hat, effective = split_r_hat(table), effective_sizes(table)
    if np.isnan(r_hat).all():
        raise DrawsError(
            f"The {chains * draws} draws are all the same: they are no draws of a posterior."
        )
    worst = int(np.nanargmax(r_hat))
    return {
        "given_r_hat": float(r_hat[worst]),
        "given_r_hat_variable": names[worst],
        "given_ess": float(np.fmin(np.nanmin(effective), given.independent)),
    }


def cut_draws(given: Given, effective: float) -> list[Part]:
    """Return the parts that take the place of chains."""
    chains, draws, dimension = given.points.shape
    if given.size < 2 * SMALLEST_CLOUD or draws < 4:
        raise DrawsError(
            f"There are {given.size} draws, {draws} of each chain: too few to fit a density to a "
            f"part of them and to judge it on the rest. Give {2 * SMALLEST_CLOUD} at least, and "
            "better 1000 of each of four chains."
        )
    most = max(MOST_DRAWS, MOST_PER_DIMENSION * dimension) // chains
    kept = min(draws, max(most, SMALLEST_CLOUD))
    points = given.points[:, np.linspace(0, draws - 1, kept).astype(int)]
    length = _block_length(chains * kept / effective, kept)
    largest = min(given.size // SMALLEST_CLOUD, MOST_PARTS)
    if chains == 1:
        pieces = np.array_split(points[0], min(PARTS_OF_ONE, largest))
        return [Part(piece, np.arange(len(piece)) // length) for piece in pieces]
    groups = np.array_split(np.arange(chains), min(chains, largest))
    parts = []
    for group in groups:
        own = np.arange(kept) // length
        blocks = np.concatenate([k * (own[-1] + 1) + own for k in range(len(group))])
        parts.append(Part(np.concatenate(points[group]), blocks))
    return parts


def _block_length(autocorrelation_time: float, draws: int) -> int:
    """Return how many draws in a row make a block, one if they are independent."""
    if autocorrelation_time <= 1:
        return 1
    longest = max(1, draws // FEWEST_BLOCKS)
    return int(np.clip(np.ceil(TIMES * autocorrelation_time), 1, longest))


def _charted(path: Path, parts: Sequence[Part]) -> list[Part]:
    """Return parts in the coordinates of a path."""
    assert isinstance(path, Charted)
    return [Part(path.chart_points(part.points), part.blocks) for part in parts]


def _fit_and_bridge(
    path: Any, parts: Sequence[Part], rng: np.random.Generator, workers: int
) -> list[Bridge]:
    """Return a bridge for each part."""
    clouds, blocks = [part.points for part in parts], [part.blocks for part in parts]
    map_fn = bridge_mapper(path, workers, len(parts))
    return refine_chains(path.spaces(clouds[0]), clouds, rng.spawn(len(parts)), blocks, map_fn)


def _good(bridges: Sequence[Bridge], parts: Sequence[Part]) -> bool:
    """Whether q stands for the draws of each part."""
    return all(
        b.represents(len(p.points)) and b.overlap > FAIR_OVERLAP
        for b, p in zip(bridges, parts, strict=True)
    )


def _least_overlap(bridges: Sequence[Bridge]) -> float:
    return min(b.overlap if b.trustworthy else 0.0 for b in bridges)


def _search(
    path: Any,
    parts: Sequence[Part],
    bridges: list[Bridge],
    mixed: bool,
    rng: np.random.Generator,
    workers: int,
) -> tuple[list[Bridge], list[Mode]]:
    """Return the bridges that a search for modes leaves, and what it has found.

    The search compares modes with log Z, so the first bridges know none of them; second ones do,
    where draws have missed one or q does not fit well. Chains that have not mixed have arbitrary
    shares of each mode: then none of them counts as found, and draws of q weigh them all.
    """
    # Where a chain is alone in its mode, q does not meet it, and the bridge may be off by hundreds.
    usable = [b for b in bridges if b.trustworthy] or bridges
    log_evidence = float(np.median([b.log_evidence for b in usable]))
    if not np.isfinite(log_evidence) or getattr(path, "searched", False):
        return bridges, []
    clouds, blocks = [part.points for part in parts], [part.blocks for part in parts]
    spaces = path.spaces(clouds[0])
    # The same starting points in every call: whether a mode is found is no matter of luck.
    fixed = np.random.default_rng(0)
    prior = draw_prior(path, survey_size(spaces[0].work), fixed)
    cloud = np.concatenate(clouds)
    modes = search_modes(spaces[0], prior, cloud, log_evidence, fixed, trajectories=True)
    known = modes if mixed else [replace(mode, found_share=0.0) for mode in modes]
    if any(mode.missed for mode in known) or (known and not _good(bridges, parts)):
        generators = rng.spawn(len(parts))
        map_fn = bridge_mapper(path, workers, len(parts))
        bridges = refine_chains(spaces, clouds, generators, blocks, map_fn, known, log_evidence)
    return bridges, known


def _count_dependence(bridge: Bridge, given: Given) -> Bridge:
    """Return a bridge whose error counts draws that are alike but do not follow each other."""
    more = max(given.size / given.independent, 1.0) - 1.0 if given.independent > 0 else 0.0
    return replace(bridge, variance=bridge.variance + 2 * more * bridge.cloud_variance)


def _refuse_elsewhere(modes: Sequence[Mode], share: float) -> None:
    """Refuse draws that have next to none of Z; ``share`` is that of modes they have missed."""
    missed = [mode for mode in modes if mode.missed]
    if share < ELSEWHERE or not missed:
        return
    heaviest = max(missed, key=lambda mode: mode.log_mass)
    raise DrawsError(
        "The draws are not where the posterior of this model is: a search has found a mode with a "
        f"mass of about exp({heaviest.log_mass:.1f}), {100 * share:.1f} % of Z, that holds next to "
        "none of the draws. They are of another model or of other data, or the sampler got stuck: "
        "sample this model again, or call pymc_arm.sample."
    )


def _shift(
    parts: Sequence[Part], bridges: Sequence[Bridge], given: Given, effective: float
) -> dict[str, Any]:
    """Return the largest difference in means between the draws and draws of q by weight.

    It is in standard deviations, together with what chance explains of it; nothing where q is not
    good enough to tell.
    """
    if any(b.particles is None for b in bridges):
        return {}
    drawn = np.concatenate([b.particles for b in bridges])
    own = np.concatenate([part.points for part in parts])
    worth = sum(1 / (1 / len(b.particles) + 1 / b.effective_draws) for b in bridges)
    scale = np.maximum(drawn.std(axis=0), 1e-300)
    shifts = np.abs(drawn.mean(axis=0) - own.mean(axis=0)) / scale
    worst = int(np.argmax(shifts))
    level = CHANCE / (2 * len(shifts))
    limit = float(scipy.special.ndtri(1 - level)) * np.sqrt(1 / worth + 1 / max(effective, 1.0))
    return {
        "shift": float(shifts[worst]),
        "shift_limit": float(limit),
        "shift_variable": given.names[worst],
    }


def _as_chain(path: Path, part: Part, found: Bridge, seconds: float) -> Chain:
    """Return a part as a chain of a single step, from q to the posterior."""
    size = len(part.points)
    info = Info(
        introduced="bridge from q",
        effective_fraction=found.overlap,
        first_effective_fraction=found.overlap,
        particles=size,
        rounds=0,
        log_increment=found.log_evidence,
        increment_variance=1 / found.overlap - 1 if found.overlap > 0 else np.inf,
        predicted_variance=found.variance,
        log_evidence=found.log_evidence,
        acceptance_rate=np.nan,
        kernel_calls=0,
        resampled=False,
        distinct_fraction=1.0,
    )
    state = State(
        path.start,
        part.points,
        np.full(size, -np.log(size)),
        np.nan,
        np.arange(size),
        Genealogy.of(size),
    )
    run = Run(state, (info,), (path.start,))
    return Chain(run, part.points, {}, seconds, part.blocks, found)
