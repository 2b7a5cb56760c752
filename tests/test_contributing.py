"""What is there for contributors agrees with the project, and runs only what can be run by hand."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pymc_arm

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
ROOT = Path(__file__).parents[1]
if not (ROOT / ".github").is_dir():
    pytest.skip("this is not a checkout", allow_module_level=True)

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def load(path):
    return yaml.safe_load(path.read_text())


def test_there_are_workflows_for_tests_docs_wheels_and_releases():
    assert [path.stem for path in WORKFLOWS] == ["docs", "release", "tests", "wheels"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_what_is_in_the_project(path):
    """Each command is a target of the Makefile, or a file that exists; the last one is GitHub's."""
    workflow = load(path)
    # YAML 1.1 reads the key `on` as true.
    assert {"name", True, "permissions", "jobs"} <= set(workflow)
    steps = [step for job in workflow["jobs"].values() for step in job.get("steps", [])]
    for step in steps:
        assert ("run" in step) != ("uses" in step)
        for command in step.get("run", "").splitlines():
            program, target, *_ = command.split()
            if program == "make":
                assert target in TARGETS
            elif program == "python3":
                assert (ROOT / target).is_file()
            else:
                assert (path.stem, program, target) == ("release", "gh", "release")
    for job in workflow["jobs"].values():
        if "uses" in job:
            assert (ROOT / job["uses"]).is_file()


def test_both_majors_are_tested():
    matrix = load(ROOT / ".github/workflows/tests.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.13"]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_issue_templates_ask_something(path):
    template = load(path)
    if path.stem == "config":
        assert template == {"blank_issues_enabled": True}
        return
    assert template["name"]
    assert template["description"]
    identifiers = [field["id"] for field in template["body"]]
    assert len(set(identifiers)) == len(identifiers)
    assert all(field["attributes"]["label"] for field in template["body"])


def test_hooks_check_what_make_lint_checks():
    hooks = load(ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]
    lint = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    programs = re.findall(r"python -m (\w+(?: check| format)?)", lint)
    assert {hook["entry"].partition(" --")[0] for hook in hooks} == {
        f"python -m {program}" for program in programs
    }


def test_the_citation_is_of_this_version():
    citation = load(ROOT / "CITATION.cff")
    assert citation["version"] == pymc_arm.__version__
    assert citation["license"] == PROJECT["license"]
    assert citation["keywords"] == PROJECT["keywords"]
    assert citation["authors"] == PROJECT["authors"]


def test_the_recipe_asks_for_what_the_project_asks_for():
    jinja2 = pytest.importorskip("jinja2", reason="Jinja is not installed")
    text = (ROOT / "recipe" / "meta.yaml").read_text()
    recipe = yaml.safe_load(jinja2.Template(text).render(PYTHON="python"))
    assert recipe["package"] == {"name": PROJECT["name"], "version": pymc_arm.__version__}
    assert recipe["about"]["summary"] == PROJECT["description"]
    assert recipe["about"]["license"] == PROJECT["license"]
    python = f"python {PROJECT['requires-python']}"
    asked = {requirement.replace(" ", "") for requirement in recipe["requirements"]["run"]}
    assert asked == {python.replace(" ", ""), *PROJECT["dependencies"]}
    assert f"pymc_arm-{pymc_arm.__version__}.tar.gz" in recipe["source"]["url"]


def check_release(tag):
    command = [sys.executable, str(ROOT / ".ci" / "check_release.py"), tag]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_release_needs_its_own_tag_and_notes():
    wrong = check_release("v99.0")
    assert wrong.returncode == 1
    assert f"has version {pymc_arm.__version__}" in wrong.stderr
    right = check_release(f"v{pymc_arm.__version__}")
    if f"## [{pymc_arm.__version__}]" in (ROOT / "CHANGELOG.md").read_text():
        assert right.returncode == 0
        assert right.stdout.strip()
    else:
        assert f"CHANGELOG.md has no section [{pymc_arm.__version__}]" in right.stderr
