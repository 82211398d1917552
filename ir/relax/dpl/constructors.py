"""Functions that make patterns, under the names in which patterns are written: ``is_op("relax.add")(wildcard(), is_const())``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...error import IRTypeError
from ...expr import RelaxExpr
from ...op import Op
from ..struct_info import StructInfo
from .pattern import (
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataflowVarPattern,
    DataTypePattern,
    DFPattern,
    ExprPattern,
    ExternFuncPattern,
    GlobalVarPattern,
    PrimArrPattern,
    StructInfoPattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
    VarPattern,
    WildcardPattern,
    as_pattern,
)


def is_var(name: str = "") -> VarPattern:
    """A variable."""
    return VarPattern(name)


def is_gv(name: str = "") -> GlobalVarPattern:
    """A reference to a function of the module."""
    return GlobalVarPattern(name)


def is_dfv(name: str = "") -> DataflowVarPattern:
    """A dataflow variable."""
    return DataflowVarPattern(name)


def is_const() -> ConstantPattern:
    """A constant tensor."""
    return ConstantPattern()


def is_expr(expr: RelaxExpr) -> ExprPattern:
    """Exactly an expression."""
    return ExprPattern(expr)


def is_op(op_name: str) -> ExprPattern:
    """An operator, to be called with patterns of its arguments."""
    return ExprPattern(Op.get(op_name))


def is_tuple(fields: Sequence[Any], unordered: bool = False) -> TuplePattern | UnorderedTuplePattern:
    """A tuple of fields, in order or in any order."""
    if not isinstance(fields, list | tuple):
        raise IRTypeError("is_tuple needs a list of patterns")
    return UnorderedTuplePattern(fields) if unordered else TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """A field of a tuple."""
    return TupleGetItemPattern(tuple_value, index)


def wildcard() -> WildcardPattern:
    """Any expression."""
    return WildcardPattern()


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """An expression (or what ``pattern`` describes) of a dtype."""
    return DataTypePattern(pattern if pattern is not None else wildcard(), dtype)


def is_shape(shape: Sequence[Any]) -> PrimArrPattern:
    """A shape expression of these extents."""
    if not isinstance(shape, list | tuple):
        raise IRTypeError("is_shape needs a list or tuple of extents")
    return PrimArrPattern(shape)


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """An expression (or what ``pattern`` describes) with attributes."""
    return AttrPattern(pattern if pattern is not None else wildcard(), attrs)


def has_struct_info(struct_info: StructInfo, pattern: DFPattern | None = None) -> StructInfoPattern:
    """An expression (or what ``pattern`` describes) with a struct info."""
    return StructInfoPattern(pattern if pattern is not None else wildcard(), struct_info)


def _args_pattern(args: Any) -> DFPattern:
    if args is None:
        return wildcard()
    if isinstance(args, list | tuple):
        return TuplePattern(args)
    return as_pattern(args)


def is_call_tir(func_name: str, args: Any = None, tir_vars: Any = None) -> CallPattern:
    """A call_tir of the function of that name; ``args`` are patterns of its tensors, default anything."""
    if tir_vars is None:
        return is_op("relax.call_tir")(
            GlobalVarPattern(func_name), _args_pattern(args), varg_default_wildcard=True, add_constraint=False
        )
    return is_op("relax.call_tir")(
        GlobalVarPattern(func_name), _args_pattern(args), tir_vars, add_constraint=False
    )


def is_call_dps_packed(func_name: str, args: Any = None) -> CallPattern:
    """A call_dps_packed of the external function of that name."""
    return is_op("relax.call_dps_packed")(
        ExternFuncPattern(func_name), _args_pattern(args), add_constraint=False
    )


def is_call_packed(func_name: str, args: Sequence[DFPattern] | None = None) -> CallPattern:
    """A direct call of the external function of that name."""
    callee = ExternFuncPattern(func_name)
    return callee(None) if args is None else callee(*args, add_constraint=False)


def make_fused_bias_activation_pattern(
    op_name: str, with_bias: bool = False, activation: str | None = None
) -> DFPattern:
    """``op(lhs, rhs)``, with an added bias and an activation if wanted.

    Args:
        op_name: such as "relax.nn.conv2d".
        with_bias: whether a bias is added.
        activation: the operator of the activation, such as "relax.nn.relu", or None.
    """
    lhs, rhs = wildcard(), wildcard()
    out: DFPattern = is_op(op_name)(lhs, rhs)
    if with_bias:
        out = is_op("relax.add")(out, wildcard())
    return is_op(activation)(out) if activation else out


def make_residual_block_pattern(
    node_output: DFPattern | tuple[DFPattern, ...], activation: str | None = "relu"
) -> DFPattern:
    """The output added to a residual input, with an activation if wanted."""
    if isinstance(node_output, tuple):
        node_output = node_output[0]
    residual = wildcard()
    out: DFPattern = is_op("relax.add")(node_output, residual) | is_op("relax.add")(residual, node_output)
    if activation is None:
        return out
    name = activation if activation.startswith("relax.") else f"relax.nn.{activation}"
    return is_op(name)(out)
