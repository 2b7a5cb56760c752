"""In a notebook: results show as HTML, bars are drawn, and a warning is shown once for each run."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CELLS = {
    "model": """
import numpy as np, pymc as pm, pymc_arm
with pm.Model() as model:
    p = pm.Beta("p", 1, 1)
    pm.Binomial("y", n=10, p=p, observed=7)
with pm.Model() as hard:
    m = pm.Normal("m", 0, 1, shape=8)
    pm.StudentT("y", nu=2, mu=pm.math.prod(m), sigma=0.01, observed=np.full(8, 3.0))
options = dict(draws=20, chains=2, cores=1, random_seed=1)
""",
    "plan": "pymc_arm.plan(model)",
    "bars": "result = pymc_arm.sample(model, **options)",
    "table": "pymc_arm.compare({'a': result, 'b': result})",
    "factor": "pymc_arm.bayes_factor(result, result)",
    "verdict": "pymc_arm.diagnose(result)",
    "warning": """
doubtful = pymc_arm.sample(hard, progressbar=False, start="prior", **{**options, "chains": 4})
""",
}


@pytest.fixture(scope="module")
def outputs():
    """Return what each cell shows, as a kernel of this interpreter sends it."""
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    cells = [nbformat.v4.new_code_cell(code) for code in CELLS.values()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        # What Jupyter itself is going to change is not about this package.
        patch.setenv("PYTHONWARNINGS", "ignore::DeprecationWarning,ignore::FutureWarning")
        nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    return {name: cell.outputs for name, cell in zip(CELLS, cells, strict=True)}


def text_of(outputs):
    streams = [output.text for output in outputs if output.output_type == "stream"]
    shown = [str(output.data) for output in outputs if output.output_type == "display_data"]
    return "\n".join([*streams, *shown])


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.mark.parametrize("name", ["plan", "table", "factor", "verdict"])
def test_results_show_as_html(outputs, name):
    (shown,) = [out for out in outputs[name] if out.output_type == "execute_result"]
    assert set(shown.data) == {"text/html", "text/plain"}
    assert shown.data["text/html"].startswith("<div")


def test_bars_are_drawn(outputs):
    """Live ones with ipywidgets; else they are printed, and rich asks nobody to install these."""
    text = text_of(outputs["bars"])
    assert "ipywidgets" not in text
    assert "widget-view" in text or text.count("log Z -2.4") == 2


def test_a_warning_is_shown_once(outputs):
    assert text_of(outputs["warning"]).count("TrustWarning") == 1


SLOW = """
import time
import pymc_arm
from pymc_arm.testing import GaussianChain

class Slow(GaussianChain):
    started = 0

    def initialize(self, rng, count):
        self.started += count > 1  # one particle is how the memory is measured
        if self.started == 3:
            print("two chains have ended", flush=True)
            time.sleep(60)
        return super().initialize(rng, count)

result = pymc_arm.sample_path(
    Slow([0.1, 0.2]), draws=60, cores=1, random_seed=1, progressbar=False, refine=False
)
"""


def test_interrupting_a_cell_keeps_what_is_finished():
    """The button of a notebook, while the third of four chains runs."""
    manager_of = pytest.importorskip("jupyter_client.manager", reason="Jupyter is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    manager, client = manager_of.start_new_kernel(
        kernel_name="python3", env={**os.environ, "PYTHONPATH": path}
    )

    def run(code, until=None):
        """Return what a cell prints, until it ends or has printed something."""
        asked = client.execute(code)
        printed = ""
        while True:
            message = client.get_iopub_msg(timeout=120)
            if message["parent_header"].get("msg_id") != asked:
                continue
            printed += message["content"].get("text", "")
            if message["content"].get("execution_state") == "idle" or (until and until in printed):
                return printed

    try:
        assert "two chains" in run(SLOW, until="have ended")
        manager.interrupt_kernel()
        said = run("print(result.attrs['ended_by'], result.attrs['chains'])")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert said.strip() == "interruption 2"
