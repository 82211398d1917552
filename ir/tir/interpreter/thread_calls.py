"""Calls by which threads of a kernel wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import expr as E
from .error import InterpreterError, refusal
from .lanes import Closure
from .meetings import Barrier, Place
from .protocol import Thread

if TYPE_CHECKING:
    from .expressions import Expressions

Env = dict[Any, Any]


def _running(expressions: Expressions, node: E.Call) -> Callable[[], Thread]:
    """What finds the thread that makes a call."""
    machine = expressions.machine

    def find() -> Thread:
        if machine.thread is None:
            raise InterpreterError(
                f"{node.op.name} has a meaning in threads only, which the attribute thread_extent starts; loops that are bound to threads"
                " run one after the other"
            )
        return machine.thread

    return find


def _place(expressions: Expressions, node: E.Call) -> Place:
    return Place(next(expressions.places), str(node))


def storage_sync(expressions: Expressions, node: E.Call) -> Closure:
    """A barrier: of a block, or of a warp."""
    running, place, scope = _running(expressions, node), _place(expressions, node), node.args[0]
    is_of_warp = isinstance(scope, E.StringImm) and scope.value == "warp"

    def wait(env: Env) -> int:
        thread = running()
        if thread.virtual:
            raise refusal(
                "thread-barrier", "a barrier stands within virtual threads; InjectVirtualThread removes these"
            )
        thread.meet(Barrier(place, thread.warp if is_of_warp else thread.everyone))
        return 0

    return wait
