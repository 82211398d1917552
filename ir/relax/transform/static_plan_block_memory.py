"""StaticPlanBlockMemory: tensors of one block that are never live together share storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ... import dtype as dt
from ...arith.analyzer import Analyzer
from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...structural import structural_equal
from ...tir.expr import IntImm, Mul
from ...tir.expr import Var as TirVar
from ...tir.operators import const
from ...tir.stmt_functor import substitute
from ...transform import PassContext
from ..expr import (
    BindingBlock,
    Call,
    DataTypeImm,
    Expr,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..function import ExternFunc, Function
from ..struct_info import ObjectStructInfo, ShapeStructInfo
from ..symbolic_vars import defined_symbolic_vars
from .binding_rewriter import BindingRewriter, is_call_to
from .function_pass import FunctionPass

_RANGE = 16
"""Storage is reused for a tensor at most this many times smaller or larger."""

_VIEWS = (
    "relax.reshape",
    "relax.memory.view",
    "relax.memory.ensure_zero_offset",
    "relax.flatten",
    "relax.expand_dims",
)


@dataclass
class _Token:
    """Storage: what it must hold, in bytes (a symbolic number is an expression), and its variable once it is emitted."""

    size: Any
    dtype: str
    var: Var | None = None


@dataclass
class _Lifetimes:
    """Of the tensors that one block allocates and that do not leave it."""

    root: dict[Var, Any] = field(default_factory=dict)
    """The allocation that a variable is (a view of); of tuples, those of the fields, None for other values."""
    last: dict[Var, int] = field(default_factory=dict)
    escaping: set[Var] = field(default_factory=set)


def _collect(block: BindingBlock, used_outside: set[Var]) -> _Lifetimes:
    lives = _Lifetimes()
    for number, binding in enumerate(block.bindings):
        value: Expr = binding.value  # type: ignore[attr-defined]
        var = binding.var
        if is_call_to(value, "relax.builtin.alloc_tensor"):
            lives.root[var] = var
            lives.last[var] = number
        elif isinstance(value, Var | Tuple | TupleGetItem) or is_call_to(value, *_VIEWS):
            source = value.args[0] if isinstance(value, Call) else value
            root = _root_of(source, lives)
            if root is not None:
                lives.root[var] = root
            _use(source, number, lives)
        elif isinstance(value, Call) and _only_reads_and_writes(value):
            for arg in value.args:
                _use(arg, number, lives)
        else:
            # Branches and calls of functions may keep a tensor beyond what is seen here.
            _escape(value, lives)
        if var in used_outside and var in lives.root:
            lives.escaping.update(_allocations(lives.root[var]))
    return lives


def _root_of(expr: Expr, lives: _Lifetimes) -> Any:
    """The allocation behind an expression, in the form of ``_Lifetimes.root``."""
    if isinstance(expr, Var):
        return lives.root.get(expr)
    if isinstance(expr, Tuple):
        roots = tuple(_root_of(item, lives) for item in expr.fields)
        return roots if any(root is not None for root in roots) else None
    if isinstance(expr, TupleGetItem):
        roots = _root_of(expr.tuple_value, lives)
        return roots[expr.index] if isinstance(roots, tuple) else None
    return None


def _allocations(root: Any) -> list[Var]:
    """The allocations in a root."""
    if isinstance(root, tuple):
        return [var for item in root for var in _allocations(item)]
    return [] if root is None else [root]


def _only_reads_and_writes(call: Call) -> bool:
    if isinstance(call.op, GlobalVar | ExternFunc):
        return True
    return isinstance(call.op, Op) and (
        call.op.name
        in ("relax.vm.call_tir_dyn", "relax.shape_of", "relax.call_tir", "relax.print", "relax.assert_op")
        or call.op.name.startswith("relax.memory.kill")
    )


def _use(expr: Any, number: int, lives: _Lifetimes) -> None:
    if isinstance(expr, Var):
        for root in _allocations(lives.root.get(expr)):
            lives.last[root] = number
    else:
        expr._visit_children(lambda child: _use(child, number, lives))


def _escape(expr: Any, lives: _Lifetimes) -> None:
    if isinstance(expr, Var):
        lives.escaping.update(_allocations(lives.root.get(expr)))
    elif isinstance(expr, SeqExpr):
        for block in expr.blocks:
            for binding in block.bindings:
                _escape(binding.value, lives)  # type: ignore[attr-defined]
        _escape(expr.body, lives)
    else:
        expr._visit_children(lambda child: _escape(child, lives))


class _Planner(BindingRewriter):
    def __init__(self, mod: IRModule, bounds: Mapping[TirVar, int]) -> None:
        super().__init__(mod)
        self._bounds = bounds
        self._used_outside: set[Var] = set()
        self._analyzer = Analyzer()

    def visit_seq(self, seq: SeqExpr) -> SeqExpr:
        outer = self._used_outside
        self._used_outside = outer | _used_across_blocks(seq)
        try:
            return super().visit_seq(seq)
        finally:
            self._used_outside = outer

    def visit_block(self, block: BindingBlock) -> None:
        lives = _collect(block, self._used_outside)
        sizes: dict[Var, Any] = {}
        for binding in block.bindings:
            var = binding.var
            if lives.root.get(var) is var and var not in lives.escaping:
                size = self._size(binding.value)  # type: ignore[attr-defined]
                if size is not None:
                    sizes[var] = size
        tokens = _assign(block, lives, sizes)
        for binding in block.bindings:
            token = tokens.get(binding.var)
            if token is None or not isinstance(binding, VarBinding):
                self._visit_nested(binding)
                continue
            self._emit_tensor(binding, token)

    def _emit_tensor(self, binding: VarBinding, token: _Token) -> None:
        alloc: Any = binding.value
        device = alloc.args[2] if len(alloc.args) > 2 else PrimValue(0)
        scope = alloc.args[3] if len(alloc.args) > 3 else StringImm("global")
        if token.var is None:
            args = (ShapeExpr([token.size]), device, scope, DataTypeImm(token.dtype))
            call = Call(Op.get("relax.memory.alloc_storage"), args, None, None, None, ObjectStructInfo())
            token.var = self.emit(call, "storage")
        operands = (token.var, PrimValue(0), self.substitute(alloc.args[0]), alloc.args[1])
        info = binding.var.struct_info_
        self.bind(
            binding.var, Call(Op.get("relax.memory.alloc_tensor"), operands, None, None, alloc.span, info)
        )

    def _size(self, alloc: Any) -> Any:
        """Bytes of a tensor, by upper bounds of symbolic extents; an expression where there are none, None if unknown."""
        shape, dtype = alloc.args[:2]
        values = shape.values if isinstance(shape, ShapeExpr) else None
        if values is None and isinstance(shape.struct_info_, ShapeStructInfo):
            values = shape.struct_info_.values
        if values is None:
            return None
        total: Any = const(dt.bytes_of(dtype.value), "int64")
        for value in values:
            total = total * (substitute(value, self._bounds) if self._bounds else value)
        total = self._analyzer.simplify(total)
        if isinstance(total, IntImm):
            return total.value
        if isinstance(total, Mul) and isinstance(total.b, IntImm):
            return Mul(total.b, total.a)
        return total


def _assign(block: BindingBlock, lives: _Lifetimes, sizes: dict[Var, Any]) -> dict[Var, _Token]:
    """Storage for each tensor, first come first served, from what is free at that point."""
    tokens: dict[Var, _Token] = {}
    free: list[_Token] = []
    ends: dict[int, list[Var]] = {}
    for root in sizes:
        ends.setdefault(lives.last[root], []).append(root)
    for number, binding in enumerate(block.bindings):
        var = binding.var
        if var in sizes:
            dtype = binding.value.args[1].value  # type: ignore[attr-defined]
            tokens[var] = _reused(free, sizes[var], dtype) or _Token(sizes[var], dtype)
        free += [tokens[root] for root in ends.get(number, ()) if root in tokens]
    return tokens


def _reused(free: list[_Token], size: Any, dtype: str) -> _Token | None:
    fitting = [token for token in free if token.dtype == dtype]
    if not isinstance(size, int):
        # Symbolic sizes are not ordered: only storage of the very size will do.
        chosen = next((token for token in fitting if structural_equal(token.size, size)), None)
        if chosen is not None:
            free.remove(chosen)
        return chosen
    known = [token for token in fitting if isinstance(token.size, int)]
    larger = [token for token in known if size <= token.size <= size * _RANGE]
    smaller = [token for token in known if size // _RANGE <= token.size < size]
    chosen = (
        min(larger, key=lambda t: t.size)
        if larger
        else max(smaller, key=lambda t: t.size)
        if smaller
        else None
    )
    if chosen is not None:
        free.remove(chosen)
        chosen.size = max(chosen.size, size)
    return chosen


def _used_across_blocks(seq: SeqExpr) -> set[Var]:
    """Variables that another block or the result uses."""
    home: dict[Var, BindingBlock] = {}
    used: set[Var] = set()

    def visit(node: Any, block: BindingBlock | None) -> None:
        if isinstance(node, Var):
            if home.get(node) is not block:
                used.add(node)
        elif isinstance(node, SeqExpr):
            for inner in node.blocks:
                for binding in inner.bindings:
                    visit(binding.value, None)  # type: ignore[attr-defined]
            visit(node.body, None)
        else:
            node._visit_children(lambda child: visit(child, block))

    for block in seq.blocks:
        for binding in block.bindings:
            home[binding.var] = block
            visit(binding.value, block)  # type: ignore[attr-defined]
    visit(seq.body, None)
    return used


def upper_bounds(func: Function) -> dict[TirVar, int]:
    """Bounds of symbolic variables in the signature, from the attribute ``tir_var_upper_bound``."""
    given = func.attrs.get("tir_var_upper_bound")
    if not given:
        return {}
    values: dict[str, Any] = dict(given)
    named = {name: int(getattr(value, "value", value)) for name, value in values.items()}  # type: ignore[arg-type]
    return {var: named[var.name] for var in defined_symbolic_vars(func) if var.name in named}


@dataclass(frozen=True)
class StaticPlanBlockMemory(FunctionPass):
    """Replace ``R.builtin.alloc_tensor`` of tensors that stay inside a block by tensors in shared storage.

    Before::

        alloc = R.builtin.alloc_tensor(R.shape([2, 4]), R.dtype("float32"), R.prim_value(0))
        _ = cls.exp(x, alloc)
        alloc1 = R.builtin.alloc_tensor(R.shape([8]), R.dtype("float32"), R.prim_value(0))
        ...

    After::

        storage = R.memory.alloc_storage(R.shape([32]), R.prim_value(0), R.str("global"), R.dtype("float32"))
        alloc = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([2, 4]), R.dtype("float32"))
        _ = cls.exp(x, alloc)
        ...

    Symbolic extents are planned by upper bounds: ``R.func_attr({"tir_var_upper_bound": {"n": 1024}})``; without a bound,
    tensors share storage when their sizes are the same expression. What the function returns keeps its allocation.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with planned memory."""
        return _Planner(mod, upper_bounds(func)).rewrite(func)


__all__ = ["StaticPlanBlockMemory", "upper_bounds"]
