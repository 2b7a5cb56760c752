"""At the price of NUTS: log Z and the posterior, against the posterior alone.

``python -m benchmarks nuts [--models ...] [--methods ...] [--repeats 1]`` runs, interleaved and
each in a fresh process,

* ``reference``: this package from a fitted reference (4 chains of 1000 draws);
* ``pm.sample``: PyMC in its defaults;
* ``nutpie``: nutpie in its defaults;
* ``nutpie+bridge``: the same, and warp-3 bridge sampling with its draws.

The clock runs from the call to the result, compilation included, with what earlier processes left
in the caches of PyTensor and numba. CPU seconds count all processes and threads. Printed are those,
the wall time, log Z, its standard error, the distance from the truth where that is known, the
smallest effective sample size of a scalar of the posterior (at most 50 are looked at) and that by
CPU second.

Data are read from the folder ``shared`` beside or above the project, or ``PYMC_ARM_SHARED``.
"""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm

from benchmarks.limited import cpu_seconds, report, run_limited
from benchmarks.literature_models import ROWS, SHARED, logistic_model
from benchmarks.wild import load_suite

__all__ = ["COMMANDS"]

LARGEST_SCALARS = 50
# CPU seconds after which a process is given up.
LIMIT = 600.0
MODELS = (
    "wells",
    "credit_wide",
    "sonar",
    "ionosphere",
    "radon_mn_noncentred",
    "irt_2pl",
    "hsgp_basic",
    "stochvol_500",
    "rugby",
    "baseball",
    "lgcp_126",
    "rows",
)


def _rows() -> pm.Model:
    """Logistic regression with 10^5 rows and 20 predictors."""
    rng = np.random.default_rng(0)
    design = rng.normal(size=(100_000, 20))
    chance = 1 / (1 + np.exp(-design @ (0.5 * rng.normal(size=20))))
    return logistic_model(design, (rng.random(100_000) < chance).astype(int), 1.0)


def _build(name: str) -> pm.Model:
    if name == "rows":
        return _rows()
    if name in ROWS:
        return ROWS[name].build()
    found = load_suite().find_models(SHARED / "wild")
    if name not in found:
        raise SystemExit(f"there is no model {name!r}")
    return found[name]()


def _truth(name: str) -> float | None:
    if name in ROWS:
        return ROWS[name].truth
    return load_suite().load_references(SHARED / "wild").get(name, {}).get("log_z")


def _reference(model: pm.Model, seed: int) -> dict[str, Any]:
    from pymc_arm import sample_path
    from pymc_arm.models.compiled import compile_model
    from pymc_arm.models.reference import choose_path

    choice = choose_path(compile_model(model))
    result = sample_path(choice.path, random_seed=seed, progressbar=False)
    return {
        "log_z": float(result.attrs["log_marginal_likelihood"]),
        "se": float(result.attrs["log_marginal_likelihood_se"]),
        "verdict": result.attrs.get("verdict"),
        "note": choice.reason,
        "ess": _smallest_ess(result["posterior"]),
    }


def _pymc(model: pm.Model, seed: int) -> dict[str, Any]:
    with model:
        trace = pm.sample(random_seed=seed, progressbar=False, compute_convergence_checks=False)
    return {"ess": _smallest_ess(trace["posterior"])}


def _nutpie(model: pm.Model, seed: int) -> dict[str, Any]:
    import nutpie

    compiled = nutpie.compile_pymc_model(model)
    trace = nutpie.sample(compiled, seed=seed, progress_bar=False)
    return {"ess": _smallest_ess(trace["posterior"])}


def _nutpie_bridge(model: pm.Model, seed: int) -> dict[str, Any]:
    from benchmarks.peers.nuts_bridge import nuts_bridge

    return {"log_z": nuts_bridge(model)(seed)}


METHODS: dict[str, Callable[[pm.Model, int], dict[str, Any]]] = {
    "reference": _reference,
    "pm.sample": _pymc,
    "nutpie": _nutpie,
    "nutpie+bridge": _nutpie_bridge,
}


def _smallest_ess(posterior: Any) -> float:
    """Return the smallest effective sample size of some scalars."""
    import arviz

    smallest, looked = np.inf, 0
    for name in posterior.data_vars:
        values = np.asarray(posterior[name])
        values = values.reshape(*values.shape[:2], -1)
        for column in range(min(values.shape[2], LARGEST_SCALARS - looked)):
            smallest = min(smallest, float(arviz.ess(np.ascontiguousarray(values[..., column]))))
            looked += 1
    return smallest


def _child(name: str, method: str, seed: int) -> None:
    model = _build(name)
    before, started = cpu_seconds(), time.perf_counter()
    found = METHODS[method](model, seed)
    found |= {"cpu": cpu_seconds() - before, "wall": time.perf_counter() - started}
    report(found)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks nuts")
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--child", nargs=3, metavar=("MODEL", "METHOD", "SEED"))
    options = parser.parse_args(arguments)
    if options.child:
        name, method, seed = options.child
        _child(name, method, int(seed))
        return
    print(f"{'model':22s}{'method':15s}{'cpu':>7s}{'wall':>7s}{'log Z':>12s}{'se':>8s}", end="")
    print(f"{'error':>8s}{'ess':>7s}{'ess/s':>7s}")
    for seed in range(1, options.repeats + 1):
        for name in options.models:
            for method in options.methods:
                print(_line(name, method, _run(name, method, seed)), flush=True)


def _run(name: str, method: str, seed: int) -> dict[str, Any]:
    ended = run_limited("benchmarks.nuts", [name, method, str(seed)], LIMIT)
    return ended.found or {"note": ended.message}


def _line(name: str, method: str, found: dict[str, Any]) -> str:
    truth = _truth(name)
    if truth is not None and "log_z" in found:
        found["error"] = found["log_z"] - truth
    if found.get("ess"):
        found["rate"] = found["ess"] / found["cpu"]
    widths = {"cpu": "7.1f", "wall": "7.1f", "log_z": "12.3f", "se": "8.4f", "error": "8.3f"}
    widths |= {"ess": "7.0f", "rate": "7.0f"}
    cells = [
        format(found[key], width) if found.get(key) is not None else " " * int(width.split(".")[0])
        for key, width in widths.items()
    ]
    verdict = found.get("verdict") or ""
    return f"{name:22s}{method:15s}{''.join(cells)}  {verdict} {found.get('note', '')}"


COMMANDS = {"nuts": main}

if __name__ == "__main__":  # a child
    main(sys.argv[1:])
