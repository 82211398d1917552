"""OnlineTilesTensorCore through the contract; what it offers of attention is valid, right, free of races, and made of mma."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.operators import suite
from ir import dtype as dt
from ir import te, tir
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.codegen.cuda.nvrtc import compile_cuda
from ir.relax.op.nn.attention import np_attention
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.interpreter import run
from ir.tir.lower import lower
from schedules import Schedule, ScheduleError
from schedules.block_facts import node_of
from schedules.postproc import postprocess
from schedules.rule import OnlineTiles, OnlineTilesTensorCore, ScheduleRule
from schedules.rule.default import default_rules
from schedules.rule.online_fragments import WarpTiles, fuse_in_fragments
from schedules.rule.online_tiles_tensor_core import (
    prepared,
    registers_of,
    shared_bytes_of,
)
from schedules.rule.reduction_chain import Tile, chain_of
from schedules.space import PostOrderApply
from tests.programs import chains

from ..checks import assert_replays
from ..rule_contract import RuleContract

TARGET = Target("nvidia/nvidia-a100")
OLDER = Target("nvidia/nvidia-t4")
CARDS = {
    "sm_75": OLDER,
    "sm_80": TARGET,
    "sm_89": Target("nvidia/geforce-rtx-4090"),
    "sm_90a": Target("nvidia/nvidia-h200"),
}


class TestOnlineTilesTensorCore(RuleContract):
    def rule(self) -> ScheduleRule:
        return OnlineTilesTensorCore()


def fused(func: PrimFunc, tiles: WarpTiles, skips: bool = False) -> Schedule:
    sch = Schedule(func)
    block = sch.get_block("peak")
    prepared(sch, block)
    fuse_in_fragments(sch, block, tiles, skips)
    return sch


def shapes_of(func: PrimFunc, target: Target) -> list[WarpTiles]:
    sch = Schedule(func)
    block = sch.get_block("peak")
    prepared(sch, block)
    chain = chain_of(node_of(sch, block))
    assert chain is not None
    rule = OnlineTilesTensorCore()
    rule.initialize(target)
    return list(rule.shapes(chain))


def assert_computes(sch: Schedule, name: str, shape: tuple[int, ...], target: Target = TARGET) -> None:
    """In the emulation of the generated code, close to the reference: weights are rounded, and so is the result."""
    assert postprocess(sch, target)
    lowered = lower(sch.mod, target)
    source = generate(lowered)
    assert len(source.kernels) == 1
    inputs = suite.inputs(name, shape)
    found = np.full(shape, 77, inputs[0].dtype)
    EmulatedProgram(lowered, source)(*inputs, found)
    expected = suite.reference(name, inputs, shape)
    # Half a unit of 1 of the weights, times the mean of the values under them, and half a unit of the result.
    bound = 2.0**-11 * (np.abs(inputs[2].astype("float32")).max() + np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound)


TILES = {
    "one row of tiles": WarpTiles(Tile(16, 32), 2),
    "two rows of tiles": WarpTiles(Tile(32, 32), 1),
    "queries are kept": WarpTiles(Tile(32, 32), 2, keeps_queries=True),
    "copied ahead": WarpTiles(Tile(16, 32), 2, keeps_queries=True, is_pipelined=True),
}


@pytest.mark.parametrize("tiles", TILES.values(), ids=TILES)
def test_all_shapes_compute_attention_to_earlier_keys(tiles: WarpTiles) -> None:
    name, shape = "float16_causal_attention", (1, 64, 16)
    assert_computes(fused(suite.workload(name, shape), tiles, skips=True), name, shape)


def test_without_a_mask_all_tiles_count() -> None:
    name, shape = "float16_attention", (1, 64, 16)
    assert_computes(fused(suite.workload(name, shape), TILES["copied ahead"]), name, shape)


def test_traces_replay() -> None:
    func = suite.workload("float16_causal_attention", (1, 32, 16))
    assert_replays(fused(func, WarpTiles(Tile(16, 16), 1, is_pipelined=True), skips=True), func)


def test_older_cards_multiply_in_halves() -> None:
    shape = (1, 32, 16)
    sch = fused(suite.workload("float16_attention", shape), WarpTiles(Tile(16, 16), 1, in_halves=True))
    assert_computes(sch, "float16_attention", shape, OLDER)
    assert "m16n8k8" in generate(lower(sch.mod, OLDER)).text
    assert {item.in_halves for item in shapes_of(suite.workload("float16_attention", shape), OLDER)} == {True}


@pytest.mark.parametrize("is_pipelined", [False, True])
def test_threads_do_not_race(is_pipelined: bool) -> None:
    """The interpreter runs warps by the documented layouts, and looks for races in shared memory."""
    shape, name = (1, 32, 16), "float16_causal_attention"
    tiles = WarpTiles(Tile(16, 32), 2, is_pipelined=is_pipelined)
    sch = fused(suite.workload(name, shape), tiles, skips=True)
    assert postprocess(sch, TARGET)
    inputs = suite.inputs(name, shape)
    found = np.zeros(shape, "float16")
    run(lower(sch.mod, TARGET), *inputs, found)
    np.testing.assert_allclose(found, suite.reference(name, inputs, shape), rtol=0, atol=4e-3)


def test_weights_stay_in_registers() -> None:
    """Nothing but copies of the operands goes through shared memory, and blocks wait for these only."""
    sch = fused(suite.workload("float16_attention", (1, 64, 32)), WarpTiles(Tile(32, 32), 2))
    assert postprocess(sch, TARGET)
    text = generate(lower(sch.mod, TARGET)).text
    kernel = text[text.index("__global__") :]
    shared = [line.split()[-1] for line in kernel.splitlines() if "__shared__" in line]
    assert sorted(name.split("[")[0] for name in shared) == ["key_shared", "query_shared", "value_shared"]
    assert kernel.count("__syncthreads()") <= 3
    assert "ptx_mma_m16n8k16_f16_f16_f32(mixed_warp" in kernel.replace(" ", " ")
    assert "narrow_weight_rf_warp + " in kernel, "weights are an operand where they are"


def test_hidden_tiles_are_not_multiplied() -> None:
    sch = fused(
        suite.workload("float16_causal_attention", (1, 64, 16)), WarpTiles(Tile(16, 32), 2), skips=True
    )
    for name in ("score_update_o", "mixed_rf_o"):
        assert not node_of(sch, sch.get_block(name)).is_unconditional
    assert node_of(sch, sch.get_block("total")).is_unconditional


def grouped(dtype: str, length: int = 32, dim: int = 16) -> PrimFunc:
    """As ``relax.nn.attention`` is legalized: four heads behind rows, of which two share keys; rounded weights behind the sum."""
    query = te.placeholder((1, length, 4, dim), dtype, name="query")
    key, value = (te.placeholder((1, length, 2, dim), dtype, name=name) for name in ("key", "value"))
    d, m, s, r = (
        te.reduce_axis((0, n), name) for n, name in zip((dim, length, length, length), "dmsr", strict=True)
    )
    shape = (1, 4, length, length)
    score = te.compute(
        shape,
        lambda b, h, i, j: te.sum(
            query[b, i, h, d].astype("float32") * key[b, j, h // 2, d].astype("float32"), axis=d
        ),
        name="score",
    )
    peak = te.compute(shape[:3], lambda b, h, i: te.max(score[b, h, i, m], axis=m), name="peak")
    weight = te.compute(shape, lambda b, h, i, j: te.exp(score[b, h, i, j] - peak[b, h, i]), name="weight")
    total = te.compute(shape[:3], lambda b, h, i: te.sum(weight[b, h, i, s], axis=s), name="total")
    rounded = te.compute(shape, lambda *at: weight[at].astype(dtype), name="rounded")
    mixed = te.compute(
        query.shape,
        lambda b, i, h, e: te.sum(
            rounded[b, h, i, r].astype("float32") * value[b, r, h // 2, e].astype("float32"), axis=r
        ),
        name="mixed",
    )
    out = te.compute(
        query.shape, lambda b, i, h, e: (mixed[b, i, h, e] / total[b, h, i]).astype(dtype), name="attention"
    )
    return te.create_prim_func([query, key, value, out])


def test_rows_of_heads_need_not_lie_side_by_side() -> None:
    dtype = "bfloat16"
    sch = fused(grouped(dtype), WarpTiles(Tile(16, 16), 1))
    assert postprocess(sch, TARGET)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((1, 32, heads, 16)).astype(dt.to_numpy(dtype)) for heads in (4, 2, 2, 4)]
    lowered = lower(sch.mod, TARGET)
    EmulatedProgram(lowered, generate(lowered))(*arrays)
    expected = np_attention(arrays[0], arrays[1], arrays[2], scale=1.0).astype("float32")
    np.testing.assert_allclose(arrays[3].astype("float32"), expected, rtol=0, atol=3 * 2.0**-7)


H, N, D = 2, 32, 16
"""Heads, rows of queries and keys, and their length."""


def attention_of(inputs: list[Any], query: Any, key: Any, value: Any) -> PrimFunc:
    """Of tensors of shape (H, N, D) that are computed of inputs."""
    d, m, s, r = (te.reduce_axis((0, n), name) for n, name in zip((D, N, N, N), "dmsr", strict=True))
    score = te.compute(
        (H, N, N),
        lambda h, i, j: te.sum(query[h, i, d].astype("float32") * key[h, j, d].astype("float32"), axis=d),
        name="score",
    )
    peak = te.compute((H, N), lambda h, i: te.max(score[h, i, m], axis=m), name="peak")
    weight = te.compute((H, N, N), lambda h, i, j: te.exp(score[h, i, j] - peak[h, i]), name="weight")
    total = te.compute((H, N), lambda h, i: te.sum(weight[h, i, s], axis=s), name="total")
    rounded = te.compute((H, N, N), lambda *at: weight[at].astype("float16"), name="rounded")
    mixed = te.compute(
        (H, N, D),
        lambda h, i, e: te.sum(rounded[h, i, r].astype("float32") * value[h, r, e].astype("float32"), axis=r),
        name="mixed",
    )
    out = te.compute(
        (H, N, D), lambda h, i, e: (mixed[h, i, e] / total[h, i]).astype("float16"), name="attention"
    )
    return te.create_prim_func([*inputs, out])


def reference_of(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
    rows = [item.transpose(1, 0, 2)[None] for item in (query, key, value)]
    return np_attention(rows[0], rows[1], rows[2], scale=1.0)[0].transpose(1, 0, 2)


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("float16")


def held(name: str, *shape: int) -> Any:
    return te.placeholder(shape, "float16", name=name)


def keys_as_values() -> tuple[PrimFunc, list[np.ndarray], np.ndarray]:
    query, key = held("query", H, N, D), held("key", H, N, D)
    arrays = [drawn(H, N, D), drawn(H, N, D)[::-1].copy()]
    return attention_of([query, key], query, key, key), arrays, reference_of(arrays[0], arrays[1], arrays[1])


def keys_in_columns() -> tuple[PrimFunc, list[np.ndarray], np.ndarray]:
    query, columns = held("query", H, N, D), held("columns", H, D, N)
    key = te.compute((H, N, D), lambda h, i, j: columns[h, j, i], name="key")
    arrays = [drawn(H, N, D), drawn(H, D, N), drawn(H, N, D)[::-1].copy()]
    value = held("value", H, N, D)
    func = attention_of([query, columns, value], query, key, value)
    return func, arrays, reference_of(arrays[0], arrays[1].transpose(0, 2, 1), arrays[2])


@pytest.mark.parametrize("make", [keys_as_values, keys_in_columns])
def test_operands_are_read_where_they_lie(make: Any) -> None:
    """One tensor for both products is copied for each; another order of a tensor is no tensor of its own."""
    func, arrays, expected = make()
    sch = fused(func, WarpTiles(Tile(16, 16), 1))
    assert postprocess(sch, TARGET)
    lowered = lower(sch.mod, TARGET)
    source = generate(lowered)
    assert len(source.kernels) == 1
    found = np.zeros((H, N, D), "float16")
    EmulatedProgram(lowered, source)(*arrays, found)
    np.testing.assert_allclose(found, expected, rtol=0, atol=4e-3)


def test_refuses_operands_that_are_computed_with_the_rows_of_a_tile() -> None:
    """Fragments are loaded from copies of arguments; the rule then offers other tiles."""
    query, given, value = (held(name, H, N, D) for name in ("query", "given", "value"))
    key = te.compute((H, N, D), lambda h, i, j: given[h, i, j] * tir.const(0.25, "float16"), name="key")
    func = attention_of([query, given, value], query, key, value)
    with pytest.raises(ScheduleError, match="block 'score_update' does not read its second operand"):
        fused(func, WarpTiles(Tile(16, N), 1))


@pytest.mark.parametrize("arch", CARDS)
def test_nothing_is_spilled(arch: str) -> None:
    """The shapes with most registers and most shared memory, of long heads."""
    func = suite.workload("float16_causal_attention", (32, 1024, 128))
    shapes = shapes_of(func, CARDS[arch])
    largest = max(shapes, key=lambda item: (registers_of(item, 128, 128), shared_bytes_of(item, 128, 128)))
    sch = fused(func, largest, skips=True)
    assert postprocess(sch, CARDS[arch])
    code = compile_cuda(generate(lower(sch.mod, CARDS[arch])).text, arch)
    (kernel,) = code.resources.values()
    assert not code.warnings
    assert kernel.spill_store_bytes == kernel.local_bytes == 0
    assert "mma.sync" in code.ptx
    assert ("cp.async" in code.ptx) == largest.is_pipelined


def test_it_is_in_the_space_beside_the_others() -> None:
    """Of the rules that a target has, those that take attention as one kernel, and none that goes on with what they leave."""
    func = suite.workload("float16_attention", (1, 16, 16))
    rules = [rule for rule in default_rules(TARGET) if isinstance(rule, OnlineTiles | OnlineTilesTensorCore)]
    traces = [
        str(sketch.materialize(func, sketch.sample(1, np.random.default_rng(0))[0]).trace)
        for sketch in PostOrderApply(sch_rules=rules, postprocs=[]).generate_sketches(func, TARGET)
    ]
    kinds = [("replicate" in text, "run_chain" in text) for text in traces]
    assert set(kinds) == {(True, True), (False, True), (False, False)}


@pytest.mark.parametrize(
    ("name", "shape", "target"),
    [
        ("attention", (1, 32, 16), TARGET),  # of float32
        ("float16_attention", (1, 32, 8), TARGET),  # heads of half a tile
        ("float16_attention", (1, 24, 16), TARGET),
        ("float16_decode_attention", (1, 32, 16), TARGET),
        ("float16_attention", (1, 32, 16), Target("nvidia/nvidia-v100")),
    ],
)
def test_what_tensor_cores_do_not_multiply_is_left_alone(
    name: str, shape: tuple[int, ...], target: Target
) -> None:
    sch = Schedule(suite.workload(name, shape))
    rule = OnlineTilesTensorCore()
    rule.initialize(target)
    before = sch.mod.script()
    (kept,) = rule.offers(sch, sch.get_block("peak"))
    assert kept.mod.script() == before


def test_weights_that_are_not_rounded_are_left_alone() -> None:
    """A product of float32 and float16 is none of tensor cores."""
    sch = Schedule(chains.attention(1, 32, 32, 16))
    rule = OnlineTilesTensorCore()
    rule.initialize(TARGET)
    assert len(rule.offers(sch, sch.get_block("peak"))) == 1


@pytest.mark.parametrize("arguments", [{"warp_rows": [8]}, {"key_tiles": []}, {"warps": [0]}])
def test_sizes_are_whole_tiles(arguments: dict[str, Any]) -> None:
    with pytest.raises(
        ScheduleError, match="OnlineTilesTensorCore: rows of a warp and keys must be multiples of 16"
    ):
        OnlineTilesTensorCore(**arguments)
