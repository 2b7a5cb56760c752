"""Which of the two starts a model takes: its prior, or a fitted reference.

The prior is robust: it needs no gradient, takes discrete variables, and meets every mode that has a
good part of it. The reference is quick: one to a few steps instead of dozens. The choice counts
evaluations, never seconds, so that it is the same on every machine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm

from pymc_arm.algorithm.path import Path
from pymc_arm.errors import ModelError, PathError
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.elimination import Marginalize
from pymc_arm.models.fields.choose import FEWEST
from pymc_arm.models.fields.reference import fit_field_reference
from pymc_arm.models.path import SMALLEST_SCORE, GenericPath
from pymc_arm.models.reference.chart_path import ChartPath
from pymc_arm.models.reference.closed_forms import ConjugateTarget, find_conjugate
from pymc_arm.models.reference.collapsed import CollapsedTarget
from pymc_arm.models.reference.fit import Reference, fit_reference, follow_laplace
from pymc_arm.models.reference.from_prior import PriorPath
from pymc_arm.models.reference.groups import GroupTarget, find_groups
from pymc_arm.models.reference.path import ReferencePath
from pymc_arm.models.reference.prior_look import look_from_prior
from pymc_arm.models.reference.quantiles import find_quantiles
from pymc_arm.models.reference.simplexes import SimplexTarget, find_simplexes
from pymc_arm.models.reference.target import SharedTarget

__all__ = ["ChartRecipe", "Choice", "choose_path", "start_model"]

# Terms times dimension, up to which the prior is the start: it needs no gradient, whose compilation
# takes a second or two. Golf putts (3 variables, 31 rows: 111) took 53 CPU seconds from the prior
# and 5 from a reference, eight schools (190) 18 and 7.
SMALL = 100
# A reference with a smaller share of effective draws than this is taken for a failed fit. The worst
# that worked had 0.026 (stochastic volatility); the bound itself is a guess.
SMALLEST_OVERLAP = 1e-4
# In one cell of a symmetric posterior a smaller share than this is too small: the walls do not let
# particles through, and what q lacks is found slowly. A network of 2, 3 and 1 neurons (0.06): log Z
# 0.15 low in six runs, with errors of 0.03 to 0.12 and "ok" in four. Two factors (0.10): right to
# 0.02 in two runs, the error of what they were compared with. The bound lies between.
SMALLEST_OVERLAP_IN_CELL = 0.08
# A reference in the view of a field with more effective draws than this is taken without another
# look: fitting all coordinates as they are takes many times as long (stochastic volatility, 502
# coordinates: 0.4 CPU seconds, and 60).
FIELD_OVERLAP = 0.1
# Terms of groups from which on integrating them is tried after any field: an evaluation takes each
# some hundred times. Choices of 15 persons (165 terms) took more than 62 CPU seconds, and 21 as a
# field. Of fewer groups a field with more effective draws than this is as good: 21 intercepts took
# 29 CPU seconds integrated out, and 4 as a field, of whose draws 89 % were effective.
COSTLY_GROUPS, BETTER_THAN_GROUPS = 100, 0.5
# Where a single Student-t has a smaller share of effective draws than this, a field of few
# coordinates is tried too: they may be what makes the posterior narrow for some parameters. Four
# groups with correlated slopes: 10 %, and log Z 0.15 low with divergent trajectories.
POOR, FEWEST_OF_FIELD = 0.3, 3
# In more dimensions than this, with fewer observations than this for each, no density of all
# coordinates is fitted if draws of Laplace's approximation can't follow this far to the posterior.
# Particles are too few for a covariance there, and each round of a fit takes second derivatives. (A
# horseshoe of 3075 coordinates and 54 patients: 0.013, and fitting took over 70 CPU seconds, to no
# avail; a linear regression of 700 and 60: 1. Radon, of 777 and 12,573 rows, has 0.025, and a fit
# that succeeds.)
MANY, FEW_OBSERVATIONS, FAR = 600, 0.5, 0.1


_chosen: WeakKeyDictionary[GenericPath, "Choice"] = WeakKeyDictionary()


class Choice(NamedTuple):
    """The path that was chosen, why, and the reference if there is one."""

    path: Path
    reason: str
    reference: Reference | None = None


@dataclass(frozen=True)
class ChartRecipe:
    """Makes a path in a chart anew in another process, without fitting a reference again.

    Without a reference it is the path from the prior.
    """

    recipe: Callable[[], Any]
    reference: Reference | None

    def __call__(self) -> ChartPath:
        """Return the path."""
        path = self.recipe()
        return PriorPath(path) if self.reference is None else ReferencePath(path, self.reference)


def start_model(
    model: pm.Model,
    *,
    start: Literal["auto", "prior", "reference"] = "auto",
    order: str | Sequence[Any] = "auto",
    backend: str | None = None,
    marginalize: Marginalize = "auto",
) -> Choice:
    """Compile a model, and choose where it starts; a model that has not changed keeps its choice.

    Parameters
    ----------
    model
        The model.
    start
        ``"prior"`` or ``"reference"``, or ``"auto"`` for whichever :func:`choose_path` finds best.
    order, backend
        As of :func:`pymc_arm.models.compiled.compile_model`. An order is that of a path from the
        prior.
    marginalize
        Which discrete variables are summed; with ``"auto"`` none where there is an order.
    """
    if isinstance(marginalize, str) and order != "auto":
        marginalize = False  # the order is that of all variables
    path = compile_model(model, order=order, backend=backend, marginalize=marginalize)
    if start == "prior" or (start == "auto" and order != "auto"):
        return Choice(path, "starts at the prior, as asked")
    if path not in _chosen:
        _chosen[path] = choose_path(path)
    choice = _chosen[path]
    if start == "auto" or isinstance(choice.path, ReferencePath):
        return choice
    if choice.reference is not None:
        return Choice(ReferencePath(path, choice.reference), _describe(choice.reference))
    try:
        reference, _ = _fit(path, asked=True)
    except (PathError, np.linalg.LinAlgError) as error:
        raise ModelError(
            f"start='reference' can't be had: {error} Use start='prior'; the model {choice.reason}."
        ) from error
    return Choice(ReferencePath(path, reference), _describe(reference), reference)


def choose_path(path: GenericPath, rng: np.random.Generator | None = None) -> Choice:
    """Choose where a model starts, and fit the reference if it is to start there.

    Parameters
    ----------
    path
        The path of the model from its prior.
    rng
        For the fit; by default of a fixed seed, so that the choice does not depend on the run.

    Returns
    -------
    Choice
        With a sentence for the plan.
    """
    layout, density = path.plan.layout, path.density
    discrete = [slot.name for slot in layout.slots if slot.discrete]
    if not layout.dimension:
        return Choice(path, "starts at the prior: there are no free variables")
    if discrete:
        return Choice(path, f"starts at the prior: {', '.join(discrete)} is discrete")
    work = density.work * layout.dimension
    if work <= SMALL:
        reason = f"{density.work} terms of {layout.dimension} coordinates are quick from there"
        return Choice(path, f"starts at the prior: {reason}")
    if not density.gradient.available():
        return Choice(path, "starts at the prior: there is no gradient to fit a reference with")
    try:
        reference, target = _fit(path, rng)
    except (PathError, np.linalg.LinAlgError) as error:
        return _from_prior(path, f"no reference could be fitted ({error})")
    least = SMALLEST_OVERLAP if reference.cell is None else SMALLEST_OVERLAP_IN_CELL
    if reference.overlap < least:
        reason = f"only {reference.overlap:.1e} of the draws of the reference are effective"
        return _from_prior(path, reason, reference)
    if reference.crowded:
        return _from_prior(path, f"the posterior has more than {reference.modes} modes", reference)
    return Choice(ReferencePath(path, reference, target), _describe(reference), reference)


def _told_little(path: GenericPath) -> bool:
    """Whether there are few data for so many coordinates that a fit would take long."""
    dimension, density = path.plan.layout.dimension, path.density
    potentials = any(block.kind == "potential" for block in density.blocks)
    few = density.observations.sum() < FEW_OBSERVATIONS * dimension
    return _at_once(path) and dimension > MANY and few and not potentials


def _from_prior(path: GenericPath, reason: str, reference: Reference | None = None) -> Choice:
    """Return the prior as the start, where no reference will do."""
    own = PriorPath(path) if _at_once(path) else path
    return Choice(own, f"starts at the prior: {reason}", reference)


def _at_once(path: GenericPath) -> bool:
    """Whether all data come in together, for many coordinates, and prior draws are exact.

    Those of a part of the prior are not, as the density is written.
    """
    many = path.plan.layout.dimension >= SMALLEST_SCORE
    return many and len(path.plan.steps) == 1 and not path.prior.integrated


def _fit(
    path: GenericPath, rng: np.random.Generator | None = None, *, asked: bool = False
) -> tuple[Reference, SharedTarget]:
    """Fit a reference, with what a small run from the prior shows of it.

    Where it was not asked for, none is fitted if a short look says that it would be in vain.
    """
    reference, target = _fit_by_climbs(path, rng, asked=asked)
    return look_from_prior(path, target, reference), target


def _fit_by_climbs(
    path: GenericPath, rng: np.random.Generator | None, *, asked: bool
) -> tuple[Reference, SharedTarget]:
    """Fit a reference, with groups integrated out where there are any and that can be done."""
    groups = find_groups(path)
    shared = SharedTarget(path)
    costly = path.plan.scopes[:, groups].any(axis=1).sum() > COSTLY_GROUPS
    field, failed = _fit_field(path, shared, rng)
    enough = FIELD_OVERLAP if costly or not len(groups) else BETTER_THAN_GROUPS
    if field is not None and field.overlap > enough:
        return field, shared
    found = _fit_without_groups(path, groups, rng)
    if found is not None:
        return found
    if field is not None and field.overlap > FIELD_OVERLAP:
        return field, shared
    doubtful = field is None and not asked and _told_little(path)
    if doubtful and follow_laplace(path, shared) < FAR:
        raise PathError("few data, many coordinates, and no mode with the shape of a normal one")
    try:
        reference = fit_reference(path, rng, target=shared)
    except (PathError, np.linalg.LinAlgError):
        if field is None:
            raise
        return field, shared
    poor = reference.overlap < POOR and reference.modes == 1
    if field is None and not failed and poor:
        field, _ = _fit_field(path, shared, rng, FEWEST_OF_FIELD)
    if field is not None and field.overlap > reference.overlap:
        reference = field
    return reference, shared


def _fit_without_groups(
    path: GenericPath, groups: np.ndarray, rng: np.random.Generator | None
) -> tuple[Reference, SharedTarget] | None:
    """Fit a reference where groups are integrated out, if there are any and that can be done."""
    targets: list[Callable[[], CollapsedTarget]] = []
    simplexes = find_simplexes(path)
    if len(simplexes):
        targets.append(lambda: SimplexTarget(path, simplexes))
    conjugate = find_conjugate(path, groups)
    if len(conjugate):
        targets.append(lambda: ConjugateTarget(path, conjugate))
    # Nodes at equal distances are no rule for a tail that is 100 wide.
    if len(groups) and find_quantiles(path, groups) is None:
        targets.append(lambda: GroupTarget(path, groups))
    for make in targets:
        try:
            target = make()
            reference = fit_reference(path, rng, target=target)
            if reference.overlap > SMALLEST_OVERLAP:
                return reference, target
        except (PathError, np.linalg.LinAlgError):
            pass  # all coordinates together are the next best
    return None


def _fit_field(
    path: GenericPath,
    target: SharedTarget,
    rng: np.random.Generator | None,
    fewest: int = FEWEST,
) -> tuple[Reference | None, bool]:
    """Fit a reference given the parameters of a Gaussian field, if there is one.

    Also whether there is one that no reference could be fitted with.
    """
    target.cell = None
    try:
        return fit_field_reference(path, target, rng, fewest), False
    except (PathError, np.linalg.LinAlgError):
        return None, True  # the coordinates as they are remain


def _describe(reference: Reference) -> str:
    """Return what the plan says about a reference."""
    shape = "a Student-t"
    if reference.modes > 1:
        shape = f"a mixture of {reference.modes} Student-t"
    view = " in partly non-centred coordinates" if reference.noncentering.any() else ""
    if reference.information:
        count = sum(each.linear.size for each in reference.information)
        view = f" where {count} coordinates of vectors are seen given their covariance"
    if reference.field is not None:
        own = reference.field
        view = f" where {len(own.field)} coordinates are standardized given {len(own.parameters)}"
    if len(reference.collapsed):
        view += f" with {len(reference.collapsed)} coordinates integrated out"
    if reference.cell is not None:
        view += f" in one of {reference.cell.images} symmetric cells ({reference.cell.describe()})"
    return (
        f"starts at a reference: {shape}{view}, fitted with {reference.evaluations} gradients; "
        f"{100 * reference.overlap:.0f} % of its draws are effective (the steps above are those of "
        "start='prior')"
    )
