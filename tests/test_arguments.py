"""Checks of arguments: what is refused, and by which kind of error."""

import numpy as np
import pytest

from pymc_arm.arguments import check_choice, check_count


@pytest.mark.parametrize("value", [1, 7, 3.0, np.int64(2), np.float32(5)])
def test_whole_numbers_are_counts(value):
    check_count("draws", value)


@pytest.mark.parametrize("value", [0, -1, 2.5, np.inf, np.nan])
def test_other_numbers_are_not(value):
    with pytest.raises(ValueError, match=r"draws=.* must be a whole number, 1 or more"):
        check_count("draws", value)


@pytest.mark.parametrize("value", ["3", None, True, [1]])
def test_what_is_no_number_is_a_type_error(value):
    with pytest.raises(TypeError, match="must be a whole number, 0 or more"):
        check_count("rounds", value, least=0)


def test_choices():
    check_choice("move", "always", ("always", "adaptive"))
    with pytest.raises(ValueError, match=r"move='never' is not one of \('always', 'adaptive'\)"):
        check_choice("move", "never", ("always", "adaptive"))
