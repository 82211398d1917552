"""Models of the zoo as ONNX: ONNX Runtime computes from the export what our build computes from the module."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

import runners  # noqa: E402
import tuner  # noqa: E402
from ir.relax.frontend.onnx import exportable_operators, from_onnx, to_onnx  # noqa: E402
from tuner import zoo  # noqa: E402
from tuner.compare.accuracy import TOLERANCES, relative_error  # noqa: E402
from tuner.compare.builds import compare_builds  # noqa: E402
from tuner.compare.reference import flatten, onnx_session  # noqa: E402
from tuner.model import Model  # noqa: E402
from tuner.zoo.architecture import ARCHITECTURES  # noqa: E402


def _small(name: str) -> tuple[Any, dict[str, np.ndarray], dict[str, np.ndarray]]:
    return zoo.load(name, **zoo.small_config(name))


def _run(mod: Any, params: dict[str, np.ndarray], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    executable = tuner.compile_relax(mod, "cpu", params, None)
    return flatten(runners.VirtualMachine(executable, runners.cpu())["main"](*inputs.values()))


@pytest.mark.parametrize("name", zoo.names())
def test_export_computes_the_same_there_and_back(name: str) -> None:
    mod, params, inputs = _small(name)
    model = to_onnx(mod, params)
    onnx.checker.check_model(model, full_check=True)
    wanted = onnx_session(model.SerializeToString(), threads=1).run(None, inputs)
    for found in (_run(mod, params, inputs), _run(from_onnx(model), {}, inputs)):
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
            assert relative_error(ours, theirs) < TOLERANCES["float32"]


@pytest.mark.parametrize("name", zoo.names())
def test_full_configurations_have_exportable_operators_only(name: str) -> None:
    from ir.node import post_order_visit
    from ir.relax.expr import Call

    made = ARCHITECTURES[name]  # not loaded: drawing the weights takes longest
    mod = made.module(made.full).export_tvm(spec={"main": made.inputs(made.full)})[0]
    used: set[str] = set()
    post_order_visit(mod["main"], lambda node: used.add(node.op.name) if isinstance(node, Call) else None)
    assert used and used <= set(exportable_operators())


def test_builds_of_a_zoo_model_are_compared_with_onnx_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    from ir.target import Target

    monkeypatch.setattr("tuner.compare.turns._ROUND_SECONDS", 0.01)
    mod, params, inputs = _small("resnet18")
    model = Model("resnet18", mod, params, lambda: inputs)
    found = compare_builds(model, Target("cpu"), None)
    assert found.accuracy is not None and found.is_accurate
    assert any("the speed of onnxruntime" in line for line in found.lines)
    assert any("ONNX Runtime's differ by" in line for line in found.lines)

    # Without ONNX Runtime the rest of the comparison stays.
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    found = compare_builds(model, Target("cpu"), None)
    assert found.accuracy is None and found.is_accurate
    (said,) = [line for line in found.lines if "ONNX" in line]
    assert (
        said.startswith("not compared with ONNX Runtime") and "loopsmith[onnx]" in said and "\n" not in said
    )
    assert any("the speed of the unscheduled build" in line for line in found.lines)
