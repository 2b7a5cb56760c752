"""``sample`` and ``plan`` for PyMC models, and ``sample_path`` for any path."""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from os import PathLike
from typing import Any, Literal

import numpy as np
import pymc as pm

from pymc_arm._compat import (
    InferenceTree,
    find_model,
)
from pymc_arm.algorithm.path import Path
from pymc_arm.arguments import check_choice
from pymc_arm.diagnosis import attach_verdict
from pymc_arm.families.registry import find_family
from pymc_arm.model_call import ModelCall, path_settings
from pymc_arm.models.compiled import ModelPath
from pymc_arm.models.elimination import Marginalize
from pymc_arm.models.plan import FamilyPlan, Plan
from pymc_arm.models.reference import (
    ChartPath,
    start_model,
)
from pymc_arm.results import make_inference_tree
from pymc_arm.running.backends import make_runner
from pymc_arm.running.checkpoint.identity import path_identity
from pymc_arm.running.checkpoint.journal import Checkpoint
from pymc_arm.running.options import Options
from pymc_arm.running.run import PathRun, run_path

__all__ = ["plan", "sample", "sample_path"]

_log = logging.getLogger("pymc")


def sample(
    model: pm.Model | None = None,
    draws: int = 1000,
    *,
    chains: int = 4,
    cores: int | None = None,
    random_seed: int | Sequence[int] | np.random.Generator | None = None,
    variant: Literal["arm", "rm", "anticipate", "reseed"] = "arm",
    threshold: float | None = None,
    max_rounds: int | None = None,
    start: Literal["auto", "prior", "reference"] = "auto",
    order: str | Sequence[Any] = "auto",
    family: str = "auto",
    marginalize: Marginalize = "auto",
    allocation: Literal["adaptive", "pilot", "optimal"] = "adaptive",
    budget: int | None = None,
    refine: bool | Literal["auto"] = "auto",
    target_se: float | None = None,
    time_limit: float | None = None,
    executor: Executor | None = None,
    checkpoint: str | PathLike[str] | Checkpoint | None = None,
    resume: bool = False,
    progressbar: bool = True,
    return_inferencedata: bool = True,
    idata_kwargs: Mapping[str, Any] | None = None,
    backend: str | None = None,
    family_kwargs: Mapping[str, Any] | None = None,
    settings: Literal["default", "paper"] = "default",
    **more_settings: Any,
) -> Any:
    """Estimate the log marginal likelihood of a PyMC model, and sample its posterior.

    Parameters
    ----------
    model
        The model; optional inside of a ``with model:`` block. A ``bambi.Model`` is taken as it is,
        built or not, and its result is what Bambi's own samplers would return.
    draws
        R, the number of particles of each chain, and of the posterior draws it returns.
    chains
        The number of independent runs. Their Z-hat are averaged, and their spread shows the error.
    cores
        How many chains run at the same time; by default as many as there are processors.
    random_seed
        One seed for everything.
    variant
        ``"arm"`` (Algorithm 2 of the paper), ``"anticipate"`` or ``"reseed"`` (its variants), or
        ``"rm"`` (Algorithm 1).
    threshold
        gamma_thr, the effective fraction below which particles are added, and at which data is
        tempered in; by default the path's own, which is 0.7 unless a family says otherwise.
    max_rounds
        i_max, the largest number of generate rounds in a step; by default the path's own, 3.
    start
        ``"prior"``: particles start at prior draws, and variables and data come in step by step.
        ``"reference"``: they start at a density q that is fitted to the posterior by its gradient,
        which is far quicker with many data or variables. ``"auto"`` takes the second where it is
        quicker; :func:`plan` says which and why.
    order
        ``"auto"``, ``"random"``, or a list of names and ``(name, index)`` pairs: the order in
        which variables come in. :func:`plan` shows it.
    family
        ``"auto"`` asks the registered families first; ``"generic"`` does not; or a family's name.
    marginalize
        Which discrete variables are summed exactly instead of sampled. ``"auto"``: all that can be,
        unless an ``order``, the paper's settings, a ``variant`` or an ``allocation`` is asked for.
        False: none. A list of names: those. The posterior has draws of them all the same.
    allocation, budget
        See :func:`sample_path`.
    refine
        Whether to estimate log Z a second time, by a bridge to a fitted density. ``"auto"`` does so
        where no two discrete variables depend on each other, and reports the second estimate
        wherever it passes its checks. Modes are searched for in any case; without a second
        estimate those that were missed are reported, and not repaired.
    target_se
        Go on adding chains until the standard error of log Z is below this.
    time_limit
        In seconds. Chains that are not finished by then are left out, with a warning;
        ``attrs["ended_by"]`` says what ended the run, and ``attrs["complete"]`` whether it is all
        that was asked for.
    executor
        Where chains run, instead of on the cores of this machine: any
        :class:`concurrent.futures.Executor`, such as Dask's ``client.get_executor()``. The result
        is the same.
    checkpoint
        A directory, or a :class:`pymc_arm.Checkpoint`: where the state of each chain is written
        every few seconds.
    resume
        Whether to continue the run that ``checkpoint`` holds, if there is one.
    progressbar
        Whether to show progress.
    return_inferencedata
        If false, return the list of :class:`pymc_arm.running.chains.Chain` instead.
    idata_kwargs
        ``{"log_likelihood": True}`` adds the pointwise log-likelihood.
    backend
        ``"numpy"``, ``"numba"`` or ``"c"``; by default whichever suits the model.
    family_kwargs
        Options of the model's family.
    settings
        ``"default"``: those of the model's path. ``"paper"``: those of the paper, Algorithm 2 to
        the letter.
    **more_settings
        Further fields of :class:`pymc_arm.Settings`: ``resampling``, ``move``, ...

    Returns
    -------
    InferenceData or DataTree
        With the groups ``posterior``, ``sample_stats``, ``arm`` and the model's data. Log Z, its
        standard error and all settings are in ``attrs``.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_arm
    >>> with pm.Model() as model:
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Binomial("y", n=10, p=p, observed=7)
    >>> idata = pymc_arm.sample(model, draws=500, random_seed=1, progressbar=False)
    >>> round(float(idata.attrs["log_marginal_likelihood"]), 2)  # exactly -log(11)
    -2.4
    """
    options = Options(
        draws=draws,
        chains=chains,
        cores=cores,
        random_seed=random_seed,
        allocation=allocation,
        budget=budget,
        refine=refine,
        target_se=target_se,
        time_limit=time_limit,
        executor=executor,
        checkpoint=checkpoint,
        resume=resume,
        progressbar=progressbar,
    )
    call = ModelCall(
        model,
        options,
        start=start,
        order=order,
        family=family,
        marginalize=marginalize,
        return_inferencedata=return_inferencedata,
        idata_kwargs=idata_kwargs,
        backend=backend,
        family_kwargs=family_kwargs,
        settings=settings,
        given={
            "variant": variant,
            "threshold": threshold,
            "max_rounds": max_rounds,
            **more_settings,
        },
    )
    return call.run(make_runner(cores, executor, progressbar))


