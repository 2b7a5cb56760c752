"""The page about a comparison: complete, self-contained, escaped, and seen by a browser."""

import base64
import re
import shutil
import struct
import subprocess
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_arm
from pymc_arm.results import Evidence
from tests.test_html import read

DATA = np.array([1.2, 0.4, 2.1, 1.7, 0.9])
# PyMC's names of variables have no slash; those of models here may be anything.
HOSTILE = "<img src=x onerror=\"alert('x')\">&</script>"
OPTIONS = {"draws": 60, "chains": 2, "cores": 1, "progressbar": False}


@cache
def make_model(shifted):
    with pm.Model() as model:
        center = pm.Normal("center", 0.0, 2.0) if shifted else 0.0
        pm.Normal("y", center, 1.0, observed=DATA)
    return model


class Sources(HTMLParser):
    """What a page asks for: pictures, scripts, styles and links."""

    def __init__(self, page):
        super().__init__()
        self.found, self.tags = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.found += [value for name, value in attrs if name in ("src", "href")]
        assert not any(name.startswith("on") for name, _ in attrs)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    models = {HOSTILE: make_model(True), "no shift": make_model(False)}
    return pymc_arm.report(
        models,
        tmp_path_factory.mktemp("report") / "report.html",
        question=f"Is there a shift? {HOSTILE}",
        random_seed=1,
        **OPTIONS,
    )


@pytest.fixture(scope="module")
def page(file):
    return file.read_text(encoding="utf-8")


def test_the_page_answers_in_order(page):
    words = " ".join(read(page).words)
    titles = [
        "The comparison",
        "Where the evidence comes from",
        "Does it depend on the priors?",
        "How sure is this?",
        "Models and runs",
        "To do it again",
    ]
    places = [words.index(title) for title in titles]
    assert places == sorted(places)
    assert words.index("The data favour") < places[0]
    assert "log Z by observation" in words
    assert words.count("log Z: ok") == 2
    assert "center ~ Normal(0, 2)" in words
    assert "introduces" in words


def test_priors_that_have_a_scale_are_changed(tmp_path):
    """Half and twice the scale of a normal prior, against the exact change of log Z."""
    with pm.Model() as model:
        center = pm.Normal("center", 0.0, 2.0)
        pm.Normal("effect", center, 1.0)
        pm.Beta("share", 2.0, 2.0)
        pm.Normal("y", center, 1.0, observed=DATA)
    options = {**OPTIONS, "draws": 500, "observations": False, "random_seed": 1}
    words = read(pymc_arm.report({"a": model}, tmp_path / "page.html", **options).read_text()).words
    assert "Not weighed anew: share of a." in words
    place = words.index("center", words.index("twice as wide"))
    changes = [float(word.split(" ± ")[0]) for word in words[place + 1 : place + 3]]
    # The mean of the data is normal about zero, with variance scale^2 + 1 / 5.
    exact = [stats.norm(0, np.hypot(s, 5**-0.5)).logpdf(DATA.mean()) for s in (1.0, 4.0, 2.0)]
    # Five standard errors of the mean of 1000 weights.
    np.testing.assert_allclose(changes, np.array(exact[:2]) - exact[2], atol=0.05)


def test_the_page_says_how_to_repeat_it(page):
    words = " ".join(read(page).words)
    assert "random_seed=1" in words
    assert "draws=60" in words
    for package in (pymc_arm, pm, np):
        assert package.__version__ in words


def test_the_page_is_all_there_is(page):
    """Nothing is fetched from anywhere, and nothing runs."""
    sources = Sources(page)
    assert "script" not in sources.tags
    assert "link" not in sources.tags
    # Two of the comparison, the path, three of a run, and one of a model without parameters.
    assert len(sources.found) == 2 + 1 + 3 + 1
    for source in sources.found:
        assert source.startswith("data:image/svg+xml;base64,")
        drawing = base64.b64decode(source.partition(",")[2]).decode()
        assert "prefers-color-scheme:dark" in drawing
        assert "#123456" not in drawing
    assert not re.search(r"url\(|@import", page)


