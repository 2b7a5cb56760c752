"""Importing the package is quick and quiet."""

import subprocess
import sys

# What takes long to import, and is needed only by some.
HEAVY = ("numba", "scipy.stats", "matplotlib.pyplot", "distributed", "pymc_arm.families.gpc.path")
LOADED = "import sys; import {}; print(*(name for name in {!r} if name in sys.modules))"


def loaded_by(module):
    command = [sys.executable, "-c", LOADED.format(module, HEAVY)]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_nothing_heavy_is_loaded_that_pymc_does_not_load():
    assert loaded_by("pymc_arm") <= loaded_by("pymc")


def test_no_warnings_but_those_of_pymc():
    # ArviZ 0.23 announces its successor once a day; PyMC 6.3 imports from where PyTensor moved.
    quiet = [
        "-W",
        "error",
        "-W",
        "ignore::FutureWarning",
        "-W",
        "ignore:Importing:DeprecationWarning",
    ]
    subprocess.run([sys.executable, *quiet, "-c", "import pymc_arm"], check=True)


def test_families_are_there_when_asked_for():
    code = "import pymc_arm; assert all(hasattr(pymc_arm, name) for name in pymc_arm.__all__)"
    subprocess.run([sys.executable, "-c", code], check=True)
