"""How much data a comparison of models needs, before there are any.

For each sample size data sets are drawn from the prior predictive distribution of each model, and
the Bayes factor of the true model against the best of the others is estimated from each: a Bayes
factor design analysis (Schonbrodt and Wagenmakers, 2018; Stefan, Gronau, Schonbrodt and
Wagenmakers, 2019). Evidence is strong if that Bayes factor is above a threshold, and misleading if
it is below the reciprocal of it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import scipy

from pymc_arm._compat import unwrap_model
from pymc_arm.arguments import check_count
from pymc_arm.comparison.calibration import checkpoint_of, seed_of
from pymc_arm.comparison.resizing import find_size, resize_model
from pymc_arm.comparison.simulated import Experiment, Simulation, run_simulations
from pymc_arm.comparison.table import check_models
from pymc_arm.html import box, paragraph, table
from pymc_arm.running.checkpoint.journal import Checkpoint

__all__ = ["Design", "design"]


@dataclass(frozen=True)
class Design:
    """Bayes factors of simulated data, by sample size.

    :func:`design` returns it.

    Attributes
    ----------
    factors
        A row for each simulation: ``n``, the name of the true model (``truth``), and
        ``log_bayes_factor`` of the true model against the best of the others.
    threshold
        The Bayes factor from which on evidence counts as strong.
    failed
        How many simulations had a run that failed; they are left out.

    Examples
    --------
    >>> import pandas as pd
    >>> from pymc_arm import Design
    >>> rows = [(20, "a", 1.0), (20, "b", 2.0), (80, "a", 3.0), (80, "b", 4.0)]
    >>> factors = pd.DataFrame(rows, columns=["n", "truth", "log_bayes_factor"])
    >>> Design(factors).smallest_n(0.8)
    80
    """

    factors: pd.DataFrame
    threshold: float = 10.0
    failed: int = 0

    @classmethod
    def of(
        cls, names: Sequence[str], runs: Mapping[int, Sequence[Simulation]], threshold: float
    ) -> "Design":
        """Collect the simulations of each sample size."""
        rows = []
        for n, simulations in runs.items():
            for run in simulations:
                if run.error:
                    continue
                logs = np.array([evidence.log_evidence for evidence in run.evidences])
                others = np.delete(logs, run.truth)
                rows.append((n, names[run.truth], float(logs[run.truth] - others.max())))
        if not rows:
            first = next(run.error for simulations in runs.values() for run in simulations)
            raise RuntimeError(f"All simulations failed, the first with: {first}")
        failed = sum(len(simulations) for simulations in runs.values()) - len(rows)
        factors = pd.DataFrame(rows, columns=["n", "truth", "log_bayes_factor"])
        return cls(factors, threshold, failed)

    @property
    def table(self) -> pd.DataFrame:
        """A row for each sample size and true model.

        ``median``, ``low`` and ``high`` are the quantiles 0.5, 0.1 and 0.9 of the log Bayes factor
        of the true model. ``strong`` and ``misleading`` are the probabilities of strong evidence
        for the true model and for another one, between ``strong_low`` and ``strong_high`` and
        between ``misleading_low`` and ``misleading_high`` with 95 % (Wilson, 1927).
        """
        limit = math.log(self.threshold)
        rows = []
        for (n, truth), part in self.factors.groupby(["n", "truth"], sort=False):
            logs = part["log_bayes_factor"].to_numpy()
            low, median, high = np.quantile(logs, [0.1, 0.5, 0.9])
            row = {"n": n, "truth": truth, "simulations": len(logs)}
            row |= {"median": median, "low": low, "high": high}
            for name, hits in (("strong", logs >= limit), ("misleading", logs <= -limit)):
                row[name] = hits.mean()
                row[f"{name}_low"], row[f"{name}_high"] = _wilson(int(hits.sum()), len(hits))
            rows.append(row)
        return pd.DataFrame(rows)

    def smallest_n(self, probability: float = 0.8, truth: str | None = None) -> int | None:
        """Return the smallest sample size at which strong evidence is probable enough.

        Parameters
        ----------
        probability
            Of strong evidence for the true model.
        truth
            If which model is true; by default whichever is.

        Returns
        -------
        int or None
            One of the sizes that were simulated, from which on all larger ones reach the
            probability too; None if the largest does not.
        """
        if not 0 < probability < 1:
            raise ValueError(f"probability={probability} must be between 0 and 1.")
        made = self.table
        if truth is not None:
            if truth not in set(made["truth"]):
                known = list(dict.fromkeys(made["truth"]))
                raise ValueError(f"truth={truth!r} is not one of the models {known}.")
            made = made[made["truth"] == truth]
        worst = made.groupby("n")["strong"].min().sort_index()
        found = None
        for n in worst.index[::-1]:
            if worst[n] < probability:
                break
            found = int(n)
        return found

    def __str__(self) -> str:
        made = self.table
        lines = []
        for truth in dict.fromkeys(made["truth"]):
            own = made[made["truth"] == truth]
            n = self.smallest_n(truth=truth)
            last = own.loc[own["n"].idxmax()]
            if n is None:
                lines.append(
                    f"If {truth} is true, none of the sample sizes makes strong evidence for it "
                    f"(a Bayes factor of {self.threshold:g} or more) probable to 80 %; with "
                    f"n = {last['n']} it is {_share(last, 'strong')}."
                )
            else:
                row = own[own["n"] == n].iloc[0]
                lines.append(
                    f"If {truth} is true, n = {n} is enough for strong evidence (a Bayes factor of "
                    f"{self.threshold:g} or more) with a probability of {_share(row, 'strong')}."
                )
            worst = own.loc[own["misleading"].idxmax()]
            lines.append(
                f"  Misleading evidence is most probable with n = {worst['n']}: "
                f"{_share(worst, 'misleading')}."
            )
        if self.failed:
            lines.append(f"{self.failed} simulations failed and are left out.")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the answer, and the probabilities by sample size."""
        rows = [
            (
                row["truth"],
                row["n"],
                row["simulations"],
                f"{row['median']:.2f} ({row['low']:.2f} to {row['high']:.2f})",
                _share(row, "strong"),
                _share(row, "misleading"),
            )
            for _, row in self.table.sort_values(["truth", "n"]).iterrows()
        ]
        columns = ["true model", "n", "simulations", "log Bayes factor, 10 % to 90 %"]
        columns += ["strong evidence", "misleading evidence"]
        return box(paragraph(self), table(columns, rows, numbers=(1, 2, 3, 4, 5)))


