"""Which children of a pipelined loop may touch the same memory, and what that asks of their order and of versions of buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...arith.analyzer import Analyzer
from ...error import IRValueError
from ...node import Visitor
from ..analysis.block_access_region import get_block_access_region
from ..buffer import Buffer
from ..expr import Call, IntImm, PrimExpr, Range, StringImm, Var
from ..intrinsic.declaration import INTRINSICS, CallEffectKind, effect_of
from ..operators import const
from ..stmt import Block, BlockRealize, BufferRegion, For, Stmt
from ..stmt_functor import loads_in, substitute


@dataclass(frozen=True, eq=False)
class Child:
    """One statement of a pipelined loop's body, and its place in the pipeline."""

    position: int
    """In the loop's body."""
    statement: Stmt
    stage: int
    order: int
    """Its position among the children in an iteration of the pipeline."""
    is_async: bool
    reads: Sequence[BufferRegion]
    writes: Sequence[BufferRegion]
    is_fence: bool
    """Whether it has effects that no address tells of, such as a barrier's: everything stays on its side of it."""

    def __str__(self) -> str:
        block = self.statement.block if isinstance(self.statement, BlockRealize) else None
        name = f" (block {block.name_hint!r})" if block is not None and block.name_hint else ""
        return f"child {self.position}{name}"

    def runs_before(self, other: Child, later: int) -> bool:
        """Whether the pipeline runs it before another one ``later`` iterations behind it."""
        return (self.stage, self.order) < (other.stage + later, other.order)


def child_of(
    position: int, statement: Stmt, stage: int, order: int, is_async: bool, buffers: Mapping[Var, Buffer]
) -> Child:
    """A statement as a child; ``buffers`` are those around it by their addresses."""
    block = Block((), (), (), "", statement)
    reads, writes, opaque = get_block_access_region(block, buffers)
    fences = _Fences()
    fences.visit(statement)
    return Child(
        position, statement, stage, order, is_async, reads + opaque, writes + opaque, fences.is_found
    )


class _Fences(Visitor):
    """Looks for calls with effects that their arguments do not tell of."""

    remembers: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.is_found = False

    def visit_Buffer(self, buffer: Buffer) -> None:
        """Declarations do nothing."""

    def visit_Call(self, call: Call) -> None:
        self.generic_visit(call)
        if effect_of(call) != CallEffectKind.UPDATE_STATE:
            return
        record = INTRINSICS.get(getattr(call.op, "name", ""))
        is_foreign = record is None or record.foreign
        self.is_found |= is_foreign or not any(map(_is_address, call.args))


def _is_address(value: Any) -> bool:
    return isinstance(value, PrimExpr) and value.dtype == "handle" and not isinstance(value, StringImm)


class Dependences:
    """What the memory that children of a loop touch says of a pipeline.

    Args:
        loop: the loop, as it was.
        children: in the order of its body.
        private: addresses of the memory that each iteration has for itself.
        ranges: of the variables around the loop.
        threads: those of them that tell threads apart.
    """

    def __init__(
        self,
        loop: For,
        children: Sequence[Child],
        private: set[Var],
        ranges: Mapping[Var, Range],
        threads: set[Var],
    ) -> None:
        self.loop, self.children, self.private = loop, children, private
        self._analyzer = Analyzer()
        for var, domain in ranges.items():
            self._analyzer.bind(var, domain)
        self._analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
        self._others: dict[Var, PrimExpr] = {}
        for var in threads:  # of another thread
            self._others[var] = other = Var(f"other_{var.name}", var.dtype)
            self._analyzer.bind(other, ranges[var])

    @property
    def reach(self) -> int:
        """Over how many iterations at most the pipeline changes the order of children."""
        stages = [child.stage for child in self.children]
        known = self.loop.extent
        furthest = max(stages) - min(stages)
        return min(furthest, max(known.value - 1, 0)) if isinstance(known, IntImm) else furthest

    def conflicts(self, first: Child, second: Child, later: int) -> Iterator[BufferRegion]:
        """What the first child accesses in one iteration and the second ``later`` iterations behind it, where one of both writes."""
        for before, after in (
            (first.writes, second.writes),
            (first.writes, second.reads),
            (first.reads, second.writes),
        ):
            for a in before:
                for b in after:
                    if a.buffer.data is b.buffer.data and self._may_overlap(a, b, later):
                        yield a

    def _may_overlap(self, a: BufferRegion, b: BufferRegion, later: int) -> bool:
        if a.buffer is not b.buffer:
            return True
        var = self.loop.loop_var
        values: dict[Var, PrimExpr] = {var: var + const(later, var.dtype)}
        if a.buffer.scope() != "local":
            values |= self._others
        prove = self._analyzer.can_prove
        for one, other in zip(a.region, b.region, strict=True):
            if any(map(loads_in, (one.min, one.extent, other.min, other.extent))):
                continue  # other children may change what is loaded
            low, extent = substitute(other.min, values), substitute(other.extent, values)
            if prove(one.min + one.extent <= low) or prove(low + extent <= one.min):
                return False
        return True

    def check(self) -> None:
        """Raise IRValueError for what the order of the pipeline breaks."""
        for later in range(self.reach + 1):
            for first in self.children:
                for second in self.children:
                    is_before = later > 0 or first.position < second.position
                    if is_before and not first.runs_before(second, later) and first is not second:
                        self._check_pair(first, second, later)

    def _check_pair(self, first: Child, second: Child, later: int) -> None:
        when = f" of the iteration {later} before" if later else ""
        reason = (
            f"software pipeline of loop {self.loop.loop_var.name!r}: {second} in stage {second.stage} at position"
            f" {second.order} would run before {first}{when} in stage {first.stage} at position {first.order}"
        )
        if first.is_fence or second.is_fence:
            raise IRValueError(f"{reason}, but one of them has effects whose order matters; keep their order")
        for region in self.conflicts(first, second, later):
            if later and region.buffer.data in self.private:
                continue  # versions keep the iterations apart
            advice = (
                ", or allocate it in the loop's body, so that each iteration has its own" if later else ""
            )
            raise IRValueError(
                f"{reason}, but both access buffer {region.buffer.name}; give the later one a later stage or position{advice}"
            )

    def versions(self, data: Var, at_least: int = 1) -> int:
        """How many versions a buffer needs so that iterations under way at the same time do not disturb each other."""
        reach = self.reach
        for count in range(at_least, reach + 1):
            if not any(self._disturbs(data, later) for later in range(count, reach + 1, count)):
                return count
        return max(reach + 1, at_least)

    def _disturbs(self, data: Var, later: int) -> bool:
        """Whether one version for iterations at this distance would be too few."""
        return any(
            not first.runs_before(second, later)
            and any(region.buffer.data is data for region in self.conflicts(first, second, later))
            for first in self.children
            for second in self.children
        )
