"""Walks over TIR that know its variables: substitution, and the ready-made visitors and mutators for expressions and statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .. import dtype as dt
from ..node import TYPE_KEYS, Mutator, Node, Visitor, post_order_visit, remembered
from .buffer import Buffer
from .expr import BufferLoad, IntImm, IterVar, PrimExpr, Var
from .operators import cast, convert
from .stmt import (
    AttrStmt,
    Block,
    BufferRegion,
    For,
    Stmt,
)


class StmtExprVisitor(Visitor):
    """Visits every statement and expression; override ``visit_<ClassName>``."""


class StmtVisitor(Visitor):
    """Visits statements, but not the expressions in them; override ``visit_<ClassName>``."""

    def visit_PrimExpr(self, node: PrimExpr) -> None:
        """Nothing."""

    def visit_Buffer(self, buffer: Buffer) -> None:
        """Nothing."""

    def visit_BufferRegion(self, region: BufferRegion) -> None:
        """Nothing."""

    def visit_IterVar(self, axis: IterVar) -> None:
        """Nothing."""


class StmtExprMutator(Mutator):
    """Rewrites statements and expressions; buffers whose declarations change are replaced at every use.

    Variables and buffers at definitions go through :meth:`visit` like everything else.
    """

    def __init__(self) -> None:
        super().__init__()
        self._buffers: dict[Buffer, Buffer] = {}

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        """Map a buffer once; every use gets the same new buffer."""
        found = self._buffers.get(buffer)
        if found is None:
            found = self._buffers[buffer] = self.generic_visit(buffer)
        return found

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        """The attribute's node may be an IR node."""
        mapped = self.generic_visit(stmt)
        if isinstance(stmt.node, Node):
            node = self.visit(stmt.node)
            if node is not stmt.node:
                mapped = mapped.replace(node=node)
        return mapped

    def visit_annotations(self, annotations: dict[str, Any]) -> dict[str, Any]:
        """Map the nodes among annotation values."""
        mapped = {key: self._visit_value(value) for key, value in annotations.items()}
        return annotations if all(mapped[key] is annotations[key] for key in annotations) else mapped

    def _visit_value(self, value: Any) -> Any:
        if isinstance(value, Node):
            return self.visit(value)
        if isinstance(value, tuple | list):
            mapped = tuple(self._visit_value(item) for item in value)
            return value if all(a is b for a, b in zip(mapped, value, strict=True)) else mapped
        return value


class _Substitute(StmtExprMutator):
    def __init__(self, values: Callable[[Var], Any], given: Mapping[Any, Any] | None = None) -> None:
        """``given`` has other buffers for some."""
        super().__init__()
        self._values, self._given = values, given or {}
        self._found: dict[Var, Any] = {}

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        found: Buffer | None = self._given.get(buffer)
        return super().visit_Buffer(buffer) if found is None else found

    def visit_Var(self, var: Var) -> Any:
        found = self._found.get(var)
        if found is None:
            value = self._values(var)
            found = self._found[var] = var if value is None else _typed(var, value)
        return found

    def visit_For(self, loop: For) -> Stmt:
        mapped = self.generic_visit(loop)
        annotations = self.visit_annotations(loop.annotations) if loop.annotations else loop.annotations
        return mapped if annotations is loop.annotations else mapped.replace(annotations=annotations)

    def visit_Block(self, block: Block) -> Block:
        mapped = self.generic_visit(block)
        annotations = self.visit_annotations(block.annotations) if block.annotations else block.annotations
        return mapped if annotations is block.annotations else mapped.replace(annotations=annotations)

    def visit_PrimFunc(self, func: Any) -> Any:
        buffers = {param: self.visit(buffer) for param, buffer in func.buffer_map.items()}
        return func.replace(buffer_map=buffers, body=self.visit(func.body))


def substitute(node: Any, values: Mapping[Any, Any] | Callable[[Var], PrimExpr | None]) -> Any:
    """Replace variables (Var, and Buffer when the mapping has some) in an expression, statement, region or function.

    ``values`` maps Var to an expression, or is a function that returns None for variables to keep, which is asked once for each. An
    integer of another type than its variable's, or a vector of such, is cast to that, which what the variable stands in was typed for.
    """
    walker = _Substitute(values) if callable(values) else _Substitute(values.get, values)
    return walker.visit(node)


