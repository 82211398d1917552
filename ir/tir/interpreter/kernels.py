"""What is a kernel in a program: the axes of threads that its attributes ask for, all of which its outermost attribute launches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from ...node import post_order_visit
from .. import expr as E
from .. import stmt as S
from ..thread_axis import LAUNCH_ORDER, is_virtual
from .error import InterpreterError, refusal

BLOCK_TAGS, THREAD_TAGS = LAUNCH_ORDER[:3], LAUNCH_ORDER[3:]


@dataclass
class Kernel:
    """What stands around a statement that several threads run together, and what it is called."""

    places: Iterator[int] = field(default_factory=lambda: count(1))
    """Numbers the statements at which threads meet."""
    axes: dict[E.Var, str] = field(default_factory=dict)
    """The tags of the axes of threads, by their variables."""
    combiner: E.CommReducer | None = None
    """How the attribute ``reduce_scope`` combines."""


def has_instances(attribute: S.AttrStmt) -> bool:
    """Whether an attribute asks for virtual threads, which are instances within a thread."""
    return attribute.attr_key == "virtual_thread" or is_virtual(attribute.node.thread_tag)


def thread_attributes(kernel: S.AttrStmt) -> list[S.AttrStmt]:
    """The attributes that ask for threads or blocks: this one, and those inside of it.

    Raises:
        InterpreterError: the tag of one is none of a GPU's.
    """
    found: list[S.AttrStmt] = []

    def look(node: Any) -> None:
        if not isinstance(node, S.AttrStmt) or node.thread is None or has_instances(node):
            return
        found.append(node)
        if node.thread.thread_tag not in LAUNCH_ORDER:
            raise InterpreterError(
                f"there are no threads along {node.thread.thread_tag!r}; the axes of a kernel are"
                f" {', '.join(LAUNCH_ORDER)} and vthread"
            )

    post_order_visit(kernel, look)
    return found


def launched_extents(
    axes: Sequence[tuple[S.AttrStmt, Callable[[dict[Any, Any]], int]]], env: dict[Any, Any]
) -> dict[str, int]:
    """How many threads or blocks a kernel has, by the tag of the axis.

    Args:
        axes: the attributes, and the values of their extents where the kernel is launched.
        env: the variables there.

    Raises:
        InterpreterError: attributes of one axis ask for different extents, or for one that is known within the kernel only.
    """
    found: dict[str, int] = {}
    for attribute, extent in axes:
        tag = attribute.node.thread_tag
        try:
            count = extent(env)
        except InterpreterError as error:
            raise InterpreterError(
                f"the extent of {tag}, {attribute.value}, must be known where the kernel is launched: {error}"
            ) from None
        if found.setdefault(tag, count) != count:
            raise refusal("thread", f"a kernel asks for {found[tag]} and for {count} of {tag}")
    return found
