"""Persistent blocks: all run at a time, and each computes several tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import IRModule
from ir.target import Target
from schedules import Schedule, ScheduleError
from schedules.block_facts import node_of
from schedules.postproc import postprocess
from schedules.rule import SplitLastWave
from schedules.rule.default import default_rules
from schedules.rule.persistent_blocks import require_tiles
from schedules.space import PostOrderApply
from schedules.tree import LoopNode, all_blocks, loops_around
from tests.programs.products import dense

A100 = Target("nvidia/nvidia-a100")


def persistent(target: Target, size: int) -> list[Any]:
    """The sketches of a product on tensor cores that have a level of tiles more than others."""
    rules = [rule for rule in default_rules(target) if not isinstance(rule, SplitLastWave)]
    sketches = PostOrderApply(sch_rules=rules).generate_sketches(
        IRModule({"main": dense((size,) * 3)}), target
    )
    return [sketch for sketch in sketches if "SSSSRRSRS" in str(sketch.trace)]


@pytest.mark.parametrize("name", ["nvidia/nvidia-a100", "nvidia/nvidia-t4"])
def test_blocks_are_as_many_as_stay(name: str) -> None:
    target = Target(name)
    processors = int(target.attrs["multi_processor_count"])
    sketches = persistent(target, 1024)
    families = 3 if target.supports_async_copy else 1  # by wmma; by mma, through shared memory or not
    assert len(sketches) == families * (2 if target.supports_async_copy else 1)
    module = IRModule({"main": dense((1024, 1024, 1024))})
    for sketch in sketches:
        rows = sketch.sample(4, np.random.default_rng(0))
        assert len(rows) == 4
        for row in rows:
            schedule = sketch.materialize(module, row)
            grid, tiles, threads = _extents(schedule)
            resident = target.multiprocessor.threads // threads
            assert 0.75 * processors <= grid <= processors * resident and tiles >= 2
            assert postprocess(schedule, target)


def _extents(schedule: Schedule) -> tuple[int, int, int]:
    """Blocks, tiles that each computes, and threads of the first kernel's product."""
    func = schedule.func_working_on
    assert func is not None
    node = next(
        block
        for block in all_blocks(schedule._root(func))
        if "meta_schedule.tiling_structure" in block.annotations
    )
    grid = tiles = threads = 1
    own: list[LoopNode] = []
    for loop in loops_around(node):
        tag = loop.thread_binding.thread_tag if loop.thread_binding is not None else ""
        extent = int(loop.extent)  # type: ignore[call-overload]
        if tag.startswith("blockIdx"):
            grid *= extent
        elif tag.startswith("threadIdx"):
            threads *= extent
            for item in own:
                tiles *= int(item.extent)  # type: ignore[call-overload]
            own = []
        else:
            own.append(loop)
    return grid, tiles, threads * 32


def test_few_tiles_are_no_work_for_blocks_that_stay() -> None:
    assert not persistent(A100, 128)
    sch = Schedule(dense((4, 4, 4)))
    with pytest.raises(ScheduleError, match="16 tiles for 108 multiprocessors"):
        require_tiles(node_of(sch, sch.get_block("z")), A100)