def test_names_are_escaped(page):
    assert "<img src=x" not in page
    assert page.count("&lt;img src=x") > 5


def test_the_same_seed_gives_the_same_numbers(page, tmp_path):
    models = {HOSTILE: make_model(True), "no shift": make_model(False)}
    table = pymc_arm.compare(models, random_seed=1, **OPTIONS)
    assert table._repr_html_() in page


def test_results_and_numbers_are_reported_too(tmp_path):
    result = pymc_arm.sample(make_model(True), random_seed=1, **OPTIONS)
    models = {"run": result, "number": Evidence(-20.0, 0.1, 3)}
    target = tmp_path / "report.html"
    assert pymc_arm.report(models, str(target), prior_odds=[1, 3]) == target
    words = " ".join(read(target.read_text()).words)
    assert "some are results" in words
    assert "their weights are 1 (run), 3 (number)" in words
    assert words.count("log Z: ok") == 1


def test_one_model_is_reported_without_a_factor(tmp_path):
    target = pymc_arm.report({"a": Evidence(-20.0, 0.1, 3)}, tmp_path / "report.html")
    assert "There is one model, a" in target.read_text()


def test_doubts_come_first(tmp_path):
    result = pymc_arm.sample(make_model(True), random_seed=1, **OPTIONS)
    result.attrs["verdict"] = "failed"
    models = {"run": result, "number": Evidence(-20.0, 0.1, 3)}
    text = pymc_arm.report(models, tmp_path / "report.html").read_text()
    assert text.index("Not every log Z can be trusted") < text.index("The comparison")


def test_a_seed_is_drawn_where_none_is_given(tmp_path):
    models = {"a": make_model(True)}
    target = pymc_arm.report(models, tmp_path / "a.html", observations=False, **OPTIONS)
    assert re.search(r"random_seed=\d+", target.read_text())


def test_many_observations_are_not_taken_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr(pymc_arm.reporting, "MOST_OBSERVATIONS", 4)
    target = pymc_arm.report({"a": make_model(False)}, tmp_path / "a.html", **OPTIONS)
    assert "Left out: there are 5 observations." in target.read_text()


def test_a_picture_that_fails_does_not_cost_the_page(tmp_path, monkeypatch):
    def fail(*args, **options):
        raise RuntimeError("no <path>")

    monkeypatch.setattr(pymc_arm.reporting, "evidence_path", fail)
    target = pymc_arm.report({"a": make_model(False)}, tmp_path / "a.html", **OPTIONS)
    assert "Left out: RuntimeError: no &lt;path&gt;" in target.read_text()


def test_without_matplotlib_there_are_words_instead_of_pictures(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    target = pymc_arm.report({"a": Evidence(-20.0, 0.1, 3)}, tmp_path / "report.html")
    assert "matplotlib is not installed" in target.read_text()
    assert "<img" not in target.read_text()


def test_wrong_arguments_are_refused_before_anything_runs(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        pymc_arm.report({"a": make_model(True)}, tmp_path / "nowhere" / "report.html")
    with pytest.raises(TypeError, match="models is of type list: give a dictionary"):
        pymc_arm.report([make_model(True)], tmp_path / "report.html")


def size_of(picture):
    return struct.unpack(">II", picture.read_bytes()[16:24])


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1200, 500])
def test_a_browser_shows_it(file, tmp_path, width, dark):
    """The corner of the page has the colour of the theme, wide and narrow."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    image = pytest.importorskip("matplotlib.image", reason="matplotlib reads the picture")
    picture = tmp_path / "page.png"
    command = [
        browser,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        f"--window-size={width},1600",
        f"--screenshot={picture}",
        file.as_uri(),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    assert size_of(picture) == (width, 1600)
    pixels = image.imread(str(picture))[..., :3]
    paper = np.array([0x16] * 3 if dark else [0xFF] * 3) / 255
    np.testing.assert_allclose(pixels[2, 2], paper, atol=0.01)
    # Words and drawings differ from the paper, and none of it reaches the right edge.
    written = np.abs(pixels - paper).max(axis=2) > 0.2
    assert written.any(axis=1).mean() > 0.3
    assert not written[:, -4:].any()
