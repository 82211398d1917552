"""Calls by which threads of a kernel wait for each other, exchange values, and copy what they need later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import dtype as dt
from .. import expr as E
from .access import Use
from .async_copies import SIZES, Stretch
from .error import InterpreterError, refusal
from .lanes import Closure
from .meetings import WARP, Barrier, Place, Reduction, Roll, Shuffle
from .memory import SHARED_SCOPES, WARP_SCOPE
from .numbers import number
from .protocol import Thread, Translator

Env = dict[Any, Any]


def _running(expressions: Translator, node: E.Call) -> Callable[[], Thread]:
    """What finds the thread that makes a call, which must be one of a kernel."""
    machine = expressions.machine

    def find() -> Thread:
        if machine.thread is None:
            raise InterpreterError(
                f"{node.op.name} has a meaning in threads only, which the attribute thread_extent starts; loops that are bound to threads"
                " run one after the other"
            )
        return machine.thread

    return find


def _place(expressions: Translator, node: E.Call) -> Place:
    return Place(next(expressions.kernel.places), str(node))


# ---- barriers ----------------------------------------------------------------------------------------------------


def storage_sync(expressions: Translator, node: E.Call) -> Closure:
    """A barrier: of a block, or of a warp."""
    running, place = _running(expressions, node), _place(expressions, node)
    scope = getattr(node.args[0], "value", None)
    is_of_warp, is_known = scope == WARP_SCOPE, scope in ("global", *SHARED_SCOPES) and len(node.args) == 1

    def wait(env: Env) -> int:
        thread = running()
        if not is_known:
            raise InterpreterError(
                f"{node} is no barrier of a block or of a warp; blocks have none in common"
            )
        if thread.virtual:
            raise refusal(
                "thread-barrier", "a barrier stands within virtual threads; InjectVirtualThread removes these"
            )
        thread.meet(Barrier(place, thread.warp if is_of_warp else thread.everyone))
        return 0

    return wait


# ---- warps -------------------------------------------------------------------------------------------------------


def _indexed(lane: int, source: int, width: int) -> int:
    return lane - lane % width + source % width


def _before(lane: int, offset: int, width: int) -> int:
    return lane if lane % width < offset else lane - offset


def _behind(lane: int, offset: int, width: int) -> int:
    return lane if lane % width + offset >= width else lane + offset


def _crossed(lane: int, mask: int, width: int) -> int:
    """Segments before the own one are within reach, those behind it are not."""
    found = lane ^ mask
    return lane if found // width > lane // width else found


def _shuffle(source: Callable[[int, int, int], int], is_offset: bool) -> Callable[..., Closure]:
    """The form of a shuffle.

    Args:
        source: the lane whose value a lane gets, by its number, the operand and the width of a segment.
        is_offset: whether the operand must be in [0, 32).
    """

    def form(expressions: Translator, node: E.Call) -> Closure:
        mask, value, operand, width, size = [expressions.data(arg) for arg in node.args]
        running, place, lanes = (
            _running(expressions, node),
            _place(expressions, node),
            dt.lanes(node.dtype),
        )

        def run(env: Env, active: Any = None) -> Any:
            thread = running()
            own = value(env) if lanes == 1 else value(env, (True,) * lanes)
            by, segment, lane = operand(env), width(env), thread.number % WARP
            if size(env) != WARP:
                raise refusal("warp-shuffle", f"a warp has {WARP} threads here, not {size(env)}", node)
            if not 0 < segment <= WARP or segment & (segment - 1):
                raise refusal("warp-shuffle", f"the width is {segment}, no power of two up to {WARP}", node)
            if is_offset and not 0 <= by < WARP:
                raise refusal("warp-shuffle", f"the offset is {by}, which is not in [0, {WARP})", node)
            members = _named(thread, mask(env), node)
            found = thread.meet(Shuffle(place, members, own, thread.warp[0] + source(lane, by, segment)))
            if found is None:
                raise refusal(
                    "warp-shuffle",
                    f"lane {lane} reads lane {source(lane, by, segment)}, which is not there",
                    node,
                )
            return found[0]

        return run

    return form


def _named(thread: Thread, mask: int, node: E.Call) -> tuple[int, ...]:
    """The threads of the warp that a mask names."""
    found = tuple(member for member in thread.warp if mask >> member % WARP & 1)
    if thread.number not in found:
        lane = thread.number % WARP
        raise refusal("warp-shuffle", f"lane {lane} is not in its own mask, {mask & 0xFFFFFFFF:#x}", node)
    return found


shuffle = _shuffle(_indexed, False)
shuffle_up = _shuffle(_before, True)
shuffle_down = _shuffle(_behind, True)
shuffle_xor = _shuffle(_crossed, True)


def active_mask(expressions: Translator, node: E.Call) -> Closure:
    """The threads of the warp that come to this call together."""
    running, place = _running(expressions, node), _place(expressions, node)

    def run(env: Env) -> Any:
        thread = running()
        present = thread.meet(Roll(place, thread.warp))
        return number(sum(1 << member % WARP for member in present), node.dtype)

    return run


# ---- reductions --------------------------------------------------------------------------------------------------


def thread_allreduce(expressions: Translator, node: E.Call) -> Closure:
    """Values of several threads combined: each of them gets the result."""
    combiner = expressions.kernel.combiner
    if combiner is None:
        raise InterpreterError(f"{node} stands in no attribute 'reduce_scope', which says how to combine")
    count = len(combiner.lhs)
    values = [expressions.data(arg) for arg in node.args[1 : count + 1]]
    condition = expressions.condition(node.args[count + 1])
    stores = [
        _stored(expressions, arg, value.dtype)
        for arg, value in zip(node.args[count + 2 : 2 * count + 2], node.args[1 : count + 1])
    ]
    tags = frozenset(_tag(expressions, axis) for axis in node.args[2 * count + 2 :]) - {""}
    results = [expressions.data(result) for result in combiner.result]
    identities = [expressions.data(identity) for identity in combiner.identity_element]
    running, place = _running(expressions, node), _place(expressions, node)

    def run(env: Env) -> int:
        thread = running()
        own = tuple(value(env) for value in values) if condition(env) else None

        def combine(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
            env.update(zip(combiner.lhs, a))
            env.update(zip(combiner.rhs, b))
            return tuple(result(env) for result in results)

        combined = thread.meet(Reduction(place, thread.along(tags), own))
        found = combined.value(combine, tuple(identity(env) for identity in identities))
        for store, value in zip(stores, found):
            store(env, value)
        return 0

    return run


def _tag(expressions: Translator, axis: E.PrimExpr) -> str:
    """The tag of an axis along which threads share a reduction; none for a number, which stands for an axis of one thread."""
    var = axis.value if isinstance(axis, E.Cast) else axis
    if isinstance(var, E.IntImm):
        return ""
    tag = expressions.kernel.axes.get(var, "") if isinstance(var, E.Var) else ""
    if not tag.startswith("threadIdx"):
        raise InterpreterError(
            f"threads share a reduction along {axis}, which is no axis of threads of a block"
        )
    return tag


def _stored(expressions: Translator, result: E.PrimExpr, dtype: str) -> Callable[[Env, Any], None]:
    """What stores a result of a reduction: in an element, or at an address."""
    if not isinstance(result, E.BufferLoad):
        address = expressions.data(result)
        return lambda env, value: address(env).elements(dtype).write(0, value, str(result))
    elements = expressions.accesses.elements(result.buffer)
    place = expressions.accesses.place(result.buffer, result.indices, [Use.WRITE])
    return lambda env, value: elements(env).write(place(env), value, result.buffer.name)


# ---- asynchronous copies -----------------------------------------------------------------------------------------


def copy_async(expressions: Translator, node: E.Call) -> Closure:
    """Begins to copy bytes; zeros where a predicate does not hold."""
    shared, shared_offset, source, source_offset, bytes_of_it = node.args[:5]
    to = _moved(expressions, shared, shared_offset, node.dtype)
    of = _moved(expressions, source, source_offset, node.dtype)
    size, running = expressions.index(bytes_of_it), _running(expressions, node)
    predicate = expressions.condition(node.args[5]) if len(node.args) > 5 else lambda env: True

    def run(env: Env) -> int:
        count = size(env)
        if count not in SIZES:
            raise refusal(
                "async-copy", f"a copy is of {count} bytes, not of {', '.join(map(str, SIZES))}", node
            )
        running().copies.begin(to(env, count), of(env, count) if predicate(env) else None)
        return 0

    return run


def _moved(
    expressions: Translator, address: E.PrimExpr, offset: E.PrimExpr, dtype: str
) -> Callable[[Env, int], Stretch]:
    """The bytes so many elements behind an address."""
    pointer, distance, name = expressions.data(address), expressions.index(offset), str(address)
    return lambda env, size: Stretch(pointer(env).moved(distance(env), dtype), size, name)


def commit_group(expressions: Translator, node: E.Call) -> Closure:
    """Makes a group of the copies that the thread has begun."""
    running = _running(expressions, node)

    def run(env: Env) -> int:
        running().copies.commit()
        return 0

    return run


def wait_group(expressions: Translator, node: E.Call) -> Closure:
    """Waits until at most so many groups are under way."""
    running, count = _running(expressions, node), expressions.index(node.args[0])

    def run(env: Env) -> int:
        running().copies.wait(count(env))
        return 0

    return run
