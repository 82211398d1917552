"""How kernels of devices are launched: the attributes by which one says so, and what a launch is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from ..error import IRValueError
from ..node import Visitor
from . import expr as E
from .expr import PrimExpr
from .function import PrimFunc
from .stmt import Allocate, AttrStmt
from .thread_axis import LAUNCH_ORDER

LAUNCH_PARAMS = "tir.kernel_launch_params"
"""Attribute of a kernel: the tags of its axes in the order in which a launch gives their extents; last, whether it is given the bytes of
dynamic shared memory."""
DYNAMIC_SHARED_MEMORY = "tir.use_dyn_shared_memory"
"""The last launch parameter of kernels that have dynamic shared memory."""
CALLING_CONVENTION = "calling_conv"
DEVICE_KERNEL_LAUNCH = 2
"""The calling convention of kernels: by a launch from the host."""


@dataclass(frozen=True)
class KernelLaunch:
    """What a launch of a kernel is given besides its arguments, in terms of its parameters."""

    extents: Mapping[str, PrimExpr]
    """By the tags of its axes, in the order of :data:`~ir.tir.thread_axis.LAUNCH_ORDER`."""
    dynamic_bytes: PrimExpr | None
    """Of shared memory that is not declared; None where there is none."""

    @property
    def params(self) -> list[str]:
        """The launch parameters by name."""
        return [*self.extents, *([DYNAMIC_SHARED_MEMORY] if self.dynamic_bytes is not None else [])]

    @property
    def values(self) -> list[PrimExpr]:
        """Their values, in the same order."""
        return [*self.extents.values(), *([self.dynamic_bytes] if self.dynamic_bytes is not None else [])]


class _Look(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.extents: dict[str, PrimExpr] = {}
        self.dynamic_bytes: PrimExpr | None = None

    def visit_PrimExpr(self, node: PrimExpr) -> None:
        pass

    def visit_AttrStmt(self, stmt: AttrStmt) -> None:
        if stmt.attr_key == "thread_extent" and stmt.thread is not None:
            self.extents.setdefault(stmt.thread.thread_tag, stmt.value)
        self.generic_visit(stmt)

    def visit_Allocate(self, node: Allocate) -> None:
        if getattr(node.buffer_var.type_annotation, "storage_scope", "") == "shared.dyn":
            if self.dynamic_bytes is not None:
                raise IRValueError(
                    f"a kernel has one allocation of dynamic shared memory, and {node.buffer_var.name} is a second one; run"
                    " ir.tir.transform.MergeSharedMemoryAllocations first"
                )
            size = E.IntImm("int32", E.dt.bytes_of(node.dtype))
            self.dynamic_bytes = node.extents[0] * size
        self.generic_visit(node)


def kernel_launch(kernel: PrimFunc) -> KernelLaunch:
    """What a kernel's launch is given, as its body says.

    Raises:
        IRValueError: it has several allocations of dynamic shared memory, or starts threads along an axis that no device has.
    """
    look = _Look()
    look.visit(kernel.body)
    unknown = [tag for tag in look.extents if tag not in LAUNCH_ORDER]
    if unknown:
        raise IRValueError(
            f"threads are launched along {unknown[0]!r}; a device has the axes {', '.join(LAUNCH_ORDER)}"
        )
    ordered = {tag: look.extents[tag] for tag in LAUNCH_ORDER if tag in look.extents}
    return KernelLaunch(ordered, look.dynamic_bytes)


def is_kernel(func: Any) -> TypeGuard[PrimFunc]:
    """Whether a function is a device's kernel."""
    return isinstance(func, PrimFunc) and func.attrs.get(CALLING_CONVENTION) == DEVICE_KERNEL_LAUNCH
