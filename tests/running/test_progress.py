"""Where bars are drawn."""

import io
import warnings
from types import SimpleNamespace

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


@pytest.mark.parametrize("width", [80, 120])
def test_a_line_of_a_chain_is_not_cut_off(monkeypatch, width):
    written = io.StringIO()
    console = rich.console.Console(file=written, width=width, force_terminal=False)
    monkeypatch.setattr(progress, "_console", lambda: console)
    info = SimpleNamespace(
        introduced="from the reference (beta 1)",
        effective_fraction=0.5,
        particles=2000,
        log_evidence=-191.08,
    )
    with progress.ChainProgress(1, None, True) as bars:
        bars.start(0)
        bars.update(0, info)
        bars.finish(0)
    line = written.getvalue()
    assert "…" not in line
    assert "0:00:00" in line
    assert ("R 2000" in line) is (width == 120)
