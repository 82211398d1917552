"""The functions of Relax: those with a body, and those that are found by name when the program runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ..attrs import DictAttrs, as_attrs
from ..error import IRTypeError
from ..expr import GlobalVar, RelaxExpr
from ..external import external
from ..function import BaseFunc
from ..node import Node, field
from ..span import Span
from ..tir.expr import Call as TirCall
from ..tir.expr import PrimExpr
from ..tir.operators import convert
from .expr import Call, SeqExpr, Tuple, Var, as_seq, dropping_struct_info, set_span, set_struct_info
from .struct_info import FuncStructInfo, StructInfo, TupleStructInfo
from .struct_info_lattice import erase_to_well_defined
from .symbolic_vars import definable_tir_vars_in_struct_info


class Function(BaseFunc, type_key="relax.expr.Function"):
    """A Relax function; ``ret_struct_info`` may be left out when the body is normalized."""

    params: tuple[Var, ...] = field(defines=True)
    body: SeqExpr = field(convert=as_seq)
    ret_struct_info: StructInfo | None = field(default=None)
    is_pure: bool = field(default=True)
    attrs: DictAttrs = field(default=None, convert=as_attrs)

    _compare_order: ClassVar[tuple[str, ...]] = ("params", "ret_struct_info", "body", "is_pure", "attrs")

    def __init__(
        self,
        params: Sequence[Var],
        body: Any,
        ret_struct_info: StructInfo | None = None,
        is_pure: bool = True,
        attrs: Any = None,
        span: Span | None = None,
        struct_info_: StructInfo | None = None,
    ) -> None:
        params = tuple(params)
        for param in params:
            if not isinstance(param, Var):
                raise IRTypeError(
                    f"a parameter of a Function must be a relax.Var, got {type(param).__name__}"
                )
            if param.struct_info_ is None:
                raise IRTypeError(f"parameter {param.name_hint} of a Function needs a struct info")
        body = as_seq(body)
        if ret_struct_info is None:
            ret_struct_info = _body_struct_info(params, body)
        if struct_info_ is None and ret_struct_info is not None:
            struct_info_ = FuncStructInfo([param.struct_info_ for param in params], ret_struct_info, is_pure)
        _set_params(self, params)
        _set_body(self, body)
        _set_ret(self, ret_struct_info)
        _set_is_pure(self, bool(is_pure))
        _set_func_attrs(self, as_attrs(attrs))
        set_struct_info(self, struct_info_)
        set_span(self, span)

    @staticmethod
    def create_empty(
        params: Sequence[Var],
        ret_struct_info: StructInfo,
        is_pure: bool = True,
        attrs: Any = None,
        span: Span | None = None,
    ) -> Function:
        """A declaration: a function whose body is an empty tuple of the declared result type, to be replaced later."""
        return Function(params, SeqExpr((), Tuple(())), ret_struct_info, is_pure, attrs, span)

    def __call__(self, *args: Any) -> Call:
        return Call(self, args)

    def replace(self, **changes: Any) -> Any:
        """A copy with some fields changed; a changed body or parameter keeps the declared result unless that is given."""
        return super().replace(**dropping_struct_info(self, changes))

    def _rebuild(
        self,
        params: Any,
        body: Any,
        ret_struct_info: Any,
        is_pure: bool,
        attrs: Any,
        struct_info_: Any,
        span: Any,
    ) -> Function:
        return Function(params, body, ret_struct_info, is_pure, attrs, span)

    def bind_symbolic_vars(self, binding_map: Mapping[Any, Any]) -> Function:
        """A copy with symbolic shape variables (or their names) replaced by values."""
        return external("bind_symbolic_vars")(self, binding_map)

    def bind_params(self, binding_map: Mapping[Any, Any]) -> Function:
        """A copy with parameters (or their names) replaced by constants or expressions; symbolic shapes follow."""
        return external("bind_params")(self, binding_map)

    def inline_functions(self, function_map: Mapping[Any, Function]) -> Function:
        """A copy in which calls of the given functions (by GlobalVar or name) are replaced by their bodies."""
        return external("inline_functions")(self, function_map)


_set_params = Function.params.__set__  # type: ignore[attr-defined]
_set_body = Function.body.__set__  # type: ignore[attr-defined]
_set_ret = Function.ret_struct_info.__set__  # type: ignore[union-attr, attr-defined]
_set_is_pure = Function.is_pure.__set__  # type: ignore[attr-defined]
_set_func_attrs = Function.attrs.__set__  # type: ignore[attr-defined]


def _body_struct_info(params: tuple[Var, ...], body: SeqExpr) -> StructInfo | None:
    """What a function's body returns, in terms of the parameters' symbolic variables only."""
    info = body.struct_info_
    if info is None:
        info = body.body.struct_info_
    if info is None:
        return None
    known = definable_tir_vars_in_struct_info(TupleStructInfo([param.struct_info_ for param in params]))
    return erase_to_well_defined(info, {var: var for var in known}, {param: param for param in params})


class ExternFunc(BaseFunc, type_key="relax.expr.ExternFunc"):
    """A function that is found by its name when the program runs; an opaque impure one unless told otherwise."""

    global_symbol: str
    attrs: DictAttrs = field(default=None, convert=as_attrs)

    def __init__(
        self,
        global_symbol: str,
        struct_info: FuncStructInfo | None = None,
        span: Span | None = None,
        attrs: Any = None,
        struct_info_: StructInfo | None = None,
    ) -> None:
        _set_symbol(self, str(global_symbol))
        _set_base_attrs(self, as_attrs(attrs))
        set_struct_info(self, struct_info or struct_info_ or FuncStructInfo.opaque_func())
        set_span(self, span)

    def __call__(self, *args: Any) -> Call:
        return Call(self, args)


_set_symbol = ExternFunc.global_symbol.__set__  # type: ignore[attr-defined]
_set_base_attrs = BaseFunc.attrs.__set__  # type: ignore[attr-defined]


def extern(name: str, struct_info: FuncStructInfo | None = None, span: Span | None = None) -> ExternFunc:
    """A reference to the registered or linked function ``name``."""
    return ExternFunc(name, struct_info, span)


def call_global_var(var: GlobalVar, args: Sequence[Any]) -> RelaxExpr | PrimExpr:
    """What ``var(*args)`` means: a Relax call, or a call in TIR when all arguments are TIR expressions."""
    values = [item if isinstance(item, Node) else convert(item) for item in args]
    if values and all(isinstance(item, PrimExpr) for item in values):
        return TirCall("void", var, values)
    return Call(var, values)
