"""Calls out of the operator vocabulary: tensor expressions, PrimFuncs, external functions, debug functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ir.relax import op as _op
from ir.relax.expr import Expr, PrimValue, ShapeExpr, StringImm
from ir.relax.struct_info import ObjectStructInfo, StructInfo
from ir.tir.expr import PrimExpr
from ir.tir.expr import Var as TirVar
from ir.tir.function import PrimFunc

from ..error import NNError, NNTypeError
from ..tensor import Tensor, wrap_nested
from ..tracing import Trace, current_builder

OutType = TypeVar("OutType", bound=Tensor | Sequence[Tensor])


def tensor_expr_op(
    tensor_expr_func: Callable[..., Any],
    name_hint: str,
    args: list[Tensor | TirVar | int],
    *,
    attrs: dict[str, Any] | None = None,
) -> Any:
    """The result of a function on te tensors.

    Args:
        tensor_expr_func: takes te tensors, TIR variables and integers; returns a te tensor or a list of them.
        name_hint: the name of the PrimFunc and of the result.
        args: what to call it with.
        attrs: attributes of the PrimFunc.
    """
    out = current_builder().emit_te(
        tensor_expr_func,
        *[arg._expr if isinstance(arg, Tensor) else arg for arg in args],
        primfunc_name_hint=name_hint,
        **({} if attrs is None else {"primfunc_attrs": attrs}),
    )
    return wrap_nested(out, name_hint)


def _split_args(name: str, args: Any) -> tuple[list[Expr], list[PrimExpr]]:
    """Tensors, and the TIR values that a PrimFunc takes behind them."""
    tensors: list[Expr] = []
    values: list[PrimExpr] = []
    for arg in args if isinstance(args, list | tuple) else [args]:
        if isinstance(arg, Tensor):
            tensors.append(arg._expr)
        elif isinstance(arg, ShapeExpr):
            values += arg.values
        elif isinstance(arg, PrimExpr):
            values.append(arg)
        else:
            raise NNTypeError(
                f"{name}: an argument is a Tensor, a ShapeExpr or a tir.PrimExpr, got {type(arg).__name__}"
            )
    return tensors, values


def _named(func: PrimFunc, name: str) -> PrimFunc:
    """The function without a global symbol that is not the name it gets in the module."""
    return func if func.attrs.get("global_symbol", name) == name else func.without_attr("global_symbol")


def _out_info(out: Any) -> list[StructInfo]:
    return [item._expr.struct_info for item in (out if isinstance(out, list | tuple) else [out])]


def tensor_ir_op(
    func: PrimFunc,
    name_hint: str,
    args: Tensor | Sequence[Tensor | ShapeExpr | PrimExpr],
    out: OutType,
) -> OutType:
    """A ``call_tir`` of a PrimFunc.

    Args:
        func: the PrimFunc; it is added to the module that is being built.
        name_hint: its name and that of the result.
        args: its inputs.
        out: placeholders that tell the shape and dtype of its outputs.
    """
    return call_prim_func(func, name_hint, args, out, name_hint)


def call_prim_func(
    func: PrimFunc,
    func_name: str,
    args: Tensor | Sequence[Tensor | ShapeExpr | PrimExpr],
    out: OutType,
    name: str,
) -> OutType:
    """:func:`tensor_ir_op` whose result is called otherwise than its PrimFunc."""
    builder = current_builder()
    tensors, values = _split_args(func_name, args)
    infos = _out_info(out)
    call = _op.call_tir(
        builder.add_func(_named(func, func_name), func_name),
        tensors,
        infos if isinstance(out, list | tuple) else infos[0],
        tir_vars=values or None,
    )
    return wrap_nested(builder.emit(call, name), name)


def tensor_ir_inplace_op(
    func: PrimFunc,
    name_hint: str,
    args: Tensor | Sequence[Tensor | ShapeExpr | PrimExpr],
    inplace_indices: int | list[int],
    out: OutType,
) -> OutType:
    """A ``call_tir_inplace`` of a PrimFunc.

    Args:
        func, name_hint, args, out: as for :func:`tensor_ir_op`.
        inplace_indices: for each output the input whose memory it takes, or -1 for a new tensor; a number stands for a list of one. At
            least one must not be -1.
    """
    builder = current_builder()
    tensors, values = _split_args(name_hint, args)
    infos = _out_info(out)
    call = _op.call_tir_inplace(
        builder.add_func(_named(func, name_hint), name_hint),
        tensors,
        [inplace_indices] if isinstance(inplace_indices, int) else inplace_indices,
        infos if isinstance(out, list | tuple) else infos[0],
        tir_vars=values or None,
    )
    return wrap_nested(builder.emit(call), name=name_hint)


def _as_argument(name: str, arg: Any) -> Expr:
    if isinstance(arg, Tensor):
        return arg._expr
    if isinstance(arg, int | float | PrimExpr):
        return PrimValue(arg)
    if isinstance(arg, str):
        return StringImm(arg)
    raise NNTypeError(
        f"{name}: an argument is a Tensor, a tir.PrimExpr, an int, a float or a str, got {type(arg).__name__}"
    )


def extern(name: str, args: Sequence[Tensor | PrimExpr | int | float | str], out: OutType) -> OutType:
    """A call, at run time, of the function that is registered or linked under ``name``; it writes its outputs in place.

    Args:
        name: the function; a Python one is registered by ``ir.register_func``.
        args: its inputs.
        out: placeholders that tell the shape and dtype of its outputs.
    """
    infos = _out_info(out)
    call = _op.call_dps_packed(
        name, [_as_argument(name, arg) for arg in args], infos if isinstance(out, list | tuple) else infos[0]
    )
    return wrap_nested(call, name)


def _line(frame: Any) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def debug_func(
    name: str, *args: Tensor | PrimExpr | int | float | str, _line_info: str | None = None
) -> None:
    """Call a debug function when the program runs.

    The module must be exported with ``debug=True``. The function is registered as::

        @ir.register_func(name_of_debug_func)
        def debug_func(lineno: str, arg_0, arg_1, ...) -> None:
            ...

    Args:
        name: the debug function.
        *args: what to call it with, behind the line of the program.
    """
    effect = Trace.current().io_effect
    if effect is None or effect.effect is None:
        raise NNError("printing and debug functions need the debug mode: export the module with debug=True")
    if _line_info is None:
        frame = inspect.currentframe()
        _line_info = _line(frame.f_back) if frame is not None else "unknown"
    call = _op.call_pure_packed(
        "vm.builtin.invoke_debug_func",
        effect.effect,
        StringImm(name),
        StringImm(_line_info),
        *[_as_argument(name, arg) for arg in args],
        sinfo_args=[ObjectStructInfo()],
    )
    effect.effect = current_builder().emit(call, name_hint=effect.effect.name_hint)


def print_(tensor: Tensor) -> None:
    """Print a tensor when the program runs; the module must be exported with ``debug=True``."""
    frame = inspect.currentframe()
    line = _line(frame.f_back) if frame is not None else "unknown"
    debug_func("vm.builtin.debug_print", tensor, _line_info=line)
