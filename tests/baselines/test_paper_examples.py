"""Every script of the paper runs with its quick setting, draws its figure and prints numbers."""

import importlib

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

SCRIPTS = {
    "illustration": (["illustration.png"], "Z_2 / Z_1"),
    "gpc_time_accuracy": (["gpc_time_accuracy_20.png", "gpc_time_accuracy_20.csv"], "AIS RMHMC"),
    "rbm_comparison": (["rbm_comparison.png", "rbm_digits.csv"], "AIS-MAS"),
    "digits": (["digits.png"], "reference"),
    "tuning": (["tuning.png"], "acceptance by step size"),
    "evidence_surface": (["evidence_surface.png"], "EP, second order"),
}


@pytest.mark.slow
@pytest.mark.parametrize("script", list(SCRIPTS))
def test_quick_setting_runs(script, tmp_path, capsys):
    files, said = SCRIPTS[script]
    module = importlib.import_module(f"examples.paper.{script}")
    module.main(["--quick", "--output", str(tmp_path)])
    assert said in capsys.readouterr().out
    for file in files:
        assert (tmp_path / file).stat().st_size > 0


def test_missing_data_are_named(tmp_path, monkeypatch):
    from examples.paper.problems import usps

    monkeypatch.setenv("PYMC_ARM_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match=r"usps_3v5\.npz is not there"):
        usps()


def test_rows_survive_being_written(tmp_path):
    from examples.paper.common import Row, read_rows, write_rows

    rows = [Row.of("ARM", "R = 10", [-1.0, -2.0], 0.5), Row.of("RM", "R = 10", [-1.0], 0.1)]
    write_rows(tmp_path / "rows.csv", rows)
    found = read_rows(tmp_path / "rows.csv")
    assert found[0] == rows[0]
    assert found[1].method == "RM"
