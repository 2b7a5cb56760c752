"""Covariances from points and scores: exact for a Gaussian, never singular."""

import numpy as np

from pymc_arm.estimation.approximation.covariance import covariance_of, score_covariance, shrink


def test_scores_of_a_gaussian_give_it_exactly_from_few_points():
    """With the scores of a Gaussian any d + 1 points are enough."""
    rng = np.random.default_rng(1)
    root = rng.normal(size=(4, 4))
    covariance, mean = root @ root.T + np.eye(4), rng.normal(size=4)
    points = rng.normal(size=(9, 4))
    scores = -np.linalg.solve(covariance, (points - mean).T).T
    found_mean, found = score_covariance(points, scores)
    np.testing.assert_allclose(found, covariance, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found_mean, mean, atol=1e-5)


def test_scores_that_overflow_leave_the_points():
    points = np.random.default_rng(2).normal(size=(50, 3))
    with np.errstate(all="ignore"):
        mean, found = score_covariance(points, 1e200 * points)
    np.testing.assert_allclose(mean, points.mean(axis=0))
    np.testing.assert_allclose(found, np.cov(points.T), rtol=1e-6, atol=1e-9)


def test_covariance_of_centred_points_is_numpys():
    points = np.random.default_rng(3).normal(size=(20, 3))
    np.testing.assert_allclose(covariance_of(points - points.mean(axis=0)), np.cov(points.T))


def test_shrinking_keeps_variances_and_makes_anything_regular():
    singular = np.ones((3, 3))
    singular[2] = singular[:, 2] = 0.0  # a coordinate that does not vary
    shrunk = shrink(singular, 0.5)
    np.linalg.cholesky(shrunk)
    np.testing.assert_allclose(np.diag(shrunk)[:2], 1.0, rtol=1e-8)
    np.testing.assert_allclose(shrunk[0, 1], 0.5)
