"""Evaluating a density at many values of a coordinate, and what does not depend on it once.

The integral over a new coordinate asks for the terms of every particle at some sixty values. A
covariance of other variables, its factor, a sum over them: these are the same for all sixty.
"""

from typing import Any

import numpy as np
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.subtensor import Subtensor

from pymc_arm.models.graph.program import Instruction, Program, execute, trim

__all__ = ["GroupedProgram", "partial_evaluation"]

# What a value depends on: nothing, the number of points, points but not the columns that vary, or
# those as well.
FIXED, COUNT, SAME, VARYING = range(4)
TRIAL_GROUPS = 5


class GroupedProgram:
    """A program of points in groups, whose members differ in some columns only.

    Parameters
    ----------
    program
        With the points as its only input.
    columns
        Those that differ within a group.
    dimension
        The number of all columns.
    """

    def __init__(self, program: Program, columns: np.ndarray, dimension: int) -> None:
        (self._points,) = program.inputs
        self._columns, self._outputs = columns, program.outputs
        self._constants = program.constants
        self._size = len(program.values)
        kinds = self._classify(program, dimension)
        whole = [i for i in program.instructions if kinds[i.targets[0]] in (COUNT, VARYING)]
        once = [i for i in program.instructions if kinds[i.targets[0]] in (COUNT, SAME)]
        fixed = {self._points, *self._constants}
        self._whole = trim(whole, self._outputs, fixed)
        used = {place for i in self._whole for place in i.sources} | set(self._outputs)
        self._shared = sorted(place for place in used if kinds[place] == SAME)
        self._once = trim(once, self._shared, fixed)

    @property
    def worthwhile(self) -> bool:
        """Whether there is anything to evaluate once for a group."""
        return len(self._once) > 0

    def __call__(self, points: np.ndarray, values: np.ndarray) -> list[np.ndarray]:
        """Return the outputs at points whose columns have each of the values.

        Parameters
        ----------
        points
            One for each group, (groups, dimension).
        values
            (groups, members, columns).
        """
        groups, members = values.shape[:2]
        once = self._start(points)
        spread = np.repeat(points, members, axis=0)
        spread[:, self._columns] = values.reshape(groups * members, -1)
        whole = self._start(spread)
        with np.errstate(all="ignore"):
            execute(self._once, once)
            for place in self._shared:
                value = once[place]
                same = np.ndim(value) == 0 or len(value) != groups
                whole[place] = value if same else np.repeat(value, members, axis=0)
            execute(self._whole, whole)
        return [whole[place] for place in self._outputs]

    def _start(self, points: np.ndarray) -> list[Any]:
        values: list[Any] = [self._constants.get(place) for place in range(self._size)]
        values[self._points] = points
        return values

    def _classify(self, program: Program, dimension: int) -> dict[int, int]:
        """Return what each value depends on, by the columns that slices of the points take."""
        kinds = dict.fromkeys(self._constants, FIXED)
        kinds[self._points] = VARYING
        # The numbers of the columns that a slice has in it.
        numbers: dict[int, np.ndarray] = {self._points: np.arange(float(dimension))[None]}
        for instruction in program.instructions:
            kind = self._kind(instruction, kinds)
            first, *rest = instruction.sources
            slices = issubclass(instruction.operation, Subtensor | DimShuffle)
            if slices and first in numbers and all(kinds[place] == FIXED for place in rest):
                constants = [self._constants[place] for place in rest]
                (taken,) = instruction.execute(numbers[first], *constants)
                numbers[instruction.targets[0]] = taken
                kind = VARYING if np.isin(taken, self._columns).any() else SAME
            for place in instruction.targets:
                kinds[place] = kind
        return kinds

    def _kind(self, instruction: Instruction, kinds: dict[int, int]) -> int:
        if issubclass(instruction.operation, Shape | Shape_i):
            return COUNT
        return max((kinds[place] for place in instruction.sources), default=FIXED)


def partial_evaluation(
    program: Any, columns: np.ndarray, points: np.ndarray
) -> GroupedProgram | None:
    """Return a program for points in groups, if that spares work and gives the same.

    Which axis of an array is that of the points is a guess, hence it is tried at some points.
    """
    if not isinstance(program, Program):
        return None
    groups = points[:TRIAL_GROUPS]
    values = np.stack([groups[:, columns], groups[::-1, columns]], axis=1)
    spread = np.repeat(groups, 2, axis=0)
    spread[:, columns] = values.reshape(len(spread), -1)
    try:
        varied = GroupedProgram(program, columns, points.shape[1])
        found = varied(groups, values)
    except (ValueError, IndexError, KeyError, TypeError):
        # Shapes do not fit, which is what a wrong guess leads to.
        return None
    same = all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True)
        for a, b in zip(found, program(spread), strict=True)
    )
    return varied if same and varied.worthwhile else None
