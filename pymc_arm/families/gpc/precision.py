"""S^(n) and h^(n) for the sweeps, which grow from step to step of the sequence."""

import numpy as np

from pymc_arm.families.gpc.kernels import grow_precision
from pymc_arm.families.gpc.microkernel import PANEL
from pymc_arm.families.gpc.sequence import Sequence

__all__ = ["GrowingPrecision"]


class GrowingPrecision:
    """A workspace that holds S^(n) in panels, and h^(n), for one n at a time.

    It is a cache: what it returns depends on n alone, bit for bit, whatever was asked before.
    """

    def __init__(self, sequence: Sequence, dtype: type[np.floating]) -> None:
        size = len(sequence.coordinates)
        panels = -(-size // PANEL)
        self.sequence = sequence
        self.count = 0
        self.matrix = np.zeros((panels, size, PANEL))
        self.rounded = self.matrix if dtype == np.float64 else np.zeros_like(self.matrix, dtype)
        self.shift = -sequence.site_shift

    def at(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return S^(n) in the type of the sweeps and h^(n), for n = ``count``."""
        sequence = self.sequence
        if count < self.count:
            self.count = 0
            self.matrix[:] = 0
            self.shift[:] = -sequence.site_shift
        if count > self.count:
            grow_precision(
                self.matrix,
                self.rounded,
                sequence.rows,
                sequence.site_precision,
                self.count,
                count,
            )
            for row in range(self.count, count):
                self.shift[: row + 1] += sequence.coordinates[row] * sequence.rows[row, : row + 1]
            self.count = count
        return self.rounded, self.shift[:count]
