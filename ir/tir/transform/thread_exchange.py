"""How threads of a GPU block combine a value of each: by shuffles within warps, by shared memory between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ... import dtype as dt
from ...node import post_order_visit
from ..buffer import Buffer, decl_buffer
from ..expr import BufferLoad, CommReducer, IntImm, PrimExpr, Select, Var
from ..intrinsic.gpu import tvm_storage_sync, tvm_warp_shuffle, tvm_warp_shuffle_down
from ..operators import cast, const
from ..stmt import BufferStore, Evaluate, IfThenElse, LetStmt, Stmt, seq
from ..stmt_functor import substitute

Step = Stmt | tuple[Var, PrimExpr]
"""A statement, or a value that gets a name for all that follows."""


@dataclass(frozen=True)
class Exchange:
    """Threads of a block, in groups of which each combines the values of its own threads."""

    combiner: CommReducer
    size: int
    """How many threads a group has."""
    groups: int
    rank: PrimExpr
    """The number of a thread within its group."""
    group: PrimExpr
    linear: PrimExpr
    """The number of a thread within the block, of which ``warp_size`` in order are a warp."""
    is_in_order: bool
    """Whether a group's threads follow each other: ``linear == group * size + rank``."""
    warp_size: int
    is_repeated: bool
    """Whether the threads come here more than once, so that what is in shared memory may still be read by the slower ones."""

    def combined(self, values: Sequence[PrimExpr]) -> tuple[list[Step], list[PrimExpr], list[Buffer]]:
        """What every thread does, what it has then, and the shared memory that is needed."""
        if self.size == 1:
            return [], list(values), []
        if self._is_within_warps:
            steps = _Steps()
            found = self._within_warp(steps, steps.named("part", values))
            return steps.taken, found, []
        if self._is_of_whole_warps or self._is_of_one_group_of_warps:
            return self._between_warps(values)
        return self._in_tree(values)

    # -- which way

    @property
    def _is_within_warps(self) -> bool:
        fits = self.size <= self.warp_size
        return self.is_in_order and fits and (self.groups == 1 or self.warp_size % self.size == 0)

    @property
    def _warps(self) -> int:
        """How many warps a group has."""
        return -(-self.size // self.warp_size)

    @property
    def _is_of_whole_warps(self) -> bool:
        return self.is_in_order and self.size % self.warp_size == 0 and self._warps <= self.warp_size

    @property
    def _is_of_one_group_of_warps(self) -> bool:
        """Whether even the last warp, which is not whole, has a thread for the part of each warp."""
        last = self.size % self.warp_size
        return self.is_in_order and self.groups == 1 and self._warps <= last

    # -- within warps

    @property
    def _last(self) -> int:
        """How many threads the last warp of the block has, if it is not whole; else 0."""
        return self.size * self.groups % self.warp_size

    def _of_last_warp(self, last: int, others: int, dtype: str) -> PrimExpr:
        """A number that is another one in the last warp."""
        if not self._last:
            return const(others, dtype)
        whole = self.size * self.groups - self._last
        if not whole:
            return const(last, dtype)
        return Select(self.linear < const(whole, self.linear.dtype), const(others, dtype), const(last, dtype))

    @property
    def _lane(self) -> PrimExpr:
        return self.linear % const(self.warp_size, self.linear.dtype)

    def _mask(self) -> PrimExpr:
        """The threads that the warp has.

        Asking which of them run would be no answer: threads of a warp may have come apart, and meet in the shuffle.
        """
        dtype = "uint32" if self.warp_size <= 32 else "uint64"
        return self._of_last_warp((1 << self._last) - 1, (1 << self.warp_size) - 1, dtype)

    def _within_warp(self, steps: _Steps, values: list[Var]) -> list[PrimExpr]:
        """All threads of a group that lies within one warp, or of the part of it that does, get what they have together."""
        if self.warp_size % self.size == 0:  # all threads of all groups are there
            return self._down(steps, values, self.size)
        if self.size % self.warp_size == 0:
            return self._down(steps, values, self.warp_size)
        last = self._last
        count = self._of_last_warp(last, self.warp_size, self.linear.dtype)
        most = min(self.size, self.warp_size)
        return self._indexed(steps, values, steps.name("count", count), most)

    def _down(self, steps: _Steps, values: list[Var], width: int) -> list[PrimExpr]:
        """Combine each segment of a power of two of threads, in halves."""
        mask = steps.once("mask", self._mask())
        offset = width // 2
        while offset:
            given = [self._shuffled_down(value, mask, offset, width) for value in values]
            values = steps.named("part", self._combine(values, steps.named("other", given)))
            offset //= 2
        return [self._shuffled(value, mask, const(0, "int32"), width) for value in values]

    def _indexed(self, steps: _Steps, values: list[Var], count: PrimExpr, most: int) -> list[PrimExpr]:
        """Combine the first ``count`` threads of each warp, which are ``most`` at most; no thread is asked that is not there."""
        mask, lane = steps.once("mask", self._mask()), steps.once("lane", self._lane)
        offset = 1 << (most - 1).bit_length() >> 1
        while offset:
            source = lane + const(offset, lane.dtype)
            is_there = steps.name("is_there", source < count)
            place = steps.name("place", Select(is_there, source, lane))
            given = [self._shuffled(value, mask, place, self.warp_size) for value in values]
            new = self._combine(values, steps.named("other", given))
            values = steps.named("part", [Select(is_there, a, b) for a, b in zip(new, values, strict=True)])
            offset //= 2
        return [self._shuffled(value, mask, const(0, "int32"), self.warp_size) for value in values]

    def _shuffled_down(self, value: Var, mask: PrimExpr, offset: int, width: int) -> PrimExpr:
        return self._carried(
            value, lambda item: tvm_warp_shuffle_down(mask, item, offset, width, self.warp_size)
        )

    def _shuffled(self, value: Var, mask: PrimExpr, lane: PrimExpr, width: int) -> PrimExpr:
        return self._carried(value, lambda item: tvm_warp_shuffle(mask, item, lane, width, self.warp_size))

    @staticmethod
    def _carried(value: Var, shuffle: Callable[[PrimExpr], PrimExpr]) -> PrimExpr:
        """A shuffle of a type that there are shuffles of: what has less than 32 bits lies in one that has them, and all its values."""
        if dt.bits(value.dtype) >= 32:
            return shuffle(value)
        carrier = "float32" if dt.is_float(value.dtype) else "uint32" if dt.is_uint(value.dtype) else "int32"
        return cast(value.dtype, shuffle(cast(carrier, value)))

    # -- between warps

    def _between_warps(self, values: Sequence[PrimExpr]) -> tuple[list[Step], list[PrimExpr], list[Buffer]]:
        """Each warp combines its own and leaves it in shared memory, where each warp combines what all have left."""
        warps = self._warps
        rooms = self._rooms(self.groups * warps)
        steps = _Steps()
        own = self._within_warp(steps, steps.named("part", values))
        lane = steps.once("lane", self._lane)
        warp = steps.name("warp", self.linear // const(self.warp_size, self.linear.dtype))
        left = seq(
            *[
                BufferStore(room, value, [warp])
                for room, value in zip(rooms, steps.named("own", own), strict=True)
            ]
        )
        steps.taken += self._barriers(IfThenElse(lane.equal(const(0, lane.dtype)), left))
        first = self.group * const(warps, self.group.dtype)
        if self.size % self.warp_size == 0 and self.warp_size % warps == 0:
            place = steps.name("place", first + lane % const(warps, lane.dtype))
            found = steps.named("part", [BufferLoad(room, [place]) for room in rooms])
            return steps.taken, self._down(steps, found, warps), rooms
        count = const(warps, lane.dtype)
        place = steps.name("place", first + Select(lane < count, lane, const(0, lane.dtype)))
        found = steps.named("part", [BufferLoad(room, [place]) for room in rooms])
        return steps.taken, self._indexed(steps, found, count, warps), rooms

    def _in_tree(self, values: Sequence[PrimExpr]) -> tuple[list[Step], list[PrimExpr], list[Buffer]]:
        """Every thread leaves its value in shared memory, where half of them combine two, and half of these, and so on."""
        rooms = self._rooms(self.groups * self.size)
        steps = _Steps()
        given = steps.named("part", values)  # before any of them is overwritten
        rank = steps.name("rank", self.rank)
        first = steps.name("first", self.group * const(self.size, self.group.dtype))
        place = steps.name("place", first + rank)
        steps.taken += self._barriers(
            seq(*[BufferStore(room, value, [place]) for room, value in zip(rooms, given, strict=True)])
        )
        offset = 1 << (self.size - 1).bit_length() >> 1
        while offset:
            steps.taken += [
                IfThenElse(
                    rank < const(min(offset, self.size - offset), rank.dtype),
                    self._one_level(rooms, place, offset),
                ),
                _barrier(),
            ]
            offset //= 2
        return steps.taken, [BufferLoad(room, [first]) for room in rooms], rooms

    def _one_level(self, rooms: Sequence[Buffer], place: PrimExpr, offset: int) -> Stmt:
        level = _Steps()
        there = level.named("part", [BufferLoad(room, [place]) for room in rooms])
        coming = level.named(
            "other", [BufferLoad(room, [place + const(offset, place.dtype)]) for room in rooms]
        )
        both = self._combine(there, coming)
        level.taken += [BufferStore(room, value, [place]) for room, value in zip(rooms, both, strict=True)]
        return in_order(level.taken)

    def _rooms(self, elements: int) -> list[Buffer]:
        return [
            decl_buffer([elements], var.dtype, f"red_buf{number}", scope="shared")
            for number, var in enumerate(self.combiner.lhs)
        ]

    def _barriers(self, written: Stmt) -> list[Step]:
        """What is written to shared memory, behind what was read there before, and seen by all that follows."""
        return [_barrier(), written, _barrier()] if self.is_repeated else [written, _barrier()]

    def _combine(self, there: Sequence[PrimExpr], coming: Sequence[PrimExpr]) -> list[PrimExpr]:
        names = dict(zip([*self.combiner.lhs, *self.combiner.rhs], [*there, *coming], strict=True))
        return [substitute(result, names) for result in self.combiner.result]


class _Steps:
    """Steps as they are taken."""

    def __init__(self) -> None:
        self.taken: list[Step] = []
        self._known: dict[str, PrimExpr] = {}

    def once(self, name: str, value: PrimExpr) -> PrimExpr:
        """The value under a name that it has had since the first step that needed it."""
        if name not in self._known:
            self._known[name] = self.name(name, value)
        return self._known[name]

    def name(self, name: str, value: PrimExpr) -> PrimExpr:
        """The value under a name, unless it is a number or has one."""
        return value if isinstance(value, IntImm | Var) else self.named(name, [value])[0]

    def named(self, name: str, values: Sequence[PrimExpr]) -> list[Var]:
        """Names for values, numbered where they are several."""
        found = [
            Var(f"{name}{number}" if len(values) > 1 else name, value.dtype)
            for number, value in enumerate(values)
        ]
        self.taken += zip(found, values, strict=True)
        return found


def in_order(steps: Sequence[Step]) -> Stmt:
    """Steps as one statement."""
    body: list[Stmt] = []
    for step in reversed(steps):
        if isinstance(step, Stmt):
            body.insert(0, step)
        else:
            body = [LetStmt(step[0], step[1], seq(*body))]
    return seq(*body)


def without_unused_names(steps: Sequence[Step]) -> list[Step]:
    """Steps without the names that nothing behind them uses; threads that need no value do not exchange it either."""
    kept: list[Step] = []
    used: set[Var] = set()
    for step in reversed(steps):
        if not isinstance(step, Stmt) and step[0] not in used:
            continue
        kept.append(step)
        post_order_visit(
            step if isinstance(step, Stmt) else step[1],
            lambda node: used.add(node) if isinstance(node, Var) else None,
        )
    return kept[::-1]


def _barrier() -> Stmt:
    return Evaluate(tvm_storage_sync("shared"))


def linear_index(axes: Sequence[tuple[PrimExpr, int]]) -> PrimExpr:
    """The number of a thread by its indices and extents, of which the first runs fastest."""
    found: PrimExpr = const(0, "int32")
    stride = 1
    for index, extent in axes:
        if extent > 1:
            scaled = cast("int32", index) * const(stride, "int32")
            found = scaled if stride == 1 and isinstance(found, IntImm) else found + scaled
        stride *= extent
    return found
