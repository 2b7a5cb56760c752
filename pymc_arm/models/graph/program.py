"""A list of array operations, and what it takes to run only some of them."""

import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal

import numpy as np

from pymc_arm._compat import COMPILING
from pymc_arm.deadline import check_deadline

__all__ = [
    "ArrayFunction",
    "Instruction",
    "Program",
    "Rewrites",
    "Single",
    "execute",
    "serialized",
    "trim",
]

ArrayFunction = Callable[..., Any]
# All that simplify, those that push slices to the data, or none but joining what is the same. A
# function that is called a few times spends more on rewrites than on calls: on 15 groups with
# slopes all take 0.66 CPU seconds, some 0.55 and none 0.14, and a call 0.001, 0.001 and 0.003.
Rewrites = Literal["all", "some", "none"]


class Single:
    """A function to one array as one to a sequence of arrays, which instructions have.

    Parameters
    ----------
    function
        From arrays to one array.
    """

    def __init__(self, function: ArrayFunction) -> None:
        self.function = function

    def __call__(self, *arrays: Any) -> tuple[Any]:
        """Return the one result."""
        return (self.function(*arrays),)


# What an element counts where a program has a loop over steps: its time goes into calls, one for
# each operation of each step, and the more points share them the better. 416 steps of a hidden
# Markov model, 250 points: 301 ms in parts that fit into the cache, and 91 in one.
LOOP_SHARE = 16


@dataclass(frozen=True)
class Instruction:
    """One array operation: where its arguments and results are, and what it is the last to use."""

    execute: ArrayFunction
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    #: The kind of operation.
    operation: type
    done: tuple[int, ...] = ()


