"""The stack of frames that builds a program statement by statement.

A frame stands for a construct with a body (a function, a loop, a block). What is emitted while it is open is its body;
closing it makes the node and emits that into the frame around it. The parser drives frames from source text, and Python
programs can drive them with ``with``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

from ...error import IRValueError
from ...node import Node, visit_children
from ...tir.buffer import Buffer
from ...tir.expr import IterVar, Var
from ...tir.written_condition import written_as_function

_STATE = threading.local()
_F = TypeVar("_F", bound="Frame")


class IRBuilder:
    """Collects what its frames build; ``with IRBuilder() as ib: ...; ib.get()`` gives the result.

    >>> from ir.script.ir_builder import IRBuilder
    >>> with IRBuilder() as ib:
    ...     pass
    """

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._result: Any = None
        self.place: Any = None
        """What a parser is reading; statements that are emitted now stand there."""
        self._places: dict[int, tuple[Any, Any]] = {}
        self._written = ExitStack()

    def __enter__(self) -> IRBuilder:
        _stack().append(self)
        self._written.enter_context(written_as_function())
        return self

    def __exit__(self, *_: object) -> None:
        self._written.close()
        _stack().pop()

    @staticmethod
    def current() -> IRBuilder:
        """The innermost open builder; raises IRValueError outside of one."""
        stack = _stack()
        if not stack:
            raise IRValueError(
                "no builder is open: statements belong inside a script function or a `with IRBuilder()`"
            )
        return stack[-1]

    @staticmethod
    def is_in_scope() -> bool:
        """Whether a builder is open."""
        return bool(_stack())

    @staticmethod
    def name(s: str, v: Any) -> Any:
        """Name a variable or buffer that was made without a name; returns it."""
        return name_value(s, v)

    def get(self) -> Any:
        """The program built; raises IRValueError when there is none."""
        if self._result is None:
            raise IRValueError("nothing has been built: no function or module frame has been closed")
        return self._result

    def set_result(self, value: Any) -> None:
        """What :meth:`get` returns."""
        self._result = value

    def locate(self, node: Any) -> None:
        """Remember where a node stands, if anything is being read."""
        if self.place is not None:
            self._places[id(node)] = (node, self.place)  # the node is kept, so that its id stays its own

    def place_of(self, node: Any) -> Any:
        """Where a node, or else the first one inside of it that is known, stands; None if nothing is known."""
        found = self._places.get(id(node))
        if found is not None:
            return found[1]
        inner: list[Any] = []
        if isinstance(node, Node):
            visit_children(node, inner.append)
        return next((place for child in inner if (place := self.place_of(child)) is not None), None)

    def find(self, kind: type[_F]) -> _F | None:
        """The innermost open frame of a kind."""
        for frame in reversed(self.frames):
            if isinstance(frame, kind):
                return frame
        return None

    def need(self, kind: type[_F], what: str, where: str) -> _F:
        """The innermost open frame of a kind; raises IRValueError saying where ``what`` belongs."""
        found = self.find(kind)
        if found is None:
            raise IRValueError(f"{what} must be inside {where}")
        return found


def _stack() -> list[IRBuilder]:
    try:
        return _STATE.builders
    except AttributeError:
        _STATE.builders = []
        return _STATE.builders


class Frame:
    """A construct in the making; see the module's docstring."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []
        self.place = IRBuilder.current().place if IRBuilder.is_in_scope() else None

    def __enter__(self) -> Any:
        IRBuilder.current().frames.append(self)
        return self.enter()

    def __exit__(self, kind: Any = None, error: Any = None, trace: Any = None) -> None:
        builder = IRBuilder.current()
        if kind is not None:  # the program is given up; leave the stack as it was found
            while builder.frames and builder.frames.pop() is not self:
                pass
            return
        while self.callbacks:
            self.callbacks.pop()()
        builder.frames.pop()
        reading, builder.place = builder.place, self.place
        self.close()
        builder.place = reading

    def enter(self) -> Any:
        """What ``with frame as x`` binds."""
        return self

    def close(self) -> None:
        """Make the node and emit it."""

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Call a function before the frame that is open now closes."""
        IRBuilder.current().frames[-1].callbacks.append(callback)

    def enter_for_rest(self) -> Any:
        """Open the frame for whatever is left of the frame around it; returns what ``with`` would bind."""
        frames = IRBuilder.current().frames
        if frames:
            frames[-1].callbacks.append(self.__exit__)
        return self.__enter__()


_NAME_VAR = Var.name.__set__  # type: ignore[attr-defined]
_NAME_BUFFER = Buffer.name.__set__  # type: ignore[attr-defined]


def name_value(name: str, value: Any) -> Any:
    """Name what has no name yet. Nodes are immutable; a variable without a name is still being made, as its name is on the
    left of the assignment that is being carried out."""
    if isinstance(value, Buffer):
        if not value.name:
            _NAME_BUFFER(value, name)
        if not value.data.name:
            _NAME_VAR(value.data, name)
        for stride in value.strides:
            if isinstance(stride, Var) and not stride.name:
                _NAME_VAR(stride, f"{name}_stride")
        offset = value.elem_offset
        if isinstance(offset, Var) and offset.name in ("", "_elem_offset"):
            _NAME_VAR(offset, f"{name}_elem_offset")
    elif isinstance(value, Var):
        if not value.name:
            _NAME_VAR(value, name)
    elif isinstance(value, IterVar):
        name_value(name, value.var)
    return value
