"""The harness that compares kernels on a device with other libraries, tried on an emulated device."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import run
from experiments.cuda import rows
from experiments.cuda.coverage import SHAPES
from experiments.harness import tables
from experiments.harness.settings import Settings
from experiments.operators import suite
from ir.codegen.cuda.emulation.compile import has_compiler


def test_rows_are_of_the_suites_and_small_where_a_device_is_emulated() -> None:
    found = [(theme, key) for theme, key, _ in run.tasks(["cuda"], Settings())]
    assert ("cuda", "bfloat16_product 8192x8192x8192") in found
    small = [key for _, key, _ in run.tasks(["cuda-emulated"], Settings(trials=0))]
    assert small == [f"{name} {'x'.join(map(str, SHAPES[name]))}" for name in rows.ROWS]
    assert all(suite.find(name).name == name for name in rows.ROWS)


@pytest.mark.slow
def test_a_row_on_an_emulated_device(tmp_path: Path) -> None:
    if not has_compiler():
        pytest.skip("needs a C++ compiler")
    settings = Settings(0, 1, 1, ("default", "torch", "numpy"), None, tmp_path)
    row = rows.measure("rms_norm", SHAPES["rms_norm"], settings, emulated=True)
    assert row["machine"]["processor"] == "stand-in" and row["machine"]["target"].startswith("cuda")
    assert list(row["left_out"]) == ["numpy"]
    assert row["contestants"]["loopsmith"]["error"] < 1e-5 and row["contestants"]["default"]["ratio"] > 0
    text = tables.cuda({"rms_norm": {**row, "disturbed": 0.0}})
    assert "rms_norm" in text and "stand-in" in text


def test_without_a_device_the_error_says_how_to_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPSMITH_CUDA_DRIVER", str(tmp_path / "none.so"))
    with pytest.raises(RuntimeError, match="cuda-emulated tries the harness"):
        rows.measure("rms_norm", SHAPES["rms_norm"], Settings(0, 1, 1, (), None, tmp_path))
