"""Many models with least effort: chains go to the models that can change the answer.

Theorem 1 gives particles to the steps of a path in proportion to the standard deviation that each
of them adds to log Z. The same thought one level up: the answer is a set of numbers, differences of
log Z between neighbours in the order, or sums of probabilities over groups of models. A model adds
to their variance by its own error times their derivative with respect to its log Z, and gets chains
in proportion to the root of that. Numbers that are known well enough ask for nothing.

Models are not all run. A rough log Z of each (:mod:`pymc_arm.comparison.screening`) says which may
matter, the error of the rough values is measured on the models that have been run, and those that
all together can't have more than a small share of the posterior probability are left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm

from pymc_arm._compat import unwrap_model
from pymc_arm.algorithm.allocation import optimal_counts
from pymc_arm.comparison.goals import Goal, Knowledge
from pymc_arm.comparison.model_run import ModelRun, rest_in_turn, rest_together
from pymc_arm.comparison.reading import read_evidence
from pymc_arm.comparison.running import interrupted, make_runs, options_of, raise_errors
from pymc_arm.comparison.screening import laplace_log_evidence
from pymc_arm.results import Evidence
from pymc_arm.running.options import Options
from pymc_arm.running.progress import ModelProgress
from pymc_arm.running.run import INTERRUPTION

__all__ = ["Settled", "settle_models"]

# Chains of a first look, if the user asks for no other number: two are the fewest with a spread.
FIRST_CHAINS = 2
# The error at which a model needs no more chains, if the user asks for no other: a Bayes factor is
# then known to 1.5 %. Half of it takes four times as many chains where models are nearly equal.
FINEST_ERROR = 0.01
# Of so many models or fewer all are run: the rough values could not be compared with enough runs.
ALL_RUN = 16
# Models that are run between two looks at how far the rough values are off.
BATCH = 8
# The least that rough values of models that were not run may be off by, whatever the others say.
LEAST_SPREAD = 0.1
# No model gets more chains than this.
MOST_CHAINS = 1000


@dataclass(frozen=True)
class Settled:
    """What is known of a model at the end: its log Z, its result unless left out, its chains."""

    evidence: Evidence
    result: Any
    chains: int


def settle_models(
    models: Mapping[str, Any],
    log_prior: Mapping[str, float],
    goal: Goal,
    keywords: Mapping[str, Any],
) -> dict[str, Settled]:
    """Run models until a goal is reached, or no more chains would help.

    Parameters
    ----------
    models
        As in :func:`pymc_arm.compare`; those that are results stay as they are.
    log_prior
        The log prior weight of each model.
    goal
        What is to be found out.
    keywords
        Of ``sample``. ``chains`` are those of a first look, and ``target_se`` is the error at which
        a model needs no more of them.
    """
    own = dict(keywords)
    if any(isinstance(unwrap_model(model), pm.Model) for model in models.values()):
        own = {"chains": FIRST_CHAINS, **own}
    finest = own.pop("target_se", None) or FINEST_ERROR
    runs, given = make_runs(models, own)
    known = Knowledge(list(models), np.array([log_prior[name] for name in models]))
    for name, result in given.items():
        known.learn(list(models).index(name), read_evidence(result))
    settling = _Settling(runs, known, goal, finest, Options(**options_of(own)))
    try:
        settling.run()
    except KeyboardInterrupt as interruption:
        ended = {
            name: run.finish() for name, run in runs.items() if run.chains and run.request is None
        }
        done = {name: result for name, result in ended.items() if result is not None}
        if not done:
            raise
        raise interrupted(done) from interruption
    chains = {name: run.chains for name, run in runs.items()}
    results = {name: run.finish() for name, run in runs.items() if run.chains}
    finished = {name: result for name, result in results.items() if result is not None} | given
    raise_errors(runs, finished)
    return {
        name: Settled(known.evidence(place), finished.get(name), chains.get(name, 0))
        for place, name in enumerate(models)
    }


class _OneLine(ModelProgress):
    """One line for the chains of all models."""

    def __init__(self, names: Sequence[str], visible: bool) -> None:
        super().__init__(["compare"], visible)
        self._tasks = dict.fromkeys(names, self._tasks["compare"])


class _Settling:
    """The runs, what is known by them, and what to run next."""

    def __init__(
        self,
        runs: Mapping[str, ModelRun],
        known: Knowledge,
        goal: Goal,
        finest: float,
        options: Options,
    ) -> None:
        self._runs, self._known, self._goal = runs, known, goal
        self._finest, self._options = finest, options
        self._places = {name: known.names.index(name) for name in runs}
        self._rough: dict[str, float] = {}

    def run(self) -> None:
        """Look at models until those left out are negligible; then add chains until settled."""
        with _OneLine(list(self._runs), self._options.progressbar) as progress:
            batch = self._first_batch()
            while batch:
                self._rest(batch, progress)
                batch = self._next_batch()
            while more := self._more_chains():
                for name, chains in more.items():
                    self._runs[name].extend(chains)
                self._rest(list(more), progress)

    def _rest(self, names: Sequence[str], progress: ModelProgress) -> None:
        """Run chains until these models rest, and learn from them."""
        runs = {name: self._runs[name] for name in names}
        if self._options.executor is not None:
            rest_together(runs, self._options.executor, progress)
        for name, run in runs.items():
            if self._options.executor is None:
                asked = run.request
                rest_in_turn({name: run}, progressbar=False)
                count = run.chains if asked is None else len(asked.generators)
                progress.ask(name, count)
                progress.advance(name, count)
            if run.ended_by == INTERRUPTION:
                raise KeyboardInterrupt
            if run.error is None:
                self._known.learn(self._places[name], run.evidence)

    def _first_batch(self) -> list[str]:
        """Return the models to begin with: the best by rough values, and some from all ranks."""
        if len(self._runs) <= ALL_RUN:
            return list(self._runs)
        rough = {name: laplace_log_evidence(run.call.model) for name, run in self._runs.items()}
        self._rough = {name: value for name, value in rough.items() if np.isfinite(value)}
        ranked = sorted(self._rough, key=self._rough.__getitem__, reverse=True)
        spaced = np.linspace(0, max(len(ranked) - 1, 0), BATCH).astype(int)
        some = [*ranked[:BATCH], *(ranked[rank] for rank in spaced if ranked)]
        return list(dict.fromkeys([*(name for name in rough if name not in self._rough), *some]))

    def _next_batch(self) -> list[str]:
        """Return models that have not been run and may matter, the most probable first."""
        waiting = [name for name, run in self._runs.items() if not run.chains and not run.error]
        if not waiting:
            return []
        off = [
            self._known.value[self._places[name]] - rough
            for name, rough in self._rough.items()
            if self._known.was_run[self._places[name]]
            and np.isfinite(self._known.value[self._places[name]])
        ]
        if len(off) < 2:  # rough values tell nothing
            return waiting
        shift, freedom = float(np.mean(off)), float(len(off) - 1)
        spread = max(float(np.std(off, ddof=1)), LEAST_SPREAD) * np.sqrt(1 + 1 / len(off))
        for name in waiting:
            guess = Evidence(self._rough[name] + shift, spread, freedom)
            self._known.learn(self._places[name], guess, was_run=False)
        left_out = self._known.negligible(self._goal.negligible)
        open_models = [name for name in waiting if not left_out[self._places[name]]]
        open_models.sort(key=lambda name: -self._known.probabilities[self._places[name]])
        return open_models[:BATCH]

    def _more_chains(self) -> dict[str, int]:
        """Return how many more chains models get; none if all is settled, or nothing helps."""
        gradients = self._goal.open_gradients(self._known)
        names = [name for name in self._runs if self._can_be_better(name)]
        places = [self._places[name] for name in names]
        chains = np.array([self._runs[name].chains for name in names])
        # What one chain of a model adds to the variance of what is not settled.
        squares = (gradients[:, places] ** 2).sum(axis=0)
        variances = squares * self._known.error[places] ** 2 * chains
        if not variances.any():
            return {}
        concerned = np.flatnonzero(variances > 0)
        # As many chains again as the models concerned have.
        counts = optimal_counts(variances[concerned], 2 * int(chains[concerned].sum()))
        more = np.minimum(counts, MOST_CHAINS) - chains[concerned]
        return {names[place]: int(n) for place, n in zip(concerned, more, strict=True) if n > 0}

    def _can_be_better(self, name: str) -> bool:
        run = self._runs[name]
        rests = bool(run.chains) and run.error is None and run.ended_by == "chains"
        error = self._known.error[self._places[name]]
        return rests and run.chains < MOST_CHAINS and error > self._finest
