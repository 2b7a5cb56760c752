"""``sample`` and ``plan`` for PyMC models, and ``sample_path`` for any path."""

import functools
import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from os import PathLike
from pathlib import Path as FilePath
from typing import Any, Literal

import numpy as np
import pymc as pm

from pymc_arm._compat import (
    COMPILING,
    InferenceTree,
    constant_data,
    coords_and_dims,
    find_model,
    observed_data,
)
from pymc_arm.algorithm.path import Path
from pymc_arm.algorithm.settings import Settings
from pymc_arm.arguments import check_choice
from pymc_arm.diagnosis import attach_verdict
from pymc_arm.errors import ArmWarning, callers_level
from pymc_arm.families.registry import find_family
from pymc_arm.models.compiled import ModelPath
from pymc_arm.models.elimination import Marginalize
from pymc_arm.models.identity import model_identity
from pymc_arm.models.plan import FamilyPlan, Plan
from pymc_arm.models.prior import with_deterministics
from pymc_arm.models.reference import (
    ReferencePath,
    ReferenceRecipe,
    check_reference,
    start_model,
)
from pymc_arm.results import make_inference_tree
from pymc_arm.running.backends import Runner, make_runner
from pymc_arm.running.checkpoint.identity import path_identity
from pymc_arm.running.checkpoint.journal import Checkpoint
from pymc_arm.running.options import Options
from pymc_arm.running.run import INTERRUPTION, Outcome, PathRun, run_path
from pymc_arm.wrapped import finish_as_given

__all__ = ["ModelCall", "plan", "sample", "sample_path"]

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
        The number of independent runs. Their Z-hat are averaged, and their spread is the error.
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
        and go from there: far quicker where there are many data or variables. ``"auto"`` takes
        the second where it pays; :func:`plan` says which and why.
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
        Whether to sharpen log Z by a bridge to a fitted density, where no two discrete variables
        depend on each other. ``"auto"`` keeps the better of the two estimates.
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
        ``"default"``: those that the path of the model has found best. ``"paper"``: those of the
        paper, Algorithm 2 to the letter.
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


