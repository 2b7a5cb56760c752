"""``python -m benchmarks NAME [options]``: every figure in the docs comes from one of these."""

import importlib
import sys

MODULES = (
    "suite_run",
    "suite_plot",
    "cold_start",
    "profile_run",
    "growth",
    "nuts",
    "bias",
    "exploring_bias",
    "bayes_factors",
    "calibration",
    "gpc",
    "gpc_sweep",
    "gpc_bias",
    "rbm",
    "rbm_calibration",
    "fuzz",
    "faults",
    "overhead",
    "scaling",
)


def main() -> None:
    commands = {}
    for module in MODULES:
        commands.update(importlib.import_module(f"benchmarks.{module}").COMMANDS)
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit(f"usage: python -m benchmarks NAME; the names are {', '.join(sorted(commands))}")
    commands[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    main()
