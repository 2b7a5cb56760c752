"""What is recorded of a run besides its estimates, and how it stands in the attributes of a result.

Attributes of netCDF files are numbers and strings: None is written as ``"None"``, truth values as 0
and 1, a tuple of names as one string, and what does not apply is left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args, get_type_hints

import numpy as np

from pymc_arm.algorithm.settings import Settings

__all__ = ["RunSummary", "read_number"]

# Written as "None" where there is none, so that a reader sees that nothing was asked for.
ALWAYS = ("target_se", "time_limit")


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """How a run was made, what ended it, and what is known of its draws and modes.

    ``flat`` are data whose density is the same wherever the run has looked, and ``endless`` the
    coordinates along which it has no finite integral. ``draws_from`` says whether draws were made
    through q or are particles, ``independent_draws`` how many independent ones they are worth, and
    ``explore_r_hat`` how well the chains had agreed before that.
    ``missed_log_mass`` and the shares tell of a mode that the particles have missed, and
    ``repaired_share`` of modes that they have missed and q has found. ``modes_log_evidence``
    is log Z by a mixture of the modes that were found, where that is known. ``unseen_share`` and
    ``unseen_elsewhere`` are of :class:`pymc_arm.estimation.unseen.Unseen`. ``family``, ``start``,
    ``guard`` (what a small run from the prior says of one from a reference), ``symmetries`` (what
    may be exchanged, or change its sign, so that one mode stands for all), ``backend``,
    ``corrections`` and ``summed`` (the discrete variables that were, exactly) are those of a model.
    ``bridged`` and what follows tell of draws that were given
    (:class:`pymc_arm.estimation.given.GivenDraws`): a bridge to them has no settings.
    ``log_new_given_old`` and what follows tell of an update of an earlier result
    (:class:`pymc_arm.estimation.updated.UpdateFacts`); ``renewed_rows`` and what follows of the
    last result whose draws were new (:class:`pymc_arm.running.renewal.Renewal`).
    """

    draws: int
    chains: int
    allocation: str | None
    settings: Settings | None
    target_se: float | None
    time_limit: float | None
    ended_by: str
    complete: bool
    chains_started: int
    flat: tuple[str, ...] = ()
    endless: tuple[str, ...] = ()
    dimension: int | None = None
    fewest_particles: int | None = None
    draws_from: str | None = None
    independent_draws: float | None = None
    explore_r_hat: float | None = None
    explore_r_hat_variable: str | None = None
    explore_ess: float | None = None
    modes_found: int | None = None
    repaired_modes: int | None = None
    repaired_share: float | None = None
    missed_log_mass: float | None = None
    missed_expected_share: float | None = None
    missed_found_share: float | None = None
    modes_log_evidence: float | None = None
    unseen_share: float | None = None
    unseen_elsewhere: float | None = None
    family: str | None = None
    start: str | None = None
    guard: str | None = None
    symmetries: str | None = None
    backend: str | None = None
    corrections: str | None = None
    summed: str | None = None
    bridged: bool | None = None
    given_chains: int | None = None
    given_draws: int | None = None
    given_r_hat: float | None = None
    given_r_hat_variable: str | None = None
    given_ess: float | None = None
    divergences: int | None = None
    shift: float | None = None
    shift_limit: float | None = None
    shift_variable: str | None = None
    log_new_given_old: float | None = None
    log_new_given_old_se: float | None = None
    previous_log_marginal_likelihood: float | None = None
    previous_log_marginal_likelihood_se: float | None = None
    previous_verdict: str | None = None
    updates: int | None = None
    updated_by: str | None = None
    memory: float | None = None
    survivors: float | None = None
    renewed_rows: str | None = None
    renewed_draws: float | None = None
    renewed_updates: int | None = None
    renewed_log_marginal_likelihood: float | None = None
    renewed_log_marginal_likelihood_se: float | None = None
    carried_se: float | None = None
    moments_matched: int | None = None

    def to_attrs(self) -> dict[str, Any]:
        """Return the attributes of a result."""
        found: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Settings):
                found |= {name: _plain(setting) for name, setting in vars(value).items()}
            elif value is not None or field.name in ALWAYS:
                found[field.name] = _plain(value)
        return found

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
        found = _read(Settings, attributes)
        settings = Settings(**found) if found else None
        return cls(**{"allocation": None, **_read(cls, attributes)}, settings=settings)


def read_number(
    attributes: Mapping[str, Any], name: str, kind: Callable[[Any], Any] = float
) -> Any:
    """Return a number among the attributes of a result.

    Raises
    ------
    ValueError
        If there is none, or something else in its place: a file may be damaged, or made by hand.
    """
    try:
        return kind(attributes[name])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        found = str(attributes.get(name, "nothing"))[:50]
        raise ValueError(
            f"The result has {found!r} as {name} in its attrs, where a number must be: its file is "
            "damaged, or something has changed it. Run the model again."
        ) from error


def _plain(value: Any) -> Any:
    """Return a value that netCDF can hold."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, tuple):
        return ", ".join(value)
    return int(value) if isinstance(value, bool) else "None" if value is None else value


def _read(kind: type, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a class that attributes hold, each of its own type."""
    found: dict[str, Any] = {}
    for name, hint in get_type_hints(kind).items():
        if name not in attributes:
            continue
        value = attributes[name]
        if str(value) == "None":
            found[name] = None
        elif hint == tuple[str, ...]:
            found[name] = tuple(part for part in str(value).split(", ") if part)
        else:
            types = [option for option in (hint, *get_args(hint)) if option in (bool, int, float)]
            found[name] = read_number(attributes, name, types[0]) if types else str(value)
    return found
