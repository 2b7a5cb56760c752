"""Gaussian process classification as a path: the paper's section 4 and appendix A.

Variables come in one at a time, each with its label. Labels are absorbed (u_i = y_i z_i or
y_i x_i), so that every label is +1. The smooth step is an exact integral and the augment step an
exact draw in both representations, so that the only approximation is the particles themselves.
"""

import threading
from collections.abc import Sequence as Indices
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import log_ndtr, ndtri_exp

from pymc_arm.algorithm.path import Moved, Path, Smoothed
from pymc_arm.arguments import check_choice, check_count
from pymc_arm.families.gpc.ep import Sites, expectation_propagation, log_site_mass
from pymc_arm.families.gpc.kernels import predict, sweep_tiles
from pymc_arm.families.gpc.microkernel import TILE_BYTES
from pymc_arm.families.gpc.precision import GrowingPrecision
from pymc_arm.families.gpc.sequence import (
    build_sequence,
    informative_order,
    reorder_sites,
    sites_on_z,
)
from pymc_arm.families.gpc.validation import (
    check_covariance,
    check_labels,
    check_mean,
    factorize,
)
from pymc_arm.families.philox import draw_key
from pymc_arm.families.threads import SharingThreads
from pymc_arm.running.placement import Placement
from pymc_arm.running.processors import one_blas_thread

__all__ = ["GPCPath"]

# Below so many multiplications a sweep is over before a second thread has woken up.
SMALLEST_SHARED_SWEEP = 2_000_000
# From so many variables on, matrices are large enough to be factorised by several threads, and too
# large for every chain to have its own S: chains run one after another.
SHARED_BLAS = 2000


