"""Whatever runs code: arrays and devices, executables and their virtual machine, isolated building and measuring.

Running a built artefact needs this package and numpy only; the parts that build load the compiler when first used.
"""

from __future__ import annotations

from loopsmith_import_check import require_needs

require_needs(__name__, __file__)

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import cuda
from .device import Device, cpu, device
from .error import DeviceError, RecordedTimeMissing, RunnerError, WorkerError
from .ndarray import NDArray, aligned_empty, array, empty, from_dlpack
from .result import ResultKind

if TYPE_CHECKING:
    from .device import cuda as cuda  # type: ignore[no-redef]
    from .builder import Builder, BuilderInput, BuilderResult, LocalBuilder
    from .cuda.runner import CudaRunner
    from .evaluator import EvaluatorConfig
    from .executable import Executable, load_module
    from .final import final_choice
    from .local import LocalRunner
    from .measure import MeasureRequest, MeasureResult, finished_results, measure_candidates
    from .outcome import Outcome
    from .pool import WorkerPool, shared_pool
    from . import rpc
    from .rpc.builder import RPCBuilder
    from .rpc.config import RPCConfig
    from .rpc.runner import RPCRunner
    from .ray.builder import RayBuilder
    from .ray.runner import RayRunner
    from .replay import ReplayBuilder, ReplayRunner
    from .runner import Runner, RunnerFuture, RunnerInput, RunnerResult
    from .virtual_machine import VirtualMachine

_LAZY = {
    "Executable": "executable",
    "load_module": "executable",
    "VirtualMachine": "virtual_machine",
    "Builder": "builder",
    "BuilderInput": "builder",
    "BuilderResult": "builder",
    "LocalBuilder": "builder",
    "Runner": "runner",
    "RunnerInput": "runner",
    "RunnerResult": "runner",
    "RunnerFuture": "runner",
    "EvaluatorConfig": "evaluator",
    "LocalRunner": "local",
    "CudaRunner": "cuda.runner",
    "RPCBuilder": "rpc",
    "RPCConfig": "rpc",
    "RPCRunner": "rpc",
    "RayBuilder": "ray",
    "RayRunner": "ray",
    "ReplayBuilder": "replay",
    "ReplayRunner": "replay",
    "MeasureRequest": "measure",
    "MeasureResult": "measure",
    "measure_candidates": "measure",
    "finished_results": "measure",
    "final_choice": "final",
    "WorkerPool": "pool",
    "Outcome": "outcome",
    "shared_pool": "pool",
}

__all__ = [
    # arrays and devices
    "NDArray",
    "array",
    "empty",
    "aligned_empty",
    "from_dlpack",
    "Device",
    "device",
    "cpu",
    "cuda",
    # built programs
    "Executable",
    "VirtualMachine",
    "load_module",
    # building and measuring
    "Builder",
    "BuilderInput",
    "BuilderResult",
    "LocalBuilder",
    "Runner",
    "RunnerInput",
    "RunnerResult",
    "RunnerFuture",
    "LocalRunner",
    "CudaRunner",
    "RPCBuilder",
    "RPCRunner",
    "RPCConfig",
    "RayBuilder",
    "RayRunner",
    "ReplayBuilder",
    "ReplayRunner",
    "EvaluatorConfig",
    "ResultKind",
    "MeasureRequest",
    "MeasureResult",
    "measure_candidates",
    "finished_results",
    "final_choice",
    # processes
    "WorkerPool",
    "Outcome",
    "shared_pool",
    # errors
    "RunnerError",
    "DeviceError",
    "WorkerError",
    "RecordedTimeMissing",
]


def __getattr__(name: str) -> Any:
    """Load the module of a name when it is first asked for."""
    if name == "rpc":
        return import_module(".rpc", __name__)
    if name in _LAZY:
        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """What is loaded later is there too, as for :func:`help` and for completion."""
    return sorted({*globals(), *__all__})
