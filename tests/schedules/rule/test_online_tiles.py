"""OnlineTiles through the contract; what it offers of attention is valid, right, and free of races."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.operators import suite
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.codegen.cuda.nvrtc import compile_cuda
from ir.target import Target
from ir.tir.interpreter import run
from ir.tir.lower import lower
from schedules import Schedule, ScheduleError
from schedules.block_facts import node_of
from schedules.postproc import postprocess
from schedules.rule import OnlineTiles, ScheduleRule
from schedules.rule.online_tiles import Shape, fuse_online, inline_producers
from schedules.rule.reduction_chain import Tile, chain_of
from schedules.space import PostOrderApply
from tests.programs import chains

from ..checks import assert_replays
from ..rule_contract import RuleContract

TARGET = Target("nvidia/nvidia-a100")
TARGETS = [
    Target(name)
    for name in ("nvidia/nvidia-t4", "nvidia/nvidia-a100", "nvidia/geforce-rtx-4090", "nvidia/nvidia-h200")
]


class TestOnlineTiles(RuleContract):
    def rule(self) -> ScheduleRule:
        return OnlineTiles()


def fused(name: str, shape: tuple[int, ...], tile: Shape, skips: bool = False) -> Schedule:
    sch = Schedule(suite.workload(name, shape))
    block = sch.get_block("peak")
    inline_producers(sch, block)
    fuse_online(sch, block, tile, skips)
    return sch


def shapes_of(name: str, shape: tuple[int, ...], target: Target) -> list[Shape]:
    sch = Schedule(suite.workload(name, shape))
    block = sch.get_block("peak")
    inline_producers(sch, block)
    chain = chain_of(node_of(sch, block))
    assert chain is not None
    rule = OnlineTiles()
    rule.initialize(target)
    return list(rule.shapes(chain))


SHAPES = [
    Shape(Tile(16, 16), 8, 8),
    Shape(Tile(16, 32), 16, 4),
    Shape(Tile(32, 16), 16, 16),
    Shape(Tile(32, 32), 4, 16),
]


@pytest.mark.parametrize("tile", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("name", "skips"), [("attention", False), ("causal_attention", False), ("causal_attention", True)]
)
def test_all_shapes_compute_attention(name: str, skips: bool, tile: Shape) -> None:
    shape = (2, 64, 16)
    sch = fused(name, shape, tile, skips)
    assert_replays(sch, suite.workload(name, shape))
    assert postprocess(sch, TARGET)
    lowered = lower(sch.mod, TARGET)
    source = generate(lowered)
    assert len(source.kernels) == 1
    inputs = suite.inputs(name, shape)
    expected = suite.reference(name, inputs, shape)
    found = np.zeros((2, 64, 16), "float32")
    EmulatedProgram(lowered, source)(*inputs, found)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("skips", [False, True])
def test_threads_do_not_race(skips: bool) -> None:
    shape = (1, 32, 8)
    lowered = lower(fused("causal_attention", shape, Shape(Tile(8, 16), 8, 4), skips).mod, TARGET)
    inputs = suite.inputs("causal_attention", shape)
    found = np.zeros((1, 32, 8), "float32")
    run(lowered, *inputs, found)
    np.testing.assert_allclose(found, suite.reference("causal_attention", inputs, shape), atol=1e-5)


def test_hidden_tiles_are_not_multiplied() -> None:
    """Neither queries and keys nor weights and values: where all weights of a tile are 0, nothing is added."""
    sch = fused("causal_attention", (2, 64, 16), SHAPES[0], skips=True)
    for name in ("score_update", "mixed_rf_update"):
        assert not node_of(sch, sch.get_block(name)).is_unconditional
    for name in ("peak_rf", "total_rf", "mixed"):
        assert node_of(sch, sch.get_block(name)).is_unconditional, (
            "what threads share is written for each tile"
        )


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("shape", [(12, 512, 64), (8, 2048, 128), (2, 6, 8)])
def test_shapes_fit_the_device(shape: tuple[int, ...], target: Target) -> None:
    """All that are offered of the smallest and the largest, and some in between."""
    shapes = shapes_of("causal_attention", shape, target)
    assert shapes
    for tile in {shapes[0], shapes[len(shapes) // 2], shapes[-1]}:
        skips = tile.tile.keys < shape[1]  # of one tile none is hidden
        assert postprocess(fused("causal_attention", shape, tile, skips), target), tile


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_operands_count_the_bytes_that_they_have(target: Target) -> None:
    """Tiles of float16 may be larger than those of float32; the largest ones fit, too."""
    shape = (8, 2048, 128)
    words = {item.tile for item in shapes_of("causal_attention", shape, target)}
    shapes = shapes_of("float16_causal_attention", shape, target)
    assert words < {item.tile for item in shapes}
    largest = max(shapes, key=lambda item: item.tile.rows * item.tile.keys)
    assert postprocess(fused("float16_causal_attention", shape, largest, skips=True), target), largest


def test_rows_of_narrow_operands_are_vectors_of_16_bytes() -> None:
    lowered = lower(fused("float16_attention", (2, 64, 32), Shape(Tile(16, 32), 16, 4)).mod, TARGET)
    text = generate(lowered).text
    assert text.count("load_vec<8>(") == 3, "queries, keys and values"


def test_the_unfused_form_stays_in_the_space() -> None:
    func = suite.workload("attention", (2, 6, 8))
    sketches = PostOrderApply().generate_sketches(func, TARGET)
    traces = [
        str(sketch.materialize(func, sketch.sample(1, np.random.default_rng(0))[0]).trace)
        for sketch in sketches
    ]
    online = ["run_chain" in text for text in traces]
    assert any(online) and not all(online)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90a"])
def test_results_stay_in_registers(arch: str) -> None:
    sch = fused("attention", (12, 512, 64), Shape(Tile(32, 32), 16, 16))
    assert postprocess(sch, TARGET)
    code = compile_cuda(generate(lower(sch.mod, TARGET)).text, arch)
    (kernel,) = code.resources.values()
    assert not code.warnings
    assert kernel.spill_store_bytes == kernel.local_bytes == 0


def test_what_is_no_attention_is_left_alone() -> None:
    for func in (chains.softmax(8, 16), chains.log_sum_exp(8, 16)):
        sch = Schedule(func)
        rule = OnlineTiles()
        rule.initialize(TARGET)
        (kept,) = rule.offers(sch, sch.get_block("peak"))
        assert kept.mod.script() == sch.mod.script()


@pytest.mark.parametrize("arguments", [{"row_tiles": []}, {"key_tiles": [0]}, {"threads": (256, 64)}])
def test_sizes_are_positive(arguments: dict[str, object]) -> None:
    with pytest.raises(ScheduleError, match="OnlineTiles: sizes must be positive"):
        OnlineTiles(**arguments)  # type: ignore[arg-type]
