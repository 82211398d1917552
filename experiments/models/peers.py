"""Whole models in this project, ONNX Runtime, PyTorch eager and torch.compile: each prepared in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..harness.child import Ready
from ..harness.notes import tuned
from ..operators.loopsmith import target
from . import data


def reference(model: str, arrays: str) -> dict[str, Any]:
    """Random inputs of an ONNX file and ONNX Runtime's outputs, written for the other contestants."""
    from tuner.compare.reference import onnx_session
    from tuner.model import load_model

    inputs = load_model(Path(model), None, []).inputs
    outputs = onnx_session(Path(model), 0).run(None, inputs)
    data.write(Path(arrays), inputs, outputs)
    return {"inputs": {name: list(value.shape) for name, value in inputs.items()}}


def tune(model: str, trials: int, database: str, threads: int, seed: int = 0) -> dict[str, Any]:
    """Tune all kernels up to ``trials`` trials, those of earlier runs included; what it cost, as plain data."""
    import tuner
    from tuner.model import load_model

    def run(callbacks: Sequence[Any]) -> None:
        loaded = load_model(Path(model), None, [])
        tuner.tune_relax(
            loaded.mod,
            loaded.params,
            target(threads),
            max_trials_global=trials,
            database=database,
            seed=seed,
            measure_callbacks=callbacks,
        )

    return tuned(run, trials, database, Path(model).stem)


def loopsmith(model: str, arrays: str, threads: int, database: str | None) -> Ready:
    """The model built with the best records of a database; without one, with default schedules."""
    import runners
    from database.meta_schedule_apply_database import ApplyReport
    from ir.codegen.llvm.runtime import runtime
    from tuner import compile_relax
    from tuner.compare.reference import flatten
    from tuner.model import load_model

    loaded, report = load_model(Path(model), None, []), ApplyReport()
    begin = time.perf_counter()
    built = compile_relax(loaded.mod, target(threads), loaded.params, database, report=report)
    seconds = time.perf_counter() - begin
    runtime().set_num_threads(threads)
    inputs, expected = data.read(arrays)
    main, values = runners.VirtualMachine(built, runners.cpu())["main"], list(inputs.values())
    error = data.error_of(flatten(main(*values)), expected)
    return Ready(
        lambda: main(*values), {"error": error, "compile_s": seconds, "records_cover": report.coverage}
    )


def compared(peer: str, model: str, arrays: str, threads: int) -> Ready:
    """A runtime that ``loopsmith bench`` compares with: onnxruntime, torch, torch.compile."""
    from tuner.compare.contestants import Source, contestants
    from tuner.compare.reference import flatten

    inputs, expected = data.read(arrays)
    begin = time.perf_counter()
    (entry,) = contestants([peer], Source(Path(model)), list(inputs.values()), threads)
    found = flatten(entry.call())
    return Ready(
        entry.call, {"error": data.error_of(found, expected), "compile_s": time.perf_counter() - begin}
    )
