"""WinogradConvolution: convolutions of 3 x 3 taps with fewer multiplications, beside the direct form, in images and in volumes.

    for <tiles of the image, parallel>:
        inputs[...] = B^T data B                     # of these tiles; or all of them before, in a nest of its own
        for <tiles of the filters>:
            for p: products[p, ...] = register tiles of inputs[p, ...] * weights[p, ...]
            tiles[...] = A^T products A
            output[...] = epilogue(tiles)

What is transformed stays in the cache until it is used; how much that is, is sampled. The weights are transformed and packed when the model
is compiled. (Lavin and Gray 2016 compute all tiles stage by stage; Jia, Zlateski, Durand, Li: Optimizing N-dimensional,
Winograd-based convolution for manycore CPUs, PPoPP 2018, discuss the blocks of them.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod

from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC

from ..annotation import PARALLEL, UNROLL, VECTORIZE
from ..block_facts import elementwise_consumer, node_of, spatial_vars
from ..convolution import Convolution, convolution_of, extent_of
from ..error import ScheduleError
from ..primitive.winograd import TILES, ProductAxes, saves_products
from ..random_variable import BlockRV, LoopRV
from ..schedule import Schedule
from ..tree import child_blocks
from .base import ScheduleRule, unless_refused
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

MOST_CHANNELS = {2: 768, 4: 512}
"""By tile, what is summed up at most where nobody says otherwise: of kernels in which one product is missing somewhere the check refused
33 and 34 of 36 there, 28 of 36 for 896 channels in tiles of 2 x 2, and 21 of 24 of the direct form for 768."""


class WinogradConvolution(ScheduleRule):
    """Offer a convolution as it is, and by Winograd's algorithm in tiles of 2 x 2 and 4 x 4, each with the inputs' transform among the
    products, or before them.

    Args:
        tiles: the sizes to offer.
        structure: levels of the products, as of :class:`~schedules.rule.RegisterTiling`.
        max_innermost_factor, max_vector_tile: as of :class:`~schedules.rule.RegisterTiling`.
        max_channels: for all tiles, or by tile, how many channels (of volumes, channels times taps of the outer axes) are summed up
            at most. What the algorithm may round grows with their square: of more, the check of candidates (:mod:`runners.verify`) may
            take a product that is missing in one place for roundings.
    """

    changes_rounding = True

    def __init__(
        self,
        tiles: Sequence[int] = TILES,
        structure: str = "SSRRS",
        max_innermost_factor: int = 64,
        max_vector_tile: int = 128,
        max_channels: int | Mapping[int, int] | None = None,
    ) -> None:
        require_structure("WinogradConvolution", structure)
        if not set(tiles) <= set(TILES):
            raise ScheduleError(f"WinogradConvolution: tiles are among {list(TILES)}, got {list(tiles)}")
        self.tiles = tuple(tiles)
        self.structure = structure
        given = dict.fromkeys(TILES, max_channels) if isinstance(max_channels, int) else (max_channels or {})
        if not set(given) <= set(TILES):
            raise ScheduleError(
                f"WinogradConvolution: max_channels is a number, or has one by tile, {list(TILES)}; got {max_channels}"
            )
        self.max_channels = MOST_CHANNELS | dict(given)
        self.limits = FactorLimits(vector=max_vector_tile, other=max_innermost_factor)

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        found = [sch]
        try:
            form = convolution_of(node_of(sch, block))
        except ScheduleError:
            return found
        summed = extent_of(form.channels) * prod(extent_of(axis.tap) for axis in form.outer)
        for tile, is_fused in product(self.tiles, (True, False)):
            if summed <= self.max_channels[tile] and saves_products(form, tile):
                make = partial(self._by_winograd, block=block, form=form, tile=tile, is_fused=is_fused)
                found += unless_refused(sch, make)
        return found

    def _by_winograd(
        self, sch: Schedule, block: BlockRV, form: Convolution, tile: int, is_fused: bool
    ) -> list[Schedule]:
        last = _elementwise_consumer(sch, block)
        known = _block_names(sch)
        weights, inputs, products, outputs = sch.winograd(block, tile)
        if last is not None:
            sch.compute_inline(block)
        for source in sch.get_producers(inputs):
            if node_of(sch, source).name not in known:
                _inline_producers(sch, source)
        place, shared = self._tile_products(sch, products, weights, form, is_fused)
        for stage in (outputs, block if last is None else last):
            sch.reverse_compute_at(stage, place, preserve_unit_loops=True)
            _vectorize(sch, stage)
        if is_fused:
            sch.compute_at(inputs, shared, preserve_unit_loops=True)
        else:
            _share(sch, sch.get_loops(inputs)[:-1])
        _vectorize(sch, inputs)
        if LAYOUT_REWRITE_PREPROC not in node_of(sch, weights).annotations:
            _share(sch, sch.get_loops(weights)[:1])
            _vectorize(sch, weights)
        return [sch]

    def _tile_products(
        self, sch: Schedule, block: BlockRV, weights: BlockRV, form: Convolution, is_fused: bool
    ) -> tuple[LoopRV, LoopRV]:
        """Tile the products for registers: the loops in which tiles of the output are finished, and the cores' tiles of the image begin.

        Tiles between each other's outputs are finished together.
        """
        node, weight_node = node_of(sch, block), node_of(sch, weights)
        axes = ProductAxes.of(spatial_vars(node), form)
        staged = sch.cache_write(block, 0, "local")
        tiled = split_loops(
            sch, block, axes.filters, self.structure, self.limits, whole=[axes.point, *axes.between]
        )
        levels = self._nest(tiled.loops, form)
        are_filters_serial = is_fused and len(tiled.loops["S"][-1]) > 1
        serial = [tiled.factors["S"][-1][0]] if are_filters_serial else []
        keep_within_machine(sch, tiled, registers_for(node, self.target), self.target.num_cores, serial)
        sch.reorder(*levels.image, levels.filters, *levels.inner, *levels.reductions, *levels.registers)
        _share(sch, levels.image if is_fused else [*levels.image, levels.filters])
        if levels.registers:
            mark_register_tile(sch, levels.registers, tiled.vector)
        for column in tiled.loops["R"]:
            if len(column) > 1:
                sch.annotate(column[-1], UNROLL, 1)
        sch.reverse_compute_at(staged, levels.inner[-1], preserve_unit_loops=True)
        mark_epilogue(sch, staged)
        if tiled.vector is not None:
            is_constant = LAYOUT_REWRITE_PREPROC in weight_node.annotations
            packed, width = weight_node.writes[0].buffer, tiled.vector.factor
            pack_operand(sch, block, packed, axes.filters, width, is_constant=is_constant)
        return levels.filters, levels.image[-1]

    def _nest(self, loops: dict[str, list[list[LoopRV]]], form: Convolution) -> _Levels:
        """The loops of split axes in their order."""
        points, image, between, filters = ProductAxes.of(loops["S"], form)
        n_levels = self.structure.count("S")
        inner = [*points, *(loop for axis in between for loop in axis)]
        for level in range(1, n_levels - 1):
            # a panel of weights serves all tiles of the image below it
            inner += [axis[level] for axis in (filters, *image) if len(axis) > 1]
        reductions = [
            column[level]
            for level in range(self.structure.count("R"))
            for column in loops["R"]
            if level < len(column)
        ]
        registers = [axis[-1] for axis in (*image, filters) if len(axis) > 1]
        return _Levels([axis[0] for axis in image], filters[0], inner, reductions, registers)


@dataclass(frozen=True)
class _Levels:
    """The loops around the products, level by level, outermost first.

    Attributes:
        image: over the cores' tiles of the batch, rows and columns.
        filters: over tiles of the filters, in which tiles of the output are finished.
        inner: over the points, and over the tiles in those.
        reductions: over the channels.
        registers: over the register tile.
    """

    image: list[LoopRV]
    filters: LoopRV
    inner: list[LoopRV]
    reductions: list[LoopRV]
    registers: list[LoopRV]


def _elementwise_consumer(sch: Schedule, block: BlockRV) -> BlockRV | None:
    """The only consumer of a block, if it takes its results one by one."""
    if elementwise_consumer(node_of(sch, block)) is None:
        return None
    (consumer,) = sch.get_consumers(block)
    return consumer


def _block_names(sch: Schedule) -> set[str]:
    func = sch.func_working_on
    assert func is not None
    return {node.name for node in child_blocks(sch._root(func))}


def _inline_producers(sch: Schedule, block: BlockRV) -> None:
    """Padding twice is once too often."""
    for producer in sch.get_producers(block):
        try:
            sch.compute_inline(producer)
        except ScheduleError:
            pass  # others read it, too


def _share(sch: Schedule, loops: Sequence[LoopRV]) -> None:
    for loop in loops:
        sch.annotate(loop, PARALLEL, 1)


def _vectorize(sch: Schedule, block: BlockRV) -> None:
    sch.annotate(sch.get_loops(block)[-1], VECTORIZE, 1)
