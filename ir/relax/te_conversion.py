"""From a function over te tensors and Relax arguments to a PrimFunc and the pieces of its ``call_tir``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import te
from ..error import IRTypeError
from ..expr import RelaxExpr
from ..tir.expr import PrimExpr
from ..tir.expr import Var as TirVar
from ..tir.function import PrimFunc
from ..tir.stmt_functor import substitute
from .expr import PrimValue, ShapeExpr, StringImm, Tuple
from .struct_info import PrimStructInfo, ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from .symbolic_vars import tir_vars_in


def _placeholder_name(index: int) -> str:
    """A, B, ..., Z, A1, B1, ..."""
    letter = chr(ord("A") + index % 26)
    return letter if index < 26 else f"{letter}{index // 26}"


class _Arguments:
    """Converts arguments; every symbolic variable becomes a fresh one, so that the PrimFunc shares none with its caller."""

    def __init__(self) -> None:
        self.call_args: list[RelaxExpr] = []
        self.placeholders: list[Any] = []
        self.fresh: dict[TirVar, TirVar] = {}
        self.extra: list[PrimExpr] = []

    def tir(self, expr: PrimExpr) -> PrimExpr:
        for var in tir_vars_in(expr):
            if var not in self.fresh:
                self.fresh[var] = type(var)(var.name, var.dtype)
        return substitute(expr, self.fresh) if self.fresh else expr

    def scalar(self, expr: PrimExpr) -> PrimExpr:
        new = self.tir(expr)
        self.extra.append(new)
        return new

    def convert(self, arg: Any) -> Any:
        if isinstance(arg, RelaxExpr):
            return self._relax(arg)
        if isinstance(arg, PrimExpr):
            return self.scalar(arg)
        if isinstance(arg, list | tuple):
            return type(arg)([self.convert(item) for item in arg]) if type(arg) in (list, tuple) else arg
        if isinstance(arg, Mapping):
            return {key: self.convert(item) for key, item in arg.items()}
        return arg

    def _relax(self, arg: RelaxExpr) -> Any:
        if isinstance(arg, StringImm):
            return arg.value
        if isinstance(arg, PrimValue):
            return self.scalar(arg.value)
        if isinstance(arg, ShapeExpr):
            return [self.scalar(value) for value in arg.values]
        if isinstance(arg, Tuple):
            return [self.convert(item) for item in arg.fields]
        info = arg.struct_info
        if isinstance(info, TensorStructInfo):
            if info.shape_values is None or not info.dtype:
                raise IRTypeError(
                    f"emit_te: argument {arg} needs a known shape and dtype, its struct info is {info};"
                    " use match_cast to give it a symbolic shape"
                )
            shape = [self.tir(value) for value in info.shape_values]
            tensor = te.placeholder(shape, info.dtype, _placeholder_name(len(self.placeholders)))
            self.placeholders.append(tensor)
            self.call_args.append(arg)
            return tensor
        if isinstance(info, ShapeStructInfo) and info.values is not None:
            return [self.scalar(value) for value in info.values]
        if isinstance(info, PrimStructInfo) and info.value is not None:
            return self.scalar(info.value)
        if isinstance(info, TupleStructInfo):
            return [self._relax(arg[index]) for index in range(len(info.fields))]  # type: ignore[index]
        raise IRTypeError(f"emit_te: cannot pass {arg} of struct info {info} to a te function")


def gen_call_tir_inputs(
    func: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[PrimFunc, Tuple, StructInfo | list[StructInfo], ShapeExpr | None]:
    """The PrimFunc of a te function applied to Relax arguments, and what its ``call_tir`` takes.

    Returns:
        The PrimFunc; the tensors to pass; the struct infos of the outputs; and the symbolic variables to pass as scalars,
        those that no tensor's extent tells.
    """
    state = _Arguments()
    te_args = [state.convert(arg) for arg in args]
    te_kwargs = {name: state.convert(arg) for name, arg in kwargs.items()}
    outs = func(*te_args, **te_kwargs)
    many = isinstance(outs, list | tuple)
    out_list = list(outs) if many else [outs]
    taken = set(state.placeholders)
    for position, out in enumerate(out_list):
        if not isinstance(out, te.Tensor):
            raise IRTypeError(
                f"{getattr(func, '__name__', 'the te function')} must return te tensors, got {type(out).__name__}"
            )
        if out in taken:  # an argument, or an output for the second time: the kernel fills memory of its own
            out_list[position] = _copy(out)
        taken.add(out)
    unbound = _unbound_vars([*state.placeholders, *out_list], state.extra)
    prim_func = te.create_prim_func([*state.placeholders, *out_list, *unbound], "int64").without_attr(
        "global_symbol"
    )
    back = {new: old for old, new in state.fresh.items()}
    # what is computed of tensors of one device is there, too
    devices = {getattr(arg.struct_info_, "vdevice", None) for arg in state.call_args} - {None}
    vdevice = devices.pop() if len(devices) == 1 else None
    sinfos: list[StructInfo] = [
        TensorStructInfo([substitute(dim, back) for dim in out.shape], out.dtype, vdevice) for out in out_list
    ]
    tir_vars = ShapeExpr([back[var] for var in unbound]) if unbound else None
    return prim_func, Tuple(state.call_args), sinfos if many else sinfos[0], tir_vars


def _copy(tensor: te.Tensor) -> te.Tensor:
    found: te.Tensor = te.compute(tensor.shape, lambda *indices: tensor(*indices), name="T_copy")
    return found


def _unbound_vars(tensors: list[Any], extra: list[PrimExpr]) -> list[TirVar]:
    """The variables that shapes and scalar arguments use and that are no tensor's extent by themselves."""
    bound = {dim for tensor in tensors for dim in tensor.shape if isinstance(dim, TirVar)}
    used: dict[TirVar, None] = {}
    for expr in [*(dim for tensor in tensors for dim in tensor.shape), *extra]:
        for var in tir_vars_in(expr):
            used.setdefault(var)
    return [var for var in used if var not in bound]


def te_tensor(
    value: RelaxExpr, tir_var_map: Mapping[Any, PrimExpr] | None = None, name: str = "rxplaceholder"
) -> Any:
    """A te placeholder with the shape and dtype of ``value``; symbolic variables are replaced through ``tir_var_map``."""
    info = value.struct_info
    if not isinstance(info, TensorStructInfo) or info.shape_values is None or not info.dtype:
        raise IRTypeError(f"te_tensor needs a tensor with known shape and dtype, got {info}")
    shape: Sequence[Any] = info.shape_values
    if tir_var_map:
        shape = [substitute(dim, tir_var_map) for dim in shape]
    return te.placeholder(shape, info.dtype, name)
