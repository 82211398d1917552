"""DisallowAsyncStridedMemCopy: refuse candidates whose asynchronous copies are not contiguous."""

from __future__ import annotations

from typing import Any

from ir import tir

from ..affine import constant_difference
from ..block_facts import is_one
from ..region import bind_region, relax_loops
from ..schedule import Schedule
from ..tree import BlockNode, LeafNode, LoopNode, SeqNode, blocks_below, loops_around, walk
from .base import Postproc

STAGES, ASYNC_STAGES = "software_pipeline_stage", "software_pipeline_async_stages"


class DisallowAsyncStridedMemCopy(Postproc):
    """Valid if every copy in an asynchronous stage of a software pipeline moves one contiguous piece of both buffers."""

    def apply(self, sch: Schedule) -> bool:
        func = sch.func_working_on
        assert func is not None
        pipelines = [
            node
            for node in walk(sch._root(func))
            if isinstance(node, LoopNode) and ASYNC_STAGES in node.annotations
        ]
        return all(_is_contiguous(block, loop) for loop in pipelines for block in _asynchronous(loop))


def _asynchronous(loop: LoopNode) -> list[BlockNode]:
    """The blocks in the asynchronous stages of a pipeline; all of its blocks where the stages are not given."""
    chosen = set(_numbers(loop.annotations[ASYNC_STAGES]))
    stages = _numbers(loop.annotations.get(STAGES, ()))
    parts = loop.body.nodes if isinstance(loop.body, SeqNode) else [loop.body]
    if len(stages) == len(parts):
        parts = [part for part, stage in zip(parts, stages, strict=True) if stage in chosen]
    return [block for part in parts for block in blocks_below(part)]


def _numbers(values: Any) -> list[int]:
    return [int(getattr(item, "value", item)) for item in values]


def _is_contiguous(block: BlockNode, pipeline: LoopNode) -> bool:
    """Whether a copy touches one piece of memory in each buffer in one round of the pipeline; True for what is no copy."""
    leaf = block.body.leaf if isinstance(block.body, LeafNode) else None
    if not isinstance(leaf, tir.BufferStore) or not isinstance(leaf.value, tir.BufferLoad):
        return True
    around = loops_around(block)
    position = next(i for i, loop in enumerate(around) if loop is pipeline)
    inner = around[position + 1 :]
    values = dict(zip([item.var for item in block.iter_vars], block.iter_values, strict=True))
    for region in (*block.reads, *block.writes):
        box = relax_loops(bind_region(region.region, values), inner, region.buffer.shape)
        extents = [extent for _, extent in box]
        moving = next((d for d, extent in enumerate(extents) if not is_one(extent)), len(extents))
        whole = zip(extents[moving + 1 :], region.buffer.shape[moving + 1 :], strict=True)
        if not all(constant_difference(extent, dim) == 0 for extent, dim in whole):
            return False
    return True
