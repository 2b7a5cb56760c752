"""The Bayes factor of two models, with its error and in words."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import scipy

from pymc_arm.comparison.reading import read_evidence
from pymc_arm.comparison.running import run_models
from pymc_arm.html import box, paragraph, table
from pymc_arm.results import Evidence, summarize

__all__ = ["SCALES", "BayesFactor", "bayes_factor", "subtract"]

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


@dataclass(frozen=True)
class BayesFactor:
    """The Bayes factor of one model against another, with its error, in natural logarithms.

    Attributes
    ----------
    log
        The log Bayes factor of ``first`` against ``second``.
    standard_error, degrees_of_freedom
        The standard error of ``log``, from the errors of both models, and its degrees of freedom.
    first, second
        The names of the models.
    log_prior_odds
        The log prior odds of ``first`` against ``second``.
    scale
        The scale of :meth:`strength`: ``"kass-raftery"`` or ``"jeffreys"``.

    Examples
    --------
    >>> from pymc_arm import BayesFactor
    >>> factor = BayesFactor(3.0, 0.1, 6, "a", "b")
    >>> round(factor.value), round(factor.probability, 2), factor.settled
    (20, 0.95, True)
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
        return float(scipy.special.expit(self.log_posterior_odds))

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
        digits = 3
        if not math.isfinite(shown.standard_error):
            error = ", of unknown error"
        else:
            # As many as tell the ends of the interval apart.
            digits = min(max(digits, 1 - math.floor(math.log10(max(high - low, 1e-9)))), 6)
            error = f" (95 % interval {_power(low, digits)} to {_power(high, digits)})"
        verb = "favour" if self.settled else "lean towards"
        sentence = (
            f"The data {verb} {winner} over {loser}: Bayes factor "
            f"{_power(shown.log, digits)}{error}; on the scale of {title}: {self.strength()}."
        )
        return sentence if self.settled else f"{sentence} The error leaves the order open."

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the sentence, and the numbers behind it."""
        ends = np.array(self.log_interval())
        low, high = scipy.special.expit(ends + self.log_prior_odds)
        error = Evidence(self.log, self.standard_error, self.degrees_of_freedom)
        rows = [
            ("log Bayes factor", summarize(error), f"{ends[0]:.4g} to {ends[1]:.4g}"),
            ("prior odds", f"{_power(self.log_prior_odds, 3)}", ""),
            (
                f"probability of {self.first}, if one of the two is true",
                f"{self.probability:.4g}",
                f"{low:.4g} to {high:.4g}",
            ),
        ]
        columns = [f"{self.first} against {self.second}", "estimate", "95 % interval"]
        return box(paragraph(self, strong=True), table(columns, rows, numbers=(1, 2)))


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
    if len(names) != 2:
        raise ValueError(f"names={names!r} must be two names, of the first model and the second.")
    results = run_models({"first": first, "second": second}, sample_kwargs)
    difference = subtract(read_evidence(results["first"]), read_evidence(results["second"]))
    return BayesFactor(
        difference.log_evidence,
        difference.standard_error,
        difference.degrees_of_freedom,
        names[0],
        names[1],
        math.log(prior_odds),
        scale,
    )


def subtract(first: Evidence, second: Evidence) -> Evidence:
    """Return log Z of the first minus that of the second (errors as Welch has them)."""
    if first.log_evidence == second.log_evidence == -math.inf:
        return Evidence(math.nan, math.inf, 1)
    if not math.isfinite(first.standard_error + second.standard_error):
        return Evidence(first.log_evidence - second.log_evidence, math.inf, 1)
    variances = np.array([first.standard_error, second.standard_error]) ** 2
    degrees = np.array([first.degrees_of_freedom, second.degrees_of_freedom])
    total = float(variances.sum())
    shared = float((variances**2 / degrees).sum())
    freedom = total**2 / shared if shared > 0 else math.inf
    return Evidence(first.log_evidence - second.log_evidence, math.sqrt(total), freedom)


def _name_of(model: Any) -> str:
    if isinstance(model, pm.Model):
        return str(model.name)
    # Bambi's models have no name, but a formula.
    return str(getattr(getattr(model, "formula", None), "main", ""))


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


def _power(log_value: float, digits: int) -> str:
    """Return exp(log_value) in decimal notation, however large or small it is."""
    if not math.isfinite(log_value):
        return {math.inf: "infinity", -math.inf: "0"}.get(log_value, "unknown")
    if abs(log_value) < 13:
        value = math.exp(log_value)
        return f"{value:.{digits}g}" if log_value < 7 else f"{value:,.0f}"
    exponent = math.floor(log_value / math.log(10))
    mantissa = math.exp(log_value - exponent * math.log(10))
    if f"{mantissa:.1f}" == "10.0":
        mantissa, exponent = 1.0, exponent + 1
    return f"{mantissa:.1f}e{exponent:+d}"
