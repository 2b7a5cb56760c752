"""Rows of a csv file as dataclasses: every run of a benchmark is added as soon as it has ended."""

import csv
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["add_record", "read_records"]


Record = TypeVar("Record")


def read_records(kind: type[Record], file: Path) -> list[Record]:
    """Read what `add_record` wrote; there is nothing in a file that does not exist."""
    if not file.exists():
        return []
    with open(file, newline="") as stream:
        return [_parse(kind, row) for row in csv.DictReader(stream)]


def _parse(kind: Any, row: dict[str, str]) -> Any:
    return kind(**{field.name: _convert(field.type, row[field.name]) for field in fields(kind)})


def _convert(kind: Any, text: str) -> Any:
    return text == "True" if kind is bool else kind(text)


def add_record(file: Path, record: Any) -> None:
    """Add a dataclass to a file, which is made where there is none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = not file.exists()
    with open(file, "a", newline="") as stream:
        writer = csv.DictWriter(stream, [field.name for field in fields(record)])
        if fresh:
            writer.writeheader()
        writer.writerow(asdict(record))
