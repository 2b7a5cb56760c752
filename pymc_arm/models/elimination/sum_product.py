"""Sum-product in log space, for many points at once, with its derivative and draws.

Tables are arrays (cells, columns, points). A step computes m(o) = log sum_v exp T(v, o), with T the
sum of the tables of a variable v. The share exp(T - m) of each value is the probability of v given
the values o of the outside variables, so that the same shares serve twice: backwards they carry
derivatives to the cells of every table (whose derivative is its probability), and they draw v.
"""

from collections.abc import Sequence

import numpy as np

from pymc_arm.models.elimination.schedule import Batch, Schedule, Source

__all__ = ["differentiate", "draw", "sum_out"]


def sum_out(
    schedule: Schedule, tables: Sequence[np.ndarray], *, keep: bool = False
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the log of the sum of each component, (components, points), and the shares.

    Parameters
    ----------
    schedule
        The steps.
    tables
        The logarithms of the factors, an array (cells, columns, points) for each kind.
    keep
        Whether to return the shares of all steps, (values, cells, columns, points) each.
    """
    arrays, shares = list(tables), []
    with np.errstate(divide="ignore"):
        for batch in schedule.batches:
            joint = _join(batch, arrays)
            largest = joint.max(axis=0)
            largest[largest == -np.inf] = 0.0
            joint -= largest
            np.exp(joint, out=joint)
            total = joint.sum(axis=0)
            if keep:
                joint /= np.where(total > 0, total, 1.0)
                shares.append(joint)
            arrays.append(largest + np.log(total))
    found = [arrays[array][0, column] for array, column in schedule.roots]
    return np.array(found).reshape(len(found), tables[0].shape[2] if tables else 0), shares


def differentiate(
    schedule: Schedule,
    tables: Sequence[np.ndarray],
    shares: Sequence[np.ndarray],
    weights: np.ndarray,
) -> list[np.ndarray]:
    """Return the derivative of sum_c weights[c] log S_c with respect to each cell.

    Parameters
    ----------
    schedule, tables
        As of :func:`sum_out`.
    shares
        What it has kept.
    weights
        Of each component, (components, points).
    """
    points = weights.shape[1]
    adjoints = [np.empty(table.shape) for table in tables]
    for batch in schedule.batches:
        cells = int(np.prod(batch.shape[1:]))
        adjoints.append(np.empty((cells, len(batch.variables), points)))
    for component, (array, column) in enumerate(schedule.roots):
        adjoints[array][0, column] = weights[component]
    for number in range(len(schedule.batches) - 1, -1, -1):
        batch = schedule.batches[number]
        joint = shares[number] * adjoints[schedule.inputs + number]
        joint = joint.reshape(*batch.shape, len(batch.variables), points)
        for source in batch.sources:
            adjoints[source.array][:, source.columns] = _project(joint, source)
    return adjoints[: len(tables)]


def draw(
    rng: np.random.Generator,
    schedule: Schedule,
    shares: Sequence[np.ndarray],
    values: dict[int, np.ndarray],
    sizes: dict[int, int],
) -> None:
    """Draw all variables, last summed first, and put the places of their values into ``values``."""
    for number in range(len(schedule.batches) - 1, -1, -1):
        batch, share = schedule.batches[number], shares[number]
        points = share.shape[-1]
        every = np.arange(points)
        for column, variable in enumerate(batch.variables.tolist()):
            cell = np.zeros(points, dtype=int)
            for other in batch.outside[column].tolist():
                cell = cell * sizes[other] + values[other]
            cumulated = np.cumsum(share[:, cell, column, every], axis=0)
            uniform = rng.random(points) * cumulated[-1]
            place = (cumulated <= uniform).sum(axis=0)
            values[variable] = np.minimum(place, sizes[variable] - 1)


def _join(batch: Batch, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the sum of the tables of each variable, (values, outside cells, columns, points)."""
    count = len(batch.variables)
    points = arrays[batch.sources[0].array].shape[2]
    joint = np.zeros((*batch.shape, count, points))
    for source in batch.sources:
        joint += _spread(batch, source, arrays[source.array])
    return joint.reshape(batch.shape[0], -1, count, points)


def _spread(batch: Batch, source: Source, array: np.ndarray) -> np.ndarray:
    """Return tables with axes of length one where they do not depend on a variable."""
    count, points = len(source.columns), array.shape[2]
    columns: np.ndarray | slice = source.columns
    if count == 1:
        columns = slice(int(source.columns[0]), int(source.columns[0]) + 1)
    elif count == array.shape[1] and (np.diff(source.columns) == 1).all():
        columns = slice(None)
    own = array[:, columns].reshape(*(batch.shape[axis] for axis in source.axes), count, points)
    order = np.argsort(source.axes)
    own = own.transpose(*order, len(order), len(order) + 1)
    wide = [1] * len(batch.shape)
    for axis in source.axes:
        wide[axis] = batch.shape[axis]
    return own.reshape(*wide, count, points)


def _project(joint: np.ndarray, source: Source) -> np.ndarray:
    """Return a joint table summed over the axes that a source lacks, in the source's own order."""
    missing = tuple(axis for axis in range(joint.ndim - 2) if axis not in source.axes)
    summed = joint.sum(axis=missing) if missing else joint
    place = np.argsort(np.argsort(source.axes))
    summed = summed.transpose(*place, summed.ndim - 2, summed.ndim - 1)
    return summed.reshape(-1, *joint.shape[-2:])
