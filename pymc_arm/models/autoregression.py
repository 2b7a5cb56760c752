"""The CAR and ICAR priors of PyMC as normal densities with a known precision matrix Q.

PyMC draws a CAR vector as Q^-1 z, which has covariance Q^-2, and an ICAR vector not at all; its
densities lack constants, which log Z must not. With W the neighbours and D their number, a CAR
vector has Q = tau (D - alpha W), and an ICAR vector Q = (D - W) / sigma^2 + 1 1' / (k s)^2, where s
is the standard deviation of its mean.
"""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.multivariate import ICARRV
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.variable import TensorVariable
from scipy.sparse.csgraph import connected_components

from pymc_arm.errors import ModelError
from pymc_arm.models.graph_sampler import INTERPRETED
from pymc_arm.models.transforms import is_fixed

__all__ = ["check_autoregression", "log_density", "log_normalizer", "normal_parameters"]


def check_autoregression(rv: TensorVariable) -> None:
    """Refuse a CAR or ICAR variable whose density lacks more than a constant."""
    intrinsic = isinstance(rv.owner.op, ICARRV)
    weights, *others = _parameters(rv.owner)
    if rv.type.ndim != 1:
        raise ModelError(
            f"{rv.name!r} has {rv.type.ndim} axes: PyMC has no draws of several "
            f"{'ICAR' if intrinsic else 'CAR'} vectors at once. Give each a variable of its own."
        )
    if not is_fixed([weights]):
        raise ModelError(
            f"The neighbours W of {rv.name!r} are random: what PyMC leaves out of its density then "
            "depends on other variables. Give W as an array."
        )
    matrix = _matrix(weights)
    lonely = int(np.sum(matrix.sum(axis=0) == 0))
    if lonely and len(matrix) > 1:
        raise ModelError(
            f"{lonely} of the {len(matrix)} elements of {rv.name!r} have no neighbours in W: their "
            "prior is improper. Leave them out, and give them a pm.Normal of their own."
        )
    if not intrinsic:
        return
    if not is_fixed(others):
        raise ModelError(
            f"{rv.name!r} is an ICAR prior whose sigma or zero_sum_stdev is random: PyMC's density "
            "lacks the factor that makes it integrate to one for each of their values. Use "
            f"sigma=1 and multiply: sigma * pm.ICAR({rv.name!r}, W=W)."
        )
    islands = connected_components(matrix)[0]
    if islands > 1:
        raise ModelError(
            f"{rv.name!r} is an ICAR prior on {islands} sets of neighbours that W does not join: "
            "it is improper, since their levels are free. Use one pm.ICAR for each set, or pm.CAR."
        )


def normal_parameters(op: Op, node: Apply) -> tuple[TensorVariable, TensorVariable]:
    """Return the mean and the precision matrix of a CAR or ICAR vector."""
    weights, *others = _parameters(node)
    weights = weights.reshape(weights.shape[-2:]).astype("float64")
    neighbours = pt.diag(weights.sum(axis=0))
    if isinstance(op, ICARRV):
        deviation, zero_sum = (parameter.reshape(()) for parameter in others)
        count = weights.shape[0]
        precision = (neighbours - weights) / deviation**2 + 1 / (zero_sum * count) ** 2
        return pt.zeros(count), precision
    mean, strength, scale = others
    precision = scale.reshape(()) * (neighbours - strength.reshape(()) * weights)
    return mean.reshape((-1,)), precision


def log_density(model: pm.Model, rv: TensorVariable) -> TensorVariable:
    """Return the log-density of a CAR vector, normalised, as a graph over values.

    With lambda the eigenvalues of D^-1/2 W D^-1/2, the determinant of its precision matrix is
    tau^k prod D prod (1 - alpha lambda). PyMC's own graph fails where alpha or tau is random.
    """
    weights, *others = _parameters(rv.owner)
    matrix = _matrix(weights)
    neighbours = matrix.sum(axis=0)
    root = np.sqrt(neighbours)
    eigenvalues = np.linalg.eigvalsh(matrix / root / root[:, None])
    mean, strength, scale = model.replace_rvs_by_values(others)
    strength, scale = strength.reshape(()), scale.reshape(())
    distance = model.rvs_to_values[rv] - mean.reshape((-1,))
    constant = float(np.sum(np.log(neighbours / (2 * np.pi))))
    determinant = len(matrix) * pt.log(scale) + pt.sum(pt.log1p(-strength * eigenvalues)) + constant
    square = pt.sum(distance * (neighbours * distance - strength * pt.dot(matrix, distance)))
    valid = pt.and_(pt.lt(pt.abs(strength), 1.0), pt.gt(scale, 0.0))
    return pt.switch(valid, 0.5 * (determinant - scale * square), -np.inf)


def log_normalizer(rv: TensorVariable) -> float:
    """Return what PyMC leaves out of the log-density of an ICAR vector."""
    weights, *others = _parameters(rv.owner)
    matrix = _matrix(weights)
    neighbours = matrix.sum(axis=0)
    deviation, zero_sum = (float(_constant(parameter).item()) for parameter in others)
    spread = zero_sum * len(matrix)
    precision = (np.diag(neighbours) - matrix) / deviation**2 + 1 / spread**2
    present = -0.5 * np.log(2 * np.pi) - np.log(spread)
    return float(0.5 * np.linalg.slogdet(precision / (2 * np.pi))[1] - present)


def _parameters(node: Apply) -> list[TensorVariable]:
    """Return W and the other parameters: sigma and s, or the mean, alpha and tau."""
    parameters = [
        pytensor.sparse.dense_from_sparse(p) if isinstance(p.type, SparseTensorType) else p
        for p in node.op.dist_params(node)
    ]
    if isinstance(node.op, ICARRV):
        return parameters
    mean, weights, strength, scale = parameters[:4]
    return [weights, mean, strength, scale]


def _matrix(weights: Variable) -> np.ndarray:
    array = np.asarray(_constant(weights), dtype=float)
    return array.reshape(array.shape[-2:])


def _constant(parameter: Variable) -> np.ndarray:
    return np.asarray(pm.compile([], parameter, mode=INTERPRETED)())
