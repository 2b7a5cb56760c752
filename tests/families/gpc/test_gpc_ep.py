"""EP: fixed point, log Z against exact answers, hard inputs."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from pymc_arm import ArmWarning
from pymc_arm.families.gpc.ep import expectation_propagation, log_site_mass


def test_one_variable_is_exact():
    sites = expectation_propagation(np.array([[3.0]]), np.array([0.7]))
    assert sites.log_evidence == pytest.approx(np.log(ndtr(0.35)), abs=1e-10)


def test_independent_variables_are_exact():
    sites = expectation_propagation(np.diag([1.0, 4.0, 9.0]), np.array([0.5, -1.0, 0.0]))
    exact = np.sum(np.log(ndtr(np.array([0.5, -1, 0]) / np.sqrt([2, 5, 10]))))
    assert sites.log_evidence == pytest.approx(exact, abs=1e-9)


def test_six_variables_near_the_orthant_probability(six):
    signs = np.where(six.labels > 0, 1.0, -1.0)
    sites = expectation_propagation(six.covariance * np.outer(signs, signs), six.mean * signs)
    assert sites.converged
    assert sites.log_evidence == pytest.approx(six.log_evidence, abs=0.02)


def test_fixed_point_matches_moments(six):
    """Prior x sites has the mean and variance of cavity x likelihood, by quadrature."""
    signs = np.where(six.labels > 0, 1.0, -1.0)
    covariance, mean = six.covariance * np.outer(signs, signs), six.mean * signs
    sites = expectation_propagation(covariance, mean)
    posterior = np.linalg.inv(np.linalg.inv(covariance) + np.diag(sites.precision))
    location = posterior @ (np.linalg.solve(covariance, mean) + sites.shift)
    for index in range(6):
        variance = 1 / (1 / posterior[index, index] - sites.precision[index])
        centre = variance * (location[index] / posterior[index, index] - sites.shift[index])

        def tilted(x, power, centre=centre, variance=variance):
            return x**power * ndtr(x) * np.exp(-0.5 * (x - centre) ** 2 / variance)

        mass, first, second = (quad(tilted, -30, 30, args=(power,))[0] for power in range(3))
        assert location[index] == pytest.approx(first / mass, abs=1e-6)
        spread = second / mass - (first / mass) ** 2
        assert posterior[index, index] == pytest.approx(spread, abs=1e-6)


def test_site_precisions_are_those_of_a_probit(six):
    sites = expectation_propagation(six.covariance)
    assert ((sites.precision > 0) & (sites.precision < 1)).all()


@pytest.mark.parametrize("amplitude", [1e-3, 1.0, 1e3])
def test_contradictory_labels_at_one_place(amplitude):
    """Opposite labels of almost the same value, for any scale of the process."""
    covariance = amplitude**2 * np.ones((6, 6)) + 1e-6 * min(amplitude, 1) ** 2 * np.eye(6)
    signs = np.array([1, -1, 1, -1, 1, -1.0])
    sites = expectation_propagation(covariance * np.outer(signs, signs))
    assert sites.converged
    exact = quad(
        lambda x: (ndtr(x) * ndtr(-x)) ** 3 * np.exp(-0.5 * (x / amplitude) ** 2),
        -10 * min(amplitude, 1),
        10 * min(amplitude, 1),
    )[0] / (amplitude * np.sqrt(2 * np.pi))
    assert sites.log_evidence == pytest.approx(np.log(exact), abs=0.05)


def test_says_when_it_has_not_converged(six):
    with pytest.warns(ArmWarning, match="EP has not converged in 2 iterations"):
        sites = expectation_propagation(six.covariance, max_iterations=2)
    assert not sites.converged


def test_log_site_mass():
    found = log_site_mass(0.6, -0.3, np.array([1.2]), 2.0)[0]
    mass = quad(lambda x: np.exp(-0.3 * x - 0.3 * x**2 - 0.25 * (x - 1.2) ** 2), -30, 30)[0]
    assert found == pytest.approx(np.log(mass / np.sqrt(4 * np.pi)))
