"""Checks for tests of programs that schedule: traces that survive being written down, and structure without names."""

from __future__ import annotations

import json
from typing import Any

from ir import IRModule, assert_structural_equal
from ir.tir import PrimFunc

from .error import ScheduleError
from .schedule import Schedule
from .trace import Trace


def verify_trace_roundtrip(
    sch: Schedule, mod: PrimFunc | IRModule, *, debug_mask: str | int = "all", text_format: str = "json"
) -> Schedule:
    """Write a schedule's trace, read it, replay it on ``mod``, and compare the programs; returns the replayed schedule.

    Raises:
        ScheduleError: the schedule has no trace, or the format is neither "json" nor "python".
        IRValueError: the programs differ.
    """
    if sch.trace is None:
        raise ScheduleError("verify_trace_roundtrip: the schedule keeps no trace")
    if text_format not in ("json", "python"):
        raise ScheduleError(
            f"verify_trace_roundtrip: text_format must be 'json' or 'python', got {text_format!r}"
        )
    again = Schedule(mod, debug_mask=debug_mask)
    if text_format == "json":
        Trace.apply_json_to_schedule(json.loads(json.dumps(sch.trace.as_json())), again)
    else:
        exec("\n".join(sch.trace.as_python()), {"sch": again})  # the text that the trace made itself
    assert_structural_equal(again.mod, sch.mod)
    return again


def assert_structural_equal_ignore_global_symbol(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Structural equality of functions or modules whose ``global_symbol`` may differ."""
    assert_structural_equal(_without_symbol(lhs), _without_symbol(rhs), map_free_vars)


def _without_symbol(node: Any) -> Any:
    if isinstance(node, PrimFunc):
        return node.without_attr("global_symbol")
    if isinstance(node, IRModule):
        functions = {
            var: _without_symbol(func) if isinstance(func, PrimFunc) else func
            for var, func in node.functions.items()
        }
        return node.replace(functions=functions)
    return node
