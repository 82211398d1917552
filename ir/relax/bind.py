"""Putting values in place of variables: symbolic shapes, parameters, whole function bodies; and renewing variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..arith.analyzer import Analyzer
from ..error import IRTypeError, IRValueError
from ..expr import GlobalVar, RelaxExpr
from ..tir.expr import IntImm, PrimExpr
from ..tir.expr import Var as TirVar
from ..tir.stmt_functor import substitute
from .expr import BindingBlock, DataflowBlock, DataflowVar, Id, MatchCast, SeqExpr, Var, const
from .expr_functor import ExprMutator
from .expr_substitution import ExprSubstitution
from .function import Function
from .struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    as_dim,
)
from .struct_info_lattice import BaseCheckResult, match_param, prove_dim_equal, struct_info_base_check
from .symbolic_vars import (
    definable_tir_vars_in_struct_info,
    defined_symbolic_vars,
    free_symbolic_vars,
)


def substituted(expr: PrimExpr, symbols: Mapping[Any, Any]) -> PrimExpr:
    """The expression with variables replaced, simplified when that changed it."""
    new = substitute(expr, symbols)
    return new if new is expr or isinstance(new, TirVar | IntImm) else Analyzer().simplify(new)


class _Bind(ExprSubstitution):
    """Replaces Relax variables (by identity) and symbolic variables everywhere."""

    def __init__(self, values: Mapping[Any, RelaxExpr], symbols: Mapping[TirVar, PrimExpr]) -> None:
        super().__init__({var.vid: value for var, value in values.items()})
        self._symbols = dict(symbols)

    def visit_prim_expr(self, expr: PrimExpr) -> PrimExpr:
        return substituted(expr, self._symbols) if self._symbols else expr


def bind(
    expr: Any, values: Mapping[Var, RelaxExpr] | None = None, symbols: Mapping[Any, Any] | None = None
) -> Any:
    """Replace Relax variables and symbolic variables in an expression; the struct infos are rewritten along."""
    symbols = {
        var: as_dim(value) if var.dtype == "int64" else value for var, value in (symbols or {}).items()
    }
    return _Bind(values or {}, symbols).visit_expr(expr)


def bound_struct_info(info: StructInfo, symbols: Mapping[Any, Any]) -> StructInfo:
    """A struct info with symbolic variables replaced."""
    return _Bind({}, symbols).visit_struct_info(info) if symbols else info


def match_struct_info(param: StructInfo, value: StructInfo, found: dict[Any, Any]) -> None:
    """Collect what the symbolic variables of ``param`` are when a value of struct info ``value`` is passed for it."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(param, TensorStructInfo) and isinstance(value, TensorStructInfo):
        if param.shape_values is not None and value.shape_values is not None:
            pairs = list(zip(param.shape_values, value.shape_values, strict=False))
    elif isinstance(param, ShapeStructInfo) and isinstance(value, ShapeStructInfo):
        if param.values is not None and value.values is not None:
            pairs = list(zip(param.values, value.values, strict=False))
    elif isinstance(param, PrimStructInfo) and isinstance(value, PrimStructInfo):
        if param.value is not None and value.value is not None:
            pairs = [(param.value, value.value)]
    elif isinstance(param, TupleStructInfo) and isinstance(value, TupleStructInfo):
        for left, right in zip(param.fields, value.fields, strict=False):
            match_struct_info(left, right, found)
    for left, right in pairs:
        if isinstance(left, TirVar) and left is not right:
            if left in found and not prove_dim_equal(found[left], right):
                raise IRValueError(
                    f"symbolic variable {left.name} is bound to both {found[left]} and {right}"
                )
            found[left] = right


