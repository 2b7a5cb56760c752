import textwrap

import numpy as np
import pymc as pm
import pytest

import pymc_arm
from pymc_arm import ArmWarning, Match
from pymc_arm.families import registry
from pymc_arm.families.registry import find_family
from pymc_arm.testing import GaussianChain


class Chains:
    """A third party's family: models whose only variable is called ``tiny``."""

    name = "tiny chains"

    def match(self, model):
        return Match([variable.name for variable in model.free_RVs] == ["tiny"], "by its name")

    def build(self, model, **options):
        return GaussianChain([0.1, 0.2, 0.3], **options)


class Failing(Chains):
    name = "failing"

    def match(self, model):
        raise ZeroDivisionError("a bug of theirs")


class Careless(Chains):
    name = "careless"

    def match(self, model):
        return True


INSTALLED = """
    from pymc_arm import Match
    from pymc_arm.testing import GaussianChain

    class Installed:
        name = "installed"

        def match(self, model):
            return Match("tiny" in model.named_vars, "by its name")

        def build(self, model, **options):
            return GaussianChain([0.5, 0.5])

    def broken():
        raise AssertionError("never called")
"""


@pytest.fixture
def model():
    with pm.Model() as tiny:
        pm.Normal("tiny")
    return tiny


@pytest.fixture
def other_model():
    with pm.Model() as other:
        pm.Normal("other")
    return other


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a distribution, as pip would leave it, with the given entry points."""

    def install(*entry_points):
        (tmp_path / "tiny_family.py").write_text(textwrap.dedent(INSTALLED))
        information = tmp_path / "tiny_family-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: tiny-family\nVersion: 1.0\n"
        )
        lines = ["[pymc_arm.families]", *entry_points, ""]
        (information / "entry_points.txt").write_text("\n".join(lines))
        monkeypatch.syspath_prepend(tmp_path)

    return install


def test_a_registered_family_is_used(model, other_model):
    pymc_arm.register(Chains())
    assert "tiny chains" in pymc_arm.known_families()
    family, answers = find_family(model)
    assert family.name == "tiny chains"
    assert answers["tiny chains"] == Match(True, "by its name")
    path = family.build(model, noise_variance=2.0)
    result = pymc_arm.sample_path(path, 50, chains=2, random_seed=1, progressbar=False)
    assert np.isfinite(result.attrs["log_marginal_likelihood"])
    family, answers = find_family(other_model)
    assert family is None
    assert not answers["tiny chains"].accepted


def test_an_installed_family_is_used(model, install):
    install("installed = tiny_family:Installed")
    family, _ = find_family(model)
    assert family.name == "installed"
    path = family.build(model)
    result = pymc_arm.sample_path(path, 50, chains=2, random_seed=1, progressbar=False)
    assert np.isfinite(result.attrs["log_marginal_likelihood"])


def test_an_installed_family_that_cannot_be_loaded_is_reported_and_passed_over(model, install):
    install(
        "installed = tiny_family:Installed",
        "missing = tiny_family:Missing",
        "absent = no_such_module:Family",
        "shapeless = tiny_family:broken",
    )
    with pytest.warns(ArmWarning) as caught:
        family, _ = find_family(model)
    assert family.name == "installed"
    messages = " ".join(str(warning.message) for warning in caught)
    for name in ("missing", "absent", "shapeless"):
        assert f"'{name}'" in messages


@pytest.mark.parametrize("kind", [Failing, Careless])
def test_a_family_that_fails_is_reported_and_passed_over(model, kind):
    pymc_arm.register(Chains())
    pymc_arm.register(kind())
    with pytest.warns(ArmWarning, match=f"'{kind.name}' failed to look at the model"):
        family, answers = find_family(model)
    assert family.name == "tiny chains"
    assert kind.name not in answers


def test_the_latest_registered_family_is_asked_first(model):
    class Later(Chains):
        name = "later"

    pymc_arm.register(Chains())
    pymc_arm.register(Later())
    assert find_family(model)[0].name == "later"


def test_a_family_by_name(model, other_model):
    pymc_arm.register(Chains())
    assert find_family(model, "tiny chains")[0].name == "tiny chains"
    assert find_family(model, "generic") == (None, {})
    with pytest.raises(ValueError, match="not of the family 'tiny chains': by its name"):
        find_family(other_model, "tiny chains")
    with pytest.raises(ValueError, match="family='unheard' is not known"):
        find_family(model, "unheard")


def test_register_and_unregister():
    pymc_arm.register(Chains())
    pymc_arm.unregister("tiny chains")
    assert "tiny chains" not in pymc_arm.known_families()
    with pytest.raises(KeyError, match="tiny chains"):
        pymc_arm.unregister("tiny chains")
    with pytest.raises(TypeError, match="no match"):
        pymc_arm.register(object())


def test_modules_of_families_can_be_imported_by_their_full_name():
    import pymc_arm.families.registry as registry

    assert registry.known_families is pymc_arm.known_families
