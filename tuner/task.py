"""Task extraction: which kernels of a model are worth tuning, each once, with how often it runs."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

from database import ModuleEquality, has_static_arguments, kernel_module
from ir import GlobalVar, IRModule
from ir.relax import Call
from ir.relax.op.declaration import declaration_of
from ir.target import Target
from ir.tir import PrimFunc
from schedules.population import flops_of

from .compile import prepare


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
    def is_static(self) -> bool:
        """Whether the kernel can be measured: all of its arguments are tensors of known shape."""
        kernel = self.mod["main"]
        return isinstance(kernel, PrimFunc) and has_static_arguments(kernel)

    @property
    def dispatched(self) -> list[IRModule]:
        """MetaSchedule's name for the modules of a task."""
        return [self.mod]


def call_counts(mod: IRModule) -> dict[str, int]:
    """How often each PrimFunc is called by the Relax functions of a module."""
    counts: dict[str, int] = {}
    # A call that is bound twice runs twice, so that equal nodes are visited each time, not once as walks do.
    stack: list[Any] = [func for func in mod.functions.values() if not isinstance(func, PrimFunc)]
    while stack:
        node = stack.pop()
        declared = declaration_of(node.op) if isinstance(node, Call) else None
        if declared is not None and declared.callee is not None:
            callee = node.args[declared.callee]
            if isinstance(callee, GlobalVar):
                counts[callee.name_hint] = counts.get(callee.name_hint, 0) + 1
        node._visit_children(stack.append)
    return counts


def tasks_of(mod: IRModule, target: Target, module_equality: str = "structural") -> list[ExtractedTask]:
    """The tasks of a prepared module (Relax functions that call PrimFuncs), heaviest first; those of symbolic shapes come last."""
    counts, equality = call_counts(mod), ModuleEquality(module_equality)
    found: dict[str, ExtractedTask] = {}
    for var, func in mod.functions.items():
        if not isinstance(func, PrimFunc) or counts.get(var.name_hint, 0) == 0:
            continue
        module = kernel_module(func)
        key = equality.key(module)
        if key in found:
            found[key].weight += counts[var.name_hint]
            found[key].names.append(var.name_hint)
            continue
        flops = flops_of(func) if has_static_arguments(func) else 0.0
        found[key] = ExtractedTask(
            var.name_hint, module, target, counts[var.name_hint], flops, [var.name_hint]
        )
    # What cannot be tuned comes last, so that the others have the same numbers where it is left out.
    return sorted(found.values(), key=lambda task: (not task.is_static, -task.weight * task.flops))


def extract_tasks(
    mod: IRModule, target: Any, params: dict[str, Any] | None = None, *, module_equality: str = "structural"
) -> list[ExtractedTask]:
    """The tuning tasks of a model: its fused kernels without duplicates, with weights and FLOPs, heaviest first.

    ``params`` are bound into ``main`` first, so that weights become constants and can be packed. Kernels that ``module_equality`` takes for
    the same (:class:`database.ModuleEquality`) are one task, of the first: a database with that equality answers for all of them.
    """
    chosen = target if isinstance(target, Target) else Target(target)
    tasks = tasks_of(prepare(mod, chosen, params), chosen, module_equality)
    gc.collect()  # the prepared model's copies of the weights are in reference cycles, and tuning takes long
    return tasks