class Program:
    """Array operations on values that have a place each: inputs, constants and results.

    Unlike PyTensor's own functions it keeps no state between or during calls, so threads can share
    it where no operation is a loop (:attr:`vectorized`), and it calls NumPy's functions directly,
    without the checks in between.
    """

    def __init__(
        self,
        inputs: Sequence[int],
        outputs: Sequence[int],
        constants: Mapping[int, Any],
        instructions: Sequence[Instruction],
        vectorized: bool,
    ) -> None:
        self.inputs, self.outputs = list(inputs), list(outputs)
        #: Whether no operation is a loop in Python.
        self.vectorized = vectorized
        places = [place for i in instructions for place in i.targets]
        self._load(max([*inputs, *constants, *places], default=-1) + 1, constants, instructions)

    def __call__(self, *inputs: Any) -> list[np.ndarray]:
        """Evaluate the outputs of the graph."""
        check_deadline()
        values = self.values.copy()
        for place, value in zip(self.inputs, inputs, strict=True):
            values[place] = value
        with np.errstate(all="ignore"):
            for function, arguments, target, targets, done in self._steps:
                result = function(*arguments(values))
                if targets:
                    for place, each in zip(targets, result, strict=True):
                        values[place] = each
                else:
                    values[target] = result
                del result
                for place in done:
                    values[place] = None
        return [values[place] for place in self.outputs]

    def bind(self, *inputs: np.ndarray, outputs: Sequence[int] | None = None) -> "Program":
        """Return the program for given values of the last inputs, and for some of the outputs.

        What depends on these inputs alone is evaluated here, once, and not at every call.
        """
        bound = copy.copy(self)
        if outputs is not None:
            bound.outputs = [self.outputs[number] for number in outputs]
        free = len(self.inputs) - len(inputs)
        bound.inputs = self.inputs[:free]
        constants = self.constants | dict(zip(self.inputs[free:], inputs, strict=True))
        rest = []
        values = [constants.get(place) for place in range(len(self.values))]
        for instruction in self.instructions:
            if constants.keys() >= set(instruction.sources):
                with np.errstate(all="ignore"):
                    execute([dataclasses.replace(instruction, done=())], values)
                constants.update((place, values[place]) for place in instruction.targets)
            else:
                rest.append(instruction)
        bound._load(len(values), constants, rest)
        return bound

    def split(self, last: int) -> tuple["Program", "Program"]:
        """Return what depends on the last inputs alone, and the rest, whose last inputs that is.

        Parameters
        ----------
        last
            How many of the inputs are given to the first of the two.
        """
        free = len(self.inputs) - last
        known = {*self.inputs[free:], *self.constants}
        before, rest = [], []
        for instruction in self.instructions:
            if known.issuperset(instruction.sources):
                before.append(instruction)
                known.update(instruction.targets)
            else:
                rest.append(instruction)
        used = {*self.outputs, *(place for i in rest for place in i.sources)}
        carried = sorted(used & known - self.constants.keys())
        first, second = copy.copy(self), copy.copy(self)
        first.inputs, first.outputs = self.inputs[free:], carried
        second.inputs = [*self.inputs[:free], *carried]
        first._load(len(self.values), self.constants, before)
        second._load(len(self.values), self.constants, rest)
        return first, second

    def elements_per_point(self, *inputs: np.ndarray) -> int:
        """Return the size of the largest array that an operation makes, for each point.

        It is the difference between two points and one: what is the same for all does not grow. Of
        a program with a loop over steps it is a part of that (``LOOP_SHARE``).
        """
        sizes = []
        for count in (1, 2):
            values, own = self.values.copy(), []
            for place, rows in zip(self.inputs, inputs, strict=True):
                values[place] = rows[:count]
            with np.errstate(all="ignore"):
                for instruction in self.instructions:
                    execute([dataclasses.replace(instruction, done=())], values)
                    own.append([np.size(values[target]) for target in instruction.targets])
                    for used in instruction.done:
                        values[used] = None
            sizes.append(np.concatenate([np.zeros(1, int), *own]))
        largest = int(np.max(sizes[1] - sizes[0], initial=1))
        loops = any(getattr(i.execute, "is_loop", False) for i in self.instructions)
        return max(1, largest // LOOP_SHARE) if loops else largest

    def _load(
        self, size: int, constants: Mapping[int, Any], instructions: Sequence[Instruction]
    ) -> None:
        """Keep what the outputs need."""
        kept = {*self.inputs, *constants}
        self.instructions = trim(instructions, self.outputs, kept)
        needed = {*self.outputs, *(p for i in self.instructions for p in i.sources)}
        self.constants = {place: constants[place] for place in constants.keys() & needed}
        self.values: list[Any] = [self.constants.get(place) for place in range(size)]
        self._steps = [_prepare(instruction) for instruction in self.instructions]


# A function, what takes its arguments from all values, where its one result goes, or where those of
# several go, and what is no longer needed.
_Step = tuple[ArrayFunction, Callable[[list[Any]], Any], int, tuple[int, ...], tuple[int, ...]]


def _prepare(instruction: Instruction) -> _Step:
    """Return an instruction in the form that takes the least time in each call."""
    sources, targets = instruction.sources, instruction.targets
    # An itemgetter of one place returns no sequence; that of a slice does.
    first = sources[0] if sources else 0
    places = sources if len(sources) > 1 else (slice(first, first + len(sources)),)
    function = instruction.execute
    if isinstance(function, Single):
        return function.function, itemgetter(*places), targets[0], (), instruction.done
    return function, itemgetter(*places), -1, targets, instruction.done


def trim(
    instructions: Sequence[Instruction], outputs: Iterable[int], kept: Iterable[int]
) -> list[Instruction]:
    """Return the instructions that outputs need, with a note where each array is last used.

    The next array then takes its memory, which is still in the cache and several times as quick as
    fresh memory.
    """
    needed, kept = set(outputs), {*outputs, *kept}
    program: list[Instruction] = []
    for instruction in reversed(instructions):
        if needed.isdisjoint(instruction.targets):
            continue
        needed.update(instruction.sources)
        used = dict.fromkeys(instruction.sources + instruction.targets)
        done = tuple(place for place in used if place not in kept)
        kept.update(done)
        program.append(dataclasses.replace(instruction, done=done))
    return program[::-1]


def execute(instructions: Sequence[Instruction], values: list[Any]) -> None:
    """Run instructions on the values at their places."""
    for instruction in instructions:
        results = instruction.execute(*[values[place] for place in instruction.sources])
        for place, result in zip(instruction.targets, results, strict=True):
            values[place] = result
        del results
        for place in instruction.done:
            values[place] = None


def serialized(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let one thread in at a time: functions that PyTensor compiled keep state during a call."""

    def call(*arguments: Any) -> Any:
        with COMPILING:
            return function(*arguments)

    return call
