"""The rooms of the package: what each may import, and what may lie in the tree."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import WITHOUT_PYMC

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pymc_arm"
LARGEST_FILE = 200_000
SHARED = ("errors", "arguments", "deadline")
PYMC = ("pymc", "pytensor", "arviz", "xarray", "pandas", "numba")
# What builds models of PyMC, or InferenceData.
FRONT_ENDS = (
    "benchmarks.adversarial",
    "benchmarks.suite",
    "pymc_arm._compat",
    "pymc_arm.comparison",
    "pymc_arm.models.compiled",
    "pymc_arm.models.graph",
    "pymc_arm.models.prior",
    "pymc_arm.models.terms",
    "pymc_arm.results",
    "pymc_arm.sampling",
)


# Modules that no test of their folder imports by name, with the test that is about them.
TESTED_ELSEWHERE = {
    "comparison/model_run.py": "tests/comparison/test_comparison_running.py: by compare",
    "errors.py": "tests/test_bad_inputs.py: errors and warnings are those that a user meets",
    "estimation/reasons.py": "tests/estimation/test_judge.py: a record without functions",
    "models/graph/indexing.py": "tests/models/graph/test_batched_operations.py: by its table",
    "models/graph/linear_algebra.py": "tests/models/graph/test_batched_operations.py: by its table",
    "models/graph/draws.py": "tests/models/graph/test_batching.py: by read_graph",
    "models/step_integral.py": "tests/models/test_path.py: by GenericPath.smooth and augment",
    **{
        f"plots/{name}.py": "tests/plots/test_plots.py: by the functions of plots"
        for name in ("evidence_path", "models", "plan", "sensitivity", "style")
    },
    "plots/calibration.py": "tests/plots/test_workflow_plots.py: by the functions of plots",
    "plots/design.py": "tests/plots/test_workflow_plots.py: by the functions of plots",
    "updating.py": "tests/test_update.py: by update",
}


@cache
def imports_of(path):
    """Return the modules that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found.add(node.module)
    return found


def room(name):
    return sorted((PACKAGE / name).rglob("*.py"))


def foreign(path, packages, rooms):
    """Return what a file imports besides the standard library, these packages and these rooms."""
    own = tuple(f"pymc_arm.{name}" for name in (*rooms, *SHARED))
    return {
        module
        for module in imports_of(path)
        if module.split(".")[0] not in {*sys.stdlib_module_names, *packages}
        and not any(module == name or module.startswith(f"{name}.") for name in own)
    }


@pytest.mark.parametrize("path", room("algorithm"), ids=lambda p: p.name)
def test_the_algorithm_is_numpy_only(path):
    assert not foreign(path, ("numpy",), ("algorithm",))


@pytest.mark.parametrize("path", room("estimation"), ids=lambda p: p.name)
def test_estimation_is_numpy_and_scipy_only(path):
    assert not foreign(path, ("numpy", "scipy"), ("algorithm", "estimation"))


