"""RewriteParallelVectorizeUnroll: turn the rules' marks on loops into parallel, vector and unrolled loops."""

from __future__ import annotations

from ir import tir
from ir.tir import ForKind
from ir.tir.intrinsic.declaration import calls_costly

from ..analysis import lanes_of
from ..annotation import PARALLEL, UNROLL, VECTORIZE
from ..error import ScheduleError
from ..random_variable import BlockRV, LoopRV
from ..schedule import Schedule
from ..tree import BlockNode, LeafNode, LoopNode, all_blocks, blocks_below, child_blocks, loops_around
from .base import Postproc
from .block_annotations import apply_root_annotations


class ParallelizeMarked(Postproc):
    """Fuse each chain of loops marked parallel and run it on the cores; one whose iterations may conflict stays serial."""

    def apply(self, sch: Schedule) -> bool:
        func = sch.func_working_on
        assert func is not None
        for block in child_blocks(sch._root(func)):
            loops = loops_around(block)
            if any(loop.kind == ForKind.PARALLEL for loop in loops):
                continue
            marked = [i for i, loop in enumerate(loops) if PARALLEL in loop.annotations]
            if not marked:
                continue
            rvs = sch.get_loops(sch.get_block(block.name))
            chain: list[LoopRV] = []
            for position in marked:
                if chain and loops[position - 1].body is not loops[position]:
                    break
                sch.unannotate(rvs[position], PARALLEL)
                chain.append(rvs[position])
            try:
                sch.parallel(sch.fuse(*chain) if len(chain) > 1 else chain[0])
            except ScheduleError:
                continue  # iterations that are not known to be independent are not for the cores
        return True


class RewriteParallelVectorizeUnroll(Postproc):
    """Vectorize and unroll marked loops: whole vectors of the machine's width, or pairs of them, the rest of the tile unrolled.

    What the root block is annotated with (``meta_schedule.parallel`` and so on) is applied to the nests that have no marks.
    """

    def apply(self, sch: Schedule) -> bool:
        apply_root_annotations(sch)
        func = sch.func_working_on
        assert func is not None
        for block in all_blocks(sch._root(func)):
            loops = loops_around(block)
            if any(VECTORIZE in loop.annotations or UNROLL in loop.annotations for loop in loops):
                self._rewrite(sch, block, loops)
        return True

    def _rewrite(self, sch: Schedule, block: BlockNode, loops: list[LoopNode]) -> None:
        rv: BlockRV = sch.get_block(block.name)
        for loop, node in zip(sch.get_loops(rv), loops, strict=True):
            if UNROLL in node.annotations:
                sch.unannotate(loop, UNROLL)
                sch.unroll(loop)
            elif VECTORIZE in node.annotations:
                sch.unannotate(loop, VECTORIZE)
                self._vectorize(sch, loop, node)

    def _vectorize(self, sch: Schedule, loop: LoopRV, node: LoopNode) -> None:
        extent = node.extent
        if not isinstance(extent, tir.IntImm) or extent.value < 2:
            return
        lanes = self._lanes(node)
        width = extent.value
        in_register_tile = _below_reduction(node)
        if width % lanes == 0 and width > lanes and node.begins_at_zero:
            kept = dict(node.annotations)  # how far to unroll, where this is the outermost loop too
            for key in kept:
                sch.unannotate(loop, key)
            outer, inner = sch.split(loop, [None, lanes])
            for key, value in kept.items():
                sch.annotate(outer, key, value)
            if in_register_tile:
                sch.unroll(outer)
            self._try_vectorize(sch, inner)
        elif width <= lanes and width & (width - 1) == 0:
            self._try_vectorize(sch, loop)
        elif width > 4:
            # lowering takes it apart into vectors, whole ones and narrower ones
            self._try_vectorize(sch, loop)
        elif in_register_tile:
            sch.unroll(loop)

    def _try_vectorize(self, sch: Schedule, loop: LoopRV) -> None:
        try:
            sch.vectorize(loop)
        except ScheduleError:
            return  # the loop carries a reduction; it stays serial for LLVM's own vectorizer

    def _lanes(self, node: LoopNode) -> int:
        """Vector lanes of the narrowest element that the loop's blocks write; twice as many where they compute exp and the like."""
        blocks = list(blocks_below(node))
        pairs = any(isinstance(block.body, LeafNode) and calls_costly(block.body.leaf) for block in blocks)
        return lanes_of(self.target, *blocks) * (2 if pairs else 1)


def _below_reduction(node: LoopNode) -> bool:
    """Whether the loop belongs to a register tile: its neighbours are unrolled."""
    parent, child = node.parent, node.body
    return any(
        isinstance(item, LoopNode) and (item.kind == ForKind.UNROLLED or UNROLL in item.annotations)
        for item in (parent, child)
    )
