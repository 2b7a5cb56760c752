"""Whether two ways to the Bayes factor of nested models agree: log Z of both, and Savage-Dickey.

The two have little in common. Log Z takes a run of each model, Savage-Dickey takes draws of the
larger one and evaluates densities at a point. A mistake in one of them is seen in the difference.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm

from pymc_arm._compat import COMPILING, unwrap_model
from pymc_arm.comparison.factors import BayesFactor, bayes_factor
from pymc_arm.comparison.savage_dickey import SavageDickey, savage_dickey

__all__ = ["Agreement", "Nested", "check_nested", "nested_columns", "read_nested"]

#: By the name of a nested model: the name of the larger one, and where that fixes variables.
Nested = Mapping[str, tuple[str, Mapping[str, Any]]]
# Points at which the densities of two models are compared, and how nearly equal they must be.
POINTS, ROUNDING = 3, 1e-6


@dataclass(frozen=True)
class Agreement:
    """Two estimates of the Bayes factor of a nested model against the larger one.

    Attributes
    ----------
    by_log_z
        From log Z of both models.
    by_density
        The Savage-Dickey ratio, from draws of the larger model.
    """

    by_log_z: BayesFactor
    by_density: SavageDickey

    @property
    def agrees(self) -> bool | None:
        """Whether they agree; None if an error is unknown."""
        return self.by_density.agrees(self.by_log_z)

    @property
    def word(self) -> str:
        """The answer in a word or two."""
        return {True: "agrees", False: "does not agree", None: "unknown"}[self.agrees]

    def __str__(self) -> str:
        names = f"{self.by_log_z.first} against {self.by_log_z.second}"
        return f"{names}: {self.by_density.agreement(self.by_log_z)}"


def read_nested(models: Mapping[str, Any], nested: Nested | None) -> Nested:
    """Refuse names that are no models, and models that are not nested, before anything runs."""
    for name, given in (nested or {}).items():
        if not (isinstance(given, tuple | list) and len(given) == 2):
            raise TypeError(
                f"nested[{name!r}]={given!r} must be the name of the larger model and where it "
                "fixes variables, as in ('effect', {'delta': 0.0})."
            )
        larger, values = given
        for one in (name, larger):
            if one not in models:
                raise ValueError(f"nested names {one!r}; the models are {sorted(models)}.")
        whole, part = (unwrap_model(models[one]) for one in (larger, name))
        if not isinstance(whole, pm.Model):
            raise TypeError(
                f"nested[{name!r}] needs the model {larger!r} itself, and there is only its "
                "result: give the model, or call pymc_arm.savage_dickey."
            )
        if isinstance(part, pm.Model):
            _check_densities(name, part, larger, whole, values)
    return nested or {}


def _check_densities(
    name: str, part: pm.Model, larger: str, whole: pm.Model, values: Mapping[str, Any]
) -> None:
    """Raise unless a model is another one with some variables fixed, by their densities."""
    free = {rv.name: rv for rv in whole.free_RVs}
    unknown = sorted(set(values) - set(free))
    if unknown:
        raise ValueError(f"nested[{name!r}] fixes {unknown}; {larger!r} has {list(free)}.")
    with COMPILING:
        arrays = {
            key: np.broadcast_to(np.asarray(value, free[key].dtype), free[key].shape.eval())
            for key, value in values.items()
        }
        fixed = pm.do(whole, arrays)
    variables, expected = ({v.name for v in m.value_vars} for m in (part, fixed))
    differing = f"free variables {sorted(variables)} and {sorted(expected)}"
    if variables == expected:
        rng = np.random.default_rng(0)
        start = part.initial_point()
        points = [
            {key: value + rng.uniform(0, 0.1, np.shape(value)) for key, value in start.items()}
            if not part.discrete_value_vars
            else start
            for _ in range(POINTS)
        ]
        with COMPILING:
            densities = [model.compile_logp() for model in (part, fixed)]
        one, two = (np.array([float(f(point)) for point in points]) for f in densities)
        differing = f"log densities {one[0]:.6g} and {two[0]:.6g} at the same point"
        if np.allclose(one, two, rtol=ROUNDING, atol=ROUNDING):
            return
    raise ValueError(
        f"Model {name!r} is not {larger!r} with {dict(values)!r}: they have {differing}. The ratio "
        "of Savage and Dickey compares pm.do(larger, values) with the larger model."
    )


def check_nested(
    models: Mapping[str, Any], results: Mapping[str, Any], nested: Nested
) -> dict[str, Agreement]:
    """Return the two estimates for each nested model whose larger one has been run.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_arm
    >>> from pymc_arm.comparison.nested import check_nested
    >>> from pymc_arm.results import Evidence
    >>> with pm.Model() as model:
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Binomial("y", n=10, p=p, observed=7)
    >>> result = pymc_arm.sample(model, random_seed=1, progressbar=False)
    >>> results = {"any": result, "fair": Evidence(-2.14381, 1e-5, 10)}
    >>> found = check_nested({"any": model}, results, {"fair": ("any", {"p": 0.5})})
    >>> found["fair"].word
    'agrees'
    """
    found = {}
    for name, (larger, values) in nested.items():
        if results.get(larger) is None or results.get(name) is None:
            continue  # a comparison of many models has left one of them out
        by_log_z = bayes_factor(results[name], results[larger], names=(name, larger))
        by_density = savage_dickey(results[larger], unwrap_model(models[larger]), values)
        found[name] = Agreement(by_log_z, by_density)
    return found


def nested_columns(found: Mapping[str, Agreement], names: list[str]) -> dict[str, list[Any]]:
    """Return what a table of models says about nested ones, a value for each model."""
    known = [found.get(name) for name in names]
    return {
        "nested_in": ["" if one is None else one.by_log_z.second for one in known],
        "savage_dickey": [math.nan if one is None else one.by_density.log for one in known],
        "savage_dickey_se": [
            math.nan if one is None else one.by_density.standard_error for one in known
        ],
        "agreement": ["" if one is None else one.word for one in known],
    }
