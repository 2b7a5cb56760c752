"""The one-dimensional integrals, where peaks lie far from where the reference says."""

import numpy as np
import pytest

from pymc_arm.models.integrate import Reference, quadrature


def normal_log_masses(centers, scales):
    """Return the log of the mass that is found of normal densities, which is 0."""

    def conditional(values, rows):
        standard = (values - centers[rows, None]) / scales[rows, None]
        return -0.5 * standard**2 - np.log(scales)[rows, None] - 0.5 * np.log(2 * np.pi)

    reference = Reference.of(np.linspace(-3.0, 3.0, 101))
    return quadrature(conditional, reference, len(centers)).log_mass


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("beyond", [0.0, 2.0, 8.0])
def test_peaks_beyond_the_reference_are_found(scale, beyond):
    """However few of the particles have theirs there: one of a hundred here."""
    centers = np.linspace(-2.5, 2.5, 300)
    centers[[10, 200, 299]] = np.array([-3, 3, 3]) + np.array([-beyond, beyond, 0.5 * beyond])
    masses = normal_log_masses(centers, np.full(300, scale))
    # Log-linear pieces between nodes half a standard deviation apart hold 2 % too little mass.
    np.testing.assert_allclose(masses, 0.0, atol=0.03)
