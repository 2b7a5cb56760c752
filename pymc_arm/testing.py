"""Paths whose Z is known exactly, for tests, examples and authors of families."""

from collections.abc import Sequence

import numpy as np

from pymc_arm.algorithm.path import Moved, Path, Smoothed

__all__ = ["GaussianChain", "IsingGrid", "TiltedNormals"]


def _log_normal(values: np.ndarray, mean: np.ndarray | float, variance: float) -> np.ndarray:
    squares = (values - mean) ** 2
    log_density: np.ndarray = -0.5 * np.log(2 * np.pi * variance) - 0.5 * squares / variance
    return log_density


class GaussianChain(Path):
    """A Gaussian autoregression observed in noise, x_t ~ N(phi x_{t-1}, q), y_t ~ N(x_t, r).

    Every smooth and augment step is exact, and so is log Z, by the Kalman filter.

    Parameters
    ----------
    data
        y_1, ..., y_N.
    persistence, state_variance, noise_variance
        phi, q and r.

    Examples
    --------
    >>> from pymc_arm.testing import GaussianChain
    >>> round(GaussianChain([0.0]).exact_log_evidence, 4)
    -1.1217
    """

    length: int

    def __init__(
        self,
        data: Sequence[float],
        persistence: float = 0.9,
        state_variance: float = 1.0,
        noise_variance: float = 0.5,
    ) -> None:
        self.data = np.asarray(data, dtype=float)
        self.length = len(self.data)
        self.persistence = persistence
        self.state_variance = state_variance
        self.noise_variance = noise_variance

    @property
    def exact_log_evidence(self) -> float:
        """Log Z by the Kalman filter."""
        mean, variance, total = 0.0, self.state_variance, 0.0
        for value in self.data:
            spread = variance + self.noise_variance
            total += float(_log_normal(value, mean, spread))
            gain = variance / spread
            mean, variance = mean + gain * (value - mean), variance * (1 - gain)
            mean = self.persistence * mean
            variance = self.persistence**2 * variance + self.state_variance
        return total

    def initialize(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, float]:
        """Draw x_1 given y_1."""
        first = self._draw(rng, np.zeros(size), self.data[0])
        spread = self.state_variance + self.noise_variance
        return first[:, None], float(_log_normal(self.data[0], 0.0, spread))

    def move(self, rng: np.random.Generator, n: int, particles: np.ndarray) -> Moved:
        """Sweep once through x_1, ..., x_n by Gibbs sampling."""
        particles = particles.copy()
        for time in range(n):
            precision = 1 / self.state_variance + 1 / self.noise_variance
            pull = np.full(len(particles), self.data[time] / self.noise_variance)
            if time > 0:
                pull += self.persistence * particles[:, time - 1] / self.state_variance
            if time < n - 1:
                precision += self.persistence**2 / self.state_variance
                pull += self.persistence * particles[:, time + 1] / self.state_variance
            noise = rng.normal(size=len(particles)) / np.sqrt(precision)
            particles[:, time] = pull / precision + noise
        return Moved(particles)

    def smooth(self, rng: np.random.Generator, n: int, particles: np.ndarray) -> Smoothed:
        """Return log p(y_n | x_{n-1})."""
        mean = self.persistence * particles[:, -1]
        spread = self.state_variance + self.noise_variance
        return Smoothed(_log_normal(self.data[n - 1], mean, spread))

    def augment(
        self, rng: np.random.Generator, n: int, particles: np.ndarray, proposal: None
    ) -> tuple[np.ndarray, float]:
        """Draw x_n given x_{n-1} and y_n."""
        new = self._draw(rng, self.persistence * particles[:, -1], self.data[n - 1])
        return np.hstack([particles, new[:, None]]), 0.0

    def reseed(self, rng: np.random.Generator, n: int, size: int) -> np.ndarray:
        """Draw x_1, ..., x_n exactly, by filtering forward and sampling backward."""
        steps = np.arange(n)
        covariance = np.zeros((n, n))
        variance = self.state_variance
        for time in steps:
            covariance[time, time:] = variance * self.persistence ** (steps[time:] - time)
            variance = self.persistence**2 * variance + self.state_variance
        covariance = np.maximum(covariance, covariance.T)
        gain = np.linalg.solve(covariance + self.noise_variance * np.eye(n), covariance).T
        mean = gain @ self.data[:n]
        return rng.multivariate_normal(mean, covariance - gain @ covariance, size=size)

    def _draw(self, rng: np.random.Generator, prior_mean: np.ndarray, value: float) -> np.ndarray:
        variance = 1 / (1 / self.state_variance + 1 / self.noise_variance)
        mean = variance * (prior_mean / self.state_variance + value / self.noise_variance)
        drawn: np.ndarray = mean + np.sqrt(variance) * rng.normal(size=len(prior_mean))
        return drawn


