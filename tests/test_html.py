"""What notebooks show is well-formed, escaped, and readable on light and on dark pages."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_arm
from pymc_arm import html
from pymc_arm.models.plan import FamilyPlan
from pymc_arm.results import Evidence

HOSTILE = "<script>alert('x') & \"co\""
OPTIONS = {"draws": 100, "chains": 2, "random_seed": 1, "progressbar": False}


class Reader(HTMLParser):
    """Reads a page, and refuses elements that are not closed in the order they were opened."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.words = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in ("br", "img", "meta", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def read(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open, f"never closed: {reader.open}"
    return reader


def evidence_path(count):
    values = np.arange(1.0, count + 1)
    labels = tuple(f"{HOSTILE}[{k}]" for k in range(count))
    return pymc_arm.EvidencePath(labels, values, values, values, values, True, "each score is one.")


@pytest.fixture(scope="module")
def plan():
    with pm.Model() as model:
        p = pm.Beta(HOSTILE, 1, 1)
        pm.Binomial("y", n=10, p=p, observed=7)
    return pymc_arm.plan(model)


def shown(plan):
    models = {HOSTILE: Evidence(-1.0, 0.1, 3), "b": Evidence(-3.0, 0.1, 3)}
    reason = pymc_arm.Reason("chains", f"{HOSTILE} differs.", "Raise draws.", (1,), (HOSTILE,))
    return {
        "factor": pymc_arm.bayes_factor(*models.values(), names=(HOSTILE, "b")),
        "unknown factor": pymc_arm.BayesFactor(1.0, np.inf, 1, HOSTILE, "b"),
        "table": pymc_arm.compare(models),
        "path": evidence_path(3),
        "plan": plan,
        "family plan": FamilyPlan("gpc", f"of {HOSTILE}"),
        "verdict": pymc_arm.Diagnosis("failed", (reason,), ("a note",), 1.01, 900.0),
    }


NAMES = ("factor", "unknown factor", "table", "path", "plan", "family plan", "verdict")


@pytest.mark.parametrize("name", NAMES)
def test_html_is_well_formed_and_escaped(name, plan):
    page = shown(plan)[name]._repr_html_()
    reader = read(page)
    assert "script" not in reader.tags
    assert any("alert('x')" in words for words in reader.words)


@pytest.mark.parametrize("name", NAMES)
def test_colours_of_text_and_background_are_those_of_the_page(name, plan):
    page = shown(plan)[name]._repr_html_()
    assert "background" not in page
    assert not re.search(r"(?<!-)\bcolor\s*:", page)


def test_what_is_printed_is_not_html(plan):
    for name, one in shown(plan).items():
        assert "<td" not in str(one) + repr(one), name
    assert str(plan).startswith("step  introduces")


def luminance(color):
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


@pytest.mark.parametrize("page", ["#ffffff", "#111111"])
@pytest.mark.parametrize("color", html.COLORS.values())
def test_bars_are_seen_on_light_and_dark_pages(color, page):
    """WCAG asks for a contrast of three for what is not text."""
    low, high = sorted([luminance(color), luminance(page)])
    assert (high + 0.05) / (low + 0.05) >= 3


def test_of_a_long_table_the_middle_is_left_out():
    reader = read(html.table(["k"], [[k] for k in range(100)]))
    assert reader.words[0] == "k"
    assert reader.words[20:23] == ["19", "... 60 more", "80"]
    assert len(reader.words) == 42
    assert len(read(html.table(["k"], [[k] for k in range(40)])).words) == 41
    assert "... 10 more" in evidence_path(50)._repr_html_()


def test_a_table_of_a_comparison_is_an_ordinary_one_when_worked_with():
    table = pymc_arm.compare({"a": Evidence(-1.0, 0.1, 3), "b": Evidence(-3.0, 0.1, 3)})
    assert isinstance(table, pd.DataFrame)
    words = read(table._repr_html_()).words
    ends = [f"{table.loc['a', name]:.3f}" for name in ("probability_low", "probability_high")]
    assert words[7:14] == ["a", "-1.00 ± 0.1", "0", "0.881", " to ".join(ends), "settled", "b"]
    assert type(table.round(2)) is pd.DataFrame
    assert type(table.loc[["a"]]) is pd.DataFrame
    del table["verdict"]
    assert "probability_low" in table._repr_html_()


def test_a_verdict_shows_what_it_prints():
    verdict = pymc_arm.Diagnosis("ok", notes=("A mode was added.",))
    assert "A mode was added." in read(verdict._repr_html_()).words
    assert str(verdict) == str(pymc_arm.Report("ok", notes=("A mode was added.",)))


def test_a_result_is_judged_in_a_form_that_notebooks_show(plan):
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1)
        pm.Binomial("y", n=10, p=p, observed=7)
    verdict = pymc_arm.diagnose(pymc_arm.sample(model, **OPTIONS))
    assert isinstance(verdict, pymc_arm.Diagnosis)
    assert isinstance(verdict, pymc_arm.Report)
    assert "log Z: ok" in read(verdict._repr_html_()).words