class GPCPath(Path):
    """The sequence of a Gaussian process classifier with probit link, p(y_i | x_i) = Phi(y_i x_i).

    Particles are arrays (n, R): the particle index is the fastest in memory, as the sweeps want it.

    Parameters
    ----------
    covariance
        K, positive definite. No jitter is added.
    labels
        One label per row of K: 0/1, booleans or -1/+1.
    mean
        Prior mean of the process, a number or a vector.
    representation
        ``"z"`` integrates the process out (eq:gpc), ``"x"`` samples it (eq:gpc-x) and needs
        quantiles of the normal distribution in every step of a sweep.
    kernel
        ``"slice"`` is the paper's step (eq:slice), ``"overrelaxed"`` replaces its second uniform
        number by almost a reflection.
    relaxation
        d of the over-relaxed step, between 0 (a reflection) and 1 (a fresh draw).
    sweeps
        Gibbs sweeps in one move.
    lookahead
        ``"ep"`` lets every f_n know the labels to come through their EP sites; None is the paper's
        sequence, which does not use them.
    order
        In which order variables come in: ``"informative"`` (see
        :func:`~pymc_arm.families.gpc.sequence.informative_order`), ``"random"`` as in the paper,
        ``"given"``, or the indices themselves. Data sorted by label should not be taken as given.
    random_seed
        For ``order="random"``.
    dtype
        Type of particles and sweeps, float32 or float64; by default float32 for z and float64
        for x, whose precision matrix may be far worse conditioned. S is grown in float64 always.
    threads
        Threads that share a sweep; by default all cores. The result does not depend on it.
    name
        Name of the latent variable.
    unwhitening
        B, when the model's free variable is v and the process is f = offset + B v. Draws of v
        are then what :meth:`posterior` returns.
    offset
        The offset; without B the free variable is v = f - offset.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_arm import run
    >>> from pymc_arm.families.gpc import GPCPath
    >>> path = GPCPath([[4.0, 3.0], [3.0, 4.0]], [True, True], order="given")
    >>> [path.describe(n) for n in (1, 2)]
    ['f[0]', 'f[1]']
    >>> exact = np.log(1 / 4 + np.arcsin(3 / 5) / (2 * np.pi))
    >>> found = run(path, np.random.default_rng(1), 10_000).log_evidence
    >>> bool(abs(found - exact) < 0.02)
    True
    """

    def __init__(
        self,
        covariance: Any,
        labels: Any,
        *,
        mean: Any = 0.0,
        representation: Literal["z", "x"] = "z",
        kernel: Literal["overrelaxed", "slice"] = "overrelaxed",
        relaxation: float = 0.05,
        sweeps: int = 1,
        lookahead: Literal["ep"] | None = "ep",
        order: Literal["informative", "given", "random"] | Indices[int] = "informative",
        random_seed: Any = None,
        dtype: Any = None,
        threads: int | None = None,
        name: str = "f",
        unwhitening: np.ndarray | None = None,
        offset: np.ndarray | float = 0.0,
    ) -> None:
        check_choice("representation", representation, ("z", "x"))
        check_choice("kernel", kernel, ("overrelaxed", "slice"))
        check_choice("lookahead", lookahead, (None, "ep"))
        if not 0 < relaxation <= 1:
            raise ValueError(f"relaxation={relaxation} must be above 0 and at most 1.")
        check_count("sweeps", sweeps)
        self._pool = SharingThreads(threads)
        natural = np.float32 if representation == "z" else np.float64
        real = np.dtype(natural if dtype is None else dtype)
        check_choice("dtype", real.name, ("float32", "float64"))

        self.covariance = check_covariance(covariance)
        size = len(self.covariance)
        self.labels = check_labels(labels, size)
        self.mean = check_mean(mean, size)
        factorize(self.covariance)
        self.name = name
        self.length: int = size
        self.representation = representation
        self.width = relaxation if kernel == "overrelaxed" else 0.0
        self.sweeps = int(sweeps)
        self.dtype = real.type
        self.threads = self._pool.threads
        self.unwhitening = unwhitening
        self.offset = offset

        absorbed = self.covariance * (self.labels[:, None] * self.labels)
        absorbed_mean = self.mean * self.labels
        self.sites: Sites | None = None
        if lookahead == "ep":
            with _blas_threads(size):
                self.sites = expectation_propagation(absorbed, absorbed_mean)
        self.order = _resolve_order(order, self.covariance, self.sites, random_seed)
        absorbed = absorbed[np.ix_(self.order, self.order)]
        sites = None if self.sites is None else reorder_sites(self.sites, self.order)
        if representation == "z":
            sites = None if sites is None else sites_on_z(sites)
            absorbed.flat[:: size + 1] += 1
        with _blas_threads(size):
            factor = factorize(absorbed, "K + I" if representation == "z" else "K")
            self.sequence = build_sequence(factor, absorbed_mean[self.order], sites)
        self.placement = Placement.SERIAL if size >= SHARED_BLAS else Placement.THREADS
        self._prepare_workspace()

    def _prepare_workspace(self) -> None:
        self._workspace = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_workspace"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare_workspace()

    def initialize(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, float]:
        """Draw u_1, truncated at zero or weighted by Phi, and return the exact log Z_1."""
        nothing = np.empty((0, size), self.dtype)
        log_ratio, mean = self.smooth(rng, 1, nothing)
        particles, _ = self.augment(rng, 1, nothing, mean)
        return particles, self.sequence.log_mass + float(log_ratio[0])

    def move(self, rng: np.random.Generator, n: int, particles: np.ndarray) -> Moved:
        """Sweep once over the n variables, in the order in which they came (eq:gibbsz)."""
        matrix, shift = self._precision().at(n)
        moved = np.empty_like(particles)
        lanes = TILE_BYTES // particles.itemsize
        tiles = -(-particles.shape[1] // lanes)
        key = draw_key(rng)
        probit = self.representation == "x"

        def sweep(tiles: tuple[int, int]) -> None:
            sweep_tiles(
                particles, moved, matrix, shift, key, self.width, self.sweeps, probit, *tiles
            )

        work = self.sweeps * n * particles.size
        if self.threads == 1 or work < SMALLEST_SHARED_SWEEP:
            sweep((0, tiles))
        else:
            self._pool.share(sweep, _shrinking_ranges(tiles, self.threads))
        return Moved(moved)

    def smooth(self, rng: np.random.Generator, n: int, particles: np.ndarray) -> Smoothed:
        """Integrate u_n out: W = Phi(m / sigma), over the mass of its site if there is one.

        m and s^2 are mean and variance of u_n given u_[n-1]; sigma is s for z, and
        (1 + s^2)^(1/2) for x. m is handed on to :meth:`augment`.
        """
        coefficients, constant, deviation = self.sequence.conditional(n - 1)
        mean = np.empty(particles.shape[1])
        predict(coefficients, particles, mean)
        mean = constant - mean
        scale = deviation if self.representation == "z" else np.hypot(1.0, deviation)
        log_ratio = log_ndtr(mean / scale)
        precision, shift = self.sequence.site_precision[n - 1], self.sequence.site_shift[n - 1]
        if precision or shift:
            log_ratio -= log_site_mass(precision, shift, mean, deviation**2)
        return Smoothed(log_ratio, mean)

    def augment(
        self, rng: np.random.Generator, n: int, particles: np.ndarray, proposal: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Draw u_n given u_[n-1] and its label, exactly."""
        _, _, deviation = self.sequence.conditional(n - 1)
        mean, size = proposal, particles.shape[1]
        scale = deviation if self.representation == "z" else np.hypot(1.0, deviation)
        # 1 - u is never zero. Noise below mean / scale is what keeps mean - scale * noise positive.
        log_uniform = np.log(1.0 - rng.random(size))
        drawn = mean - scale * ndtri_exp(log_uniform + log_ndtr(mean / scale))
        if self.representation == "x":
            gain = (deviation / scale) ** 2
            drawn = mean + gain * (drawn - mean)
            drawn += (deviation / scale) * rng.standard_normal(size)
        grown = np.empty((n, size), self.dtype)
        grown[: n - 1] = particles
        grown[n - 1] = drawn if self.representation == "x" else np.maximum(drawn, 0.0)
        return grown, 0.0

    def reseed(self, rng: np.random.Generator, n: int, size: int) -> np.ndarray:
        """Refuse: Gibbs chains of this family forget where they start far too slowly."""
        raise ValueError(
            'variant="reseed" needs a sampler that draws from p_n anew, and Gaussian process '
            'classification has none: choose variant="arm" or "anticipate", or lookahead="ep", '
            "which makes most steps easy."
        )

    def posterior(self, rng: np.random.Generator, particles: np.ndarray) -> dict[str, np.ndarray]:
        """Return draws (R, N) of the latent process, or of what the model whitened it to.

        Where z was sampled, x is drawn from its exact Gaussian distribution given z, by
        correcting a draw from the prior: x + K (K + I)^{-1} (z - x - noise).
        """
        latent = np.empty((particles.shape[1], self.length))
        latent[:, self.order] = particles.T * self.labels[self.order]
        if self.representation == "z":
            prior = rng.standard_normal(latent.shape) @ factorize(self.covariance).T
            prior += self.mean
            gap = latent - prior - rng.standard_normal(latent.shape)
            total = self.covariance + np.eye(self.length)
            solved = cho_solve((factorize(total, "K + I"), True), gap.T, overwrite_b=True)
            latent = prior + solved.T @ self.covariance
        latent -= self.offset
        if self.unwhitening is not None:
            triangular = np.array_equal(self.unwhitening, np.tril(self.unwhitening))
            solve = partial(solve_triangular, lower=True) if triangular else np.linalg.solve
            latent = solve(self.unwhitening, latent.T).T
        return {self.name: latent}

    def describe(self, n: int) -> str:
        """Return the name of the variable that comes in with p_n."""
        return f"{self.name}[{self.order[n - 1]}]"

    def count(self, particles: np.ndarray) -> int:
        """Return the number of particles, the last axis."""
        return int(particles.shape[-1])

    def select(self, particles: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """Return the particles at ``indices``."""
        return particles.take(indices, axis=-1)

    def join(self, sets: list[np.ndarray]) -> np.ndarray:
        """Return one set out of several."""
        return np.concatenate(sets, axis=-1)

    def _precision(self) -> GrowingPrecision:
        """Return this thread's workspace, so that chains may run in threads of their own."""
        if not hasattr(self._workspace, "precision"):
            self._workspace.precision = GrowingPrecision(self.sequence, self.dtype)
        precision: GrowingPrecision = self._workspace.precision
        return precision


def _shrinking_ranges(tiles: int, threads: int) -> list[tuple[int, int]]:
    """Cut tiles into ranges, each three quarters of a thread's share of what is left.

    Long ranges are copied faster; short ones at the end let the threads finish together.
    """
    ranges, first = [], 0
    while first < tiles:
        last = first + -(-3 * (tiles - first) // (4 * threads))
        ranges.append((first, last))
        first = last
    return ranges


def _blas_threads(size: int) -> AbstractContextManager[Any]:
    """Hold BLAS at one thread where more would only wait for each other."""
    return nullcontext() if size >= SHARED_BLAS else one_blas_thread()


def _resolve_order(
    order: Any, covariance: np.ndarray, sites: Sites | None, random_seed: Any
) -> np.ndarray:
    """Return the order as indices."""
    size = len(covariance)
    if isinstance(order, str):
        check_choice("order", order, ("informative", "given", "random"))
        if order == "random":
            return np.random.default_rng(random_seed).permutation(size)
        return informative_order(covariance, sites) if order == "informative" else np.arange(size)
    indices = np.asarray(order)
    if indices.shape != (size,) or not np.array_equal(np.sort(indices), np.arange(size)):
        raise ValueError(f"order must be a permutation of 0, ..., {size - 1}; it is {order!r}.")
    return indices.astype(np.int64)
