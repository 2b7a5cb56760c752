"""Terms after the sum: those of the model, sums of priors, and sums with data."""

import numpy as np
import pytest

from pymc_arm.models.elimination.arrangement import OF_LIKELIHOOD, OF_MODEL, OF_PRIOR
from tests.models.elimination.labelled import log_joint, path, some_points


@pytest.fixture(scope="module")
def density():
    return path().density


def test_blocks_are_the_variables_that_are_left_and_then_the_data(density):
    named = [(block.name, block.kind) for block in density.blocks]
    assert named == [
        ("share", "prior"),
        ("mean", "prior"),
        ("effect", "prior"),
        ("y", "data"),
    ]
    # The prior of the share and the Jacobian of its transform, two means, an effect, three data.
    assert density.sizes.tolist() == [2, 2, 1, 3]
    kinds = [OF_MODEL] * 4 + [OF_PRIOR] + [OF_LIKELIHOOD] * 3
    assert density._terms.kinds.tolist() == kinds
    assert density.observations.tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert not density.together


def test_the_prior_of_the_effect_is_its_sum_and_the_data_have_the_rest(density):
    points = some_points()
    terms = density.terms(points)
    prior, likelihood = log_joint(points)
    of_prior = np.logaddexp.reduce(prior, axis=2)
    rest = np.logaddexp.reduce(prior + likelihood, axis=2) - of_prior
    np.testing.assert_allclose(terms[:, 4], of_prior[:, 0])
    np.testing.assert_allclose(np.sort(terms[:, 5:], axis=1), np.sort(rest, axis=1))


def test_scopes_are_those_of_the_variables_that_are_left(density):
    """The first label hangs on the effect too; all data hang on the share and both means."""
    scopes = density.scopes
    assert scopes.shape == (8, 4)
    assert scopes[4].tolist() == [True, False, False, True]
    assert scopes[5:, :3].all()
    assert scopes[5:, 3].sum() == 1


def test_sums_that_are_one_whatever_is_left_are_told(density):
    assert len(density._terms.free) == 2
    assert len(density._terms.members) == 3
