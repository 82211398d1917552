"""Results are merged row by row; tables and plots show what is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.harness import tables
from experiments.harness.results import Results
from experiments.harness.settings import parse_peers


def row(ms: float, ratio: float) -> dict[str, Any]:
    return {
        "row": "C2D",
        "trials": 64,
        "disturbed": 0.0,
        "gflops": 100.0,
        "share_of_peak": 0.5,
        "contestants": {
            "loopsmith": {"ms": ms, "ratio": 1.0},
            "torch": {"ms": ms * ratio, "ratio": ratio},
            "numpy": {"failed": "no such operator"},
        },
    }


def test_a_row_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    Results(tmp_path, "operators").add("a", row(1.0, 2.0))
    again = Results(tmp_path, "operators")
    again.add("b", row(2.0, 8.0))
    again.add("a", row(3.0, 2.0))
    found = Results(tmp_path, "operators").rows
    assert list(found) == ["a", "b"] and found["a"]["contestants"]["loopsmith"]["ms"] == 3.0
    assert found["a"]["machine"]["cores"] >= 1


def test_the_table_has_every_peer_and_the_mean() -> None:
    noisy = {**row(1.0, 8.0), "disturbed": 0.5}
    text = tables.operators({"quiet": row(1.0, 2.0), "noisy": noisy})
    lines = text.splitlines()
    assert [cell.strip() for cell in lines[0].split("|")[-3:-1]] == ["torch", "numpy"]
    assert "noisy *" in text and "quiet *" not in text
    mean = next(line for line in lines if line.startswith("| geometric mean"))
    assert "4.00" in mean and mean.rstrip(" |").endswith("-")
    assert len({len(line) for line in lines if line.startswith("|")}) == 1


def test_a_table_of_models_has_their_mean_and_names_the_machines() -> None:
    def model(ratio: float, processor: str) -> dict[str, Any]:
        found = row(1.0, ratio)
        found["contestants"]["loopsmith"] |= {"error": 0.0, "compile_s": 1.0}
        return {**found, "tuning": {}, "machine": {"processor": processor, "target": "llvm"}}

    text = tables.models({"a": model(2.0, "x"), "b": model(8.0, "x")})
    mean = next(line for line in text.splitlines() if line.startswith("| geometric mean"))
    assert "4.00" in mean and text.endswith("Machine: x, llvm")
    text = tables.models({"a": model(2.0, "x"), "b": model(8.0, "y"), "c": model(1.0, "x")})
    assert text.endswith("Machine: x, llvm: a, c\n\nMachine: y, llvm: b")


def test_plots(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from experiments.harness.plots import PANEL_ROWS, growth, ratios

    ratios({f"row {number}": row(1.0, 2.0) for number in range(PANEL_ROWS + 1)}, tmp_path / "ratios.png")
    tuning = {"loopsmith": {"best_ms_after": [None, 2.0, 1.0]}, "tvm": {"failed": "it was not there"}}
    growth({"growth a": {"tuning": tuning}}, tmp_path / "growth.png")
    assert (tmp_path / "ratios.png").stat().st_size and (tmp_path / "growth.png").stat().st_size


def test_peers_are_checked() -> None:
    assert parse_peers("torch, torch.compile", None) == ("torch", "torch_compile")
    with pytest.raises(ValueError, match="unknown peer 'tensorflow'"):
        parse_peers("tensorflow", None)
    with pytest.raises(ValueError, match="LOOPSMITH_TVM_PYTHON"):
        parse_peers("tvm", None)
