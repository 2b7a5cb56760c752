"""From log marginal likelihoods to a choice between models.

A Bayes factor is the ratio of two estimates, so it has an error, and so has the order that it puts
two models in. Everything here carries that error through: differences of log Z are taken before
anything is exponentiated, their errors add, and posterior model probabilities get an interval from
the errors of log Z. Only results whose log Z is trustworthy can be compared; nothing here can tell
that a run missed a mode.
"""

from pymc_arm.comparison.factors import SCALES, BayesFactor, bayes_factor
from pymc_arm.comparison.reading import read_evidence
from pymc_arm.comparison.table import compare, model_probabilities

__all__ = [
    "SCALES",
    "BayesFactor",
    "bayes_factor",
    "compare",
    "model_probabilities",
    "read_evidence",
]