def bind_symbolic_vars(func: Function, binding_map: Mapping[Any, Any]) -> Function:
    """A copy of ``func`` with symbolic variables replaced; keys are variables or names.

    Raises:
        IRValueError: a name is unknown or ambiguous, or a variable is not one of the function's.
    """
    variables = list(dict.fromkeys([*defined_symbolic_vars(func), *free_symbolic_vars(func)]))
    symbols: dict[TirVar, Any] = {}
    for key, value in binding_map.items():
        matches = [var for var in variables if (var.name == key if isinstance(key, str) else var is key)]
        if not matches:
            raise IRValueError(
                f"bind_symbolic_vars: {key} is no symbolic variable of the function; it has {variables}"
            )
        for var in matches:
            if var in symbols:
                raise IRValueError(f"bind_symbolic_vars: symbolic variable {var.name} is given twice")
            symbols[var] = value
    if not symbols:
        return func
    return bind(func, None, symbols)


def bind_params(func: Function, binding_map: Mapping[Any, Any]) -> Function:
    """A copy of ``func`` in which parameters (by variable or name) are replaced by arrays, constants or expressions.

    Raises:
        IRTypeError: the parameters are not given by name or variable.
        IRValueError: a name is no parameter, or the value cannot be passed for the parameter.
    """
    if not isinstance(binding_map, Mapping):
        raise IRTypeError(
            f"bind_params: parameters are given by name, as in {{'w': array}}, got {type(binding_map).__name__}"
        )
    by_name: dict[str, list[Var]] = {}
    for param in func.params:
        by_name.setdefault(param.name_hint, []).append(param)
    values: dict[Var, RelaxExpr] = {}
    for key, value in binding_map.items():
        if isinstance(key, str):
            if len(by_name.get(key, ())) != 1:
                problem = "is ambiguous" if key in by_name else f"does not exist; there are {sorted(by_name)}"
                raise IRValueError(f"bind_params: parameter {key!r} {problem}")
            param = by_name[key][0]
        else:
            param = key
            if not any(item is param for item in func.params):
                raise IRValueError(f"bind_params: {param.name_hint} is no parameter of the function")
        if not isinstance(value, RelaxExpr):
            wanted = param.struct_info_.dtype if isinstance(param.struct_info_, TensorStructInfo) else None
            value = const(value, _dtype_of(value) or wanted or None)
        values[param] = value
    symbols: dict[Any, Any] = {}
    for param, value in values.items():
        match_struct_info(param.struct_info, value.struct_info, symbols)
    for param, given in values.items():
        expected = bound_struct_info(param.struct_info, symbols)
        if struct_info_base_check(expected, given.struct_info) is BaseCheckResult.FAIL_L0:
            raise IRValueError(
                f"bind_params: parameter {param.name_hint} is {expected}, it cannot be {given.struct_info}"
            )
    kept = [param for param in func.params if param not in values]
    bound = Function(kept, func.body, func.ret_struct_info, func.is_pure, func.attrs, func.span)
    return bind(bound, values, symbols)


def _dtype_of(value: Any) -> str | None:
    """The dtype of an array, whatever its byte order and whoever's it is (``torch.float32``); None of numbers and lists."""
    dtype = getattr(value, "dtype", None)
    return None if dtype is None else getattr(dtype, "name", str(dtype).removeprefix("torch."))


class _CopyWithNewVars(ExprSubstitution):
    """Gives every defined variable, symbolic ones included, a new identity."""

    def __init__(self) -> None:
        super().__init__()
        self._symbols: dict[TirVar, PrimExpr] = {}

    def visit_prim_expr(self, expr: PrimExpr) -> PrimExpr:
        return substitute(expr, self._symbols) if self._symbols else expr

    def define(self, info: StructInfo) -> None:
        for var in definable_tir_vars_in_struct_info(info):
            if var not in self._symbols:
                self._symbols[var] = type(var)(var.name, var.dtype)

    def visit_var_def_(self, var: Any) -> Any:
        info = None if var.struct_info_ is None else self.visit_struct_info(var.struct_info_)
        new = self._values[var.vid] = type(var)(var.name_hint, info, var.span)
        return new

    def visit_function_(self, expr: Any) -> Any:
        for param in expr.params:
            self.define(param.struct_info)
        return super().visit_function_(expr)

    def visit_match_cast_(self, binding: Any) -> Any:
        self.define(binding.struct_info)
        return super().visit_match_cast_(binding)


