"""What a comparison of many models is to find out, and which log Z are not known well enough.

A goal is a set of numbers: differences of log Z between neighbours in the order, or sums of
probabilities over groups of models. It says which of them are not known well enough, and how they
depend on log Z of each model.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import scipy

from pymc_arm.comparison.factors import subtract
from pymc_arm.results import Evidence

__all__ = ["Goal", "Groups", "Knowledge", "Order", "group_members", "make_goal"]

# An error that is not known, in place of infinity.
UNKNOWN = 100.0
# Draws of all errors, and their seed: shares of 0.01 are known to 0.002.
DRAWS, SEED = 2000, 20160713


class Goal(Protocol):
    """What a comparison is to find out."""

    @property
    def negligible(self) -> float:
        """What the models that are left out may have of the posterior probability together."""

    def open_gradients(self, known: "Knowledge") -> np.ndarray:
        """Return the derivatives of the numbers that are not settled, (number, model)."""


@dataclass
class Knowledge:
    """Log Z of all models, by runs or roughly, with errors.

    Attributes
    ----------
    names
        Of the models.
    log_prior
        Their log prior weights.
    value, error, freedom
        Log Z, its standard error and the degrees of freedom of that.
    was_run
        Which of them are by runs.
    """

    names: Sequence[str]
    log_prior: np.ndarray
    value: np.ndarray = field(init=False)
    error: np.ndarray = field(init=False)
    freedom: np.ndarray = field(init=False)
    was_run: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.names)
        self.value, self.error = np.full(count, -np.inf), np.full(count, UNKNOWN)
        self.freedom, self.was_run = np.ones(count), np.zeros(count, dtype=bool)

    def learn(self, place: int, evidence: Evidence, *, was_run: bool = True) -> None:
        """Take in log Z of a model."""
        error = evidence.standard_error
        self.value[place] = evidence.log_evidence
        self.error[place] = error if np.isfinite(error) else UNKNOWN
        self.freedom[place] = min(evidence.degrees_of_freedom, 1e6)
        self.was_run[place] = was_run

    def evidence(self, place: int) -> Evidence:
        """Return log Z of a model."""
        return Evidence(
            float(self.value[place]), float(self.error[place]), float(self.freedom[place])
        )

    @property
    def probabilities(self) -> np.ndarray:
        """The posterior probabilities, by the values."""
        found: np.ndarray = scipy.special.softmax(self.value + self.log_prior)
        return found

    def drawn_probabilities(self) -> np.ndarray:
        """Return posterior probabilities with errors, (draw, model)."""
        rng = np.random.default_rng(SEED)
        noise = rng.standard_t(self.freedom, size=(DRAWS, len(self.names))) * self.error
        found: np.ndarray = scipy.special.softmax(self.value + self.log_prior + noise, axis=1)
        return found

    def negligible(self, share: float) -> np.ndarray:
        """Return which models have no more than a share of the probability, all together.

        What counts is not the most probable share of each, but what its errors allow.
        """
        highest = np.quantile(self.drawn_probabilities(), 0.975, axis=0)
        order = np.argsort(highest, kind="stable")
        found = np.zeros(len(order), dtype=bool)
        found[order] = np.cumsum(highest[order]) <= share
        return found


@dataclass(frozen=True)
class Order:
    """The order of the models that have nearly all of the posterior probability.

    Attributes
    ----------
    certainty
        Of the order of each two neighbours; and the probability that these models have together.
    """

    certainty: float = 0.95

    @property
    def negligible(self) -> float:
        """What the models that are left out may have together."""
        return 1 - self.certainty

    def open_gradients(self, known: Knowledge) -> np.ndarray:
        """Return the derivatives of differences between neighbours that are not settled."""
        left = np.flatnonzero(~known.negligible(self.negligible) & known.was_run)
        left = left[np.argsort(-known.value[left], kind="stable")]
        rows = []
        for better, worse in itertools.pairwise(left.tolist()):
            difference = subtract(known.evidence(better), known.evidence(worse))
            if difference.interval(self.certainty)[0] <= 0:
                row = np.zeros(len(known.names))
                row[[better, worse]] = 1.0, -1.0
                rows.append(row)
        return np.array(rows).reshape(-1, len(known.names))


@dataclass(frozen=True)
class Groups:
    """The posterior probabilities of groups of models.

    Attributes
    ----------
    members
        Which models are in each group, (group, model).
    tolerance
        How well they are to be known: half of their intervals, and what may be left out.
    certainty
        Of these intervals.
    """

    members: np.ndarray
    tolerance: float = 0.01
    certainty: float = 0.95

    @property
    def negligible(self) -> float:
        """What the models that are left out may have together."""
        return 0.5 * self.tolerance

    def open_gradients(self, known: Knowledge) -> np.ndarray:
        """Return the derivatives of sums that are not known well enough."""
        tail = 0.5 * (1 - self.certainty)
        drawn = known.drawn_probabilities() @ self.members.T
        low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
        probability = known.probabilities
        sums = self.members @ probability
        gradients: np.ndarray = probability * (self.members - sums[:, None])
        unsettled: np.ndarray = gradients[0.5 * (high - low) > self.tolerance]
        return unsettled


def make_goal(
    settle: str | Mapping[str, Collection[str]],
    names: Sequence[str],
    certainty: float,
    tolerance: float,
) -> Goal:
    """Return what is to be settled, or say what is wrong with the arguments."""
    if not 0.5 < certainty < 1:
        raise ValueError(f"certainty={certainty} must be between 0.5 and 1.")
    if not 0 < tolerance < 1:
        raise ValueError(f"tolerance={tolerance} must be between 0 and 1.")
    if isinstance(settle, str):
        if settle != "order":
            raise ValueError(f"settle={settle!r} is neither 'order' nor groups of models by name.")
        return Order(certainty)
    if not isinstance(settle, Mapping) or not settle:
        raise TypeError(f"settle={settle!r} must be 'order', or groups of names of models by name.")
    return Groups(group_members(settle, names), tolerance, certainty)


def group_members(groups: Mapping[str, Collection[str]], names: Sequence[str]) -> np.ndarray:
    """Return which models are in each group, (group, model)."""
    for label, group in groups.items():
        if isinstance(group, str):
            raise ValueError(f"The group {label!r} is {group!r}: give a list of names of models.")
        unknown = sorted(set(group) - set(names))
        if unknown:
            raise ValueError(f"The group {label!r} names {unknown}; the models are {list(names)}.")
    return np.array([[name in set(group) for name in names] for group in groups.values()])
