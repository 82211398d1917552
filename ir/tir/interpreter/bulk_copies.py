"""Calls of barriers with transactions, tensor maps, and bulk copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import dtype as dt
from .. import expr as E
from .error import InterpreterError, refusal
from .lanes import Closure
from .meetings import Place
from .memory import Pointer
from .protocol import Thread, Translator
from .transaction_barriers import RULE, BulkCopy, Phase, TransactionBarrier

Env = dict[Any, Any]
_RULE = "bulk-copy"
_PIECE = 16
"""Bytes to which addresses, strides and rows of boxes are aligned."""
_MOST_IN_BOX = 256


def swizzled(places: np.ndarray, swizzle: int) -> np.ndarray:
    """Where bytes of shared memory go within the pattern of a swizzle of so many bytes.

    >>> swizzled(np.array([0, 128, 256 + 16]), 128).tolist()
    [0, 144, 304]
    """
    return places ^ (((places >> 7) & (swizzle // 16 - 1 if swizzle else 0)) << 4)


@dataclass(frozen=True, eq=False)
class TensorMap:
    """A tensor in global memory and a box of it, from the outermost dimension to the innermost one."""

    pointer: Pointer
    dtype: str
    swizzle: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    box: tuple[int, ...]

    def refuse_misfits(self, node: E.Call) -> None:
        """What the driver does not encode (CUDA driver API, ``cuTensorMapEncodeTiled``).

        Raises:
            UndefinedError: it is that.
        """
        size = dt.bytes_of(self.dtype)
        row = self.box[-1] * size
        if self.pointer.offset % _PIECE or any(stride * size % _PIECE for stride in self.strides[:-1]):
            raise refusal(_RULE, f"a tensor's address and strides are multiples of {_PIECE} bytes", node)
        if self.strides[-1] != 1 or min(self.shape) < 1:
            raise refusal(_RULE, "a tensor has elements, and is dense in its innermost dimension", node)
        if not all(1 <= extent <= _MOST_IN_BOX for extent in self.box):
            raise refusal(
                _RULE, f"a box has 1 to {_MOST_IN_BOX} elements in a dimension, got {self.box}", node
            )
        if row % _PIECE or (self.swizzle and row > self.swizzle):
            raise refusal(
                _RULE,
                f"rows of a box have a multiple of {_PIECE} bytes, and no more than the swizzle of {self.swizzle}, if there is one;"
                f" got {row}",
                node,
            )

    @property
    def nbytes(self) -> int:
        """Of a box."""
        return int(np.prod(self.box)) * dt.bytes_of(self.dtype)

    def read(self, start: tuple[int, ...], node: E.Call) -> np.ndarray:
        """The bytes of the box that begins there, element by element; zeros outside of the tensor."""
        size, memory = dt.bytes_of(self.dtype), self.pointer.memory
        inside = np.ones(self.box, bool)
        place = np.zeros(self.box, np.int64)
        for axis, (first, extent, stride) in enumerate(zip(start, self.shape, self.strides, strict=True)):
            index = (first + np.arange(self.box[axis])).reshape(
                [-1 if i == axis else 1 for i in range(len(start))]
            )
            inside &= (index >= 0) & (index < extent)
            place += index * stride
        places = self.pointer.offset + place[inside].reshape(-1, 1) * size + np.arange(size)
        if places.size and not 0 <= places.min() <= places.max() < len(memory.content):
            raise refusal("bounds", "a copy of a box is outside of the memory", node)
        if memory.written is not None and not np.frombuffer(memory.written, np.uint8)[places].all():
            raise refusal("unwritten", "a box is copied of which somebody wrote nothing", node)
        found = np.zeros((inside.size, size), np.uint8)
        found[inside.reshape(-1)] = memory.content[places]
        return found


# ---- barriers ----------------------------------------------------------------------------------------------------


def running(expressions: Translator, node: E.Call) -> Callable[[], Thread]:
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


def create_barriers(expressions: Translator, node: E.Call) -> Closure:
    """Barriers of a block, which its threads create together."""
    thread, count = running(expressions, node), expressions.index(node.args[0])

    def create(env: Env) -> int:
        thread().barriers.create(count(env))
        return 0

    return create


def _barrier(expressions: Translator, node: E.Call, at: int) -> Callable[[Env], TransactionBarrier]:
    thread, number = running(expressions, node), expressions.index(node.args[at])
    return lambda env: thread().barriers.find(number(env))


def init_barrier(expressions: Translator, node: E.Call) -> Closure:
    """A barrier for so many arrivals."""
    barrier, count = _barrier(expressions, node, 0), expressions.index(node.args[1])

    def init(env: Env) -> int:
        found, wanted = barrier(env), count(env)
        if found.count or wanted < 1:
            what = "is made twice" if found.count else f"is made for {wanted} threads"
            raise refusal(RULE, f"barrier {found.number} {what}", node)
        found.count = found.pending = wanted
        return 0

    return init


def arrive_barrier(expressions: Translator, node: E.Call) -> Closure:
    """One arrival, which may tell of bytes to come."""
    barrier = _barrier(expressions, node, 0)
    expected = expressions.index(node.args[1]) if len(node.args) > 1 else lambda env: 0

    def arrive(env: Env) -> int:
        barrier(env).arrive(expected(env))
        return 0

    return arrive


def wait_barrier(expressions: Translator, node: E.Call) -> Closure:
    """Waits for the end of a phase, whose copies the thread knows of then."""
    barrier, thread = _barrier(expressions, node, 0), running(expressions, node)
    parity = expressions.index(node.args[1]) if len(node.args) > 1 else lambda env: 0
    place = Place(next(expressions.kernel.places), str(node))

    def wait(env: Env) -> int:
        found, own = barrier(env), thread()
        if not found.count:
            raise refusal(RULE, f"one waits for barrier {found.number}, which was not made", node)
        phase = Phase(place, own.number, found, parity(env))
        if not phase.is_due:
            own.meet(phase)
        own.seen_phases[found] = found.phase
        return 0

    return wait


def fence_proxy(expressions: Translator, node: E.Call) -> Closure:
    """Nothing: here, everybody sees what is written."""
    return lambda env: 0


# ---- copies ------------------------------------------------------------------------------------------------------


def encode_tensor_map(expressions: Translator, node: E.Call) -> Closure:
    """A tensor map."""
    address, dtype = expressions.data(node.args[0]), str(node.args[1].value)  # type: ignore[attr-defined]
    swizzle = int(node.args[2].value)  # type: ignore[attr-defined]
    numbers = [expressions.index(arg) for arg in node.args[3:]]
    rank = len(numbers) // 3

    def encode(env: Env) -> TensorMap:
        values = [int(number(env)) for number in numbers]
        parts = [tuple(values[first : first + rank]) for first in (0, rank, 2 * rank)]
        found = TensorMap(address(env), dtype, swizzle, *parts)
        found.refuse_misfits(node)
        return found

    return encode


def _begin(
    own: Thread, barrier: TransactionBarrier, to: Pointer, size: int, run: Callable[[], None], node: E.Call
) -> None:
    if not 0 <= to.offset <= len(to.memory.content) - size:
        raise refusal("bounds", f"a copy of {size} bytes to byte {to.offset} is outside of the memory", node)
    own.barriers.begin(BulkCopy(barrier, barrier.phase, to.memory, to.offset, size, run))


def copy_bulk(expressions: Translator, node: E.Call) -> Closure:
    """Begins to copy bytes."""
    shared, shared_offset, source, source_offset = node.args[:4]
    to, to_index = expressions.data(shared), expressions.index(shared_offset)
    of, of_index = expressions.data(source), expressions.index(source_offset)
    count, barrier, thread = (
        expressions.index(node.args[4]),
        _barrier(expressions, node, 5),
        running(expressions, node),
    )

    def copy(env: Env) -> int:
        size = count(env)
        target, begin = to(env).moved(to_index(env), node.dtype), of(env).moved(of_index(env), node.dtype)
        if size % _PIECE or target.offset % _PIECE or begin.offset % _PIECE:
            raise refusal(
                _RULE, f"a copy of {size} bytes: these and both addresses are multiples of {_PIECE}", node
            )
        if not 0 <= begin.offset <= len(begin.memory.content) - size:
            raise refusal(
                "bounds", f"a copy of {size} bytes from byte {begin.offset} is outside of the memory", node
            )

        def run() -> None:
            content = begin.memory.content[begin.offset : begin.offset + size]
            target.memory.content[target.offset : target.offset + size] = content

        _begin(thread(), barrier(env), target, size, run, node)
        return 0

    return copy


def copy_box(expressions: Translator, node: E.Call) -> Closure:
    """Begins to copy a box of a tensor."""
    to, to_index, tensor_map = (
        expressions.data(node.args[0]),
        expressions.index(node.args[1]),
        expressions.data(node.args[2]),
    )
    barrier, thread = _barrier(expressions, node, 3), running(expressions, node)
    coordinates = [expressions.index(arg) for arg in node.args[4:]]

    def copy(env: Env) -> int:
        found = tensor_map(env)
        if (
            not isinstance(found, TensorMap)
            or len(found.box) != len(coordinates)
            or found.dtype != node.dtype
        ):
            raise refusal(
                _RULE, f"there is no tensor map of {len(coordinates)} dimensions of {node.dtype}", node
            )
        target, start = (
            to(env).moved(to_index(env), node.dtype),
            tuple(int(item(env)) for item in coordinates),
        )
        alignment = 8 * found.swizzle or 128
        if target.offset % alignment:
            raise refusal(
                _RULE, f"a box goes to byte {target.offset}, which is no multiple of {alignment}", node
            )
        size = dt.bytes_of(found.dtype)
        places = target.offset + np.arange(found.nbytes).reshape(-1, size)

        def run() -> None:
            target.memory.content[swizzled(places, found.swizzle)] = found.read(start, node)

        _begin(thread(), barrier(env), target, found.nbytes, run, node)
        return 0

    return copy


FORMS: dict[str, Callable[[Translator, E.Call], Closure]] = {
    "tir.create_barriers": create_barriers,
    "tir.ptx_init_barrier_thread_count": init_barrier,
    "tir.ptx_arrive_barrier": arrive_barrier,
    "tir.ptx_arrive_barrier_expect_tx": arrive_barrier,
    "tir.ptx_wait_barrier": wait_barrier,
    "tir.ptx_fence_proxy_async": fence_proxy,
    "tir.tensor_map_encode_tiled": encode_tensor_map,
    "tir.ptx_cp_async_bulk": copy_bulk,
    "tir.ptx_cp_async_bulk_tensor": copy_box,
}
"""What the calls do."""
