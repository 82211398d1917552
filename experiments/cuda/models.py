"""Whole models on a device: tuned and by default here, in PyTorch, in ONNX Runtime; each contestant in a process of its own.

All compute in float32, as the models are exported.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..harness.child import Ready
from ..harness.contestant import Job, run_job
from ..harness.notes import tuned
from ..harness.settings import Settings
from ..models import data
from ..models import rows as on_processor
from .contestants import queued, target
from .rows import PACKAGE, TORCH_MODES, compared, jobs_of, on_device

NAMES = ("resnet50", "bert_base", "llama_block")
SMALL = ("resnet18-small", "bert_base-small", "llama_block-small")
"""In their place where a device is emulated."""
PEERS = ("default", *TORCH_MODES, "onnxruntime")


def tune(model: str, trials: int, database: str, seed: int = 0) -> dict[str, Any]:
    """Tune all kernels up to ``trials`` trials, those of earlier runs included; what it cost, as plain data."""
    import tuner
    from tuner.model import load_model

    def run(callbacks: Sequence[Any]) -> None:
        loaded = load_model(Path(model), None, [])
        tuner.tune_relax(
            loaded.mod,
            loaded.params,
            target(),
            max_trials_global=trials,
            database=database,
            seed=seed,
            measure_callbacks=callbacks,
        )

    return tuned(run, trials, database, Path(model).stem)


def loopsmith(model: str, arrays: str, database: str | None) -> Ready:
    """The model built with the best records of a database; without one, with default schedules."""
    import runners
    from database.meta_schedule_apply_database import ApplyReport
    from tuner import compile_relax
    from tuner.compare.reference import flatten
    from tuner.model import load_model

    loaded, report = load_model(Path(model), None, []), ApplyReport()
    begin = time.perf_counter()
    built = compile_relax(loaded.mod, target(), loaded.params, database, report=report)
    seconds = time.perf_counter() - begin
    inputs, expected = data.read(arrays)
    machine = runners.VirtualMachine(built)
    main, given = machine["main"], [runners.array(item, machine.device) for item in inputs.values()]
    found = [np.asarray(item) for item in flatten(main(*given))]
    facts = {"error": data.error_of(found, expected), "compile_s": seconds, "records_cover": report.coverage}
    many, count = queued(lambda: main(*given), machine.device.sync)
    return Ready(many, facts, calls=count)


def torch(model: str, arrays: str, mode: str = "eager") -> Ready:
    """PyTorch on the exported program; ``mode``: "eager", "compile", or "max" for max-autotune."""
    import torch as library
    from torch.export.passes import move_to_device_pass

    there = "cuda" if library.cuda.is_available() else "cpu"
    inputs, expected = data.read(arrays)
    program = move_to_device_pass(library.export.load(Path(model).with_suffix(".pt2")), there)
    module: Any = program.module()
    given = [library.from_numpy(item).to(there) for item in inputs.values()]
    if mode != "eager":
        module = library.compile(module, **({"mode": "max-autotune"} if mode == "max" else {}))

    def call() -> Any:
        with library.inference_mode():
            return module(*given)

    begin = time.perf_counter()
    found = call()
    outputs = [item.cpu().numpy() for item in (found if isinstance(found, tuple | list) else [found])]
    facts = {
        "error": data.error_of(outputs, expected),
        "compile_s": time.perf_counter() - begin,
        "device": there,
    }
    many, count = queued(call, library.cuda.synchronize if there == "cuda" else lambda: None)
    return Ready(many, facts, calls=count)


def onnxruntime(model: str, arrays: str) -> Ready:
    """ONNX Runtime with its CUDA provider, inputs and outputs on the device; on the processor where it has none."""
    import onnxruntime as library

    inputs, expected = data.read(arrays)
    provider = "CUDAExecutionProvider"
    there = "cuda" if provider in library.get_available_providers() else "cpu"
    providers = [provider] if there == "cuda" else ["CPUExecutionProvider"]
    options = library.SessionOptions()
    options.log_severity_level = 3
    session = library.InferenceSession(model, options, providers=providers)
    binding = session.io_binding()
    for key, value in inputs.items():
        binding.bind_ortvalue_input(key, library.OrtValue.ortvalue_from_numpy(value, there))
    for output in session.get_outputs():
        binding.bind_output(output.name, there)
    session.run_with_iobinding(binding)
    error = data.error_of(binding.copy_outputs_to_cpu(), expected)
    many, count = queued(lambda: session.run_with_iobinding(binding), binding.synchronize_outputs)
    return Ready(many, {"error": error, "device": there}, calls=count)


def measure(item: str, settings: Settings, emulated: bool = False) -> dict[str, Any]:
    """One model as plain data.

    Raises:
        RuntimeError: there is no device, or what was built here fails.
    """
    with on_device(emulated):
        return _measure(item, settings, emulated)


def _measure(item: str, settings: Settings, emulated: bool) -> dict[str, Any]:
    machine = run_job(Job("device", f"{PACKAGE}.contestants:device"))
    path = on_processor.path_of(item, settings)
    arrays = str(settings.scratch / "models" / f"{path.stem}.npz")
    run_job(Job("reference", "experiments.models.peers:reference", {"model": str(path), "arrays": arrays}))
    database = settings.database(f"{path.stem}-cuda{'-emulated' if emulated else ''}")
    tuning: dict[str, Any] = {}
    if database is not None:
        options = {"model": str(path), "trials": settings.trials, "database": database, "seed": settings.seed}
        tuning["loopsmith"] = run_job(Job("loopsmith", f"{PACKAGE}.models:tune", options))
    jobs = jobs_of("models", {"model": str(path), "arrays": arrays}, database, settings, PEERS)
    return {"row": item, "machine": machine, "tuning": tuning, **compared(item, jobs, settings, PEERS)}
