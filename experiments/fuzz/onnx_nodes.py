"""ONNX's own node tests of the default domain, imported, built and run natively: how many pass, and what comes of the others.

    python -m experiments.fuzz.onnx_nodes                   all cases, in two processes at a time
    python -m experiments.fuzz.onnx_nodes --match '^test_resize' --processes 4

Every case runs in a child process. The table counts verdicts: "ok", "does not import" (by operator or message), "wrong", "build error",
"run error", and how a process died. Each case that is neither ok nor refused by the importer is a line, and makes the exit code 1.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from glob import glob
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test import loader

import runners
from ir import relax
from ir.relax.frontend.onnx import ONNXImportError, UnsupportedOperatorError, from_onnx

from .children import judged_apart
from .kind import count
from .verdict import Verdict

REFUSED = "does not import"
_ROUNDED_OFTEN = {"float16": 2.0**-9, "bfloat16": 2.0**-6}
"""Four units of rounding: the expected results of compositions were rounded behind every step, and then written down."""
COUNTED_AS_FINE = ("ok", REFUSED)


@dataclass(frozen=True)
class NodeCase:
    """A model with the inputs and outputs of its first data set."""

    name: str
    model: onnx.ModelProto
    inputs: list[Any]
    outputs: list[Any]
    rtol: float
    atol: float


def node_cases(pattern: str = "") -> Iterator[NodeCase]:
    """Node tests whose names match a regular expression and whose operators all are of the default domain."""
    for case in _all_tests():
        if re.search(pattern, case.name):
            model = case.model or onnx.load(os.path.join(case.model_dir, "model.onnx"))
            if not any(node.domain not in ("", "ai.onnx") for node in model.graph.node):
                inputs, outputs = _arrays(case)
                yield NodeCase(case.name, model, inputs, outputs, case.rtol, case.atol)


@cache  # ONNX makes all models and computes all results anew: ten seconds
def _all_tests() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases themselves divide by zero on purpose
        return list(loader.load_model_tests(kind="node"))


def _arrays(case: Any) -> tuple[list[Any], list[Any]]:
    if case.data_sets:
        inputs, outputs = case.data_sets[0]
        return [_as_array(item) for item in inputs], [_as_array(item) for item in outputs]
    folder = os.path.join(case.model_dir, "test_data_set_0")

    def read(kind: str) -> list[Any]:
        number = len(glob(os.path.join(folder, f"{kind}_*.pb")))
        return [_array(os.path.join(folder, f"{kind}_{index}.pb")) for index in range(number)]

    return read("input"), read("output")


def _as_array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _array(path: str) -> Any:
    """A tensor; None for sequences and optional values, which the importer refuses."""
    tensor = onnx.TensorProto()
    with open(path, "rb") as file:
        data = file.read()
    try:
        tensor.ParseFromString(data)
        return numpy_helper.to_array(tensor)
    except Exception:  # protobuf has no common exception for a message of another type
        return None


def with_constants(case: NodeCase) -> tuple[onnx.ModelProto, list[Any]]:
    """The model with its small integer inputs (shapes, axes, pads, ...) as weights, as exporters write them."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    kept, feeds = [], []
    for number, (info, value) in enumerate(zip(model.graph.input, case.inputs, strict=True)):
        if number > 0 and isinstance(value, np.ndarray) and value.ndim <= 1:
            model.graph.initializer.append(numpy_helper.from_array(value, info.name))
        else:
            kept.append(info)
            feeds.append(value)
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return model, feeds


