"""What ONNX models mean to others, and whether loopsmith agrees: ONNX Runtime, and ONNX's own reference evaluator on numpy.

Runtimes differ where the standard says little (NaN in extremes, the sign of zero), so that an element is right if either of both gives it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import runners
from ir import relax
from ir.relax.frontend.onnx import ONNXExportError, ONNXImportError, from_onnx, to_onnx
from ir.relax.testing import evaluate

from .onnx_models import RandomModel, Value
from .verdict import Verdict, crash

_TOLERANCE = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-4}


def judge_model(made: RandomModel) -> Verdict:
    """Imports, builds and runs a model; it must give what one of the others does."""
    if not made.outputs:
        return Verdict("ok", "no node was found")
    others = opinions(made)
    if not others:
        return Verdict("invalid", "neither ONNX Runtime nor the reference evaluator runs the model")
    try:
        module = from_onnx(made.model)
    except ONNXImportError as error:
        return Verdict("invalid", f"is not imported: {str(error).splitlines()[0]}")
    except Exception as error:  # any error is a verdict
        return crash("import", error)
    try:
        executable = relax.build(module, target="llvm")
    except Exception as error:  # any error is a verdict
        return crash("build", error)
    try:
        found = runners.VirtualMachine(executable, runners.cpu())["main"](*made.inputs.values())
    except Exception as error:  # any error is a verdict
        return crash("run", error)
    results = list(found) if isinstance(found, tuple | list) else [found]
    for number, (value, result) in enumerate(zip(made.outputs, results, strict=True)):
        wrong = _difference(value, result.numpy(), [opinion[number] for opinion in others])
        if wrong:
            producer = next(node.op_type for node in made.model.graph.node if value.name in node.output)
            return Verdict("wrong", f"output {value.name}: {wrong}", f"at {producer}")
    return Verdict("ok")


def judge_export(made: RandomModel) -> Verdict:
    """Imports a model, exports the module, and imports that: the module means what both ONNX models mean, to whoever runs them."""
    if not made.outputs:
        return Verdict("ok", "no node was found")
    try:
        module = from_onnx(made.model)
        wanted = _evaluated(module, made)
    except Exception:  # the kind ``onnx`` finds what goes wrong up to here
        return Verdict("invalid", "the model is not imported")
    try:
        exported = to_onnx(module)
    except ONNXExportError as error:
        return Verdict("ok", f"is not exported: {str(error).splitlines()[0]}")
    except Exception as error:  # any error is a verdict
        return crash("export", error)
    again = replace(
        made,
        model=exported,
        inputs=dict(zip([item.name for item in exported.graph.input], made.inputs.values(), strict=True)),
    )
    try:
        found = {"imported again": _evaluated(from_onnx(exported), again)}
    except Exception as error:  # any error is a verdict
        return crash("import", error)
    others = [wanted, *opinions(made)]
    runtime = _opinion(_runtime, again)
    if runtime is not None:
        found["in ONNX Runtime"] = runtime
    for where, results in found.items():
        for number, (value, result) in enumerate(zip(made.outputs, results, strict=True)):
            wrong = _difference(value, result, [opinion[number] for opinion in others])
            if wrong:
                producer = next(node.op_type for node in made.model.graph.node if value.name in node.output)
                return Verdict("wrong", f"output {value.name} {where}: {wrong}", f"{where}, at {producer}")
    return Verdict("ok")


def _evaluated(module: Any, made: RandomModel) -> list[np.ndarray]:
    found = evaluate(module, *made.inputs.values())
    return [np.asarray(item) for item in (found if isinstance(found, tuple | list) else [found])]


def opinions(made: RandomModel) -> list[list[np.ndarray]]:
    """What those that run a model say that its results are."""
    found = [_opinion(run, made) for run in (_runtime, _reference)]
    return [opinion for opinion in found if opinion is not None]


def _opinion(run: Callable[[RandomModel], list[Any]], made: RandomModel) -> list[np.ndarray] | None:
    """The outputs of a model; None where this runtime does not take it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [np.asarray(item) for item in run(made)]
    except Exception:  # a model that one of them does not take is the other's
        return None


def _runtime(made: RandomModel) -> list[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(
        made.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, made.inputs))


def _reference(made: RandomModel) -> list[Any]:
    from onnx.reference import ReferenceEvaluator

    with np.errstate(all="ignore"):
        return list(ReferenceEvaluator(made.model).run(None, made.inputs))


def _difference(value: Value, got: np.ndarray, opinions: list[np.ndarray]) -> str:
    """What is wrong with a result; nothing if it is right."""
    if got.dtype != np.dtype(value.dtype) or got.shape != value.shape:
        return f"{got.dtype}{got.shape}, expected {value.dtype}{value.shape}"
    agrees = np.zeros(got.shape, bool)
    for wanted in opinions:
        if wanted.shape == got.shape:
            agrees |= _close(value, got, wanted)
    if agrees.all():
        return ""
    place = tuple(int(item) for item in np.argwhere(~agrees)[0])
    others = [str(item[place]) for item in opinions if item.shape == got.shape]
    return f"{int((~agrees).sum())} of {got.size} differ, at {place} {got[place]} for {' or '.join(others)}"


def _close(value: Value, got: np.ndarray, wanted: np.ndarray) -> Any:
    if not value.is_float:
        return got == wanted
    a, b = got.astype("float64"), wanted.astype("float64")
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size else 0.0
    rtol = 0.0 if value.exact else _TOLERANCE[value.dtype]
    return np.isclose(a, b, rtol=rtol, atol=rtol * max(1.0, scale), equal_nan=True)
