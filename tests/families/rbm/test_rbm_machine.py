"""Loading, checking and reading a machine."""

import numpy as np
import pytest

from pymc_arm.families.rbm import Machine


def enumerate_both_layers(machine):
    def states(units):
        return (np.arange(2**units)[:, None] >> np.arange(units)) & 1

    visible, hidden = states(machine.visible_units), states(machine.hidden_units)
    joint = visible @ machine.W @ hidden.T + (visible @ machine.a)[:, None] + hidden @ machine.b
    return visible, np.logaddexp.reduce(joint, axis=1)


@pytest.fixture
def machine():
    rng = np.random.default_rng(4)
    return Machine(rng.normal(size=(5, 3)), rng.normal(size=5), rng.normal(size=3))


def test_log_density_sums_the_hidden_units_out(machine):
    visible, exact = enumerate_both_layers(machine)
    np.testing.assert_allclose(machine.log_density(visible), exact)


def test_evidence_is_the_same_from_either_layer(machine):
    _, exact = enumerate_both_layers(machine)
    turned = Machine(machine.W.T, machine.b, machine.a)
    np.testing.assert_allclose(machine.exact_log_evidence(), np.logaddexp.reduce(exact))
    np.testing.assert_allclose(turned.exact_log_evidence(), np.logaddexp.reduce(exact))


def test_evidence_of_a_large_machine_is_refused():
    with pytest.raises(ValueError, match="more than 24 units"):
        Machine(np.zeros((30, 30))).exact_log_evidence()


def test_likelihoods_sum_to_one(machine):
    visible, _ = enumerate_both_layers(machine)
    result = machine.log_likelihood(visible, machine.exact_log_evidence(), standard_error=0.0)
    np.testing.assert_allclose(np.exp(result.values).sum(), 1)
    assert result.standard_error == 0.0


def test_likelihood_pools_chains_on_the_scale_of_z(machine):
    estimates = np.array([1.0, 1.2, 0.9, 1.1])
    result = machine.log_likelihood(np.zeros((2, 5)), estimates)
    pooled = np.log(np.exp(estimates).mean())
    np.testing.assert_allclose(result.values, machine.log_density(np.zeros(5)) - pooled)
    spread = np.exp(estimates - pooled).std(ddof=1) / 2
    np.testing.assert_allclose(result.standard_error, spread)


def test_a_single_number_without_error_has_an_unknown_one(machine):
    assert np.isnan(machine.log_likelihood(np.zeros(5), 1.0).standard_error)


def test_infinite_evidence_is_refused(machine):
    with pytest.raises(ValueError, match="no finite entry"):
        machine.log_likelihood(np.zeros(5), -np.inf)


def test_loads_from_scikit_learn():
    neural_network = pytest.importorskip("sklearn.neural_network")
    examples = (np.random.default_rng(0).random((20, 6)) < 0.4).astype(float)
    estimator = neural_network.BernoulliRBM(n_components=4, n_iter=2, random_state=0).fit(examples)
    machine = Machine.from_sklearn(estimator)
    assert machine.W.shape == (6, 4)
    # scikit-learn's free energy is minus the log-density.
    np.testing.assert_allclose(machine.log_density(examples), -estimator._free_energy(examples))


def test_an_unfitted_estimator_is_refused():
    with pytest.raises(ValueError, match="components_"):
        Machine.from_sklearn(object())


def test_loads_tensors_that_carry_gradients():
    class Tensor:
        def __init__(self, values):
            self.values = values

        def detach(self):
            return Detached(self.values)

        def __array__(self, *arguments, **options):
            raise RuntimeError("call detach first")

    class Detached(Tensor):
        def cpu(self):
            return np.asarray(self.values)

    machine = Machine(Tensor([[1.0, 2.0]]), Tensor([0.5]), Tensor([[1.0, 2.0]]))
    np.testing.assert_array_equal(machine.b, [1.0, 2.0])


def test_biases_default_to_zero_and_arrays_are_frozen():
    machine = Machine([[1, 2], [3, 4], [5, 6]])
    assert machine.a.shape == (3,)
    assert machine.b.shape == (2,)
    with pytest.raises(ValueError, match="read-only"):
        machine.W[0, 0] = 1


def test_the_arrays_of_the_user_stay_writeable():
    weights = np.ones((2, 2))
    machine = Machine(weights)
    weights[0, 0] = 5
    assert machine.W[0, 0] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0],), r"W has shape \(2,\)"),
        ((np.zeros((0, 3)),), "at least one of each"),
        (([["a"]],), "W cannot be read as an array of numbers"),
        (([[1.0, np.nan]],), r"W\[0, 1\] is nan"),
        (([[1.0]], [np.inf]), r"a\[0\] is inf"),
        ((np.ones((3, 2)), np.ones(2)), r"a has shape \(2,\).* has 3 visible units"),
        ((np.ones((3, 2)), np.ones(3), np.ones(3)), r"b has shape \(3,\).* has 2 hidden units"),
    ],
)
def test_bad_machines_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Machine(*arguments)


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        (np.zeros((2, 4)), r"x has shape \(2, 4\)"),
        (np.full(5, 0.5), r"x\[0\] is 0.5"),
        ([[0, 1, 0, 1, 255]], r"x\[0, 4\] is 255"),
        ([[0, 1, 0, 1, np.nan]], r"x\[0, 4\] is nan"),
    ],
)
def test_examples_that_are_not_binary_are_named(machine, examples, message):
    with pytest.raises(ValueError, match=message):
        machine.log_density(examples)
