"""Cache blocking: a reduction in blocks, such that all register tiles of a cache tile use a block's panels before the next begins.

    for <S0 fused, parallel>: for S1:                # tiles for cores
        C[S2, S3] = 0
        for K0:                                      # blocks of the longest reduction axis
            for S2:                                  # the register tiles of a cache tile
                part_local[S3] = 0                   # lives in vector registers
                for R0: for R1:
                    for S3 (unrolled, innermost vectorized):
                        part_local[...] += A[...] * B_packed[...]
                C[S2, S3] += part_local
        D[S2, S3] = epilogue(C[S2, S3])

A register tile that runs through a long reduction at once has read so much when it ends that the next one finds nothing of it in the
caches of its core. Blocks bound what it reads; for that the results are read and written once per block (Goto, van de Geijn: "Anatomy of
high-performance matrix multiplication", ACM TOMS 2008). Whose panel stays in the nearest cache, while those of the other operand pass,
is said by the order of the loops over register tiles (Van Zee, van de Geijn: "BLIS: a framework for rapidly instantiating BLAS
functionality", ACM TOMS 2015).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import prod
from typing import Any

from ir import tir
from ir.dtype import bytes_of
from ir.target import Target

from ..analysis import is_output_block
from ..annotation import PARALLEL, UNROLL, VECTORIZE
from ..block_facts import (
    constant_extents,
    elementwise_consumer,
    loop_position,
    node_of,
    operand_loads,
    operand_vars,
    own_loop_position,
    reduce_vars,
    spatial_vars,
)
from ..error import ScheduleError
from ..random_variable import BlockRV, ExprRV, LoopRV
from ..schedule import Schedule
from ..tree import BlockNode
from .padding import pad_loops
from .register_tile import (
    FactorLimits,
    TiledLoops,
    VectorLoop,
    keep_within_machine,
    mark_register_tile,
    pack_operand,
    registers_for,
    split_loops,
)


def may_be_blocked(structure: str) -> bool:
    """Whether levels of tiles have one of caches that blocks of the reduction may stand around: two spatial ones or more before it."""
    return re.fullmatch("SS+R+S", structure) is not None


def most_blocks(node: BlockNode, vector_var: Any, target: Target) -> int:
    """Into how many blocks a reduction may be divided: such that a register tile's panels of one still take half of the first cache.

    Smaller ones read and write the results more often, and nothing else less. One where the second cache holds the panels of a register
    tile without blocks: from there they come as fast as they are multiplied.
    """
    extents = constant_extents(node)
    if len(extents) != len(node.iter_vars):
        return 1
    registers = registers_for(node, target)
    tile = {vector_var: min(2 * registers.lanes, extents[vector_var])}
    rows = (registers.registers - 3) // 2  # two vectors each, and one for each column and a broadcast
    for var in reversed(_in_order(node)):
        if var is not vector_var:
            tile[var] = min(max(1, rows), extents[var])
            rows //= tile[var]
    panels = _read_bytes(node, {**extents, **tile})
    return 1 if panels <= target.l2_cache_bytes else 2 * panels // target.l1_cache_bytes


def turned_axes(node: BlockNode) -> frozenset[Any]:
    """The spatial variables whose loops come inside of all others where the other operand's panel is to stay in the nearest cache.

    By the order of the axes the innermost loop passes over the panels of an operand. Those of the variables that do not move it come inside
    instead. None where every operand moves with every variable that this one moves with: no order uses more again.
    """
    extents = constant_extents(node)
    wide = [var for var in _in_order(node) if extents[var] > 1]
    if not wide:
        return frozenset()
    passing = [used for used in operand_vars(node) if wide[-1] in used]
    return max((frozenset(wide) - used for used in passing), key=len, default=frozenset())


@dataclass(frozen=True)
class Blocking:
    """How a product is tiled in blocks of its reduction.

    Attributes:
        structure: levels of tiles, for which :func:`may_be_blocked` holds.
        limits: of innermost factors.
        target: the machine.
        vector_var: the block's variable of the vector axis.
        packed: positions of the operands to pack among the block's reads.
        constants: positions of those that are packed when the model is compiled.
        most_blocks: so many at most.
        padding: padded extents by block variable.
        innermost: variables whose loops over register tiles come inside of all others.
    """

    structure: str
    limits: FactorLimits
    target: Target
    vector_var: Any
    most_blocks: int
    packed: Sequence[int] = ()
    constants: Set[int] = frozenset()
    padding: Mapping[Any, int] | None = None
    innermost: Set[Any] = frozenset()

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The tiled schedule.

        Raises:
            ScheduleError: a primitive refuses a step, such as factoring out blocks of what is not associative.
        """
        node = node_of(sch, block)
        padding = dict(self.padding or {})
        packed = [(node.reads[position].buffer, position in self.constants) for position in self.packed]
        axes = _in_order(node)
        inside = [axes.index(var) for var in axes if var in self.innermost]
        vector = spatial_vars(node).index(self.vector_var)
        takes = not is_output_block(node) and elementwise_consumer(node) is not None
        epilogue = sch.get_consumers(block)[0] if takes else None
        pad_loops(sch, block, padding)
        reductions = _Reductions(sch, block, self.limits.other, self.structure.count("R"), self.most_blocks)
        tiled = self._tile_results(sch, block, vector, reductions)
        levels = [
            [axis[depth] for axis in tiled.loops["S"] if depth < len(axis)]
            for depth in range(self.structure.count("S"))
        ]
        *outer, tiles, registers = levels
        turned = [loop for number in inside for loop in tiled.loops["S"][number] if loop in tiles]
        tiles = [loop for loop in tiles if loop not in turned] + turned
        around = [loop for level in outer for loop in level]
        (blocks,) = tiled.loops["R"][0]
        sch.reorder(*around, blocks, *tiles, *registers)
        for loop in levels[0]:
            sch.annotate(loop, PARALLEL, 1)
        mark_register_tile(sch, registers, tiled.vector)
        sch.compute_at(reductions.parts, (tiles or [blocks])[-1], preserve_unit_loops=True)
        sch.set_scope(reductions.parts, 0, "local")
        part_var = self._tile_parts(sch, reductions, vector, tiled.vector)
        if epilogue is not None:
            sch.reverse_compute_at(epilogue, around[-1], preserve_unit_loops=True)
            _mark_cache_tile(sch, epilogue, tiled.vector)
        if tiled.vector is not None:
            width, is_padded = tiled.vector.factor, self.vector_var in padding
            for buffer, is_constant in packed:
                pack_operand(
                    sch,
                    reductions.parts,
                    buffer,
                    part_var,
                    width,
                    is_constant=is_constant,
                    is_padded=is_padded,
                )
        return [sch]

    def _tile_results(
        self, sch: Schedule, block: BlockRV, vector: int, reductions: _Reductions
    ) -> TiledLoops:
        """Split the loops of the block that sums up the parts, but for that over the parts."""
        node = node_of(sch, block)
        vector_var = spatial_vars(node)[vector]
        whole = reduce_vars(node)
        tiled = split_loops(sch, block, vector_var, self.structure, self.limits, whole=whole)
        tiled.factors["R"] = list(reductions.factors.values())
        keep_within_machine(sch, tiled, registers_for(node, self.target), self.target.num_cores)
        return tiled

    def _tile_parts(
        self, sch: Schedule, reductions: _Reductions, vector: int, vector_loop: VectorLoop | None
    ) -> Any:
        """Split the loops of the parts of one register tile, and mark them; the variable of the vector axis."""
        parts = reductions.parts
        levels = reductions.split(sch)
        _, *variables = spatial_vars(node_of(sch, parts))
        tile = _loops_of(sch, parts, variables)
        sch.reorder(*[loop for level in levels for loop in level], *tile)
        if len(levels) > 1:
            for loop in levels[-1]:
                sch.annotate(loop, UNROLL, 1)
        mark_register_tile(sch, tile, vector_loop and VectorLoop(tile[vector], vector_loop.factor))
        return variables[vector]


