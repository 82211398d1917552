"""The parser: walks the statements of a script and drives the builder's frames, by one dispatch table per dialect."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...error import DiagnosticError, IRError
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


class Parser(Evaluator):
    """Reads one source; ``dialects`` is the stack of the dialects whose functions are open."""

    def __init__(self, source: Source, outer: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(source, outer)
        self.dialects: list[str] = ["ir"]
        self.functions: dict[Any, Any] = {}
        """What is known of the module's functions while they are read: declared result types by GlobalVar."""
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
        if dialect is not None:
            self.dialects.append(dialect)
        try:
            yield
        finally:
            self.scopes.pop()
            if dialect is not None:
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
            raise self.error(node, f"{kind} statements are not supported in {_DIALECT_NAMES[self.dialect]}")
        try:
            function(self, node)
        except DiagnosticError:
            raise
        except (IRError, TypeError, ValueError, AttributeError, KeyError, IndexError, NameError) as error:
            raise self.error(node, _describe(error)) from error

    def call(self, node: ast.Call, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        hook = getattr(function, "__script_call__", None)  # macros, functions of the module
        if hook is not None:
            return hook(self, node, args, kwargs)
        if self.dialects[-1] == "relax":
            args, kwargs = _resolved_arguments(self, args, kwargs)
        found = CALL_HOOKS.get(function.__class__)
        if found is not None:
            return found(self, node, function, args, kwargs)
        return function(*args, **kwargs)


CALL_HOOKS: dict[type, Callable[..., Any]] = {}
"""How values of some classes are called in scripts: ``(parser, node, function, args, kwargs)``."""

_DIALECT_NAMES = {
    "ir": "an ir_module",
    "tir": "a prim_func",
    "relax": "a Relax function",
    "python": "a script",
}


def _resolved_arguments(
    parser: Parser, args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Struct infos with quoted extents among arguments (``out_sinfo=R.Tensor(("n",))``), unless they build another one."""
    from .relax_statements import resolve_arguments

    if not parser.states or not _mentions_deferred((*args, *kwargs.values())):
        return args, kwargs
    return (
        [resolve_arguments(parser, item) for item in args],
        {key: resolve_arguments(parser, item) for key, item in kwargs.items()},
    )


def _mentions_deferred(values: Any) -> bool:
    from .struct_info import Deferred, StructInfoFactory

    for item in values:
        if isinstance(item, Deferred | StructInfoFactory):
            return True
        if isinstance(item, list | tuple) and _mentions_deferred(item):
            return True
    return False
