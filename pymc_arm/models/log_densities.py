"""PyMC's log-density of each variable of a model, as a graph.

PyMC simplifies all that leads to a variable before it derives its density: it might be measurable
itself. The mean of a normal variable that is written out step by step is not, and to simplify
thousands of nodes takes many seconds; where sums of sums share their summands, as those of seasonal
terms do, it takes a time that doubles with every step. So parameters that are large graphs are left
out while densities are derived, and put in afterwards.
"""

from collections.abc import Sequence

import pymc as pm
from pymc.logprob import transformed_conditional_logp
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace, graph_replace
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_arm.errors import ModelError

__all__ = ["log_densities"]

# Parameters with more nodes than this are left out. Those of most models have less than 100; 100
# steps of Runge-Kutta's method have 3000, which PyMC takes 5 CPU seconds for.
LARGE = 300


def log_densities(model: pm.Model, variables: Sequence[TensorVariable]) -> list[TensorVariable]:
    """Return PyMC's log-density of each variable, or say which one has none.

    Parameters
    ----------
    model
        The model.
    variables
        Free or observed ones, and potentials.

    Raises
    ------
    ModelError
        If PyMC has no log-density for one of them.
    """
    if not variables:
        return []
    try:
        large = _large_parameters(model)
        if large:
            return _without_parameters(model, variables, large)
        return list(model.logp(vars=list(variables), sum=False, jacobian=True))
    except NotImplementedError as error:
        for variable in model.basic_RVs:
            try:
                pm.logp(variable, model.rvs_to_values[variable])
            except NotImplementedError as own:
                raise ModelError(
                    f"PyMC has no log-density for {variable.name!r} as it is written "
                    f"({str(own).splitlines()[0][:200]}), and log Z is an integral of that. Use a "
                    "distribution that has one, or constants where it asks for them."
                ) from own
        raise ModelError(
            f"PyMC has no log-density for this model ({error}), and log Z is an integral of that."
        ) from error


def _large_parameters(model: pm.Model) -> list[Variable]:
    """Return parameters of random variables that are large graphs of variables with values."""
    valued = set(model.basic_RVs)
    found = []
    for variable in dict.fromkeys(model.basic_RVs):
        if not isinstance(variable.owner.op, RandomVariable):
            continue  # what it is made of may be measurable
        for parameter in variable.owner.op.dist_params(variable.owner):
            nodes, pending = set(), [parameter]
            while pending:
                each = pending.pop()
                if each.owner is None or each.owner in nodes or each in valued:
                    continue
                nodes.add(each.owner)
                pending.extend(each.owner.inputs)
            random = any(isinstance(node.op, RandomVariable) for node in nodes)
            if len(nodes) > LARGE and not random:
                found.append(parameter)
    return list(dict.fromkeys(found))


def _without_parameters(
    model: pm.Model, variables: Sequence[TensorVariable], large: Sequence[Variable]
) -> list[TensorVariable]:
    """Return the log-densities, derived with other variables in the place of large parameters."""
    places = [parameter.type() for parameter in large]
    every = list(dict.fromkeys(model.basic_RVs))
    copies = dict(
        zip(every, clone_replace(every, dict(zip(large, places, strict=True))), strict=True)
    )
    random = [variable for variable in variables if variable in copies]
    found = transformed_conditional_logp(
        rvs=[copies[variable] for variable in random],
        rvs_to_values={copies[rv]: model.rvs_to_values[rv] for rv in every},
        rvs_to_transforms={copies[rv]: model.rvs_to_transforms[rv] for rv in every},
        jacobian=True,
    )
    potentials = [variable for variable in variables if variable not in copies]
    given = model.replace_rvs_by_values([*large, *potentials])
    put_back = dict(zip(places, given[: len(large)], strict=True))
    whole = graph_replace(found, put_back, strict=False) if found else []
    results = dict(zip(random, whole, strict=True))
    results |= dict(zip(potentials, given[len(large) :], strict=True))
    return [results[variable] for variable in variables]
