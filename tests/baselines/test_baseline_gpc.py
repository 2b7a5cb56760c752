"""AIS with both Hamiltonian kernels, and EP, on classifiers whose log Z is an orthant."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from benchmarks.baselines import GPCAnnealing, ais, ep
from pymc_arm.comparison import read_evidence

KERNELS = {
    "hmc": {"step_size": 0.2, "leapfrog_steps": 10},
    "rmhmc": {"step_size": 0.3, "leapfrog_steps": 3},
}


@pytest.mark.statistical
@pytest.mark.parametrize("kernel", list(KERNELS))
@pytest.mark.parametrize("base", ["prior", "ep"])
def test_annealing_is_right(six, base, kernel, errors_off):
    annealing = GPCAnnealing(
        six.covariance, six.labels, mean=six.mean, base=base, kernel=kernel, **KERNELS[kernel]
    )
    result = ais(
        annealing,
        100,
        temperatures=25,
        schedule="adaptive" if base == "prior" else "linear",
        random_seed=1,
        progressbar=False,
    )
    assert abs(errors_off(result, six.log_evidence)) < 4
    assert result.attrs["log_marginal_likelihood_se"] < 0.1
    acceptance = result.arm["acceptance_rate"].values
    assert np.nanmean(acceptance) > 0.8


def test_annealing_from_ep_starts_close(six):
    """From q the first weights are those of an approximation that is nearly right."""
    paths = {
        base: GPCAnnealing(six.covariance, six.labels, mean=six.mean, base=base)
        for base in ("prior", "ep")
    }
    spreads = {}
    for base, annealing in paths.items():
        draws, log_evidence = annealing.draw_base(np.random.default_rng(2), 5000)
        assert log_evidence == 0
        spreads[base] = annealing.energy(draws, 0.0).std()
    assert spreads["ep"] < 0.2 * spreads["prior"]


def test_energy_of_ep_is_normalised(six):
    """E_q[exp(energy)] = Z; the weights are bounded, so that a plain mean is good enough."""
    annealing = GPCAnnealing(six.covariance, six.labels, mean=six.mean, base="ep")
    draws, _ = annealing.draw_base(np.random.default_rng(3), 20_000)
    ratios = np.exp(annealing.energy(draws, 0.0) - six.log_evidence)
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / np.sqrt(len(ratios))


def test_posterior_has_the_labels_taken_out(six):
    annealing = GPCAnnealing(six.covariance, six.labels, mean=six.mean, base="ep", name="latent")
    result = ais(
        annealing, 200, temperatures=5, schedule="linear", random_seed=4, progressbar=False
    )
    exact = six.exact_draws(np.random.default_rng(5), 4000) * six.labels
    found = result.posterior["latent"].values.reshape(-1, 6)
    error = np.hypot(exact.std(axis=0) / np.sqrt(4000), found.std(axis=0) / np.sqrt(800))
    assert (np.abs(found.mean(axis=0) - exact.mean(axis=0)) < 5 * error).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base": "posterior"}, "base='posterior'"),
        ({"kernel": "nuts"}, "kernel='nuts'"),
        ({"step_size": 0}, "step_size=0"),
        ({"leapfrog_steps": 0.5}, "leapfrog_steps=0.5"),
    ],
)
def test_wrong_arguments_are_named(six, options, message):
    with pytest.raises(ValueError, match=message):
        GPCAnnealing(six.covariance, six.labels, **options)


def test_ep_with_its_correction(six):
    plain = ep(six.covariance, six.labels, mean=six.mean, corrected=False)
    corrected = ep(six.covariance, six.labels, mean=six.mean, draws=2000, random_seed=1)
    errors = [
        abs(result.attrs["log_marginal_likelihood"] - six.log_evidence)
        for result in (plain, corrected)
    ]
    assert errors[0] < 0.05
    assert errors[1] < errors[0] / 4
    assert read_evidence(corrected).standard_error > 0
    assert corrected.posterior["f"].shape == (4, 2000, 6)


def test_second_order_of_two_variables_is_exact_to_its_order():
    """For a weak correlation r the whole error of EP is a series in r that starts at r^3."""
    errors = []
    for correlation in (0.2, 0.4):
        covariance = 4 * np.array([[1, correlation], [correlation, 1]])
        exact = np.log(
            multivariate_normal.cdf(np.zeros(2), mean=[0, 0], cov=covariance + np.eye(2))
        )
        attributes = ep(covariance, [1, 1]).attrs
        before = exact - attributes["ep_log_marginal_likelihood"]
        errors.append(abs(before - attributes["second_order_correction"]) / abs(before))
    assert errors[0] < 0.05
    assert errors[1] < 0.15


@pytest.mark.data
def test_ep_at_the_hardest_setting_of_the_paper():
    gpc = pytest.importorskip("benchmarks.gpc")
    try:
        covariance, labels = gpc.usps()
    except SystemExit as missing:
        pytest.skip(str(missing))
    attributes = ep(covariance, labels, draws=1, chains=1).attrs
    assert abs(attributes["ep_log_marginal_likelihood"] - -106.0892) < 1e-4
    assert abs(attributes["log_marginal_likelihood"] - -105.8169) < 1e-4
