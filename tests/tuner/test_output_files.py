"""What commands write goes over what they have written before, and over nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from .command_line import command

onnx = pytest.importorskip("onnx")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small model, its library, and a database."""
    folder = tmp_path_factory.mktemp("outputs")
    x, y = (onnx.helper.make_tensor_value_info(name, 1, [4, 8]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Exp", ["x"], ["y"])], "m", [x], [y])
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "m.onnx")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        assert (
            command(monkeypatch, "tune", "m.onnx", "--trials", "1", "--no-check", "--calibrate", "never") == 0
        )
        assert command(monkeypatch, "build", "m.onnx", "-o", "m.so") == 0
    return folder


WRITES = {
    "x.so": ("build", "m.onnx", "-o", "x.so"),
    "y.h": ("build", "m.onnx", "-o", "y.so"),
    "x.npz": ("run", "m.so", "--outputs", "x.npz"),
    "x.jsonl": ("db", "export", "tuning.db", "x.jsonl"),
    "x.html": ("report", "tuning.db", "-o", "x.html"),
    "x.json": ("profile", "m.so", "--trace", "x.json"),
}
"""A file, and the command that writes it."""


ALIKE = {
    "y.h": b'#include "loopsmith.h"\nint mine(void);\n',
    "x.npz": None,
    "x.json": b'{"traceEvents": [], "displayTimeUnit": "ms"}',
}
"""What somebody else has written of the same kind."""


@pytest.mark.parametrize("name", ALIKE)
def test_a_file_of_the_same_kind_that_is_anothers_stays(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    content = ALIKE[name]
    if content is None:
        np.savez(folder / name, data=np.arange(3))
    else:
        (folder / name).write_bytes(content)
    before = (folder / name).read_bytes()
    assert command(monkeypatch, *WRITES[name]) == 2
    assert f"{name} is there and is not a" in " ".join(capsys.readouterr().err.split())
    assert (folder / name).read_bytes() == before
    (folder / name).unlink()


@pytest.mark.parametrize("name", WRITES)
def test_a_foreign_file_stays(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    (folder / name).write_bytes(b"the only copy of something")
    assert command(monkeypatch, *WRITES[name]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"{name} is there and is not a" in said and "not overwritten; name another file" in said
    assert (folder / name).read_bytes() == b"the only copy of something"
    (folder / name).write_bytes(b"")  # as mktemp makes one
    for _ in range(2):  # the second time it is the command's own
        assert command(monkeypatch, *WRITES[name]) == 0, capsys.readouterr().err
        assert (folder / name).stat().st_size > 100


def test_an_input_is_no_output(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    before = (folder / "m.onnx").read_bytes()
    (folder / "model.so").write_bytes(before)
    assert command(monkeypatch, "build", "model.so", "-o", "model.so") == 2
    assert "model.so is there and is not a library" in capsys.readouterr().err
    assert (folder / "model.so").read_bytes() == before
    (folder / "own.onnx").write_bytes(before)
    assert command(monkeypatch, "build", "--zoo", "resnet18", "--save-onnx", "-o", "own.so") == 2
    assert "own.onnx is there and is not an ONNX model that loopsmith" in capsys.readouterr().err
    assert (folder / "own.onnx").read_bytes() == before and not (folder / "own.so").exists()


def test_one_file_for_two_purposes_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    for lock in ("both.so", "both.h", "./both.so"):
        assert command(monkeypatch, "build", "m.onnx", "-o", "both.so", "--lock", lock) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert "is named as lock and as" in said and "name two files" in said
    assert not (folder / "both.so").exists() and not (folder / "both.h").exists()
    assert command(monkeypatch, "run", "m.so", "--outputs", "chain.npz") == 0
    before = (folder / "chain.npz").read_bytes()
    arguments = ("--inputs", "chain.npz", "--outputs", str(folder / "chain.npz"))
    assert command(monkeypatch, "run", "m.so", *arguments) == 2
    assert "as inputs and as outputs" in " ".join(capsys.readouterr().err.split())
    assert (folder / "chain.npz").read_bytes() == before


def test_records_are_not_exported_over_themselves(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pruned export would be all that is left."""
    monkeypatch.chdir(folder)
    assert command(monkeypatch, "db", "export", "tuning.db", "own.jsonl") == 0
    assert command(monkeypatch, "db", "export", "own.jsonl", str(folder / "own.jsonl"), "--pruned") == 2
    assert "named as database and as exported records" in " ".join(capsys.readouterr().err.split())


def test_a_lock_is_read_where_it_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As sources are in continuous integration."""
    monkeypatch.chdir(folder)
    assert command(monkeypatch, "build", "m.onnx", "-o", "m.so", "--lock", "m.lock") == 0
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK or Path(path).name != "m.lock")
    assert command(monkeypatch, "build", "m.onnx", "-o", "m.so", "--lock", "m.lock") == 0
    assert command(monkeypatch, "build", "m.onnx", "-o", "m.so", "--lock", "m.lock", "--update-lock") == 2