class IsingGrid(Path):
    """Spins of -1 and +1 on a small grid, coupled to their neighbours; Z by enumeration.

    Parameters
    ----------
    rows, columns
        The size of the grid; one row makes a chain.
    coupling, field
        f(x) = exp(coupling * sum of neighbouring products + field * sum of spins).

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_arm.testing import IsingGrid
    >>> bool(np.isclose(IsingGrid(1, 2, 0.3, 0.0).exact_log_evidence, np.log(4 * np.cosh(0.3))))
    True
    """

    length: int

    def __init__(self, rows: int, columns: int, coupling: float, field: float) -> None:
        self.length = rows * columns
        self.columns = columns
        self.coupling = coupling
        self.field = field

    @property
    def exact_log_evidence(self) -> float:
        """Log Z by summing over all 2^N states."""
        codes = np.arange(2**self.length)[:, None] >> np.arange(self.length) & 1
        spins = 2.0 * codes - 1
        total = np.zeros(len(spins))
        for site in range(self.length):
            total += self._local_field(site, spins[:, :site]) * spins[:, site]
        return float(np.logaddexp.reduce(total))

    def initialize(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, float]:
        """Draw the first spin."""
        particles = np.empty((size, 0))
        log_evidence = float(np.log(2 * np.cosh(self.field)))
        return self.augment(rng, 1, particles, None)[0], log_evidence

    def move(self, rng: np.random.Generator, n: int, particles: np.ndarray) -> Moved:
        """Sweep once through the first n spins by Gibbs sampling."""
        particles = particles.copy()
        for site in range(n):
            field = self._local_field(site, particles[:, :site])
            if site % self.columns < self.columns - 1 and site + 1 < n:
                field = field + self.coupling * particles[:, site + 1]
            if site + self.columns < n:
                field = field + self.coupling * particles[:, site + self.columns]
            particles[:, site] = self._draw(rng, field)
        return Moved(particles)

    def smooth(self, rng: np.random.Generator, n: int, particles: np.ndarray) -> Smoothed:
        """Sum over the two values of spin n."""
        field = self._local_field(n - 1, particles)
        return Smoothed(np.logaddexp(field, -field))

    def augment(
        self, rng: np.random.Generator, n: int, particles: np.ndarray, proposal: None
    ) -> tuple[np.ndarray, float]:
        """Draw spin n given the earlier ones."""
        new = self._draw(rng, self._local_field(n - 1, particles))
        return np.hstack([particles, new[:, None]]), 0.0

    def reseed(self, rng: np.random.Generator, n: int, size: int) -> np.ndarray:
        """Draw the first n spins exactly, by enumeration."""
        smaller = IsingGrid(1, n, self.coupling, self.field)
        smaller.columns = self.columns
        spins = 2.0 * (np.arange(2**n)[:, None] >> np.arange(n) & 1) - 1
        total = np.zeros(len(spins))
        for site in range(n):
            total += smaller._local_field(site, spins[:, :site]) * spins[:, site]
        weights = np.exp(total - np.logaddexp.reduce(total))
        return spins[rng.choice(len(spins), size=size, p=weights)]

    def _local_field(self, site: int, earlier: np.ndarray) -> np.ndarray:
        """Return the field on a spin from the spins that came before it."""
        field = np.full(len(earlier), self.field)
        if site % self.columns:
            field += self.coupling * earlier[:, site - 1]
        if site >= self.columns:
            field += self.coupling * earlier[:, site - self.columns]
        return field

    @staticmethod
    def _draw(rng: np.random.Generator, field: np.ndarray) -> np.ndarray:
        return np.where(rng.random(len(field)) < 1 / (1 + np.exp(-2 * field)), 1.0, -1.0)


class TiltedNormals(Path):
    """Independent standard normals, each of which the next step tilts: W(x_n) = exp(a_n x_n).

    A step is as hard as its tilt is large, and every quantity of Theorem 1 is known: log Z is
    sum a_n^2 / 2, and v_n = exp(a_n^2) - 1. The kernel may be as slow as one likes.

    Parameters
    ----------
    tilts
        a_1, ..., a_{N-1}; with all of them zero the variables are a product.
    correlation
        Of a particle before and after a move; zero makes every move an independent exact draw.

    Examples
    --------
    >>> from pymc_arm.testing import TiltedNormals
    >>> TiltedNormals([0.0, 2.0, 0.0]).exact_log_evidence
    2.0
    """

    length: int

    def __init__(self, tilts: Sequence[float], correlation: float = 0.0) -> None:
        self.tilts = np.asarray(tilts, dtype=float)
        self.length = len(self.tilts) + 1
        self.correlation = correlation

    @property
    def exact_log_evidence(self) -> float:
        """Log Z."""
        return float(np.sum(self.tilts**2) / 2)

    @property
    def exact_variances(self) -> np.ndarray:
        """v_1, ..., v_{N-1} of Theorem 1."""
        variances: np.ndarray = np.expm1(self.tilts**2)
        return variances

    def initialize(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, float]:
        """Draw x_1."""
        return rng.normal(size=(size, 1)), 0.0

    def move(self, rng: np.random.Generator, n: int, particles: np.ndarray) -> Moved:
        """Take an autoregressive step around the mean of p_n."""
        mean = self._mean(n)
        noise = np.sqrt(1 - self.correlation**2) * rng.normal(size=particles.shape)
        return Moved(mean + self.correlation * (particles - mean) + noise)

    def smooth(self, rng: np.random.Generator, n: int, particles: np.ndarray) -> Smoothed:
        """Return a_{n-1} x_{n-1}."""
        return Smoothed(self.tilts[n - 2] * particles[:, -1])

    def augment(
        self, rng: np.random.Generator, n: int, particles: np.ndarray, proposal: None
    ) -> tuple[np.ndarray, float]:
        """Draw x_n, which depends on nothing."""
        return np.hstack([particles, rng.normal(size=(len(particles), 1))]), 0.0

    def reseed(self, rng: np.random.Generator, n: int, size: int) -> np.ndarray:
        """Draw x_1, ..., x_n exactly."""
        return self._mean(n) + rng.normal(size=(size, n))

    def _mean(self, n: int) -> np.ndarray:
        """Return the mean of p_n: the last variable is not tilted yet."""
        return np.append(self.tilts[: n - 1], 0.0)
