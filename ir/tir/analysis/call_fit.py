"""Whether the calls between PrimFuncs of a module fit: what a call passes and takes back, and what the called function declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from ...expr import GlobalVar
from ...module import IRModule
from ...node import Visitor, remembered
from ...type import PointerType, PrimType
from ..buffer import Buffer
from ..expr import Call, PrimExpr, Var
from ..function import OUTLINED, PrimFunc
from ..stmt import Evaluate, Stmt
from ..stmt_functor import StmtVisitor
from .undefined_vars import undefined_vars


class _FindReturn(StmtVisitor):
    """The dtype of what is returned. To return is a statement: values that are stored or bound are not looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.dtype: str | None = None

    def visit_Evaluate(self, node: Evaluate) -> None:
        value = node.value
        if isinstance(value, Call) and getattr(value.op, "name", "") == "tir.ret" and value.args:
            self.dtype = value.dtype


@remembered
def result_dtype(func: PrimFunc) -> str | None:
    """dtype of what ``T.ret`` returns, None for a function that returns nothing."""
    finder = _FindReturn()
    finder.visit(func.body)
    return finder.dtype


@dataclass(frozen=True)
class Misfit:
    """A call that does not fit the function that it calls."""

    call: Call
    statement: Stmt | None
    """The statement that the call belongs to."""
    message: str
    """Caller and callee, what was found, what was expected, and the fix."""


def misfits(func: PrimFunc, name: str, module: IRModule) -> Iterator[Misfit]:
    """The calls in a function called ``name`` that do not fit the PrimFuncs of its module.

    Looked at are the number and the dtypes of arguments, the elements behind an address that is a buffer's own, and whether a result
    that is used is one. What is behind an address besides is not known here. A function that lowering made of a part of another
    fits by construction. Calls of functions that the module has not are nobody's here.
    """
    found = _Calls()
    found.visit(func.body)
    for call, statement, is_value in found.calls:
        callee = module[call.op] if call.op in module else None
        if callee is None or OUTLINED in callee.attrs:
            continue
        callee_name = call.op.name_hint
        if isinstance(callee, PrimFunc):
            problem = _in_arguments(call, callee, callee_name) or _in_result(
                call, callee, callee_name, is_value
            )
        else:
            problem = f"calls {callee_name}, which is a {type(callee).__name__}; only PrimFuncs can be called"
        if problem is not None:
            yield Misfit(call, statement, f"{name} {problem}")


class _Calls(Visitor):
    """The calls of functions of the module, each with its statement and whether its result is used."""

    remembers: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Call, Stmt | None, bool]] = []
        self._statement: Stmt | None = None

    def visit_Stmt(self, node: Stmt) -> None:
        outer, self._statement = self._statement, node
        self.generic_visit(node)
        self._statement = outer

    def visit_Evaluate(self, node: Evaluate) -> None:
        if not (isinstance(node.value, Call) and isinstance(node.value.op, GlobalVar)):
            self.visit_Stmt(node)
            return
        self.calls.append((node.value, node, False))
        outer, self._statement = self._statement, node
        for arg in node.value.args:
            self.visit(arg)
        self._statement = outer

    def visit_Call(self, call: Call) -> None:
        if isinstance(call.op, GlobalVar):
            self.calls.append((call, self._statement, True))
        self.generic_visit(call)


# ---- arguments ---------------------------------------------------------------------------------------------------


def _in_arguments(call: Call, callee: PrimFunc, name: str) -> str | None:
    if len(call.args) != len(callee.params):
        names = ", ".join(_name_of(callee, param) for param in callee.params)
        return (
            f"calls {name} with {len(call.args)} arguments, expected {len(callee.params)} ({names});"
            " pass one for each parameter"
        )
    for param, arg in zip(callee.params, call.args, strict=True):
        problem = _in_argument(param, arg, callee, f"to {name} for parameter {_name_of(callee, param)}")
        if problem is not None:
            return f"passes {problem}"
    symbol = _without_value(callee)
    if symbol is not None:
        buffer, var = symbol
        return (
            f"calls {name}, where nothing says what {var.name} is, of which buffer {buffer.name} is declared: a call passes addresses,"
            f" which have no extents; make {var.name} a parameter of {name}"
        )
    return None


def _in_argument(param: Var, arg: Any, callee: PrimFunc, parameter: str) -> str | None:
    buffer = callee.buffer_map.get(param)
    if isinstance(arg, Buffer):
        wanted = f"of dtype {param.dtype}" if buffer is None and param.dtype != "handle" else "an address"
        return f"buffer {arg.name} {parameter}, which is {wanted}; write {arg.name}.data for its address"
    if not isinstance(arg, PrimExpr):
        return f"a {type(arg).__name__} {parameter}; expected an expression"
    if buffer is not None or param.dtype == "handle":
        if arg.dtype != "handle":
            return f"{arg}, which is {arg.dtype}, {parameter}, which takes an address; write B.data for that of a buffer B"
        element = _element_behind(arg)
        if buffer is not None and element not in (None, buffer.dtype):
            return f"{arg}, an address of {element}, {parameter}, a buffer of {buffer.dtype}; pass memory of {buffer.dtype}"
        return None
    if arg.dtype != param.dtype:
        return (
            f"{arg}, which is {arg.dtype}, {parameter}, which is {param.dtype}; convert it,"
            f' as in T.Cast("{param.dtype}", ...)'
        )
    return None


def _element_behind(arg: PrimExpr) -> str | None:
    """The dtype of the elements at an address, where the address is a buffer's own."""
    type_ = arg.type_annotation if isinstance(arg, Var) else None
    element = type_.element_type if isinstance(type_, PointerType) else None
    return element.dtype if isinstance(element, PrimType) and element.dtype != "void" else None


@remembered
def _without_value(callee: PrimFunc) -> tuple[Buffer, Var] | None:
    """A variable that a buffer's extents, strides or offset are made of and that is no parameter, with the buffer."""
    for buffer in callee.buffer_map.values():
        offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
        for item in (*buffer.shape, *buffer.strides, *offset):
            free = undefined_vars(item, callee.params)
            if free:
                return buffer, free[0]
    return None


def _name_of(func: PrimFunc, param: Var) -> str:
    """What a program calls a parameter: the name of its buffer, where it has one."""
    return func.buffer_map[param].name if param in func.buffer_map else param.name


# ---- results -----------------------------------------------------------------------------------------------------


def _in_result(call: Call, callee: PrimFunc, name: str, is_value: bool) -> str | None:
    returned = result_dtype(callee)
    declared = callee.ret_type.dtype if isinstance(callee.ret_type, PrimType) else None
    if not is_value and call.dtype in ("void", returned):
        return None
    if returned is None:
        if is_value:
            return (
                f"uses the result of {name}, which returns nothing; let {name} store it to a buffer, or return it and"
                f" declare its dtype, as in def {name}(...) -> T.int32"
            )
        return f'calls {name} for a result of {call.dtype}, but it returns nothing; write the call with dtype "void"'
    if call.dtype == returned:
        return None
    if declared is None:
        return (
            f"uses the result of {name} as {call.dtype}, but {name} returns {returned} without saying so; declare it, as in"
            f" def {name}(...) -> T.{returned}"
        )
    return f"uses the result of {name} as {call.dtype}, but {name} returns {returned}; write the call with dtype {returned}"
