"""RegisterTiling: tiles for the caches and registers of a CPU, with accumulators in registers and packed operands.

A reduction with data reuse becomes

    for <S0 fused, parallel>: for S1: for S2:        # tiles for cores and caches
        C_local[S3] = 0                              # lives in vector registers
        for R0: for R1:
            for S3 (unrolled, innermost vectorized):
                C_local[...] += A[...] * B_packed[...]
        C[S3] = epilogue(C_local)

The innermost spatial tile is the register tile: its vector axis is a multiple of the vector width and the whole tile
fits the register file (Goto, van de Geijn: "Anatomy of high-performance matrix multiplication", ACM TOMS 2008). An operand
that the vector axis indexes is packed into panels of one register tile's width; constant weights are packed when the model
is compiled, others when the kernel runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from ir import dtype as dt
from ir import tir
from ir.tir import IndexMap
from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC
from ir.tir.stmt_functor import variables_in

from ..analysis import is_output_block
from ..annotation import PARALLEL, UNROLL, VECTORIZE
from ..error import ScheduleError
from ..layout_rewrite import layout_free_parameters
from ..population.sketch import SketchSchedule
from ..random_variable import BlockRV, ExprRV, LoopRV
from ..schedule import Schedule
from ..tree import BlockNode, loops_around, loops_of_its_own
from .base import unless_refused
from .block_facts import (
    contiguous_var,
    elementwise_consumer,
    fills_tile,
    has_data_reuse,
    is_one,
    is_product,
    loop_position,
    node_of,
    operand_loads,
    own_loop_position,
    reduce_vars,
    reduces_side_by_side,
    spatial_vars,
)
from .multi_level_tiling import MultiLevelTiling, stands_alone
from .padding import RegisterFile, choose_padding, pad_loops

_WORTH_PADDING = 1.04
"""Offer padded extents where they are estimated to be faster by this factor,"""
_CLEARLY_BETTER = 1.3
"""and only them from here on."""


class RegisterTiling(MultiLevelTiling):
    """Multi-level tiling for CPUs: the innermost tile lives in vector registers.

    Args:
        structure: levels from the outside in; every S splits the spatial loops once more, every R the reduction loops.
        max_innermost_factor: bound of innermost factors that are no vector axis.
        max_vector_tile: bound of the vector axis' innermost factor.
        pack_operands: offer packed variants of operands that the vector axis indexes.
        max_padding: share by which an extent without good divisors may grow (see :mod:`~schedules.rule.padding`).
    """

    def __init__(
        self,
        structure: str = "SSSRRS",
        max_innermost_factor: int = 64,
        max_vector_tile: int = 128,
        pack_operands: bool = True,
        max_padding: float = 0.1,
    ) -> None:
        super().__init__(structure, max_innermost_factor=max_innermost_factor)
        if not structure.endswith("S"):
            raise ScheduleError(f"RegisterTiling: structure must end with S, got {structure!r}")
        self.max_inner = max_innermost_factor
        self.max_vector_tile = max_vector_tile
        self.pack_operands = pack_operands
        self.max_padding = max_padding

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        # The tile's epilogue takes whole tiles: a block that runs for a part of its domain (a triangle) fills none.
        runs_everywhere = isinstance(node.predicate, tir.IntImm)
        reuses = has_data_reuse(node)
        if not runs_everywhere:
            return [sch]
        if fills_tile(node) and is_product(node) and self.structure.startswith("SS"):
            return self._tile_inside(sch, block)
        if not stands_alone(node) or not (reuses or reduces_side_by_side(node)):
            return [sch]
        vector_var = self._vector_axis(node)
        packs = self._packable(sch, node, vector_var) if self.pack_operands and reuses else []
        constant = [index for index, is_constant in packs if is_constant]
        runtime = [index for index, is_constant in packs if not is_constant]
        variants = [constant] + ([constant + runtime] if runtime else [])
        found: list[Schedule] = []
        for padding, pack in product(self._paddings(node, vector_var), variants):
            tile = partial(
                self._tile,
                block=block,
                vector_var=vector_var,
                packs=pack,
                constants=set(constant),
                padding=padding,
                is_inside=False,
            )
            staged = partial(tile, stage=_stage_in_cache)
            found += unless_refused(sch, partial(tile, stage=_stage_for_consumer)) or unless_refused(
                sch, staged
            )
        # without reuse registers save no loads: whole rows, one after the other, may come faster from memory than columns of tiles
        return found if found and reuses else [*found, sch]

    def _tile_inside(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Tile a product in the tile of another nest, packing what is not contiguous along the vector axis."""
        node = node_of(sch, block)
        vector_var = self._vector_axis(node)
        if vector_var is None:
            return [sch]
        packs = self._packable(sch, node, vector_var) if self.pack_operands else []
        scattered = [index for index, _ in packs if node.reads[index].region[-1].min is not vector_var]
        tile = partial(
            self._tile,
            block=block,
            vector_var=vector_var,
            packs=scattered,
            constants={index for index, is_constant in packs if is_constant},
            padding={},
            is_inside=True,
            stage=_stage_in_cache,
        )
        return unless_refused(sch, tile) or [sch]

    def _lanes(self, node: BlockNode) -> int:
        return int(max(1, self.target.vector_bits // dt.bits(node.writes[0].buffer.dtype)))

    def _paddings(self, node: BlockNode, vector_var: Any) -> list[dict[Any, int]]:
        """Padded extents to offer, by block variable; an empty one tiles by divisors."""
        machine = RegisterFile(self._lanes(node), self.target.vector_registers)
        padding, gain = choose_padding(node, vector_var, machine, self.max_padding)
        if gain < _WORTH_PADDING:
            return [{}]
        return [padding] if gain > _CLEARLY_BETTER else [padding, {}]

    def _vector_axis(self, node: BlockNode) -> Any:
        """The output's contiguous axis, unless it is narrow and another axis is contiguous in no operand anyway."""
        var = contiguous_var(node)
        position_of = loop_position if stands_alone(node) else own_loop_position
        if var is not None and position_of(node, var) is not None:
            return var
        return next(
            (item for item in reversed(spatial_vars(node)) if position_of(node, item) is not None), None
        )

    def _packable(self, sch: Schedule, node: BlockNode, vector_var: Any) -> list[tuple[int, bool]]:
        """(read position, is constant) of operands that have the vector axis alone in one dimension, and no other spatial
        axis that is tiled for reuse within it. A tensor that is read twice is not packed: its panels would serve one operand only.
        """
        if vector_var is None:
            return []
        func = sch._functions[sch._function_of(node)]
        constants = set(layout_free_parameters(func))
        written = {region.buffer for region in node.writes}
        reductions = set(reduce_vars(node))
        n_loads = Counter(load.buffer for load in operand_loads(node))
        result = []
        for position, region in enumerate(node.reads):
            if region.buffer in written or n_loads[region.buffer] != 1:
                continue
            dims = [i for i, item in enumerate(region.region) if item.min is vector_var]
            used = set(variables_in(*[item.min for item in region.region]))
            if len(dims) != 1 or not used & reductions:
                continue
            others = {
                var for i, item in enumerate(region.region) if i != dims[0] for var in variables_in(item.min)
            }
            if vector_var in others:
                continue
            wide = [
                item
                for item in node.iter_vars
                if item.var in used - reductions and not is_one(item.dom.extent)
            ]
            if len(wide) > 2:
                continue  # depthwise-like operands vary with every output element: packing copies all data
            result.append((position, region.buffer in constants))
        return result

    # ---- one variant -------------------------------------------------------------------------------------------

    def _tile(
        self,
        sch: Schedule,
        block: BlockRV,
        vector_var: Any,
        packs: Sequence[int],
        constants: set[int],
        padding: dict[Any, int],
        is_inside: bool,
        stage: Callable[[Schedule, BlockRV], BlockRV],
    ) -> list[Schedule]:
        """The tiled schedule; a block that ``is_inside`` the tile of another nest has its share of the cores already."""
        node = node_of(sch, block)
        epilogue = stage(sch, block)
        pad_loops(sch, block, padding)
        packed_buffers = [(node.reads[index].buffer, index in constants) for index in packs]
        structure = self.structure[1:] if is_inside else self.structure
        tiles, vector_tile = self._split_loops(sch, block, vector_var, structure, is_inside)
        outermost = [factors[0] for factors in self._samples["S"]]
        self._restrict(sch, vector_tile, node, outermost if is_inside else ())
        levels = [[loop for column in level for loop in column] for level in _levels(structure, tiles)]
        sch.reorder(*[loop for level in levels for loop in level])
        spatial_levels = [level for kind, level in zip(structure, levels, strict=True) if kind == "S"]
        if not is_inside:
            for loop in spatial_levels[0]:
                sch.annotate(loop, PARALLEL, 1)
        innermost = spatial_levels[-1]
        first_reduction = structure.index("R")
        place = [loop for level in levels[:first_reduction] for loop in level][-1]
        self._mark_register_tile(sch, innermost, vector_tile)
        self._mark_inner_reduction(sch, levels, structure)
        sch.reverse_compute_at(epilogue, place, preserve_unit_loops=True)
        self._mark_epilogue(sch, epilogue)
        if vector_tile is not None:
            for buffer, is_constant in packed_buffers:
                self._pack(sch, block, buffer, vector_var, vector_tile[1], is_constant, vector_var in padding)
        return [sch]

    def _split_loops(
        self,
        sch: Schedule,
        block: BlockRV,
        vector_var: Any,
        structure: str,
        is_inside: bool = False,
        whole: Sequence[Any] = (),
    ) -> tuple[dict[str, list[list[LoopRV]]], tuple[LoopRV, ExprRV] | None]:
        """Split every loop of the block's own by a perfect tile: loops by kind and axis, and the vector axis' innermost one and factor.

        Loops of extent 1 stay whole, and so do those of the variables in ``whole``.
        """
        node = node_of(sch, block)
        position_of = own_loop_position if is_inside else loop_position
        reducing = {position_of(node, var) for var in reduce_vars(node)}
        kept = {position_of(node, var) for var in whole}
        n_shared = len(loops_around(node)) - len(loops_of_its_own(node)) if is_inside else 0
        vector_position = position_of(node, vector_var) if vector_var is not None else None
        loop_nodes = loops_around(node)
        tiles: dict[str, list[list[LoopRV]]] = {"S": [], "R": []}
        vector_tile = None
        self._samples: dict[str, list[list[ExprRV]]] = {"S": [], "R": []}
        for position, loop in list(enumerate(sch.get_loops(block)))[n_shared:]:
            kind = "R" if position in reducing else "S"
            n = structure.count(kind)
            if is_one(loop_nodes[position].extent) or position in kept:
                tiles[kind].append([loop])
                continue
            is_vector = position == vector_position
            limit = self.max_vector_tile if is_vector else self.max_inner
            factors = sch.sample_perfect_tile(loop, n, limit)
            parts = sch.split(loop, factors)
            tiles[kind].append(parts)
            self._samples[kind].append(factors)
            if is_vector:
                vector_tile = (parts[-1], factors[-1])
        return tiles, vector_tile

    def _restrict(
        self,
        sch: Schedule,
        vector_tile: tuple[LoopRV, ExprRV] | None,
        node: BlockNode,
        serial: Sequence[ExprRV] = (),
    ) -> None:
        """Build the machine's limits into the tables of a sketch: vector width, register file, unrolled code, cores.

        The outermost factors of spatial loops run on the cores, but for those in ``serial``.
        """
        if not isinstance(sch, SketchSchedule):
            return
        lanes = self._lanes(node)
        registers, cores = self.target.vector_registers, self.target.num_cores
        vector_rv = vector_tile[1] if vector_tile is not None else None
        for factors in self._samples["S"]:
            if vector_rv is not None and factors[-1] is vector_rv:
                sch.restrict_tile(factors, lambda table: _vector_friendly(table[:, -1], lanes))
        inner = [factors[-1] for factors in self._samples["S"]]
        if inner:

            def fits(*values: np.ndarray) -> np.ndarray:
                rows, columns = np.ones(1), np.ones(1)
                for rv, value in zip(inner, values, strict=True):
                    if rv is vector_rv:
                        columns = columns * np.ceil(value / lanes)
                    else:
                        rows = rows * value
                # Accumulators, one row of the vector operand, and a broadcast must fit, or LLVM spills in the inner loop.
                return rows * columns + columns + 1 <= registers

            sch.constrain(inner, fits)
        unrolled = [factors[-1] for factors in self._samples["R"]]
        if unrolled and inner:

            def short(*values: np.ndarray) -> np.ndarray:
                tile, steps = np.ones(1), np.ones(1)
                for position, (rv, value) in enumerate(zip([*inner, *unrolled], values, strict=True)):
                    if position < len(inner):
                        tile = tile * (np.ceil(value / lanes) if rv is vector_rv else value)
                    else:
                        steps = steps * value
                # Long bodies around a full register tile make LLVM spill accumulators.
                return tile * steps <= np.where(tile >= registers // 2, 112, 256)

            sch.constrain([*inner, *unrolled], short)
        shared = [factors for factors in self._samples["S"] if factors[0] not in serial]
        outer = [factors[0] for factors in shared]
        if outer:
            most = _largest_parallelism(shared, sch)

            def busy(*values: np.ndarray) -> np.ndarray:
                jobs = np.ones(1)
                for value in values:
                    jobs = jobs * value
                return (jobs >= min(cores, most)) & (jobs <= max(64 * cores, cores))

            sch.constrain(outer, busy)

    def _mark_register_tile(
        self, sch: Schedule, innermost: Sequence[LoopRV], vector_tile: tuple[LoopRV, ExprRV] | None
    ) -> None:
        if vector_tile is not None and innermost[-1] is not vector_tile[0]:
            others = [loop for loop in innermost if loop is not vector_tile[0]]
            sch.reorder(*others, vector_tile[0])
        for loop in innermost:
            is_vector = vector_tile is not None and loop is vector_tile[0]
            sch.annotate(loop, VECTORIZE if is_vector else UNROLL, 1)

    def _mark_inner_reduction(self, sch: Schedule, levels: list[list[LoopRV]], structure: str) -> None:
        """The last reduction level is unrolled where it was sampled."""
        if structure.count("R") < 2:
            return
        last = len(structure) - 1 - structure[::-1].index("R")
        for loop in levels[last]:
            sch.annotate(loop, UNROLL, 1)

    def _mark_epilogue(self, sch: Schedule, epilogue: BlockRV) -> None:
        node = node_of(sch, epilogue)
        n_inner = 0
        for loop in reversed(loops_around(node)):
            if loop.annotations:
                break
            if not loop.var.name.startswith("ax"):
                break
            n_inner += 1
        loops = sch.get_loops(epilogue)
        inner = loops[len(loops) - n_inner :]
        for position, inner_loop in enumerate(inner):
            last = position == len(inner) - 1
            sch.annotate(inner_loop, VECTORIZE if last else UNROLL, 1)

    def _pack(
        self,
        sch: Schedule,
        block: BlockRV,
        buffer: tir.Buffer,
        vector_var: Any,
        factor: ExprRV,
        is_constant: bool,
        is_padded: bool,
    ) -> None:
        """Copy an operand into panels ``[n // width, others..., n % width]`` that the kernel reads contiguously."""
        node = node_of(sch, block)
        position = next(i for i, region in enumerate(node.reads) if region.buffer is buffer)
        region = node.reads[position]
        vector_dim = next(i for i, item in enumerate(region.region) if item.min is vector_var)
        copy = sch.cache_read(block, position, "global")
        node = node_of(sch, block)
        position = next(
            i for i, item in enumerate(node.reads) if item.buffer is node_of(sch, copy).writes[0].buffer
        )

        def panels(around: BlockNode) -> IndexMap:
            return panel_map(len(region.region), vector_dim, factor, around.iter_vars[0].var.dtype)

        # Behind a padded axis' end the last panel has anything in it: the kernel masks it.
        sch.transform_layout(block, ("read", position), panels(node), assume_injective_transform=is_padded)
        sch.transform_block_layout(copy, panels(node_of(sch, copy)))
        if is_constant:
            sch.annotate(copy, LAYOUT_REWRITE_PREPROC, 1)
            return
        loops = sch.get_loops(copy)
        for loop in loops[:-1]:
            sch.annotate(loop, PARALLEL, 1)
            break
        sch.annotate(loops[-1], VECTORIZE, 1)


def _stage_for_consumer(sch: Schedule, block: BlockRV) -> BlockRV:
    """Let a block accumulate in a local buffer, and the elementwise block behind it write the tile out."""
    node = node_of(sch, block)
    if is_output_block(node) or elementwise_consumer(node) is None:
        raise ScheduleError(f"rule: no elementwise block takes the results of {node.name!r}")
    (epilogue,) = sch.get_consumers(block)
    sch.set_scope(block, 0, "local")
    return epilogue


def _stage_in_cache(sch: Schedule, block: BlockRV) -> BlockRV:
    """Let a block accumulate in a local buffer, and a copy write the tile out."""
    return sch.cache_write(block, 0, "local")


def panel_map(ndim: int, dim: int, width: Any, dtype: str) -> IndexMap:
    """The map that moves ``index[dim] // width`` to the front and ``index[dim] % width`` to the back, with its inverse."""
    initial = [tir.Var(f"i{n}", dtype) for n in range(ndim)]
    rest = [var for n, var in enumerate(initial) if n != dim]
    final = [tir.floordiv(initial[dim], width), *rest, tir.floormod(initial[dim], width)]
    back = [tir.Var(f"p{n}", dtype) for n in range(ndim + 1)]
    restored: list[Any] = list(back[1:-1])
    restored.insert(dim, back[0] * width + back[-1])
    return IndexMap(initial, final, IndexMap(back, restored))


def _levels(structure: str, tiles: dict[str, list[list[LoopRV]]]) -> list[list[list[LoopRV]]]:
    """Loops per level of the structure; an unsplit (unit) loop goes to its kind's first level."""
    seen = {"S": 0, "R": 0}
    result = []
    for kind in structure:
        depth = seen[kind]
        seen[kind] += 1
        level = []
        for column in tiles[kind]:
            if len(column) == 1:
                level.append(column if depth == 0 else [])
            else:
                level.append([column[depth]])
        result.append(level)
    return result


def _vector_friendly(inner: np.ndarray, lanes: int) -> np.ndarray:
    """Whole vectors; where an extent has no such divisor, the widest powers of two there are."""
    whole: np.ndarray = inner % lanes == 0
    if whole.any():
        return whole
    powers = np.array([(value & -value) for value in inner.tolist()])
    narrow = (powers == inner) & (inner <= lanes)
    return narrow & (inner == inner[narrow].max()) if narrow.any() else np.ones(len(inner), dtype=bool)


def _largest_parallelism(samples: list[list[ExprRV]], sch: SketchSchedule) -> int:
    total = 1
    for factors in samples:
        variable = sch._table[factors[0]]
        for _inst, decision in sch.columns:
            if variable in getattr(decision, "variables", ()):
                total *= int(decision.table[:, 0].max())  # type: ignore[union-attr]
    return total
