"""MultiLevelTilingTensorCore with intrinsics written in plain TIR: fragments are blocks, and mean the same."""

from __future__ import annotations

import pytest

from ir.script import tir as T
from ir.tir import TensorIntrin
from schedules import Schedule, ScheduleError
from schedules.postproc import RewriteReductionBlock, RewriteTensorize
from schedules.rule import MultiLevelTilingTensorCore, ReuseType

from ..checks import assert_same_meaning
from ..rule_contract import TARGET
from .test_multi_level_tiling import matmul, steps


def load(source: str, target: str) -> object:
    @T.prim_func
    def desc(a: T.handle, b: T.handle) -> None:
        A = T.match_buffer(a, (4, 4), "float32", offset_factor=1, scope=source)
        B = T.match_buffer(b, (4, 4), "float32", offset_factor=1, scope=target)
        with T.block("root"):
            T.reads(A[0:4, 0:4])
            T.writes(B[0:4, 0:4])
            for i, j in T.grid(4, 4):
                with T.block("load"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj]

    return desc


@T.prim_func
def fill(c: T.handle) -> None:
    C = T.match_buffer(c, (4, 4), "float32", offset_factor=1, scope="wmma.accumulator")
    with T.block("root"):
        T.reads()
        T.writes(C[0:4, 0:4])
        for i, j in T.grid(4, 4):
            with T.block("init"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.float32(0)


@T.prim_func
def multiply(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4, 4), "float32", offset_factor=1, scope="wmma.matrix_a")
    B = T.match_buffer(b, (4, 4), "float32", offset_factor=1, scope="wmma.matrix_b")
    C = T.match_buffer(c, (4, 4), "float32", offset_factor=1, scope="wmma.accumulator")
    with T.block("root"):
        T.reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
        T.writes(C[0:4, 0:4])
        for i, j, k in T.grid(4, 4, 4):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def group() -> dict[str, str]:
    found = {
        "init": fill,
        "load_a": load("shared", "wmma.matrix_a"),
        "load_b": load("shared", "wmma.matrix_b"),
        "compute": multiply,
        "store": load("wmma.accumulator", "global"),
    }
    for role, desc in found.items():
        TensorIntrin.register(f"test.tile.{role}", desc, desc, override=True)
    return {role: f"test.tile.{role}" for role in found}


def test_fragments_are_loaded_computed_and_stored() -> None:
    rule = MultiLevelTilingTensorCore(
        [group()],
        "SSSRRSRS",
        tile_binds=["blockIdx.x", "blockIdx.y", "threadIdx.y"],
        reuse_read=ReuseType("must", [4], "shared"),
        reuse_write=ReuseType("must", [3], "local"),
    )
    rule.initialize(TARGET)
    func = matmul(16)
    start = Schedule(func, seed=1)
    (sch,) = rule.apply(start, start.get_block("C"))
    assert steps(sch).count("Blockize") == 4
    script = sch.mod.script()
    for role in ("load_a", "load_b", "compute", "store", "init"):
        assert f"test.tile.{role}" in script
    for postproc in (RewriteReductionBlock(), RewriteTensorize()):
        postproc.initialize(TARGET)
        assert postproc.apply(sch)
    assert "auto_tensorize" not in sch.mod.script()
    assert_same_meaning(func, sch)


def test_loads_and_products_are_a_pipeline_of_two_stages() -> None:
    rule = MultiLevelTilingTensorCore(
        [group()],
        "SSSRRSRS",
        reuse_read=ReuseType("must", [4], "shared"),
        reuse_write=ReuseType("must", [3], "local"),
        use_software_pipeline=True,
    )
    rule.initialize(TARGET)
    start = Schedule(matmul(16), seed=1)
    (sch,) = rule.apply(start, start.get_block("C"))
    script = sch.mod.script()
    assert '"software_pipeline_stage": [0, 0, 1]' in script
    assert '"software_pipeline_order": [0, 1, 2]' in script


def test_a_group_must_be_complete_and_known() -> None:
    with pytest.raises(ScheduleError, match="store"):
        MultiLevelTilingTensorCore([{key: item for key, item in group().items() if key != "store"}], "SRS")
    with pytest.raises(ScheduleError, match="test.unknown"):
        MultiLevelTilingTensorCore([{**group(), "load_a": "test.unknown"}], "SRS")


def test_a_block_that_does_not_fit_stays() -> None:
    rule = MultiLevelTilingTensorCore([group()], "SSRS")
    rule.initialize(TARGET)
    sch = Schedule(matmul(6))
    assert rule.apply(sch, sch.get_block("C")) == [sch]
