"""Any PyMC model with continuous variables, annealed from its prior.

log f_beta(x) = log prior + beta log likelihood, potentials counted as data. The kernel is a
random walk whose shape is that of the cloud: each half of the particles moves with the covariance
of the other half, so that no particle steers its own proposal.
"""

import numpy as np
import pymc as pm

from benchmarks.baselines.annealing import Annealing
from pymc_arm.algorithm.path import Moved
from pymc_arm.errors import ModelError
from pymc_arm.models.compiled import compile_model

__all__ = ["ModelAnnealing"]

# Random-walk steps at each temperature, and their sizes over the optimal 2.38 / sqrt(d): clouds
# are not always Gaussian.
REPEATS = 5
SCALES = np.array([1.0, 0.5, 0.2])


class ModelAnnealing(Annealing):
    """The path from the prior of a PyMC model to its posterior.

    Parameters
    ----------
    model
        The model; its free variables must be continuous.

    Examples
    --------
    >>> import pymc as pm
    >>> from benchmarks.baselines import ModelAnnealing
    >>> with pm.Model() as model:
    ...     mu = pm.Normal("mu")
    ...     y = pm.Normal("y", mu, 1, observed=[1.0])
    >>> ModelAnnealing(model).on_grid([0, 0.5, 1]).length
    3
    """

    def __init__(self, model: pm.Model) -> None:
        discrete = [rv.name for rv in model.free_RVs if rv.type.dtype.startswith(("int", "bool"))]
        if discrete:
            raise ModelError(
                f"{discrete[0]} is discrete, and annealing a model moves by a random walk: use "
                "pymc_arm.sample, or GeometricAnnealing with a kernel of your own."
            )
        self._path = compile_model(model)
        self.placement = self._path.placement
        self.length = len(self.betas)
        self._data = np.zeros(self._path.density.count)
        for step in self._path.plan.steps:
            self._data[step.data_terms] = 1.0

    def draw_base(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, float]:
        """Draw from the joint prior."""
        return self._path.initialize(rng, size)

    def energy(self, particles: np.ndarray, beta: float) -> np.ndarray:
        """Return the log-likelihood."""
        return self._path.density.sum(particles, self._data)

    def transition(self, rng: np.random.Generator, beta: float, particles: np.ndarray) -> Moved:
        """Take a few steps of a random walk."""
        size, dimension = particles.shape
        if not dimension or size < 4:
            return Moved(particles, np.nan)
        weights = np.where(self._data > 0, beta, 1.0)
        halves = rng.permutation(size) < size // 2
        factors = {half: _factor(particles[halves != half]) for half in (True, False)}
        points, log_density = particles.copy(), self._path.density.sum(particles, weights)
        rates = []
        for _ in range(REPEATS):
            scales = rng.choice(SCALES, size=size) * 2.38 / np.sqrt(dimension)
            noise = scales[:, None] * rng.normal(size=points.shape)
            for half, factor in factors.items():
                noise[halves == half] = noise[halves == half] @ factor.T
            proposed = points + noise
            proposed_density = self._path.density.sum(proposed, weights)
            with np.errstate(invalid="ignore"):
                log_ratio = np.nan_to_num(proposed_density - log_density, nan=-np.inf)
            accepted = np.log(rng.random(size)) < log_ratio
            points[accepted] = proposed[accepted]
            log_density = np.where(accepted, proposed_density, log_density)
            rates.append(accepted.mean())
        return Moved(points, float(np.mean(rates)))

    def posterior(self, rng: np.random.Generator, particles: np.ndarray) -> dict[str, np.ndarray]:
        """Return draws of all free variables and deterministics."""
        return self._path.posterior(rng, particles)


def _factor(points: np.ndarray) -> np.ndarray:
    """Return a Cholesky factor of the covariance of a cloud."""
    covariance = np.atleast_2d(np.cov(points, rowvar=False))
    scale = np.maximum(covariance.diagonal(), 1e-300)
    return np.linalg.cholesky(covariance + 1e-9 * np.diag(scale))
