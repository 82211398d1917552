"""Mapping Relax expressions bottom up without normalizing: the base of mutators, and substitution, which infers nothing again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ..expr import GlobalVar, RelaxExpr
from ..global_info import VDevice
from ..node import Mutator
from ..op import Op
from ..tir.expr import PrimExpr
from .expr import (
    Constant,
    DataflowVar,
    DataTypeImm,
    Id,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from .expr_dispatch import ExprFunctor
from .function import ExternFunc, Function
from .struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)


class _StructInfoFields(Mutator):
    """Maps the expressions inside struct infos through a mutator."""

    def __init__(self, owner: ExprMutatorBase) -> None:
        super().__init__()
        self._owner = owner

    def visit_PrimExpr(self, expr: Any) -> Any:
        return self._owner.visit_prim_expr(expr)

    def visit_Var(self, var: Any) -> Any:
        return self._owner.visit_prim_expr(var) if isinstance(var, PrimExpr) else self._owner.visit_expr(var)

    def visit_ShapeExpr(self, shape: Any) -> Any:
        return self.generic_visit(shape)

    def visit_VDevice(self, vdevice: Any) -> Any:
        return self._owner.visit_vdevice(vdevice)


def mentions_relax_vars(info: Any) -> bool:
    """Whether a struct info may hold a Relax variable: as the shape of a tensor."""
    kind = info.__class__
    if kind is TensorStructInfo:
        return isinstance(info.shape, Var)
    if kind is TupleStructInfo:
        return any(mentions_relax_vars(item) for item in info.fields)
    return kind not in _WITHOUT_RELAX_VARS


_WITHOUT_RELAX_VARS = frozenset({ObjectStructInfo, PrimStructInfo, ShapeStructInfo})


_LEAF_METHODS: dict[type, tuple[str, ...]] = {
    Constant: ("visit_constant_",),
    Var: ("visit_var_",),
    DataflowVar: ("visit_var_", "visit_dataflow_var_"),
    ShapeExpr: ("visit_shape_expr_", "visit_prim_expr", "visit_vdevice"),
    ExternFunc: ("visit_extern_func_",),
    GlobalVar: ("visit_global_var_",),
    Op: ("visit_op_",),
    PrimValue: ("visit_prim_value_", "visit_prim_expr"),
    StringImm: ("visit_string_imm_",),
    DataTypeImm: ("visit_data_type_imm_",),
}
"""The methods that a class overrides to change a kind of leaf."""


def inherits(cls: type, base: type, *methods: str) -> bool:
    """Whether a class has these methods from ``base``, none of them overridden."""
    return all(getattr(cls, name) is getattr(base, name) for name in methods)


class ExprMutatorBase(ExprFunctor):
    """Maps expressions bottom up without normalizing; bindings and blocks are rebuilt when something in them changed."""

    _maps_struct_infos: ClassVar[bool] = False
    """Whether the class maps what struct infos consist of; where it does not, shapes and most struct infos need no walk."""

    _kept: ClassVar[frozenset[type]] = frozenset()
    """Kinds of leaves that the class does not change: among operands they need no visit."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._maps_struct_infos = not inherits(cls, ExprMutatorBase, "visit_prim_expr", "visit_vdevice")
        cls._kept = frozenset(
            kind for kind, methods in _LEAF_METHODS.items() if inherits(cls, ExprMutatorBase, *methods)
        )

    def _same(self, expr: Any) -> Any:
        return expr

    visit_constant_ = _same
    visit_var_ = _same
    visit_extern_func_ = _same
    visit_global_var_ = _same
    visit_prim_func_ = _same
    visit_op_ = _same
    visit_string_imm_ = _same
    visit_data_type_imm_ = _same

    def visit_dataflow_var_(self, var: Any) -> Any:
        """A use of a dataflow variable: as of a variable."""
        return self.visit_var_(var)

    def visit_prim_expr(self, expr: PrimExpr) -> PrimExpr:
        """A TIR expression inside a shape, a scalar value or a struct info."""
        return expr

    def visit_vdevice(self, vdevice: VDevice) -> VDevice:
        """The virtual device in a tensor's struct info."""
        return vdevice

    def visit_struct_info(self, info: StructInfo) -> StructInfo:
        """A struct info: the expressions in it are mapped."""
        if self._maps_struct_infos or mentions_relax_vars(info):
            return _StructInfoFields(self).visit(info)  # type: ignore[no-any-return]
        return info

    def visit_expr_dep_struct_info_field(self, info: StructInfo) -> StructInfo:
        """As :meth:`visit_struct_info`."""
        return self.visit_struct_info(info)

    def _map_exprs(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        return items if self._kept.issuperset(map(type, items)) else self._map(items, self.visit_expr)

    def _map(self, items: tuple[Any, ...], f: Callable[[Any], Any]) -> tuple[Any, ...]:
        for number, item in enumerate(items):
            new = f(item)
            if new is not item:
                return (*items[:number], new, *[f(rest) for rest in items[number + 1 :]])
        return items

    def visit_tuple_(self, expr: Any) -> Any:
        """The fields."""
        fields = self._map_exprs(expr.fields)
        return expr if fields is expr.fields else Tuple(fields, None, expr.span)

    def visit_shape_expr_(self, expr: Any) -> Any:
        """The extents."""
        if not self._maps_struct_infos:
            return expr
        values = self._map(expr.values, self.visit_prim_expr)
        return expr if values is expr.values else ShapeExpr(values, None, expr.span)

    def visit_prim_value_(self, expr: Any) -> Any:
        """The TIR expression."""
        value = self.visit_prim_expr(expr.value)
        return expr if value is expr.value else PrimValue(value, None, expr.span)

    def visit_call_(self, expr: Any) -> Any:
        """The callee, the arguments and the struct info arguments; attributes stay."""
        op = expr.op if expr.op.__class__ in self._kept else self.visit_expr(expr.op)
        sinfo_args = expr.sinfo_args and self._map(expr.sinfo_args, self.visit_struct_info)
        args = self._map_exprs(expr.args)
        if op is expr.op and args is expr.args and sinfo_args is expr.sinfo_args:
            return expr
        return expr._rebuild(op, args, expr.attrs, sinfo_args, expr.struct_info_, expr.span)

    def visit_tuple_getitem_(self, expr: Any) -> Any:
        """The tuple."""
        value = self.visit_expr(expr.tuple_value)
        return expr if value is expr.tuple_value else TupleGetItem(value, expr.index, None, expr.span)

    def visit_if_(self, expr: Any) -> Any:
        """The condition and both branches."""
        cond = self.visit_expr(expr.cond)
        yes, no = self.visit_expr(expr.true_branch), self.visit_expr(expr.false_branch)
        if cond is expr.cond and yes is expr.true_branch and no is expr.false_branch:
            return expr
        return If(cond, yes, no, None, expr.span)

    def visit_seq_expr_(self, expr: Any) -> Any:
        """The blocks, then the body."""
        blocks = self._map(expr.blocks, self.visit_binding_block)
        body = self.visit_expr(expr.body)
        if blocks is expr.blocks and body is expr.body:
            return expr
        return SeqExpr([block for block in blocks if block.bindings], body, None, expr.span)

    def visit_function_(self, expr: Any) -> Any:
        """Parameters, body and result."""
        params = self._map(expr.params, self.visit_var_def)
        body = self.visit_expr(expr.body)
        ret = self.visit_struct_info(expr.ret_struct_info) if expr.ret_struct_info is not None else None
        if params is expr.params and body is expr.body and ret is expr.ret_struct_info:
            return expr
        return Function(params, body, ret, expr.is_pure, expr.attrs, expr.span)

    def visit_var_binding_(self, binding: Any) -> Any:
        """The value, then the definition."""
        value = self.visit_expr(binding.value)
        var = self.visit_var_def(binding.var)
        return (
            binding if value is binding.value and var is binding.var else VarBinding(var, value, binding.span)
        )

    def visit_match_cast_(self, binding: Any) -> Any:
        """The value, the struct info, then the definition."""
        value = self.visit_expr(binding.value)
        info = self.visit_struct_info(binding.struct_info)
        var = self.visit_var_def(binding.var)
        if value is binding.value and info is binding.struct_info and var is binding.var:
            return binding
        return MatchCast(var, value, info, binding.span)

    def visit_binding_block_(self, block: Any) -> Any:
        """The bindings in order."""
        bindings = self._map(block.bindings, self.visit_binding)
        return block if bindings is block.bindings else type(block)(bindings, block.span)

    def visit_dataflow_block_(self, block: Any) -> Any:
        """As any block."""
        return self.visit_binding_block_(block)

    def visit_var_def_(self, var: Any) -> Any:
        """The struct info; a changed one makes a new variable of the same identity."""
        if var.struct_info_ is None:
            return var
        info = self.visit_struct_info(var.struct_info_)
        return var if info is var.struct_info_ else type(var)(var.vid, info, var.span)

    def visit_dataflow_var_def_(self, var: Any) -> Any:
        """As any variable."""
        return self.visit_var_def_(var)


class ExprSubstitution(ExprMutatorBase):
    """Puts other things in place of parts of a program; what is known of an expression is mapped along, not inferred again.

    Args:
        values: what uses of variables become, by the variables' identities.
    """

    def __init__(self, values: Mapping[Id, RelaxExpr] | None = None) -> None:
        self._values: dict[Id, RelaxExpr] = dict(values or {})

    def visit_var_(self, var: Any) -> Any:
        """What is put in place of the variable."""
        return self._values.get(var.vid, var)

    def visit_var_def_(self, var: Any) -> Any:
        """A definition; uses follow it when it changes."""
        new = super().visit_var_def_(var)
        if new is not var:
            self._values[var.vid] = new
        return new

    def visit_call_(self, expr: Any) -> Any:
        """As the base class does, with the struct info mapped."""
        return self._with_struct_info(expr, super().visit_call_(expr))

    def visit_if_(self, expr: Any) -> Any:
        """As the base class does, with the struct info mapped."""
        return self._with_struct_info(expr, super().visit_if_(expr))

    def visit_seq_expr_(self, expr: Any) -> Any:
        """As the base class does, with the struct info mapped."""
        return self._with_struct_info(expr, super().visit_seq_expr_(expr))

    def _with_struct_info(self, old: Any, new: Any) -> Any:
        """The old struct info holds with the parts put in place (it may be less precise than a new inference)."""
        if old.struct_info_ is None:
            return new
        info = self.visit_struct_info(old.struct_info_)
        if (new is old and info is not old.struct_info_) or new.struct_info_ is None:
            return new.replace(struct_info_=info)
        return new