class _Reductions:
    """The reduction loops of a block in factors, and the block of partial results that the longest one's outermost factor makes."""

    def __init__(self, sch: Schedule, block: BlockRV, limit: int, n_levels: int, most_blocks: int) -> None:
        node = node_of(sch, block)
        extents = constant_extents(node)
        loops = sch.get_loops(block)
        self._variables = reduce_vars(node)
        self._longest = max(self._variables, key=extents.__getitem__)
        self._n_levels = n_levels
        if all(extents[self._longest] % count for count in range(2, most_blocks + 1)):
            raise ScheduleError(
                f"rule: the {extents[self._longest]} steps of {node.name!r} do not come in 2 to {most_blocks} equal blocks"
            )
        self.factors: dict[Any, list[ExprRV]] = {}
        """By variable; of the longest there is one more."""
        for var in self._variables:
            if extents[var] > 1:
                position = loop_position(node, var)
                assert position is not None
                n_factors = n_levels + (var is self._longest)
                self.factors[var] = sch.sample_perfect_tile(loops[position], n_factors, limit)
        longest = self.factors[self._longest]
        # One block is the nest without blocks.
        sch.restrict_tile(longest, lambda table: (table[:, 0] > 1) & (table[:, 0] <= most_blocks))
        position = loop_position(node, self._longest)
        assert position is not None
        blocks, *_ = sch.split(loops[position], longest)
        self.parts = sch.rfactor(blocks, 0)

    def split(self, sch: Schedule) -> list[list[LoopRV]]:
        """The loops of the parts by level, outermost first: those of the longest one are split already."""
        levels: list[list[LoopRV]] = [[] for _ in range(self._n_levels)]
        whole = _loops_of(sch, self.parts, reduce_vars(node_of(sch, self.parts)))
        for var in self._variables:
            if var is self._longest:
                parts, whole = whole[: self._n_levels], whole[self._n_levels :]
            elif var in self.factors:
                parts, whole = sch.split(whole[0], self.factors[var]), whole[1:]
            else:
                parts, whole = whole[:1], whole[1:]
            for level, part in zip(levels, parts, strict=False):
                level.append(part)
        return levels


