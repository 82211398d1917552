"""How ``loopsmith tune`` ends when somebody ends it: what it says, what it keeps, and its exit status."""

from __future__ import annotations

import os
import pty
import runpy
import select
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from database import open_database
from tuner.cli import main as entry
from tuner.cli import tune as tune_command
from tuner.scheduler.base import TaskScheduler


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A matrix product in an ONNX file."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    shape = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (64, 64))
    out = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (64, 64))
    weight = onnx.numpy_helper.from_array(np.eye(64, dtype="float32"), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "product", [shape], [out], [weight]
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def _arguments(model: Path, *more: str) -> list[str]:
    database = str(model.parent / "tuning.db")
    return ["tune", str(model), "--database", database, "--calibrate", "never", *more]


def test_ctrl_c_in_the_comparison_says_what_is_kept(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TaskScheduler, "_loop", lambda *_: None)
    monkeypatch.setattr(tune_command, "compare_builds", ctrl_c)
    monkeypatch.setattr(sys, "argv", ["loopsmith", *_arguments(model)])
    with pytest.raises(SystemExit) as leaving:
        entry.main()
    assert leaving.value.code == 130
    assert "the comparison was interrupted; the search had ended" in capsys.readouterr().out


def test_ctrl_c_before_the_search_is_answered(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tune_command, "load_model", ctrl_c)
    monkeypatch.setattr(sys, "argv", ["loopsmith", *_arguments(model)])
    with pytest.raises(SystemExit) as leaving:
        entry.main()
    assert leaving.value.code == 130
    assert "interrupted; everything that was finished is kept" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("module", ["tuner", "tuner.cli"])
def test_ctrl_c_while_the_command_is_loaded_is_answered(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading takes a second and more, in which somebody notices a slip of the pen."""

    class CtrlC:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "tuner.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "tuner.cli.main")
    monkeypatch.setattr(sys, "meta_path", [CtrlC(), *sys.meta_path])
    with pytest.raises(SystemExit) as leaving:
        runpy.run_module(module, run_name="__main__")
    assert leaving.value.code == 130


def _has_trials(path: Path) -> bool:
    return path.exists() and len(open_database(path)) > 0


def _is_free(path: Path) -> bool:
    """Whether nobody holds any claim."""
    with sqlite3.connect(path) as connection:
        return connection.execute("SELECT count(*) FROM claims").fetchone() == (0,)


def test_a_terminal_that_is_closed_ends_a_search_in_order(model: Path) -> None:
    """It cannot be written to any more then."""
    path, (ours, theirs) = model.parent / "tuning.db", pty.openpty()
    script = (
        "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
        " from tuner.cli.main import main; main()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, *_arguments(model, "--trials", "4000")],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    try:
        end = time.monotonic() + 120
        while not _has_trials(path) and time.monotonic() < end:
            if select.select([ours], [], [], 0.05)[0]:
                os.read(ours, 65536)
        os.close(ours)
        assert child.wait(timeout=60) == 128 + signal.SIGHUP
    finally:
        child.kill()
        child.wait()
    assert _has_trials(path) and _is_free(path)


def test_a_request_to_end_is_answered(model: Path) -> None:
    path = model.parent / "tuning.db"
    child = subprocess.Popen(
        [sys.executable, "-m", "tuner.cli.main", *_arguments(model, "--trials", "4000")],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    try:
        end = time.monotonic() + 120
        while not _has_trials(path) and time.monotonic() < end:
            time.sleep(0.05)
        child.terminate()
        printed, _ = child.communicate(timeout=60)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 128 + signal.SIGTERM
    assert "asked to end: all finished trials are in the database; the same command goes on" in printed
    assert _has_trials(path) and _is_free(path)
