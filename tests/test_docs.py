"""The code in README and in the documentation runs as written, and the reference is complete."""

import logging
import re
import sys
from code import InteractiveConsole
from pathlib import Path

import pytest

import pymc_arm
from pymc_arm import plots

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if "_build" not in page.parts and re.search(r"^```python$", page.read_text(), re.MULTILINE)
)
REFERENCE = ROOT / "docs" / "reference.md"


def blocks(page):
    """Return the Python of a page, each block at its own line, so that errors point into it."""
    text = page.read_text()
    for found in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield "\n" * text[: found.start(1)].count("\n") + found.group(1)


# Warnings of other packages are shown to whoever pastes the code; ours would be a broken promise.
@pytest.mark.filterwarnings("default", "error::pymc_arm.ArmWarning")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_runs_as_written(page, monkeypatch, tmp_path, caplog):
    caplog.set_level(logging.WARNING, logger="pymc")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for code in blocks(page):
        exec(compile(code, str(page), "exec"), names)


class Prompt(InteractiveConsole):
    """Python's prompt, which ends a block at an empty line, and here runs nothing."""

    def runcode(self, code):
        pass

    def showsyntaxerror(self, *args, **keywords):
        raise sys.exc_info()[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_can_be_pasted_line_by_line(page):
    if page.name == "family_plugin.md":
        pytest.skip("classes have empty lines; the page says where to paste them")
    prompt = Prompt()
    for lines in blocks(page):
        for line in [*lines.strip("\n").split("\n"), ""]:
            prompt.push(line)


def test_reference_has_every_public_name():
    text = REFERENCE.read_text()
    named = set(re.findall(r":: pymc_arm\.([\w.]+)", text))
    documented_modules = {"errors": pymc_arm.errors, "plots": plots}
    for module in documented_modules.values():
        named.update(module.__all__)
    missing = set(pymc_arm.__all__) - named - {"plots"}
    assert not missing, f"docs/reference.md lacks {sorted(missing)}"


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        if "_build" in page.parts:
            continue
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" in target or "generated" in target:
                continue
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
