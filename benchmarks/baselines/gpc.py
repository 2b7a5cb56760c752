r"""Gaussian process classification, annealed from the prior or from EP's approximation.

With labels absorbed (u_i = y_i x_i) both of the paper's paths have one form,

    log f_beta(u) = log N(u; m, K) + sum_i [beta log Phi(u_i) + (1 - beta) log t_i(u_i)] + const,

since the Gaussian approximation q(x) of EP is the prior times a Gaussian site t_i for each label.
Sites of one give eq. (aisProbP), from the prior; those of EP give eq. (aisProb), from q.
"""

from typing import Any, Literal

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from benchmarks.baselines.annealing import Annealing
from benchmarks.baselines.hamiltonian import hamiltonian_move
from benchmarks.baselines.probit import log_probit_array
from benchmarks.baselines.riemannian import riemannian_move
from pymc_arm.algorithm.path import Moved
from pymc_arm.arguments import check_choice, check_count
from pymc_arm.families.gpc.ep import expectation_propagation
from pymc_arm.families.gpc.validation import (
    check_covariance,
    check_labels,
    check_mean,
    factorize,
)

__all__ = ["GPCAnnealing"]

# The paper's step sizes and leapfrog steps.
PAPER = {"hmc": (0.02, 200), "rmhmc": (0.1, 10)}


class GPCAnnealing(Annealing):
    """The path to a Gaussian process classifier with probit link, p(y_i | x_i) = Phi(y_i x_i).

    Parameters
    ----------
    covariance
        K, positive definite. No jitter is added.
    labels
        One label per row of K: 0/1, booleans or -1/+1.
    mean
        Prior mean of the process, a number or a vector.
    base
        ``"prior"`` anneals from p(x), ``"ep"`` from EP's Gaussian approximation q(x).
    kernel
        ``"hmc"``, with unit masses on x; ``"rmhmc"``, with the metric K^{-1} + Lambda(x) (see
        :mod:`benchmarks.baselines.riemannian`).
    step_size, leapfrog_steps
        epsilon and l_max of a proposal; by default the paper's, 0.02 and 200 for HMC, 0.1 and 10
        for RMHMC.
    name
        Name of the latent process.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.baselines import GPCAnnealing, ais
    >>> K = np.array([[4.0, 2.0], [2.0, 4.0]])
    >>> path = GPCAnnealing(K, [1, 1], base="ep", kernel="rmhmc")
    >>> result = ais(path, 200, temperatures=10, schedule="linear", random_seed=1,
    ...              progressbar=False)
    >>> exact = np.log(0.25 + np.arcsin(2 / 5) / (2 * np.pi))
    >>> bool(abs(result.attrs["log_marginal_likelihood"] - exact) < 0.02)
    True
    """

    def __init__(
        self,
        covariance: Any,
        labels: Any,
        *,
        mean: Any = 0.0,
        base: Literal["prior", "ep"] = "prior",
        kernel: Literal["hmc", "rmhmc"] = "rmhmc",
        step_size: float | None = None,
        leapfrog_steps: int | None = None,
        name: str = "f",
    ) -> None:
        check_choice("base", base, ("prior", "ep"))
        check_choice("kernel", kernel, ("hmc", "rmhmc"))
        step_size = PAPER[kernel][0] if step_size is None else step_size
        leapfrog_steps = PAPER[kernel][1] if leapfrog_steps is None else leapfrog_steps
        if not step_size > 0:
            raise ValueError(f"step_size={step_size} must be positive.")
        check_count("leapfrog_steps", leapfrog_steps)
        given = check_covariance(covariance)
        size = len(given)
        self.labels = check_labels(labels, size)
        self.mean = check_mean(mean, size) * self.labels
        self.covariance = given * (self.labels[:, None] * self.labels)
        self.factor = np.ascontiguousarray(factorize(self.covariance))
        self.base, self.kernel, self.name = base, kernel, name
        self.step_size, self.leapfrog_steps = float(step_size), int(leapfrog_steps)
        self.length = len(self.betas)
        self.site_precision, self.site_shift = np.zeros(size), np.zeros(size)
        if base == "ep":
            sites = expectation_propagation(self.covariance, self.mean)
            self.site_precision, self.site_shift = sites.precision, sites.shift
        self._prepare_base()
        if kernel == "hmc":
            inverse = cho_solve((self.factor, True), np.eye(size))
            self._precision = np.ascontiguousarray((inverse + inverse.T) / 2)

    def _prepare_base(self) -> None:
        """Find p_0 in whitened coordinates v, u = m + L v, and the mass of prior times sites.

        There the precision is I + L^T T L, which no conditioning of K can spoil.
        """
        scaled = np.sqrt(self.site_precision)[:, None] * self.factor
        matrix = scaled.T @ scaled
        matrix.flat[:: len(matrix) + 1] += 1
        self._base_factor = cholesky(matrix, lower=True)
        pull = self.factor.T @ (self.site_shift - self.site_precision * self.mean)
        self._base_mean = cho_solve((self._base_factor, True), pull)
        at_mean = self.mean @ self.site_shift - 0.5 * self.site_precision @ self.mean**2
        self._log_site_mass = float(
            at_mean + 0.5 * pull @ self._base_mean - np.sum(np.log(self._base_factor.diagonal()))
        )

    def draw_base(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, float]:
        """Draw from p(x), or from q(x), both of which are normalised."""
        noise = rng.standard_normal((len(self.mean), size))
        whitened = solve_triangular(self._base_factor, noise, trans="T", lower=True)
        whitened += self._base_mean[:, None]
        return np.ascontiguousarray((self.factor @ whitened).T) + self.mean, 0.0

    def energy(self, particles: np.ndarray, beta: float) -> np.ndarray:
        """Return the log-likelihood over that of the normalised sites."""
        sites = particles @ self.site_shift - 0.5 * particles**2 @ self.site_precision
        return log_probit_array(particles).sum(axis=1) - sites + self._log_site_mass

    def transition(self, rng: np.random.Generator, beta: float, particles: np.ndarray) -> Moved:
        """Propose by Hamiltonian dynamics, plain or on the manifold."""
        sites = ((1 - beta) * self.site_precision, (1 - beta) * self.site_shift)
        if self.kernel == "hmc":
            return hamiltonian_move(
                rng,
                particles,
                self._precision,
                self.mean,
                sites,
                beta,
                self.step_size,
                self.leapfrog_steps,
            )
        whitened = solve_triangular(self.factor, (particles - self.mean).T, lower=True).T
        moved, rate, *_ = riemannian_move(
            rng,
            np.ascontiguousarray(whitened),
            self.covariance,
            self.factor,
            self.mean,
            sites,
            beta,
            self.step_size,
            self.leapfrog_steps,
        )
        return Moved(moved @ self.factor.T + self.mean, rate)

    def posterior(self, rng: np.random.Generator, particles: np.ndarray) -> dict[str, np.ndarray]:
        """Return draws of the latent process, with the labels taken out again."""
        return {self.name: particles * self.labels}
