"""MultiLevelTiling: split the loops of a block with data reuse into levels, place caches between them, bind levels to threads.

With the structure ``SSRSRS`` a product of matrices becomes

    for i0, j0: for i1, j1: for k0: for i2, j2: for k1: for i3, j3: C[...] += A[...] * B[...]

and the options say where results and operands are cached. This is the rule of MetaSchedule with its parameters; for CPUs
:class:`~schedules.rule.register_tiling.RegisterTiling` knows more about registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ir import dtype as dt
from ir import tir
from ir.target.gpu_facts import ACCESS_BYTES
from ir.tir.stmt_functor import variables_in

from ..affine import coefficient_of, mentions
from ..analysis import consumers_of
from ..annotation import COOPERATIVE_FETCH, FEWEST_THREADS, MOST_THREADS, TILING_STRUCTURE
from ..block_facts import has_data_reuse, is_injective, node_of, reads_elementwise, stands_alone
from ..choice import one_of
from ..error import ScheduleError
from ..random_variable import BlockRV, ExprRV, LoopRV
from ..region import bind_region, relax_region
from ..schedule import Schedule
from ..tree import BlockNode, LoopNode, loops_around
from .base import ScheduleRule, unless_refused
from .device_limits import SharedCache, keep_within_device, product_of

_WIDEST_STRIDE = 3
"""Of the windows of usual convolutions."""


@dataclass(frozen=True)
class ReuseType:
    """How a buffer that a tile uses again is cached.

    Attributes:
        req: "no", "may" (with and without are offered), or "must".
        levels: tile levels, counted from 1, behind which the cache is filled (reads) or written out (writes).
        scope: storage scope of the cache.
    """

    req: str = "no"
    levels: Sequence[int] = field(default=())
    scope: str = "global"

    def __post_init__(self) -> None:
        if self.req not in ("no", "may", "must"):
            raise ScheduleError(f"ReuseType: req must be 'no', 'may' or 'must', got {self.req!r}")

    @staticmethod
    def of(given: ReuseType | Mapping[str, Any] | None) -> ReuseType:
        """From an instance, a dictionary of its fields, or None for no reuse."""
        if given is None:
            return ReuseType()
        if isinstance(given, ReuseType):
            return given
        unknown = given.keys() - {"req", "levels", "scope"}
        if unknown:
            raise ScheduleError(
                f"ReuseType: no field {', '.join(sorted(unknown))}; there are req, levels, scope"
            )
        return ReuseType(**given)


@dataclass
class TiledBlock:
    """One structure on its way: a schedule, its block, and the loops of every level."""

    sch: Schedule
    block: BlockRV
    levels: list[list[LoopRV]] = field(default_factory=list)
    caches: list[BlockRV] = field(default_factory=list)
    """Blocks that fill caches of operands."""
    factors: dict[tir.Var, dict[int, tir.PrimExpr]] = field(default_factory=dict)
    """Extents of the loops that a loop was split into, by its variable and by level."""
    reads: list[tir.BufferRegion] = field(default_factory=list)
    """What the block reads, in terms of the loops before they were split."""
    shared: list[SharedCache] = field(default_factory=list)
    """Caches of operands in shared memory."""

    def extent_of(self, levels: Iterable[int]) -> tir.PrimExpr:
        """Iterations of all loops of some levels together."""
        chosen = set(levels)
        return product_of(
            extent
            for factors in self.factors.values()
            for level, extent in factors.items()
            if level in chosen
        )

    def copy(self) -> TiledBlock:
        """The same on a copy of the schedule."""
        return replace(
            self,
            sch=self.sch.copy(),
            levels=[list(level) for level in self.levels],
            caches=list(self.caches),
            shared=list(self.shared),
        )


class MultiLevelTiling(ScheduleRule):
    """Tile reductions with data reuse in several levels.

    Args:
        structure: levels from the outside in; every S splits the spatial loops once more, every R the reduction loops. On CPUs
            "SSRSRS", on GPUs "SSSRRSRS" are usual.
        tile_binds: thread axes for the first spatial levels, whose loops are fused: "blockIdx.x", "vthread.x", "threadIdx.x"; "" for
            tiles that a block computes one after the other.
        max_innermost_factor: bound of the innermost factors; None or -1 for none.
        vector_load_lens: lengths of the vectors by which threads fill a cache together.
        reuse_read: how operands are cached, a :class:`ReuseType` or a dictionary of its fields.
        reuse_write: how results are cached.
        filter_fn: whether the rule takes a block, a function of the schedule and the block; by default those with data reuse.
    """

    def __init__(
        self,
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: ReuseType | Mapping[str, Any] | None = None,
        reuse_write: ReuseType | Mapping[str, Any] | None = None,
        filter_fn: Callable[[Schedule, BlockRV], bool] | None = None,
    ) -> None:
        name = type(self).__name__
        if not structure or set(structure) - {"S", "R"}:
            raise ScheduleError(f"{name}: structure must consist of S and R, got {structure!r}")
        self.structure = structure
        self.tile_binds = list(tile_binds or ())
        self.max_innermost_factor = (
            None if max_innermost_factor is None or max_innermost_factor < 0 else max_innermost_factor
        )
        self.vector_load_lens = list(vector_load_lens or ())
        self.reuse_read, self.reuse_write = ReuseType.of(reuse_read), ReuseType.of(reuse_write)
        self.filter_fn = filter_fn
        for reuse in (self.reuse_read, self.reuse_write):
            if any(not 1 <= level <= len(structure) for level in reuse.levels):
                raise ScheduleError(
                    f"{name}: levels {list(reuse.levels)} are not all among the {len(structure)} of {structure!r}"
                )
        if len(self.tile_binds) > structure.count("S"):
            raise ScheduleError(
                f"{name}: {len(self.tile_binds)} thread axes for {structure.count('S')} spatial levels"
            )

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if not self._takes(sch, block):
            return [sch]
        sch.annotate(block, TILING_STRUCTURE, self.structure)
        return [state.sch for state in self._states(TiledBlock(sch, block))]

    def _takes(self, sch: Schedule, block: BlockRV) -> bool:
        node = node_of(sch, block)
        if not stands_alone(node):
            return False
        return self.filter_fn(sch, block) if self.filter_fn is not None else has_data_reuse(node)

    def _states(self, state: TiledBlock) -> list[TiledBlock]:
        """The structures, made in three steps: levels, caches of results, caches of operands."""
        self._tile_loops(state)
        found = [self._cache_operands(item) for item in self._cache_result(state)]
        if self.tile_binds:
            for item in found:
                self._keep_within_device(item)
        return found

    def _keep_within_device(self, state: TiledBlock) -> None:
        """Constrain open decisions to what the device can run."""
        spatial = [level for level, kind in enumerate(self.structure) if kind == "S"]
        axes = dict(zip(spatial, self.tile_binds, strict=False))
        inside = [level for level in spatial if level not in axes]
        keep_within_device(
            state.sch,
            node_of(state.sch, state.block).writes[0].buffer,
            threads=state.extent_of(level for level, axis in axes.items() if axis.startswith("threadIdx")),
            virtual_threads=state.extent_of(
                level for level, axis in axes.items() if axis.startswith("vthread")
            ),
            results=state.extent_of(inside),
            shared=state.shared,
            target=self.target,
        )

    def _shared_cache(
        self,
        state: TiledBlock,
        position: int,
        place: int,
        copied: Sequence[tir.PrimExpr],
        lanes: ExprRV | None,
    ) -> SharedCache:
        """What the cache of an operand behind a level takes, all threads of a block together."""
        spatial = [level for level, kind in enumerate(self.structure) if kind == "S"]
        outside = [
            level
            for level, axis in zip(spatial, self.tile_binds, strict=False)
            if not axis or axis.startswith("blockIdx")
        ]
        region = state.reads[position]

        def extents_where(runs: Callable[[int], bool]) -> list[tir.PrimExpr]:
            running = {
                var: product_of(extent for level, extent in factors.items() if runs(level))
                for var, factors in state.factors.items()
            }
            return [extent for _, extent in relax_region(region.region, running, region.buffer.shape)]

        # Where several loops choose a place in one dimension, as groups and channels do, copies of uneven shares reach through all of it.
        whole = [
            dim if _has_digits(item.min, list(state.factors)) else extent
            for item, dim, extent in zip(
                region.region,
                region.buffer.shape,
                extents_where(lambda level: level not in outside),
                strict=True,
            )
        ]
        shared_by = spatial[: len(self.tile_binds)]
        return SharedCache(
            copied,
            extents_where(lambda level: level not in outside and (level >= place or level in shared_by)),
            whole,
            tir.const(1) if lanes is None else state.sch._value(lanes),
            dt.bytes_of(region.buffer.dtype),
        )

    # ---- levels ------------------------------------------------------------------------------------------------

    def _tile_loops(self, state: TiledBlock) -> None:
        sch, block = state.sch, state.block
        node = node_of(sch, block)
        reductions = {
            value
            for item, value in zip(node.iter_vars, node.iter_values, strict=True)
            if item.iter_type == tir.IterVar.CommReduce
        }
        spatial = [level for level, kind in enumerate(self.structure) if kind == "S"]
        reduced = [level for level, kind in enumerate(self.structure) if kind == "R"]
        levels: list[list[LoopRV]] = [[] for _ in self.structure]
        state.reads = state.reads or read_by_loops(node)
        nodes = loops_around(node)
        for loop, item in zip(sch.get_loops(block), nodes, strict=True):
            chosen = reduced if item.var in reductions else spatial
            if not chosen:
                continue
            parts = self._split(sch, node, loop, item, len(chosen))
            for level, part in zip(chosen, parts, strict=True):
                levels[level].append(part)
            state.factors[item.var] = {
                level: sch.get(part).extent for level, part in zip(chosen, parts, strict=True)
            }
        sch.reorder(*[loop for level in levels for loop in level])
        for number, axis in enumerate(self.tile_binds):
            if not axis:
                continue
            fused = sch.fuse(*levels[spatial[number]])
            sch.bind(fused, axis)
            levels[spatial[number]] = [fused]
        if self.tile_binds:
            target = self.target
            sch.annotate(block, FEWEST_THREADS, target.thread_warp_size)
            sch.annotate(block, MOST_THREADS, target.max_threads_per_block)
        state.levels = levels

    def _split(self, sch: Schedule, node: BlockNode, loop: LoopRV, item: LoopNode, n: int) -> list[LoopRV]:
        """One loop of a block as ``n`` loops."""
        limit = self.max_innermost_factor
        if limit is None:
            limit = item.extent.value if isinstance(item.extent, tir.IntImm) else 64
        factors = sch.sample_perfect_tile(loop, n, limit)
        if self.tile_binds and item.var in _outer_digits(node):
            sch.restrict_tile(factors, _one_at_a_time)
        return sch.split(loop, factors)

    # ---- caches ------------------------------------------------------------------------------------------------

    def _place(self, state: TiledBlock, level: int) -> LoopRV:
        """The last loop of a level, or of the nearest one outside that has any."""
        return next(loops[-1] for loops in reversed(state.levels[:level]) if loops)

    def _cache_result(self, state: TiledBlock) -> list[TiledBlock]:
        reuse = self.reuse_write
        if reuse.req == "no":
            return [state]
        found: list[TiledBlock] = []
        consumers = consumers_of(node_of(state.sch, state.block))
        elementwise = len(consumers) == 1 and _follows(node_of(state.sch, state.block), consumers[0])
        if reuse.req == "may" and elementwise:
            # The consumer's buffer is the copy of the tile that a cache would be.
            for level in reuse.levels:
                found += unless_refused(state, partial(self._followed, level=level))
            return [*found, state]
        for level in reuse.levels:
            found += unless_refused(state, partial(self._written_out, level=level))
        return [*found, state] if reuse.req == "may" or not found else found

    def _followed(self, state: TiledBlock, level: int) -> list[TiledBlock]:
        """The block's only consumer in the tile of a level; it cannot follow where it runs for a triangle of its domain, say."""
        (consumer,) = state.sch.get_consumers(state.block)
        state.sch.reverse_compute_at(consumer, self._place(state, level), preserve_unit_loops=True)
        return [state]

    def _written_out(self, state: TiledBlock, level: int) -> list[TiledBlock]:
        """The block with a cache of its result that is written out in the tile of a level."""
        copy = state.sch.cache_write(state.block, 0, self.reuse_write.scope)
        state.sch.reverse_compute_at(copy, self._place(state, level), preserve_unit_loops=True)
        return [state]

    def _cache_operands(self, state: TiledBlock) -> TiledBlock:
        reuse = self.reuse_read
        if reuse.req == "no":
            return state
        sch = state.sch
        node = node_of(sch, state.block)
        written = {region.buffer for region in node.writes}
        operands = [
            i
            for i, region in enumerate(node.reads)
            if region.buffer not in written and _has_fixed_size(region)
        ]
        for level in reuse.levels:
            for position in operands:
                copy = sch.cache_read(state.block, position, reuse.scope, consumer_blocks=[state.block])
                self._fetch(state, copy, position, level)
        return state

    def _fetch(
        self, state: TiledBlock, copy: BlockRV, position: int, level: int, fewest_bytes: int = 1
    ) -> None:
        """Fills the cache of an operand behind a level, by accesses of some bytes at least, where lengths of vectors allow it."""
        sch = state.sch
        sch.compute_at(copy, self._place(state, level), preserve_unit_loops=True)
        copied = node_of(sch, copy)
        loops = sch.get_loops(copy)[-len(copied.iter_vars) :]
        extents = [sch.get(loop).extent for loop in loops]
        chosen = self._share_copy(sch, copy, fewest_bytes)
        state.caches.append(copy)
        if self.tile_binds and self.reuse_read.scope.startswith("shared"):
            cache = self._shared_cache(state, position, level, extents, chosen)
            state.shared += [cache] if cache.is_known else []

    def _share_copy(self, sch: Schedule, copy: BlockRV, fewest_bytes: int = 1) -> ExprRV | None:
        """Lets threads copy together; how many elements each of them takes at once, if that is known."""
        copied = node_of(sch, copy)
        sch.fuse(*sch.get_loops(copy)[-len(copied.iter_vars) :])
        lengths = [n for n in self.vector_load_lens if fits_vector(copied, n)]
        if not lengths:
            return None
        size = dt.bytes_of(copied.writes[0].buffer.dtype)
        chosen = one_of(sch, [length for length in lengths if length * size >= fewest_bytes] or lengths)
        sch.annotate(copy, COOPERATIVE_FETCH, chosen)
        return chosen


