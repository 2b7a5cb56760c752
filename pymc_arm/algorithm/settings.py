"""The settings of a run."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from pymc_arm.algorithm.resampling import SCHEMES
from pymc_arm.arguments import check_choice, check_count

__all__ = ["Settings"]

# Arguments of pm.sample and pm.sample_smc that have no meaning here, and what to do instead.
INSTEAD = {
    "blas_cores": "Each chain has one thread of BLAS: leave it out.",
    "callback": "There are no callbacks; checkpoint= keeps what chains have done so far.",
    "compile_kwargs": "Use backend=.",
    "compute_convergence_checks": "Every run is judged, by pymc_arm.diagnose: leave it out.",
    "correlation_threshold": "Moves end when particles have moved: leave it out.",
    "discard_tuned_samples": "Nothing has to be tuned: leave it out.",
    "init": "Use start=: particles start at prior draws or at a fitted density.",
    "initvals": "Use start=: particles start at prior draws or at a fitted density.",
    "jitter_max_retries": "Particles start at prior draws or at a fitted density: leave it out.",
    "keep_warning_stat": "Warnings are in attrs['verdict_reasons']: leave it out.",
    "kernel": "pm.sample_smc(kernel=pymc_arm.ARM) takes kernels.",
    "kernel_kwargs": "Give the settings themselves, such as threshold=.",
    "max_treedepth": "It does not use NUTS: leave it out.",
    "mp_ctx": "Use executor=, which takes any concurrent.futures.Executor.",
    "n_chains": "Use chains=.",
    "n_init": "Nothing has to be tuned: leave it out.",
    "nuts": "It does not use NUTS: leave it out.",
    "nuts_sampler": "It does not use NUTS: leave it out.",
    "nuts_sampler_kwargs": "It does not use NUTS: leave it out.",
    "progressbar_theme": "Use progressbar=True or False.",
    "quiet": "Use progressbar=False, and logging.getLogger('pymc').setLevel('WARNING').",
    "return_inference_data": "Use return_inferencedata=.",
    "seed": "Use random_seed=.",
    "start": "Particles start where the path says: leave it out.",
    "step": "Moves are chosen by the model: leave it out.",
    "target_accept": "Step sizes are found as the run goes: leave it out.",
    "trace": "Draws are returned; checkpoint= writes to disk what chains have done so far.",
    "tune": "Nothing has to be tuned: leave it out.",
    "var_names": "All variables are returned; ArviZ's functions take var_names=.",
}


@dataclass(frozen=True)
class Settings:
    """How to run the algorithm.

    The defaults are the paper's but for ``move``; :meth:`paper` has all of the paper's. A path may
    have other defaults (:meth:`pymc_arm.Path.settings`).

    Parameters
    ----------
    variant
        ``"rm"`` is Algorithm 1. ``"arm"`` is Algorithm 2; ``"anticipate"`` and ``"reseed"`` are
        its two other ways to generate particles (section 3.2).
    threshold
        gamma_thr: generate particles while the effective fraction gamma = R_eff / R_n is below it.
    max_rounds
        i_max: the largest number of generate rounds in one step.
    resample_threshold
        R_eff^min / R: resample below this effective fraction. By default it equals ``threshold``.
    resampling
        ``"residual"``, ``"multinomial"``, ``"systematic"`` or ``"stratified"``.
    move
        When ARM moves particles besides generating some: ``"always"`` moves copies that resampling
        has left before they are smoothed; ``"adaptive"`` never does, as in Algorithm 2.

    Examples
    --------
    >>> from pymc_arm import Settings
    >>> Settings(threshold=0.9).minimum_fraction
    0.9
    >>> Settings.paper().move
    'adaptive'
    """

    variant: Literal["rm", "arm", "anticipate", "reseed"] = "arm"
    threshold: float = 0.7
    max_rounds: int = 3
    resample_threshold: float | None = None
    resampling: Literal["residual", "multinomial", "systematic", "stratified"] = "residual"
    move: Literal["always", "adaptive"] = "always"

    def __post_init__(self) -> None:
        choices = {
            "variant": ("rm", "arm", "anticipate", "reseed"),
            "resampling": tuple(SCHEMES),
            "move": ("always", "adaptive"),
        }
        for name, allowed in choices.items():
            check_choice(name, getattr(self, name), allowed)
        fractions = {"threshold": self.threshold, "resample_threshold": self.resample_threshold}
        for name, value in fractions.items():
            if value is not None and not 0 <= value <= 1:
                raise ValueError(f"{name}={value} is a fraction: choose it between 0 and 1.")
        check_count("max_rounds", self.max_rounds, least=0)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Settings":
        """Return the settings that the keywords of a call name; refuse others, with a hint."""
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                similar = difflib.get_close_matches(name, known, 1)
                hint = f" Did you mean {similar[0]}?" if similar else ""
                hint = f" {INSTEAD[name]}" if name in INSTEAD else hint
                raise TypeError(
                    f"There is no option {name!r}.{hint} Besides the arguments of the function "
                    "itself, which help(pymc_arm.sample) explains, the settings of the algorithm "
                    f"are {', '.join(known)}."
                )
        return cls(**given)

    @classmethod
    def paper(cls, **given: Any) -> "Settings":
        """Return the settings of the paper: Algorithm 2 to the letter, gamma_thr 0.7, i_max 3.

        Copies that a resample leaves are moved only if the next gamma is low.
        """
        return cls.of({"move": "adaptive", **given})

    @property
    def minimum_fraction(self) -> float:
        """The effective fraction below which a step resamples."""
        return self.threshold if self.resample_threshold is None else self.resample_threshold
