"""Covariances that are never singular, from points alone or with scores.

With scores (gradients of the log-density), the covariance is the one that brings the scores of a
Gaussian closest to them. That minimises the Fisher divergence; for a Gaussian target it is exact
with any d + 1 points, where the covariance of the points has an error of order d / points.
"""

import numpy as np

__all__ = ["covariance_of", "score_covariance", "shrink"]


def score_covariance(points: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and covariance of the Gaussian of least Fisher divergence.

    The covariance S solves S C_s S = C_x for the covariances of the scores and of the points: it is
    L (L^T C_s L)^(-1/2) L^T with C_x = L L^T. The mean is that of the points plus S times that of
    the scores. Where scores overflow, both are those of the points.
    """
    mean, average = points.mean(axis=0), scores.mean(axis=0)
    covariance = shrink(covariance_of(points - mean), 0.0)
    factor = np.linalg.cholesky(covariance)
    pulled = (scores - average) @ factor
    pulled_covariance = pulled.T @ pulled / (len(scores) - 1)
    if not np.isfinite(pulled_covariance).all():
        return mean, covariance
    values, vectors = np.linalg.eigh(pulled_covariance)
    half = factor @ vectors * np.clip(values, 1e-2, 1e6) ** -0.25
    fitted = half @ half.T
    return mean + fitted @ average, fitted


def covariance_of(centered: np.ndarray) -> np.ndarray:
    """Return the covariance of centred points."""
    return centered.T @ centered / max(len(centered) - 1, 1)


def shrink(covariance: np.ndarray, shrinkage: float) -> np.ndarray:
    """Return a covariance that is never singular, shrunk towards no correlation."""
    variances = np.diag(covariance).copy()
    variances = np.maximum(variances, 1e-12 * max(float(variances.max()), 1e-12))
    covariance = (1 - shrinkage) * covariance + shrinkage * np.diag(variances)
    covariance[np.diag_indices(len(variances))] += 1e-9 * variances
    return covariance