def read_by_loops(node: BlockNode) -> list[tir.BufferRegion]:
    """What a block reads, in terms of the loops around it."""
    values = dict(zip([item.var for item in node.iter_vars], node.iter_values, strict=True))
    return [tir.BufferRegion(item.buffer, bind_region(item.region, values)) for item in node.reads]


def _outer_digits(node: BlockNode) -> set[tir.Var]:
    """The loops that choose a place in a dimension of the result together with loops of smaller steps, as groups of channels do.

    Tiles of several of their iterations would have gaps.
    """
    values = dict(zip([item.var for item in node.iter_vars], node.iter_values, strict=True))
    found: set[tir.PrimExpr] = set()
    for item in node.writes[0].region:
        steps = {var: coefficient_of(item.min, var) or 0 for var in variables_in(item.min) if var in values}
        found |= {values[var] for var, step in steps.items() if step > min(steps.values())}
    return {value for value in found if isinstance(value, tir.Var)}


def _has_digits(index: tir.PrimExpr, loops: Sequence[tir.Var]) -> bool:
    """Whether several loops choose a place in a dimension, and one of them by steps that no window has."""
    steps = [coefficient_of(index, var) or 0 for var in loops if mentions(index, {var})]
    return len(steps) > 1 and max(map(abs, steps)) > _WIDEST_STRIDE


def _one_at_a_time(table: np.ndarray) -> np.ndarray:
    """The tiles of one iteration."""
    found: np.ndarray = (table[:, 1:] == 1).all(axis=1)
    return found


def _follows(node: BlockNode, consumer: BlockNode) -> bool:
    """Whether a consumer reads the result elementwise, so that it can write out a tile."""
    return is_injective(consumer) and reads_elementwise(consumer, node.writes[0].buffer)


def _has_fixed_size(region: tir.BufferRegion) -> bool:
    """Whether every iteration reads as much. Of a tensor that is read at two places it does not: what lies between is counted."""
    return all(isinstance(item.extent, tir.IntImm) for item in region.region)


def fits_vector(node: BlockNode, length: int) -> bool:
    """Whether a thread loads a vector of elements at once."""
    return length * dt.bytes_of(node.writes[0].buffer.dtype) <= ACCESS_BYTES
