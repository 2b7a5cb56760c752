"""From log marginal likelihoods to a choice between models.

A Bayes factor is the ratio of two estimates, so it has an error, and so has the order that it puts
two models in. Everything here carries that error through: differences of log Z are taken before
anything is exponentiated, their errors add, and posterior model probabilities get an interval from
the errors of log Z. Only results whose log Z is trustworthy can be compared; nothing here can tell
that a run missed a mode.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from scipy import special, stats

from pymc_arm._compat import InferenceTree, get_group, has_group
from pymc_arm.errors import TrustWarning
from pymc_arm.results import Evidence, pool
from pymc_arm.sampling import sample

__all__ = [
    "SCALES",
    "BayesFactor",
    "bayes_factor",
    "compare",
    "model_probabilities",
    "read_evidence",
]

# Upper ends of |log BF|, and the words. Kass and Raftery (1995) grade 2 log BF at 2, 6 and 10;
# Jeffreys (1961, appendix B) grades log10 BF at 1/2, 1, 3/2 and 2.
SCALES: dict[str, tuple[str, tuple[tuple[float, str], ...]]] = {
    "kass-raftery": (
        "Kass and Raftery",
        (
            (1.0, "not worth more than a bare mention"),
            (3.0, "positive"),
            (5.0, "strong"),
            (math.inf, "very strong"),
        ),
    ),
    "jeffreys": (
        "Jeffreys",
        (
            (0.5 * math.log(10), "not worth more than a bare mention"),
            (1.0 * math.log(10), "substantial"),
            (1.5 * math.log(10), "strong"),
            (2.0 * math.log(10), "very strong"),
            (math.inf, "decisive"),
        ),
    ),
}
# Draws of the errors of log Z behind the intervals of model probabilities, and their seed: the
# same table every time, with ends that are good to two digits.
ERROR_DRAWS = 20_000
ERROR_SEED = 19950601
# How much one more run may cost, against the one before, when an error is asked for.
LARGEST_GROWTH = 8.0
MOST_RUNS = 4


@dataclass(frozen=True)
class BayesFactor:
    """The evidence of one model over that of another, with its error, in logs.

    Attributes
    ----------
    log
        The log Bayes factor of ``first`` against ``second``.
    standard_error, degrees_of_freedom
        Of ``log``; the errors of both models are in it.
    first, second
        The names of the models.
    log_prior_odds
        Of ``first`` against ``second``.
    scale
        The scale of :meth:`strength`, a key of :data:`SCALES`.
    """

    log: float
    standard_error: float
    degrees_of_freedom: float
    first: str = "first"
    second: str = "second"
    log_prior_odds: float = 0.0
    scale: str = "kass-raftery"

    @property
    def value(self) -> float:
        """The Bayes factor; ``inf`` or zero where a float can't hold it, which ``str`` can."""
        return _exponential(self.log)

    @property
    def log10(self) -> float:
        """The log Bayes factor in base ten."""
        return self.log / math.log(10)

    @property
    def log_posterior_odds(self) -> float:
        """The log posterior odds of the first model against the second."""
        return self.log + self.log_prior_odds

    @property
    def posterior_odds(self) -> float:
        """The posterior odds of the first model against the second."""
        return _exponential(self.log_posterior_odds)

    @property
    def probability(self) -> float:
        """The posterior probability of the first model, if one of the two is true."""
        return float(special.expit(self.log_posterior_odds))

    @property
    def settled(self) -> bool:
        """Whether the 95 % interval of the log Bayes factor leaves zero out."""
        low, high = self.log_interval()
        return low > 0 or high < 0

    def log_interval(self, probability: float = 0.95) -> tuple[float, float]:
        """Return an interval that covers the log Bayes factor with the given probability."""
        difference = Evidence(self.log, self.standard_error, self.degrees_of_freedom)
        return difference.interval(probability)

    def interval(self, probability: float = 0.95) -> tuple[float, float]:
        """Return an interval that covers the Bayes factor with the given probability."""
        low, high = self.log_interval(probability)
        return _exponential(low), _exponential(high)

    def strength(self, scale: str | None = None) -> str:
        """Return the strength of the evidence in words, for whichever model it favours.

        Where the error of the log Bayes factor spans more than one grade, the words name both
        ends.
        """
        _, grades = _scale(scale or self.scale)
        low, high = self.log_interval()
        if not math.isfinite(self.standard_error):
            return "unknown"
        weakest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
        words = [_grade(weakest, grades), _grade(max(abs(low), abs(high)), grades)]
        return " to ".join(dict.fromkeys(words))

    def __str__(self) -> str:
        title, _ = _scale(self.scale)
        winner, loser = (self.first, self.second)
        shown = self
        if self.log < 0:
            winner, loser = loser, winner
            shown = replace(self, log=-self.log)
        low, high = shown.log_interval()
        if not math.isfinite(shown.standard_error):
            error = ", of unknown error"
        else:
            error = f" (95 % interval {_power(low)} to {_power(high)})"
        verb = "favour" if self.settled else "lean towards"
        sentence = (
            f"The data {verb} {winner} over {loser}: Bayes factor {_power(shown.log)}{error}; "
            f"on the scale of {title}: {self.strength()}."
        )
        return sentence if self.settled else f"{sentence} The error leaves the order open."


