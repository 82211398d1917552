"""What all dialects' printers share: frames of lines, names of variables, precedence, and plain values.

A dialect registers one function per node class: :data:`EXPRESSIONS` return text with its precedence, and
:data:`STATEMENTS` emit lines. A line goes to the innermost frame; a definition that an expression needs (a free
variable, an aliasing buffer) goes to the frame in which everything that it depends on is defined.
"""

from __future__ import annotations

import json
import keyword
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...attrs import DictAttrs
from ...error import IRValueError
from ...node import Node
from .config import PrinterConfig

OR, AND, NOT, COMPARE, BITOR, BITXOR, BITAND, SHIFT, SUM, PRODUCT, UNARY, POWER, ATOM = range(13)
"""Precedence of Python's operators, weakest first."""

Text = tuple[str, int]
"""An expression's text and its precedence."""

EXPRESSIONS: dict[type, Callable[[Any, Any], Text]] = {}
STATEMENTS: dict[type, Callable[[Any, Any, bool], None]] = {}

_INVALID = re.compile(r"\W")
_RESERVED = {*keyword.kwlist, "range", "metadata"}


def expression(*classes: type) -> Callable[[Any], Any]:
    """Register a function ``(printer, node) -> (text, precedence)`` for node classes."""

    def register(function: Any) -> Any:
        for cls in classes:
            EXPRESSIONS[cls] = function
        return function

    return register


def statement(*classes: type) -> Callable[[Any], Any]:
    """Register a function ``(printer, node, last)`` that emits lines; ``last``: nothing follows in the frame."""

    def register(function: Any) -> Any:
        for cls in classes:
            STATEMENTS[cls] = function
        return function

    return register


class Frame:
    """A block of lines in the making, and the variables whose scope ends with it.

    ``header`` holds the lines above the block, at the depth of the parent: they join the parent together with the block,
    so that definitions which the block's expressions need in the parent come before them.
    """

    __slots__ = ("depth", "header", "lines", "names", "nodes")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.header: list[str] = []
        self.lines: list[tuple[int, str]] = []
        self.nodes: list[int] = []
        self.names: list[str] = []


class _FrameScope:
    """``with printer.frame():`` opens a frame; on exit its lines join the parent's and its names are free again."""

    __slots__ = ("_frame", "_printer")

    def __init__(self, printer: Printer, header: str | None, indent: int) -> None:
        self._printer = printer
        frames = printer.frames
        self._frame = Frame(frames[-1].depth + indent if frames else 0)
        if header is not None:
            self._frame.header.append(header)

    def __enter__(self) -> Frame:
        self._printer.frames.append(self._frame)
        return self._frame

    def __exit__(self, kind: object = None, *_: object) -> None:
        if kind is not None:  # printing has failed; nothing of the frame will be used
            return
        printer, frame = self._printer, self._frame
        printer.frames.pop()
        printer.forget(frame)
        if printer.frames:
            parent = printer.frames[-1]
            parent.lines.extend([(parent.depth, line) for line in frame.header])
            parent.lines.extend(frame.lines)


