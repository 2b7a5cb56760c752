"""What a new user waits for: from ``import`` to the log Z of eight schools, in a fresh process.

``python -m benchmarks cold-start [--repeats 3]`` starts a process for each method in turn, with
PyTensor's and numba's caches empty (cold) and then with what the first process left in them (warm),
and prints the shortest wall time of each, that of the imports alone, and the ratios.
"""

import argparse
import os
import subprocess
import sys
import tempfile

__all__ = ["COMMANDS"]

MODEL = """
import time
started = time.perf_counter()
import numpy as np
import pymc as pm
{import_ours}
imported = time.perf_counter()
effects = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
errors = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
if __name__ == "__main__":
    with pm.Model():
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        theta = pm.Normal("theta", 0, 1, shape=8)
        pm.Normal("y", mu + tau * theta, errors, observed=effects)
        {call}
    print(imported - started, time.perf_counter() - started)
"""
METHODS = {
    "pymc_arm": MODEL.format(
        import_ours="import pymc_arm",
        call="pymc_arm.sample(random_seed=1, progressbar=False)",
    ),
    "sample_smc": MODEL.format(
        import_ours="",
        call="pm.sample_smc(draws=1000, chains=4, random_seed=1, progressbar=False)",
    ),
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks cold-start")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    times: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(options.repeats):
        for method, script in METHODS.items():
            with tempfile.TemporaryDirectory() as folder:
                for state in ("cold", "warm", "warm"):
                    times.setdefault((method, state), []).append(_run(script, folder))
    for state in ("cold", "warm"):
        best = {method: min(total for _, total in times[method, state]) for method in METHODS}
        imports = {method: min(first for first, _ in times[method, state]) for method in METHODS}
        for method in METHODS:
            print(
                f"{state} {method:12s} import {imports[method]:5.2f} s, all {best[method]:5.2f} s"
            )
        print(f"{state} ratio {best['pymc_arm'] / best['sample_smc']:.2f}")


def _run(script: str, folder: str) -> tuple[float, float]:
    """Return the seconds of the imports, and of all."""
    file = os.path.join(folder, "schools.py")
    with open(file, "w") as stream:
        stream.write(script)
    environment = {
        **os.environ,
        "PYTENSOR_FLAGS": f"base_compiledir={folder}/pytensor",
        "NUMBA_CACHE_DIR": f"{folder}/numba",
        "PYTHONPATH": os.getcwd(),
    }
    done = subprocess.run(
        [sys.executable, file], env=environment, capture_output=True, text=True, check=True
    )
    imported, total = done.stdout.split()[-2:]
    return float(imported), float(total)


COMMANDS = {"cold-start": main}