def copy_with_new_vars(func: Function) -> Function:
    """A copy of a function in which every variable that it defines, symbolic ones included, is a new one."""
    return _CopyWithNewVars().visit_expr(func)


class _Inline(ExprMutator):
    """Replaces calls of given functions by their bodies."""

    def __init__(self, functions: Mapping[Any, Function]) -> None:
        super().__init__()
        self._functions = functions
        self._active: list[str] = []

    def _callee(self, op: Any) -> Function | None:
        if not isinstance(op, GlobalVar):
            return None
        for key, func in self._functions.items():
            if key is op or (key if isinstance(key, str) else key.name_hint) == op.name_hint:
                return func
        return None

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        func = self._callee(call.op)
        if func is None:
            return call
        name = call.op.name_hint
        if name in self._active:
            raise IRValueError(
                f"inline_functions: {name} calls itself ({' -> '.join([*self._active, name])})"
            )
        self._active.append(name)
        try:
            return self.visit_expr(inlined_body(func, call.args))
        finally:
            self._active.pop()


def inlined_body(func: Function, args: tuple[RelaxExpr, ...]) -> SeqExpr:
    """The body of ``func`` with arguments in place of the parameters and new variables for its own.

    What a call would check of an argument, since it is not known of it, is checked by a ``match_cast``.
    """
    if len(args) != len(func.params):
        raise IRTypeError(f"inlining a function of {len(func.params)} parameters with {len(args)} arguments")
    copy = copy_with_new_vars(func)
    symbols: dict[Any, Any] = {}
    for param, arg in zip(copy.params, args, strict=True):
        match_param(param.struct_info, arg.struct_info, symbols)
    checks: list[MatchCast] = []
    values: dict[Var, RelaxExpr] = {}
    for param, arg in zip(copy.params, args, strict=True):
        wanted = bound_struct_info(param.struct_info, symbols)
        values[param] = arg
        if struct_info_base_check(wanted, arg.struct_info) is not BaseCheckResult.PASS:
            values[param] = Var(param.name_hint, wanted)
            checks.append(MatchCast(values[param], arg, wanted))
    body = bind(copy.body, values, symbols)
    if not checks:
        return body
    return SeqExpr((BindingBlock(checks), *body.blocks), body.body, body.struct_info_)


class _Promotion(ExprSubstitution):
    """Makes some dataflow variables visible outside of their blocks."""

    def __init__(self, crossing: set[Id]) -> None:
        super().__init__()
        self._crossing = crossing

    def visit_var_def_(self, var: Any) -> Any:
        if var.vid not in self._crossing:
            return super().visit_var_def_(var)
        new = self._values[var.vid] = Var(var.name_hint, var.struct_info_, var.span)
        return new


def _crossing_vars(func: Function) -> set[Id]:
    """The dataflow variables that are used outside of the block that binds them."""
    home: dict[Id, BindingBlock] = {}
    crossing: set[Id] = set()

    def visit(node: Any, block: BindingBlock | None) -> None:
        if isinstance(node, DataflowVar):
            if home.get(node.vid, block) is not block:
                crossing.add(node.vid)
        elif isinstance(node, SeqExpr):
            for inner in node.blocks:
                for binding in inner.bindings:
                    # What stands in a local function or branch of a dataflow block is inside of that.
                    visit(
                        binding.value, inner if isinstance(inner, DataflowBlock) or block is None else block
                    )  # type: ignore[attr-defined]
                    home[binding.var.vid] = inner
            visit(node.body, block)
        else:
            node._visit_children(lambda child: visit(child, block))

    visit(func.body, None)
    return crossing


def inline_functions(func: Function, function_map: Mapping[Any, Function]) -> Function:
    """A copy of ``func`` in which calls of the functions in the map (by GlobalVar or name) are replaced by their bodies.

    A body that a dataflow block cannot hold splits the block; what is used on the other side is no dataflow variable any more.
    """
    inlined = _Inline(function_map).visit_expr(func)
    crossing = set() if inlined is func else _crossing_vars(inlined)
    return _Promotion(crossing).visit_expr(inlined) if crossing else inlined  # type: ignore[no-any-return]