class Printer:
    """One printing run: the open frames, the names in use, and the constants kept aside as metadata."""

    def __init__(self, config: PrinterConfig) -> None:
        self.config = config
        self.frames: list[Frame] = []
        self.metadata: dict[str, list[Any]] = {}
        self.used: set[str] = set()
        """Which prefixes (I, T, R) the text uses, for the header."""
        self.module: Any = None
        """The module being printed."""
        self.module_name = "Module"
        self.module_texts: dict[str, str] = {}
        """How functions of the module are written, by name: ``cls.f``."""
        self.alias_used = False
        """Whether the function being printed refers to another one of the module."""
        self.int_dtype = config.int_dtype
        """The dtype whose constants print as plain numbers."""
        self.signature_vars: set[int] = set()
        """The symbolic variables that the signature being printed defines, by id: they are quoted there."""
        self.loops: dict[int, Any] = {}
        """The enclosing loops by the id of their variables, for ``T.axis.remap``."""
        self.env_threads: dict[int, int] = {}
        """How often each thread variable is launched, by id."""
        self.dialect = "tir"
        self.in_function = False
        """Whether a Relax function is open."""
        self._texts: dict[int, str] = {}
        self._taken: set[str] = {config.ir_prefix, config.tir_prefix, config.relax_prefix}
        self._keep: list[Any] = []

    # ---- frames and lines

    def frame(self, header: str | None = None, indent: int = 1) -> _FrameScope:
        """Open a frame below a header line, indented by default."""
        return _FrameScope(self, header, indent)

    def emit(self, text: str, frame: Frame | None = None) -> None:
        """Add a line to a frame, the innermost by default."""
        target = self.frames[-1] if frame is None else frame
        target.lines.append((target.depth, text))

    def forget(self, frame: Frame) -> None:
        """End the scope of the variables that a frame defined."""
        for key in frame.nodes:
            self._texts.pop(key, None)
        self._taken.difference_update(frame.names)

    def render(self, frame: Frame) -> str:
        """The frame's lines as text."""
        space = " " * self.config.indent_spaces
        return "\n".join([space * depth + line if line else "" for depth, line in frame.lines])

    # ---- names

    def unique(self, name: str, frame: Frame | None = None) -> str:
        """A valid, unused name near ``name``, taken until the frame ends."""
        base = name
        if base == "_":  # further ones are _1, _2
            found = "_"
            number = 0
            while found in self._taken:
                number += 1
                found = f"_{number}"
            self._taken.add(found)
            (self.frames[-1] if frame is None else frame).names.append(found)
            return found
        if not base.isidentifier() or not base.isascii():
            base = _INVALID.sub("_", base) or "v"
            if base[0].isdigit():
                base = "v" + base
        if base in _RESERVED:
            base += "_"
        found = base
        if found in self._taken:
            number = 1
            while f"{base}_{number}" in self._taken:
                number += 1
            found = f"{base}_{number}"
        self._taken.add(found)
        (self.frames[-1] if frame is None else frame).names.append(found)
        return found

    def define(self, node: Any, name: str, frame: Frame | None = None) -> str:
        """Give a variable a name for the rest of a frame."""
        found = self.unique(name, frame)
        self.define_as(node, found, frame)
        return found

    def define_as(self, node: Any, text: str, frame: Frame | None = None) -> None:
        """Let ``text`` (such as ``A.data``) stand for a variable for the rest of a frame."""
        self._texts[id(node)] = text
        self._keep.append(node)
        (self.frames[-1] if frame is None else frame).nodes.append(id(node))

    def text_of(self, node: Any) -> str | None:
        """How a variable is written, None when it has not been defined."""
        return self._texts.get(id(node))

    def frame_of(self, nodes: Iterable[Any]) -> Frame:
        """The outermost frame in which all of these variables are defined already."""
        wanted = {id(node) for node in nodes}
        for frame in reversed(self.frames):
            if not wanted.isdisjoint(frame.nodes):
                return frame
        return self.frames[0]

    # ---- expressions and statements

    def expr(self, node: Any) -> Text:
        """The text of an expression with its precedence."""
        try:
            function = EXPRESSIONS[node.__class__]
        except KeyError:
            function = _inherited(EXPRESSIONS, node.__class__, _generic)
        return function(self, node)

    def text(self, node: Any, above: int = 0) -> str:
        """The text of an expression, in parentheses when it binds weaker than ``above``."""
        try:
            function = EXPRESSIONS[node.__class__]
        except KeyError:
            function = _inherited(EXPRESSIONS, node.__class__, _generic)
        text, precedence = function(self, node)
        return f"({text})" if precedence < above else text

    def stmt(self, node: Any, last: bool = True) -> None:
        """Emit a statement; ``last`` says that nothing follows it in the frame."""
        function = STATEMENTS.get(node.__class__)
        if function is None:
            raise IRValueError(f"cannot print a {type(node).__name__} as a statement")
        function(self, node, last)

    def texts(self, nodes: Iterable[Any]) -> str:
        """Expressions separated by commas."""
        return ", ".join([self.text(node) for node in nodes])

    def items(self, nodes: Iterable[Any]) -> str:
        """Expressions as a tuple."""
        found = [self.text(node) for node in nodes]
        return f"({found[0]},)" if len(found) == 1 else f"({', '.join(found)})"

    # ---- prefixes and values

    def tir(self, name: str) -> str:
        """``T.name``."""
        self.used.add("tir")
        return f"{self.config.tir_prefix}.{name}"

    def ir(self, name: str) -> str:
        """``I.name``."""
        self.used.add("ir")
        return f"{self.config.ir_prefix}.{name}"

    def relax(self, name: str) -> str:
        """``R.name``."""
        self.used.add("relax")
        return f"{self.config.relax_prefix}.{name}"

    def value(self, value: Any) -> str:
        """A plain value (of an attribute or annotation) or a node in such a place."""
        if value is None or isinstance(value, bool | np.bool_):
            return str(None if value is None else bool(value))
        if isinstance(value, str):
            return quote(value)
        if isinstance(value, int | np.integer):
            return str(int(value))
        if isinstance(value, float | np.floating):
            return float_text(float(value))
        if isinstance(value, DictAttrs):
            return self.value(value.dict)
        if isinstance(value, Node):
            found = _VALUES.get(value.__class__)
            return self.text(value) if found is None else found(self, value)
        if isinstance(value, list | tuple):
            return f"[{', '.join([self.value(item) for item in value])}]"
        if isinstance(value, dict):
            pairs = (
                sorted(value.items(), key=lambda pair: pair[0])
                if all(isinstance(key, str) for key in value)
                else value.items()
            )
            return f"{{{', '.join([f'{self.value(key)}: {self.value(item)}' for key, item in pairs])}}}"
        if isinstance(value, slice):
            return f"slice({self.value(value.start)}, {self.value(value.stop)}, {self.value(value.step)})"
        return self.meta(type(value).__name__, value)

    def meta(self, key: str, value: Any) -> str:
        """Keep a value that has no text form aside, and refer to it."""
        kept = self.metadata.setdefault(key, [])
        known = [position for position, item in enumerate(kept) if item is value]
        if not known:
            known = [len(kept)]
            kept.append(value)
        return f'metadata["{key}"][{known[0]}]'


