"""What a straight-line statement computes: its operations, how it uses buffers, and what engines of their own do for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ir import dtype as dt
from ir import structural_equal, tir
from ir.node import Visitor
from ir.tir.intrinsic.declaration import is_transparent

from .warp_tile import BoxCopy, GroupProduct, box_copy, group_product

_MAP = "tir.tensor_map_encode_tiled"
_TF32 = "tir.round_to_tf32"
"""Some bits less, for which nothing is approximated."""
_FLOAT_NAMES = {
    "Add": "float_addsub",
    "Sub": "float_addsub",
    "Mul": "float_mul",
    "Div": "float_divmod",
    "Mod": "float_divmod",
    "FloorDiv": "float_divmod",
    "FloorMod": "float_divmod",
}


class Operations(Visitor):
    """Counts arithmetic and collects accesses in a leaf statement."""

    def __init__(self, names: Mapping[Any, Any] | None = None) -> None:
        super().__init__()
        self._names = names or {}
        self.products: list[GroupProduct] = []
        self.copies: list[BoxCopy] = []
        """What engines of their own multiply and copy."""
        self.counts: dict[str, int] = {}
        self.sites: list[tuple[str, Any]] = []
        """(kind, expression) of every operation."""
        self.accesses: list[tuple[tir.Buffer, tuple[Any, ...], bool]] = []
        self.inner: list[tir.For] = []
        self.lets: list[tuple[Any, Any]] = []
        """Names in the order in which they are bound."""

    def _count(self, name: str, node: Any) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
        self.sites.append((name, node))

    def visit_BufferLoad(self, load: tir.BufferLoad) -> None:
        self.accesses.append((load.buffer, load.indices, False))

    def visit_BufferStore(self, store: tir.BufferStore) -> None:
        value = store.value
        fused = (
            isinstance(value, tir.Add)
            and dt.is_float(value.dtype)
            and any(isinstance(side, tir.Mul) for side in (value.a, value.b))
        )
        if fused:
            assert isinstance(value, tir.Add)
            self._count("float_mad", value)
            for side in (value.a, value.b):
                for part in (side.a, side.b) if isinstance(side, tir.Mul) else (side,):
                    self.visit(part)
        else:
            self.visit(value)
        self.accesses.append((store.buffer, store.indices, True))

    def visit_LetStmt(self, let: tir.LetStmt) -> None:
        self.visit(let.value)
        self.lets.append((let.var, let.value))
        self.visit(let.body)

    def visit_For(self, loop: tir.For) -> None:
        self.inner.append(loop)
        self.visit(loop.body)

    def _arithmetic(self, node: Any) -> None:
        kind = "float" if dt.is_float(node.a.dtype) else "int"
        if kind == "int":
            self._count("int_ops", node)
        else:
            self._count(_FLOAT_NAMES.get(type(node).__name__, "float_cmp"), node)
        self.generic_visit(node)

    visit_BinaryOpExpr = visit_CmpExpr = _arithmetic

    def visit_LogicalExpr(self, node: Any) -> None:
        self._count("bool_ops", node)
        self.generic_visit(node)

    def visit_Select(self, node: Any) -> None:
        self._count("select", node)
        self.generic_visit(node)

    def visit_Call(self, node: tir.Call) -> None:
        name = getattr(node.op, "name", "call")
        product, copy = group_product(node), box_copy(node, {**self._names, **dict(self.lets)})
        self.products += [] if product is None else [product]
        self.copies += [] if copy is None else [copy]
        if product is not None or copy is not None or name == _MAP:
            return  # addresses, of which the thread itself reads nothing
        if name == "tir.if_then_else" or is_transparent(node):
            self._count("select", node)
        elif dt.is_float(node.dtype) and name != _TF32:
            self._count("float_math", node)
        else:
            self._count("int_ops", node)
        self.generic_visit(node)

    def accumulates(self) -> bool:
        """Whether a store adds to what it replaces."""
        found = [(buffer, indices) for buffer, indices, is_write in self.accesses if is_write]
        return any(
            buffer is other and all(map(structural_equal, indices, places))
            for buffer, indices in found
            for other, places, is_write in self.accesses
            if not is_write
        )

    def groups(self, variables: frozenset[Any]) -> dict[frozenset[Any], dict[str, int]]:
        """Counts of operations by those of the variables on which their values depend: on all, where they depend on what is stored."""
        stored = {buffer for buffer, _, is_write in self.accesses if is_write}
        known: dict[Any, NamesOf] = {}
        for name, value in self.lets:
            known[name] = NamesOf(stored, known)
            known[name].visit(value)
        found: dict[frozenset[Any], dict[str, int]] = {}
        for kind, node in self.sites:
            names = NamesOf(stored, known)
            names.visit(node)
            counts = found.setdefault(variables if names.changes else variables & names.variables, {})
            counts[kind] = counts.get(kind, 0) + 1
        return found


class NamesOf(Visitor):
    """The variables of an expression, and whether it reads one of the buffers that are stored to; names for values stand for theirs."""

    def __init__(self, stored: set[tir.Buffer], known: Mapping[Any, NamesOf] | None = None) -> None:
        super().__init__()
        self._stored, self._known = stored, known or {}
        self.variables: set[Any] = set()
        self.changes = False

    def visit_Var(self, var: Any) -> None:
        named = self._known.get(var)
        if named is None:
            self.variables.add(var)
        else:
            self.variables |= named.variables
            self.changes |= named.changes

    def visit_BufferLoad(self, load: tir.BufferLoad) -> None:
        self.changes |= load.buffer in self._stored
        for index in load.indices:
            self.visit(index)
