"""The code in README and in the docs runs, and prints what they say; the reference is complete."""

import contextlib
import inspect
import io
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


BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


def blocks(page):
    """Return the Python of a page and what it is said to print.

    Each block is at its own line, so that errors point into the page.
    """
    text = page.read_text()
    for found in BLOCK.finditer(text):
        yield "\n" * text[: found.start(1)].count("\n") + found.group(1), found.group(2)


def words(text):
    """Return the words of a text, those that are numbers as such, good to a fifth or 0.05."""
    read = []
    for word in re.findall(r"-?\d[\d,]*\.?\d*|[^\s\d]+", text):
        with contextlib.suppress(ValueError):
            word = pytest.approx(float(word.replace(",", "")), rel=0.2, abs=0.05)
        read.append(word)
    return read


# Warnings of other packages are shown to whoever pastes the code; ours would be a broken promise.
@pytest.mark.filterwarnings("default", "error::pymc_arm.ArmWarning")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_runs_as_written(page, monkeypatch, tmp_path, caplog):
    caplog.set_level(logging.WARNING, logger="pymc")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for code, said in blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), names)
        assert said is None or words(said) == words(printed.getvalue()), printed.getvalue()


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
    for code, _ in blocks(page):
        waiting = [prompt.push(line) for line in [*code.strip("\n").split("\n"), ""]]
        assert not waiting[-1], f"the prompt waits for more after {code.strip()!r}"


def test_reference_has_every_public_name():
    text = REFERENCE.read_text()
    named = set(re.findall(r":: pymc_arm\.([\w.]+)", text))
    documented_modules = {"errors": pymc_arm.errors, "plots": plots}
    for module in documented_modules.values():
        named.update(module.__all__)
    missing = set(pymc_arm.__all__) - named - {"plots"}
    assert not missing, f"docs/reference.md lacks {sorted(missing)}"


def test_every_public_function_has_an_example():
    """Doctest runs them; a function may also name the one whose example has it."""
    functions = {name: getattr(pymc_arm, name) for name in pymc_arm.__all__}
    functions = {name: f for name, f in functions.items() if inspect.isfunction(f)}
    with_example = {name for name, f in functions.items() if ">>>" in f.__doc__}
    for name in functions.keys() - with_example:
        named = set(re.findall(r":func:`(\w+)` has an example", functions[name].__doc__))
        assert named & with_example, f"pymc_arm.{name} has no example"


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        if "_build" in page.parts:
            continue
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" in target or "generated" in target:
                continue
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
