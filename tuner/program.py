"""A scheduled program by its trace: what is sent to a worker process, which replays it there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ir import IRModule, load_json
from schedules import Schedule, Trace
from schedules.layout_rewrite import split_module


@lru_cache(maxsize=64)
def _module(module_json: str) -> IRModule:
    """Workloads are few and candidates many: each worker parses a workload once."""
    module = load_json(module_json)
    assert isinstance(module, IRModule)
    return module


@dataclass(frozen=True)
class ScheduledProgram:
    """Calling it replays the trace on the workload and gives the module to build, with packed weights as parameters."""

    module_json: str
    trace_json: Any

    def __call__(self) -> IRModule:
        sch = Schedule(_module(self.module_json), error_render_level="none", seed=0)
        Trace.apply_json_to_schedule(self.trace_json, sch)
        return split_module(sch.mod)