def bayes_factor(
    first: Any,
    second: Any,
    *,
    prior_odds: float = 1.0,
    scale: str = "kass-raftery",
    names: tuple[str, str] | None = None,
    **sample_kwargs: Any,
) -> BayesFactor:
    """Return the Bayes factor of one model against another.

    Parameters
    ----------
    first, second
        Results of :func:`pymc_arm.sample` or of ``pm.sample_smc``, models that are still to be
        run, or :class:`pymc_arm.results.Evidence`.
    prior_odds
        The prior odds of the first model against the second.
    scale
        ``"kass-raftery"`` or ``"jeffreys"``: the scale of the words.
    names
        What to call the models; by default the names of the models, or first and second.
    **sample_kwargs
        Passed to :func:`pymc_arm.sample` for models that are still to be run.

    Examples
    --------
    >>> from pymc_arm.comparison import bayes_factor
    >>> from pymc_arm.results import Evidence
    >>> factor = bayes_factor(Evidence(-100.0, 0.02, 3), Evidence(-104.2, 0.03, 3))
    >>> round(factor.value, 1), factor.strength(), factor.strength("jeffreys")
    (66.7, 'strong', 'very strong')
    >>> print(factor)
    The data favour first over second: Bayes factor 66.7 (95 % interval 60.9 to 73.1); on the scale of Kass and Raftery: strong.
    >>> bayes_factor(Evidence(0.0, 0.0, 3), Evidence(-2000.0, 0.0, 3)).log
    2000.0
    """  # noqa: E501
    _scale(scale)
    if not prior_odds > 0 or not math.isfinite(prior_odds):
        raise ValueError(f"prior_odds={prior_odds} must be a positive number.")
    if names is None:
        found = [_name_of(one) for one in (first, second)]
        names = (found[0] or "first", found[1] or "second")
        if names[0] == names[1]:
            names = ("first", "second")
    results = _run_models({"0": first, "1": second}, None, sample_kwargs)
    difference = _difference(read_evidence(results["0"]), read_evidence(results["1"]))
    return BayesFactor(
        difference.log_evidence,
        difference.standard_error,
        difference.degrees_of_freedom,
        names[0],
        names[1],
        math.log(prior_odds),
        scale,
    )


