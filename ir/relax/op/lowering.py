"""What becomes of operators in the virtual machine's program: lowerings that several operators share.

A lowering is a function from a call with its struct info to the call that takes its place, of the machine's own operators or
functions. LowerRuntimeBuiltin asks for it; what has none is called by the packed function that it declares, if any.
"""

from __future__ import annotations

from typing import Any

from ...error import IRValueError
from ..expr import Call, Expr, Tuple, known_shape
from ..function import ExternFunc
from .declaration import Lowering


def packed(name: str) -> Lowering:
    """A call of the function ``name`` with the arguments of the operator."""

    def lower(node: Call) -> Call:
        return Call(ExternFunc(name), node.args, None, [node.struct_info], node.span, node.struct_info_)

    return lower


def builtin_with_function(name: str) -> Lowering:
    """A builtin with the function (or closure) that is the first argument, and the values of the second behind it."""

    def lower(node: Call) -> Call:
        function, values = node.args
        fields = values.fields if isinstance(values, Tuple) else (values,)
        args, info = (ExternFunc(name), Tuple([function, *fields])), node.struct_info
        return Call("relax.call_builtin_with_ctx", args, None, [info], node.span, info)

    return lower


def reshape_to(node: Call, shape: Expr) -> Call:
    """The elements of the first argument in another shape, by the machine."""
    info = node.struct_info
    return Call(ExternFunc("vm.builtin.reshape"), (node.args[0], shape), None, [info], node.span, info)


def shape_of_result(node: Call) -> Expr:
    """The shape that inference found for a view; it must be known."""
    info: Any = node.struct_info
    shape = known_shape(info)
    if shape is None:
        raise IRValueError(f"LowerRuntimeBuiltin: the view {node} needs a known shape, it is {info}")
    return shape


def as_reshape(node: Call) -> Call:
    """Another shape of the same elements, as inference found it."""
    return reshape_to(node, shape_of_result(node))
