"""Log Z from the draws of NUTS: ``pymc_arm.evidence`` on models whose log Z is known.

``python -m benchmarks evidence [NAME ...] [--sampler nutpie|pymc] [--repeats 1]`` samples models of
the suite (by default those of the peer comparison) with nutpie or ``pm.sample`` in their defaults,
and hands the draws to ``evidence``. Printed are the error of log Z, the standard error, their ratio
z, the verdict, whether it came by a bridge or a path, and what it took after NUTS, compilation
included: CPU seconds of all processes, and the wall time. The last line counts how many are within
four standard errors, and how many of the others have a verdict that is not ok.

``--wild`` takes models as users write them (:mod:`benchmarks.wild`) in place of the suite, by
default those with a reference; the others have no error to print. Their log Z is printed too.
"""

import argparse
import importlib.util
import logging
import time
import warnings
from typing import Any

import numpy as np
import pymc as pm

import pymc_arm
from benchmarks.limited import cpu_seconds
from benchmarks.literature_models import SHARED
from benchmarks.peers import PEER_MODELS
from benchmarks.suite import PROBLEMS, Problem
from benchmarks.wild import load_suite

__all__ = ["COMMANDS"]

LARGEST_Z = 4.0


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks evidence")
    parser.add_argument("names", nargs="*", help="models of the suite, or 'all'")
    parser.add_argument("--sampler", choices=list(SAMPLERS), default="nutpie")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--wild", action="store_true")
    options = parser.parse_args(arguments)
    if options.sampler == "nutpie" and importlib.util.find_spec("nutpie") is None:
        parser.exit(message="nutpie is not installed: pip install nutpie, or --sampler pymc\n")
    known = _wild() if options.wild else PROBLEMS
    usual = [name for name in PEER_MODELS if name in known]
    if options.wild:
        usual = [name for name, own in known.items() if np.isfinite(own.log_evidence())]
    names = options.names or usual
    names = list(known) if names == ["all"] else names
    unknown = set(names) - set(known)
    if unknown:
        parser.error(f"no model is called {sorted(unknown)}; they are {', '.join(known)}")
    warnings.simplefilter("ignore")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    print(f"{'model':38s}{'error':>9s}{'se':>9s}{'z':>7s}  {'verdict':9s}{'by':8s}", end="")
    print(f"{'cpu':>6s}{'wall':>6s}")
    found = []
    for name in names:
        for seed in range(1, options.repeats + 1):
            z, verdict = _run(known[name], SAMPLERS[options.sampler], seed)
            if verdict and np.isfinite(z):
                found.append((z, verdict))
    within = sum(abs(z) <= LARGEST_Z for z, _ in found)
    flagged = sum(not abs(z) <= LARGEST_Z and verdict != "ok" for z, verdict in found)
    ok = sum(verdict == "ok" for _, verdict in found)
    print(
        f"{len(found)} estimates: {within} within {LARGEST_Z:g} standard errors, {flagged} of the "
        f"others flagged; {ok} verdicts are ok"
    )


def _run(problem: Problem, sample: Any, seed: int) -> tuple[float, str]:
    """Print a line, and return z and the verdict; none where there is no estimate."""
    model = problem.build()
    try:
        idata = sample(model, seed)
    except Exception as error:  # what a sampler can't do, in its words
        print(f"{problem.name:38s}not sampled: {_first_line(error)}", flush=True)
        return np.nan, ""
    started, before = time.perf_counter(), cpu_seconds()
    try:
        result = pymc_arm.evidence(idata, model, random_seed=seed, progressbar=False)
    except ValueError as error:
        print(f"{problem.name:38s}refused: {_first_line(error)}", flush=True)
        return np.nan, ""
    wall, cpu = time.perf_counter() - started, cpu_seconds() - before
    attributes = result.attrs
    error = attributes["log_marginal_likelihood"] - problem.log_evidence()
    deviation = np.hypot(attributes["log_marginal_likelihood_se"], problem.standard_error)
    verdict, by = attributes["verdict"], "bridge" if attributes["bridged"] else "path"
    print(
        f"{problem.name:38s}{error:+9.4f}{deviation:9.4f}{error / deviation:+7.2f}  {verdict:9s}"
        f"{by:8s}{cpu:6.1f}{wall:6.1f}  {_checks(result)}; log Z "
        f"{attributes['log_marginal_likelihood']:.3f}, {attributes['dimension']} parameters",
        flush=True,
    )
    return float(error / deviation), str(verdict)


def _wild() -> dict[str, Problem]:
    """Return the models of users, with references as far as there are any."""
    suite = load_suite()
    references = suite.load_references(SHARED / "wild")

    def problem(name: str, build: Any) -> Problem:
        own = references.get(name, {})
        truth, error = (np.nan if own.get(k) is None else own[k] for k in ("log_z", "log_z_se"))
        return Problem(name, build, lambda: truth, "reference", (), error)

    return {
        name: problem(name, build) for name, build in suite.find_models(SHARED / "wild").items()
    }


def _checks(result: Any) -> str:
    return ", ".join(reason.check for reason in pymc_arm.diagnose(result).reasons)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:90]


def _nutpie(model: pm.Model, seed: int) -> Any:
    import nutpie

    return nutpie.sample(nutpie.compile_pymc_model(model), seed=seed, progress_bar=False)


def _pymc(model: pm.Model, seed: int) -> Any:
    return pm.sample(model=model, random_seed=seed, progressbar=False)


SAMPLERS = {"nutpie": _nutpie, "pymc": _pymc}
COMMANDS = {"evidence": main}
