"""SplitLastWave through the contract: the tiles of a last wave in parts of their sums, where they leave multiprocessors idle."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from ir import IRModule, te
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.interpreter import run
from ir.tir.lower import lower
from schedules import Schedule, ScheduleError
from schedules.block_facts import node_of
from schedules.postproc import postprocess
from schedules.rule import MultiLevelTilingTensorCore, ScheduleRule, SplitLastWave
from schedules.rule.default import default_rules
from schedules.rule.split_last_wave import LastWave, last_waves
from schedules.space import PostOrderApply
from tests.programs.products import dense

from ..checks import assert_replays, assert_same_meaning
from ..rule_contract import RuleContract

A100 = Target("nvidia/nvidia-a100")
TINY = Target({**A100.export(), "multi_processor_count": 4})
SMALL, FRAGMENTS = (40, 8, 128), (80, 16, 128)
"""Five tiles of 8 by 8 results, and of 16 by 16, as tensor cores have them; four are a wave."""


def small_rule(tile: int = 8 * 8) -> SplitLastWave:
    rule = SplitLastWave(tiles=[tile])
    rule.initialize(TINY)
    return rule


class TestSplitLastWave(RuleContract):
    def rule(self) -> ScheduleRule:
        return small_rule()

    def ready(self) -> ScheduleRule:
        return self.rule()


def waves_of(shape: tuple[int, int, int], target: Target = A100, tile: int = 128 * 128) -> list[LastWave]:
    sch = Schedule(dense(shape))
    return last_waves(node_of(sch, sch.get_block("z")), target, 8, [tile])


def test_what_is_left_by_whole_waves_is_split() -> None:
    """144 tiles on 108 multiprocessors: 9 rows of 12 in one wave, the other 36 in three parts each."""
    assert waves_of((1536, 1536, 1536)) == [LastWave(0, 3 * 128, 3)]


def test_products_of_a_batch_are_left_one_by_one() -> None:
    """Six tiles on five multiprocessors, each of another product: one is left, though an even number of them divides the batch."""
    x, y = (
        te.placeholder((6, *shape), "float32", name=name)
        for name, shape in (("x", (8, 256)), ("y", (256, 8)))
    )
    k = te.reduce_axis((0, 256), "k")
    z = te.compute((6, 8, 8), lambda b, i, j: te.sum(x[b, i, k] * y[b, k, j], axis=k), name="z")
    sch = Schedule(te.create_prim_func([x, y, z]))
    five = Target({**A100.export(), "multi_processor_count": 5})
    (wave,) = last_waves(node_of(sch, sch.get_block("z")), five, 8, [8 * 8])
    assert (wave.loop, wave.extent) == (0, 1)


@pytest.mark.parametrize(
    "shape",
    [
        (1024, 1024, 1024),  # less than a wave
        (1536, 1152, 1024),  # one wave
        (8192, 8192, 1024),  # so many that the last one hardly counts
        (1536, 1536, 64),  # too short a sum
    ],
)
def test_other_products_have_no_last_wave(shape: tuple[int, int, int]) -> None:
    assert not waves_of(shape)


def test_products_that_something_reads_are_left_alone() -> None:
    for has_epilogue in (False, True):
        start = Schedule(dense(SMALL, has_epilogue=has_epilogue))
        offered = small_rule().apply(start, start.get_block("z"))
        assert len(offered) == (1 if has_epilogue else 2)


def test_sums_of_parts_are_the_same() -> None:
    func = dense(SMALL, "int32", "int32")
    start = Schedule(func)
    whole, split = small_rule().apply(start, start.get_block("z"))
    assert whole.mod.script() == Schedule(func).mod.script()
    assert_replays(split, func)
    assert_same_meaning(func, split)


def kernels(func: PrimFunc, tile: int) -> Schedule:
    """A random candidate with a last wave of its own, by the rules of a device with four multiprocessors."""
    rules = [small_rule(tile) if isinstance(rule, SplitLastWave) else rule for rule in default_rules(TINY)]
    module = IRModule({"main": func})
    sketches = PostOrderApply(sch_rules=rules, max_sketches=4).generate_sketches(module, TINY)
    sketch = next(sketch for sketch in sketches if "separate_rest" in str(sketch.trace))
    sch = sketch.materialize(module, sketch.sample(1, np.random.default_rng(0))[0])
    assert postprocess(sch, TINY)
    return sch


@pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
@pytest.mark.parametrize(("dtype", "shape"), [("float32", SMALL), ("int32", SMALL), ("float16", FRAGMENTS)])
def test_three_kernels_compute_the_product(dtype: str, shape: tuple[int, int, int]) -> None:
    """Exactly, of small integers: whole waves, parts, and their sums at their place. Nothing is copied by another kernel."""
    m, n, k = shape
    total = "float32" if dtype == "float16" else dtype
    generator = np.random.default_rng(1)
    x, y = (generator.integers(-3, 4, size).astype(dtype) for size in ((m, k), (k, n)))
    sch = kernels(dense(shape, dtype, total), n * n)
    lowered = lower(sch.mod, TINY)
    source = generate(lowered)
    assert len(source.kernels) == 3 and "atomic" not in source.text
    assert ("mma" in source.text) == (dtype == "float16")
    ways: list[Callable[..., Any]] = [EmulatedProgram(lowered, source)]
    if dtype == "float32":  # which looks for races, and takes its time
        ways.append(partial(run, lowered))
    for way in ways:
        found = np.zeros((m, n), total)
        way(x, y, found)
        np.testing.assert_array_equal(found, x.astype(total) @ y.astype(total))


def test_numbers_are_positive() -> None:
    with pytest.raises(ScheduleError, match="most_waves and tiles must be positive"):
        SplitLastWave(most_waves=0)


def test_warp_groups_and_fragments_may_be_in_one_function() -> None:
    """Whole waves by ``wgmma``, parts by other tensor cores: what launches ask for is known although fragments have no shape yet."""
    target = Target("nvidia/nvidia-h200")
    module = IRModule({"main": dense((1536, 1536, 1536))})
    rules = default_rules(target)
    others = [rule for rule in rules if isinstance(rule, MultiLevelTilingTensorCore)][1:]  # one is enough
    space = PostOrderApply(sch_rules=[rule for rule in rules if rule not in others], max_sketches=4)
    sketches = space.generate_sketches(module, target)
    traces = [(sketch, str(sketch.trace)) for sketch in sketches]
    sketch = next(item for item, text in traces if "separate_rest" in text and "wgmma" in text)
    assert postprocess(sketch.materialize(module, sketch.sample(1, np.random.default_rng(0))[0]), target)
