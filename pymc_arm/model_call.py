"""A call of ``sample``: its arguments, checked; then its run, and the result of that."""

import functools
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pymc as pm

from pymc_arm._compat import (
    COMPILING,
    constant_data,
    coords_and_dims,
    find_model,
    observed_data,
)
from pymc_arm.algorithm.path import Path
from pymc_arm.algorithm.settings import Settings
from pymc_arm.arguments import check_choice
from pymc_arm.deadline import OutOfTimeError, keep_deadline
from pymc_arm.diagnosis import attach_verdict
from pymc_arm.errors import ArmWarning, TimeLimitError, callers_level
from pymc_arm.families.registry import find_family
from pymc_arm.models.compiled import ModelPath
from pymc_arm.models.elimination import Marginalize
from pymc_arm.models.functions_of_draws import with_deterministics
from pymc_arm.models.identity import model_identity
from pymc_arm.models.reference import (
    ChartPath,
    ChartRecipe,
    ReferencePath,
    check_reference,
    start_model,
)
from pymc_arm.results import make_inference_tree
from pymc_arm.running.backends import Runner
from pymc_arm.running.checkpoint.identity import path_identity
from pymc_arm.running.options import Options
from pymc_arm.running.run import (
    INTERRUPTION,
    Outcome,
    PathRun,
    run_path,
    time_limit_error,
)
from pymc_arm.wrapped import finish_as_given

__all__ = ["ModelCall", "path_settings"]

_log = logging.getLogger("pymc")


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
            raise ValueError(
                f"family_kwargs={extra} is for models of a family; plan says why this one is not."
            )
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
        self._path: Path

    def run(self, runner: Runner) -> Any:
        """Run all of it, and return the result."""
        run = self.begin()
        outcome = run_path(run, runner)
        try:
            another = self.again(outcome)
            return self.finish(outcome if another is None else run_path(another, runner))
        except TimeLimitError:
            return self.finish(self.settle_for(run).outcome())

    def begin(self) -> PathRun:
        """Compile the model, and begin its run."""
        self._deadline = self.options.deadline()
        with self._in_time():
            return self._begin(self._recipe, self.options)

    def settle_for(self, run: PathRun) -> PathRun:
        """Return to the first run, where there was no time to confirm it or to make another."""
        self._path, self._recorded = self._first
        guard = self._recorded.get("guard", "not compared with the prior")
        self._recorded["guard"] = f"{guard}, for which there was no time"
        run.leave_unconfirmed()
        return run

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """End with a TimeLimitError what takes longer than the run may."""
        try:
            with keep_deadline(self._deadline):
                yield
        except OutOfTimeError:
            raise time_limit_error(self.options) from None

    def again(self, outcome: Outcome) -> PathRun | None:
        """Return another run, where what came out can't stand.

        From the prior, if a run from a reference has missed something; with all variables, if a
        term turns out to depend on more discrete variables than the sums over them took it to.
        """
        if outcome.summary.ended_by == INTERRUPTION:
            return None
        self._first = self._path, dict(self._recorded)
        with self._in_time():
            return self._again(outcome)

    def _again(self, outcome: Outcome) -> PathRun | None:
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
        self._first[1]["guard"] = f"{guard.reason}; so a run from the prior was to be made"
        options = self._options_again("prior")
        run = self._begin(functools.partial(self._recipe, start="prior"), options)
        self._recorded["guard"] = f"{guard.reason}; so the run was made again, from the prior"
        return run

    def _options_again(self, folder: str) -> Options:
        """Return the options of another run: it needs a directory for itself."""
        directory = self.options.directory
        if directory is None:
            return self.options
        return replace(self.options, checkpoint=directory.within(folder))

    def _check_sums(self, outcome: Outcome) -> str:
        """Return what is wrong with sums over discrete variables where the posterior is."""
        path = self._path.model_path if isinstance(self._path, ChartPath) else self._path
        if not isinstance(path, ModelPath) or path.elimination is None:
            return ""
        alive = [chain.particles for chain in outcome.chains if chain.draws]
        if not alive:
            return ""
        particles = alive[0]
        if isinstance(self._path, ChartPath):
            particles = self._path.model_points(np.random.default_rng(0), particles)
        return path.elimination.check(particles)

    def _begin(self, recipe: Callable[..., Path], options: Options) -> PathRun:
        with COMPILING:
            self._path = path = recipe()
        self._recorded = {"family": "generic" if self._family is None else self._family.name}
        compiled = path.model_path if isinstance(path, ChartPath) else path
        if isinstance(compiled, ModelPath):
            from_q = isinstance(path, ReferencePath)
            self._recorded["start"] = "reference" if from_q else "prior"
            if isinstance(path, ReferencePath) and path.reference.cell is not None:
                self._recorded["symmetries"] = path.reference.cell.describe()
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
            deadline=self._deadline,
        )

    def _elsewhere(self, recipe: Callable[..., Path], path: Path) -> Callable[[], Path]:
        """Return what makes the path in another process: a reference is not fitted twice."""
        if not isinstance(path, ChartPath):
            return recipe
        reference = path.reference if isinstance(path, ReferencePath) else None
        return ChartRecipe(functools.partial(recipe, start="prior"), reference)

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
