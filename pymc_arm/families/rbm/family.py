"""Recognise a machine in a model."""

from typing import Any

import numpy as np
import pymc as pm

from pymc_arm.algorithm.path import Path
from pymc_arm.families.rbm.machine import Machine
from pymc_arm.families.rbm.variable import RBMVariable
from pymc_arm.families.registry import Match
from pymc_arm.models.prior import is_fixed

__all__ = ["RBMFamily"]


class RBMFamily:
    """Models whose only variable is the visible layer of a machine with fixed weights."""

    name = "rbm"

    def match(self, model: pm.Model) -> Match:
        """Accept a model with one free variable, an ``RBM`` whose parameters are fixed."""
        machines = [rv for rv in model.free_RVs if _is_machine(rv)]
        if not machines:
            return Match(False, "no free variable is a pymc_arm.RBM")
        others = [
            variable.name
            for variable in [*model.basic_RVs, *model.potentials]
            if variable is not machines[0]
        ]
        if others:
            return Match(False, f"besides {machines[0].name} the model has {', '.join(others)}")
        if machines[0].ndim != 1:
            return Match(False, f"{machines[0].name} is a batch of machines")
        parameters = machines[0].owner.op.dist_params(machines[0].owner)
        if not is_fixed(parameters):
            return Match(False, f"the parameters of {machines[0].name} are random")
        return Match(True, f"{machines[0].name} is a restricted Boltzmann machine")

    def build(self, model: pm.Model, **options: Any) -> Path:
        """Build the path that :func:`pymc_arm.rbm` takes with the same ``options``."""
        from pymc_arm.families.rbm.direct import make_path  # its kernels take a while to load

        variable = model.free_RVs[0]
        W, a, b = (
            np.asarray(parameter.eval())
            for parameter in variable.owner.op.dist_params(variable.owner)
        )
        return make_path(Machine(W, a, b), name=variable.name, **options)


def _is_machine(variable: Any) -> bool:
    return variable.owner is not None and isinstance(variable.owner.op, RBMVariable)
