"""The names of ``R`` that only mean something in scripts: the decorator, dataflow blocks, bindings, attributes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ...error import IRValueError
from ..ir_builder.tir_functions import plain
from .decorated import is_in_module, parse_function
from .relax_statements import DataflowScope, MatchCastValue, as_expr, state_of, symbol
from .struct_info import as_struct_info, resolved


def function(f: Any = None, pure: bool = True, private: bool = False, check_well_formed: bool = True) -> Any:
    """Read a Python function as a Relax function.

    Args:
        f: the function, when used as ``@R.function`` without arguments.
        pure: the function has no visible side effects.
        private: the function gets no ``global_symbol``: nothing outside of its module can refer to it.
        check_well_formed: verify the function after reading it.

    Returns:
        The Relax function; inside a class that ``I.ir_module`` reads, the Python function itself.
    """
    frame = sys._getframe(1)
    options = {"pure": pure, "private": private}

    def decorate(func: Any) -> Any:
        if is_in_module(func, frame):
            return func
        return parse_function(func, "relax", frame, check_well_formed=check_well_formed, **options)

    if f is not None:
        return decorate(f)
    decorate.dispatch_token = "relax"  # type: ignore[attr-defined]
    decorate.options = {**options, "check_well_formed": check_well_formed}  # type: ignore[attr-defined]
    return decorate


function.dispatch_token = "relax"  # type: ignore[attr-defined]
function.options = {"pure": True, "private": False, "check_well_formed": True}  # type: ignore[attr-defined]


class ScriptOnly:
    """A function of a namespace that works in scripts only: it gets the parser."""

    def __init__(self, name: str, run: Callable[..., Any], quiet: bool = False) -> None:
        self.__name__ = name
        self._quiet = quiet
        self.__doc__ = run.__doc__
        self._run = run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._quiet:  # Python runs the body of a class before its decorator reads it
            return None
        raise IRValueError(
            f"{self.__name__} can be used in a script only, inside a decorated function or class"
        )

    def __script_call__(self, parser: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return self._run(parser, *args, **kwargs)


def script_only(name: str, quiet: bool = False) -> Callable[[Callable[..., Any]], ScriptOnly]:
    """Decorator: the function ``(parser, *args)`` under a name of a namespace; ``quiet``: it does nothing elsewhere."""
    return lambda run: ScriptOnly(name, run, quiet)


@script_only("R.func_attr")
def func_attr(parser: Any, attrs: Any) -> None:
    """Set attributes of the Relax function."""
    state_of(parser).attrs.update(plain(dict(attrs)))


@script_only("R.dataflow")
def dataflow(parser: Any) -> Any:
    """Open a dataflow block."""
    return DataflowScope()


@script_only("R.output")
def output(parser: Any, *variables: Any) -> None:
    """Name the bindings of the dataflow block that are visible behind it."""


@script_only("R.match_cast")
def match_cast(parser: Any, value: Any, struct_info: Any) -> Any:
    """Check at run time that a value has a struct info, which may define new symbolic variables."""
    return MatchCastValue(value, resolved(as_struct_info(struct_info), lambda name: symbol(parser, name)))


@script_only("R.emit")
def emit(parser: Any, value: Any, annotate_struct_info: Any = None) -> Any:
    """Bind a value: the same as writing it as a statement or on the right of an assignment."""
    if annotate_struct_info is not None:
        raise IRValueError(
            "R.emit: annotate the assignment instead, as in y: R.Tensor((2, 3)) = R.emit(value)"
        )
    return as_expr(value)


@script_only("R.is_impure")
def is_impure(parser: Any) -> None:
    """An older way to say ``@R.function(pure=False)``."""
    raise IRValueError("write @R.function(pure=False) instead of R.is_impure()")
