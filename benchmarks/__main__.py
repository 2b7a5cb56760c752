"""``python -m benchmarks NAME [options]``: every figure in the docs comes from one of these."""

import importlib
import sys

MODULES = (
    "suite_run",
    "suite_plot",
    "literature",
    "wild",
    "page",
    "cold_start",
    "profile_run",
    "growth",
    "nuts",
    "evidence",
    "evidence_failures",
    "evidence_large",
    "update",
    "bias",
    "exploring_bias",
    "bayes_factors",
    "calibration",
    "inclusion",
    "model_pairs",
    "subsets",
    "gpc",
    "gpc_sweep",
    "gpc_bias",
    "gpc_hyper",
    "rbm",
    "rbm_calibration",
    "rbm_large",
    "adversarial.run",
    "fuzz",
    "faults",
    "overhead",
    "scaling",
    "structure",
    "fields",
)


def main() -> None:
    commands, broken = {}, []
    for module in MODULES:
        # A module that cannot be imported takes only its own commands with it.
        try:
            commands.update(importlib.import_module(f"benchmarks.{module}").COMMANDS)
        except ImportError as error:
            broken.append(f"benchmarks.{module} cannot be imported: {error}")
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        usage = f"usage: python -m benchmarks NAME; the names are {', '.join(sorted(commands))}"
        sys.exit("\n".join([usage, *broken]))
    commands[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    main()
