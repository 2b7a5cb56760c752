r"""Annealed importance sampling: Resample-Move on an annealing path, without resampling.

Each particle goes from the base to the target by itself, and its weight is
w = prod_b f_{b+1}(x_b) / f_b(x_b). Forward, E[w] = Z_1 / Z_0, so that log of a mean of weights is
too low on average; in reverse, from draws of the target, E[w] = Z_0 / Z_1, and log Z is too high.
The two bracket it.

References
----------
Neal (2001), Annealed importance sampling.
Grosse, Ghahramani and Adams (2015), Sandwiching the marginal likelihood using bidirectional
Monte Carlo.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pymc as pm

from benchmarks.baselines.annealing import Annealing
from benchmarks.baselines.model import ModelAnnealing
from benchmarks.baselines.schedules import adaptive, check_schedule, geometric, linear
from pymc_arm._compat import InferenceTree, coords_and_dims
from pymc_arm.algorithm.settings import Settings
from pymc_arm.algorithm.state import Info, Run
from pymc_arm.arguments import check_choice, check_count
from pymc_arm.diagnosis import attach_verdict
from pymc_arm.results import Estimates, Evidence, estimate_chains, make_inference_tree
from pymc_arm.running.backends import Request, run_chains
from pymc_arm.running.chains import Chain, Task, spawn_generators

__all__ = ["ais"]

NEVER_RESAMPLE = Settings(variant="rm", resample_threshold=0.0)


def ais(
    target: Annealing | pm.Model,
    draws: int = 1000,
    *,
    temperatures: int | None = 1000,
    schedule: Literal["geometric", "linear", "adaptive"] | Sequence[float] = "adaptive",
    direction: Literal["forward", "reverse", "both"] = "forward",
    chains: int = 4,
    cores: int | None = None,
    random_seed: int | Sequence[int] | np.random.Generator | None = None,
    progressbar: bool = True,
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
) -> InferenceTree:
    """Estimate log Z by annealed importance sampling.

    Parameters
    ----------
    target
        A path from a base to the target, such as :class:`GeometricAnnealing`,
        :class:`GPCAnnealing` or :class:`RBMAnnealing`; or a PyMC model, which is annealed from
        its prior.
    draws
        Annealing runs of each chain; their weights are averaged.
    temperatures
        B, the number of steps from beta = 0 to 1. None, with the adaptive schedule, lets the
        pilot choose it.
    schedule
        ``"linear"``, ``"geometric"`` (see :func:`geometric`), ``"adaptive"`` (see
        :func:`adaptive`), or the betas themselves.
    direction
        ``"forward"`` from base to target; ``"reverse"`` from draws of the target, where the path
        has them; ``"both"`` for the two together, which bracket log Z: the forward estimate is
        the result, the reverse one is in ``attrs``.
    chains, cores, random_seed, progressbar
        As in :func:`pymc_arm.sample`.
    coords, dims
        Labels for the draws, as in ArviZ.

    Returns
    -------
    InferenceData or DataTree
        As of :func:`pymc_arm.sample`. A run in reverse ends at the base and has no posterior.

    Examples
    --------
    >>> import pymc as pm
    >>> from benchmarks.baselines import ais
    >>> with pm.Model() as model:
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Binomial("y", n=10, p=p, observed=7)
    >>> result = ais(model, 500, temperatures=20, random_seed=1, progressbar=False)
    >>> round(float(result.attrs["log_marginal_likelihood"]), 1)  # exactly -log(11) = -2.398
    -2.4
    """
    check_choice("direction", direction, ("forward", "reverse", "both"))
    for name, value in {"draws": draws, "chains": chains, "cores": cores}.items():
        if value is not None:
            check_count(name, value)
    if isinstance(target, pm.Model):
        if coords is None and dims is None:
            coords, dims = coords_and_dims(target)
        target = ModelAnnealing(target)
    *generators, spare = spawn_generators(random_seed, chains)
    betas = _grid(target, temperatures, schedule, spare)
    task = Task(draws, NEVER_RESAMPLE)
    options: dict[str, Any] = {"cores": cores, "progressbar": progressbar}
    recorded = {
        "method": "ais",
        "draws": draws,
        "chains": chains,
        "direction": direction,
        "schedule": schedule if isinstance(schedule, str) else "given",
        "temperatures": len(betas) - 1,
    }
    backward: list[Chain] = []
    if direction != "forward":
        path = target.on_grid(betas[::-1])
        log_base = target.draw_base(spare, 1)[1]
        found = run_chains(Request(path, task, spare.spawn(chains)), **options)
        backward = [_reversed(chain, log_base) for chain in found if chain is not None]
    if direction == "reverse":
        estimates = Estimates(_pool_reversed(backward), None, np.nan, "explore")
        return attach_verdict(make_inference_tree(backward, estimates, recorded))
    path = target.on_grid(betas)
    recorded["temperatures"] = len(path.betas) - 1
    forward = [
        _with_weight_variance(chain)
        for chain in run_chains(Request(path, task, generators), **options)
        if chain is not None
    ]
    if backward:
        reverse = _pool_reversed(backward)
        recorded["reverse_log_marginal_likelihood"] = reverse.log_evidence
        recorded["reverse_log_marginal_likelihood_se"] = reverse.standard_error
    tree = make_inference_tree(
        forward, estimate_chains(forward), recorded, coords=coords, dims=dims
    )
    return attach_verdict(tree)


def _grid(
    path: Annealing,
    temperatures: int | None,
    schedule: str | Sequence[float],
    rng: np.random.Generator,
) -> np.ndarray:
    """Return the betas of a schedule."""
    if not isinstance(schedule, str):
        return check_schedule(schedule)
    if schedule == "adaptive":
        return adaptive(path, temperatures, rng)
    if schedule not in ("linear", "geometric"):
        raise ValueError(
            f"schedule={schedule!r} is not 'linear', 'geometric', 'adaptive' or a list of betas."
        )
    if temperatures is None:
        raise ValueError(f"temperatures=None needs schedule='adaptive', not {schedule!r}.")
    return linear(temperatures) if schedule == "linear" else geometric(temperatures)


def _with_weight_variance(chain: Chain) -> Chain:
    """Let the predictions of the steps add up to what the final weights say.

    Without resampling, the variance of log Z-hat is that of a mean of independent weights,
    1 / R_eff - 1 / R; a sum of steps would leave out that a particle remembers.
    """
    before = 0.0
    history: list[Info] = []
    for info in chain.run.history:
        after = (1 / info.effective_fraction - 1) / info.particles
        history.append(replace(info, predicted_variance=after - before))
        before = after
    return replace(chain, run=replace(chain.run, history=tuple(history)))


def _reversed(chain: Chain, log_base: float) -> Chain:
    """Turn an estimate of Z_0 / Z_1 into one of Z_1; draws from the base are left out."""
    chain = _with_weight_variance(chain)
    history = tuple(
        replace(info, log_increment=-info.log_increment, log_evidence=log_base - info.log_evidence)
        for info in chain.run.history
    )
    state = replace(chain.run.state, log_evidence=log_base - chain.run.state.log_evidence)
    run = Run(state, history, chain.run.positions)
    return replace(chain, run=run, draws={})


def _pool_reversed(chains: list[Chain]) -> Evidence:
    """Pool runs in reverse, whose 1 / Z-hat is what is unbiased."""
    mirrored = [
        replace(
            chain,
            run=replace(
                chain.run,
                state=replace(chain.run.state, log_evidence=-chain.run.state.log_evidence),
            ),
        )
        for chain in chains
    ]
    pooled = estimate_chains(mirrored).explore
    return replace(pooled, log_evidence=-pooled.log_evidence)
