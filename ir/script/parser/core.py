"""The parser: walks the statements of a script and drives the builder's frames, by one dispatch table per dialect."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...error import DiagnosticError, IRError
from ...expr import GlobalVar
from ...module import IRModule
from ...tir.written_condition import written_as_function
from ..ir_builder.core import IRBuilder
from .evaluator import Evaluator, _describe
from .source import Source

STATEMENTS: dict[str, dict[type, Callable[[Any, Any], None]]] = {
    "ir": {},
    "tir": {},
    "relax": {},
    "python": {},
}
"""For each dialect, the function ``(parser, node)`` of each kind of statement."""


def statement(dialect: str, *kinds: type) -> Callable[[Any], Any]:
    """Register how a dialect reads kinds of statements."""

    def register(function: Any) -> Any:
        for kind in kinds:
            STATEMENTS[dialect][kind] = function
        return function

    return register


FUNCTIONS: dict[str, Callable[[Any, ast.FunctionDef, dict[str, Any]], Any]] = {}
"""How a dialect reads a function definition: ``(parser, node, options of the decorator)``."""

CHECKS: list[Callable[[IRModule], object]] = []
"""What every dialect verifies of a finished module; a check raises an IRError."""


class Parser(Evaluator):
    """Reads one source; ``dialects`` is the stack of the dialects whose functions are open."""

    def __init__(self, source: Source, outer: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(source, outer)
        self.dialects: list[str] = ["ir"]
        self.functions: dict[Any, Any] = {}
        """What is known of the module's functions while they are read: declared result types by GlobalVar."""
        self.macro: str | None = None
        """The name of the macro whose body is being read."""
        self.module: Any = None
        """The module being read."""
        self.states: list[Any] = []
        """The Relax functions being read, innermost last."""
        self.block_builder: Any = None
        """Builds and normalizes the bindings of Relax functions."""

    @property
    def dialect(self) -> str:
        """The dialect of the innermost function."""
        return self.dialects[-1]

    @contextmanager
    def scope(self, dialect: str | None = None) -> Iterator[None]:
        """A scope of variables, in a dialect if given; what was opened for its rest is closed by its frame."""
        self.scopes.append({})
        self.ended.append({})
        try:
            if dialect is None:
                yield
            else:
                with self._in_dialect(dialect):
                    yield
        finally:
            names = self.scopes.pop()
            self.ended.pop()
            if dialect is None:
                self.ended[-1].update(dict.fromkeys(names, _IN_A_SCOPE))

    @contextmanager
    def _in_dialect(self, dialect: str) -> Iterator[None]:
        self.dialects.append(dialect)
        try:
            with written_as_function(dialect == "tir"):
                yield
        finally:
            self.dialects.pop()

    @contextmanager
    def at(self, node: Any) -> Iterator[None]:
        """Report failures of building at a syntax node."""
        try:
            yield
        except DiagnosticError:
            raise
        except (IRError, TypeError, ValueError) as error:
            raise self.error(node, _describe(error)) from error

    def body(self, nodes: Sequence[ast.stmt]) -> None:
        """Read statements in order."""
        for node in nodes:
            self.stmt(node)

    def stmt(self, node: ast.stmt) -> None:
        """Read one statement."""
        table = STATEMENTS[self.dialects[-1]]
        function = table.get(node.__class__)
        if function is None:
            kind = type(node).__name__
            advice = _INSTEAD.get((self.dialect, kind), "")
            raise self.error(
                node, f"{kind} statements are not supported in {_DIALECT_NAMES[self.dialect]}{advice}"
            )
        builder = IRBuilder.current()
        outer, builder.place = builder.place, node
        try:
            function(self, node)
        except DiagnosticError:
            raise
        except (IRError, TypeError, ValueError, AttributeError, KeyError, IndexError, NameError) as error:
            raise self.error(node, _describe(error)) from error
        finally:
            builder.place = outer

    def call(self, node: ast.Call, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        hook = getattr(function, "__script_call__", None)  # macros, functions of the module
        if hook is not None:
            return hook(self, node, args, kwargs)
        if function is print:
            raise self.error(
                node,
                "print would run now, while the program is read, and is no part of it; call a registered function when it runs, with"
                ' T.call_packed("name", ...) or R.call_packed("name", ...)',
            )
        resolve = ARGUMENTS.get(self.dialects[-1])
        if resolve is not None:
            args, kwargs = resolve(self, args, kwargs)
        if function.__class__ is GlobalVar and self.dialects[-1] in GLOBAL_CALLS:
            if kwargs:
                raise self.error(
                    node,
                    f"call of {function.name_hint}: functions of a module take positional arguments only",
                )
            return GLOBAL_CALLS[self.dialects[-1]](self, function, args)
        return function(*args, **kwargs)


GLOBAL_CALLS: dict[str, Callable[[Any, GlobalVar, list[Any]], Any]] = {}
"""What a call of another function of the module is in a dialect: ``(parser, function, args)``."""

ARGUMENTS: dict[str, Callable[[Any, list[Any], dict[str, Any]], tuple[list[Any], dict[str, Any]]]] = {}
"""What a dialect does with the arguments of every call before it is made: ``(parser, args, kwargs)``."""

_IN_A_SCOPE = "it is bound in a loop, a block or a branch that has ended; bind it before that one"
_AT_THE_TOP = "; import at the top of the file"
_LOOPS = "; write its turns one by one, or make the function with relax.BlockBuilder; a loop of the program is a function that calls itself"
_INSTEAD = {
    (
        "tir",
        "Break",
    ): "; say in a condition when the loop ends, as in while i[0] < n and found[0] == 0, or guard the body with if",
    ("tir", "Continue"): "; guard the rest of the body with if",
    ("tir", "Delete"): "; a name ends with its scope",
    ("tir", "Import"): _AT_THE_TOP,
    ("tir", "ImportFrom"): _AT_THE_TOP,
    ("relax", "Import"): _AT_THE_TOP,
    ("relax", "ImportFrom"): _AT_THE_TOP,
    ("relax", "For"): _LOOPS,
    ("relax", "While"): _LOOPS,
    ("relax", "AugAssign"): "; write x = x + y instead of x += y",
}
"""What is written instead of a statement that a dialect has not."""

_DIALECT_NAMES = {
    "ir": "an ir_module",
    "tir": "a prim_func",
    "relax": "a Relax function",
    "python": "a script",
}
