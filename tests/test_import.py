"""Importing the package is quick and quiet."""

import subprocess
import sys

# What takes long to import, and is needed only by some.
HEAVY = ("numba", "scipy.stats", "matplotlib.pyplot", "distributed", "pymc_arm.families.gpc.path")
LOADED = "import sys; import {}; print(*(name for name in {!r} if name in sys.modules))"
ABSENT = "import pymc_arm as p; print(*(name for name in p.__all__ if not hasattr(p, name)))"


def output_of(code, *options):
    """Return what a fresh interpreter prints, warnings and all."""
    command = [sys.executable, *options, "-c", code]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout.split()


def loaded_by(module):
    return set(output_of(LOADED.format(module, HEAVY), "-W", "ignore"))


def test_nothing_heavy_is_loaded_that_pymc_does_not_load():
    assert loaded_by("pymc_arm") <= loaded_by("pymc") < set(HEAVY)


def test_nothing_heavy_is_loaded_to_sample_a_small_model():
    code = """
import sys
import numpy as np, pymc as pm
before = set(sys.modules)
import pymc_arm
with pm.Model():
    scale = pm.HalfCauchy("scale", 1)
    pm.Normal("y", 0, scale, observed=np.ones(3))
    pymc_arm.sample(draws=100, chains=2, cores=1, random_seed=1, progressbar=False)
print(*({"numba", "scipy.stats", "dask", "sparse", "setuptools"} & (set(sys.modules) - before)))
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert not done.stdout.split()


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
    assert output_of("import pymc_arm", *quiet) == []


def test_families_are_there_when_asked_for():
    assert output_of(ABSENT, "-W", "ignore") == []
