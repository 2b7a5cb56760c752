"""A run in a process of its own: its report, its limit, its crash, and what is measured with it."""

import os

import pytest

from benchmarks.limited import run_limited
from benchmarks.origin import describe_origin, note_origin

TOY = """
import os, sys
word = sys.argv[2]
if word == "report":
    print("something else")
    print('{"found": 1.5}')
elif word == "spin":
    if os.fork() == 0:
        while True:
            pass
    os.wait()
else:
    raise SystemExit("no such word")
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    (tmp_path / "toy_child.py").write_text(TOY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "toy_child"


def test_last_line_is_the_report(toy):
    ended = run_limited(toy, ["report"], limit=60)
    assert (ended.status, ended.found, ended.message) == ("done", {"found": 1.5}, "")
    assert ended.cpu_seconds > 0


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="CPU time of children is read from /proc")
def test_limit_counts_what_the_process_starts(toy):
    ended = run_limited(toy, ["spin"], limit=0.5)
    assert (ended.status, ended.found) == ("timeout", {})
    assert ended.cpu_seconds >= 0.5


def test_crash_is_told(toy):
    ended = run_limited(toy, ["nothing"], limit=60)
    assert ended.status == "crash"
    assert "ended with 1: no such word" in ended.message


def test_origin_is_noted_once(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["benchmarks", "literature"])
    file = tmp_path / "results" / "runs.csv"
    note_origin(file)
    note_origin(file)
    text = describe_origin(file)
    assert text.startswith("`python -m benchmarks literature`")
    assert ", commit " in text
    assert text.count("pymc ") == 1
