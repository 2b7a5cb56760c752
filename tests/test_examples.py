"""Every example runs with ``--quick``, in a few seconds, and says something."""

import logging
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
NEEDS = {"bambi_model": "bambi", "cluster": "distributed"}


# A few draws are enough to see that an example runs, and honestly not enough for log Z.
@pytest.mark.filterwarnings("ignore::pymc_arm.TrustWarning")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, monkeypatch, capsys, caplog):
    caplog.set_level(logging.WARNING, logger="pymc")
    if example.stem in NEEDS:
        pytest.importorskip(NEEDS[example.stem])
    monkeypatch.setattr(sys, "argv", [str(example), "--quick"])
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.strip()
