"""Sum-product in log space, for many points at once, with its derivative and draws.

Tables are arrays (cells, columns, points). A step computes m(o) = log sum_v exp T(v, o), with T the
sum of the tables of a variable v. The share exp(T - m) of each value is the probability of v given
the values o of the outside variables, so that the same shares serve twice: backwards they carry
derivatives to the cells of every table (whose derivative is its probability), and they draw v.
"""

from collections.abc import Mapping, Sequence

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
        The logarithms of the factors, an array (cells, columns, points) for each kind. Those that
        are the same for all points may have one.
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
    points = max((table.shape[2] for table in tables), default=1)
    found = [np.broadcast_to(arrays[array][0, column], points) for array, column in schedule.roots]
    return np.array(found), shares


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
    # What is the same for all points has no derivative that anybody asks for.
    constant = {number for number, table in enumerate(tables) if table.shape[2] < points}
    adjoints = [
        np.empty((0, 0, 0) if number in constant else table.shape)
        for number, table in enumerate(tables)
    ]
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
            if source.array not in constant:
                adjoints[source.array][:, source.columns] = _project(joint, source)
    return adjoints[: len(tables)]


def draw(
    rng: np.random.Generator,
    schedule: Schedule,
    shares: Sequence[np.ndarray],
    sizes: Mapping[int, int],
    points: int,
) -> dict[int, np.ndarray]:
    """Draw all variables, last summed first; return the place of the value of each."""
    values: dict[int, np.ndarray] = {}
    every = np.arange(points)
    for number in range(len(schedule.batches) - 1, -1, -1):
        batch, share = schedule.batches[number], shares[number]
        for column, variable in enumerate(batch.variables.tolist()):
            cell = np.zeros(points, dtype=int)
            for other in batch.outside[column].tolist():
                cell = cell * sizes[other] + values[other]
            uniform = rng.random(points)
            if share.shape[-1] == points:
                cumulated = np.cumsum(share[:, cell, column, every], axis=0)
                place = (cumulated <= uniform * cumulated[-1]).sum(axis=0)
            else:
                place = _draw_alike(share[:, :, column, 0], cell, uniform)
            values[variable] = np.minimum(place, sizes[variable] - 1)
    return values


def _draw_alike(share: np.ndarray, cell: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Return places of values whose probabilities, (values, cells), are those of all points."""
    place = np.empty(len(cell), dtype=int)
    for one in np.unique(cell):
        cumulated, mine = np.cumsum(share[:, one]), cell == one
        place[mine] = np.searchsorted(cumulated, uniform[mine] * cumulated[-1], side="right")
    return place


def _join(batch: Batch, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the sum of the tables of each variable, (values, outside cells, columns, points)."""
    count = len(batch.variables)
    points = max(arrays[source.array].shape[2] for source in batch.sources)
    joint = np.empty((*batch.shape, count, points))
    first, *others = (_spread(source, arrays[source.array]) for source in batch.sources)
    if others:
        np.add(first, others[0], out=joint)
    else:
        joint[...] = first
    for other in others[1:]:
        joint += other
    return joint.reshape(batch.shape[0], -1, count, points)


def _spread(source: Source, array: np.ndarray) -> np.ndarray:
    """Return tables with axes of length one where they do not depend on a variable."""
    own = array[:, source.columns]
    size = own.shape[1:]
    return (
        own.reshape(*source.own_shape, *size)
        .transpose(source.to_batch)
        .reshape(*source.wide_shape, *size)
    )


def _project(joint: np.ndarray, source: Source) -> np.ndarray:
    """Return a joint table summed over the axes that a source lacks, in the source's own order."""
    summed = joint.sum(axis=source.missing) if source.missing else joint
    return summed.transpose(source.from_batch).reshape(-1, *joint.shape[-2:])
