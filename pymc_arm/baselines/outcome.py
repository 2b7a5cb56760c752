"""The verdict on a baseline's result, as on any other."""

import warnings

from pymc_arm._compat import InferenceTree, set_attributes
from pymc_arm.diagnose import diagnose
from pymc_arm.errors import TrustWarning

__all__ = ["judge"]


def judge(result: InferenceTree) -> InferenceTree:
    """Write the verdict into a result, warn if it is not good, and return the result."""
    report = diagnose(result)
    verdict = {"verdict": report.status, "verdict_reasons": str(report)}
    result.attrs.update(verdict)
    set_attributes(result, "arm", verdict)
    if report.status != "ok":
        warnings.warn(f"log Z: {report}", TrustWarning, stacklevel=3)
    return result
