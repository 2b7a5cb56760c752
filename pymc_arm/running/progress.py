"""Progress bars as in PyMC: one line a chain, with what the algorithm is doing."""

from collections.abc import Sequence
from importlib.util import find_spec
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from pymc_arm.algorithm.arm import Info

__all__ = ["ChainProgress", "ModelProgress"]

# A line has up to 82 characters besides its bar, which has four at least. In a narrower terminal
# the number of particles is left out, or the time at the end of the line would be cut off.
WIDE = 88


def _console() -> Console:
    """Return where bars are drawn.

    In a notebook rich needs ipywidgets; without them it would warn for every bar and draw none, so
    that there bars are printed once, when they have come to their end.
    """
    console = Console(stderr=True)
    if console.is_jupyter and find_spec("ipywidgets") is None:
        return Console(stderr=True, force_jupyter=False, force_terminal=False)
    return console


class _Shown:
    """Bars that are on the screen inside of a ``with`` block."""

    _progress: Progress

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()


class ChainProgress(_Shown):
    """A line for each chain: step, variable, gamma, particles, log Z so far."""

    def __init__(self, chains: int, length: int | None, visible: bool, first: int = 0) -> None:
        console = _console()
        particles = [TextColumn("R {task.fields[particles]}")] if console.width >= WIDE else []
        self._progress = Progress(
            TextColumn("Chain {task.fields[chain]}"),
            BarColumn(table_column=Column(ratio=1)),
            TextColumn("step {task.completed:.0f}{task.fields[of]}"),
            TextColumn(
                "{task.fields[introduced]}", table_column=Column(max_width=28, no_wrap=True)
            ),
            TextColumn("gamma {task.fields[gamma]}"),
            *particles,
            TextColumn("log Z {task.fields[log_evidence]}"),
            TimeElapsedColumn(table_column=Column(min_width=7, no_wrap=True)),
            console=console,
            disable=not visible,
        )
        self._tasks: dict[int, TaskID] = {
            chain: self._progress.add_task(
                "",
                start=False,
                total=length,
                chain=chain,
                of="" if length is None else f"/{length}",
                introduced="",
                gamma="-",
                particles="-",
                log_evidence="-",
            )
            for chain in range(first, first + chains)
        }

    def start(self, chain: int) -> None:
        """Start the clock of a chain."""
        self._progress.start_task(self._tasks[chain])

    def update(self, chain: int, info: Info) -> None:
        """Show the step that a chain has just done."""
        if self._progress.disable:
            return
        self._progress.update(
            self._tasks[chain],
            advance=1,
            introduced=info.introduced,
            gamma=f"{info.effective_fraction:.2f}",
            particles=str(info.particles),
            log_evidence=f"{info.log_evidence:.2f}",
        )

    def finish(self, chain: int) -> None:
        """Fill the bar of a chain whose number of steps was not known."""
        task = self._progress.tasks[self._tasks[chain]]
        self._progress.update(self._tasks[chain], total=max(task.completed, 1))
        self._progress.stop_task(self._tasks[chain])


class ModelProgress(_Shown):
    """A line for each model of a comparison: how many of its chains have come to their end."""

    def __init__(self, names: Sequence[str], visible: bool, unit: str = "chains") -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(table_column=Column(ratio=1)),
            TextColumn(f"{{task.completed:.0f}} of {{task.total:.0f}} {unit}"),
            TimeElapsedColumn(),
            console=_console(),
            disable=not visible,
        )
        self._tasks = {name: self._progress.add_task(name, start=False, total=0) for name in names}

    def ask(self, model: str, chains: int) -> None:
        """Show that a model needs so many more chains."""
        task = self._progress.tasks[self._tasks[model]]
        self._progress.start_task(task.id)
        self._progress.update(task.id, total=(task.total or 0) + chains)

    def advance(self, model: str, chains: int = 1) -> None:
        """Show that a chain of a model has ended, or several."""
        self._progress.advance(self._tasks[model], chains)

    def finish(self, model: str) -> None:
        """Stop the clock of a model."""
        self._progress.stop_task(self._tasks[model])
