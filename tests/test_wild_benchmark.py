"""The comparison on users' models, and the page that is made of it; no other tool is needed."""

import numpy as np
import pytest

from benchmarks.literature_models import SHARED
from benchmarks.origin import note_origin
from benchmarks.outcomes import Outcome
from benchmarks.page import BLOCKS, PAGES, ROOT, fill
from benchmarks.peers.bridge import warp3_bridge_with_error
from benchmarks.records import add_record, read_records
from benchmarks.wild import WildRun, load_suite, summarize
from benchmarks.wild_plot import draw_wild

RUNS = [
    WildRun("a", "pymc_arm", 1, "ok", "ok", True, 12.0, -1.0, 0.01, -1.0, 0.1, 1.0),
    WildRun("b", "pymc_arm", 1, "ok", "caution", False, 40.0, -1.0, 0.01, -9.0, 0.1, 1.0),
    WildRun("c", "pymc_arm", 1, "ok", "ok", False, 61.0, -1.0, 0.01, -9.0, 0.1, 1.0, "x[1]"),
    WildRun("a", "other", 1, "timeout", cpu_seconds=300.1, message="over 300 CPU s"),
    WildRun("b", "other", 1, "not applicable", cpu_seconds=2.0),
    WildRun("c", "other", 1, "error", right=True, cpu_seconds=3.0, message="refused"),
]


def test_runs_survive_a_file(tmp_path):
    file = tmp_path / "results" / "wild.csv"
    for run in RUNS:
        add_record(file, run)
    assert [repr(run) for run in read_records(WildRun, file)] == [repr(run) for run in RUNS]
    assert read_records(WildRun, tmp_path / "nothing.csv") == []


def test_summary_counts():
    lines = summarize(RUNS).splitlines()
    assert lines[2] == "| `pymc_arm` | 3 | 1 | 2 | 3 | 1 | 1 | 1 | 1 | 1 | 0 | 0 |"
    assert lines[3] == "| `other` | 3 | 0 | 0 | 0 | 1 | 1 | 1 | 0 | 0 | 0 | 1 |"


def test_picture_has_a_line_for_each_tool():
    texts = [text.get_text() for text in draw_wild(RUNS).legends[0].get_texts()]
    assert texts[0].startswith("pymc_arm: 1 of 3 right, 1 silently wrong")
    assert texts[1].startswith("other: 1 of 3 right, 0 silently wrong")


def test_suite_has_models_and_references():
    if not (SHARED / "wild" / "run.py").is_file():
        pytest.skip("the folder of the models is not there")
    suite = load_suite()
    assert set(suite.load_references(SHARED / "wild")) == set(suite.find_models(SHARED / "wild"))


def test_pages_are_what_the_files_say():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert fill(text, page) == text, "run `python -m benchmarks page`"


def test_every_block_has_a_place():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert all(f"<!-- begin {name} -->" in text for name in BLOCKS)


def test_block_is_made_of_a_file(tmp_path):
    page = "# A\n\n<!-- begin literature -->\nold\n<!-- end literature -->\n\nend\n"
    empty = fill(page, ROOT / "README.md", tmp_path)
    assert "<!-- not measured yet: python -m benchmarks literature --csv" in empty
    file = tmp_path / "literature.csv"
    add_record(file, Outcome("funnel", 1, "done", 0.0, 0.01, 0.02, -0.03, 0.05, "ok", np.nan, 7.0))
    add_record(file, Outcome("sonar", 1, "timeout", -108.376, cpu_seconds=60.2))
    note_origin(file)
    filled = fill(page, ROOT / "README.md", tmp_path)
    assert "| funnel | 10 | 0.0100 | 0.0200 | 1 of 1 | 1 of 1 | 0 | 7 | 0.2 |" in filled
    assert "| sonar | 61 | none of 1 ended |" in filled
    assert filled.endswith("<!-- end literature -->\n\nend\n")
    assert "old" not in filled


@pytest.mark.statistical
def test_error_of_a_bridge_is_its_spread():
    """Student-t posteriors; 60 errors have a spread within 30 % but for 1e-3 of the runs."""
    rng = np.random.default_rng(5)

    def log_density(x):
        return (-3 * np.log1p(x**2 / 5)).sum(axis=-1)

    found = [
        warp3_bridge_with_error(rng.standard_t(5, size=(4, 300, 4)), log_density, rng)
        for _ in range(60)
    ]
    estimates, errors = np.transpose(found)
    assert 0.7 < np.std(estimates, ddof=1) / np.mean(errors) < 1.3
