"""Products of warp groups: a thread computes its part of one when it waits for the product's group, which is as late as may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ... import dtype as dt
from .. import expr as E
from ..intrinsic.matrix_types import matrix_dtype, ptx_type
from ..intrinsic.warp_groups import WARP_GROUP
from .bulk_copies import running, swizzled
from .error import refusal
from .lanes import Closure
from .meetings import WARP, Barrier, Place
from .memory import Pointer
from .numbers import from_numpy
from .protocol import Thread, Translator

Env = dict[Any, Any]
_RULE = "warp-group"
_ATOM = 8
"""Rows of a group in shared memory."""
_TF32_BITS = np.uint32(0xFFFFE000)


@dataclass(frozen=True)
class Operand:
    """How an operand lies in shared memory."""

    dtype: str
    is_tf32: bool
    outer: int
    """Extent along m or n."""
    k: int
    is_along_k: bool
    swizzle: int
    leading: int
    stride: int


@lru_cache(maxsize=256)
def _offsets(item: Operand) -> np.ndarray:
    """The bytes of each element from the operand's address on, before they are swizzled: outer, k, byte."""
    size = dt.bytes_of(item.dtype)
    outer, k = np.arange(item.outer).reshape(-1, 1, 1), np.arange(item.k).reshape(1, -1, 1)
    if item.is_along_k:
        found = outer // _ATOM * item.stride + outer % _ATOM * item.swizzle + k * size
    else:
        row = item.swizzle // size
        found = (
            outer // row * item.leading
            + k // _ATOM * item.stride
            + k % _ATOM * item.swizzle
            + outer % row * size
        )
    return found + np.arange(size)


def _read(item: Operand, at: Pointer, rows: Any, own: Thread, node: E.Call) -> np.ndarray:
    """Some rows of an operand, which must be there: copies to it are done, and the thread knows of them."""
    memory = at.memory
    places = swizzled(at.offset + _offsets(item)[rows], item.swizzle)
    first, last = int(places.min()), int(places.max())
    if not 0 <= first <= last < len(memory.content):
        raise refusal("bounds", f"wgmma reads byte {last}, which is outside of the memory", node)
    if memory.written is not None and not np.frombuffer(memory.written, np.uint8)[places].all():
        raise refusal(
            "unwritten",
            "wgmma reads an operand of which nobody wrote something, or a copy to it is under way",
            node,
        )
    for copy in own.barriers.done.get(memory, ()):
        if (
            copy.start <= last
            and first < copy.start + copy.size
            and own.seen_phases.get(copy.barrier, 0) <= copy.phase
        ):
            raise refusal(
                _RULE,
                f"thread {own.number} reads what was copied in phase {copy.phase} of barrier {copy.barrier.number}, for which it has not"
                " waited, nor another thread before a barrier of the block",
                node,
            )
    found = memory.content[places].view(dt.to_numpy(item.dtype))[..., 0]
    if item.is_tf32:
        found = (found.view(np.uint32) & _TF32_BITS).view(np.float32)
    return found.astype(np.float64)


@dataclass(eq=False)
class _Sums:
    """A thread's sums while products add to them; their memory holds nothing meanwhile."""

    pointer: Pointer
    values: np.ndarray
    dtype: str

    def put(self) -> None:
        elements = self.pointer.elements(self.dtype)
        for place, value in enumerate(self.values):
            elements.write(place, from_numpy(value, self.dtype), "sums")


@dataclass(frozen=True, eq=False)
class _Begun:
    group: int
    key: Any
    compute: Callable[[], None]


class Products:
    """Products that a thread has begun."""

    def __init__(self) -> None:
        self.is_fenced = False
        self._group = 0
        self._begun: list[_Begun] = []
        self._held: dict[Any, _Sums] = {}

    def begin(
        self, pointer: Pointer, count: int, dtype: str, keeps: bool, compute: Any, node: E.Call
    ) -> None:
        """A product begins to add to sums: ``compute(values)`` gives the new ones of those before.

        Raises:
            UndefinedError: no fence stands between what was done to the sums and it.
        """
        key = pointer.memory, pointer.offset
        sums = self._held.get(key)
        if sums is None:
            if not self.is_fenced:
                raise refusal(
                    _RULE, "no ptx_wgmma_fence stands between what was done to the sums and the product", node
                )
            elements = pointer.elements(dtype)
            values = [elements.read(place, "sums") if keeps else 0 for place in range(count)]
            sums = self._held[key] = _Sums(pointer, np.array(values, dt.to_numpy(dtype)), dtype)
            for place in range(count):
                elements.write(place, from_numpy(sums.values[place], dtype), "sums")
                elements.forget(place, "sums")
        held = sums

        def run() -> None:
            held.values = compute(held.values if keeps else np.zeros_like(held.values))

        self._begun.append(_Begun(self._group, key, run))

    def commit(self) -> None:
        """Makes a group of what was begun since the last one."""
        self._group += 1

    def wait(self, under_way: int) -> None:
        """Computes all groups but so many, the latest ones."""
        ended = [item for item in self._begun if item.group + under_way < self._group]
        self._begun = self._begun[len(ended) :]
        for item in ended:
            item.compute()
        used = {item.key for item in self._begun}
        for key in [key for key in self._held if key not in used]:
            self._held.pop(key).put()
            self.is_fenced = False