def plan(
    model: pm.Model | None = None,
    *,
    order: str | Sequence[Any] = "auto",
    family: str = "auto",
    backend: str | None = None,
    start: Literal["auto", "prior", "reference"] = "auto",
    marginalize: Marginalize = "auto",
) -> Plan | FamilyPlan:
    """Return the steps that :func:`sample` would take, before anything runs.

    Parameters
    ----------
    model, order, family, backend, start, marginalize
        As in :func:`sample`.

    Returns
    -------
    Plan or FamilyPlan
        It prints as a table: what each step introduces, how it integrates, which data comes in,
        and what that costs. :func:`pymc_arm.plots.plot_plan` draws it.
        For a model of a family, which and why.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_arm
    >>> with pm.Model() as model:
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Binomial("y", n=10, p=p, observed=7)
    >>> print(pymc_arm.plan(model))
    step  introduces  integrates by  data that comes in  terms  cost
    ----  ----------  -------------  ------------------  -----  ----
    0     -           prior draw     -                   0      0
    1     p           quadrature     y                   3      180
    cost: evaluations of terms a particle, 180 in all; moves come on top
    family: generic; evaluated with numpy
    starts at the prior: 3 terms of 1 coordinates are quick from there
    not rbm: no free variable is a pymc_arm.RBM
    not gpc: its free variable p is not a Gaussian vector
    """
    model = find_model(model)
    chosen, answers = find_family(model, family)
    if chosen is not None:
        return FamilyPlan(chosen.name, answers[chosen.name].reason)
    choice = start_model(model, start=start, order=order, backend=backend, marginalize=marginalize)
    path = choice.path.model_path if isinstance(choice.path, ChartPath) else choice.path
    assert isinstance(path, ModelPath)
    made = path.plan
    reasons = tuple(f"not {name}: {match.reason}" for name, match in answers.items())
    return Plan(**{**vars(made), "notes": (choice.reason, *made.notes, *reasons)})


