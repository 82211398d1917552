"""What a module looks like, for tests that are about some of its structure."""

from __future__ import annotations

from typing import Any

from ir import IRModule, Op
from ir.relax import Call, transform
from ir.relax.analysis import all_bindings
from ir.tir import PrimFunc


def values(mod: IRModule, name: str = "main") -> list[Any]:
    """The values that a function binds, in order."""
    return [binding.value for binding in all_bindings(mod[name])]


def operators(mod: IRModule, name: str = "main") -> list[str]:
    """The operators that a function calls, in order."""
    return [
        value.op.name for value in values(mod, name) if isinstance(value, Call) and isinstance(value.op, Op)
    ]


def kernels(mod: IRModule) -> list[str]:
    """The names of the kernels."""
    return sorted(var.name_hint for var, func in mod.functions.items() if isinstance(func, PrimFunc))


def grouped(mod: IRModule) -> IRModule:
    """The module with groups of kernels, each a function that FuseTIR would make one kernel."""
    for step in (transform.LegalizeOps(), transform.AnnotateTIROpPattern(), transform.FuseOps()):
        mod = step(mod)
    return mod


def fused(mod: IRModule) -> IRModule:
    """The module with fused kernels."""
    return transform.DeadCodeElimination()(transform.FuseTIR()(grouped(mod)))