def judge_case(case: NodeCase) -> Verdict:
    """Imports a case as it is (or, if that is refused, with its parameters as constants), builds it, runs it and compares."""
    try:
        module, feeds = from_onnx(case.model), case.inputs
    except ONNXImportError as first:
        try:
            model, feeds = with_constants(case)
            module = from_onnx(model)
        except ONNXImportError:
            return Verdict(REFUSED, _refusal(first))
        except Exception as error:  # any error is a verdict
            return Verdict("import error", _said(error))
    except Exception as error:  # any error is a verdict
        return Verdict("import error", _said(error))
    try:
        executable = relax.build(module, target="llvm")
    except Exception as error:  # any error is a verdict
        return Verdict("build error", _said(error))
    try:
        result = runners.VirtualMachine(executable, runners.cpu())["main"](*feeds)
    except Exception as error:  # any error is a verdict
        return Verdict("run error", _said(error))
    return _compared(case, result)


def _refusal(error: ONNXImportError) -> str:
    if isinstance(error, UnsupportedOperatorError):
        return ", ".join(sorted({name for _, name, _, _ in error.operators}))
    return _said(error)


def _said(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"


def _compared(case: NodeCase, result: Any) -> Verdict:
    results = list(result) if isinstance(result, tuple | list) else [result]
    if len(results) != len(case.outputs):
        return Verdict("wrong", f"{len(results)} outputs, {len(case.outputs)} expected")
    for number, (value, wanted) in enumerate(zip(results, case.outputs, strict=True)):
        got, wanted = _numpy(value), np.asarray(wanted)
        if got.shape != wanted.shape or got.dtype != wanted.dtype:
            return Verdict(
                "wrong", f"output {number}: {got.dtype}{got.shape}, expected {wanted.dtype}{wanted.shape}"
            )
        rtol = max(case.rtol, _ROUNDED_OFTEN.get(wanted.dtype.name, 0.0))
        if not np.allclose(_wide(got), _wide(wanted), rtol=rtol, atol=case.atol, equal_nan=True):
            return Verdict("wrong", f"output {number}: {_differences(got, wanted)}")
    return Verdict("ok")


def _numpy(value: Any) -> np.ndarray:
    return value.numpy() if hasattr(value, "numpy") else np.asarray(value)


def _wide(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind in "biu" else array.astype("float64")


def _differences(got: np.ndarray, wanted: np.ndarray) -> str:
    differs = ~np.isclose(_wide(got), _wide(wanted), equal_nan=True)
    first = tuple(int(place) for place in np.argwhere(differs)[0]) if differs.any() else ()
    return f"{int(differs.sum())} of {wanted.size} differ, at {first} {got[first]} for {wanted[first]}"


def judged(
    cases: Sequence[NodeCase], processes: int, judge: Callable[[NodeCase], Verdict] = judge_case
) -> list[tuple[NodeCase, Verdict]]:
    """Verdicts of cases, in child processes of which so many run at a time."""
    shards = [cases[start::processes] for start in range(processes)]
    with ThreadPoolExecutor(processes) as pool:
        return [
            pair
            for pairs in pool.map(lambda shard: list(judged_apart(shard, judge)), shards)
            for pair in pairs
        ]


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; the exit code."""
    command = argparse.ArgumentParser(
        "python -m experiments.fuzz.onnx_nodes", description=(__doc__ or "").partition("\n")[0]
    )
    command.add_argument("--match", default="", help="a regular expression for the names of cases")
    command.add_argument("--processes", type=count, default=2, help="how many run at a time (default: 2)")
    options = command.parse_args(arguments)
    pairs = judged(list(node_cases(options.match)), options.processes)
    for case, verdict in sorted(pairs, key=lambda pair: (pair[1].kind, pair[0].name)):
        if verdict.kind not in COUNTED_AS_FINE:
            print(f"{case.name}: {verdict.kind}: {verdict.detail}")
    refusals = Counter(verdict.detail for _, verdict in pairs if verdict.kind == REFUSED)
    for reason, times in refusals.most_common():
        print(f"{times:5}  {REFUSED}: {reason}")
    counts = Counter(verdict.kind for _, verdict in pairs)
    print(", ".join(f"{count} {kind}" for kind, count in counts.most_common()))
    return int(any(kind not in COUNTED_AS_FINE for kind in counts))


if __name__ == "__main__":
    sys.exit(main())
