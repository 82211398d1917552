"""MultiLevelTiling with its parameters, and the rules that bind blocks to the threads of a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from ir import te, topi
from ir.script import from_source
from ir.target import Target
from ir.tir import PrimFunc, interpreter
from ir.tir.lower import lower
from schedules import Schedule, ScheduleError
from schedules.population import Sketch
from schedules.population.sketch import SketchSchedule
from schedules.postproc import postprocess
from schedules.rule import (
    AutoBind,
    CrossThreadReduction,
    GroupAxes,
    MultiLevelTiling,
    MultiLevelTilingWideVector,
    ParallelizeVectorizeUnroll,
    ReuseType,
    ScheduleRule,
)
from schedules.space import PostOrderApply
from tests.programs.expressions import elementwise, matmul, matmul_bias, softmax
from tests.programs.products import convolution

from ..checks import assert_same_meaning
from ..rule_contract import TARGET, RuleContract

GPU = Target(
    {
        "kind": "cuda",
        "max_threads_per_block": 1024,
        "thread_warp_size": 32,
        "max_shared_memory_per_block": 49152,
        "arch": "sm_70",
    }
)


def steps(sch: Schedule) -> list[str]:
    """The kinds of a trace's instructions, without looks at the program."""
    assert sch.trace is not None
    return [inst.kind.name for inst in sch.trace.insts if not inst.kind.name.startswith("Get")]


def applied(rule: ScheduleRule, func: PrimFunc, block: str, target: Target = TARGET) -> list[Schedule]:
    """What a rule offers for a block."""
    rule.initialize(target)
    sch = Schedule(func, seed=0)
    return list(rule.apply(sch, sch.get_block(block)))


class TestMultiLevelTiling(RuleContract):
    def rule(self) -> ScheduleRule:
        return MultiLevelTiling(
            "SSRSRS",
            max_innermost_factor=64,
            reuse_write=ReuseType(req="may", levels=[1, 2], scope="global"),
        )


class TestReadCaches(RuleContract):
    def rule(self) -> ScheduleRule:
        return MultiLevelTiling("SSRSR", None, 16, None, {"req": "must", "levels": [3], "scope": "global"})


class TestWideVector(RuleContract):
    def rule(self) -> ScheduleRule:
        return MultiLevelTilingWideVector("SRSRS", 512, 64)


def test_levels_follow_the_structure() -> None:
    (sch,) = applied(MultiLevelTiling("SSRSRS", max_innermost_factor=32), matmul(), "C")
    assert steps(sch) == ["Annotate", *["SamplePerfectTile", "Split"] * 3, "Reorder"]
    assert len(sch.get_loops("C")) == 10
    assert sch.get(sch.get_block("C")).annotations["meta_schedule.tiling_structure"] == "SSRSRS"
    kinds = [inst.attrs for inst in sch.trace.insts if inst.kind.name == "SamplePerfectTile"]  # type: ignore[union-attr]
    assert [tuple(item[:2]) for item in kinds] == [(4, 32), (4, 32), (2, 32)]
    assert_same_meaning(matmul(16), applied(MultiLevelTiling("SRS"), matmul(16), "C")[0])


def test_results_may_be_cached_behind_levels() -> None:
    reuse = {"req": "may", "levels": [1, 2], "scope": "global"}
    found = applied(MultiLevelTiling("SSRSRS", reuse_write=reuse), matmul(), "C")
    assert [steps(sch)[-2:] for sch in found] == [
        ["CacheWrite", "ReverseComputeAt"],
        ["CacheWrite", "ReverseComputeAt"],
        ["Split", "Reorder"],
    ]
    # an elementwise block behind is such a cache already
    found = applied(MultiLevelTiling("SSRSRS", reuse_write=reuse), matmul_bias(), "C")
    assert [steps(sch)[-1] for sch in found] == ["ReverseComputeAt", "ReverseComputeAt", "Reorder"]
    assert all("CacheWrite" not in steps(sch) for sch in found)


