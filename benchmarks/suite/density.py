"""The log-density of a PyMC model as a NumPy function of many points at once.

Only the check of the truths uses it. The graph is batched and run by PyTensor's Python linker
without fusion, so that each elementwise operation is one NumPy call over the whole batch and
nothing has to be compiled.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.tensor.variable import TensorVariable

__all__ = ["BatchedDensity", "prior_points", "python_mode"]

# Bounds the memory of a batch: rows times the elements of the largest observed array.
CHUNK_ROWS = 20_000


def python_mode() -> Mode:
    """Return the mode in which a batched graph is evaluated by NumPy alone.

    NumPy has no softplus, so that it would run element by element in Python; it is kept out where a
    rewrite would bring it in.
    """
    slow_rewrites = ("logsigm_to_softplus", "log1msigm_to_softplus")
    return Mode("py", "fast_run").excluding("fusion", "inplace", "BlasOpt", *slow_rewrites)


class BatchedDensity:
    """Log-density of a model on its value variables, and its gradient in some of them.

    Parameters
    ----------
    model
        Any PyMC model with at least one free variable.
    differentiate
        Names of the free variables whose gradient is wanted; they must be continuous.
    compiled
        Use PyTensor's default mode, for graphs whose operations NumPy lacks.
    likelihood_only
        Leave out the log-density of the free variables, so that only data and potentials count.

    Attributes
    ----------
    size
        Number of value coordinates.
    start
        The model's initial point, raveled.
    """

    def __init__(
        self,
        model: pm.Model,
        differentiate: Sequence[str] = (),
        compiled: bool = False,
        likelihood_only: bool = False,
    ) -> None:
        mode = None if compiled else python_mode()
        initial_point = model.initial_point()
        self._values = model.value_vars
        self._shapes = [np.shape(initial_point[value.name]) for value in self._values]
        sizes = [int(np.prod(shape)) for shape in self._shapes]
        edges = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
        self.size = int(edges[-1])
        self.start = np.concatenate(
            [np.ravel(initial_point[value.name]) for value in self._values]
        ).astype(float)
        names = [model.values_to_rvs[value].name for value in self._values]
        self._coordinates = {
            name: np.arange(first, last)
            for name, first, last in zip(names, edges[:-1], edges[1:], strict=True)
        }
        differentiated = [
            value for value, name in zip(self._values, names, strict=True) if name in differentiate
        ]
        batches = [
            pt.tensor(value.name, dtype=value.dtype, shape=(None, *shape))
            for value, shape in zip(self._values, self._shapes, strict=True)
        ]
        # Batching a parameter check joins it over the batch, so that one bad row would condemn all;
        # as a switch it stays by row.
        terms = [*model.observed_RVs, *model.potentials] if likelihood_only else None
        rewritten = rewrite_graph(
            model.logp(vars=terms), include=("canonicalize", "local_check_parameter_to_ninf_switch")
        )
        log_density = cast(TensorVariable, rewritten)
        replacements = dict(zip(self._values, batches, strict=True))
        outputs = vectorize_graph([log_density], replacements)
        self._value = pytensor.function(batches, outputs, mode=mode, on_unused_input="ignore")
        self._gradient = None
        if differentiated:
            derivatives = cast(list[TensorVariable], pytensor.grad(log_density, differentiated))
            batched = cast(list[TensorVariable], vectorize_graph(derivatives, replacements))
            gradients = [gradient.reshape((gradient.shape[0], -1)) for gradient in batched]
            self._gradient = pytensor.function(
                batches, gradients, mode=mode, on_unused_input="ignore"
            )

    def coordinates(self, names: Sequence[str]) -> np.ndarray:
        """Positions of the value coordinates of the named free variables, in the model's order."""
        return (
            np.sort(np.concatenate([self._coordinates[name] for name in names]))
            if names
            else np.array([], int)
        )

    def _arguments(self, points: np.ndarray) -> list[np.ndarray]:
        pieces, first = [], 0
        for value, shape in zip(self._values, self._shapes, strict=True):
            last = first + int(np.prod(shape))
            piece = points[:, first:last].reshape(len(points), *shape)
            pieces.append(
                np.rint(piece).astype(value.dtype) if value.dtype.startswith("int") else piece
            )
            first = last
        return pieces

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Log-density at each row; a NaN counts as probability zero."""
        values = []
        for first in range(0, len(points), CHUNK_ROWS):
            with np.errstate(all="ignore"):
                result = self._value(*self._arguments(points[first : first + CHUNK_ROWS]))[0]
            values.append(np.broadcast_to(result, len(points[first : first + CHUNK_ROWS])))
        joined = np.concatenate(values)
        return np.where(np.isnan(joined), -np.inf, joined)

    def gradient(self, points: np.ndarray) -> np.ndarray:
        """Gradient in the differentiated coordinates at each row."""
        if self._gradient is None:
            raise ValueError(
                "no variable was named in `differentiate`, so there is no gradient to evaluate"
            )
        values = []
        for first in range(0, len(points), CHUNK_ROWS):
            chunk = points[first : first + CHUNK_ROWS]
            pieces = self._gradient(*self._arguments(chunk))
            values.append(
                np.concatenate(
                    [np.broadcast_to(p, (len(chunk), p.shape[1])) for p in pieces], axis=1
                )
            )
        return np.concatenate(values)


def prior_points(model: pm.Model, draws: int, seed: int) -> np.ndarray:
    """Forward draws of the free variables, transformed to value coordinates, one a row.

    A draw that its transform cannot represent (an ``ordered`` vector that came out unordered) has
    NaN coordinates.
    """
    transformed = []
    for variable in model.free_RVs:
        transform = model.rvs_to_transforms[variable]
        value = (
            variable if transform is None else transform.forward(variable, *variable.owner.inputs)
        )
        transformed.append(value.astype("float64"))
    with np.errstate(all="ignore"):
        values = pm.draw(transformed, draws=draws, random_seed=seed, mode=python_mode())
    return np.concatenate([np.reshape(value, (draws, -1)) for value in values], axis=1)
