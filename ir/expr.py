"""Expressions that all IRs share: the base classes, references to a module's functions, and ranges."""

from __future__ import annotations

from typing import Any

from .error import IRValueError
from .external import external
from .node import Node, field
from .span import Span


class BaseExpr(Node):
    """Base of every expression."""

    span: Span | None = field(default=None, compare=False, kind="leaf")


class RelaxExpr(BaseExpr):
    """Base of graph-level expressions (Relax); ``struct_info`` is what is known of the value's type and shape.

    It is a cached result of inference: a constructor may leave it out, and the block builder's normalization
    fills it in once by :func:`ir.relax.expr.update_struct_info`.
    """

    struct_info_: Any = field(default=None, compare=False, kind="leaf")

    @property
    def struct_info(self) -> Any:
        """The struct info; an error when normalization has not filled it in yet."""
        if self.struct_info_ is None:
            raise IRValueError(
                f"{type(self).__name__} has no struct info yet; normalize it with BlockBuilder.normalize or emit"
            )
        return self.struct_info_


class GlobalVar(RelaxExpr, type_key="ir.GlobalVar"):
    """A reference to a function of an IRModule; compared by name within equal modules."""

    name_hint: str

    def __call__(self, *args: Any) -> Any:
        """A call of the function: a Relax call, or a TIR call when all arguments are TIR expressions."""
        return external("call_global_var")(self, args)
