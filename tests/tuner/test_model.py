"""Random inputs of models: what they hold for each dtype."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tuner import TunerError, extract_tasks
from tuner.model import load_model, random_array


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint8"])
def test_integers_are_small_enough_to_index_anything_of_two_elements(dtype: str) -> None:
    made = random_array(np.random.default_rng(0), [40, 5], dtype)
    assert made.shape == (40, 5) and made.dtype == dtype and set(made.ravel().tolist()) == {0, 1}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_floats_are_normal(dtype: str) -> None:
    made = random_array(np.random.default_rng(0), [4000], dtype)
    assert made.dtype == dtype and abs(made.mean()) < 0.1 and 0.9 < made.std() < 1.1


def test_shapes_are_of_files_and_not_of_architectures() -> None:
    """It was ignored, and the model tuned for another shape than the one that was asked for."""
    with pytest.raises(TunerError, match="--shape x:1,2 is for ONNX files; the inputs of resnet18"):
        load_model(None, "resnet18", ["x:1,2"])


def test_inputs_are_made_when_somebody_runs_the_model(tmp_path: Path) -> None:
    """Those of a model with an input of 20,000 x 20,000 take 1.6 GB, and its tasks none of them."""
    onnx = pytest.importorskip("onnx")
    x, y = (onnx.helper.make_tensor_value_info(name, 1, [20_000, 20_000]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "large", [x], [y])
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9),
        tmp_path / "large.onnx",
    )
    tracemalloc.start()
    model = load_model(tmp_path / "large.onnx", None, [])
    assert [task.task_name for task in extract_tasks(model.mod, "llvm -num-cores=2", model.params)] == [
        "relu"
    ]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6