def design(
    models: Mapping[str, pm.Model | Callable[[int], Any]],
    n: Sequence[int],
    *,
    size: str | Sequence[str] | None = None,
    simulations: int = 200,
    threshold: float = 10.0,
    random_seed: int | Sequence[int] | None = None,
    executor: Executor | None = None,
    checkpoint: str | PathLike[str] | Checkpoint | None = None,
    resume: bool = False,
    progressbar: bool = True,
    **sample_kwargs: Any,
) -> Design:
    """Find out how probable strong and misleading evidence is, by sample size.

    Parameters
    ----------
    models
        By name: models whose size follows from a dimension or from ``pm.Data``, or functions that
        build a model for a sample size. The observed values do not matter, only their shapes:
        zeros will do.
    n
        The sample sizes.
    size
        For models: the dimension that has a label for each observation, or names of ``pm.Data``
        with a row for each. By default the first dimension of what is observed. Rows of predictors
        are taken in their order, from the beginning again after the last.
    simulations
        How many data sets to draw for each sample size, in equal shares from each model. A
        probability of a half is then known to sqrt(models / simulations) / 2.
    threshold
        The Bayes factor from which on evidence counts as strong.
    random_seed, executor, checkpoint, resume, progressbar
        As in :func:`pymc_arm.calibrate`; a checkpoint has a folder for each sample size.
    **sample_kwargs
        Passed to :func:`pymc_arm.sample`. Few draws are enough here: an error of 0.1 of a log Bayes
        factor hardly moves these probabilities.

    Returns
    -------
    Design
        Print it for an answer in words; :func:`pymc_arm.plots.plot_design` draws it.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_arm
    >>> def coin(alpha):
    ...     def build(n):
    ...         with pm.Model() as model:
    ...             p = pm.Beta("p", alpha, alpha)
    ...             pm.Binomial("heads", n=n, p=p, observed=0)
    ...         return model
    ...
    ...     return build
    >>> found = pymc_arm.design(
    ...     {"fair": coin(100.0), "any": coin(1.0)},
    ...     n=[10, 100],
    ...     simulations=2,
    ...     draws=100,
    ...     chains=2,
    ...     cores=1,
    ...     random_seed=1,
    ...     progressbar=False,
    ... )
    >>> found.table[["n", "truth", "simulations"]].values.tolist()
    [[10, 'fair', 1], [10, 'any', 1], [100, 'fair', 1], [100, 'any', 1]]
    """
    check_models(models)
    sizes = _check(models, n, simulations, threshold)
    builders = {name: _builder(name, model, size) for name, model in models.items()}
    directory = checkpoint_of(checkpoint)
    keywords = sample_kwargs if executor is None else {**sample_kwargs, "cores": 1}
    share = [1 / len(models)] * len(models)
    experiments: dict[int, Experiment] = {}
    folders: dict[int, Checkpoint | None] = {}
    for count in sizes:
        built = {name: build(count) for name, build in builders.items()}
        own = directory
        if directory is not None:
            own = directory.within(f"n-{count}")
        if not experiments:
            seed = seed_of(random_seed, own, resume)
            if random_seed is None and len(seed) > 1:
                seed = seed[:-1]  # that of a checkpoint has the sample size at its end
        experiments[count] = Experiment(built, share, [*seed, count], keywords)
        folders[count] = own
    runs = {
        count: run_simulations(
            experiment,
            int(simulations),
            title=f"design, n = {count}",
            executor=executor,
            checkpoint=folders[count],
            resume=resume,
            progressbar=progressbar,
        )
        for count, experiment in experiments.items()
    }
    return Design.of(list(models), runs, float(threshold))


