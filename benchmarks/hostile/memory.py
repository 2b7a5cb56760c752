"""What a run is said to need before it begins, and what it takes.

Each model runs in a process of its own. What counts is the largest resident memory of the run above
that of the process with the compiled model in it, beside the estimate of `check_memory`. Then the
same run is given half of its estimate as address space, and must be refused before it begins.
"""

import json
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

import pymc_arm
from benchmarks.hostile.tally import Tally
from pymc_arm.models.reference import start_model
from pymc_arm.running.memory import estimate_memory

__all__ = ["tally_memory"]

# An estimate is right within this factor. What the interpreter and compilers take is not counted:
# below this many bytes they are all there is.
FACTOR = 2.0
NEGLIGIBLE = 64 * 1024**2


def many_particles() -> tuple[pm.Model, int]:
    """Make a small model with many draws."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=20)
        pm.Normal("y", x, 1, observed=np.linspace(-1, 1, 20))
    return model, 100_000


def large_data() -> tuple[pm.Model, int]:
    """Make a regression with a million rows."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=1_000_000)
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 1)
        pm.Normal("y", slope * x, 1, observed=x + rng.normal(size=len(x)))
    return model, 50


def process() -> tuple[pm.Model, int]:
    """Make a latent Gaussian process."""
    x = np.linspace(0, 3, 150)[:, None]
    with pm.Model() as model:
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, 0.5))
        f = gp.prior("f", X=x)
        pm.Normal("y", f, 0.5, observed=np.sin(x[:, 0]))
    return model, 2000


def many_variables() -> tuple[pm.Model, int]:
    """Make a model of two thousand variables."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=2000)
        pm.Normal("y", x, 1, observed=np.zeros(2000))
    return model, 1000


def tables() -> tuple[pm.Model, int]:
    """Make a chain of labels, which are summed, with an unknown noise."""
    rng = np.random.default_rng(1)
    table = rng.dirichlet(np.ones(12), size=12)
    with pm.Model() as model:
        noise = pm.HalfNormal("noise", 1)
        before = pm.Categorical("z0", p=np.full(12, 1 / 12))
        for k in range(1, 6):
            before = pm.Categorical(f"z{k}", p=pm.math.constant(table)[before])
            pm.Normal(f"y{k}", before, noise, observed=float(rng.integers(12)))
    return model, 1000


MODELS: dict[str, Callable[[], tuple[pm.Model, int]]] = {
    made.__name__: made for made in (many_particles, large_data, process, many_variables, tables)
}


def tally_memory() -> Tally:
    """Measure each model, and refuse it where there is too little."""
    tally = Tally("memory")
    for name in MODELS:
        found = _run_child(name, "measure")
        estimate, used = found.get("estimate", 0), found.get("used", 0)
        near = max(estimate, NEGLIGIBLE) <= FACTOR * max(used, NEGLIGIBLE)
        near &= max(used, NEGLIGIBLE) <= FACTOR * max(estimate, NEGLIGIBLE)
        sizes = f"{name}: estimate {estimate / 2**20:.0f} MiB, used {used / 2**20:.0f} MiB"
        print(sizes, flush=True)
        tally.add("estimated", "" if near and found else sizes)
        if estimate > NEGLIGIBLE:
            said = _run_child(name, "refuse").get("said", "")
            refused = said.startswith("MemoryError: draws=")
            tally.add("refused in time", "" if refused else f"{name} with too little: {said}")
    return tally


def _run_child(name: str, what: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.hostile.memory", name, what]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return {"said": f"exit code {ended.returncode}: {ended.stderr[-200:]}"}
    return dict(json.loads(lines[-1]))


def _status(field: str) -> int:
    """Return a size of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return 1024 * int(line.split()[1])
    raise KeyError(field)


def _child(name: str, what: str) -> None:
    warnings.simplefilter("ignore")
    model, draws = MODELS[name]()
    path = start_model(model).path  # the run finds it compiled
    options = {"chains": 1, "cores": 1, "random_seed": 1, "progressbar": False}
    estimate = estimate_memory(path, draws, path.settings(), 1)
    if what == "refuse":
        room = _status("VmSize") + estimate // 2
        resource.setrlimit(resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))
        try:
            pymc_arm.sample(model, draws, **options)
            print(json.dumps({"said": "it ran"}))
        except MemoryError as error:
            print(json.dumps({"said": f"MemoryError: {error}"}))
        return
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    pymc_arm.sample(model, draws, **options)
    print(json.dumps({"estimate": estimate, "used": max(0, _status("VmHWM") - before)}))


if __name__ == "__main__":
    _child(*sys.argv[1:])
