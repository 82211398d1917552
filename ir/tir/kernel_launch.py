"""How kernels of devices are launched: the attributes by which one says so, and what a launch is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
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
CLUSTER_DIMS = "tir.cluster_dims"
"""Attribute of a function, and of its kernels: how many blocks along x, y and z run at one time, side by side (a cluster)."""
MOST_BLOCKS_OF_CLUSTER = 8
"""What every device with clusters has room for (CUDA C++ Programming Guide, "Thread Block Clusters")."""
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
    cluster: tuple[int, int, int] = (1, 1, 1)
    """Blocks of a cluster along x, y and z, of which the blocks along an axis are a multiple."""

    @property
    def params(self) -> list[str]:
        """The launch parameters by name."""
        return [*self.extents, *([DYNAMIC_SHARED_MEMORY] if self.dynamic_bytes is not None else [])]

    @property
    def values(self) -> list[PrimExpr]:
        """Their values, in the same order."""
        return [*self.extents.values(), *([self.dynamic_bytes] if self.dynamic_bytes is not None else [])]

    def misfit(self, extents: Mapping[str, int]) -> str | None:
        """What is wrong with a launch of so many blocks by the tags of the axes; None where they are whole clusters."""
        for axis, size in zip("xyz", self.cluster, strict=True):
            count = extents.get(f"blockIdx.{axis}", 1)
            if count % size:
                return f"{count} blocks along {axis} are no whole clusters of {size}"
        return None


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
        IRValueError: it has several allocations of dynamic shared memory, starts threads along an axis that no device has, or has
            blocks that are no whole clusters.
    """
    look = _Look()
    look.visit(kernel.body)
    unknown = [tag for tag in look.extents if tag not in LAUNCH_ORDER]
    if unknown:
        raise IRValueError(
            f"threads are launched along {unknown[0]!r}; a device has the axes {', '.join(LAUNCH_ORDER)}"
        )
    ordered = {tag: look.extents[tag] for tag in LAUNCH_ORDER if tag in look.extents}
    found = KernelLaunch(ordered, look.dynamic_bytes, _cluster(kernel))
    misfit = found.misfit(
        {tag: extent.value if isinstance(extent, E.IntImm) else 0 for tag, extent in ordered.items()}
    )
    if misfit is not None:
        raise IRValueError(misfit)
    return found


def _cluster(kernel: PrimFunc) -> tuple[int, int, int]:
    asked = kernel.attrs.get(CLUSTER_DIMS)
    if asked is None:
        return 1, 1, 1
    sizes = [int(getattr(item, "value", item)) for item in asked]
    if len(sizes) != 3 or min(sizes) < 1 or prod(sizes) > MOST_BLOCKS_OF_CLUSTER:
        raise IRValueError(
            f"{CLUSTER_DIMS} is three numbers of blocks, along x, y and z, of {MOST_BLOCKS_OF_CLUSTER} together at most, got {sizes}"
        )
    return sizes[0], sizes[1], sizes[2]


def is_kernel(func: Any) -> TypeGuard[PrimFunc]:
    """Whether a function is a device's kernel."""
    return isinstance(func, PrimFunc) and func.attrs.get(CALLING_CONVENTION) == DEVICE_KERNEL_LAUNCH