def sample_path(
    path: Path,
    draws: int = 1000,
    *,
    chains: int = 4,
    cores: int | None = None,
    random_seed: int | Sequence[int] | np.random.Generator | None = None,
    allocation: Literal["adaptive", "pilot", "optimal"] = "adaptive",
    budget: int | None = None,
    refine: bool | Literal["auto"] = "auto",
    target_se: float | None = None,
    time_limit: float | None = None,
    executor: Executor | None = None,
    checkpoint: str | PathLike[str] | Checkpoint | None = None,
    resume: bool = False,
    progressbar: bool = True,
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    settings: Literal["default", "paper"] = "default",
    **more_settings: Any,
) -> InferenceTree:
    """Estimate log Z of a path, and draw from its last distribution.

    Parameters
    ----------
    path
        The sequence of distributions.
    draws, chains, cores, random_seed, progressbar
        As in :func:`sample`.
    target_se, time_limit, executor, checkpoint, resume
        As in :func:`sample`.
    allocation
        ``"adaptive"``: as the algorithm decides, step by step. ``"pilot"``: as a first run decided;
        steps, particles and the kernels that move them are then the same whatever the particles
        are, and the expectation of Z-hat is Z. That says nothing of its variance: where moves are
        slow, most runs are low and a few are high. ``"optimal"``: by Theorem 1 from a first run,
        within ``budget``.
    budget
        R_tot for ``allocation="optimal"``; by default ``draws`` a step.
    refine
        As in :func:`sample`; it needs a path that is
        :class:`~pymc_arm.estimation.spaces.Refinable`.
    coords, dims
        Labels for the draws, as in ArviZ.
    settings
        ``"default"``: the path's own. ``"paper"``: those of the paper.
    **more_settings
        The fields of :class:`pymc_arm.Settings`: ``variant``, ``threshold``, ``max_rounds``, ...

    Returns
    -------
    InferenceData or DataTree
        With groups ``posterior``, ``sample_stats`` and ``arm``, and log Z in its ``attrs``.

    Examples
    --------
    >>> import pymc_arm
    >>> from pymc_arm.testing import GaussianChain
    >>> path = GaussianChain([0.5, -1.0, 2.0])
    >>> result = pymc_arm.sample_path(path, draws=500, random_seed=1, progressbar=False)
    >>> error = result.attrs["log_marginal_likelihood"] - path.exact_log_evidence
    >>> bool(abs(error) < 0.1)
    True
    """
    if not isinstance(path, Path):
        raise TypeError(
            f"path is of type {type(path).__name__}: give a pymc_arm.Path. Models are sampled by "
            "pymc_arm.sample."
        )
    check_choice("settings", settings, ("default", "paper"))
    options = Options(
        draws=draws,
        chains=chains,
        cores=cores,
        random_seed=random_seed,
        allocation=allocation,
        budget=budget,
        refine=refine,
        target_se=target_se,
        time_limit=time_limit,
        executor=executor,
        checkpoint=checkpoint,
        resume=resume,
        progressbar=progressbar,
    )
    chosen = path_settings(path, settings == "paper", more_settings)
    run = PathRun(path, options, chosen, identity=lambda: path_identity(path))
    outcome = run_path(run, make_runner(cores, executor, progressbar))
    result = make_inference_tree(
        outcome.chains, outcome.estimates, outcome.summary.to_attrs(), coords=coords, dims=dims
    )
    return attach_verdict(result)