def test_tiles_on_the_threads_of_a_gpu() -> None:
    rule = MultiLevelTiling(
        "SSSRRSRS",
        tile_binds=["blockIdx.x", "vthread.x", "threadIdx.x"],
        max_innermost_factor=64,
        vector_load_lens=[1, 2, 3, 4, 8, 16],
        reuse_read=ReuseType("must", [4], "shared"),
        reuse_write=ReuseType("must", [3], "local"),
    )
    (sch,) = applied(rule, matmul(), "C", GPU)
    assert steps(sch) == [
        "Annotate",
        *["SamplePerfectTile", "Split"] * 3,
        "Reorder",
        *["Fuse", "Bind"] * 3,
        *["Annotate"] * 2,
        *["CacheWrite", "ReverseComputeAt"],
        *["CacheRead", "ComputeAt", "Fuse", "SampleCategorical", "Annotate"] * 2,
    ]
    notes = sch.get(sch.get_block("C")).annotations
    assert int(notes["meta_schedule.thread_extent_low_inclusive"]) == 32
    assert int(notes["meta_schedule.thread_extent_high_inclusive"]) == 1024
    lengths = [inst.attrs[0] for inst in sch.trace.insts if inst.kind.name == "SampleCategorical"]  # type: ignore[union-attr]
    assert [list(item) for item in lengths] == [[1, 2, 3, 4]] * 2  # 16 bytes at most


def test_a_filter_chooses_blocks() -> None:
    rule = MultiLevelTiling("SRS", filter_fn=lambda sch, block: sch.get(block).name_hint == "D")
    assert steps(applied(rule, matmul_bias(), "C")[0]) == []
    assert "Split" in steps(applied(rule, matmul_bias(), "D")[0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"structure": "SXR"}, "structure"),
        ({"structure": "SRS", "reuse_read": {"req": "often"}}, "'often'"),
        ({"structure": "SRS", "reuse_read": {"mode": "must"}}, "mode"),
        ({"structure": "SRS", "reuse_write": {"req": "must", "levels": [4]}}, "levels"),
        ({"structure": "SRR", "tile_binds": ["blockIdx.x", "threadIdx.x"]}, "2 thread axes"),
    ],
)
def test_says_what_is_wrong_with_a_parameter(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ScheduleError, match=words):
        MultiLevelTiling(**arguments)  # type: ignore[arg-type]


def test_a_wide_vector_is_no_decision() -> None:
    (sch,) = applied(MultiLevelTilingWideVector("SRSRS", 1024, 128), matmul(), "C")
    splits = [inst for inst in sch.trace.insts if inst.kind.name == "Split"]  # type: ignore[union-attr]
    assert [inst.inputs[1:] for inst in splits if inst.inputs[1] is None] == [(None, 32)]
    assert sch.get(sch.get_loops("C")[-1]).extent == 32


