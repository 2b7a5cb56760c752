"""Settings: what is refused, and whose defaults they are."""

import numpy as np
import pytest

from pymc_arm import Settings
from pymc_arm.families.rbm import Machine, RBMPath, tempered_path
from pymc_arm.testing import GaussianChain


def test_the_papers_settings_are_one_word_away():
    paper = Settings.paper()
    assert (paper.threshold, paper.max_rounds, paper.resampling) == (0.7, 3, "residual")
    assert paper.move == "adaptive"
    assert paper.minimum_fraction == paper.threshold
    assert Settings.paper(threshold=0.5).threshold == 0.5


def test_a_path_states_its_own():
    assert GaussianChain([0.1]).settings() == Settings()
    machine = Machine(np.zeros((3, 2)))
    assert RBMPath(machine).settings().max_rounds == 0
    assert RBMPath(machine).settings(variant="anticipate").max_rounds == 3
    tempered = tempered_path(machine, np.eye(3), data_bias_strength=1.0)
    assert tempered.settings().threshold == 0.997
    assert tempered.settings(threshold=0.9).threshold == 0.9


@pytest.mark.parametrize(
    ("name", "hint"),
    [("treshold", "Did you mean threshold"), ("tune", "leave it out"), ("seed", "random_seed=")],
)
def test_unknown_options_get_a_hint(name, hint):
    with pytest.raises(TypeError, match=hint):
        Settings.of({name: 1})