@pytest.mark.parametrize("path", room("running"), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_running_knows_no_model(path):
    known = {m.split(".")[0] for m in imports_of(path)}
    assert known.isdisjoint(PYMC)
    assert not any(m.startswith(("pymc_arm.models", "pymc_arm.families")) for m in imports_of(path))


def test_pymc_appears_only_where_models_do():
    """In the front end for models, in families, in what users call with a model, and in _compat."""
    allowed = {"models", "families", "comparison"}
    loose = {
        "evidence_from_draws.py",
        "_compat.py",
        "sampling.py",
        "model_call.py",
        "smc_kernel.py",
        "updating.py",
        "demo.py",
        "reporting.py",
    }
    for path in sorted(PACKAGE.rglob("*.py")):
        first = path.relative_to(PACKAGE).parts[0]
        if first in allowed or first in loose:
            continue
        roots = {module.split(".")[0] for module in imports_of(path)}
        assert roots.isdisjoint({"pymc", "pytensor"}), path


def test_no_family_knows_another():
    families = [folder.name for folder in (PACKAGE / "families").iterdir() if folder.is_dir()]
    for name in families:
        others = [f"pymc_arm.families.{other}" for other in families if other != name]
        for path in room(f"families/{name}"):
            assert not any(m.startswith(tuple(others)) for m in imports_of(path) if others), path


def test_what_runs_with_one_version_of_pymc_never_touches_it():
    """See WITHOUT_PYMC in tests/conftest.py."""
    tests = ROOT / "tests"
    for name in WITHOUT_PYMC:
        found = sorted((tests / name).rglob("*.py")) if not name.endswith(".py") else [tests / name]
        assert found, name
        for path in found:
            modules = imports_of(path)
            roots = {module.split(".")[0] for module in modules}
            assert roots.isdisjoint({"pymc", "pytensor", "arviz", "xarray"}), path
            assert not any(module.startswith(FRONT_ENDS) for module in modules), path
            text = path.read_text()
            assert not re.search(r"\b(sample|sample_path|compare|evidence|rbm|gpc)\(", text), path


def test_versions_of_pymc_are_told_apart_in_one_place():
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name != "_compat.py":
            text = path.read_text()
            assert "PYMC_MAJOR" not in text, path
            assert "pm.__version__" not in text, path


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.name)
def test_an_exception_of_any_kind_is_passed_on_or_told(path):
    """Who catches all of them uses the one that was caught, or says in the same line why not."""
    text = path.read_text()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ExceptHandler):
            continue
        assert node.type is not None, f"{path}:{node.lineno}: name the exceptions that are meant"
        if ast.unparse(node.type) not in ("Exception", "BaseException"):
            continue
        names = {n.id for part in node.body for n in ast.walk(part) if isinstance(n, ast.Name)}
        raises = any(isinstance(n, ast.Raise) for part in node.body for n in ast.walk(part))
        said = "#" in text.splitlines()[node.lineno - 1]
        assert node.name in names or raises or said, f"{path}:{node.lineno}"


def test_no_large_file_is_tracked_outside_of_docs_and_results():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is not a git checkout")
    large = [
        name
        for name in listed.stdout.split("\0")
        if name
        and not name.startswith(("docs/", "benchmarks/results/"))
        and (ROOT / name).is_file()
        and (ROOT / name).stat().st_size > LARGEST_FILE
    ]
    assert not large, f"larger than {LARGEST_FILE} bytes: {large}"


def is_tested(path):
    """Whether a test file is named after a module, or one of its folder imports it by name."""
    module = path.relative_to(PACKAGE)
    name, folder = path.stem.strip("_"), ROOT / "tests" / module.parent
    folders = (folder, folder.parent) if len(module.parts) > 1 else (folder,)
    named = {f"test_{name}.py", f"test_{module.parent.name}_{name}.py"}
    if any((each / one).is_file() for each in folders for one in named):
        return True
    dotted = ".".join(("pymc_arm", *module.with_suffix("").parts))
    return any(
        dotted in imports_of(test) | names_imported(test)
        for each in folders
        if each.is_dir() and each != ROOT
        for test in each.glob("test_*.py")
    )


@cache
def names_imported(path):
    """Return what a file takes out of modules, with the names of the modules."""
    nodes = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)]
    return {f"{node.module}.{alias.name}" for node in nodes for alias in node.names}


def test_every_module_has_a_test():
    modules = [path for path in sorted(PACKAGE.rglob("*.py")) if path.name != "__init__.py"]
    untested = {str(path.relative_to(PACKAGE)) for path in modules if not is_tested(path)}
    assert untested - set(TESTED_ELSEWHERE) == set(), "these modules have no test of their own"
    assert set(TESTED_ELSEWHERE) - untested == set(), "these have one, and need no entry here"
    for place in TESTED_ELSEWHERE.values():
        assert (ROOT / place.split(":")[0]).is_file(), place
