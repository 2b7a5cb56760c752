"""Where the evidence comes from, observation by observation.

If data comes in one observation at a time, the increments of log Z are one-step-ahead predictive
scores (Dawid's prequential view of the marginal likelihood):

    log Z = sum_k log p(y_k | y_1, ..., y_{k-1}).

The difference of two models' running sums is their log Bayes factor as it builds up, and shows
which observations decide it. The sum does not depend on the order of the data; the scores do, so
two models can be compared only under the same order.

The path that :func:`pymc_arm.sample` takes is chosen for precision. Where each observation has a
variable of its own (states, group effects, labels), it brings them in one by one, and its
increments are such scores; elsewhere it tempers data in, many observations at once, and they are
not. :func:`evidence_path` says which when it reads a result, and takes a model instead to run it
observation by observation.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import scipy

from pymc_arm._compat import InferenceTree, get_group, has_group, unwrap_model
from pymc_arm.estimation.estimate import ROUNDING
from pymc_arm.html import box, paragraph, table
from pymc_arm.models.compiled import ModelPath, compile_model
from pymc_arm.models.density import Density, name_term
from pymc_arm.models.plan import Plan, Step
from pymc_arm.sampling import sample_path

__all__ = ["PIECE", "EvidencePath", "compile_in_data_order", "evidence_path", "in_data_order"]

# A step that was cut into pieces says how far it is: "y[3] (0.25)".
PIECE = re.compile(r" \((?:\d+(?:\.\d+)?(?:e[+-]?\d+)?)\)$")
POTENTIAL = "potential"

OBSERVATIONS = (
    "each score is the predictive log-density of one observation given those before it; potentials "
    "that came in between count with the observation that follows."
)
STEPS = (
    "on the path of this result data came in several at once, so its increments are not predictive "
    "scores of observations. evidence_path(model) runs a model observation by observation."
)


@dataclass(frozen=True)
class EvidencePath:
    """How log Z builds up as the data come in, pooled over chains.

    :func:`evidence_path` returns it.

    Attributes
    ----------
    labels
        What came in: observations, or steps if ``per_observation`` is false.
    log_scores
        The increments of the pooled log Z. They add up to ``log_evidence[-1]``, apart from
        ``log_start``.
    score_errors
        Standard errors of the scores, from the spread between chains.
    log_evidence
        The running log Z after each of them.
    standard_errors
        Standard errors of the running log Z.
    per_observation
        Whether each score is the predictive log-density of one observation given all before it.
    note
        What the scores are, in words.
    log_start
        Log Z before the first of them: zero, unless potentials came in first.
    """

    labels: tuple[str, ...]
    log_scores: np.ndarray = field(repr=False)
    score_errors: np.ndarray = field(repr=False)
    log_evidence: np.ndarray = field(repr=False)
    standard_errors: np.ndarray = field(repr=False)
    per_observation: bool
    note: str
    log_start: float = 0.0

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row for each label."""
        return pd.DataFrame(
            {
                "log_score": self.log_scores,
                "log_score_se": self.score_errors,
                "log_evidence": self.log_evidence,
                "standard_error": self.standard_errors,
            },
            index=pd.Index(self.labels, name="observation" if self.per_observation else "step"),
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows: log Z, what the scores are, and a table of them."""
        found = self.to_frame()
        rows = [
            (label, f"{score:.3f}", f"{error:.2g}", f"{running:.3f}", f"{running_error:.2g}")
            for label, score, error, running, running_error in found.itertuples()
        ]
        columns = [str(found.index.name), "log score", "its error", "log Z so far", "its error"]
        total = self.log_evidence[-1] if len(rows) else self.log_start
        return box(
            paragraph(f"log Z = {total:.3f} after {len(rows)} {found.index.name}s", strong=True),
            paragraph(f"{self.note[0].upper()}{self.note[1:]}"),
            table(columns, rows, numbers=(1, 2, 3, 4)),
        )

    def against(self, other: "EvidencePath") -> pd.DataFrame:
        """Return the log Bayes factor against another model as it builds up.

        Parameters
        ----------
        other
            The path of the other model, under the same order of the same data.

        Returns
        -------
        pandas.DataFrame
            With ``log_bayes_factor`` (the running one), ``standard_error`` and ``contribution``,
            that of each observation.
        """
        for path in (self, other):
            if not path.per_observation:
                raise ValueError(f"Two paths can be compared only by observation: {path.note}")
        if _positions(self.labels) != _positions(other.labels):
            raise ValueError(
                f"The paths have different observations or orders: {_shorten(self.labels)} and "
                f"{_shorten(other.labels)}. Give both the same order_data."
            )
        return pd.DataFrame(
            {
                "log_bayes_factor": self.log_evidence - other.log_evidence,
                "standard_error": np.hypot(self.standard_errors, other.standard_errors),
                "contribution": self.log_scores - other.log_scores,
            },
            index=pd.Index(self.labels, name="observation"),
        )


def evidence_path(
    model_or_result: pm.Model | InferenceTree,
    *,
    order_data: Sequence[int] | None = None,
    backend: str | None = None,
    **sample_kwargs: Any,
) -> EvidencePath:
    """Estimate how log Z builds up as the data come in.

    Parameters
    ----------
    model_or_result
        A model, which is run with its data coming in one observation at a time, in steps that are
        split further where one observation changes much; or a result of :func:`pymc_arm.sample`
        or :func:`pymc_arm.sample_path`, whose steps are read as they are.
    order_data
        For a model: the order in which observations come in, as their numbers; those of several
        observed variables are counted through, in the order in which the model declares them. By
        default as they stand. Models are comparable only under the same order.
    backend
        For a model: as in :func:`pymc_arm.sample`.
    **sample_kwargs
        For a model: passed to :func:`pymc_arm.sample_path`.

    Returns
    -------
    EvidencePath
        Its ``per_observation`` says whether the scores are predictive scores of observations.

    Examples
    --------
    The predictive scores of 0 and 1 under a uniform prior are log 1/2 and log 1/3:

    >>> import numpy as np
    >>> import pymc as pm
    >>> from pymc_arm.comparison.evidence_path import evidence_path
    >>> with pm.Model() as model:
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Bernoulli("y", p, observed=[0, 1])
    >>> path = evidence_path(model, draws=500, random_seed=1, progressbar=False)
    >>> path.labels
    ('y[0]', 'y[1]')
    >>> bool(np.allclose(np.exp(path.log_scores), [1 / 2, 1 / 3], atol=0.02))
    True
    """
    model_or_result = unwrap_model(model_or_result)
    if isinstance(model_or_result, pm.Model):
        path = compile_in_data_order(model_or_result, order_data, backend=backend)
        # Each observation needs particles that follow it, so the cloud is kept fresh.
        options = {"resample_threshold": 0.9, **sample_kwargs}
        return _read(sample_path(path, **options))
    if order_data is not None or backend is not None or sample_kwargs:
        given = sorted(sample_kwargs)
        given += [name for name, v in (("order_data", order_data), ("backend", backend)) if v]
        raise TypeError(f"{given} are for a model; a result has been run already.")
    if not has_group(model_or_result, "arm"):
        raise ValueError(
            f"{type(model_or_result).__name__} has no group 'arm': give a result of "
            "pymc_arm.sample, or a model."
        )
    return _read(model_or_result)


def compile_in_data_order(
    model: pm.Model, order_data: Sequence[int] | None = None, *, backend: str | None = None
) -> ModelPath:
    """Return the path of a model on which observations come in one at a time.

    Parameters
    ----------
    model
        The model.
    order_data, backend
        As in :func:`evidence_path`.
    """
    base = compile_model(model, backend=backend)
    return base.along(model, in_data_order(base.plan, base.density, order_data))


def in_data_order(plan: Plan, density: Density, order_data: Sequence[int] | None = None) -> Plan:
    """Return a plan with the same variables, and one step for each observation.

    A variable that the original plan introduces by itself comes in with the first observation that
    depends on it. Potentials come in as soon as their variables are there, before the data.
    """
    kinds = np.repeat([block.kind for block in density.blocks], density.sizes)
    rows = np.flatnonzero(kinds == "data")
    order = _check_order(order_data, len(rows))
    introduced = np.zeros(plan.layout.dimension, dtype=bool)
    introduced[plan.initial] = True
    owners = {step.coordinate: step for step in plan.steps if step.coordinate is not None}
    potentials = np.flatnonzero(kinds == "potential").tolist()
    nothing = np.zeros(0, dtype=int)
    steps: list[Step] = []

    def activate_potentials() -> None:
        ready = [row for row in potentials if not plan.scopes[row, ~introduced].any()]
        if ready:
            potentials[:] = [row for row in potentials if row not in ready]
            labels = tuple(dict.fromkeys(name_term(density, row).split("[")[0] for row in ready))
            steps.append(
                Step("temper", POTENTIAL, None, nothing, np.array(ready, dtype=int), labels)
            )

    def introduce(coordinate: int) -> None:
        if introduced[coordinate]:
            return
        original = owners[coordinate]
        for parent in np.flatnonzero(plan.scopes[original.prior_terms].any(axis=0)).tolist():
            if parent != coordinate:
                introduce(parent)
        introduced[coordinate] = True
        steps.append(replace(original, data_terms=nothing, data_labels=()))

    activate_potentials()
    for row in rows[order].tolist():
        label = name_term(density, row)
        for coordinate in np.flatnonzero(plan.scopes[row]).tolist():
            introduce(coordinate)
        activate_potentials()
        datum = np.array([row])
        last = steps[-1] if steps else None
        if last is not None and last.coordinate is not None and not len(last.data_terms):
            # The paper's case: the variable is integrated out with its own observation.
            steps[-1] = replace(
                last, label=f"{last.label} with {label}", data_terms=datum, data_labels=(label,)
            )
        else:
            steps.append(Step("temper", label, None, nothing, datum, (label,)))
    for coordinate in range(plan.layout.dimension):
        introduce(coordinate)
    activate_potentials()
    return replace(plan, steps=tuple(steps))


def _check_order(order_data: Sequence[int] | None, count: int) -> np.ndarray:
    if order_data is None:
        return np.arange(count)
    order = np.asarray(order_data)
    if order.dtype.kind not in "iu" or sorted(order.ravel().tolist()) != list(range(count)):
        raise ValueError(
            f"order_data must have each of the numbers 0 to {count - 1} once, and has "
            f"{_shorten(order.ravel().tolist())}."
        )
    return order


def _read(result: InferenceTree) -> EvidencePath:
    """Sum the increments of each chain by what came in, and pool the chains."""
    history = get_group(result, "arm")
    observations = history["observations"].values if "observations" in history else np.zeros((1, 1))
    by_observation = bool(observations.any() and (observations <= 1).all())
    names = history["observed" if by_observation else "introduced"].values.astype(str)
    labels: list[str] | None = None
    before, after = [], []
    for row, increments, running in zip(
        names.tolist(),
        history["log_increment"].values,
        history["cumulative_log_marginal_likelihood"].values,
        strict=True,
    ):
        length = int((~np.isnan(increments)).sum())
        if length and running[length - 1] == -np.inf:
            continue  # a chain that lost all particles contributes zero to the mean of Z-hat
        steps = [PIECE.sub("", label) for label in row[:length]]
        found, ends = _boundaries(steps)
        if labels is not None and found != labels:
            raise ValueError(
                "The chains of this result brought the data in with different steps, so their "
                "increments can't be pooled. evidence_path(model) runs a model observation by "
                "observation."
            )
        labels = found
        start = running[0] - increments[0] if length else 0.0
        # Potentials before all data are where the sum starts.
        leading = next((k for k, step in enumerate(steps) if step), 0)
        first = running[leading - 1] if leading else start
        after.append(running[ends])
        before.append(np.concatenate([[first], running[ends[:-1]]])[: len(ends)])
    if labels is None:
        raise ValueError(
            "Every chain ended with log Z = -inf: there is no evidence to show. The data are "
            "impossible under the model, or more draws are needed."
        )
    chains = history.sizes["chain"]
    pooled, pooled_before = _pool(after, chains), _pool(before, chains)
    return EvidencePath(
        labels=tuple(labels),
        log_scores=pooled - pooled_before,
        score_errors=_spread(np.array(after) - np.array(before)),
        log_evidence=pooled,
        standard_errors=_spread(np.array(after)),
        per_observation=by_observation,
        note=OBSERVATIONS if by_observation else STEPS,
        log_start=float(pooled_before[0]) if labels else 0.0,
    )


def _boundaries(steps: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return what came in, and the last step of each.

    A step that brings no observation, only a variable, counts with the next one.
    """
    names: list[str] = []
    ends: list[int] = []
    for number, name in enumerate(steps):
        if not name:
            continue
        if names and names[-1] == name:
            ends[-1] = number
        else:
            names.append(name)
            ends.append(number)
    if ends:
        ends[-1] = len(steps) - 1
    return names, ends


def _pool(values: Sequence[np.ndarray], chains: int) -> np.ndarray:
    """Return the log of the mean of Z-hat over all chains, those that ended at zero included."""
    pooled: np.ndarray = scipy.special.logsumexp(np.array(values), axis=0) - np.log(chains)
    return pooled


def _spread(values: np.ndarray) -> np.ndarray:
    """Return the standard error of a mean over chains; unknown for one chain."""
    if len(values) < 2:
        return np.full(values.shape[1:], np.nan)
    # Chains whose integrals are exact agree to the last digits, and may all be off by more.
    spread: np.ndarray = np.hypot(values.std(axis=0, ddof=1) / np.sqrt(len(values)), ROUNDING)
    return spread


def _positions(labels: Sequence[str]) -> list[str]:
    """Return labels without the names of variables, which models may choose differently."""
    return [re.sub(r"^[^\[]*", "", label) for label in labels]


def _shorten(values: Sequence[Any]) -> str:
    shown = ", ".join(str(value) for value in values[:5])
    return shown if len(values) <= 5 else f"{shown}, ... ({len(values)} in all)"
