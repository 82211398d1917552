"""The one command: what its arguments mean, and a row from tuning to the table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments import run
from experiments.harness.settings import PEERS, Settings
from experiments.models import rows as models
from experiments.operators import suite

ROOT = Path(__file__).parents[2]


def keys(*items: str) -> list[tuple[str, str]]:
    return [(theme, key) for theme, key, _ in run.tasks(list(items), Settings())]


def test_arguments_name_rows_models_and_themes() -> None:
    assert keys("TBG") == [("operators", "TBG 1x128x12x64")]
    assert keys("gmm:1,8,8,8") == [("operators", "GMM 1x8x8x8")]
    assert keys("Concat") == [("second", "concat 1024x512x256")]
    for theme, rows in suite.SUITES.items():
        assert [found for found, _ in keys(theme)] == [theme] * sum(len(row.shapes) for row in rows.values())
    assert keys("resnet18-small", "some/net.onnx") == [("models", "resnet18-small"), ("models", "net")]
    assert [theme for theme, _ in keys("search:SFM")] == ["search"] * 3
    themes = [theme for theme, _ in keys("all")]
    assert list(dict.fromkeys(themes)) == ["operators", "second", "models", "search", "foundation"]
    with pytest.raises(KeyError, match="no workload 'XYZ'"):
        keys("XYZ")


@pytest.mark.slow
def test_a_row_from_tuning_to_the_table(tmp_path: Path) -> None:
    given = ["GMM:1,16,16,16", "--trials", "2", "--rounds", "1", "--threads", "1", "--peers", "numpy"]
    command = [sys.executable, "experiments/run.py", *given, "--out", str(tmp_path), "--no-plot"]
    command += ["--scratch", str(tmp_path / "scratch")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "GMM 1x16x16x16" in done.stdout and "numpy" in done.stdout
    (row,) = json.loads((tmp_path / "operators.json").read_text())["rows"].values()
    assert row["tuning"]["loopsmith"]["trials"] == 2 and 0 < row["share_of_peak"] < 1.5
    assert row["contestants"]["loopsmith"]["error"] < 1e-5 and row["contestants"]["numpy"]["ratio"] > 0
    assert (tmp_path / "operators.md").read_text().strip() in done.stdout


@pytest.mark.slow
def test_default_schedules_are_measured_without_trials_or_beside_them(tmp_path: Path) -> None:
    given = ["GMM:1,16,16,16", "--rounds", "1", "--threads", "1", "--out", str(tmp_path), "--no-plot"]
    given += ["--scratch", str(tmp_path / "scratch")]
    assert run.main([*given, "--trials", "0", "--peers", "numpy"]) == 0
    (row,) = json.loads((tmp_path / "operators-untuned.json").read_text())["rows"].values()
    assert row["tuning"] == {} and row["contestants"]["loopsmith"]["error"] < 1e-5
    assert not (tmp_path / "operators.json").exists() and not list((tmp_path / "scratch").glob("*.db"))
    assert run.main([*given, "--trials", "2", "--peers", "default"]) == 0
    (row,) = json.loads((tmp_path / "operators.json").read_text())["rows"].values()
    assert row["contestants"]["default"]["ratio"] > 0 and "tuned_ms" not in row["contestants"]["default"]


def a_row(settings: Settings) -> dict[str, Any]:
    """A row of a model, as it is stored."""
    return {
        "row": "small", "trials": 2, "threads": 1, "disturbed": 0.0, "tuning": {}, "left_out": models.left_out(settings),
        "contestants": {"loopsmith": {"ms": 1.0, "error": 0.0, "compile_s": 1.0}, "torch": {"failed": "no torch here\nnor there"}},
    }  # fmt: skip


def test_a_row_that_fails_keeps_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["small.onnx", "--no-plot", "--out", str(tmp_path), "--peers", "torch,torch_max"]
    monkeypatch.setattr(models, "measure", lambda item, settings: a_row(settings))
    assert run.main(given) == 0
    told = capsys.readouterr().err
    assert "torch_max: is measured on operators only" in told and "torch: no torch here" in told
    page = tmp_path / "models.md"
    before = page.read_text()
    page.write_text(before + "A remark of somebody's.\n")

    def fails(item: str, settings: Settings) -> dict[str, Any]:
        raise RuntimeError("the machine is on fire")

    monkeypatch.setattr(models, "measure", fails)
    assert run.main(given) == 1
    told = capsys.readouterr()
    assert "small: the machine is on fire" in told.err
    assert "not measured, results are as they were: small" in told.err and not told.out
    assert page.read_text().endswith("A remark of somebody's.\n")
    assert json.loads((tmp_path / "models.json").read_text())["rows"]["small"]["trials"] == 2


def test_every_peer_runs_models_or_says_that_it_does_not() -> None:
    assert set(models.left_out(Settings(peers=PEERS))) == {"torch_max", "numpy"}


def test_the_search_needs_trials() -> None:
    with pytest.raises(ValueError, match="--trials 0 leaves nothing"):
        list(run.tasks(["search:SFM"], Settings(trials=0)))


def test_mistakes_are_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "experiments/run.py", "XYZ"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and done.stderr.startswith("run.py: no workload 'XYZ'")
