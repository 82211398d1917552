"""Rows on a device: tuned and by default here, in PyTorch, through cuBLAS, in ONNX Runtime; each in a process of its own.

A contestant's call is many calls, one behind the other in the device's queue, and one wait: kernels of a microsecond are not timed at the
pace at which a host launches them. Where this project's driver is the stand-in, others compute on the processor, and times say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..harness.child import Ready
from ..operators import data, peer_forms, suite
from ..operators.loopsmith import tune_for
from ..operators.peers import forms, onnx_model, torch_array, torch_module

_QUEUED_SECONDS = 0.02
"""How much work is put into the queue before anybody waits."""
_MOST_QUEUED = 512


def target() -> Any:
    """The first device.

    Raises:
        RuntimeError: there is none.
    """
    import runners
    from ir.target import Target

    if not runners.cuda(0).exist:
        raise RuntimeError("no CUDA device; cuda-emulated tries the harness without one")
    return Target.from_device(runners.cuda(0))


def device() -> dict[str, str]:
    """What the figures were measured on, as plain data."""
    from runners.cuda.context import context
    from runners.cuda.driver import stands_in

    chosen = target()
    name = "stand-in" if stands_in() else context(0).name
    return {"processor": name, "target": str(chosen)}


def tune(name: str, shape: Sequence[int], trials: int, database: str, seed: int = 0) -> dict[str, Any]:
    """Tune a row up to ``trials`` trials, those of earlier runs included; what it cost, as plain data."""
    return tune_for(target(), name, shape, trials, database, seed)


def queued(call: Callable[[], Any], wait: Callable[[], Any]) -> tuple[Callable[[], None], int]:
    """A call that queues many and waits for them, and how many they are."""
    import time

    call()
    wait()
    begin = time.perf_counter()
    call()
    wait()
    count = int(min(_MOST_QUEUED, max(1.0, _QUEUED_SECONDS / (time.perf_counter() - begin))))

    def many() -> None:
        for _ in range(count):
            call()
        wait()

    return many, count


def loopsmith(name: str, shape: Sequence[int], arrays: str, database: str | None) -> Ready:
    """The best record; without a database the default schedule.

    Raises:
        LookupError: the database has no record of the row.
    """
    import runners
    from database import open_database
    from ir import IRModule
    from runners.cuda import build_module
    from schedules.dlight import default_schedule

    chosen, program = target(), suite.workload(name, shape)
    facts: dict[str, Any] = {}
    if database is None:
        schedule = default_schedule(program, chosen)
    else:
        record = open_database(database, must_exist=True).query_tuning_record(
            IRModule({"main": program}), chosen, "main"
        )
        if record is None:
            raise LookupError(f"the database has no record of {name} {tuple(shape)}; tune it first")
        schedule, facts = record.schedule(), {"tuned_ms": record.secs * 1e3}
    inputs, expected = data.read(arrays)
    given = [runners.array(item, runners.cuda(0)) for item in inputs]
    out = runners.empty(expected.shape, expected.dtype.name, runners.cuda(0))
    function = build_module(schedule.mod, chosen)["main"]
    function(*given, out)
    error = data.error_of(out.numpy(), expected)
    bound = function.bind(*given, out)
    many, count = queued(bound.start, bound.context.stream.synchronize)
    return Ready(many, {"error": error, **facts}, calls=count)


def torch(name: str, shape: Sequence[int], arrays: str, mode: str = "eager") -> Ready:
    """PyTorch in inference mode; ``mode``: "eager", "compile", or "max" for max-autotune."""
    import torch as library

    there = "cuda" if library.cuda.is_available() else "cpu"
    inputs, expected = data.read(arrays)
    form = forms(name).torch_form(name, shape, inputs)
    module, activations = torch_module(form).to(there), [item.to(there) for item in form.activations]
    if mode != "eager":
        module = library.compile(module, **({"mode": "max-autotune"} if mode == "max" else {}))

    def call() -> Any:
        with library.inference_mode():
            return module(*activations)

    with library.no_grad():
        found = torch_array(module(*activations).cpu())
    error = data.error_of(form.convert(found), expected)
    many, count = queued(call, library.cuda.synchronize if there == "cuda" else lambda: None)
    return Ready(many, {"error": error, "version": library.__version__, "device": there}, calls=count)


def cublas(name: str, shape: Sequence[int], arrays: str) -> Ready:
    """cuBLAS through cupy, for products of dtypes that numpy has.

    Raises:
        KeyError: the row is no such product.
    """
    import cupy

    if not name.endswith("_product"):
        raise KeyError(f"cuBLAS has no operator for {name}")
    inputs, expected = data.read(arrays)
    if any(item.dtype.isbuiltin != 1 for item in inputs):
        raise KeyError(f"cupy has no arrays of {inputs[0].dtype}; PyTorch's product is cuBLAS's")
    x, y = (cupy.asarray(item) for item in inputs)
    error = data.error_of(cupy.asnumpy(cupy.matmul(x, y)), expected)
    many, count = queued(lambda: cupy.matmul(x, y), cupy.cuda.Device().synchronize)
    return Ready(many, {"error": error, "version": cupy.__version__}, calls=count)


def onnxruntime(name: str, shape: Sequence[int], arrays: str) -> Ready:
    """ONNX Runtime with its CUDA provider, inputs and outputs on the device; on the processor where it has none.

    Raises:
        KeyError: it has no form of the row.
    """
    import onnxruntime as library

    inputs, expected = data.read(arrays)
    form = peer_forms.onnx_form(name, shape, inputs)
    provider = "CUDAExecutionProvider"
    there = "cuda" if provider in library.get_available_providers() else "cpu"
    options = library.SessionOptions()
    options.log_severity_level = 3
    providers = [provider] if there == "cuda" else ["CPUExecutionProvider"]
    session = library.InferenceSession(onnx_model(form, expected.dtype), options, providers=providers)
    error = data.error_of(form.convert(session.run(None, form.feed)[0]), expected)
    binding = session.io_binding()
    for key, value in form.feed.items():
        binding.bind_ortvalue_input(
            key, library.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value), there)
        )
    binding.bind_output(form.output, there)
    many, count = queued(lambda: session.run_with_iobinding(binding), binding.synchronize_outputs)
    return Ready(many, {"error": error, "version": library.__version__, "device": there}, calls=count)
