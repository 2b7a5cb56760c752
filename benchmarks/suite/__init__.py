"""PyMC models whose log evidence is known, for judging an estimator.

``PROBLEMS`` maps a name to a `Problem`. Problems that need a data file which is not distributed are
registered only where the file is found.
"""

from benchmarks.suite import (
    conjugate,
    constrained,
    custom,
    discrete,
    gaussian_process,
    hierarchical,
    missing_and_censored,
    mixtures,
    regression,
    time_series,
)
from benchmarks.suite.problem import Problem

__all__ = ["PROBLEMS", "Problem"]

PROBLEMS: dict[str, Problem] = {
    problem.name: problem
    for module in (
        conjugate,
        regression,
        hierarchical,
        constrained,
        mixtures,
        discrete,
        time_series,
        gaussian_process,
        missing_and_censored,
        custom,
    )
    for problem in module.PROBLEMS
}