@pytest.mark.parametrize("name", ["two", "sum", "product", "rows"])
def test_what_threads_computed_leaves_them_through_global_memory(name: str) -> None:
    """Several readers, a reduction, another product, and an operator written as loops are kernels of their own."""
    a, b = (te.placeholder((16, 16), name=name) for name in "AB")
    k, k2 = (te.reduce_axis((0, 16), name) for name in ("k", "k2"))
    c = te.compute((16, 16), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    results = {
        "two": [topi.multiply(c, 2.0), topi.transpose(c, [1, 0])],
        "sum": [topi.sum(c, axis=1)],
        "product": [te.compute((16, 16), lambda i, j: te.sum(c[i, k2] * b[k2, j], axis=k2), name="D")],
        "rows": [topi.cumsum(c, axis=1)],
    }
    func = te.create_prim_func([a, b, *results[name]])
    for sketch in PostOrderApply().generate_sketches(func, GPU):
        sch = sketch.materialize(func, sketch.sample(1, np.random.default_rng(0))[0])
        assert postprocess(sch, GPU)
        if name != "rows":
            assert_same_meaning(func, sch)
            continue
        # threads exchange values: they are real ones in lowered kernels
        given = [np.random.default_rng(1).integers(-3, 4, (16, 16)).astype("float32") for _ in range(2)]
        expected, found = (np.zeros((16, 16), "float32") for _ in range(2))
        interpreter.run(func, *given, expected)
        interpreter.run(lower(sch.mod, GPU), *given, found)
        np.testing.assert_array_equal(found, expected)


def test_auto_bind() -> None:
    (sch,) = applied(AutoBind(256, [32, 64, 128]), elementwise(), "C", GPU)
    assert steps(sch) == ["Fuse", "SampleCategorical", "Split", "Bind", "Bind"]
    # more elements than threads: each gets a loop
    (sch,) = applied(AutoBind(4, [32]), elementwise(256, 256), "C", GPU)
    assert steps(sch) == ["Fuse", "Split", "Reorder", "Bind", "Bind"]
    assert [sch.get(loop).extent for loop in sch.get_loops("C")] == [4, 1024, 16]
    assert_same_meaning(elementwise(), applied(AutoBind(256, [32]), elementwise(), "C", GPU)[0])
    # what is bound stays as it is
    again = AutoBind()
    again.initialize(GPU)
    before = steps(sch)
    assert steps(again.apply(sch, sch.get_block("C"))[0]) == before


def test_threads_share_a_reduction() -> None:
    plain, shared = applied(CrossThreadReduction([4, 8, 16]), softmax(), "S", GPU)
    assert steps(plain) == []
    assert steps(shared) == [
        *["SampleCategorical", "Split", "Bind", "ComputeAt", "SetScope", "Split", "Bind"],
    ]
    assert_same_meaning(softmax(), shared)
    (alone,) = applied(CrossThreadReduction([4]), matmul(), "C", GPU)  # has reuse: tiles are better
    assert steps(alone) == []
    with pytest.raises(ScheduleError, match="thread_extents"):
        CrossThreadReduction([])


def test_unrolling_is_sampled_once_for_the_program() -> None:
    rule = ParallelizeVectorizeUnroll(-1, -1, [0, 16, 64], True)
    (sch,) = applied(rule, matmul(), "C")
    assert steps(sch) == ["SampleCategorical", "Annotate"]
    assert steps(rule.apply(sch, sch.get_block("C"))[0]) == ["SampleCategorical", "Annotate"]


def test_tiles_of_groups_have_no_gaps() -> None:
    """A tile of several groups and a part of each would write places that are not neighbours."""
    func = convolution("NHWC", "int32", "int32", image=4, channels=(8, 8), groups=4)
    groups = GroupAxes()
    groups.initialize(GPU)
    start = SketchSchedule(func, seed=0)
    (grouped,) = groups.apply(start, start.get_block("group_conv2d_nhwc"))
    rule = MultiLevelTiling(
        "SSSRRSRS",
        ["blockIdx.x", "vthread.x", "threadIdx.x"],
        reuse_read=ReuseType("must", [4], "shared"),
        reuse_write=ReuseType("must", [3], "local"),
    )
    rule.initialize(GPU)
    (found,) = rule.apply(grouped, grouped.get_block("group_conv2d_nhwc"))
    assert isinstance(found, SketchSchedule)
    sketch = Sketch(found)
    for row in sketch.sample(10, np.random.default_rng(0)):
        assert_same_meaning(func, sketch.materialize(func, row))


def test_rules_by_name_of_a_target() -> None:
    assert any(isinstance(rule, MultiLevelTilingWideVector) for rule in ScheduleRule.create("hexagon"))
    names = [type(rule).__name__ for rule in ScheduleRule.create("cuda")]
    assert names == [
        "ApplyCustomRule",
        "OnlineTilesTensorCore",
        "OnlineTiles",
        "SplitKeys",
        "GroupAxes",
        "SplitReduction",
        "SplitLastWave",
        "MultiLevelTiling",
        "InlineConstantScalars",
        "AutoInline",
        "ComputeAtReader",
        "RowReductions",
        "CrossThreadReduction",
        "ParallelizeVectorizeUnroll",
        "SpatialThreads",
        "RowThreads",
        "ScanThreads",
        "ScanBlocks",
        "AutoBind",
    ]


@pytest.mark.parametrize("req", ["may", "must"])
def test_a_result_that_cannot_follow_into_a_tile_stays_where_it_is(req: str) -> None:
    """The consumer runs for a triangle of its domain: within a tile that would be another one."""
    func = from_source("""@T.prim_func
def main(A: T.Buffer((16, 16)), B: T.Buffer((16, 16)), D: T.Buffer((16, 16))):
    C = T.alloc_buffer((16, 16))
    for i, j, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(16, 16):
        with T.block("D"):
            T.where(j <= i)
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] * T.float32(2)
""")
    rule = MultiLevelTiling("SSRSRS", reuse_write={"req": req, "levels": [1, 2], "scope": "global"})
    rule.initialize(Target("cpu"))
    sch = Schedule(func)
    found = rule.apply(sch, sch.get_block("C"))
    assert found and all("T.where" in item.mod.script() for item in found)


def conv(size: int, channels: int, stride: int) -> PrimFunc:
    """A 3x3 convolution with a border: tiles of it overlap."""
    data = te.placeholder((1, size, size, channels), name="A")
    weight = te.placeholder((3, 3, channels, 2 * channels), name="W")
    return te.create_prim_func([data, weight, topi.nn.conv2d_nhwc(data, weight, stride, 1, 1)])


@pytest.mark.parametrize(
    "tag", ["nvidia/nvidia-h200", "nvidia/nvidia-a100", "nvidia/geforce-rtx-4090", "nvidia/nvidia-t4"]
)
@pytest.mark.parametrize(
    "func",
    [matmul(96), matmul_bias(), conv(14, 16, 1), conv(15, 12, 2)],
    ids=["product", "bias", "conv", "stride"],
)
def test_what_constraints_allow_a_device_runs(func: PrimFunc, tag: str) -> None:
    """Threads, shared memory and registers are known before a candidate is made."""
    target = Target(tag)
    sketches = PostOrderApply().generate_sketches(func, target)
    valid = [
        postprocess(sketch.materialize(func, row), target)
        for sketch in sketches
        for row in sketch.sample(12, np.random.default_rng(0))
    ]
    assert len(valid) >= 12 and all(valid)


def depthwise() -> PrimFunc:
    data = te.placeholder((1, 24, 12, 12), name="A")
    weight = te.placeholder((24, 1, 3, 3), name="W")
    return te.create_prim_func([data, weight, topi.nn.depthwise_conv2d_nchw(data, weight, 1, 1, 1)])


def product_of_doubles() -> PrimFunc:
    a, b = te.placeholder((96, 64), "float64", name="A"), te.placeholder((64, 48), "float64", name="B")
    return te.create_prim_func([a, b, topi.matmul(a, b)])


@pytest.mark.parametrize("bytes_", [1400, 4096])
@pytest.mark.parametrize(
    "func", [depthwise(), product_of_doubles(), conv(15, 12, 2)], ids=["depthwise", "doubles", "stride"]
)
def test_little_shared_memory_is_known_to_be_little(func: PrimFunc, bytes_: int) -> None:
    """Also where threads do not share the copies evenly: the last round reaches beyond the tile."""
    target = Target({**Target("nvidia/geforce-rtx-4090").export(), "max_shared_memory_per_block": bytes_})
    (sketch,) = PostOrderApply().generate_sketches(func, target)
    rows = sketch.sample(30, np.random.default_rng(0))
    assert all(postprocess(sketch.materialize(func, row), target) for row in rows)
    assert len(rows) or bytes_ < 4096


def test_doubles_take_two_registers() -> None:
    """Of a thread's 255."""
    target = Target("nvidia/nvidia-a100")
    (sketch,) = PostOrderApply().generate_sketches(product_of_doubles(), target)
    rows = sketch.sample(400, np.random.default_rng(0))
    values = sketch.values(rows)
    held = np.ones(len(rows), dtype=np.int64)
    for decision in sketch.decisions[:2]:  # of rows and columns: what is not blocks or threads
        factors = [values[var] for var in decision.variables]  # type: ignore[union-attr]
        held *= factors[1] * factors[3] * factors[4]
    assert held.max() * 2 <= 255


@pytest.mark.parametrize("threads", [1, 32])
def test_a_device_with_one_axis_of_threads(threads: int) -> None:
    """Without threads in a block no candidate fills a warp: the block stays as it is."""
    binds = ["blockIdx.x"] if threads == 1 else ["blockIdx.x", "threadIdx.x"]
    rule = MultiLevelTiling("SSSRRSRS", binds, 64, None, ReuseType("must", [4], "shared"))
    (sketch,) = PostOrderApply(sch_rules=[rule]).generate_sketches(matmul(64), GPU)
    assert len(sketch.sample(4, np.random.default_rng(0)))
    assert bool(sketch.n_columns) == (threads > 1)


@pytest.mark.parametrize(
    ("limit", "value"),
    [("max_shared_memory_per_block", 2048), ("max_threads_per_block", 64), ("registers_per_block", 1024)],
)
def test_a_smaller_device_has_fewer_candidates(limit: str, value: int) -> None:
    (sketch,) = PostOrderApply().generate_sketches(matmul(96), GPU)
    (smaller,) = PostOrderApply().generate_sketches(matmul(96), Target({**GPU.export(), limit: value}))
    rows = sketch.sample(500, np.random.default_rng(0))
    share = smaller.valid(rows).mean()
    assert 0 < share < 0.9


def test_an_operand_of_one_element_is_within_the_limits_of_a_device() -> None:
    """Its cache is as large in all candidates, of which each has threads of its own."""
    func = from_source("""
@T.prim_func
def main(x: T.Buffer((1, 1), "float32"), y: T.Buffer((1, 64), "float32"), z: T.Buffer((1, 64), "float32")):
    for i, j, k in T.grid(1, 64, 1):
        with T.block("z"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                z[vi, vj] = T.float32(0)
            z[vi, vj] = z[vi, vj] + x[0, 0] * y[0, vj]
""")
    sketches = PostOrderApply().generate_sketches(func, GPU)
    assert any(len(sketch.sample(4, np.random.default_rng(0))) for sketch in sketches)
