"""Where the time of a model goes: as a table that fits, as JSON, and as a trace."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import runners
from ir import IRModule
from ir.relax.frontend import nn
from tests.tuner.report.databases import filled
from tuner import profile_model
from tuner.cli.main import app
from tuner.compile import compile_relax
from tuner.error import TunerError
from tuner.profile import Profile

_WORK = 2 * 8 * 64 * 32
"""FLOPs of each product."""
_WEIGHTS = [np.zeros((32, 64), "float32"), np.zeros((64, 32), "float32")]


class Net(nn.Module):
    def __init__(self) -> None:
        self.first, self.second = nn.Linear(64, 32, bias=False), nn.Linear(32, 64, bias=False)

    def main(self, x: nn.Tensor) -> nn.Tensor:
        return nn.op.softmax(self.second(nn.op.relu(self.first(x))))


@pytest.fixture(scope="module")
def executable() -> runners.Executable:
    mod, _ = Net().export_tvm({"main": {"x": nn.spec.Tensor([8, 64], "float32")}})
    assert isinstance(mod, IRModule)
    return compile_relax(mod)


@pytest.fixture(scope="module")
def profile(executable: runners.Executable) -> Profile:
    return profile_model(executable, database=filled(["a"], 1))


def test_kernels_have_shares_work_and_a_roof(profile: Profile) -> None:
    assert sum(item.share for item in profile.kernels) == pytest.approx(1.0)
    assert sum(item.secs for item in profile.kernels) == pytest.approx(profile.secs) and profile.secs > 0
    products = [item for item in profile.kernels if "matmul" in item.name]
    assert sum(item.calls for item in products) == 2
    assert sum(item.flops or 0 for item in products) == pytest.approx(2 * _WORK, rel=0.1)
    assert all(item.gflops and item.gb_per_s and item.of_roof and 0 < item.of_roof < 10 for item in products)


def test_parts_come_in_the_order_of_the_run(profile: Profile) -> None:
    begins = [part.begin for part in profile.parts]
    assert begins == sorted(begins) and begins[0] == 0.0
    assert profile.parts[-1].begin + profile.parts[-1].secs == pytest.approx(profile.secs)
    assert "softmax" in profile.parts[-1].name and all(part.is_kernel for part in profile.parts)


@pytest.mark.parametrize("width", [80, 60, 40])
def test_the_table_fits(profile: Profile, width: int) -> None:
    written = io.StringIO()
    Console(file=written, width=width, markup=False, highlight=False).print(profile)
    lines = written.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    text = "".join(lines)
    assert "share" in text and "matmul" in text and "peak of" in text
    assert ("GFLOP/s" in lines[2] or "GFLOP/s" in text) and "not known" not in text


def test_a_trace_is_what_browsers_read(profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    profile.write_trace(path)
    events = json.loads(path.read_text())["traceEvents"]
    timed = [item for item in events if item["ph"] == "X"]
    assert len(timed) == len(profile.parts)
    assert {"name", "ts", "dur", "pid", "tid", "args"} <= timed[0].keys()
    assert sum(item["dur"] for item in timed) == pytest.approx(profile.secs * 1e6)
    assert timed[-1]["ts"] + timed[-1]["dur"] == pytest.approx(profile.secs * 1e6)
    with pytest.raises(TunerError, match="cannot write"):
        profile.write_trace(tmp_path / "missing" / "t.json")


def test_plain_values_are_json(profile: Profile) -> None:
    found = json.loads(json.dumps(profile.as_json()))
    assert found["kernels"][0]["seconds"] >= found["kernels"][-1]["seconds"]
    assert found["roofline"]["bytes_per_s"]["memory"] > 0


def test_without_a_calibration_there_is_no_roof_and_a_word(executable: runners.Executable) -> None:
    found = profile_model(executable, [np.zeros((8, 64), "float32"), *_WEIGHTS])
    assert found.roofline is None and all(item.of_roof is None for item in found.kernels)
    assert "loopsmith calibrate" in str(found) and "of roof" not in str(found)


def test_the_command_reads_a_library(
    executable: runners.Executable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    executable.export_library("net.so")
    done = CliRunner().invoke(app, ["profile", "net.so", "--json"])
    assert done.exit_code == 0 and len(json.loads(done.stdout)["kernels"]) > 2
    assert json.loads(done.stdout)["kernels"][0]["bytes"] > 0, "the library tells the work of its kernels"
    done = CliRunner().invoke(app, ["profile", "net.so", "--trace", "trace.txt"])
    assert isinstance(done.exception, TunerError) and "name it trace.json" in str(done.exception)


def test_inputs_that_cannot_be_made_up_are_named() -> None:
    mod, _ = Net().export_tvm({"main": {"x": nn.spec.Tensor(["n", 64], "float32")}})
    built = compile_relax(mod)
    with pytest.raises(TunerError, match=r"input x \(n,64\) has open dimensions.*--shape x:1,64"):
        profile_model(built)
    with pytest.raises(TunerError, match="x:3,65 does not fit"):
        profile_model(built, shapes=["x:3,65"])
    found = profile_model(built, shapes=["x:3,64"])
    assert found.parts and "earlier version" not in str(found)
    found = profile_model(built, [np.zeros((3, 64), "float32"), *_WEIGHTS])
    assert any(part.is_kernel for part in found.parts) and not all(part.is_kernel for part in found.parts)