_VALUES: dict[type, Callable[[Printer, Any], str]] = {}
"""How nodes of some classes print among plain values, where they differ from expressions."""


def value_form(*classes: type) -> Callable[[Any], Any]:
    """Register how nodes print among plain values: ``(printer, node) -> text``."""

    def register(function: Any) -> Any:
        for cls in classes:
            _VALUES[cls] = function
        return function

    return register


def _inherited(table: dict[type, Any], cls: type, default: Any) -> Any:
    for base in cls.__mro__[1:]:
        if base in table:
            table[cls] = table[base]
            return table[base]
    return default


def _generic(printer: Printer, node: Any) -> Text:
    """Nodes without a form of their own: kept as metadata, or shown by their fields where the text is not parsed."""
    if isinstance(node, Node):
        return printer.meta(node._type_key, node), ATOM
    return printer.value(node), ATOM


def quote(text: str) -> str:
    """A string literal in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def float_text(value: float) -> str:
    """A float literal that reads back as the same double."""
    if math.isnan(value) or math.isinf(value):
        return f'float("{number_text(value)}")'
    text = repr(value)
    return text if "." in text or "e" in text or "n" in text else text + ".0"


def number_text(value: float) -> str:
    """The digits of a float as a typed constant shows them: ``0``, ``0.10000000149011612``, ``inf``."""
    text = f"{value:.17g}"
    return "-0.0" if text == "-0" else text
