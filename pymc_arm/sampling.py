"""``sample`` and ``plan`` for PyMC models, and ``sample_path`` for any path."""

import functools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from os import PathLike
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
from pymc_arm.diagnosis import attach_verdict
from pymc_arm.families.registry import find_family
from pymc_arm.models.compiled import ModelPath, compile_model
from pymc_arm.models.plan import Plan
from pymc_arm.models.prior import with_deterministics
from pymc_arm.results import Estimates, make_inference_tree
from pymc_arm.running.chains import Chain
from pymc_arm.running.checkpoint.identity import model_identity, path_identity
from pymc_arm.running.checkpoint.journal import Checkpoint
from pymc_arm.running.run import Options, Rounds, path_rounds, run_rounds

__all__ = ["plan", "sample", "sample_path", "sample_rounds"]

_log = logging.getLogger("pymc")


def sample(
    model: pm.Model | None = None,
    draws: int = 1000,
    *,
    chains: int = 4,
    cores: int | None = None,
    random_seed: int | Sequence[int] | np.random.Generator | None = None,
    variant: Literal["arm", "rm", "anticipate", "reseed"] = "arm",
    threshold: float = 0.7,
    max_rounds: int = 3,
    order: str | Sequence[Any] = "auto",
    family: str = "auto",
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
    compile_kwargs: Mapping[str, Any] | None = None,
    family_kwargs: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Any:
    """Estimate the log marginal likelihood of a PyMC model, and sample its posterior.

    Parameters
    ----------
    model
        The model; optional inside of a ``with model:`` block.
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
        tempered in.
    max_rounds
        i_max, the largest number of generate rounds in a step.
    order
        ``"auto"``, ``"random"``, or a list of names and ``(name, index)`` pairs: the order in
        which variables come in. :func:`plan` shows it.
    family
        ``"auto"`` asks the registered families first; ``"generic"`` does not; or a family's name.
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
    compile_kwargs
        Options for the compilation of the model; only ``backend`` is understood.
    family_kwargs
        Options of the model's family.
    **settings
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
        draws,
        chains,
        cores,
        random_seed,
        allocation,
        budget,
        refine,
        target_se,
        time_limit,
        executor,
        checkpoint,
        resume,
        progressbar,
    )
    rounds = sample_rounds(
        model,
        options,
        order=order,
        family=family,
        return_inferencedata=return_inferencedata,
        idata_kwargs=idata_kwargs,
        backend=backend,
        compile_kwargs=compile_kwargs,
        family_kwargs=family_kwargs,
        variant=variant,
        threshold=threshold,
        max_rounds=max_rounds,
        **settings,
    )
    return run_rounds(rounds, options)


def sample_rounds(
    model: pm.Model | None,
    options: Options,
    *,
    order: str | Sequence[Any] = "auto",
    family: str = "auto",
    return_inferencedata: bool = True,
    idata_kwargs: Mapping[str, Any] | None = None,
    backend: str | None = None,
    compile_kwargs: Mapping[str, Any] | None = None,
    family_kwargs: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Rounds[Any]:
    """Return a run of :func:`sample` that has not begun; wrong arguments are refused now."""
    model = find_model(model)
    compilation = dict(compile_kwargs or {})
    backend = compilation.pop("backend", backend)
    if compilation:
        raise ValueError(f"compile_kwargs has {sorted(compilation)}; only 'backend' is understood.")
    unknown = sorted(set(idata_kwargs or {}) - {"log_likelihood"})
    if unknown:
        raise ValueError(f"idata_kwargs has {unknown}; only 'log_likelihood' is understood.")
    threshold = Settings.of(settings).threshold
    chosen, _ = find_family(model, family)
    recipe: Callable[[], Path]
    if chosen is None and family_kwargs:
        given = dict(family_kwargs)
        raise ValueError(f"family_kwargs={given} is for models of a family; plan says why not.")
    if chosen is not None and str(order) != "auto":
        remedy = "give family_kwargs={'order': ...}, or family='generic'"
        raise ValueError(f"order={order!r} is not for the family {chosen.name!r}: {remedy}.")
    if chosen is None:
        # Data is tempered in so that gamma equals the threshold: then it is time to resample.
        settings.setdefault("resample_threshold", min(1.0, threshold + 0.2))
        recipe = functools.partial(compile_model, model, order=order, backend=backend)
    else:
        recipe = functools.partial(chosen.build, model, **dict(family_kwargs or {}))

    def rounds() -> Rounds[Any]:
        results, estimates, recorded = yield from _model_rounds(
            model, "generic" if chosen is None else chosen.name, recipe, options, settings
        )
        if not return_inferencedata:
            return results
        if chosen is not None:
            with COMPILING:
                draws = [with_deterministics(model, chain.draws) for chain in results]
            results = [replace(c, draws=d) for c, d in zip(results, draws, strict=True)]
        coords, dims = coords_and_dims(model)
        result = make_inference_tree(
            results,
            estimates,
            recorded,
            coords=coords,
            dims=dims,
            observed=observed_data(model),
            constants=constant_data(model),
        )
        attach_verdict(result)
        if dict(idata_kwargs or {}).get("log_likelihood"):
            with COMPILING, model:
                pm.compute_log_likelihood(result, progressbar=False)
        return result

    return rounds()


def _model_rounds(
    model: pm.Model,
    family: str,
    recipe: Callable[[], Path],
    options: Options,
    settings: Mapping[str, Any],
) -> Rounds[tuple[list[Chain], Estimates, dict[str, Any]]]:
    """Compile a model, and run its path."""
    started = time.time()
    attributes = {"family": family}
    with COMPILING:
        path = recipe()
    if isinstance(path, ModelPath):
        attributes["backend"] = path.density.backend
        attributes["corrections"] = "; ".join(
            f"{c.variable}: {c.log_factor:+.6g} ({c.reason})" for c in path.corrections
        )
    _log.info("Adaptive Resample-Move: %d chains of %d particles", options.chains, options.draws)
    results, estimates, recorded = yield from path_rounds(
        path,
        options,
        settings,
        identity=lambda: {**path_identity(path), **model_identity(model, path)},
        recipe=recipe,
        started=started,
    )
    return results, estimates, {**recorded, **attributes}


def plan(
    model: pm.Model | None = None,
    *,
    order: str | Sequence[Any] = "auto",
    family: str = "auto",
    backend: str | None = None,
) -> Plan | str:
    """Return the steps that :func:`sample` would take, before anything runs.

    Parameters
    ----------
    model, order, family, backend
        As in :func:`sample`.

    Returns
    -------
    Plan
        It prints as a table: what each step introduces, how it integrates, which data comes in,
        and what that costs. :func:`pymc_arm.plots.plot_plan` draws it.
        For a model of another family, a sentence about which and why.

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
    not rbm: no free variable is a pymc_arm.RBM
    not gpc: its free variable p is not a Gaussian vector
    """
    model = find_model(model)
    chosen, answers = find_family(model, family)
    if chosen is not None:
        return f"family: {chosen.name}, because {answers[chosen.name].reason}"
    made = compile_model(model, order=order, backend=backend).plan
    reasons = tuple(f"not {name}: {match.reason}" for name, match in answers.items())
    return Plan(**{**vars(made), "notes": (*made.notes, *reasons)})


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
    **settings: Any,
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
        ``"adaptive"``: as the algorithm decides, step by step. ``"pilot"``: as a first run decided,
        which makes Z-hat strictly unbiased. ``"optimal"``: by Theorem 1 from a first run, within
        ``budget``.
    budget
        R_tot for ``allocation="optimal"``; by default ``draws`` a step.
    refine
        As in :func:`sample`; it needs a path with :meth:`Path.spaces`.
    coords, dims
        Labels for the draws, as in ArviZ.
    **settings
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
    options = Options(
        draws,
        chains,
        cores,
        random_seed,
        allocation,
        budget,
        refine,
        target_se,
        time_limit,
        executor,
        checkpoint,
        resume,
        progressbar,
    )
    rounds = path_rounds(path, options, settings, identity=lambda: path_identity(path))
    results, estimates, recorded = run_rounds(rounds, options)
    result = make_inference_tree(results, estimates, recorded, coords=coords, dims=dims)
    return attach_verdict(result)
