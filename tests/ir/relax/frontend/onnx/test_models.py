"""The four benchmark architectures as both of PyTorch's exporters write them, imported and compared with ONNX Runtime."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ir.relax.testing import evaluate
from tests.ir.relax.frontend.operators import op_names

pytest.importorskip("torch")
pytest.importorskip("onnxscript")
onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

import runners  # noqa: E402
from experiments.models import export_models, torch_models  # noqa: E402
from ir import relax  # noqa: E402
from ir.relax.frontend.onnx import from_onnx  # noqa: E402

MODELS = ("resnet18", "mobilenet_v2", "bert_base", "llama_block")


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function from (model, exporter) to the path of its small export; each is exported once."""
    out, made = tmp_path_factory.mktemp("exports"), {}

    def path_of(name: str, exporter: str) -> Path:
        if (name, exporter) not in made:
            made[name, exporter] = export_models.export(name, out, exporter=exporter, small=True, seed=3)
        return made[name, exporter]

    return path_of


def inputs_of(name: str) -> dict[str, np.ndarray]:
    return {
        key: value.numpy()
        for key, value in torch_models.example_inputs(torch_models.SMALL[name], seed=5).items()
    }


def run_onnx(path: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, feeds)


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("name", MODELS)
def test_import_matches_onnx_runtime(exports: Any, name: str, exporter: str) -> None:
    path = exports(name, exporter)
    feeds = inputs_of(name)
    expected = run_onnx(path, feeds)
    result = evaluate(from_onnx(path), *feeds.values())
    results = result if isinstance(result, tuple) else (result,)
    assert len(results) == len(expected)
    for got, wanted in zip(results, expected, strict=True):
        assert got.dtype == wanted.dtype and got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "exporter"), list(zip(MODELS, ("dynamo", "torchscript", "dynamo", "torchscript"), strict=True))
)
def test_built_model_matches_onnx_runtime(exports: Any, name: str, exporter: str) -> None:
    path = exports(name, exporter)
    feeds = inputs_of(name)
    machine = runners.VirtualMachine(relax.build(from_onnx(path)), runners.cpu())
    result = machine["main"](*feeds.values())
    for got, wanted in zip(
        result if isinstance(result, tuple | list) else [result], run_onnx(path, feeds), strict=True
    ):
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_both_exporters_give_the_same_operators(exports: Any, name: str) -> None:
    """No shape arithmetic is left of either, so what is tuned does not depend on the exporter."""
    heavy = {"nn.conv2d", "matmul", "nn.softmax", "nn.layer_norm", "nn.gelu", "nn.max_pool2d"}
    left, right = (
        sorted(op for op in op_names(from_onnx(exports(name, exporter))) if op in heavy)
        for exporter in ("dynamo", "torchscript")
    )
    assert left == right
    for exporter in ("dynamo", "torchscript"):
        names = set(op_names(from_onnx(exports(name, exporter))))
        assert not names & {"shape_of", "shape_to_tensor", "tensor_to_shape"}


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_weights_can_be_kept_as_inputs(exports: Any, exporter: str) -> None:
    path = exports("bert_base", exporter)
    feeds = inputs_of("bert_base")
    mod = from_onnx(path, keep_params_in_input=True)
    func: Any = mod["main"]
    assert func.attrs["num_input"] == 3
    result = evaluate(mod, *feeds.values(), *func.attrs["params"])
    np.testing.assert_allclose(result, run_onnx(path, feeds)[0], rtol=1e-4, atol=1e-4)


# ---------------------------------------------------------------------------------------------- symbolic dimensions
def dynamic_axes(name: str, inputs: dict[str, Any]) -> dict[str, dict[int, str]]:
    """Batch and sequence of BERT, the batch of ResNet, the length of the Llama block's cache."""
    if name == "bert_base":
        return {key: {0: "batch", 1: "seq"} for key in inputs}
    if name == "resnet18":
        return {"x": {0: "batch"}}
    return {key: {2: "past"} for key in ("k_cache", "v_cache")}


def resized(name: str, factor: int) -> dict[str, np.ndarray]:
    """Inputs with other values of the symbolic dimensions."""
    changes = {
        "bert_base": {"batch": factor, "sequence": 7 * factor},
        "resnet18": {"batch": factor},
        "llama_block": {"past": 5 * factor},
    }
    config = dataclasses.replace(torch_models.SMALL[name], **changes[name])
    return {key: value.numpy() for key, value in torch_models.example_inputs(config).items()}


@pytest.mark.parametrize(
    ("name", "exporter"),
    [("bert_base", "dynamo"), ("resnet18", "torchscript"), ("llama_block", "torchscript")],
)
def test_symbolic_dimensions(exports: Any, tmp_path: Path, name: str, exporter: str) -> None:
    """One build serves every size; shape arithmetic on symbols leaves nothing to compute when it runs."""
    import torch

    config = torch_models.SMALL[name]
    inputs, path = torch_models.example_inputs(config), tmp_path / "dynamic.onnx"
    axes = dynamic_axes(name, inputs)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both exporters warn of their own deprecations
        options: dict[str, Any] = {"dynamic_axes": axes, "dynamo": False}
        if exporter == "dynamo":
            dims = {
                symbol: torch.export.Dim(symbol, max=32)
                for found in axes.values()
                for symbol in found.values()
            }
            shapes = {
                key: {axis: dims[symbol] for axis, symbol in axes[key].items()} if key in axes else None
                for key in inputs
            }
            options = {"dynamic_shapes": shapes, "dynamo": True, "external_data": False, "verbose": False}
        model = torch_models.build(config)
        torch.onnx.export(model, tuple(inputs.values()), str(path), input_names=list(inputs), **options)
    mod = from_onnx(path)
    assert not set(op_names(mod)) & {"shape_of", "shape_to_tensor", "tensor_to_shape"}
    machine = runners.VirtualMachine(relax.build(mod), runners.cpu())
    for factor in (1, 2):
        feeds = resized(name, factor)
        result = machine["main"](*feeds.values())
        for got, wanted in zip(
            result if isinstance(result, tuple | list) else [result], run_onnx(path, feeds)
        ):
            np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-4, atol=1e-4)
