"""A rough log Z of a model, before anything is compiled for a run: Laplace's approximation.

Among hundreds of models most can't matter, and to find that out by running them costs as much as
running them. A climb to a mode by PyTensor's plain functions, without rewriting graphs and without
compiling anything, takes a thirtieth of a short run. What it says is never taken for log Z:
how far it is off is measured on models that are run (:mod:`pymc_arm.comparison.settling`).
"""

import numpy as np
import pymc as pm
import scipy

from pymc_arm._compat import COMPILING
from pymc_arm.models.graph.reuse import plain_gradient

__all__ = ["laplace_log_evidence"]

# Differences of gradients take two evaluations a dimension; beyond this a run is the quicker way.
MOST_DIMENSIONS = 50
# Of the differences, in units of 1 + |coordinate|: the cube root of rounding.
STEP = 1e-5


def laplace_log_evidence(model: pm.Model) -> float:
    """Return Laplace's approximation of log Z at a mode; NaN if there is none.

    There is none with discrete variables or more than 50 coordinates, or where the climb from the
    initial point of the model ends at no maximum.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_arm.comparison.screening import laplace_log_evidence
    >>> with pm.Model() as model:
    ...     mean = pm.Normal("mean", 0, 1)
    ...     y = pm.Normal("y", mean, 1, observed=1.0)
    >>> round(laplace_log_evidence(model), 3)  # exactly the log density of N(0, 2) at 1
    -1.516
    """
    if model.discrete_value_vars:
        return np.nan
    try:
        with COMPILING, np.errstate(all="ignore"):
            return _approximate(model)
    except Exception:  # whatever a model can't do is found out, and told, when it is run
        return np.nan


def _approximate(model: pm.Model) -> float:
    inputs = model.value_vars
    if not inputs:
        return float(model.compile_logp()({}))
    point = model.initial_point()
    parts = [np.asarray(point[variable.name], dtype=float) for variable in inputs]
    start = np.concatenate([np.ravel(part) for part in parts])
    if len(start) > MOST_DIMENSIONS:
        return np.nan
    function = plain_gradient(inputs, model.logp())
    ends = np.cumsum([part.size for part in parts])[:-1]

    def minus(x: np.ndarray) -> tuple[float, np.ndarray]:
        pieces = [
            piece.reshape(part.shape).astype(variable.type.dtype)
            for piece, part, variable in zip(np.split(x, ends), parts, inputs, strict=True)
        ]
        value, *slopes = function(*pieces)
        return -float(value), -np.concatenate([np.ravel(slope) for slope in slopes], dtype=float)

    found = scipy.optimize.minimize(minus, start, jac=True, method="L-BFGS-B")
    steps = STEP * (1 + np.abs(found.x))
    rows = [
        (minus(found.x + step * unit)[1] - minus(found.x - step * unit)[1]) / (2 * step)
        for step, unit in zip(steps, np.eye(len(start)), strict=True)
    ]
    factor = np.linalg.cholesky(0.5 * (np.array(rows) + np.array(rows).T))
    determinant = float(np.log(np.diag(factor)).sum())
    return float(-found.fun + 0.5 * len(start) * np.log(2 * np.pi) - determinant)
