"""What host functions allocate: memory of the device, which kernels of one function hand over."""

from __future__ import annotations

from ... import dtype as dt
from ...tir import expr as E
from ...tir import stmt as S


def allocated_bytes(node: S.Allocate) -> E.PrimExpr:
    """The size of an allocation, an int64."""
    size: E.PrimExpr = E.IntImm("int64", dt.bytes_of(node.dtype))
    for extent in node.extents:
        size = size * extent.astype("int64")
    return size


def why_not_handed_over(node: S.Allocate) -> str | None:
    """Why memory cannot be handed from kernel to kernel; None if it is that of the device."""
    scope = getattr(node.buffer_var.type_annotation, "storage_scope", "") or "global"
    if scope == "global":
        return None
    return (
        f"{node.buffer_var.name} is {scope} memory, which a block of threads has within one kernel, and it is used by several; put"
        " its uses below one loop that is bound to blockIdx.x"
    )
