"""What is recorded of a run besides its estimates, and how it stands in the attributes of a result.

Attributes of netCDF files are numbers and strings: None is written as ``"None"``, truth values as 0
and 1, and what does not apply is left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from pymc_arm.algorithm.settings import Settings

__all__ = ["RunSummary"]

SETTINGS = tuple(field.name for field in fields(Settings))


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """How a run was made, and what ended it.

    ``missed_log_mass`` and the shares tell of a mode that the particles have missed; ``flat`` are
    data whose density is the same wherever the run has looked. ``family``, ``backend`` and
    ``corrections`` are those of a model.
    """

    draws: int
    chains: int
    allocation: str
    settings: Settings
    target_se: float | None
    time_limit: float | None
    ended_by: str
    complete: bool
    chains_started: int
    flat: tuple[str, ...] = ()
    dimension: int | None = None
    missed_log_mass: float | None = None
    missed_expected_share: float | None = None
    missed_found_share: float | None = None
    family: str | None = None
    backend: str | None = None
    corrections: str | None = None

    def to_attrs(self) -> dict[str, Any]:
        """Return the attributes of a result."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ALWAYS}
        return {
            "draws": self.draws,
            "chains": self.chains,
            "allocation": self.allocation,
            **{name: _plain(getattr(self.settings, name)) for name in SETTINGS},
            "target_se": _plain(self.target_se),
            "time_limit": _plain(self.time_limit),
            "ended_by": self.ended_by,
            "complete": _plain(self.complete),
            "chains_started": self.chains_started,
            "flat": ", ".join(self.flat),
            **{name: value for name, value in own.items() if value is not None},
        }

    @classmethod
    def from_attrs(cls, attributes: Mapping[str, Any]) -> "RunSummary":
        """Return the summary that these attributes hold.

        Examples
        --------
        >>> from pymc_arm import Settings
        >>> from pymc_arm.running.summary import RunSummary
        >>> summary = RunSummary(
        ...     draws=1000, chains=4, allocation="adaptive", settings=Settings(), target_se=None,
        ...     time_limit=60.0, ended_by="chains", complete=True, chains_started=4, flat=("y",),
        ... )
        >>> RunSummary.from_attrs(summary.to_attrs()) == summary
        True
        """

        def read(name: str) -> Any:
            value = attributes.get(name)
            return None if value is None or str(value) == "None" else value

        def number(name: str, kind: Any = float) -> Any:
            value = read(name)
            return None if value is None else kind(value)

        known = {
            "threshold": number("threshold"),
            "max_rounds": number("max_rounds", int),
            "resample_threshold": number("resample_threshold"),
            **{name: read(name) for name in ("variant", "resampling", "move")},
        }
        return cls(
            draws=int(attributes["draws"]),
            chains=int(attributes["chains"]),
            allocation=str(attributes["allocation"]),
            settings=Settings(**known),
            target_se=number("target_se"),
            time_limit=number("time_limit"),
            ended_by=str(attributes["ended_by"]),
            complete=bool(int(attributes["complete"])),
            chains_started=int(attributes["chains_started"]),
            flat=tuple(name for name in str(attributes.get("flat", "")).split(", ") if name),
            dimension=number("dimension", int),
            missed_log_mass=number("missed_log_mass"),
            missed_expected_share=number("missed_expected_share"),
            missed_found_share=number("missed_found_share"),
            family=read("family"),
            backend=read("backend"),
            corrections=read("corrections"),
        )


# Fields that are written one by one; the others are left out where they do not apply.
ALWAYS = (
    "draws",
    "chains",
    "allocation",
    "settings",
    "target_se",
    "time_limit",
    "ended_by",
    "complete",
    "chains_started",
    "flat",
)


def _plain(value: Any) -> Any:
    """Return a value that netCDF can hold."""
    return int(value) if isinstance(value, bool) else "None" if value is None else value
