"""Imported models run in PyTorch: every operator of the table against its numpy reference, whole models against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ir.relax.op import OPERATORS
from tests.ir.relax.op.test_operators import CASES, Case, build, flat, params_of, reference
from tuner import zoo
from tuner.error import TunerError

torch = pytest.importorskip("torch")

from tuner.compare.torch_graph import to_torch  # noqa: E402
from tuner.compare.torch_operators import TORCH_FUNCTIONS  # noqa: E402

COVERED = [item for item in CASES if item.op in TORCH_FUNCTIONS and item.numbers]


@pytest.mark.parametrize("item", COVERED, ids=str)
def test_operator(item: Case) -> None:
    params, _ = params_of(item, False)
    module = to_torch(build(item, params, False))
    found = module(*[torch.from_numpy(array.copy()) for array in item.inputs])
    wanted = flat(reference(item, params))
    outputs = found if isinstance(found, tuple | list) else [found]
    assert len(outputs) == len(wanted)
    for one, want in zip(outputs, wanted, strict=True):
        assert tuple(one.shape) == want.shape
        np.testing.assert_allclose(one.numpy(), want, rtol=1e-4, atol=1e-5)


def test_the_table_names_operators() -> None:
    assert not set(TORCH_FUNCTIONS) - set(OPERATORS)


@pytest.mark.parametrize("name", zoo.names())
def test_zoo_model_agrees_with_onnx_runtime(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    ort = pytest.importorskip("onnxruntime")
    from ir.relax.frontend.onnx import from_onnx, to_onnx

    mod, params, inputs = zoo.load(name, seed=1, **zoo.small_config(name))
    model = to_onnx(mod, params)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(
        None, dict(zip([i.name for i in session.get_inputs()], inputs.values(), strict=True))
    )
    tensors = [torch.from_numpy(array) for array in inputs.values()]
    imported = from_onnx(model)
    for module in (to_torch(mod, params), to_torch(imported)):
        for one, want in zip(_tensors(module(*tensors)), wanted, strict=True):
            np.testing.assert_allclose(one.numpy(), want, rtol=1e-4, atol=1e-4)


def _tensors(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


def test_operators_without_a_function_are_named_together() -> None:
    from ir import relax as rx

    x = rx.Var("x", rx.TensorStructInfo((4,), "float32"))
    bb = rx.BlockBuilder()
    with bb.function("main", [x]):
        first = bb.emit(rx.op.unique(x))
        bb.emit(rx.op.nonzero(x))
        bb.emit_func_output(first)
    with pytest.raises(TunerError, match=r"relax\.nonzero, relax\.unique have no PyTorch function"):
        to_torch(bb.finalize())