def _check(models: Mapping[str, Any], n: Any, simulations: int, threshold: float) -> list[int]:
    """Refuse wrong arguments, and return the sample sizes in order."""
    if len(models) < 2:
        raise ValueError(f"models has {list(models)}: give two or more to compare.")
    for name, build in models.items():
        if not isinstance(unwrap_model(build), pm.Model) and not callable(build):
            raise TypeError(
                f"Model {name!r} is of type {type(build).__name__}: give a model, or a function of "
                "the sample size n that builds it."
            )
    check_count("simulations", simulations, len(models))
    if not 1 < threshold < math.inf:
        raise ValueError(f"threshold={threshold} must be a Bayes factor above 1.")
    sizes = list(np.atleast_1d(n))
    if not sizes:
        raise ValueError("n is empty: give sample sizes, such as [20, 50, 100].")
    for size in sizes:
        check_count("n", size)
    return sorted({int(size) for size in sizes})


def _builder(name: str, given: Any, size: str | Sequence[str] | None) -> Callable[[int], pm.Model]:
    """Return what builds a model for a sample size."""
    model = unwrap_model(given)
    if isinstance(model, pm.Model):
        found = find_size(name, model, size)
        return lambda n: resize_model(name, model, n, found)

    def build(n: int) -> pm.Model:
        made = unwrap_model(given(n))
        if not isinstance(made, pm.Model):
            kind = type(made).__name__
            raise TypeError(f"The function of {name!r} returned {kind}, not a model.")
        return made

    return build


def _wilson(hits: int, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a probability from so many hits."""
    z = float(scipy.special.ndtri(0.975))
    middle = (hits + 0.5 * z**2) / (count + z**2)
    half = z * math.sqrt(hits * (count - hits) / count + 0.25 * z**2) / (count + z**2)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def _share(row: pd.Series, name: str) -> str:
    return f"{row[name]:.2f} ({row[f'{name}_low']:.2f} to {row[f'{name}_high']:.2f})"
