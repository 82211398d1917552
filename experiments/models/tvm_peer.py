"""Whole models tuned by Apache TVM's MetaSchedule and run by its virtual machine, driven as a black box.

Runs in TVM's own environment, which needs the package onnx as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx
from tvm.relax.pipeline import static_shape_tuning_pipeline
from tvm.s_tir import meta_schedule as ms

from ..harness.child import Ready
from ..operators.tvm_peer import session, target
from . import data


def tune(model: str, trials: int, folder: str, threads: int, seed: int = 0) -> dict[str, Any]:
    """Tune all kernels of an ONNX file; see :func:`experiments.operators.tvm_peer.session`."""
    mod, chosen = from_onnx(onnx.load(model)), target(threads)
    with chosen:
        # what the tuning pipeline does before it tunes, so that it finds the records
        kernels = tvm.transform.Sequential(
            [
                relax.transform.DecomposeOpsForInference(),
                relax.transform.CanonicalizeBindings(),
                relax.get_pipeline("zero"),
                relax.transform.AttachAttrLayoutFreeBuffers(),
            ]
        )(mod)

    def run(callbacks: Any, parts: dict[str, Any]) -> None:
        ms.relax_integration.tune_relax(
            kernels, {}, chosen, folder, max_trials_global=trials, seed=seed,
            num_trials_per_iter=16, measure_callbacks=callbacks, **parts,
        )  # fmt: skip

    return session(run, folder, trials, threads)


def call(model: str, arrays: str, threads: int, folder: str) -> Ready:
    """The model built with the best records, weights packed beforehand."""
    mod, chosen = from_onnx(onnx.load(model)), target(threads)
    with chosen:
        built = static_shape_tuning_pipeline(
            total_trials=0, target=chosen, work_dir=folder, cpu_weight_prepack=True
        )(mod)
    machine = relax.VirtualMachine(tvm.compile(built, target=chosen), tvm.cpu())
    inputs, expected = data.read(arrays)
    values = [tvm.runtime.tensor(item, tvm.cpu()) for item in inputs.values()]
    main = machine["main"]
    found = main(*values)
    outputs = [found] if hasattr(found, "numpy") else list(found)
    error = data.error_of([np.asarray(item.numpy()) for item in outputs], expected)
    return Ready(lambda: main(*values), {"error": error, "version": tvm.__version__})
