"""The classifiers and machines of the paper, and small ones with exact answers."""

from typing import NamedTuple

import numpy as np

from examples.paper.common import find_data
from pymc_arm.families.rbm import Machine


class Classifier(NamedTuple):
    """Inputs and labels of a classifier, and log Z at one setting of its kernel."""

    name: str
    inputs: np.ndarray
    labels: np.ndarray
    log_length: float
    log_amplitude: float
    log_evidence: float

    def covariance(
        self, log_length: float | None = None, log_amplitude: float | None = None
    ) -> np.ndarray:
        """Return K = sigma^2 exp(-|a - b|^2 / (2 l^2))."""
        length = self.log_length if log_length is None else log_length
        amplitude = self.log_amplitude if log_amplitude is None else log_amplitude
        squares = np.sum(self.inputs**2, axis=1)
        distances = np.maximum(squares[:, None] + squares - 2 * self.inputs @ self.inputs.T, 0)
        covariance = np.exp(2 * amplitude - 0.5 * distances * np.exp(-2 * length))
        return (covariance + covariance.T) / 2


class Trained(NamedTuple):
    """A machine, its training data, and log Z with its standard error."""

    name: str
    machine: Machine
    data: np.ndarray
    side: int
    log_evidence: float
    error: float


def small_classifier() -> Classifier:
    """Return ten threes against ten fives of scikit-learn's digits, 8 x 8 pixels."""
    from sklearn.datasets import load_digits

    data, target = load_digits(return_X_y=True)
    inputs = np.concatenate([data[target == digit][:10] for digit in (3, 5)]) / 8 - 1
    return Classifier("digits, n = 20", inputs, np.repeat([1, -1], 10), 2.0, 2.0, -6.33023)


def usps(size: int | None = None) -> Classifier:
    """Return USPS threes against fives at the paper's hardest setting, maybe fewer of them."""
    known = {None: -105.8359, 50: -26.5182, 25: -17.3330, 100: -38.0650}
    with np.load(find_data("usps_3v5.npz")) as arrays:
        inputs, labels = arrays["X_train"].astype(float), arrays["y_train"]
    chosen = np.sort(np.concatenate([np.flatnonzero(labels == y)[:size] for y in (1, -1)]))
    name = f"USPS 3 against 5, n = {len(chosen)}"
    return Classifier(name, inputs[chosen], labels[chosen], 4.85, 5.1, known[size])


def small_machine(hidden: int = 8) -> Trained:
    """Return a machine trained on scikit-learn's digits, with log Z by enumeration."""
    from sklearn.datasets import load_digits
    from sklearn.neural_network import BernoulliRBM

    data = (load_digits().data > 8).astype(np.uint8)
    fitted = BernoulliRBM(hidden, learning_rate=0.1, n_iter=10, random_state=1).fit(data)
    machine = Machine.from_sklearn(fitted)
    return Trained("digits", machine, data, 8, machine.exact_log_evidence(), 0.0)


def trained_machine(name: str) -> Trained:
    """Return CD25 or PCD, 784 x 500, with MNIST."""
    file, log_evidence, error = {
        "CD25": ("rbm_cd25_500.npz", 451.28, 0.03),
        "PCD": ("rbm_pcd_500.npz", 1006.57, 0.05),
    }[name]
    with np.load(find_data(file)) as arrays:
        machine = Machine(arrays["W"], arrays["a"], arrays["b"])
    with np.load(find_data("mnist.npz")) as arrays:
        data = (arrays["train_images"] > 127).astype(np.uint8)
    return Trained(name, machine, data, 28, log_evidence, error)
