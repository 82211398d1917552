"""InferFragment: allocations of fragments say their shape and layout, as the calls that use them do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ...module import IRModule
from ...node import Visitor
from ...transform import PassContext
from ..analysis.thread_groups import storage_scope
from ..expr import Call, IntImm, StringImm, Var
from ..function import PrimFunc
from ..stmt import Allocate, AttrStmt, Stmt
from ..stmt_functor import StmtExprMutator
from .prim_func_pass import PrimFuncPass

SHAPE, LAYOUT = "fragment_shape", "fragment_layout"
"""The attributes at the top of what an allocation is for: "m, n, k", and "row_major" or "col_major"."""

_MOVES = ("tir.tvm_load_matrix_sync", "tir.tvm_store_matrix_sync")
_FILL = "tir.tvm_fill_fragment"
_PRODUCTS = ("tir.tvm_mma_sync", "tir.tvm_bmma_sync")
_MATRICES = ("wmma.matrix_a", "wmma.matrix_b")
_ACCUMULATOR = "wmma.accumulator"
_LAYOUTS = ("row_major", "col_major")

_Shape = tuple[int, ...]


class _Collect(Visitor):
    """What the calls of a function say of fragments, by their addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: dict[Var, _Shape] = {}
        self.layouts: dict[Var, str] = {}
        self._products: list[tuple[str, list[Var]]] = []

    def visit_Buffer(self, buffer: Any) -> None:
        """Declarations say nothing."""

    def visit_Call(self, call: Call) -> None:
        self.generic_visit(call)
        name = getattr(call.op, "name", "")
        if name in _PRODUCTS:
            fragments = [_fragment(call, at) for at in (0, 2, 4, 6)]
            wanted = (_ACCUMULATOR, *_MATRICES, _ACCUMULATOR)
            for data, scope in zip(fragments, wanted, strict=True):
                if storage_scope(data) != scope:
                    raise IRValueError(
                        f"{name} takes fragment {data.name} of scope {storage_scope(data)!r} where one of {scope!r} is expected"
                    )
            self._products.append((name, fragments))
        elif name in _MOVES or name == _FILL:
            self._shape(name, _fragment(call, 0), call.args[1:4])
            if name in _MOVES:
                self._layout(name, _fragment(call, 0), call.args[7])

    def _shape(self, name: str, data: Var, extents: Sequence[Any]) -> None:
        if storage_scope(data) not in (*_MATRICES, _ACCUMULATOR):
            raise IRValueError(
                f"{name} takes {data.name} for a fragment, of scope {storage_scope(data)!r}; fragments have the scopes"
                f" {', '.join(map(repr, _MATRICES))} and {_ACCUMULATOR!r}"
            )
        if not all(isinstance(extent, IntImm) for extent in extents):
            raise IRValueError(f"{name} of fragment {data.name} has no constant shape")
        shape = tuple(extent.value for extent in extents)
        if self.shapes.setdefault(data, shape) != shape:
            raise IRValueError(
                f"{name} uses fragment {data.name} as one of m, n, k = {_text(shape)}, another call as one of {_text(self.shapes[data])};"
                " a fragment has one shape"
            )

    def _layout(self, name: str, data: Var, layout: Any) -> None:
        """Of accumulators it says how they lie in memory, not what they are."""
        found = layout.value if isinstance(layout, StringImm) else layout
        if found not in _LAYOUTS:
            raise IRValueError(
                f"{name} of fragment {data.name} has layout {found!r}; there are {', '.join(_LAYOUTS)}"
            )
        if storage_scope(data) in _MATRICES and self.layouts.setdefault(data, found) != found:
            raise IRValueError(
                f"{name} uses fragment {data.name} with layout {found}, another call with {self.layouts[data]}; a fragment has one layout"
            )

    def combine(self) -> None:
        """The fragments of a product have one shape, which one that no other call names gets from it."""
        for _ in self._products:  # each round tells at least one product more
            for name, fragments in self._products:
                known = [data for data in fragments if data in self.shapes]
                for data in fragments if known else ():
                    shape = self.shapes[known[0]]
                    if self.shapes.setdefault(data, shape) != shape:
                        raise IRValueError(
                            f"{name} multiplies fragments of m, n, k = {_text(shape)} ({known[0].name}) and {_text(self.shapes[data])}"
                            f" ({data.name}); they must have one shape"
                        )


def _fragment(call: Call, at: int) -> Var:
    data = call.args[at]
    if not isinstance(data, Var):
        raise IRValueError(f"{call.op.name} takes {data} where the address of a fragment is expected")
    return data


def _text(shape: _Shape) -> str:
    return ", ".join(map(str, shape))


class _Attach(StmtExprMutator):
    def __init__(self, found: _Collect) -> None:
        super().__init__()
        self._found = found

    def visit_Buffer(self, buffer: Any) -> Any:
        return buffer

    def visit_PrimExpr(self, node: Any) -> Any:
        return node

    def visit_Allocate(self, node: Allocate) -> Stmt:
        data, scope = node.buffer_var, storage_scope(node.buffer_var)
        if scope not in (*_MATRICES, _ACCUMULATOR):
            return self.generic_visit(node)  # type: ignore[no-any-return]
        shape, layout = self._found.shapes.get(data), self._found.layouts.get(data)
        if shape is None:
            raise IRValueError(
                f"fragment {data.name} of scope {scope!r} has no shape: no call loads, fills, stores or multiplies it"
            )
        if layout is None and scope in _MATRICES:
            raise IRValueError(f"fragment {data.name} of scope {scope!r} has no layout: no call loads it")
        body = AttrStmt(data, SHAPE, StringImm(_text(shape)), self.visit(node.body))
        if layout is not None:
            body = AttrStmt(data, LAYOUT, StringImm(layout), body)
        return node.replace(body=body)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class InferFragment(PrimFuncPass):
    """Say the shape and layout of fragments of tensor cores where they are allocated, which their types in C++ need.

    Runs on lowered programs. The shape, m, n and k, is what ``tvm_load_matrix_sync``, ``tvm_store_matrix_sync`` and
    ``tvm_fill_fragment`` say; the fragments of ``tvm_mma_sync`` have one. The layout of ``wmma.matrix_a`` and ``wmma.matrix_b`` is that of
    their loads; accumulators have none.

    Before::

        A_frag = T.allocate([256], "float16", "wmma.matrix_a")
        T.tvm_load_matrix_sync(A_frag, 16, 16, 16, 0, T.tvm_access_ptr(...), 16, "row_major")

    After::

        A_frag = T.allocate([256], "float16", "wmma.matrix_a")
        with T.attr(A_frag, "fragment_layout", "row_major"), T.attr(A_frag, "fragment_shape", "16, 16, 16"):
            T.tvm_load_matrix_sync(A_frag, 16, 16, 16, 0, T.tvm_access_ptr(...), 16, "row_major")

    Raises:
        IRValueError: calls say different things of one fragment, take another memory for one, or say nothing of one.
    """

    pass_name = "tir.InferFragment"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function whose allocations of fragments have attributes."""
        found = _Collect()
        found.visit(func.body)
        found.combine()
        return func.replace(body=_Attach(found).visit(func.body))
