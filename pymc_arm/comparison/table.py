"""A table of models: log Z, Bayes factors and probabilities, with their errors."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy

from pymc_arm.comparison.factors import subtract
from pymc_arm.comparison.goals import group_members, make_goal
from pymc_arm.comparison.nested import Nested, check_nested, nested_columns, read_nested
from pymc_arm.comparison.reading import read_attributes, read_evidence, read_seconds
from pymc_arm.comparison.running import run_models
from pymc_arm.comparison.settling import settle_models
from pymc_arm.html import table as html_table
from pymc_arm.results import Evidence, summarize

__all__ = ["ComparisonTable", "check_models", "compare", "model_probabilities", "read_prior"]

# Draws of the errors of log Z behind the intervals of model probabilities, and their seed: the
# same table every time, with ends that are good to two digits.
ERROR_DRAWS = 20_000
ERROR_SEED = 19950601
# What a notebook shows of a table.
SHOWN = (
    "log_evidence",
    "standard_error",
    "degrees_of_freedom",
    "log_bayes_factor",
    "log_bayes_factor_se",
    "probability",
    "probability_low",
    "probability_high",
    "verdict",
    "settled",
)


class ComparisonTable(pd.DataFrame):
    """The table of :func:`compare`: a ``DataFrame`` that is shown with rounded numbers.

    A terminal of 80 characters has room for some of its columns, and pandas would leave out those
    in the middle, the probabilities. What is selected or computed from it, and what
    ``table.to_string()`` returns, is as in an ordinary ``DataFrame``.

    Examples
    --------
    >>> import pymc_arm
    >>> from pymc_arm.results import Evidence
    >>> table = pymc_arm.compare({"a": Evidence(-1.0, 0.1, 3), "b": Evidence(-3.0, 0.1, 3)})
    >>> "-1.00 ± 0.1" in table._repr_html_()
    True
    >>> print(table)  # doctest: +NORMALIZE_WHITESPACE
                 log Z log Bayes factor probability verdict
    model
    a      -1.00 ± 0.1                0       0.881
    b      -3.00 ± 0.1     -2.00 ± 0.14       0.119
    >>> type(table[["probability"]]).__name__
    'DataFrame'
    """

    @property
    def _constructor(self) -> Any:
        return pd.DataFrame

    def group_probabilities(self, groups: Mapping[str, Collection[str]]) -> pd.DataFrame:
        """Return the posterior probabilities of groups of models, such as those with a predictor.

        Parameters
        ----------
        groups
            Names of models by names of groups, which may overlap.

        Returns
        -------
        pandas.DataFrame
            A row for each group: its ``probability``, between ``low`` and ``high`` with 95 % of
            what the errors of log Z allow.

        Examples
        --------
        >>> import pymc_arm
        >>> from pymc_arm.results import Evidence
        >>> exact = {name: Evidence(0.0, 0.0, 3) for name in ("none", "age", "age and sex")}
        >>> table = pymc_arm.compare(exact)
        >>> groups = {"age": ["age", "age and sex"], "sex": ["age and sex"]}
        >>> table.group_probabilities(groups)["probability"].round(2).tolist()
        [0.67, 0.33]
        """
        members = group_members(groups, [str(name) for name in self.index])
        point = self["probability"].to_numpy()
        errors, freedom = self["standard_error"].to_numpy(), self["degrees_of_freedom"].to_numpy()
        low, high = np.zeros(len(members)), np.ones(len(members))
        if np.isfinite(errors).all():
            rng = np.random.default_rng(ERROR_SEED)
            noise = rng.standard_t(np.minimum(freedom, 1e6), (ERROR_DRAWS // 10, len(self)))
            with np.errstate(divide="ignore"):
                drawn = scipy.special.softmax(np.log(point) + noise * errors, axis=1)
            low, high = np.quantile(drawn @ members.T, [0.025, 0.975], axis=0)
        sums = members @ point
        rows = {"probability": sums, "low": np.minimum(low, sums), "high": np.maximum(high, sums)}
        return pd.DataFrame(rows, index=pd.Index(list(groups), name="group"))

    def _rounded(self) -> pd.DataFrame:
        """Return what is said of each model wherever the table is shown, as text."""
        rows = []
        for place, (_, row) in enumerate(self.iterrows()):
            freedom = float(row["degrees_of_freedom"])
            evidence = Evidence(row["log_evidence"], row["standard_error"], freedom)
            against = Evidence(row["log_bayes_factor"], row["log_bayes_factor_se"], freedom)
            factor = summarize(against) if place else "0"
            rows.append([summarize(evidence), factor, f"{row['probability']:.3f}", row["verdict"]])
        columns = ["log Z", "log Bayes factor", "probability", "verdict"]
        return pd.DataFrame(rows, self.index, columns)

    def __repr__(self) -> str:
        """Return the table as text for a terminal: all four columns, however long names are."""
        if not set(SHOWN) <= set(self.columns):
            return str(super().__repr__())
        most, fewest = pd.get_option("display.max_rows"), pd.get_option("display.min_rows")
        return str(self._rounded().to_string(max_rows=most, min_rows=fewest))

    def _repr_html_(self) -> str | None:
        if not set(SHOWN) <= set(self.columns):
            shown: str | None = super()._repr_html_()
            return shown
        rows = []
        rounded = self._rounded().itertuples(name=None)
        for place, (told, (_, row)) in enumerate(zip(rounded, self.iterrows(), strict=True)):
            name, evidence, factor, probability, verdict = told
            last = place == len(self) - 1
            cells = [
                name,
                evidence,
                factor,
                probability,
                f"{row['probability_low']:.3f} to {row['probability_high']:.3f}",
                verdict,
                "" if last else "settled" if row["settled"] else "open",
            ]
            if "agreement" in self:
                cells.append(_say_nested(row))
            rows.append(cells)
        columns = ["model", "log Z", "log Bayes factor against the best", "probability"]
        columns += ["its 95 % interval", "verdict", "order to the next"]
        columns += ["Savage-Dickey"] if "agreement" in self else []
        return html_table(columns, rows, numbers=(1, 2, 3, 4))


def _say_nested(row: pd.Series) -> str:
    if not row["agreement"]:
        return ""
    ratio = Evidence(row["savage_dickey"], row["savage_dickey_se"], math.inf)
    return f"{row['agreement']}: {summarize(ratio)} against {row['nested_in']}"


def compare(
    models: Mapping[str, Any],
    prior_odds: Mapping[str, float] | Sequence[float] | None = None,
    *,
    settle: Literal["order"] | Mapping[str, Collection[str]] | None = None,
    certainty: float = 0.95,
    tolerance: float = 0.01,
    nested: Nested | None = None,
    **sample_kwargs: Any,
) -> ComparisonTable:
    """Compare models by their marginal likelihoods; the best one comes first.

    Parameters
    ----------
    models
        By name: results of :func:`pymc_arm.sample` or of ``pm.sample_smc``, models that are still
        to be run, or :class:`pymc_arm.results.Evidence`. Models run one after another, each with
        its chains on all cores; with an ``executor`` the chains of all models run together. The
        numbers are the same.
    prior_odds
        The prior weight of each model, by name or in the order of ``models``; they need not add
        up to one. By default all models are equally probable.
    settle
        What is to be found out, if there are many models. By default all are run in the same way.
        ``"order"``: models get chains until the order of those that together have ``certainty`` of
        the posterior probability is settled. Groups of models by name, such as
        ``{"age": ["age", "age and sex"]}``: until the probability of each group is known to
        ``tolerance``; :meth:`ComparisonTable.group_probabilities` has them. Of more than 16
        models those are not run that can't matter, by a rough log Z (Laplace's) whose error is
        measured on those that are.
    certainty
        Of intervals, the ones in the column ``settled`` among them.
    tolerance
        Half of the width of the intervals of groups.
    nested
        Which models are others with variables fixed, to compare their Bayes factors with the
        Savage-Dickey ratio (:func:`pymc_arm.savage_dickey`):
        ``{"no effect": ("effect", {"delta": 0.0})}``. The larger one must be given as a model.
    **sample_kwargs
        Passed to :func:`pymc_arm.sample`, the same for every model: ``draws``, ``target_se``,
        ``executor`` and so on. A ``checkpoint`` gets a folder for each model, and a
        ``time_limit`` counts for each from where its compilation begins. With ``settle``,
        ``chains`` (2) are those of a first look, and ``target_se`` (0.01) is the error at which a
        model gets no more of them, settled or not.

    Raises
    ------
    ComparisonError
        If a model fails, after the others have come to their end; their results are in its
        ``finished``.

    Returns
    -------
    ComparisonTable
        A ``pandas.DataFrame`` with one row for each model:

        - ``log_evidence``, its ``standard_error`` and the ``degrees_of_freedom`` of that;
        - ``log_bayes_factor`` against the best model, and ``log_bayes_factor_se``;
        - ``probability``, the posterior probability of the model among these, between
          ``probability_low`` and ``probability_high``: 95 % of what the errors of log Z allow;
        - ``seconds`` of sampling, summed over chains;
        - ``verdict`` of the run, if it has one;
        - ``settled``: whether log Z of this model and of the next one differ by more than the
          interval of their difference. Of the last model there is nothing to settle;
        - ``chains``, with ``settle``: zero if a model was not run; its log Z is then a rough one,
          with the error that rough values have had elsewhere, and its verdict is "not run";
        - with ``nested``, the name of the larger model (``nested_in``), the log Bayes factor
          against it by ``savage_dickey`` with ``savage_dickey_se``, and in ``agreement`` whether
          that of log Z "agrees", "does not agree", or the error of one is "unknown".

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_arm
    >>> from pymc_arm.comparison import compare
    >>> def coin(alpha):
    ...     with pm.Model() as model:
    ...         p = pm.Beta("p", alpha, alpha)
    ...         pm.Binomial("heads", n=100, p=p, observed=64)
    ...     return model
    >>> table = compare(
    ...     {"fair": coin(5000.0), "any": coin(1.0)},
    ...     draws=200,
    ...     random_seed=1,
    ...     progressbar=False,
    ... )
    >>> table.index.tolist()
    ['any', 'fair']
    >>> table["probability"].round(1).tolist()
    [0.9, 0.1]
    """
    check_models(models)
    log_prior = read_prior(list(models), prior_odds)
    nested = read_nested(models, nested)
    chains: dict[str, int] | None = None
    if settle is None:
        results = run_models(models, sample_kwargs)
        evidences = {name: read_evidence(result) for name, result in results.items()}
    else:
        goal = make_goal(settle, list(models), certainty, tolerance)
        found = settle_models(models, log_prior, goal, sample_kwargs)
        results = {name: one.result for name, one in found.items()}
        evidences = {name: one.evidence for name, one in found.items()}
        chains = {name: one.chains for name, one in found.items()}
    probabilities = model_probabilities(evidences, log_prior)
    ordered = sorted(evidences, key=lambda name: evidences[name].log_evidence, reverse=True)
    best = evidences[ordered[0]]
    rows = []
    for place, name in enumerate(ordered):
        evidence = evidences[name]
        # The best model against itself: exactly one, whatever the error of its log Z.
        against = Evidence(0.0, 0.0, math.inf) if place == 0 else subtract(evidence, best)
        following = evidences[ordered[place + 1]] if place + 1 < len(ordered) else None
        probability, low, high = probabilities[name]
        rows.append(
            {
                "log_evidence": evidence.log_evidence,
                "standard_error": evidence.standard_error,
                "degrees_of_freedom": evidence.degrees_of_freedom,
                "log_bayes_factor": against.log_evidence,
                "log_bayes_factor_se": against.standard_error,
                "probability": probability,
                "probability_low": low,
                "probability_high": high,
                "seconds": read_seconds(results[name]),
                "verdict": _verdict(results[name]),
                "settled": following is None or _is_settled(evidence, following, certainty),
            }
        )
    table = ComparisonTable(rows, index=pd.Index(ordered, name="model"))
    if chains is not None:
        table["chains"] = [chains[name] for name in ordered]
    if nested:
        columns = nested_columns(check_nested(models, results, nested), ordered)
        table = ComparisonTable(table.assign(**columns))
    return table


def check_models(models: Any) -> None:
    """Raise if models are not given by name, or none is."""
    if not isinstance(models, Mapping):
        raise TypeError(
            f"models is of type {type(models).__name__}: give a dictionary, from names to models."
        )
    if not models:
        raise ValueError("models is empty: give at least one model, by name.")


def model_probabilities(
    evidences: Mapping[str, Evidence], log_prior: Mapping[str, float] | None = None
) -> dict[str, tuple[float, float, float]]:
    """Return the posterior probability of each model with the ends of its 95 % interval.

    The interval has the errors of log Z in it and nothing else: t-distributed, independent between
    models, drawn with a fixed seed. If the error of one log Z is unknown, all of it is open.

    Examples
    --------
    >>> from pymc_arm.comparison import model_probabilities
    >>> from pymc_arm.results import Evidence
    >>> exact = {"a": Evidence(-1.0, 0.0, 3), "b": Evidence(-1.0, 0.0, 3)}
    >>> model_probabilities(exact)["a"]
    (0.5, 0.5, 0.5)
    """
    names = list(evidences)
    prior = np.array([0.0 if log_prior is None else log_prior[name] for name in names])
    log_evidence = np.array([evidences[name].log_evidence for name in names])
    if np.isnan(log_evidence).any() or log_evidence.max() == -np.inf:
        raise ValueError(
            "No model has positive marginal likelihood, so none has a posterior probability: "
            f"log Z is {dict(zip(names, log_evidence.tolist(), strict=True))}."
        )
    point = scipy.special.softmax(log_evidence + prior)
    errors = np.array([evidences[name].standard_error for name in names])
    if not np.isfinite(errors).all():
        low, high = np.zeros(len(names)), np.ones(len(names))
    else:
        rng = np.random.default_rng(ERROR_SEED)
        # An error that is known exactly has infinitely many, which no generator draws from.
        degrees = np.array([min(evidences[name].degrees_of_freedom, 1e6) for name in names])
        noise = rng.standard_t(degrees, size=(ERROR_DRAWS, len(names)))
        drawn = scipy.special.softmax(log_evidence + prior + noise * errors, axis=1)
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
        # Rounding must not put the estimate outside of its own interval.
        low, high = np.minimum(low, point), np.maximum(high, point)
    return {name: (float(point[k]), float(low[k]), float(high[k])) for k, name in enumerate(names)}


def _is_settled(better: Evidence, worse: Evidence, certainty: float) -> bool:
    return subtract(better, worse).interval(certainty)[0] > 0


def _verdict(result: Any) -> str:
    return "not run" if result is None else str(read_attributes(result).get("verdict", ""))


def read_prior(
    names: list[str], prior_odds: Mapping[str, float] | Sequence[float] | None
) -> dict[str, float]:
    """Return the log prior weight of each model, or say what is wrong with the odds."""
    if prior_odds is None:
        return dict.fromkeys(names, 0.0)
    if not isinstance(prior_odds, Mapping):
        if len(prior_odds) != len(names):
            raise ValueError(f"prior_odds has {len(prior_odds)} values for {len(names)} models.")
        prior_odds = dict(zip(names, prior_odds, strict=True))
    if set(prior_odds) != set(names):
        raise ValueError(f"prior_odds names {sorted(prior_odds)}; the models are {sorted(names)}.")
    for name, value in prior_odds.items():
        if not value > 0 or not math.isfinite(value):
            raise ValueError(f"prior_odds[{name!r}]={value} must be a positive number.")
    return {name: math.log(prior_odds[name]) for name in names}