def _loops_of(sch: Schedule, block: BlockRV, variables: Sequence[Any]) -> list[LoopRV]:
    """The loops of a block's own that feed some variables, one each."""
    node, loops = node_of(sch, block), sch.get_loops(block)
    positions = [own_loop_position(node, var) for var in variables]
    return [loops[position] for position in positions if position is not None]


def _mark_cache_tile(sch: Schedule, block: BlockRV, vector: VectorLoop | None) -> None:
    """Let the block that takes a cache tile's results do so by vectors of a register tile."""
    if vector is not None:
        *_, last = sch.get_loops(block)
        *_, lanes = sch.split(last, [None, vector.factor])
        sch.annotate(lanes, VECTORIZE, 1)


def _in_order(node: BlockNode) -> list[Any]:
    """The spatial variables in the order of their loops."""
    return sorted(spatial_vars(node), key=lambda var: loop_position(node, var) or 0)


def _read_bytes(node: BlockNode, extents: Mapping[Any, int]) -> int:
    """Bytes of operands that a part of the block reads, of overlapping windows more."""
    total = 0
    for load, used in zip(operand_loads(node), operand_vars(node), strict=True):
        size = prod(int(item) for item in load.buffer.shape if isinstance(item, tir.IntImm))
        part = prod(extents[var] for var in used if var in extents)
        total += min(size, part) * bytes_of(load.buffer.dtype)
    return total
