"""What a user may call for log Z and the posterior of a model, each with what it says of itself.

A tool takes a model and a seed, and returns log Z, its standard error, posterior draws by name, and
a verdict. Tools without a verdict of their own are given that of PyMC's checks (R-hat above 1.01,
fewer than 100 effective draws a chain, divergences): "ok" where those have nothing to say.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from pymc.stats.convergence import run_convergence_checks
from scipy.special import softmax

import pymc_arm
from benchmarks.peers.nested import Nested, run_dynesty, run_nautilus
from benchmarks.peers.nuts_bridge import sample_and_bridge
from benchmarks.peers.target import Target
from pymc_arm.comparison import read_evidence

__all__ = ["TOOLS", "Found", "NotApplicableError"]

CHAINS, DRAWS = 4, 1000
# Nested samplers are for few dimensions: in the suite they did not end in 30 s from 20 on.
NESTED_DIMENSIONS = 25


class NotApplicableError(NotImplementedError):
    """The tool does not claim to take such models."""


@dataclass(frozen=True)
class Found:
    """What a tool returns.

    Attributes
    ----------
    log_evidence, standard_error
        NaN where the tool gives none.
    verdict
        ``"ok"``, or what speaks against the result.
    posterior
        Draws by name, (chain, draw, ...).
    """

    log_evidence: float
    standard_error: float
    verdict: str
    posterior: dict[str, np.ndarray]


def _arm(model: pm.Model, seed: int) -> Found:
    result = pymc_arm.sample(model, DRAWS, chains=CHAINS, random_seed=seed, progressbar=False)
    evidence = read_evidence(result)
    return Found(
        *(evidence.log_evidence, evidence.standard_error, str(result.attrs["verdict"])),
        _read_posterior(result),
    )


def _smc(model: pm.Model, seed: int) -> Found:
    with model:
        result = pm.sample_smc(
            DRAWS,
            chains=CHAINS,
            random_seed=seed,
            progressbar=False,
            compute_convergence_checks=False,
        )
    evidence = read_evidence(result)
    return Found(
        *(evidence.log_evidence, evidence.standard_error, _check(result, model)),
        _read_posterior(result),
    )


def _nutpie(model: pm.Model, seed: int) -> Found:
    trace, log_evidence, error = _applicable(sample_and_bridge, model)(seed)
    return Found(log_evidence, error, _check(trace, model), _read_posterior(trace))


def _nutpie_evidence(model: pm.Model, seed: int) -> Found:
    import nutpie

    compiled = _applicable(nutpie.compile_pymc_model, model)
    trace = nutpie.sample(compiled, seed=seed, progress_bar=False)
    result = pymc_arm.evidence(trace, model, random_seed=seed, progressbar=False)
    evidence = read_evidence(result)
    return Found(
        *(evidence.log_evidence, evidence.standard_error, str(result.attrs["verdict"])),
        _read_posterior(trace),
    )


def _nested(prepare: Callable[[Target], Callable[[int], Nested]]) -> Callable:
    def run(model: pm.Model, seed: int) -> Found:
        target = _applicable(Target, model)
        if target.dimension > NESTED_DIMENSIONS:
            raise NotApplicableError(f"{target.dimension} dimensions")
        found = _applicable(prepare, target)(seed)
        rng = np.random.default_rng(seed)
        weights = softmax(found.log_weights)
        chosen = rng.choice(len(weights), CHAINS * DRAWS, p=weights)
        posterior = _constrain(target, found.points[chosen])
        return Found(found.log_evidence, found.standard_error, "ok", posterior)

    return run


TOOLS: dict[str, Callable[[pm.Model, int], Found]] = {
    "pymc_arm": _arm,
    "sample_smc": _smc,
    "nutpie_bridge": _nutpie,
    "nutpie_evidence": _nutpie_evidence,
    "dynesty": _nested(run_dynesty),
    "nautilus": _nested(run_nautilus),
}


def _applicable(prepare: Callable, argument: Any) -> Any:
    """Prepare a tool; that it does not take such a model is no failure of its run."""
    try:
        return prepare(argument)
    except (NotImplementedError, ValueError) as error:
        raise NotApplicableError(str(error)) from error


def _check(result: Any, model: pm.Model) -> str:
    """Return what PyMC's own checks say of a result."""
    warned = run_convergence_checks(result, model)
    return "; ".join(str(warning.message).split(".")[0] for warning in warned) or "ok"


def _read_posterior(result: Any) -> dict[str, np.ndarray]:
    posterior = result["posterior"]
    return {str(name): np.asarray(posterior[name].values) for name in posterior.data_vars}


def _constrain(target: Target, points: np.ndarray) -> dict[str, np.ndarray]:
    """Return the variables of a model, free and deterministic, at points of its vector."""
    model = target.model
    variables = [*model.free_RVs, *model.deterministics]
    function = model.compile_fn(
        model.replace_rvs_by_values(variables), on_unused_input="ignore", point_fn=True
    )
    names = [value.name for value in model.value_vars]
    columns = target.layout.unravel(points)
    rows = [
        function(dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)
    ]
    return {
        variable.name: np.stack([row[place] for row in rows]).reshape(
            CHAINS, DRAWS, *np.shape(rows[0][place])
        )
        for place, variable in enumerate(variables)
    }
