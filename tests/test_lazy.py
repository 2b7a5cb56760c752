"""Modules are imported when a name of theirs is first asked for."""

import cmath
import sys

import pytest

from pymc_arm._lazy import lazy_attributes


def test_a_name_is_that_of_its_module():
    find = lazy_attributes("package", {"sqrt": "cmath"})
    assert find("sqrt") is cmath.sqrt


def test_nothing_is_imported_before(tmp_path, monkeypatch):
    (tmp_path / "made_for_this_test.py").write_text("answer = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    find = lazy_attributes("package", {"answer": "made_for_this_test"})
    assert "made_for_this_test" not in sys.modules
    assert find("answer") == 42
    monkeypatch.delitem(sys.modules, "made_for_this_test")


def test_other_names_are_those_of_no_attribute():
    with pytest.raises(AttributeError, match="module 'package' has no attribute 'other'"):
        lazy_attributes("package", {})("other")
