"""What the scripts share: data, repeated runs, tables and figures."""

import argparse
import csv
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from pymc_arm.algorithm.resampling import log_mean_exp

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"


@dataclass(frozen=True)
class Row:
    """One method at one setting: what its repeated estimates of log Z are like."""

    method: str
    setting: str
    runs: int
    log_mean_evidence: float
    mean: float
    deviation: float
    seconds: float

    @classmethod
    def of(cls, method: str, setting: str, estimates: Sequence[float], seconds: float) -> "Row":
        """Summarise estimates of log Z."""
        values = np.asarray(estimates, dtype=float)
        deviation = float(values.std(ddof=1)) if len(values) > 1 else np.nan
        return cls(
            method,
            setting,
            len(values),
            log_mean_exp(values),
            float(values.mean()),
            deviation,
            float(seconds),
        )


def parse(
    description: str, arguments: Sequence[str] | None, **choices: Sequence[str]
) -> argparse.Namespace:
    """Read the options that every script has, and choices of its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_const", const="quick", dest="setting")
    parser.add_argument(
        "--setting",
        choices=["quick", "reduced", "full"],
        default="full",
        help="quick: seconds; reduced: minutes; full: the paper's, hours",
    )
    parser.add_argument("--output", type=Path, default=Path("paper"), help="folder for figures")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--redraw", action="store_true", help="draw the rows that are in the folder, run nothing"
    )
    for name, values in choices.items():
        parser.add_argument(f"--{name}", choices=values, nargs="+", default=list(values))
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    return options


def find_data(name: str) -> Path:
    """Return a file of the paper's data, or say how to give the folder."""
    file = Path(os.environ.get("PYMC_ARM_DATA", BESIDE)) / name
    if not file.exists():
        raise SystemExit(
            f"{file.name} is not there: set PYMC_ARM_DATA to the folder that holds it, or choose "
            "--quick, which needs no data."
        )
    return file


def repeat(
    estimate: Callable[[np.random.Generator], float], runs: int, seed: int
) -> tuple[list[float], float]:
    """Return the estimates of several runs, and the processor seconds that one takes."""
    started = time.process_time()
    values = [estimate(np.random.default_rng([seed, index])) for index in range(runs)]
    return values, (time.process_time() - started) / runs


def print_row(row: Row) -> Row:
    print(
        f"{row.method:24s} {row.setting:18s} {row.runs:4d} {row.log_mean_evidence:11.3f} "
        f"{row.mean:11.3f} {row.deviation:9.3f} {row.seconds:9.2f}",
        flush=True,
    )
    return row


def print_header(title: str) -> None:
    print(f"\n{title}")
    print(
        f"{'method':24s} {'setting':18s} {'runs':>4s} {'log mean Z':>11s} {'mean log Z':>11s} "
        f"{'sd log Z':>9s} {'CPU s':>9s}",
        flush=True,
    )


def write_rows(file: Path, rows: Sequence[Row]) -> None:
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [field.name for field in fields(Row)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def read_rows(file: Path) -> list[Row]:
    with file.open(newline="") as stream:
        return [
            Row(
                line["method"],
                line["setting"],
                int(line["runs"]),
                *(
                    float(line[name])
                    for name in ("log_mean_evidence", "mean", "deviation", "seconds")
                ),
            )
            for line in csv.DictReader(stream)
        ]


def save(figure: Any, file: Path) -> None:
    figure.savefig(file, dpi=100)
    plt.close(figure)
    print(f"\nfigure: {file}")
