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
is compiled, others when the kernel runs. Long reductions are offered in blocks, too (:mod:`~schedules.rule.cache_blocking`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from ir import dtype as dt
from ir import tir
from ir.tir.kernel_attributes import DOT_PRODUCT
from ir.tir.stmt_functor import variables_in

from ..analysis import is_output_block
from ..annotation import PARALLEL, UNROLL
from ..block_facts import (
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
    stands_alone,
)
from ..error import ScheduleError
from ..layout_rewrite import layout_free_parameters
from ..random_variable import BlockRV, LoopRV
from ..schedule import Schedule
from ..tree import BlockNode, loops_around
from .base import ScheduleRule, unless_refused
from .cache_blocking import Blocking, may_be_blocked, most_blocks, turned_axes
from .dot_product import DotProduct, dot_product_of, group_reduction, has_vectors, rows_of
from .matrix_tile import in_matrix_tiles, keep_within_matrix_unit, mark_matrix_tile, matrix_padding
from .padding import choose_padding, is_affine_in, pad_loops, padded_extent
from .register_tile import (
    FactorLimits,
    keep_within_machine,
    mark_epilogue,
    mark_register_tile,
    pack_operand,
    registers_for,
    require_structure,
    split_loops,
)

_WORTH_PADDING = 1.04
"""Offer padded extents where they are estimated to be faster by this factor,"""
_CLEARLY_BETTER = 1.3
"""and only them from here on."""
_COLUMNS = 4
"""Vectors side by side to which a padded axis in another nest's tile can be divided, or half as many."""
_PAYS_FOR_PANELS = 4
"""Rows of a product from which on groups are all that is offered: with fewer, packing the other operand may take longer than it saves."""


class RegisterTiling(ScheduleRule):
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
        require_structure("RegisterTiling", structure)
        self.structure = structure
        self.limits = FactorLimits(vector=max_vector_tile, other=max_innermost_factor)
        self.pack_operands = pack_operands
        self.max_padding = max_padding

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        # The tile's epilogue takes whole tiles: a block that runs for a part of its domain (a triangle) fills none.
        runs_everywhere = node.is_unconditional
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
        dot = dot_product_of(node, vector_var, self.target) if packs else None
        if dot is not None and not dt.is_float(node.writes[0].buffer.dtype):
            found += self._in_groups(sch, block, vector_var, packs, dot)
            panels_are_there = any(node.reads[index].buffer is dot.panels for index in constant)
            if found and (panels_are_there or rows_of(node, dot.panels) >= _PAYS_FOR_PANELS):
                return found
        paddings = self._paddings(node, vector_var)
        for padding, pack in product(paddings, variants):
            tile = partial(
                self._tile,
                block=block,
                vector_var=vector_var,
                packs=pack,
                constants=set(constant),
                padding=padding,
                is_inside=False,
            )
            found += _staged(sch, tile)
        found += self._in_blocks(sch, block, vector_var, variants[-1], frozenset(constant), paddings[0])
        # without reuse registers save no loads: whole rows, one after the other, may come faster from memory than columns of tiles
        return found if found and reuses else [*found, sch]

    def _in_groups(
        self,
        sch: Schedule,
        block: BlockRV,
        vector_var: Any,
        packs: Sequence[tuple[int, bool]],
        dot: DotProduct,
    ) -> list[Schedule]:
        """The block for dot-product instructions, and for a matrix unit: the operand with the vector axis is packed in any case."""
        node = node_of(sch, block)
        packed = [index for index, _ in packs if node.reads[index].buffer is dot.panels]
        if not packed:
            return []
        lanes = registers_for(node, self.target).lanes
        forms = [
            (dot, padding)
            for padding in self._paddings(node, vector_var)
            if has_vectors(node, vector_var, padding, lanes)
        ]
        tiles = in_matrix_tiles(node, vector_var, dot, self.target) if self.structure.count("R") > 1 else None
        if tiles is not None:
            forms.append((tiles, matrix_padding(node, tiles)))
        found: list[Schedule] = []
        for form, padding in forms:
            tile = partial(
                self._tile,
                block=block,
                vector_var=vector_var,
                packs=packed,
                constants={index for index, is_constant in packs if is_constant},
                padding=padding,
                is_inside=False,
                dot=form,
            )
            found += _staged(sch, tile)
        return found

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
            padding=self._whole_vectors(node, vector_var),
            is_inside=True,
            stage=_stage_in_cache,
        )
        return unless_refused(sch, tile) or [sch]

    def _whole_vectors(self, node: BlockNode, vector_var: Any) -> dict[Any, int]:
        """The padded extent of a vector axis in another nest's tile that takes all of it; behind a part of it the next tile begins."""
        extent = next(item.dom.extent for item in node.iter_vars if item.var is vector_var)
        position = own_loop_position(node, vector_var)
        if not isinstance(extent, tir.IntImm) or position is None or not is_affine_in(node, vector_var):
            return {}
        lanes = registers_for(node, self.target).lanes
        own = loops_around(node)[position].extent
        takes_all = isinstance(own, tir.IntImm) and own.value == extent.value
        if not takes_all or extent.value % lanes == 0 or extent.value < lanes:
            return {}
        return {vector_var: padded_extent(extent.value, lanes, _COLUMNS)}

    def _in_blocks(
        self,
        sch: Schedule,
        block: BlockRV,
        vector_var: Any,
        packed: Sequence[int],
        constants: frozenset[int],
        padding: dict[Any, int],
    ) -> list[Schedule]:
        """The reduction in blocks, where those may help, in each order of the loops over register tiles that uses other panels again."""
        node = node_of(sch, block)
        if vector_var is None or not is_product(node) or not may_be_blocked(self.structure):
            return []
        n_blocks = most_blocks(node, vector_var, self.target)
        if n_blocks < 2:
            return []
        blocking = Blocking(
            self.structure, self.limits, self.target, vector_var, n_blocks, packed, constants, padding
        )
        orders = dict.fromkeys([frozenset[Any](), turned_axes(node)])
        return [
            made
            for order in orders
            for made in unless_refused(sch, partial(replace(blocking, innermost=order).apply, block=block))
        ]

    def tile_inside(self, sch: Schedule, block: BlockRV) -> None:
        """Tile a reduction in the tile of another nest, where an elementwise block of the same tile takes its results, or a copy does.

        Raises:
            ScheduleError: a primitive refuses a step.
        """
        node = node_of(sch, block)
        vector_var = self._vector_axis(node)
        packs = self._packable(sch, node, vector_var) if self.pack_operands else []
        constant = [index for index, is_constant in packs if is_constant]
        has_epilogue = not is_output_block(node) and elementwise_consumer(node) is not None
        stage = _stage_for_consumer if has_epilogue else _stage_in_cache
        self._tile(sch, block, vector_var, constant, set(constant), {}, is_inside=True, stage=stage)

    def _paddings(self, node: BlockNode, vector_var: Any) -> list[dict[Any, int]]:
        """Padded extents to offer, by block variable; an empty one tiles by divisors."""
        registers = registers_for(node, self.target)
        padding, gain = choose_padding(node, vector_var, registers, self.max_padding)
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
        dot: DotProduct | None = None,
    ) -> list[Schedule]:
        """The tiled schedule; a block that ``is_inside`` the tile of another nest has its share of the cores already."""
        node = node_of(sch, block)
        epilogue = stage(sch, block)
        packed_buffers = [(node.reads[index].buffer, index in constants) for index in packs]
        grouped = group_reduction(sch, block, dot) if dot is not None else None
        if grouped is not None:
            vector_var = grouped.renamed[vector_var]
            padding = {grouped.renamed[var]: extent for var, extent in padding.items()}
        group_var = None if grouped is None else grouped.group_var
        pad_loops(sch, block, padding)
        structure = self.structure[1:] if is_inside else self.structure
        tiled = split_loops(
            sch, block, vector_var, structure, self.limits, is_inside=is_inside, innermost=group_var
        )
        outermost = [factors[0] for factors in tiled.factors["S"]]
        registers, serial = registers_for(node, self.target), outermost if is_inside else ()
        matrix = dot if dot is not None and dot.in_tiles else None
        if matrix is not None:
            keep_within_matrix_unit(sch, node_of(sch, block), tiled, matrix, self.target.num_cores)
        else:
            if dot is not None:
                registers = dot.registers(registers)
            keep_within_machine(sch, tiled, registers, self.target.num_cores, serial)
        levels = _levels(structure, tiled.loops)
        group_loops = [] if tiled.innermost is None else [tiled.innermost]
        sch.reorder(*[loop for level in levels for loop in level], *group_loops)
        spatial_levels = [level for kind, level in zip(structure, levels, strict=True) if kind == "S"]
        if not is_inside:
            for loop in spatial_levels[0]:
                sch.annotate(loop, PARALLEL, 1)
        innermost = spatial_levels[-1]
        first_reduction = structure.index("R")
        place = [loop for level in levels[:first_reduction] for loop in level][-1]
        mark_register_tile(sch, innermost, tiled.vector)
        for loop in group_loops:
            sch.annotate(loop, DOT_PRODUCT, 1)
        if matrix is not None:
            mark_matrix_tile(sch, node_of(sch, block), tiled, matrix)
        else:
            self._mark_inner_reduction(sch, levels, structure)
        sch.reverse_compute_at(epilogue, place, preserve_unit_loops=True)
        mark_epilogue(sch, epilogue)
        if tiled.vector is not None:
            for buffer, is_constant in packed_buffers:
                pack_operand(
                    sch,
                    block,
                    buffer,
                    vector_var,
                    tiled.vector.factor,
                    is_constant=is_constant,
                    is_padded=vector_var in padding,
                    group=None if grouped is None else (grouped.group_var, grouped.size),
                )
        return [sch]

    def _mark_inner_reduction(self, sch: Schedule, levels: list[list[LoopRV]], structure: str) -> None:
        """The last reduction level is unrolled where it was sampled."""
        if structure.count("R") < 2:
            return
        last = len(structure) - 1 - structure[::-1].index("R")
        for loop in levels[last]:
            sch.annotate(loop, UNROLL, 1)


def _staged(sch: Schedule, tile: Callable[..., list[Schedule]]) -> list[Schedule]:
    """A variant whose results the elementwise block behind it takes, or a copy where there is no such block."""
    return unless_refused(sch, partial(tile, stage=_stage_for_consumer)) or unless_refused(
        sch, partial(tile, stage=_stage_in_cache)
    )


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


def _levels(structure: str, loops: dict[str, list[list[LoopRV]]]) -> list[list[LoopRV]]:
    """Loops per level of the structure; an unsplit (unit) loop goes to its kind's first level."""
    seen = {"S": 0, "R": 0}
    result = []
    for kind in structure:
        depth = seen[kind]
        seen[kind] += 1
        result.append([axis[depth] for axis in loops[kind] if depth < len(axis)])
    return result
