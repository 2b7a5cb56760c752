"""Can the number be trusted? A verdict on a finished run, with reasons.

A log Z that is silently wrong is the failure this package exists to end. Every check compares two
things that should agree: chains with each other, chains with their own predictions, the exploring
estimate with the refined one, and each step with what its particles can support.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy
import xarray as xr

from pymc_arm._compat import InferenceTree, get_group, set_attributes
from pymc_arm.errors import TrustWarning, callers_level

__all__ = ["Reason", "Report", "attach_verdict", "diagnose"]

# Each check is set so that a sound run fails it about once in a thousand.
CHANCE = 1e-3
# Errors smaller than this, in nats, change nobody's mind about a model.
NEGLIGIBLE = 0.05
SMALLEST_FRACTION = 0.1
# What an exploring chain predicts of itself: by its steps, and by its families.
EXPLORE_VARIANCES = ["predicted_variance", "genealogy_variance"]
SMALLEST_ACCEPTANCE = 0.02
LARGEST_ERROR = 0.5


@dataclass(frozen=True)
class Reason:
    """One thing that is not as it should be."""

    check: str
    message: str
    advice: str
    steps: tuple[int, ...] = ()
    variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """The verdict on a run.

    ``status`` is ``"ok"``, ``"caution"`` (the error bar may be too small) or ``"failed"`` (the
    estimate should not be used).
    """

    status: Literal["ok", "caution", "failed"]
    reasons: tuple[Reason, ...] = ()

    def __str__(self) -> str:
        if not self.reasons:
            return "ok: nothing speaks against this estimate of log Z"
        lines = [f"- {reason.message} {reason.advice}" for reason in self.reasons]
        return "\n".join([f"{self.status}:", *lines])


def diagnose(idata: InferenceTree) -> Report:
    """Return a verdict on the log Z of a run.

    Parameters
    ----------
    idata
        The result of :func:`pymc_arm.sample`.

    Returns
    -------
    Report
        With a status and reasons that name the steps and variables.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_arm
    >>> with pm.Model() as model:
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Binomial("y", n=10, p=p, observed=7)
    >>> idata = pymc_arm.sample(model, draws=500, random_seed=1, progressbar=False)
    >>> pymc_arm.diagnose(idata).status
    'ok'
    """
    history, statistics = get_group(idata, "arm"), get_group(idata, "sample_stats")
    attributes = history.attrs
    log_evidence = float(attributes["log_marginal_likelihood"])
    if not np.isfinite(log_evidence):
        reason = Reason(
            "no particles",
            "Every chain ran out of particles with positive weight.",
            "Use more draws, or check that the data are possible under the prior.",
        )
        return Report("failed", (reason,))
    found = [
        _disagreement(attributes),
        _spread(statistics, attributes),
        _weak_steps(history),
        _few_ancestors(history),
        _stuck(history),
        _imprecise(attributes),
        _few_particles(attributes),
        _missed_mode(attributes),
        _flat(attributes),
        _incomplete(attributes),
    ]
    reasons = tuple(reason for reason in found if reason is not None)
    severe = {"disagreement", "weak steps", "missed mode"}
    failed = any(reason.check in severe for reason in reasons)
    return Report("failed" if failed else "caution" if reasons else "ok", reasons)


def attach_verdict(result: InferenceTree) -> InferenceTree:
    """Write the verdict into a result, warn if it is not good, and return the result."""
    report = diagnose(result)
    verdict = {"verdict": report.status, "verdict_reasons": str(report)}
    result.attrs.update(verdict)
    set_attributes(result, "arm", verdict)
    if report.status != "ok":
        warnings.warn(f"log Z: {report}", TrustWarning, stacklevel=callers_level())
    return result


def _disagreement(attributes: Mapping[str, Any]) -> Reason | None:
    """Compare the exploring with the refined estimate."""
    if "refine_log_marginal_likelihood" not in attributes:
        return None
    names = ("explore_log_marginal_likelihood", "refine_log_marginal_likelihood")
    explored, refined = (float(attributes[name]) for name in names)
    first, second = (float(attributes[f"{name}_se"]) for name in names)
    error = float(np.hypot(first, second))
    difference = abs(explored - refined)
    limit = float(scipy.special.stdtrit(8, 1 - CHANCE / 2)) * error
    if difference <= max(limit, NEGLIGIBLE):
        return None
    return Reason(
        "disagreement",
        f"The exploring estimate ({explored:.2f}) and the refined one ({refined:.2f}) differ by "
        f"{difference:.2f}, and their errors together are {error:.2f}.",
        "Chains may have missed a mode or not mixed: use more draws, and compare the chains.",
    )


def _spread(statistics: xr.Dataset, attributes: Mapping[str, Any]) -> Reason | None:
    """Compare the spread between chains with what each chain predicts of itself."""
    chosen = "refined" if attributes.get("estimate") == "refine" else "explore"
    values = statistics[f"{chosen}_log_marginal_likelihood"].values
    # What the standard error would be made of if there were one chain.
    columns = ["refined_variance"] if chosen == "refined" else EXPLORE_VARIANCES
    predicted = float(np.mean(np.max([statistics[column].values for column in columns], axis=0)))
    chains = len(values)
    if chains < 2 or not np.all(np.isfinite(values)):
        return None
    observed = float(np.var(values, ddof=1))
    limit = float(scipy.special.fdtri(chains - 1, 20, 1 - CHANCE)) * predicted
    if observed <= max(limit, NEGLIGIBLE**2 * chains):
        return None
    return Reason(
        "spread",
        f"Chains differ more than they should: their standard deviation is "
        f"{np.sqrt(observed):.2f}, and each predicts {np.sqrt(predicted):.2f}.",
        "Use more draws or chains; the standard error counts the spread, but few chains know "
        "it only roughly.",
    )


def _weak_steps(history: xr.Dataset) -> Reason | None:
    """Find steps that hung on a few particles, even after generating more."""
    fraction = history["effective_fraction"].values
    effective = fraction * history["particles"].values
    weak = (fraction < SMALLEST_FRACTION) & (effective < 50)
    if not weak.any():
        return None
    steps = np.flatnonzero(weak.any(axis=0))
    names = _names(history, weak)
    return Reason(
        "weak steps",
        f"{len(steps)} step(s) hung on few particles, the worst on {np.nanmin(effective):.0f}: "
        f"{', '.join(names[:3])}.",
        "Use more draws, another order of the variables, or a larger max_rounds.",
        tuple(int(step) for step in steps),
        names,
    )


def _few_ancestors(history: xr.Dataset) -> Reason | None:
    """Find steps whose particles were copies of few, not moved since (``move="adaptive"``)."""
    return _low_steps(
        history,
        "distinct_fraction",
        SMALLEST_FRACTION,
        "few ancestors",
        "Only {lowest:.0f} % of the particles were distinct when the run came to {names}.",
        'Move copies apart with move="always", or use more draws.',
    )


def _stuck(history: xr.Dataset) -> Reason | None:
    """Find moves that were hardly ever accepted."""
    return _low_steps(
        history,
        "acceptance_rate",
        SMALLEST_ACCEPTANCE,
        "stuck",
        "Moves were accepted in only {lowest:.1f} % of the proposals at {names}.",
        "Copies of particles were not moved apart there: use more draws, or reparameterise.",
    )


def _low_steps(
    history: xr.Dataset, column: str, limit: float, check: str, message: str, advice: str
) -> Reason | None:
    """Return a reason that names the steps at which a fraction is below its limit."""
    fraction = history[column].values
    low = fraction < limit
    if not low.any():
        return None
    names = _names(history, low)
    return Reason(
        check,
        message.format(lowest=100 * np.nanmin(fraction), names=", ".join(names[:3])),
        advice,
        tuple(int(step) for step in np.flatnonzero(low.any(axis=0))),
        names,
    )


def _imprecise(attributes: Mapping[str, Any]) -> Reason | None:
    error = float(attributes["log_marginal_likelihood_se"])
    if error <= LARGEST_ERROR:
        return None
    return Reason(
        "imprecise",
        f"The standard error of log Z is {error:.2f}.",
        "Use more draws or chains before comparing models.",
    )


def _incomplete(attributes: Mapping[str, Any]) -> Reason | None:
    """Say so if a limit ended the run before it had what was asked for."""
    if int(attributes.get("complete", 1)):
        return None
    error = float(attributes["log_marginal_likelihood_se"])
    finished, started = (int(attributes[name]) for name in ("chains", "chains_started"))
    message = f"The {attributes['ended_by']} ended the run with {finished} of {started} chains."
    if attributes["target_se"] != "None":
        message += f" The standard error is {error:.3g}, not {float(attributes['target_se']):.3g}."
    return Reason("incomplete", message, "Give it more time, or more draws.")


def _few_particles(attributes: Mapping[str, Any]) -> Reason | None:
    """Report fewer particles than tell a covariance, which every move and fit relies on."""
    draws, dimension = int(attributes.get("draws", 0)), int(attributes.get("dimension", 0))
    if draws >= 2 * dimension:
        return None
    return Reason(
        "few particles",
        f"{draws} particles can't represent a posterior in {dimension} dimensions.",
        f"Use at least {10 * dimension} draws.",
    )


def _missed_mode(attributes: Mapping[str, Any]) -> Reason | None:
    """Report a mode that a search after the run has found, and the particles have not."""
    if "missed_log_mass" not in attributes:
        return None
    log_mass = float(attributes["missed_log_mass"])
    expected, found = (float(attributes[f"missed_{n}_share"]) for n in ("expected", "found"))
    return Reason(
        "missed mode",
        f"There is a mode with a mass of about exp({log_mass:.2f}), {100 * expected:.0f} % of the "
        f"total, that holds {100 * found:.1f} % of the particles.",
        "Particles missed it: use many more draws, or a prior that is nearer to it; the true log Z "
        "is likely to be larger.",
    )


def _flat(attributes: Mapping[str, Any]) -> Reason | None:
    names = str(attributes.get("flat", ""))
    if not names:
        return None
    return Reason(
        "flat",
        f"The log-density of {names} is the same at each prior draw, although it depends on free "
        "variables.",
        "If it is larger in some small region, no particle has seen that: check the model there.",
        variables=tuple(names.split(", ")),
    )


def _names(history: xr.Dataset, flagged: np.ndarray) -> tuple[str, ...]:
    names: Sequence[str] = history["introduced"].values[flagged]
    return tuple(dict.fromkeys(str(name) for name in names))
