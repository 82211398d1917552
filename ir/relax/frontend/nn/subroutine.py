"""Modules as functions of their own: a class with ``define_subroutine = True`` is exported once and called where it is used."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar

from ir.expr import GlobalVar
from ir.relax.block_builder import BlockBuilder
from ir.relax.expr import Call, Expr, Var
from ir.relax.struct_info import StructInfo
from ir.relax.symbolic_vars import tir_vars_in_struct_info
from ir.tir.expr import PrimExpr
from ir.tir.expr import Var as TirVar
from ir.tir.stmt_functor import substitute

from .tensor import Object, Tensor, unwrap_nested, wrap_nested


def _camel_to_snake(name: str) -> str:
    """``LlamaAttention`` as ``llama_attention``, ``RMSNorm`` as ``rms_norm``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class SubroutineMixin:
    """Makes a module's ``forward`` a private function of the exported IRModule where ``define_subroutine`` is set.

    The function takes the tensors that ``forward`` takes, then the module's parameters. Calls whose functions come out
    structurally equal share one.
    """

    define_subroutine: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        forward = cls.__dict__.get("forward")
        if forward is not None and not hasattr(forward, "_subroutine_body"):
            setattr(cls, "forward", _dispatching(forward))  # noqa: B010  mypy knows no attribute of that name


def _dispatching(body: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(body)

    @functools.wraps(body)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.define_subroutine or BlockBuilder.current() is None:
            return body(self, *args, **kwargs)
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        return _call_subroutine(self, body, dict(list(bound.arguments.items())[1:]))

    forward._subroutine_body = body  # type: ignore[attr-defined]
    return forward


def _call_subroutine(module: Any, body: Callable[..., Any], values: dict[str, Any]) -> Any:
    """Emit a call of the function for ``body``."""
    inputs = {name: value for name, value in values.items() if isinstance(value, Tensor | Object)}
    params = dict(module.named_parameters())
    arguments: list[Expr] = [value._expr for value in (*inputs.values(), *params.values())]
    return wrap_nested(
        Call(_trace(module, body, values, params), arguments), _camel_to_snake(type(module).__name__)
    )


def _trace(
    module: Any, body: Callable[..., Any], values: dict[str, Any], params: dict[str, Any]
) -> GlobalVar:
    """Add the function for ``body`` to the module that is being built, and return the reference to it.

    It is built by a builder of its own, on a copy of that module, since functions do not nest.
    """
    outer = BlockBuilder.current()
    assert outer is not None
    renamed: dict[TirVar, TirVar] = {}
    inner_vars: list[Var] = []

    def as_input(name: str, expr: Expr) -> Var:
        inner_vars.append(Var(name, _renamed(expr.struct_info, renamed)))
        return inner_vars[-1]

    fresh: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Object):
            fresh[name] = type(value)(_expr=as_input(name, value._expr), _name=name)
        elif isinstance(value, Tensor):
            fresh[name] = Tensor(_expr=as_input(name, value._expr))
        else:
            fresh[name] = value
    param_vars = [as_input(name, param._expr) for name, param in params.items()]
    builder = BlockBuilder(outer.get())
    with builder.function(_camel_to_snake(type(module).__name__), inner_vars, private=True):
        dataflow = outer.current_block_is_dataflow()
        with builder.dataflow() if dataflow else nullcontext(), _rebound(list(params.values()), param_vars):
            out = unwrap_nested(body(module, **fresh))
            out = builder.emit_output(out) if dataflow else builder.emit(out)
        gvar = builder.emit_func_output(out)
    for var, func in builder.get().functions.items():
        if var not in outer.get():
            outer.update_func(var, func)
    return gvar


def _renamed(info: StructInfo, renamed: dict[TirVar, TirVar]) -> StructInfo:
    """The struct info with new symbolic variables in place of the outer function's: two functions do not share any."""
    for var in tir_vars_in_struct_info(info):
        renamed.setdefault(var, type(var)(var.name, var.dtype))
    return _substituted(info, renamed) if renamed else info


def _substituted(node: Any, renamed: dict[TirVar, TirVar]) -> Any:
    if isinstance(node, PrimExpr):
        return substitute(node, renamed)
    return node._map_children(lambda child: _substituted(child, renamed))


@contextmanager
def _rebound(params: list[Any], inputs: list[Var]) -> Iterator[None]:
    """Parameters stand for the function's inputs while its body is traced."""
    before = [param._expr for param in params]
    for param, var in zip(params, inputs):
        param._expr = var
    try:
        yield
    finally:
        for param, expr in zip(params, before):
            param._expr = expr
