"""What commands write goes over what they have written before, and over nothing else."""

from __future__ import annotations

from pathlib import Path

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