class ModelCall:
    """A call of :func:`sample`: its arguments, checked; then its run, and the result of that.

    :func:`sample` and :func:`pymc_arm.compare` go through the same steps: wrong arguments are
    refused here, :meth:`begin` compiles the model, :meth:`again` looks whether what came out can
    stand, and :meth:`finish` makes the result.
    """

    def __init__(
        self,
        model: pm.Model | None,
        options: Options,
        *,
        start: Literal["auto", "prior", "reference"] = "auto",
        order: str | Sequence[Any] = "auto",
        family: str = "auto",
        marginalize: Marginalize = "auto",
        return_inferencedata: bool = True,
        idata_kwargs: Mapping[str, Any] | None = None,
        backend: str | None = None,
        family_kwargs: Mapping[str, Any] | None = None,
        settings: Literal["default", "paper"] = "default",
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.options = find_model(model), options
        self._finish = functools.partial(finish_as_given, model)
        self._return_inferencedata = return_inferencedata
        self._idata_kwargs = dict(idata_kwargs or {})
        unknown = sorted(set(self._idata_kwargs) - {"log_likelihood"})
        if unknown:
            raise ValueError(f"idata_kwargs has {unknown}; only 'log_likelihood' is understood.")
        check_choice("settings", settings, ("default", "paper"))
        check_choice("start", start, ("auto", "prior", "reference"))
        # What is None was not given: the path has a default for it.
        self._given = {name: value for name, value in (given or {}).items() if value is not None}
        self._paper = settings == "paper"
        Settings.of(self._given)
        chosen, _ = find_family(self.model, family)
        if chosen is None and family_kwargs:
            extra = dict(family_kwargs)
            raise ValueError(f"family_kwargs={extra} is for models of a family; plan says why not.")
        if chosen is not None and str(order) != "auto":
            remedy = "give family_kwargs={'order': ...}, or family='generic'"
            raise ValueError(f"order={order!r} is not for the family {chosen.name!r}: {remedy}.")
        self._family, self._start = chosen, start
        # The paper's settings, its variants and its allocations are about the path from the prior.
        plain = self._given.get("variant", "arm") == "arm" and options.allocation == "adaptive"
        if start == "auto" and (self._paper or not plain):
            start = "prior"
        if isinstance(marginalize, str) and (self._paper or not plain):
            check_choice("marginalize", marginalize, ("auto",))
            marginalize = False
        self._recipe: Callable[..., Path]
        if chosen is None:
            self._recipe = functools.partial(
                _make_path,
                self.model,
                start=start,
                order=order,
                backend=backend,
                marginalize=marginalize,
            )
        else:
            self._recipe = functools.partial(chosen.build, self.model, **dict(family_kwargs or {}))
        self._recorded: dict[str, Any] = {}

    def run(self, runner: Runner) -> Any:
        """Run all of it, and return the result."""
        outcome = run_path(self.begin(), runner)
        another = self.again(outcome)
        return self.finish(outcome if another is None else run_path(another, runner))

    def begin(self) -> PathRun:
        """Compile the model, and begin its run."""
        self._started = time.time()
        return self._begin(self._recipe, self.options)

    def again(self, outcome: Outcome) -> PathRun | None:
        """Return another run, where what came out can't stand.

        From the prior, if a run from a reference has missed something; with all variables, if a
        term turns out to depend on more discrete variables than the sums over them took it to.
        """
        if outcome.summary.ended_by == INTERRUPTION:
            return None
        problem = self._check_sums(outcome)
        if problem:
            warnings.warn(
                f"The run was made again with marginalize=False: {problem}.",
                ArmWarning,
                stacklevel=callers_level(),
            )
            recipe = functools.partial(self._recipe, marginalize=False)
            return self._begin(recipe, self._options_again("whole"))
        if not isinstance(self._path, ReferencePath):
            return None
        guard = check_reference(self._path, outcome.estimates.evidence)
        if guard.agrees or self._start == "reference":
            self._recorded["guard"] = guard.reason
            return None
        options = self._options_again("prior")
        run = self._begin(functools.partial(self._recipe, start="prior"), options)
        self._recorded["guard"] = f"{guard.reason}; so the run was made again, from the prior"
        return run

    def _options_again(self, folder: str) -> Options:
        """Return the options of another run: it needs a directory for itself."""
        directory = self.options.directory
        if directory is None:
            return self.options
        own = replace(directory, directory=FilePath(directory.directory) / folder)
        return replace(self.options, checkpoint=own)

    def _check_sums(self, outcome: Outcome) -> str:
        """Return what is wrong with sums over discrete variables where the posterior is."""
        path = self._path.model_path if isinstance(self._path, ReferencePath) else self._path
        if not isinstance(path, ModelPath) or path.elimination is None:
            return ""
        alive = [chain.particles for chain in outcome.chains if chain.draws]
        if not alive:
            return ""
        particles = alive[0]
        if isinstance(self._path, ReferencePath):
            particles = self._path.model_points(np.random.default_rng(0), particles)
        return path.elimination.check(particles)

    def _begin(self, recipe: Callable[..., Path], options: Options) -> PathRun:
        with COMPILING:
            self._path = path = recipe()
        self._recorded = {"family": "generic" if self._family is None else self._family.name}
        compiled = path.model_path if isinstance(path, ReferencePath) else path
        if isinstance(compiled, ModelPath):
            self._recorded["start"] = "prior" if path is compiled else "reference"
            self._recorded |= compiled.describe_model()
            if compiled.elimination is not None:
                self._recorded["summed"] = ", ".join(compiled.elimination.names)
        _log.info(
            "Adaptive Resample-Move: %d chains of %d particles", options.chains, options.draws
        )
        return PathRun(
            path,
            options,
            path_settings(path, self._paper, self._given),
            identity=lambda: {**path_identity(path), **model_identity(self.model, path)},
            recipe=self._elsewhere(recipe, path),
            started=self._started,
        )

    def _elsewhere(self, recipe: Callable[..., Path], path: Path) -> Callable[[], Path]:
        """Return what makes the path in another process: a reference is not fitted twice."""
        if not isinstance(path, ReferencePath):
            return recipe
        return ReferenceRecipe(functools.partial(recipe, start="prior"), path.reference)

    def finish(self, outcome: Outcome) -> Any:
        """Return the result of the run."""
        model, chains = self.model, outcome.chains
        if not self._return_inferencedata:
            return chains
        if self._family is not None:
            with COMPILING:
                draws = [with_deterministics(model, chain.draws) for chain in chains]
            chains = [replace(c, draws=d) for c, d in zip(chains, draws, strict=True)]
        coords, dims = coords_and_dims(model)
        result = make_inference_tree(
            chains,
            outcome.estimates,
            replace(outcome.summary, **self._recorded).to_attrs(),
            coords=coords,
            dims=dims,
            observed=observed_data(model),
            constants=constant_data(model),
        )
        attach_verdict(result)
        if self._idata_kwargs.get("log_likelihood"):
            with COMPILING, model:
                pm.compute_log_likelihood(result, progressbar=False)
        return self._finish(result)


def _make_path(model: pm.Model, **options: Any) -> Path:
    return start_model(model, **options).path


def path_settings(path: Path, paper: bool, given: Mapping[str, Any]) -> Settings:
    """Return the paper's settings, or the path's own, with those that are given."""
    return Settings.paper(**given) if paper else path.settings(**given)


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
    path = choice.path.model_path if isinstance(choice.path, ReferencePath) else choice.path
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
