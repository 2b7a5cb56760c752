"""Whether posterior model probabilities mean what they say, for the models at hand.

If parameters and data are drawn from a model that is itself drawn from the prior, then among all
data sets that give it a posterior probability of 0.8 it is the true one in 80 %, and its posterior
probability is on average its prior one (Schad, Nicenboim, Burkner, Betancourt and Vasishth, 2023).
Both hold only if log Z of every model is right, so that they test the estimator on just these
models, with data as the prior makes them.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from pymc_arm._compat import find_model
from pymc_arm.arguments import check_count
from pymc_arm.comparison.reliability import Calibration
from pymc_arm.comparison.simulated import Experiment, run_simulations
from pymc_arm.comparison.table import check_models, read_prior
from pymc_arm.errors import CheckpointError
from pymc_arm.running.checkpoint.journal import Checkpoint, read_manifest

__all__ = ["calibrate", "checkpoint_of", "prior_of", "seed_of"]


def calibrate(
    models: Mapping[str, Any],
    simulations: int = 200,
    *,
    prior_odds: Mapping[str, float] | Sequence[float] | None = None,
    repeats: int = 20,
    random_seed: int | Sequence[int] | None = None,
    executor: Executor | None = None,
    checkpoint: str | PathLike[str] | Checkpoint | None = None,
    resume: bool = False,
    progressbar: bool = True,
    **sample_kwargs: Any,
) -> Calibration:
    """Find out whether posterior probabilities of these models are right, by simulation.

    A model is taken in proportion to its prior probability, data are drawn from its prior
    predictive distribution, and log Z of all models is estimated from them. Over many such data
    sets the true model must be as probable as the estimates say. A message after the first
    simulation, and a better one after four, say how long all will take.

    Parameters
    ----------
    models
        By name. They must observe the same variables, with the same shapes; the values are not
        used.
    simulations
        How many data sets to draw.
    prior_odds
        As in :func:`pymc_arm.compare`.
    repeats
        On how many of the data sets to run all models twice, to see whether standard errors
        predict the differences.
    random_seed
        One seed for everything. A simulation depends on it and on its own number, so that more
        simulations begin with the same ones.
    executor
        Where whole simulations run: a ``ProcessPoolExecutor``, or that of a Dask client. By default
        they run here, one after another.
    checkpoint, resume
        A directory in which each simulation is kept as soon as it has ended, and whether to go on
        with those that are there. A larger number of ``simulations`` adds to them.
    progressbar
        Whether to show progress.
    **sample_kwargs
        Passed to :func:`pymc_arm.sample`: use the settings of the analysis itself.

    Returns
    -------
    Calibration
        Print it for an answer in words; :func:`pymc_arm.plots.plot_calibration` draws it.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_arm
    >>> def coin(alpha):
    ...     with pm.Model() as model:
    ...         p = pm.Beta("p", alpha, alpha)
    ...         pm.Binomial("heads", n=10, p=p, observed=0)
    ...     return model
    >>> found = pymc_arm.calibrate(
    ...     {"fair": coin(100.0), "any": coin(1.0)},
    ...     simulations=6,
    ...     repeats=1,
    ...     draws=100,
    ...     chains=2,
    ...     cores=1,
    ...     random_seed=1,
    ...     progressbar=False,
    ... )
    >>> found.log_evidence.shape, found.truth.tolist()
    ((6, 2), [0, 1, 0, 1, 0, 1])
    """
    check_models(models)
    check_count("simulations", simulations, 2 * len(models))
    check_count("repeats", repeats, 0)
    known = {name: find_model(model) for name, model in models.items()}
    directory = checkpoint_of(checkpoint)
    experiment = Experiment(
        known,
        prior_of(list(known), prior_odds),
        seed_of(random_seed, directory, resume),
        sample_kwargs if executor is None else {**sample_kwargs, "cores": 1},
        int(repeats),
    )
    runs = run_simulations(
        experiment,
        int(simulations),
        title="calibrate",
        executor=executor,
        checkpoint=directory,
        resume=resume,
        progressbar=progressbar,
    )
    return Calibration.of(list(known), experiment.prior, runs)


def prior_of(
    names: list[str], prior_odds: Mapping[str, float] | Sequence[float] | None
) -> list[float]:
    """Return prior probabilities from odds."""
    logs = read_prior(names, prior_odds)
    found: list[float] = scipy.special.softmax([logs[name] for name in names]).tolist()
    return found


def checkpoint_of(checkpoint: str | PathLike[str] | Checkpoint | None) -> Checkpoint | None:
    """Return where simulations are kept."""
    if checkpoint is None or isinstance(checkpoint, Checkpoint):
        return checkpoint
    return Checkpoint(fspath(checkpoint))


def seed_of(
    random_seed: int | Sequence[int] | None, checkpoint: Checkpoint | None, resume: bool
) -> list[int]:
    """Return the seed as a list; without one, that of the checkpoint, or a new one."""
    if random_seed is None:
        file = None if checkpoint is None else Path(checkpoint.directory) / "manifest.json"
        if resume and file is not None and file.exists():
            try:
                return [int(part) for part in read_manifest(file).parts["random_seed"]]
            except (KeyError, TypeError) as error:
                raise CheckpointError(
                    f"{file} is not of simulations. Choose another directory as checkpoint=."
                ) from error
        return [int(np.random.SeedSequence().generate_state(1)[0])]
    try:
        np.random.default_rng(random_seed)
        return [int(part) for part in np.atleast_1d(random_seed).tolist()]
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"random_seed={random_seed!r} is not a seed: give a whole number, 0 or more, or a "
            "sequence of such."
        ) from error
