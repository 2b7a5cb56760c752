"""Data sets of a model, drawn from its prior, and the model with other data."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pymc_arm.errors import ModelError
from pymc_arm.models.functions_of_draws import batched_function
from pymc_arm.models.graph.reuse import exchangeable
from pymc_arm.models.graph_sampler import GraphSampler
from pymc_arm.models.prior import PriorSampler

__all__ = ["PriorPredictive", "check_comparable", "observe"]


class PriorPredictive:
    """Data sets of a model, drawn from its prior, and models with these data.

    Parameters
    ----------
    name
        Of the model, for errors.
    model
        Whose observed variables are drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> from pymc_arm.comparison.prior_predictive import PriorPredictive
    >>> with pm.Model() as model:
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Binomial("y", n=10, p=p, observed=7)
    >>> predictive = PriorPredictive("coin", model)
    >>> data = predictive.draw(np.random.default_rng(1))
    >>> 0 <= int(data["y"]) <= 10
    True
    >>> copy = predictive.with_data(data)
    >>> bool(copy.rvs_to_values[copy["y"]].eval() == data["y"])
    True
    """

    def __init__(self, name: str, model: pm.Model) -> None:
        self.model = model
        observed = list(dict.fromkeys(model.observed_RVs))
        if not observed:
            raise ModelError(f"Model {name!r} has no observed variable, so no data can be drawn.")
        if model.potentials:
            names = [potential.name for potential in model.potentials]
            raise ModelError(
                f"Model {name!r} has potentials ({', '.join(names)}), and no data can be drawn "
                "from those: write them as distributions."
            )
        free = {rv.owner for rv in model.free_RVs}
        for rv in observed:
            if rv.owner in free:
                raise ModelError(
                    f"{rv.name!r} of model {name!r} has missing values: give complete data, such "
                    "as zeros of the same shape. Only shapes matter here."
                )
        above = set(ancestors(model.free_RVs))
        for rv in observed:
            if rv in above:
                raise ModelError(
                    f"Free variables of model {name!r} depend on {rv.name!r}, which is observed: "
                    "they can't be drawn before it is. Give their parents as pm.Data."
                )
        self.names = tuple(rv.name for rv in observed)
        self.shapes = {rv.name: tuple(np.shape(_value(model.rvs_to_values[rv]))) for rv in observed}
        self._prior = PriorSampler(model)
        values = [model.rvs_to_values[rv] for rv in model.free_RVs]
        known = {variable.name: variable for variable in model.unobserved_value_vars}
        outputs = [known[rv.name] for rv in model.free_RVs]
        self._untransform = batched_function(values, outputs) if values else None
        rows = [] if self._untransform is None else self._free(np.random.default_rng(0))
        self._inputs = [
            pytensor.shared(row, shape=rv.type.shape)
            for rv, row in zip(model.free_RVs, rows, strict=True)
        ]
        replaced = dict(zip(model.free_RVs, self._inputs, strict=True))
        graphs = clone_replace(observed, replaced)
        self._data = GraphSampler(graphs, graphs)

    def draw(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Return the observed variables of one data set, by name."""
        if self._untransform is not None:
            for variable, row in zip(self._inputs, self._free(rng), strict=True):
                variable.set_value(row)
        drawn = self._data.draw_graphs(rng, 1)
        return {name: array[0] for name, array in zip(self.names, drawn, strict=True)}

    def _free(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Return one draw of the free variables from the prior, which transforms may restrict."""
        assert self._untransform is not None
        rows = self._untransform(*self._prior.draw(rng, 1))
        variables = self.model.free_RVs
        return [np.asarray(r[0], rv.type.dtype) for r, rv in zip(rows, variables, strict=True)]

    def with_data(self, data: Mapping[str, np.ndarray]) -> pm.Model:
        """Return a copy of the model that has observed these data."""
        copy = self.model.copy()
        for rv in dict.fromkeys(copy.observed_RVs):
            observe(copy, rv, data[rv.name])
        return copy


def observe(model: pm.Model, rv: TensorVariable, data: np.ndarray) -> None:
    """Put data in the place of what a variable of a model has observed."""
    value = exchangeable(np.asarray(data).astype(rv.type.dtype), rv.name)
    model.values_to_rvs.pop(model.rvs_to_values[rv], None)
    model.rvs_to_values[rv] = value
    model.values_to_rvs[value] = rv


def _value(variable: Any) -> Any:
    return variable.data if hasattr(variable, "data") else variable.eval()


def check_comparable(predictives: Mapping[str, PriorPredictive]) -> None:
    """Raise if models do not observe the same variables with the same shapes."""
    (first, expected), *others = predictives.items()
    for name, found in others:
        if found.shapes != expected.shapes:
            raise ModelError(
                f"Model {name!r} observes {found.shapes} and model {first!r} {expected.shapes}: "
                "data of one must be data of the other. Give observed variables the same names "
                "and shapes."
            )
