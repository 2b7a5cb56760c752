"""Notebooks of the gallery run with few draws, show a picture, and end in a decision."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "docs" / "gallery"
NOTEBOOKS = sorted(path for path in GALLERY.glob("*.md") if path.name != "index.md")
CELL = re.compile(r"^```\{code-cell\} ipython3\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DRAWS = re.compile(r"^draws = \d+$", re.MULTILINE)
FEW = "draws = 50"

by_name = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_there_is_one_for_each_kind_of_question():
    assert {path.stem for path in NOTEBOOKS} == {
        "change_point",
        "gp_classification",
        "hierarchical",
        "mixture",
        "nuts_draws",
        "rbm",
        "t_test",
        "update",
        "variable_selection",
    }


@by_name
def test_short_and_ends_in_a_decision(path):
    text = path.read_text()
    assert 4 <= len(CELL.findall(text)) <= 8
    assert "**Decision.**" in text.rstrip().split("\n\n")[-1]
    assert f"{{nb-download}}`Download this notebook <{path.stem}.ipynb>`" in text
    assert path.name in (GALLERY / "index.md").read_text()


# What Jupyter itself is going to change is not about this package.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@by_name
def test_runs_and_shows_a_picture(path, monkeypatch):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    for module in ("ipykernel", "matplotlib", "sklearn"):
        pytest.importorskip(module)
    text, count = DRAWS.subn(FEW, path.read_text())
    assert count == 1
    cells = [nbformat.v4.new_code_cell(code) for code in CELL.findall(text)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    shown = [output.get("data", {}) for cell in cells for output in cell.outputs]
    assert any("image/png" in data for data in shown)
    assert all(output.output_type != "error" for cell in cells for output in cell.outputs)
