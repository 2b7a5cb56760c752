"""No file of the package loads pickles or evaluates strings, and few of them write."""

import ast
from pathlib import Path

import pytest

import pymc_arm

ROOT = Path(pymc_arm.__file__).parent
SOURCES = sorted(str(file.relative_to(ROOT)) for file in ROOT.rglob("*.py"))
# What is sent to a worker of the user's own executor, or through a pipe to a process that was
# started here, and nothing that comes from a file.
SENDS_PICKLES = {"comparison/simulated.py", "running/executors.py", "running/spawned.py"}
# The report is written where its user says; html.py draws pictures into memory.
WRITES_FILES = {"running/checkpoint/journal.py", "demo.py", "reporting.py", "html.py"}
EVALUATION = {"eval", "exec", "compile", "__import__"}
PICKLES = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
WRITING = {"write_bytes", "write_text", "mkdir", "makedirs", "savefig", "save", "savez", "tofile"}


def names(tree):
    """Return the functions that are called by their bare name, methods, and imported modules."""
    calls, methods, imports = set(), set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            calls.add(node.func.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            methods.add(node.func.attr)
        elif isinstance(node, ast.Import):
            imports |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imports.add(node.module.split(".")[0])
    return calls, methods, imports


@pytest.mark.parametrize("source", SOURCES)
def test_sources(source):
    tree = ast.parse((ROOT / source).read_text())
    calls, methods, imports = names(tree)
    assert not calls & EVALUATION
    assert not imports & PICKLES or source in SENDS_PICKLES
    assert not methods & WRITING or source in WRITES_FILES
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert ast.unparse(node.value) == "False"
