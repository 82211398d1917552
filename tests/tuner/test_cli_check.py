"""``loopsmith run --check``: how close a build must come to ONNX Runtime, by the numbers of the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .command_line import command

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


def save(path: Path, nodes: list[Any], dtype: int, weights: dict[str, np.ndarray], shape: list[int]) -> None:
    x, y = (helper.make_tensor_value_info(name, dtype, shape) for name in "xy")
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "net", [x], [y], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A product in float16; one whose quotient of zeros is NaN; one that is rounded to steps of a quantised format."""
    folder = tmp_path_factory.mktemp("models")
    weight = np.random.default_rng(1).standard_normal((256, 256)).astype("float16")
    save(
        folder / "half.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        TensorProto.FLOAT16,
        {"w": weight},
        [256, 256],
    )
    save(
        folder / "nan.onnx",
        [helper.make_node("Sub", ["x", "x"], ["zero"]), helper.make_node("Div", ["zero", "zero"], ["y"])],
        TensorProto.FLOAT,
        {},
        [4, 4],
    )
    quantised = {
        "scale": np.asarray(0.1, "float32"),
        "zero": np.asarray(3, "uint8"),
        "w": np.random.default_rng(2).integers(0, 255, (64, 64)).astype("uint8"),
    }
    save(
        folder / "steps.onnx",
        [
            helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
            helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["v"]),
            helper.make_node("MatMul", ["d", "v"], ["y"]),
        ],
        TensorProto.FLOAT,
        quantised,
        [64, 64],
    )
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name in ("half", "nan", "steps"):
            source, library = str(folder / f"{name}.onnx"), str(folder / f"{name}.so")
            assert command(monkeypatch, "build", source, "-o", library) == 0
    return folder


@pytest.mark.parametrize("name", ["half", "nan", "steps"])
def test_models_that_agree_are_no_alarm(
    name: str, models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(models)
    assert command(monkeypatch, "run", f"{name}.so", "--check", f"{name}.onnx") == 0
    said = capsys.readouterr()
    assert "output 0 against ONNX Runtime: relative error" in said.out and not said.err
    assert command(monkeypatch, "bench", f"{name}.so", "--compare", "onnxruntime", "--rounds", "1") == 0


def test_the_tolerance_may_be_said(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The library's sums are of float32 and rounded once, so that a float64 run finds nothing wrong with them."""
    monkeypatch.chdir(models)
    assert command(monkeypatch, "run", "half.so", "--check", "half.onnx", "--tolerance", "0.5") == 0
    assert "float64" not in capsys.readouterr().out
    for tolerance in ("-1", "inf", "nan"):
        assert command(monkeypatch, "run", "half.so", "--check", "half.onnx", "--tolerance", tolerance) == 2
        assert "is no relative error" in capsys.readouterr().err
    assert command(monkeypatch, "run", "half.so", "--tolerance", "0.1") == 2
    assert "--check" in capsys.readouterr().err


def test_another_model_is_an_alarm_and_float64_says_whose(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(models)
    weight = np.random.default_rng(3).standard_normal((256, 256)).astype("float16")
    product = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    save(models / "other.onnx", product, TensorProto.FLOAT16, {"w": weight}, [256, 256])
    assert command(monkeypatch, "run", "half.so", "--check", "other.onnx") == 2
    said = capsys.readouterr()
    assert "against a float64 run" in said.out
    assert "more than 0.01" in said.err and "--tolerance" in said.err