def multiply(expressions: Translator, node: E.Call) -> Closure:
    """Begins a product."""
    shape, a_layout, b_layout, *types = (str(getattr(item, "value", "")) for item in node.args[:6])
    _, n, k = (int(item) for item in shape[1:].replace("n", " ").replace("k", " ").split())
    swizzle, a_leading, a_stride, b_leading, b_stride = (
        int(getattr(item, "value", 0)) for item in node.args[13:]
    )
    dtypes = [matrix_dtype(item) for item in types]
    tf32 = ptx_type(types[0]) == "tf32"
    a = Operand(dtypes[0], tf32, 64, k, a_layout == "row", swizzle, a_leading, a_stride)
    b = Operand(dtypes[1], tf32, n, k, b_layout == "col", swizzle, b_leading, b_stride)
    addresses = [(expressions.data(node.args[at]), expressions.index(node.args[at + 1])) for at in (6, 8, 10)]
    keeps, thread, total = expressions.condition(node.args[12]), running(expressions, node), dtypes[2]
    element = np.arange(n // 2)

    def begin(env: Env) -> int:
        own = thread()
        if len(own.everyone) % WARP_GROUP:
            raise refusal(
                _RULE,
                f"a block of {len(own.everyone)} threads has no whole warp groups of {WARP_GROUP}",
                node,
            )
        left, right, sums = (
            address(env).moved(index(env), dtype)
            for (address, index), dtype in zip(addresses, dtypes, strict=True)
        )
        row = own.number % WARP_GROUP // WARP * 16 + own.number % WARP // 4
        rows, columns = element // 2 % 2, element // 4 * 8 + own.number % 4 * 2 + element % 2

        def compute(before: np.ndarray) -> np.ndarray:
            product = _read(a, left, [row, row + 8], own, node) @ _read(b, right, slice(None), own, node).T
            found = before.astype(np.float64) + product[rows, columns]
            if dt.is_float(total):
                return found.astype(dt.to_numpy(total))
            return found.astype(np.int64).astype(dt.to_numpy(total))

        own.products.begin(sums, n // 2, total, bool(keeps(env)), compute, node)
        return 0

    return begin


def _warp_barrier(expressions: Translator, node: E.Call) -> Callable[[Thread], None]:
    place = Place(next(expressions.kernel.places), str(node))
    return lambda own: own.meet(Barrier(place, own.warp))


def fence(expressions: Translator, node: E.Call) -> Closure:
    """What was done to registers is there for products."""
    thread, together = running(expressions, node), _warp_barrier(expressions, node)

    def run(env: Env) -> int:
        own = thread()
        own.products.is_fenced = True
        together(own)
        return 0

    return run


def commit_group(expressions: Translator, node: E.Call) -> Closure:
    """Makes a group."""
    thread, together = running(expressions, node), _warp_barrier(expressions, node)

    def run(env: Env) -> int:
        own = thread()
        own.products.commit()
        together(own)
        return 0

    return run


def wait_group(expressions: Translator, node: E.Call) -> Closure:
    """Computes groups; behind it the whole warp is done with their operands."""
    thread, together, count = (
        running(expressions, node),
        _warp_barrier(expressions, node),
        expressions.index(node.args[0]),
    )

    def run(env: Env) -> int:
        own = thread()
        own.products.wait(count(env))
        together(own)
        return 0

    return run


FORMS: dict[str, Callable[[Translator, E.Call], Closure]] = {
    "tir.ptx_wgmma_mma_async": multiply,
    "tir.ptx_wgmma_fence": fence,
    "tir.ptx_wgmma_commit_group": commit_group,
    "tir.ptx_wgmma_wait_group": wait_group,
}
"""What the calls do."""
