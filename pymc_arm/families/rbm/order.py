"""In which order visible units come in."""

import numpy as np

__all__ = ["arrange"]


def arrange(
    order: str | np.ndarray | None,
    units: int,
    data: np.ndarray | None,
    random_seed: int | np.random.Generator | None = None,
) -> np.ndarray:
    """Return the visible units in the order in which they come in.

    ``"active"`` is the paper's: the units whose variance in the training data is highest come
    first, so that regions of high density are explored from the beginning.
    """
    if order is None:
        order = "given" if data is None else "active"
    if isinstance(order, str):
        if order == "given":
            return np.arange(units)
        if order == "random":
            return np.random.default_rng(random_seed).permutation(units)
        if order == "active":
            if data is None:
                raise ValueError(
                    'order="active" sorts units by their variance in training data: give data=..., '
                    'or choose "given" or "random".'
                )
            return np.argsort(-np.var(data, axis=0, dtype=float), kind="stable")
        raise ValueError(
            f'order={order!r} is not one of "given", "random", "active", or an array of indices.'
        )
    indices = np.asarray(order)
    if indices.shape != (units,) or not np.array_equal(np.sort(indices), np.arange(units)):
        raise ValueError(
            f"order must contain each of the indices 0 to {units - 1} once, one for each unit of "
            f"the layer; its shape is {indices.shape}."
        )
    return indices.astype(np.int64)
