"""Triangular solves, against SciPy's."""

import numpy as np
import scipy

from pymc_arm.models.fields import kernels

# L = U exp(D), with U of one element in each of the first two columns.
STARTS, ROWS = np.array([0, 1, 2, 2]), np.array([2, 2])
NUMBERS = np.array([[0.1, -0.2, 0.3, 0.5, -0.7]])
LOWER = np.array([[1.0, 0, 0], [0, 1.0, 0], [0.5, -0.7, 1.0]]) * np.exp(NUMBERS[0, :3])


def test_solves_are_those_of_the_triangular_matrix():
    noise = np.array([[1.0, 2.0, -1.0]])
    expected = scipy.linalg.solve_triangular(LOWER.T, noise[0])
    found = kernels.spread(STARTS, ROWS, NUMBERS, noise)
    np.testing.assert_allclose(found[0], expected)
    np.testing.assert_allclose(kernels.gather(STARTS, ROWS, NUMBERS, found), noise)


def test_the_gradient_in_the_noise_is_a_solve_with_the_other_triangle():
    noise, slopes = np.array([[1.0, 2.0, -1.0]]), np.array([[0.3, -0.1, 0.9]])
    offsets = kernels.spread(STARTS, ROWS, NUMBERS, noise)
    to_noise, _ = kernels.pull_back(STARTS, ROWS, NUMBERS, noise, offsets, slopes)
    expected = scipy.linalg.solve_triangular(LOWER, slopes[0], lower=True)
    np.testing.assert_allclose(to_noise[0], expected)
