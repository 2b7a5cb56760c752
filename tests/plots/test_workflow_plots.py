"""Pictures of calibrations and designs."""

import numpy as np
import pandas as pd
import pytest

from pymc_arm import Calibration, Design, plots

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def calibration(log_evidence):
    names = ("a", "b", "c")[: log_evidence.shape[1]]
    prior = np.full(len(names), 1 / len(names))
    truth = np.arange(len(log_evidence)) % len(names)
    return Calibration(names, prior, truth, log_evidence, np.zeros_like(log_evidence))


def test_calibration_of_two_models_counts_simulations():
    found = calibration(np.zeros((20, 2)))
    axis = plots.plot_calibration(found)
    assert [text.get_text() for text in axis.texts] == ["20"]
    assert axis.get_legend() is None
    points = axis.lines[1]
    assert points.get_xdata() == pytest.approx([0.5])
    assert points.get_ydata() == pytest.approx([0.5])
    assert len(axis.lines[2].get_xdata()) == 0  # none is outside


def test_points_outside_of_their_bars_are_red():
    truth = np.arange(40) % 2
    wrong = np.column_stack([truth * 4.0, np.zeros(40)])  # the first is favoured when it is false
    axis = plots.plot_calibration(calibration(wrong))
    assert len(axis.lines[2].get_xdata()) == 2
    assert axis.lines[2].get_color() == "C3"


def test_calibration_of_three_models_names_them():
    axis = plots.plot_calibration(calibration(np.zeros((9, 3))))
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["a", "b", "c"]


def design():
    rows = [(n, truth, float(n)) for n in (1, 10) for truth in ("a", "b") for _ in range(3)]
    return Design(pd.DataFrame(rows, columns=["n", "truth", "log_bayes_factor"]))


def test_design_has_medians_above_and_probabilities_below():
    above, below = plots.plot_design(design(), probability=0.9)
    assert above.lines[0].get_ydata() == pytest.approx([1, 10])
    assert [text.get_text() for text in above.get_legend().get_texts()] == [
        "a is true",
        "b is true",
    ]
    assert below.lines[0].get_ydata() == pytest.approx([0, 1])
    assert [label.get_text() for label in below.get_xticklabels()] == ["1", "10"]


def test_design_takes_two_axes():
    _, axes = plt.subplots(2)
    assert plots.plot_design(design(), axes)[0] is axes[0]
    with pytest.raises(ValueError, match="ax has 1 axes"):
        plots.plot_design(design(), [axes[0]])
