"""Run the models of a comparison that have not been run yet: all of them, in the same way."""

import logging
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pymc as pm

from pymc_arm._compat import unwrap_model
from pymc_arm.comparison.data import warn_of_different_data
from pymc_arm.comparison.model_run import ModelRun, rest_in_turn, rest_together
from pymc_arm.comparison.reading import read_evidence
from pymc_arm.errors import ComparisonError
from pymc_arm.model_call import ModelCall
from pymc_arm.results import Evidence
from pymc_arm.running.options import Options
from pymc_arm.running.progress import ModelProgress
from pymc_arm.running.run import INTERRUPTION

__all__ = ["interrupted", "make_runs", "options_of", "raise_errors", "run_models"]

_log = logging.getLogger("pymc")
# The arguments of a call that are neither options of a run nor settings of the algorithm.
CALL_ARGUMENTS = (
    "start",
    "marginalize",
    "order",
    "family",
    "return_inferencedata",
    "idata_kwargs",
    "backend",
    "family_kwargs",
    "settings",
)


def run_models(models: Mapping[str, Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Sample the models among these, each with a random stream and a checkpoint of its own.

    If one of them fails the others come to their end. If the user interrupts, those that have ended
    are in the error's ``finished``.
    """
    runs, given = make_runs(models, keywords)
    shared = Options(**options_of(keywords))
    ended: dict[str, Any] = {}
    try:
        if shared.executor is None:
            _run_in_turn(runs, ended)
        else:
            with ModelProgress(list(runs), shared.progressbar) as progress:

                def rests(name: str) -> None:
                    _finish(name, runs[name], ended)
                    progress.finish(name)

                rest_together(runs, shared.executor, progress, rests)
    except KeyboardInterrupt as interruption:
        if not ended:
            raise
        raise interrupted(ended) from interruption
    ended |= given
    finished = {name: ended[name] for name in models if name in ended}
    raise_errors(runs, finished)
    return finished


def make_runs(
    models: Mapping[str, Any], keywords: Mapping[str, Any]
) -> tuple[dict[str, ModelRun], dict[str, Any]]:
    """Check models and arguments; return the runs of those to be run, and the other results."""
    given, models = models, {name: unwrap_model(model) for name, model in models.items()}
    for name, model in models.items():
        if not isinstance(model, pm.Model | Evidence) and not hasattr(model, "attrs"):
            raise TypeError(
                f"Model {name!r} is of type {type(model).__name__}: give a pm.Model, or what "
                "pymc_arm.sample or pm.sample_smc returned."
            )
        if not isinstance(model, pm.Model):
            read_evidence(model)  # a result without log Z is refused before any model runs
    waiting = [name for name, model in models.items() if isinstance(model, pm.Model)]
    if keywords and not waiting:
        raise TypeError(
            f"{sorted(keywords)} would be passed to pymc_arm.sample, but every model has been run."
        )
    warn_of_different_data(models)
    options = options_of(keywords)
    shared = Options(**options)
    others = {name: value for name, value in keywords.items() if name not in options}
    own = {name: others.pop(name) for name in list(others) if name in CALL_ARGUMENTS}
    runs = {
        name: ModelRun(
            ModelCall(given[name], _own_options(shared, place, name), **own, given=others)
        )
        for place, name in enumerate(waiting)
    }
    return runs, {name: model for name, model in models.items() if name not in runs}


def options_of(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return those arguments of ``sample`` that are options of a run."""
    names = {option.name for option in fields(Options)}
    return {name: value for name, value in keywords.items() if name in names}


def interrupted(finished: Mapping[str, Any]) -> ComparisonError:
    """Return the error that an interrupt ends a comparison with, if something had been finished."""
    return ComparisonError(
        f"The comparison was interrupted. The results of {sorted(finished)} are in this error's "
        "`finished`: give them to compare in place of their models.",
        dict(finished),
    )


def raise_errors(runs: Mapping[str, ModelRun], finished: dict[str, Any]) -> None:
    """Raise the error of the first run that has failed, with the results of the others."""
    for name, run in runs.items():
        if run.error is not None:
            raise ComparisonError(_explain(name, run.error, finished), finished) from run.error


def _run_in_turn(runs: Mapping[str, ModelRun], results: dict[str, Any]) -> None:
    """Run models one after another; after one that the user has cut short, no other."""
    for place, (name, run) in enumerate(runs.items(), 1):
        _log.info("Model %d of %d: %s", place, len(runs), name)
        rest_in_turn({name: run})
        _finish(name, run, results)
        attributes = getattr(results.get(name), "attrs", {})
        if attributes.get("ended_by") == INTERRUPTION and name != list(runs)[-1]:
            raise KeyboardInterrupt


def _finish(name: str, run: ModelRun, results: dict[str, Any]) -> None:
    """Keep the result of a run, unless it has failed."""
    result = run.finish()
    if run.error is None:
        results[name] = result


def _explain(name: str, error: Exception, finished: Mapping[str, Any]) -> str:
    message = f"Model {name!r} failed: {type(error).__name__}: {error}"
    if not finished:
        return message
    return f"{message} The results of {sorted(finished)} are in this error's `finished`."


def _own_options(shared: Options, place: int, name: str) -> Options:
    """Return the options of one of the models."""
    seed, directory = shared.random_seed, shared.directory
    # Different models on one stream would have correlated errors.
    if isinstance(seed, np.random.Generator):
        (seed,) = seed.spawn(1)
    elif seed is not None:
        entropy = [*np.atleast_1d(seed).tolist(), place]
        seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
    if directory is not None:
        # A run needs a directory for itself. File systems take 255 bytes, and a letter has up to 4.
        folder = re.sub(r"[^\w.-]+", "_", f"{place}-{name}")[:60]
        directory = directory.within(folder)
    return replace(shared, random_seed=seed, checkpoint=directory)
