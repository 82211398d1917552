"""Task extraction: which kernels of a model are worth tuning, each once, with how often it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from database import kernel_module
from ir import IRModule, structural_hash
from ir.node import post_order_visit
from ir.target import Target
from ir.tir import PrimFunc
from schedules.population import flops_of


@dataclass
class ExtractedTask:
    """A kernel of a model.

    Attributes:
        task_name: the kernel's name in the model (the first, when several are equal).
        mod: a module whose ``main`` is the kernel.
        target: what it is tuned for.
        weight: calls of it in one run of the model.
        flops: floating-point operations of one call.
        names: all functions of the model that are this kernel.
    """

    task_name: str
    mod: IRModule
    target: Target
    weight: int
    flops: float
    names: list[str]

    @property
    def dispatched(self) -> list[IRModule]:
        """MetaSchedule's name for the modules of a task."""
        return [self.mod]


def call_counts(mod: IRModule) -> dict[str, int]:
    """How often each PrimFunc is called by the Relax functions of a module."""
    counts: dict[str, int] = {}
    call_tir_ops = {"relax.call_tir", "relax.call_tir_inplace", "relax.call_tir_with_grad"}

    def visit(node: Any) -> None:
        if type(node).__name__ == "Call" and getattr(getattr(node, "op", None), "name", None) in call_tir_ops:
            name = node.args[0].name_hint
            counts[name] = counts.get(name, 0) + 1

    for func in mod.functions.values():
        if not isinstance(func, PrimFunc):
            _visit_calls(func, visit)
    return counts


def _visit_calls(func: Any, visit: Any) -> None:
    """Visit every binding: a call that is bound twice runs twice, so nodes are not visited once only."""
    stack = [func]
    while stack:
        node = stack.pop()
        visit(node)
        node._visit_children(stack.append)


def tasks_of(mod: IRModule, target: Target) -> list[ExtractedTask]:
    """The tasks of a prepared module (Relax functions that call PrimFuncs), heaviest first."""
    counts = call_counts(mod)
    found: dict[int, ExtractedTask] = {}
    for var, func in mod.functions.items():
        if not isinstance(func, PrimFunc) or counts.get(var.name_hint, 0) == 0:
            continue
        module = kernel_module(func)
        key = structural_hash(module)
        if key in found:
            found[key].weight += counts[var.name_hint]
            found[key].names.append(var.name_hint)
            continue
        flops = 0.0 if has_symbolic_shapes(func) else flops_of(func)
        found[key] = ExtractedTask(
            var.name_hint, module, target, counts[var.name_hint], flops, [var.name_hint]
        )
    return sorted(found.values(), key=lambda task: -task.weight * task.flops)


def extract_tasks(mod: IRModule, target: Any, params: dict[str, Any] | None = None) -> list[ExtractedTask]:
    """The tuning tasks of a model: its fused kernels without duplicates, with weights and FLOPs, heaviest first.

    ``params`` are bound into ``main`` first, so that weights become constants and can be packed.
    """
    from .compile import prepare

    chosen = target if isinstance(target, Target) else Target(target)
    return tasks_of(prepare(mod, chosen, params), chosen)


def has_symbolic_shapes(func: PrimFunc) -> bool:
    """Whether a kernel's buffers have symbolic extents; those need values before they can be measured."""
    from ir import tir

    found: list[Any] = []
    for buffer in func.buffer_map.values():
        for extent in buffer.shape:
            post_order_visit(extent, lambda node: found.append(node) if isinstance(node, tir.Var) else None)
    return bool(found)
