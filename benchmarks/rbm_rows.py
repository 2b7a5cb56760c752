"""What runs on a machine with known log Z show, and which of the paper's claims they bear out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_arm.results import pool

__all__ = ["Row", "claims"]

# As many chains as a call of pymc_arm.rbm has.
CHAINS = 4
LARGEST_DISTANCE = 3.0
# The paper's: very close to AIS in less than a minute.
A_MINUTE = 60.0


@dataclass(frozen=True)
class Row:
    """Estimates of one method with the processor time of one run in seconds.

    ``reference`` is the true log Z with its standard error. ``predicted`` are the variances that
    runs predict of themselves, if they do.
    """

    method: str
    estimates: np.ndarray
    seconds: float
    reference: tuple[float, float]
    predicted: np.ndarray | None = None

    @cached_property
    def error(self) -> float:
        """The log of the mean of Z-hat, less the truth."""
        return float(np.log(np.exp(self.estimates - self.reference[0]).mean()))

    @cached_property
    def distance(self) -> float:
        """The same in combined standard errors."""
        ratios = np.exp(self.estimates - self.reference[0])
        standard_error = ratios.std(ddof=1) / ratios.mean() / np.sqrt(len(ratios))
        return float(self.error / np.hypot(standard_error, self.reference[1]))

    @cached_property
    def cost(self) -> float:
        """Mean squared error times seconds."""
        return float(np.mean((self.estimates - self.reference[0]) ** 2) * self.seconds)

    def coverage(self) -> tuple[int, int]:
        """How many 95 % intervals of four chains cover the truth, and of how many."""
        assert self.predicted is not None
        starts = range(0, len(self.estimates) - CHAINS + 1, CHAINS)
        intervals = [
            pool(self.estimates[i : i + CHAINS], self.predicted[i : i + CHAINS]).interval()
            for i in starts
        ]
        covering = [low <= self.reference[0] <= high for low, high in intervals]
        return sum(covering), len(covering)

    def __str__(self) -> str:
        mean, deviation = self.estimates.mean(), self.estimates.std(ddof=1)
        line = (
            f"{self.method:22s} {len(self.estimates):3d} runs  mean {mean:9.3f}  "
            f"sd {deviation:6.3f}  log mean Z {self.reference[0] + self.error:9.3f} "
            f"({self.distance:+5.1f} se)  {self.seconds:7.2f} cpu s  MSE x s {self.cost:8.3f}"
        )
        if self.predicted is not None and len(self.estimates) >= CHAINS:
            covering, groups = self.coverage()
            line += f"  covered {covering}/{groups}"
        return line


def claims(rows: Sequence[Row]) -> Iterator[str]:
    """Say of ARM, on the paper's path and on the tempered one, which claims hold in these rows.

    The row after one of ARM is AIS in the same time, if its name says so.
    """
    by_name = {row.method: row for row in rows}
    for place, row in enumerate(rows):
        if row.method not in ("ARM", "tempered"):
            continue
        yield _verdict(
            abs(row.distance) < LARGEST_DISTANCE,
            f"{row.method} within {LARGEST_DISTANCE:.0f} standard errors ({row.distance:+.1f})",
        )
        rivals = [by_name["RM"]] if "RM" in by_name else []
        rivals += [other for other in rows[place + 1 : place + 2] if "AIS" in other.method]
        for other in rivals:
            yield _verdict(
                row.cost < other.cost,
                f"{row.method} ahead of {other.method.strip()} in mean squared error x time "
                f"({row.cost:.2f} against {other.cost:.2f})",
            )
        yield _verdict(
            row.seconds < A_MINUTE, f"{row.method} in less than a minute ({row.seconds:.1f} s)"
        )


def _verdict(holds: bool, claim: str) -> str:
    return f"{'holds' if holds else 'does not hold':>13s}: {claim}"
