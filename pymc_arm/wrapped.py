"""Results of models that another package has built on PyMC, in the form that it gives to its own.

A ``bambi.Model`` holds a PyMC model, and Bambi centres predictors in it, so that the intercept of
the PyMC model is not that of the formula. Bambi puts this right in the draws of its own samplers,
and is asked here to do the same with ours; log Z is not touched by it. Bambi is never imported:
what is asked is whether an object can be built and has a PyMC model inside.
"""

import warnings
from typing import Any

from pymc_arm._compat import InferenceTree, get_group, is_wrapper
from pymc_arm.errors import ArmWarning, callers_level

__all__ = ["finish_as_given"]


def finish_as_given(model: Any, result: InferenceTree) -> InferenceTree:
    """Return the result of a Bambi model as Bambi would; that of any other model as it is.

    The intercept is that of predictors as they are in the data, and the offsets of group effects
    and the parameters of the likelihood, which are functions of the others, are left out.

    Parameters
    ----------
    model
        What was given to :func:`pymc_arm.sample`.
    result
        The result of the PyMC model inside of it.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_arm.wrapped import finish_as_given
    >>> finish_as_given(pm.Model(), "a result")
    'a result'
    """
    if not is_wrapper(model):
        return result
    clean = getattr(model.backend, "_clean_results", None)
    if clean is None:
        if getattr(model, "center_predictors", False):
            warnings.warn(
                f"{type(model).__name__} centres predictors, and its package lacks the method that "
                "undoes it: intercepts in the posterior are those of centred predictors. Log Z is "
                "not affected.",
                ArmWarning,
                stacklevel=callers_level(),
            )
        return result
    result = clean(result, omit_offsets=True, include_response_params=False)
    deterministics = {variable.name for variable in model.backend.model.deterministics}
    derived = deterministics & set(model.family.likelihood.params)
    posterior = get_group(result, "posterior")
    kept = [name for name in posterior.data_vars if name not in derived]
    result["posterior"] = posterior[kept]
    return result