def _typed(var: Var, given: Any) -> Any:
    """A value in the type of the variable that it stands for, where both are integers; a vector stands for each of its lanes."""
    value = given if isinstance(given, Node) else convert(given)
    if not isinstance(value, PrimExpr) or value.dtype == var.dtype:
        return value
    lanes = dt.lanes(value.dtype)
    if not _is_integer(var.dtype) or not _is_integer(value.dtype) or dt.lanes(var.dtype) not in (1, lanes):
        return value
    return cast(dt.with_lanes(dt.element_of(var.dtype), lanes), value)


def _is_integer(dtype: str) -> bool:
    return dt.is_int(dtype) or dt.is_uint(dtype)


class _TransformOnce(Mutator):
    def __init__(
        self,
        preorder: Callable[[Any], Any] | None,
        postorder: Callable[[Any], Any] | None,
        only: tuple[type, ...],
    ) -> None:
        super().__init__()
        self._preorder, self._postorder, self._only = preorder, postorder, only

    def visit(self, node: Any) -> Any:
        matches = not self._only or isinstance(node, self._only)
        if self._preorder is not None and matches:
            replaced = self._preorder(node)
            if replaced is not None:
                return replaced
        mapped = self.generic_visit(node)
        if self._postorder is not None and (not self._only or isinstance(mapped, self._only)):
            replaced = self._postorder(mapped)
            if replaced is not None:
                return replaced
        return mapped


def ir_transform(
    stmt: Any,
    preorder: Callable[[Any], Any] | None,
    postorder: Callable[[Any], Any] | None,
    only_enable: list[str] | None = None,
) -> Any:
    """Rewrite recursively: ``preorder`` may replace a node before its children are visited, ``postorder`` behind them.

    ``only_enable`` lists type keys (``"tir.For"``) to which the functions are applied; None means all.
    """
    only = tuple(TYPE_KEYS[key] for key in only_enable) if only_enable else ()
    return _TransformOnce(preorder, postorder, only).visit(stmt)


def pre_order_visit(stmt: Any, fvisit: Callable[[Any], bool]) -> None:
    """Call ``fvisit`` on each node before its children; returning False skips the children."""
    if fvisit(stmt) is not False:
        stmt._visit_children(lambda child: pre_order_visit(child, fvisit))


def variables_in(*nodes: Any) -> list[Var]:
    """The variables in expressions and statements, each once, in the order in which they are met; integers have none.

    >>> i, j = Var("i"), Var("j")
    >>> [var.name for var in variables_in(i + j * 2, 4, i)]
    ['i', 'j']
    """
    found: dict[Var, None] = {}
    for node in nodes:
        if isinstance(node, Var):  # what a node remembers should not hold the node itself
            found.setdefault(node)
        elif isinstance(node, Node):
            found.update(dict.fromkeys(_variables(node)))
    return list(found)


@remembered
def _variables(node: Node) -> tuple[Var, ...]:
    found: dict[Var, None] = {}

    def visit(item: Any) -> None:
        if isinstance(item, Var):
            found.setdefault(item)

    post_order_visit(node, visit)
    return tuple(found)


def loads_in(node: PrimExpr | Stmt) -> list[BufferLoad]:
    """The loads in an expression or a statement, those in the index of a load before it.

    >>> from ir.tir import decl_buffer
    >>> A = decl_buffer((8,), "int32", "A")
    >>> [str(load) for load in loads_in(A[A[0]] + 1)]
    ['A[0]', 'A[A[0]]']
    """
    if isinstance(node, IntImm | Var):  # most are
        return []
    if isinstance(node, BufferLoad):  # what a node remembers should not hold the node itself
        return _found_loads(node)
    return list(_loads(node))


@remembered
def _loads(node: Node) -> tuple[BufferLoad, ...]:
    return tuple(_found_loads(node))


def _found_loads(node: Node) -> list[BufferLoad]:
    found: list[BufferLoad] = []
    post_order_visit(node, lambda item: found.append(item) if isinstance(item, BufferLoad) else None)
    return found


__all__ = [
    "StmtExprMutator",
    "StmtExprVisitor",
    "StmtVisitor",
    "ir_transform",
    "loads_in",
    "post_order_visit",
    "pre_order_visit",
    "substitute",
    "variables_in",
]
