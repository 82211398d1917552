"""Whether what a kernel reads of memory that is not everybody's was written there by its owner: by the same thread, warp or block.

Blocks of a program may use one buffer as if there were one. A kernel has as many as there are owners: each thread has registers of its
own, and each block of threads its shared memory. That is the same only if no owner reads what another one wrote. It is looked at while
there are blocks, before allocations move:

- *Never*: an element is written, or read, by one owner only. This is asked of sums over the variables of threads and loops.
- *First*: an owner writes what it reads before it does, in the same iteration of the loops of threads around both. Then it makes no
  difference what others write, as long as they do that in other iterations of those loops.
- *Alike*: all owners along an axis write the same, since nothing that is written depends on the axis, or since they reduce it together.

A loop that is bound to an axis, around all that touches a buffer, is a *common* one. Where loops of their own are bound to an axis, the
second reason does not count: all their threads write before one of them reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum

from ...arith.intervals import INF
from ...target.gpu_facts import WARP
from .. import stmt as S
from ..buffer import Buffer
from ..expr import IntImm, PrimExpr, Var
from ..function import PrimFunc
from ..operators import cast, const
from ..thread_axis import LAUNCH_ORDER, is_block_scope, is_launched, is_private_scope, is_virtual
from .carried_values import CarriedValues
from .element_owners import ElementOwners
from .memory_uses import FindUses, Use, Uses

_BLOCK_TAGS = LAUNCH_ORDER[:3]
_LANES_TAG = "threadIdx.x"


class Owner(Enum):
    """Who has memory of a scope for himself."""

    THREAD = "thread"
    WARP = "warp"
    BLOCK = "block"

    @classmethod
    def of(cls, scope: str, around: Sequence[S.For]) -> Owner:
        """Whose memory of a scope is that is allocated in a kernel, below some loops.

        Memory of scope "global" becomes memory of a thread, or of a block, there (:class:`~ir.tir.transform.PlaceThreadMemory`).
        """
        if is_private_scope(scope):
            return cls.THREAD if scope == "local" else cls.WARP
        is_one_threads = any(tag.startswith("threadIdx") for tag in _bound_loops(around))
        return cls.THREAD if is_one_threads and not is_block_scope(scope) else cls.BLOCK


@dataclass(frozen=True)
class HandedOver:
    """A read of what another owner may have written."""

    buffer: Buffer
    owner: Owner
    writer: str
    reader: str
    axis: str

    def __str__(self) -> str:
        name, owner = self.buffer.name, "virtual thread" if is_virtual(self.axis) else self.owner.value
        if self.axis.startswith("threadIdx"):
            fix = f'Use the scope "shared" for {name}, or compute it below the loop of its reader that is bound to {self.axis}'
        else:
            fix = f"Compute what block {self.reader!r} reads of {name} below its own loop that is bound to {self.axis}"
        return (
            f"block {self.reader!r} may read of {name}, of scope {self.buffer.scope()!r}, what block {self.writer!r} wrote in another"
            f" {owner} along {self.axis}, and each {owner} has memory of its own. {fix}"
        )


def handed_over(func: PrimFunc) -> list[HandedOver]:
    """The reads of a scheduled function that may meet what another owner wrote, one for each buffer.

    >>> from ir.script import tir as T
    >>> @T.prim_func
    ... def turned(A: T.Buffer((32,)), B: T.Buffer((32,))):
    ...     C = T.alloc_buffer((32,), scope="local")
    ...     for block in T.thread_binding(1, thread="blockIdx.x"):
    ...         for i in T.thread_binding(32, thread="threadIdx.x"):
    ...             with T.block("C"):
    ...                 v = T.axis.spatial(32, i)
    ...                 C[v] = A[v]
    ...         for i in T.thread_binding(32, thread="threadIdx.x"):
    ...             with T.block("B"):
    ...                 v = T.axis.spatial(32, i)
    ...                 B[v] = C[31 - v]
    >>> [(item.buffer.name, item.writer, item.reader, item.axis) for item in handed_over(turned)]
    [('C', 'C', 'B', 'threadIdx.x')]
    """
    finder = FindUses()
    finder.visit(func.body)
    changing = finder.written | finder.of.keys()
    memories = [_Memory(uses, changing, finder.alike) for uses in finder.of.values() if uses.found]
    doubtful = {memory.buffer.data: memory for memory in memories if memory.met_along_common() is not None}
    carried: set[Var] = set()
    if doubtful:
        values = CarriedValues(
            {data: memory.buffer for data, memory in doubtful.items()},
            {data: memory.common_loops for data, memory in doubtful.items()},
        )
        values.visit(func.body)
        carried = values.found
    found = [
        (memory.met_along_common(is_exact=True) if memory.buffer.data in carried else None)
        or memory.met_along_own()
        for memory in memories
    ]
    return [item for item in found if item is not None]


class _Memory:
    """A buffer, whose it is, and who touches what of it.

    Args:
        uses: all that touches it.
        changing: data pointers of memory whose content is not the same for all threads, or all the time.
        alike: for some of it, the variables of loops whose iterations have the same there.
    """

    def __init__(self, uses: Uses, changing: AbstractSet[Var], alike: Mapping[Var, AbstractSet[Var]]) -> None:
        self.buffer = uses.buffer
        self._uses, self._changing, self._alike = uses.found, changing, alike
        around = _common_prefix([use.loops for use in uses.found])
        self.owner = Owner.of(uses.buffer.scope(), around)
        kernel = next((at for at, loop in enumerate(around) if is_launched(loop)), None)
        depth = max(uses.depth, kernel or 0)
        self._loops = {use: _bound_loops(use.loops[depth:]) for use in self._uses}
        """For each use, by axis: the innermost loop around it that is bound to that, of those that do not stand still."""
        self._axes = {} if kernel is None else self._find_axes()  # else it is memory of the device
        self._common = {axis: loop for axis in self._axes if (loop := self._common_loop(axis)) is not None}
        values: dict[Var, PrimExpr] = {}
        extents: dict[Var, int | None] = {}
        for axis, var in self._axes.items():
            self._name(axis, var, values, extents)
        self._elements = ElementOwners(self.buffer, depth, values, extents)

    def _find_axes(self) -> dict[str, Var]:
        """The axes that tell owners apart, with a variable for each."""
        found = dict.fromkeys(tag for loops in self._loops.values() for tag in loops)
        tags = sorted(found, key=lambda tag: (tag in _BLOCK_TAGS, is_virtual(tag)))  # errors name the first
        return {tag: Var(tag, self._dtype(tag)) for tag in tags if self._tells(tag)}

    def _dtype(self, tag: str) -> str:
        """That of the loops which are bound to an axis, so that sums have no casts in them."""
        dtypes = {loops[tag].loop_var.dtype for loops in self._loops.values() if tag in loops}
        return dtypes.pop() if len(dtypes) == 1 else "int32"

    def _tells(self, tag: str) -> bool:
        if is_virtual(tag):  # turns of a thread, which are owners of what is allocated in them
            return self._common_loop(tag) is not None
        if tag in _BLOCK_TAGS:
            return True
        if self.owner is Owner.WARP:
            return self._threads() > WARP and (tag != _LANES_TAG or self._extent(tag) > WARP)
        return self.owner is Owner.THREAD

    def _common_loop(self, axis: str) -> S.For | None:
        loops = [self._loops[use].get(axis) for use in self._uses]
        return loops[0] if all(loop is loops[0] for loop in loops) else None

    def _extent(self, axis: str) -> int:
        """The largest extent of loops that are bound to an axis; INF where it is not known."""
        extents = [loops[axis].extent for loops in self._loops.values() if axis in loops]
        return max([item.value if isinstance(item, IntImm) else INF for item in extents], default=1)

    def _threads(self) -> int:
        """How many threads of a block touch the memory; those of a fragment come as warps."""
        total = 1 if self.buffer.scope() == "warp" else WARP
        for tag in LAUNCH_ORDER[3:]:
            total *= self._extent(tag)
        return total

    def _name(self, axis: str, var: Var, values: dict[Var, PrimExpr], extents: dict[Var, int | None]) -> None:
        """What the variables of loops are that are bound to an axis."""
        largest = self._extent(axis)
        extents[var] = None if largest >= INF else largest
        index: PrimExpr = var
        if self.owner is Owner.WARP and axis == _LANES_TAG:
            lane = Var("lane", var.dtype)
            extents[lane] = WARP
            index = var * const(WARP, var.dtype) + lane
            extents[var] = None if largest >= INF else -(-largest // WARP)
        for loops in self._loops.values():
            loop = loops.get(axis)
            if loop is not None:
                values[loop.loop_var] = loop.min + cast(loop.loop_var.dtype, index)

    @property
    def common_loops(self) -> Collection[S.For]:
        """The loops that are bound to an axis, each around all that touches the memory."""
        return self._common.values()

    # -- meetings ------------------------------------------------------------------------------------------------------
    def met_along_common(self, is_exact: bool = False) -> HandedOver | None:
        """A read that may meet what was written in another iteration of the common loops."""
        return self._met([*self._common], (), is_exact) if self._common else None

    def met_along_own(self) -> HandedOver | None:
        """A read that may meet, in the same iteration of the common loops, what another owner wrote."""
        own = [axis for axis in self._axes if axis not in self._common]
        fixed = [self._axes[axis] for axis in self._common]
        return self._met(own, fixed, True) if own else None

    def _met(self, axes: Sequence[str], fixed: Collection[Var], is_exact: bool) -> HandedOver | None:
        for writer, reader in self._pairs():
            tags = {self._axes[axis]: axis for axis in axes if self._writes_along(axis, writer, reader)}
            met = self._elements.meet(writer, reader, tags, fixed) if tags else None
            if met is None or (is_exact and not self._elements.meet_exactly(writer, reader, tags, fixed)):
                continue
            return HandedOver(
                self.buffer, self.owner, writer.block, reader.block, tags[met].partition(" ")[0]
            )
        return None

    def _pairs(self) -> Iterator[tuple[Use, Use]]:
        reads = [use for use in self._uses if not use.is_write]
        return ((use, reader) for use in self._uses if use.is_write for reader in reads)

    def _writes_along(self, axis: str, writer: Use, reader: Use) -> bool:
        """Whether owners along an axis write each their own: not the same all of them, nor what they reduce together."""
        loop, other = self._loops[writer].get(axis), self._loops[reader].get(axis)
        if loop is None or loop.loop_var in writer.shared:
            return False
        if other is loop or loop.loop_var in writer.depends:
            return True
        runs = None if other is None else (loop.extent, other.extent)
        is_as_wide = runs is not None and all(isinstance(item, IntImm) for item in runs)
        if not is_as_wide or any(
            loop.loop_var not in self._alike.get(data, ()) for data in self._changing & writer.depends
        ):
            return True
        return loop.extent.value < other.extent.value  # type: ignore


def _bound_loops(loops: Sequence[S.For]) -> dict[str, S.For]:
    """Loops by what they are bound to; each loop of virtual threads is an axis by itself."""
    found: dict[str, S.For] = {}
    for loop in loops:
        axis = loop.thread_binding
        if axis is not None and loop.kind is S.ForKind.THREAD_BINDING:
            tag = axis.thread_tag
            found[f"{tag} {id(loop)}" if is_virtual(tag) else tag] = loop
    return found


def _common_prefix(paths: Sequence[Sequence[S.For]]) -> Sequence[S.For]:
    first = paths[0]
    for at, loop in enumerate(first):
        if any(len(path) <= at or path[at] is not loop for path in paths):
            return first[:at]
    return first
