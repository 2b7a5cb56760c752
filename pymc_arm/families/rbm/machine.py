"""A trained machine: its three arrays, checked, and what can be said of it without a run."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

__all__ = ["LogLikelihood", "Machine", "as_bits"]

# 2^24 terms take a few seconds.
MOST_ENUMERABLE_UNITS = 24


class LogLikelihood(NamedTuple):
    """log p(x) of each example, their mean, and the standard error that log Z lends to all."""

    values: np.ndarray
    mean: float
    standard_error: float


@dataclass(frozen=True, eq=False)
class Machine:
    """A restricted Boltzmann machine, p(x, h) = exp(x^T W h + a^T x + b^T h) / Z.

    Parameters
    ----------
    W
        Weights, (visible unit, hidden unit).
    a
        Biases of the visible units; zero by default.
    b
        Biases of the hidden units; zero by default.

        All may be NumPy arrays, nested lists, sparse arrays of SciPy, or tensors of any library
        that converts to NumPy.

    Examples
    --------
    >>> from pymc_arm.families.rbm import Machine
    >>> machine = Machine(W=[[1.0, -1.0], [0.5, 2.0], [0.0, 1.0]])
    >>> machine.visible_units, machine.hidden_units
    (3, 2)
    >>> round(machine.exact_log_evidence(), 4)
    5.1263
    """

    W: np.ndarray
    a: Any = None
    b: Any = None

    def __post_init__(self) -> None:
        weights = _as_floats(self.W, "W")
        if weights.ndim != 2 or 0 in weights.shape:
            raise ValueError(
                f"W has shape {weights.shape}: it must be (visible units, hidden units), with at "
                "least one of each."
            )
        object.__setattr__(self, "W", _read_only(weights))
        for name, axis, layer in (("a", 0, "visible"), ("b", 1, "hidden")):
            size = weights.shape[axis]
            given = getattr(self, name)
            bias = np.zeros(size) if given is None else _as_floats(given, name)
            if bias.shape == (1, size) or bias.shape == (size, 1):
                bias = bias.reshape(size)
            if bias.shape != (size,):
                raise ValueError(
                    f"{name} has shape {bias.shape}, but W of shape {weights.shape} has {size} "
                    f"{layer} units. W is (visible, hidden): transpose it if it is the other way."
                )
            object.__setattr__(self, name, _read_only(bias))

    @classmethod
    def from_sklearn(cls, estimator: Any) -> "Machine":
        """Load a fitted ``sklearn.neural_network.BernoulliRBM``."""
        missing = [
            name
            for name in ("components_", "intercept_visible_", "intercept_hidden_")
            if not hasattr(estimator, name)
        ]
        if missing:
            raise ValueError(
                f"estimator={estimator!r} has no {', no '.join(missing)}: give a BernoulliRBM on "
                "which fit has been called."
            )
        return cls(
            np.transpose(estimator.components_),
            estimator.intercept_visible_,
            estimator.intercept_hidden_,
        )

    @property
    def visible_units(self) -> int:
        """N, the number of visible units."""
        return len(self.a)

    @property
    def hidden_units(self) -> int:
        """H, the number of hidden units."""
        return len(self.b)

    def transposed(self) -> "Machine":
        """Return the same machine with its layers exchanged."""
        return Machine(self.W.T, self.b, self.a)

    def log_density(self, x: Any) -> np.ndarray:
        """Return log f(x) = a^T x + sum_h softplus(b_h + W_h^T x), unnormalised, of each example.

        Parameters
        ----------
        x
            Zeros and ones, (example, visible unit) or a single example.
        """
        bits = as_bits(x, self.visible_units, "x")
        hidden = np.logaddexp(0, bits @ self.W + self.b).sum(axis=-1)
        log_density: np.ndarray = bits @ self.a + hidden
        return log_density

    def log_likelihood(
        self, x: Any, log_evidence: Any, standard_error: float | None = None
    ) -> LogLikelihood:
        """Return log p(x) = log f(x) - log Z of test data, with the error of log Z.

        Parameters
        ----------
        x
            Zeros and ones, (example, visible unit).
        log_evidence
            log Z: a number; the estimates of several chains, which are pooled as the log of the
            mean of Z-hat; or the result of a run.
        standard_error
            Of ``log_evidence``, if it is a number; several chains give their own.

        Examples
        --------
        >>> from pymc_arm.families.rbm import Machine
        >>> machine = Machine(W=[[1.0, -1.0], [0.5, 2.0], [0.0, 1.0]])
        >>> result = machine.log_likelihood([[0, 1, 1], [0, 0, 0]], [5.10, 5.14, 5.14])
        >>> round(result.mean, 2), round(result.standard_error, 3)
        (-2.42, 0.013)
        """
        if hasattr(log_evidence, "sample_stats"):
            log_evidence = log_evidence.sample_stats["log_marginal_likelihood"].values
        estimates = np.asarray(log_evidence, dtype=float)
        estimates = estimates[np.isfinite(estimates)]
        if estimates.size == 0:
            raise ValueError("log_evidence has no finite entry: give log Z as the run has it.")
        pooled = float(logsumexp(estimates) - np.log(estimates.size))
        if standard_error is None:
            spread = np.exp(estimates - pooled).std(ddof=1) if estimates.size > 1 else np.nan
            standard_error = float(spread / np.sqrt(estimates.size))
        values = np.atleast_1d(self.log_density(x) - pooled)
        return LogLikelihood(values, float(values.mean()), float(standard_error))

    def exact_log_evidence(self) -> float:
        """Return log Z by enumeration of the smaller layer, of at most 24 units."""
        machine = self.transposed() if self.hidden_units < self.visible_units else self
        units = machine.visible_units
        if units > MOST_ENUMERABLE_UNITS:
            raise ValueError(
                f"Both layers have more than {MOST_ENUMERABLE_UNITS} units (the smaller one "
                f"{units}): estimate log Z with pymc_arm.rbm instead."
            )
        chunk = 2**12
        terms = []
        for start in range(0, 2**units, chunk):
            numbers = np.arange(start, min(start + chunk, 2**units))
            states = (numbers[:, None] >> np.arange(units)) & 1
            terms.append(machine.log_density(states))
        return float(logsumexp(np.concatenate(terms)))


def as_bits(values: Any, units: int, argument: str) -> np.ndarray:
    """Return zeros and ones as uint8, or say which entry is neither."""
    array = _as_numpy(values)
    if array.ndim not in (1, 2) or array.shape[-1] != units:
        raise ValueError(
            f"{argument} has shape {array.shape}, but the machine has {units} visible units: give "
            f"(examples, {units})."
        )
    other = np.argwhere((array != 0) & (array != 1))
    if len(other):
        place = tuple(int(index) for index in other[0])
        raise ValueError(
            f"{argument}[{', '.join(map(str, place))}] is {array[place]}: visible units are 0 or "
            f"1. Binarise grey values first, for example {argument} > {argument}.max() / 2."
        )
    return array.astype(np.uint8)


def _as_numpy(values: Any) -> np.ndarray:
    """Convert anything with a NumPy conversion: sparse arrays, tensors that carry gradients."""
    for method in ("detach", "cpu", "to_dense", "toarray"):
        if hasattr(values, method):
            values = getattr(values, method)()
    return np.asarray(values)


def _as_floats(values: Any, argument: str) -> np.ndarray:
    """Return a float64 array, or say which entry is not finite."""
    try:
        array = np.array(_as_numpy(values), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{argument} cannot be read as an array of numbers: {error}") from error
    # Single precision must hold the activations as well.
    wrong = np.argwhere(~(np.abs(array) < 1e30))
    if len(wrong):
        place = tuple(int(index) for index in wrong[0])
        raise ValueError(
            f"{argument}[{', '.join(map(str, place))}] is {array[place]}: weights and biases must "
            "be finite. Check the training run for overflow."
        )
    return array


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
