"""The operation that stands for a machine in the graph of a model."""

import numpy as np
from pytensor.tensor.random.op import RandomVariable

__all__ = ["RBMVariable"]


class RBMVariable(RandomVariable):
    """The random variable of a machine; the family recognises models by it."""

    name = "rbm"
    signature = "(n,h),(n),(h)->(n)"
    dtype = "int8"
    _print_name = ("RBM", "\\operatorname{RBM}")

    @classmethod
    def rng_fn(
        cls,
        rng: np.random.Generator,
        W: np.ndarray,
        a: np.ndarray,
        b: np.ndarray,
        size: tuple[int, ...] | None = None,
    ) -> np.ndarray:
        """Draw by Gibbs sampling from fair coins: approximate, unless the chain mixes."""
        from pymc_arm.families.rbm.distribution import draw_visible  # numba is slow to load

        if size is None:
            size = np.broadcast_shapes(W.shape[:-2], a.shape[:-1], b.shape[:-1])
        weights = np.broadcast_to(W, (*size, *W.shape[-2:]))
        visible = np.broadcast_to(a, (*size, a.shape[-1]))
        hidden = np.broadcast_to(b, (*size, b.shape[-1]))
        draws = np.empty(visible.shape, dtype=cls.dtype)
        for index in np.ndindex(*size):
            draws[index] = draw_visible(rng, weights[index], visible[index], hidden[index])
        return draws
