"""HoistTensorMaps: the host makes the maps of tensors by which a kernel copies boxes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...arith.analyzer import Analyzer
from ...error import IRValueError
from ...module import IRModule
from ...node import Visitor
from ...transform import PassContext
from ..analysis.undefined_vars import undefined_vars
from ..buffer import Buffer
from ..expr import BufferLoad, Call, IntImm, PrimExpr, Var
from ..function import PrimFunc
from ..intrinsic.bulk_copies import LAYOUT_FROM, MOST_DIMENSIONS
from ..operators import const
from ..stmt import AttrStmt, Evaluate, LetStmt, Stmt
from ..stmt_functor import StmtExprMutator
from .kernel_regions import KernelRegions
from .prim_func_pass import PrimFuncPass

_ENCODE, _COPY = "tir.tensor_map_encode_tiled", "tir.ptx_cp_async_bulk_tensor"
_MAP, _COORDINATES = 2, 4
"""Arguments of a copy."""


@dataclass
class _Map:
    """A map of a part of a tensor: that of the whole tensor, and where the part begins."""

    var: Var
    encoded: PrimExpr
    begin: tuple[PrimExpr, ...]


class _Take(StmtExprMutator):
    """Takes the maps out of a kernel; copies name places in whole tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.maps: dict[Var, _Map] = {}

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        if getattr(getattr(stmt.value, "op", None), "name", "") != _ENCODE:
            return self.generic_visit(stmt)  # type: ignore[no-any-return]
        self.maps[stmt.var] = _of_whole(stmt.var, stmt.value)
        return self.visit(stmt.body)  # type: ignore[no-any-return]

    def visit_Call(self, call: Call) -> PrimExpr:
        found: Call = self.generic_visit(call)
        if getattr(call.op, "name", "") != _COPY or call.args[_MAP] not in self.maps:
            return found
        begin, own = self.maps[call.args[_MAP]].begin, found.args[_COORDINATES:]  # type: ignore[index]
        outer = len(begin) - len(own)
        places = [*begin[:outer], *[low + index for low, index in zip(begin[outer:], own, strict=True)]]
        return Call(found.dtype, found.op, (*found.args[:_COORDINATES], *places), found.span)


def _of_whole(var: Var, call: Any) -> _Map:
    """The map of the tensor of which a map shows a part, with the part's place."""
    address, dtype, swizzle = call.args[:LAYOUT_FROM]
    load = address.args[0] if getattr(getattr(address, "op", None), "name", "") == "tir.address_of" else None
    if not isinstance(load, BufferLoad):
        raise IRValueError(
            f"the tensor of map {var.name} is told by the address of an element, not by {address}"
        )
    buffer, rank = load.buffer, (len(call.args) - LAYOUT_FROM) // 3
    layout = call.args[LAYOUT_FROM:]
    strides, box = layout[rank : 2 * rank], layout[2 * rank :]
    found = _strides(buffer)
    outer = len(found) - rank
    analyzer = Analyzer()
    fits = outer >= 0 and all(
        analyzer.can_prove(a.equal(b)) for a, b in zip(found[outer:], strides, strict=True)
    )
    if not fits or len(found) > MOST_DIMENSIONS:
        raise IRValueError(
            f"map {var.name} shows {rank} dimensions with strides {[str(item) for item in strides]} of {buffer.name}, whose strides are"
            f" {[str(item) for item in found]}; it must show the innermost ones, and a map has at most {MOST_DIMENSIONS}"
        )
    boxes = [const(1)] * outer + list(box)
    encoded = Call("handle", call.op, (buffer.data, dtype, swizzle, *buffer.shape, *found, *boxes), call.span)
    return _Map(var, encoded, tuple(load.indices))


def _strides(buffer: Buffer) -> list[PrimExpr]:
    offset = buffer.elem_offset
    if offset is not None and not (isinstance(offset, IntImm) and offset.value == 0):
        raise IRValueError(
            f"a tensor map begins where its memory does, and {buffer.name} begins at {buffer.elem_offset}"
        )
    if buffer.strides:
        return list(buffer.strides)
    found: list[PrimExpr] = []
    for extent in reversed(buffer.shape):
        found.insert(
            0, found[0] * buffer.shape[len(buffer.shape) - len(found)] if found else const(1, extent.dtype)
        )
    return found


@dataclass
class _Inside(Visitor):
    """What a kernel defines."""

    found: set[Any] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def visit_Allocate(self, node: Any) -> None:
        self.found.add(node.buffer_var)
        self.generic_visit(node)

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.found.add(node.var)
        self.generic_visit(node)

    def visit_For(self, node: Any) -> None:
        self.found.add(node.loop_var)
        self.generic_visit(node)

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        if node.thread is not None:
            self.found.add(node.thread.var)
        self.generic_visit(node)


def _hoisted(kernel: Stmt) -> Stmt:
    take = _Take()
    body: Stmt = take.visit(kernel)
    if not take.maps:
        return kernel
    inside = _Inside()
    inside.visit(kernel)
    for item in reversed(list(take.maps.values())):
        for var in undefined_vars(Evaluate(item.encoded)):
            if var in inside.found:
                raise IRValueError(
                    f"the host makes map {item.var.name} before the kernel runs, and {var.name} is known within it only"
                )
        body = LetStmt(item.var, item.encoded, body)
    return body


@dataclass(frozen=True)
class HoistTensorMaps(PrimFuncPass):
    """Move the tensor maps that are made in a kernel in front of it: there they are the host's, and a kernel has them as parameters.

    A map that shows a part of a tensor, such as a block's rows, becomes that of the whole tensor, and the part's place is added to the
    coordinates of copies; boxes are expected to lie within the part. It runs before FlattenBuffer, while buffers have their shapes.

    Raises:
        IRValueError: a tensor is allocated within the kernel, has more than five dimensions, or the map does not show its innermost ones.

    Before::

        bx = T.launch_thread("blockIdx.x", 8)
        A_map: T.handle("uint8", "tensor_map") = T.tensor_map_encode_tiled(
            T.address_of(A[bx * 64, 0]), "float16", 128, 64, 256, 256, 1, 64, 64)
        T.ptx_cp_async_bulk_tensor("float16", S.data, 0, A_map, 0, 0, k * 64)

    After::

        A_map: T.handle("uint8", "tensor_map") = T.tensor_map_encode_tiled(A.data, "float16", 128, 512, 256, 256, 1, 64, 64)
        bx = T.launch_thread("blockIdx.x", 8)
        T.ptx_cp_async_bulk_tensor("float16", S.data, 0, A_map, 0, bx * 64, k * 64)
    """

    pass_name = "tir.HoistTensorMaps"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function whose host part makes the maps."""
        body = KernelRegions(_hoisted).visit(func.body)
        return func if body is func.body else func.replace(body=body)
