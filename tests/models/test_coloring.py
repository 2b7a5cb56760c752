"""Coordinates that share no term go together, and terms are added up for each of them."""

import numpy as np

from pymc_arm.models.coloring import add_by_owner, color_coordinates


def test_sets_share_no_term_and_hold_every_coordinate_once():
    rng = np.random.default_rng(1)
    scopes = rng.random((40, 12)) < 0.1
    scopes[np.arange(12), np.arange(12)] = True  # every coordinate has a term
    found = color_coordinates(np.arange(12), scopes, np.zeros(12, dtype=int))
    assert sorted(np.concatenate([members for members, _, _ in found])) == list(range(12))
    for members, terms, owner in found:
        assert (scopes[:, members].sum(axis=1) <= 1).all()
        np.testing.assert_array_equal(terms, np.flatnonzero(scopes[:, members].any(axis=1)))
        assert scopes[terms, members[owner]].all()


def test_only_coordinates_of_one_group_go_together():
    scopes = np.eye(4, dtype=bool)
    found = color_coordinates(np.arange(4), scopes, np.array([0, 1, 0, 1]))
    assert [members.tolist() for members, _, _ in found] == [[0, 2], [1, 3]]


def test_terms_are_added_up_by_owner():
    terms = np.arange(10.0).reshape(2, 5)
    found = add_by_owner(terms, np.array([2, 0, 1, 0, 2]), 3)
    np.testing.assert_array_equal(found, [[1 + 3, 2, 0 + 4], [6 + 8, 7, 5 + 9]])
    assert add_by_owner(terms, np.arange(5), 5) is terms