def compare(
    models: Mapping[str, Any],
    prior_odds: Mapping[str, float] | Sequence[float] | None = None,
    *,
    target_se: float | None = None,
    **sample_kwargs: Any,
) -> pd.DataFrame:
    """Compare models by their marginal likelihoods; the best one comes first.

    Parameters
    ----------
    models
        By name: results of :func:`pymc_arm.sample` or of ``pm.sample_smc``, models that are still
        to be run, or :class:`pymc_arm.results.Evidence`. Models run one after another, each with
        its chains on all cores.
    prior_odds
        The prior weight of each model, by name or in the order of ``models``; they need not add
        up to one. By default all models are equally probable.
    target_se
        If given, models that are still to be run get more particles until the standard error of
        their log Z is below it. A :class:`pymc_arm.TrustWarning` says where that failed.
    **sample_kwargs
        Passed to :func:`pymc_arm.sample`, the same for every model.

    Returns
    -------
    pandas.DataFrame
        One row for each model:

        - ``log_evidence``, its ``standard_error`` and the ``degrees_of_freedom`` of that;
        - ``log_bayes_factor`` against the best model, and ``log_bayes_factor_se``;
        - ``probability``, the posterior probability of the model among these, between
          ``probability_low`` and ``probability_high``: 95 % of what the errors of log Z allow;
        - ``seconds`` of sampling, summed over chains;
        - ``verdict`` of the run, if it has one;
        - ``settled``: whether log Z of this model and of the next one differ by more than the
          95 % interval of their difference. Of the last model there is nothing to settle.

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
    if not models:
        raise ValueError("models is empty: give at least one model, by name.")
    if target_se is not None and not target_se > 0:
        raise ValueError(f"target_se={target_se} must be positive.")
    log_prior = _log_prior(list(models), prior_odds)
    results = _run_models(models, target_se, sample_kwargs)
    evidences = {name: read_evidence(result) for name, result in results.items()}
    probabilities = model_probabilities(evidences, log_prior)
    ordered = sorted(evidences, key=lambda name: evidences[name].log_evidence, reverse=True)
    best = evidences[ordered[0]]
    rows = []
    for place, name in enumerate(ordered):
        evidence = evidences[name]
        # The best model against itself: exactly one, whatever the error of its log Z.
        against = Evidence(0.0, 0.0, math.inf) if place == 0 else _difference(evidence, best)
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
                "seconds": _seconds(results[name]),
                "verdict": str(_attributes(results[name]).get("verdict", "")),
                "settled": following is None or _is_settled(evidence, following),
            }
        )
    return pd.DataFrame(rows, index=pd.Index(ordered, name="model"))


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
    point = special.softmax(log_evidence + prior)
    errors = np.array([evidences[name].standard_error for name in names])
    if not np.isfinite(errors).all():
        low, high = np.zeros(len(names)), np.ones(len(names))
    else:
        rng = np.random.default_rng(ERROR_SEED)
        degrees = np.array([evidences[name].degrees_of_freedom for name in names])
        noise = stats.t.rvs(degrees, size=(ERROR_DRAWS, len(names)), random_state=rng)
        drawn = special.softmax(log_evidence + prior + noise * errors, axis=1)
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
        # Rounding must not put the estimate outside of its own interval.
        low, high = np.minimum(low, point), np.maximum(high, point)
    return {name: (float(point[k]), float(low[k]), float(high[k])) for k, name in enumerate(names)}


def read_evidence(result: InferenceTree | Evidence) -> Evidence:
    """Return log Z with its error from a result of this package or of ``pm.sample_smc``.

    PyMC stores log Z in shapes that depend on the run: a float for each chain; a row of stages for
    each chain, of which the last counts; an object array of lists of stages, if chains differ in
    their number; or, for a single chain on PyMC 6, stages along a dimension that is called
    ``chain``. One chain alone has no standard error.

    Parameters
    ----------
    result
        An InferenceData or DataTree, or an Evidence, which is returned as it is.

    Examples
    --------
    >>> from pymc_arm.comparison import read_evidence
    >>> from pymc_arm.results import Evidence
    >>> read_evidence(Evidence(-1.5, 0.1, 3)).log_evidence
    -1.5
    """
    if isinstance(result, Evidence):
        return result
    attributes = _attributes(result)
    if "log_marginal_likelihood" in attributes:
        return Evidence(
            float(attributes["log_marginal_likelihood"]),
            float(attributes["log_marginal_likelihood_se"]),
            float(attributes["log_marginal_likelihood_df"]),
        )
    statistics = get_group(result, "sample_stats") if has_group(result, "sample_stats") else {}
    if "log_marginal_likelihood" not in statistics:
        raise ValueError(
            f"{type(result).__name__} has no log_marginal_likelihood, neither in its attrs nor in "
            "sample_stats: give a result of pymc_arm.sample or pm.sample_smc."
        )
    chains = None
    if has_group(result, "posterior"):
        chains = get_group(result, "posterior").sizes.get("chain")
    values = _chain_values(statistics["log_marginal_likelihood"].values, chains)
    if not values:
        raise ValueError("sample_stats.log_marginal_likelihood holds nothing but NaN.")
    return pool(values, [math.inf] * len(values))


def _chain_values(stored: np.ndarray, chains: int | None) -> list[float]:
    """Return the last value of each chain that is a number."""
    stored = np.asarray(stored)
    if stored.dtype == object and any(np.ndim(cell) for cell in stored.flat):
        rows = [np.asarray(cell, dtype=float).ravel() for cell in stored.flat]
    else:
        numbers = stored.astype(float)
        if numbers.ndim >= 2:
            rows = list(numbers.reshape(len(numbers), -1))
        elif chains == 1 or (chains is None and np.isnan(numbers).sum() == numbers.size - 1):
            rows = [numbers.ravel()]
        else:
            rows = list(numbers.reshape(-1, 1))
    return [float(row[~np.isnan(row)][-1]) for row in rows if not np.isnan(row).all()]


def _run_models(
    models: Mapping[str, Any], target_se: float | None, options: dict[str, Any]
) -> dict[str, Any]:
    """Sample the models among these, each with a random stream of its own."""
    waiting = [name for name, model in models.items() if isinstance(model, pm.Model)]
    if options and not waiting:
        raise TypeError(
            f"{sorted(options)} would be passed to pymc_arm.sample, but every model has been run."
        )
    results = dict(models)
    seed = options.get("random_seed")
    for place, name in enumerate(waiting):
        own = dict(options)
        if isinstance(seed, int | np.integer):
            # Different models on one stream would have correlated errors.
            own["random_seed"] = int(
                np.random.SeedSequence([int(seed), place]).generate_state(1)[0]
            )
        results[name] = _sample(name, models[name], target_se, own)
    return results


def _sample(name: str, model: pm.Model, target_se: float | None, options: dict[str, Any]) -> Any:
    result = sample(model, **options)
    if target_se is None:
        return result
    for _ in range(MOST_RUNS - 1):
        error = read_evidence(result).standard_error
        if error <= target_se:
            return result
        # A little more than the square root law asks for: the error itself is an estimate.
        growth = min(LARGEST_GROWTH, 1.3 * (error / target_se) ** 2)
        draws = math.ceil(growth * int(_attributes(result)["draws"]))
        result = sample(model, **{**options, "draws": draws})
    error = read_evidence(result).standard_error
    if error > target_se:
        warnings.warn(
            f"The standard error of log Z of {name!r} is {error:.3g} with "
            f"{_attributes(result)['draws']} draws a chain, not below target_se={target_se:.3g}. "
            "Give more chains or draws.",
            TrustWarning,
            stacklevel=4,
        )
    return result


def _difference(first: Evidence, second: Evidence) -> Evidence:
    """Return log Z of the first minus that of the second (errors as Welch has them)."""
    if first.log_evidence == second.log_evidence == -math.inf:
        return Evidence(math.nan, math.inf, 1)
    if not math.isfinite(first.standard_error + second.standard_error):
        return Evidence(first.log_evidence - second.log_evidence, math.inf, 1)
    variances = np.array([first.standard_error, second.standard_error]) ** 2
    degrees = np.array([first.degrees_of_freedom, second.degrees_of_freedom])
    total = float(variances.sum())
    freedom = total**2 / float((variances**2 / degrees).sum()) if total > 0 else math.inf
    return Evidence(first.log_evidence - second.log_evidence, math.sqrt(total), freedom)


def _is_settled(better: Evidence, worse: Evidence) -> bool:
    return _difference(better, worse).interval()[0] > 0


def _log_prior(
    names: list[str], prior_odds: Mapping[str, float] | Sequence[float] | None
) -> dict[str, float]:
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


def _attributes(result: Any) -> Mapping[str, Any]:
    """Return the attributes of a run; the group ``arm`` has a copy of those of the root."""
    if isinstance(result, Evidence):
        return {}
    own = dict(result.attrs)
    if "log_marginal_likelihood" not in own and has_group(result, "arm"):
        own = {**dict(get_group(result, "arm").attrs), **own}
    return own


def _seconds(result: Any) -> float:
    """Return the time that a run took, if it says so."""
    if isinstance(result, Evidence):
        return math.nan
    attributes = dict(_attributes(result))
    if has_group(result, "sample_stats"):
        attributes = {**get_group(result, "sample_stats").attrs, **attributes}
    return float(attributes.get("sampling_time", attributes.get("_t_sampling", math.nan)))


def _name_of(model: Any) -> str:
    return str(model.name) if isinstance(model, pm.Model) else ""


def _scale(name: str) -> tuple[str, tuple[tuple[float, str], ...]]:
    if name not in SCALES:
        raise ValueError(f"scale={name!r} is not one of {sorted(SCALES)}.")
    return SCALES[name]


def _grade(log_factor: float, grades: tuple[tuple[float, str], ...]) -> str:
    return next((words for end, words in grades if abs(log_factor) < end), grades[-1][1])


def _exponential(value: float) -> float:
    """Return exp(value); inf where that is too large for a float."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _power(log_value: float) -> str:
    """Return exp(log_value) in decimal notation, however large or small it is."""
    if not math.isfinite(log_value):
        return {math.inf: "infinity", -math.inf: "0"}.get(log_value, "unknown")
    if abs(log_value) < 13:
        return f"{math.exp(log_value):.3g}" if log_value < 7 else f"{math.exp(log_value):,.0f}"
    exponent = math.floor(log_value / math.log(10))
    mantissa = math.exp(log_value - exponent * math.log(10))
    if f"{mantissa:.1f}" == "10.0":
        mantissa, exponent = 1.0, exponent + 1
    return f"{mantissa:.1f}e{exponent:+d}"
