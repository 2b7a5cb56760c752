"""The verdict on a result: its facts are read here, and judged by :mod:`pymc_arm.estimation`."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from pymc_arm._compat import InferenceTree, get_group, set_attributes
from pymc_arm.errors import TrustWarning, callers_level
from pymc_arm.estimation.estimate import Evidence
from pymc_arm.estimation.facts import Facts
from pymc_arm.estimation.given import GivenDraws
from pymc_arm.estimation.steps import StepFacts
from pymc_arm.estimation.unseen import Unseen
from pymc_arm.estimation.updated import UpdateFacts
from pymc_arm.estimation.verdict import Report, judge
from pymc_arm.html import box, paragraph, table
from pymc_arm.running.summary import RunSummary, read_number

__all__ = ["Diagnosis", "attach_verdict", "diagnose", "read_facts"]


@dataclass(frozen=True)
class Diagnosis(Report):
    """The verdict on a run, which a notebook shows with its reasons, each beside its advice.

    ``status`` is ``"ok"``, ``"caution"`` (the error bar may be too small) or ``"failed"`` (the
    estimate should not be used). It prints as :class:`pymc_arm.Report` does, whose fields it has.

    Examples
    --------
    >>> from pymc_arm import Diagnosis, Reason
    >>> verdict = Diagnosis("caution", (Reason("chains", "Chains differ.", "Raise draws."),))
    >>> print(verdict)
    caution:
    - Chains differ. Raise draws.
    >>> "<td" in verdict._repr_html_()
    True
    """

    def _repr_html_(self) -> str:
        parts = [paragraph(f"log Z: {self.status}", strong=True)]
        if self.reasons:
            rows = [(reason.message, reason.advice) for reason in self.reasons]
            parts.append(table(["what was found", "what to do"], rows))
        else:
            parts.append(paragraph("Nothing speaks against this estimate of log Z."))
        parts += [paragraph(note) for note in self.notes]
        if not np.isnan(self.r_hat):
            parts.append(
                paragraph(
                    f"Draws: R-hat at most {self.r_hat:.3f}, effective number at least "
                    f"{self.effective_draws:.0f}."
                )
            )
        return box(*parts, status=self.status)


def diagnose(idata: InferenceTree) -> Diagnosis:
    """Return a verdict on the log Z and the draws of a run.

    Parameters
    ----------
    idata
        The result of :func:`pymc_arm.sample`.

    Returns
    -------
    Diagnosis
        With a status, reasons that name the steps and variables, and R-hat and the effective
        number of the draws.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_arm
    >>> with pm.Model() as model:
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Binomial("y", n=10, p=p, observed=7)
    >>> idata = pymc_arm.sample(model, draws=500, random_seed=1, progressbar=False)
    >>> report = pymc_arm.diagnose(idata)
    >>> report.status
    'ok'
    >>> report.r_hat < 1.05
    True
    """
    history, statistics = get_group(idata, "arm"), get_group(idata, "sample_stats")
    try:
        report = judge(read_facts(history, statistics))
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"The result lacks {error}, or has it in another form: its file is damaged, or "
            "something has changed it. Run the model again."
        ) from error
    return Diagnosis(**vars(report))


def attach_verdict(result: InferenceTree) -> InferenceTree:
    """Write the verdict into a result, warn if it is not good, and return the result."""
    report = diagnose(result)
    verdict = {"verdict": report.status, "verdict_reasons": str(report)}
    result.attrs.update(verdict)
    set_attributes(result, "arm", verdict)
    if report.status != "ok":
        warnings.warn(f"log Z: {report}", TrustWarning, stacklevel=callers_level())
    return result


def read_facts(history: xr.Dataset, statistics: xr.Dataset) -> Facts:
    """Read what a verdict is made of from the groups ``arm`` and ``sample_stats``."""
    attributes = history.attrs
    number = _Numbers(attributes)
    variances = ("predicted_variance", "genealogy_variance")
    explored, refined, refined_variances = (
        statistics[name].values
        for name in (
            "explore_log_marginal_likelihood",
            "refined_log_marginal_likelihood",
            "refined_variance",
        )
    )
    missed = None
    if "missed_log_mass" in attributes:
        names = ("missed_log_mass", "missed_expected_share", "missed_found_share")
        missed = (number(names[0]), number(names[1]), number(names[2]))
    summary = RunSummary.from_attrs(attributes) if "ended_by" in attributes else None
    return Facts(
        evidence=number.evidence("log_marginal_likelihood"),
        explore=number.evidence("explore_log_marginal_likelihood"),
        refine=number.evidence("refine_log_marginal_likelihood")
        if "refine_log_marginal_likelihood" in attributes
        else None,
        chosen=str(attributes.get("estimate", "explore")),
        explored=explored,
        # What an exploring chain predicts of itself: by its steps, and by its families.
        explored_variances=np.max([statistics[name].values for name in variances], axis=0),
        refined=refined,
        refined_variances=refined_variances,
        steps=StepFacts(
            effective_fraction=history["effective_fraction"].values,
            particles=history["particles"].values,
            distinct_fraction=history["distinct_fraction"].values,
            acceptance_rate=history["acceptance_rate"].values,
            autocorrelation=history["autocorrelation"].values,
            introduced=history["introduced"].values,
        ),
        divergent=_mean(statistics["divergent"].values) if "divergent" in statistics else np.nan,
        overlap=number("refine_overlap"),
        pareto_k=number("refine_pareto_k"),
        repaired=number.whole("repaired_modes"),
        repaired_share=number("repaired_share"),
        refuted=number("particles_refuted") > 0,
        missed=missed,
        unseen=Unseen(number("unseen_share"), number("unseen_elsewhere"))
        if "unseen_share" in attributes
        else None,
        r_hat=number("r_hat"),
        r_hat_variable=str(attributes.get("r_hat_variable", "")),
        effective_draws=number("ess"),
        independent_draws=number("independent_draws"),
        explore_r_hat=number("explore_r_hat"),
        explore_r_hat_variable=str(attributes.get("explore_r_hat_variable", "")),
        draws_from=str(attributes.get("draws_from", "particles")),
        draws=number.whole("draws"),
        chains=len(explored),
        dimension=number.whole("dimension"),
        fewest_particles=number.whole("fewest_particles", 2 * number.whole("dimension")),
        given=_read_given(attributes, number, refined),
        update=_read_update(attributes, number),
        flat=() if summary is None else summary.flat,
        endless=() if summary is None else summary.endless,
        unfinished="" if summary is None else _unfinished(summary, number),
    )


def _read_given(
    attributes: Mapping[str, Any], number: "_Numbers", refined: np.ndarray
) -> GivenDraws | None:
    """Read what is known of draws that were given, if they were."""
    if "given_draws" not in attributes:
        return None
    bridged = bool(number.whole("bridged"))
    return GivenDraws(
        chains=number.whole("given_chains"),
        draws=number.whole("given_draws"),
        dimension=number.whole("dimension"),
        r_hat=number("r_hat"),
        r_hat_variable=str(attributes.get("r_hat_variable", "")),
        effective=number("ess"),
        divergences=number.whole("divergences"),
        shift=number("shift"),
        shift_limit=number("shift_limit"),
        shift_variable=str(attributes.get("shift_variable", "")),
        bridged=bridged,
        overlap=number("refine_overlap"),
        pareto_k=number("refine_pareto_k"),
        spread=float(np.std(refined, ddof=1)) if len(refined) > 1 else 0.0,
        refuted=bridged and number("particles_refuted") > 0,
        repaired_share=number("repaired_share") if bridged else np.nan,
    )


def _read_update(attributes: Mapping[str, Any], number: "_Numbers") -> UpdateFacts | None:
    """Read what is known of an update, if it was one."""
    if "log_new_given_old" not in attributes:
        return None
    return UpdateFacts(
        verdict=str(attributes.get("previous_verdict", "ok")),
        overlap=number("refine_overlap"),
        pareto_k=number("refine_pareto_k"),
        memory=number("memory"),
        survivors=number("survivors"),
    )


class _Numbers:
    """Numbers among attributes; NaN where there is none."""

    def __init__(self, attributes: Mapping[str, Any]) -> None:
        self._attributes = attributes

    def __call__(self, name: str) -> float:
        return read_number(self._attributes, name) if name in self._attributes else np.nan

    def whole(self, name: str, otherwise: int = 0) -> int:
        """Return a number that counts something."""
        value = self(name) if name in self._attributes else otherwise
        if not abs(value) < 2**63:
            raise ValueError(
                f"The result has {name}={value} in its attrs, which is no count: its file is "
                "damaged, or something has changed it. Run the model again."
            )
        return int(value)

    def evidence(self, name: str) -> Evidence:
        return Evidence(self(name), self(f"{name}_se"), 1)


def _unfinished(summary: RunSummary, number: _Numbers) -> str:
    """Return a sentence about the limit that ended a run early, or nothing."""
    if summary.complete:
        return ""
    chains = f"{summary.chains} of {summary.chains_started} chains"
    if summary.chains == summary.chains_started and summary.target_se is None:
        return f"The {summary.ended_by} ended the run after its {chains}, before all checks."
    message = f"The {summary.ended_by} ended the run with {chains}."
    if summary.target_se is not None:
        error = number("log_marginal_likelihood_se")
        message += f" The standard error is {error:.3g}, not {summary.target_se:.3g}."
    return message


def _mean(values: np.ndarray) -> float:
    """Return the mean over what is known; NaN if nothing is."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan
