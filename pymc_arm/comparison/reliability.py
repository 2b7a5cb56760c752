"""What simulations say about posterior model probabilities: means, a curve, and coverage.

Three checks, each of which sees what the others do not. The mean probability of a model must be its
prior one: an error of log Z that is the same for all data moves it. A model must be true as often
as it is probable: overconfidence bends that curve. And second runs must agree with first ones
within their errors.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy

from pymc_arm.comparison.factors import subtract
from pymc_arm.comparison.simulated import Simulation
from pymc_arm.html import box, paragraph, table

__all__ = ["Calibration"]

# False alarms of the three checks, 5 % together. Most of it is for the first, which sees an error
# of log Z that is the same for all data; the others see errors that come and go.
MEAN_CHANCE, CURVE_CHANCE, COVERAGE_CHANCE = 0.03, 0.01, 0.01
BAND_DRAWS, BAND_SEED = 4000, 20230101


@dataclass(frozen=True)
class Calibration:
    """Simulations of models, and whether their posterior probabilities are calibrated.

    :func:`calibrate` returns it.

    Attributes
    ----------
    names
        The names of the models.
    prior
        The prior probabilities of the models.
    truth
        The index of the true model in each simulation.
    log_evidence
        Log Z, (simulation, model).
    standard_error
        The standard errors of log Z, (simulation, model).
    runs
        The simulations one by one, with second runs, verdicts and times.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_arm import Calibration
    >>> log_z = np.array([[-1.0, -3.0], [-2.0, -1.0]])
    >>> equal, zero = np.array([0.5, 0.5]), np.zeros((2, 2))
    >>> found = Calibration(("a", "b"), equal, np.array([0, 1]), log_z, zero)
    >>> found.probabilities.round(2).tolist()
    [[0.88, 0.12], [0.27, 0.73]]
    """

    names: tuple[str, ...]
    prior: np.ndarray
    truth: np.ndarray
    log_evidence: np.ndarray
    standard_error: np.ndarray
    runs: tuple[Simulation, ...] = ()

    @classmethod
    def of(
        cls, names: Sequence[str], prior: Sequence[float], runs: Sequence[Simulation]
    ) -> "Calibration":
        """Collect simulations; those with a run that failed are left out of all numbers."""
        good = [run for run in runs if not run.error]
        if not good:
            raise RuntimeError(f"All simulations failed, the first with: {runs[0].error}")
        return cls(
            tuple(names),
            np.asarray(prior, dtype=float),
            np.array([run.truth for run in good]),
            np.array([[e.log_evidence for e in run.evidences] for run in good]),
            np.array([[e.standard_error for e in run.evidences] for run in good]),
            tuple(runs),
        )

    @property
    def probabilities(self) -> np.ndarray:
        """The posterior probabilities, (simulation, model)."""
        found: np.ndarray = scipy.special.softmax(self.log_evidence + np.log(self.prior), axis=1)
        return found

    @property
    def failures(self) -> list[str]:
        """The errors of simulations that failed."""
        return [run.error for run in self.runs if run.error]

    @property
    def means(self) -> pd.DataFrame:
        """The mean posterior probability of each model against its prior one.

        ``p_value`` is of the difference; ``offset`` is the constant that log Z of the model seems
        to have too much, against the others, with its ``offset_se``; and ``detectable`` is the
        offset that these simulations would have found with a probability of 95 %.
        """
        rows = [self._mean(place) for place in range(len(self.names))]
        return pd.DataFrame(rows, index=pd.Index(self.names, name="model"))

    def _mean(self, place: int) -> dict[str, float]:
        probability, prior = self.probabilities[:, place], float(self.prior[place])
        mean, error = self._stratified(probability)
        if not np.isfinite(error):  # a model with fewer than two simulations
            unknown = ("standard_error", "p_value", "offset", "offset_se", "detectable")
            return {"prior": prior, "mean_probability": mean, **dict.fromkeys(unknown, np.nan)}
        freedom = len(self.truth) - len(self.names)
        difference = mean - prior
        if error > 1e-12 * prior and freedom > 0:
            p_value = 2 * float(scipy.special.stdtr(freedom, -abs(difference) / error))
        else:
            p_value = 1.0 if abs(difference) < 1e-9 else 0.0
        logit = scipy.special.logit(np.clip(probability, 1e-300, 1 - 1e-16))

        def excess(offset: float) -> float:
            return self._stratified(scipy.special.expit(logit - offset))[0] - prior

        offset = float(scipy.optimize.brentq(excess, -800.0, 800.0))
        shifted = scipy.special.expit(logit - offset)
        slope = max(self._stratified(shifted * (1 - shifted))[0], 1e-300)
        offset_error = self._stratified(shifted)[1] / slope
        seen = scipy.special.ndtri(1 - MEAN_CHANCE / 2) + scipy.special.ndtri(0.95)
        return {
            "prior": prior,
            "mean_probability": mean,
            "standard_error": error,
            "p_value": p_value,
            "offset": offset,
            "offset_se": offset_error,
            "detectable": float(seen * offset_error),
        }

    def _stratified(self, values: np.ndarray) -> tuple[float, float]:
        """Return a mean over simulations with models in their prior shares, and its error."""
        mean = variance = 0.0
        for place, share in enumerate(self.prior):
            own = values[self.truth == place]
            mean += share * own.mean() if len(own) else np.nan
            variance += share**2 * own.var(ddof=1) / len(own) if len(own) > 1 else np.nan
        return float(mean), float(np.sqrt(variance))

    def reliability(self, bins: int = 10) -> pd.DataFrame:
        """Return how often models were true, by their posterior probability.

        Parameters
        ----------
        bins
            Of equal width between zero and one; those without simulations are left out.

        Returns
        -------
        pandas.DataFrame
            A row for each model and bin: ``simulations`` in it, their mean ``probability``, and the
            share of them in which the model was ``true``, which is between ``low`` and ``high`` in
            all bins at once with a probability of 99 % if probabilities are right. With two models
            there are rows of the first only: those of the second say the same.
        """
        rng = np.random.default_rng(BAND_SEED)
        shown = self.names[:1] if len(self.names) == 2 else self.names
        edges = np.linspace(0, 1, bins + 1)[1:-1]
        rows = []
        for place, name in enumerate(shown):
            probability = self.probabilities[:, place]
            which = np.digitize(probability, edges)
            for number in np.unique(which):
                inside = probability[which == number]
                true = (self.truth == place)[which == number]
                drawn = (rng.random((BAND_DRAWS, len(inside))) < inside).mean(axis=1)
                rows.append((name, int(number), len(inside), inside.mean(), true.mean(), drawn))
        tail = CURVE_CHANCE / (2 * len(rows))
        columns = ["model", "bin", "simulations", "probability", "true", "low", "high"]
        return pd.DataFrame(
            [(*row[:-1], *np.quantile(row[-1], [tail, 1 - tail])) for row in rows], columns=columns
        )

    @property
    def coverage(self) -> tuple[int, int]:
        """How many differences of log Z between two runs were within 95 %, and of how many."""
        pairs = [
            (one, two)
            for run in self.runs
            if not run.error
            for one, two in zip(run.evidences, run.again, strict=False)
        ]
        inside = 0
        for one, two in pairs:
            low, high = subtract(one, two).interval()
            # Equal to rounding, as where log Z is exact.
            tiny = 1e-9 * max(1.0, abs(one.log_evidence))
            inside += low - tiny <= 0 <= high + tiny
        return inside, len(pairs)

    @property
    def problems(self) -> list[str]:
        """What speaks against the estimates, in words; of sound ones 5 % have any."""
        found = []
        means = self.means
        tests = max(len(self.names) - 1, 1)
        # Of two models the second says the same as the first.
        for name, row in means.iloc[: 1 if len(means) == 2 else None].iterrows():
            if row["p_value"] * tests < MEAN_CHANCE:
                found.append(
                    f"The mean posterior probability of {name} is {row['mean_probability']:.3f}, "
                    f"and its prior one {row['prior']:.3f} (p = {row['p_value']:.2g}): its log Z "
                    f"seems to be off by {row['offset']:+.2f} ± {row['offset_se']:.2f} against the "
                    "others."
                )
        curve = self.reliability()
        for _, row in curve[
            (curve["true"] < curve["low"]) | (curve["true"] > curve["high"])
        ].iterrows():
            found.append(
                f"Where the probability of {row['model']} was {row['probability']:.2f} on average, "
                f"it was true in {row['true']:.2f} of {row['simulations']} simulations, outside of "
                f"{row['low']:.2f} to {row['high']:.2f}."
            )
        inside, pairs = self.coverage
        if pairs and scipy.special.bdtr(inside, pairs, 0.95) < COVERAGE_CHANCE:
            found.append(
                f"Two runs of a model on the same data agreed within 95 % in {inside} of {pairs}."
            )
        if self.failures:
            found.append(f"{len(self.failures)} simulations failed, such as: {self.failures[0]}")
        return found

    @property
    def calibrated(self) -> bool:
        """Whether nothing speaks against the estimates."""
        return not self.problems

    def __str__(self) -> str:
        count, models = len(self.truth), len(self.names)
        largest = self.means["detectable"].max()
        inside, pairs = self.coverage
        lines = [
            f"{count} simulations of {models} models: posterior model probabilities are "
            f"{'calibrated' if self.calibrated else 'not calibrated'}.",
            *self.problems,
            f"An error of {largest:.2g} in log Z of a model, the same for all data, would have "
            "been noticed with a probability of 95 %.",
        ]
        if pairs:
            lines.append(
                f"Second runs: {inside} of {pairs} differences of log Z are within their 95 % "
                "interval."
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the answer, and the table of means."""
        first, *rest = str(self).split("\n")
        rows = [
            (
                name,
                int((self.truth == place).sum()),
                f"{row['prior']:.3f}",
                f"{row['mean_probability']:.3f} ± {row['standard_error']:.2g}",
                f"{row['p_value']:.2g}",
                f"{row['offset']:+.2f} ± {row['offset_se']:.2g}",
            )
            for place, (name, row) in enumerate(self.means.iterrows())
        ]
        columns = ["model", "simulations", "prior probability", "mean posterior probability"]
        columns += ["p", "seeming error of log Z"]
        status = "ok" if self.calibrated else "caution"
        return box(
            paragraph(first, strong=True),
            paragraph("\n".join(rest)),
            table(columns, rows, numbers=(1, 2, 3, 4, 5)),
            status=status,
        )
