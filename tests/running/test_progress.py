"""Where bars are drawn."""

import warnings

import pytest
import rich.console

from pymc_arm.running import progress


@pytest.mark.parametrize("installed", [True, False])
def test_a_notebook_without_widgets_gets_plain_bars_and_no_warning(monkeypatch, capsys, installed):
    monkeypatch.setattr(rich.console, "_is_jupyter", lambda: True)
    monkeypatch.setattr(progress, "find_spec", lambda name: object() if installed else None)
    assert progress._console().is_jupyter is installed
    if installed:
        return
    with warnings.catch_warnings(), progress.ModelProgress(["one"], True) as bars:
        warnings.simplefilter("error")
        bars.ask("one", 2)
        bars.advance("one")
    assert "1 of 2 chains" in capsys.readouterr().err
