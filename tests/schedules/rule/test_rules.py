"""Every schedule rule through the contract, and what is special about each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import register_func, te, tir, topi
from ir.registry import remove_global_func
from ir.script import tir as T
from ir.target import Target
from ir.tir import PrimFunc, TensorIntrin
from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC
from schedules import BlockRV, RuleError, Schedule, ScheduleError
from schedules.block_threads import bind_block
from schedules.population import Sketch, TileDecision
from schedules.population.sketch import SketchSchedule
from schedules.postproc import DisallowDynamicLoop, postprocess
from schedules.rule import (
    AddRFactor,
    ApplyCustomRule,
    AutoBind,
    AutoInline,
    CrossThreadReduction,
    FunctionRule,
    InlineConstantScalars,
    MultiLevelTiling,
    MultiLevelTilingWithIntrin,
    ParallelizeVectorizeUnroll,
    PyScheduleRule,
    RandomComputeLocation,
    RegisterTiling,
    ScheduleRule,
    SpatialTiling,
)
from schedules.rule.default import default_rules
from tests.programs.expressions import elementwise, matmul_bias, row_sum

from ..checks import assert_same_meaning
from ..rule_contract import TARGET, RuleContract


def test_processors_do_not_repeat_costly_intrinsics() -> None:
    (rule,) = (rule for rule in default_rules(Target("cpu")) if isinstance(rule, AutoInline))
    assert {"tir.exp", "tir.log2", "tir.pow"} <= rule.disallow_op
    assert not {"tir.sqrt", "tir.fabs", "tir.if_then_else"} & rule.disallow_op


class TestAutoInline(RuleContract):
    def rule(self) -> ScheduleRule:
        return AutoInline()

    def test_inlines_into_the_consumer(self) -> None:
        sch = Schedule(elementwise())
        self.ready().apply(sch, sch.get_block("B"))
        assert self.blocks(sch.mod["main"]) == ["C"]

    @pytest.mark.parametrize(("terms", "times", "kept"), [(12, 2, True), (12, 1, False), (2, 2, False)])
    def test_what_is_long_is_not_repeated_in_one_expression(self, terms: int, times: int, kept: bool) -> None:
        a = te.placeholder((20,), name="A")

        def long(i: tir.Var) -> tir.PrimExpr:
            total = a[i]
            for number in range(1, terms):
                total = total * 1.5 + a[i] * float(number)
            return total

        b = te.compute((20,), long, name="B")
        c = te.compute((16,), lambda i: b[i] if times == 1 else b[i] + b[i + 4], name="C")
        sch = Schedule(te.create_prim_func([a, c]))
        self.ready().apply(sch, sch.get_block("B"))
        assert self.blocks(sch.mod["main"]) == (["B", "C"] if kept else ["C"])

    def test_long_indices_are_not_long_expressions(self) -> None:
        """They cost little beside a place in memory for each element."""
        a = te.placeholder((4096,), name="A")
        b = te.compute((20,), lambda i: a[((i * 3 + 1) * 5 + i * 7 + 2) * 3 + i * i + (i + 1) * 9], name="B")
        c = te.compute((16,), lambda i: b[i] + b[i + 4], name="C")
        sch = Schedule(te.create_prim_func([a, c]))
        self.ready().apply(sch, sch.get_block("B"))
        assert self.blocks(sch.mod["main"]) == ["C"]


def inlined(func: PrimFunc, block: str, **options: Any) -> bool:
    """Whether AutoInline takes a block away."""
    rule = AutoInline(**options)
    rule.initialize(TARGET)
    sch = Schedule(func)
    (found,) = rule.apply(sch, sch.get_block(block))
    return block not in RuleContract.blocks(found.mod["main"])


def through(value: Callable[[te.Tensor, tir.Var], tir.PrimExpr], **consumers: Any) -> PrimFunc:
    """A block ``B`` of 16 elements, and blocks that read it, all of which the function returns."""
    a = te.placeholder((16,), name="A")
    b = te.compute((16,), lambda i: value(a, i), name="B")
    return te.create_prim_func([a, *(make(b, name) for name, make in consumers.items())])


def plus_one(b: te.Tensor, name: str) -> te.Tensor:
    return te.compute((16,), lambda i: b[i] + 1.0, name=name)


def summed(b: te.Tensor, name: str) -> te.Tensor:
    k = te.reduce_axis((0, 16), name="k")
    return te.compute((4,), lambda i: te.sum(b[k] * (i + 1.0), axis=k), name=name)


EXPENSIVE = ["tir.exp"]


@pytest.mark.parametrize(
    ("consumers", "is_inlined"),
    [({"C": plus_one}, True), ({"C": plus_one, "D": plus_one}, False), ({"C": summed}, False)],
)
def test_what_is_expensive_moves_into_one_elementwise_consumer_only(
    consumers: dict[str, Any], is_inlined: bool
) -> None:
    costly = through(lambda a, i: tir.exp(a[i]), **consumers)
    assert inlined(costly, "B", disallow_op=EXPENSIVE) == is_inlined
    assert inlined(costly, "B")
    assert inlined(through(lambda a, i: a[i] * 2.0, **consumers), "B", disallow_op=EXPENSIVE)


def test_padding_is_kept_unless_it_may_be_repeated() -> None:
    padded = through(lambda a, i: tir.if_then_else(i < 8, a[i], 0.0), C=plus_one)
    assert not inlined(padded, "B")
    assert inlined(padded, "B", disallow_if_then_else=False)


def test_transpositions_are_kept_where_order_is_asked_for() -> None:
    a, v = te.placeholder((8, 16), name="A"), te.placeholder((16,), name="V")

    def read_by_c(value: Callable[[tir.Var, tir.Var], tir.PrimExpr]) -> PrimFunc:
        b = te.compute((16, 8), value, name="B")
        return te.create_prim_func([a, v, te.compute((16, 8), lambda i, j: b[i, j] + 1.0, name="C")])

    transposed = read_by_c(lambda i, j: a[j, i] * 2.0)
    assert inlined(transposed, "B") and not inlined(transposed, "B", require_ordered=True)
    for in_order in (read_by_c(lambda i, j: v[i] * 2.0), read_by_c(lambda i, j: a[i // 2, j] * 2.0)):
        assert inlined(in_order, "B", require_ordered=True)


def test_what_writes_at_computed_places_moves_into_its_producer_where_it_may() -> None:
    @T.prim_func
    def reshaped(A: T.Buffer((16,), "float32"), C: T.Buffer((4, 4), "float32")):
        B = T.alloc_buffer((16,))
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] * 2.0
        for i in range(16):
            with T.block("C"):
                v = T.axis.spatial(16, i)
                C[v // 4, v % 4] = B[v] + 1.0

    options = {"into_producer": True, "into_consumer": False}
    assert not inlined(reshaped, "C", **options)
    assert inlined(reshaped, "C", require_injective=False, **options)


def test_constants_are_kept_where_asked() -> None:
    constant = through(lambda a, i: tir.const(2.0, "float32"), C=plus_one)
    assert inlined(constant, "B") and not inlined(constant, "B", inline_const_tensor=False)


def test_nothing_moves_where_it_may_move_nowhere() -> None:
    plain = through(lambda a, i: a[i] * 2.0, C=plus_one)
    assert not inlined(plain, "B", into_consumer=False)
    assert not inlined(plain, "C") and inlined(plain, "C", into_producer=True)


@pytest.mark.parametrize("mark", ["scope", "preprocessing"])
def test_caches_and_prepared_weights_stay_where_rules_put_them(mark: str) -> None:
    sch = Schedule(through(lambda a, i: a[i] * 2.0, C=plus_one))
    block = sch.get_block("B")
    if mark == "scope":
        sch.set_scope(block, 0, "local")
    else:
        sch.annotate(block, LAYOUT_REWRITE_PREPROC, 1)
    rule = AutoInline()
    rule.initialize(TARGET)
    rule.apply(sch, block)
    assert RuleContract.blocks(sch.mod["main"]) == ["B", "C"]


def two_products(steps: int, *, is_padded: bool = False, read_by_others: bool = False) -> PrimFunc:
    """``((A @ A) + 1 + ... + 1) @ W``: blocks ``E0``, ``E1``, ... between two products, perhaps a padding ``P`` behind them."""
    columns = 18 if is_padded else 16
    a, w = te.placeholder((16, 16), name="A"), te.placeholder((columns, 16), name="W")
    found = topi.matmul(a, a)
    for number in range(steps):
        found = te.compute((16, 16), lambda i, j, x=found: x[i, j] + 1.0, name=f"E{number}")
    results = [te.compute((16, 16), lambda i, j, x=found: x[i, j] * 3.0, name="R")] if read_by_others else []
    if is_padded:
        found = te.compute((16, columns), lambda i, j, x=found: x[i, tir.min(j, 15)], name="P")
    k = te.reduce_axis((0, columns), name="k")
    product = te.compute((16, 16), lambda i, j: te.sum(found[i, k] * w[k, j], axis=k), name="D")
    return te.create_prim_func([a, w, *results, product])


@pytest.mark.parametrize(
    ("func", "block", "is_inlined"),
    [
        (two_products(1), "E0", False),
        (two_products(2), "E0", True),  # into the next, which is the tile's last
        (two_products(2), "E1", False),
        (two_products(1, is_padded=True), "E0", False),
        (two_products(1, read_by_others=True), "E0", True),
        (elementwise(), "B", True),
    ],
)
def test_what_ends_a_register_tile_and_starts_another_product_is_kept(
    func: PrimFunc, block: str, is_inlined: bool
) -> None:
    """Inlined into the second product, it would be computed once for each use."""
    assert inlined(func, block) == is_inlined


class TestAutoInlineIntoProducer(RuleContract):
    def rule(self) -> ScheduleRule:
        return AutoInline(into_producer=True, into_consumer=False)


class TestAddRFactor(RuleContract):
    def rule(self) -> ScheduleRule:
        return AddRFactor()

    def test_factors_long_reductions(self) -> None:
        sch = Schedule(row_sum(), seed=0)
        (found,) = self.ready().apply(sch, sch.get_block("B"))
        assert self.blocks(found.mod["main"]) == ["B_rf", "B"]

    @pytest.mark.parametrize("cores", [2, 8])
    def test_parts_keep_all_cores_busy_and_are_not_too_many(self, cores: int) -> None:
        a, k = te.placeholder((1 << 14,), name="A"), te.reduce_axis((0, 1 << 14), "k")
        func = te.create_prim_func([a, te.compute((), lambda: te.sum(a[k], axis=k), name="B")])
        rule = AddRFactor()
        rule.initialize(Target(f"llvm -mcpu=skylake-avx512 -num-cores {cores}"))
        start = SketchSchedule(func, seed=0)
        (item,) = rule.apply(start, start.get_block("B"))
        assert isinstance(item, SketchSchedule)
        (tile,) = Sketch(item).decisions
        assert isinstance(tile, TileDecision)
        assert sorted(tile.table[:, 0].tolist()) == [cores << shift for shift in range(7)]


class TestRegisterTiling(RuleContract):
    def rule(self) -> ScheduleRule:
        return RegisterTiling()

    @pytest.mark.parametrize("cores", [2, 8])
    def test_outer_tiles_keep_all_cores_busy(self, cores: int) -> None:
        func = matmul_bias(64, 64, 8)
        rule = RegisterTiling()
        rule.initialize(Target(f"llvm -mcpu=skylake-avx512 -num-cores {cores}"))
        start = SketchSchedule(func, seed=0)
        for item in rule.apply(start, start.get_block("C")):
            assert isinstance(item, SketchSchedule)
            sketch = Sketch(item)
            if not item.columns:
                continue
            for row in sketch.sample(30, np.random.default_rng(0)):
                sch = sketch.materialize(func, row)
                rows, columns = (int(sch.get(loop).extent) for loop in sch.get_loops("C")[:2])
                assert cores <= rows * columns <= 64 * cores

    def test_loops_of_an_epilogue_are_unrolled_and_the_last_is_a_vector(self) -> None:
        sch = Schedule(matmul_bias(), seed=0)
        found = [item for item in self.ready().apply(sch, sch.get_block("C")) if "ax1" in item.mod.script()]
        assert found
        for item in found:
            loops = [item.get(loop) for loop in item.get_loops("D")]
            own = [loop for loop in loops if loop.loop_var.name.startswith("ax")]
            marks = [[key for key in loop.annotations] for loop in own]
            assert marks[-1] == ["meta_schedule.vectorize"]
            assert all(mark == ["meta_schedule.unroll"] for mark in marks[:-1])
            assert not any(
                set(loop.annotations) & {"meta_schedule.unroll", "meta_schedule.vectorize"}
                for loop in loops
                if loop not in own
            )

    def test_refuses_a_structure_without_tiles(self) -> None:
        with pytest.raises(ScheduleError, match="structure"):
            RegisterTiling(structure="SSRX")


class TestRandomComputeLocation(RuleContract):
    def rule(self) -> ScheduleRule:
        return RandomComputeLocation()

    def test_a_producer_that_can_move_into_all_loops_does(self) -> None:
        sch = Schedule(elementwise())
        found, *elsewhere = self.ready().apply(sch, sch.get_block("B"))
        assert all(item is not found for item in elsewhere)
        assert len(found.get_loops("C")) == 2 and [
            found.get(a) is found.get(b) for a, b in zip(found.get_loops("B"), found.get_loops("C"))
        ] == [True, True]

    def test_one_that_would_be_computed_again_may_also_stay(self) -> None:
        a = te.placeholder((8, 9), "float32", name="A")
        b = te.compute((8, 9), lambda i, j: a[i, j] * 2.0, name="B")
        c = te.compute((8, 8), lambda i, j: b[i, j] + b[i, j + 1], name="C")
        sch = Schedule(te.create_prim_func([a, c]))
        found = list(self.ready().apply(sch, sch.get_block("B")))
        assert any(item is sch for item in found) and len(found) == 3


class TestParallelizeVectorizeUnroll(RuleContract):
    def rule(self) -> ScheduleRule:
        return ParallelizeVectorizeUnroll()

    @pytest.mark.parametrize(("n", "parallel"), [(64, False), (128, True)])
    def test_only_nests_with_enough_work_are_parallel(self, n: int, parallel: bool) -> None:
        sch = Schedule(elementwise(n, 32))  # 4096 iterations pay for waking the other cores
        self.ready().apply(sch, sch.get_block("C"))
        assert ("meta_schedule.parallel" in sch.get(sch.get_loops("C")[0]).annotations) == parallel

    @pytest.mark.parametrize(("channels", "inside"), [(32, True), (4, False)])
    def test_the_contiguous_axis_of_a_pooling_is_the_vector_loop(self, channels: int, inside: bool) -> None:
        a = te.placeholder((10, channels), "float32", name="A")
        r = te.reduce_axis((0, 3), name="r")
        pool = te.compute((8, channels), lambda i, c: te.max(a[i + r, c], axis=r), name="P")
        sch = Schedule(te.create_prim_func([a, pool]))
        self.ready().apply(sch, sch.get_block("P"))
        last = sch.get(sch.get_loops("P")[-1])
        assert (last.loop_var.name == "c") == inside
        assert ("meta_schedule.vectorize" in last.annotations) == inside


class TestInlineConstantScalars(RuleContract):
    def rule(self) -> ScheduleRule:
        return InlineConstantScalars()

    def test_inlines_a_constant(self) -> None:
        @T.prim_func
        def program(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            c = T.alloc_buffer(())
            with T.block("c"):
                vu = T.axis.spatial(1, 0)
                c[()] = T.float32(2)
            for i in range(8):
                with T.block("B"):
                    vi = T.axis.spatial(8, i)
                    B[vi] = A[vi] * c[()]

        sch = Schedule(program)
        self.ready().apply(sch, sch.get_block("c"))
        assert self.blocks(sch.mod["main"]) == ["B"]
        assert_same_meaning(program, sch)


class TestApplyCustomRule(RuleContract):
    def rule(self) -> ScheduleRule:
        return ApplyCustomRule()

    def test_calls_the_registered_function(self) -> None:
        def schedule_c(sch: Schedule, block: BlockRV) -> list[Schedule]:
            sch.parallel(sch.get_loops(block)[0])
            return [sch]

        register_func("meta_schedule.cpu.test_rule", schedule_c, override=True)
        try:
            sch = Schedule(elementwise())
            sch.annotate(sch.get_block("C"), "schedule_rule", "test_rule")
            (found,) = self.ready().apply(sch, sch.get_block("C"))
            assert "T.parallel" in found.mod.script()
        finally:
            remove_global_func("meta_schedule.cpu.test_rule")

    def test_leaves_names_that_nobody_registered_to_other_rules(self) -> None:
        sch = Schedule(elementwise())
        sch.annotate(sch.get_block("C"), "schedule_rule", "nowhere")
        before = sch.mod.script()
        assert self.ready().apply(sch, sch.get_block("C")) == [sch]
        assert sch.mod.script() == before


class TestFunctionRule(RuleContract):
    def rule(self) -> ScheduleRule:
        def split_first(sch: Schedule, block: BlockRV) -> None:
            loop = sch.get_loops(block)[0]
            if not sch.get(loop).annotations:
                sch.split(loop, sch.sample_perfect_tile(loop, 2))

        return FunctionRule(split_first)

    def test_refuses_other_results(self) -> None:
        rule = FunctionRule(lambda sch, block: 3)
        sch = Schedule(elementwise())
        with pytest.raises(RuleError, match="must return a Schedule"):
            rule.apply(sch, sch.get_block("C"))


@T.prim_func
def dot_desc(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (8,), offset_factor=1)
    B = T.match_buffer(b, (8, 16), offset_factor=1)
    C = T.match_buffer(c, (16,), offset_factor=1)
    with T.block("root"):
        T.reads(C[0:16], A[0:8], B[0:8, 0:16])
        T.writes(C[0:16])
        for j, k in T.grid(16, 8):
            with T.block("dot"):
                vj, vk = T.axis.remap("SR", [j, k])
                C[vj] = C[vj] + A[vk] * B[vk, vj]


class TestMultiLevelTilingWithIntrin(RuleContract):
    def rule(self) -> ScheduleRule:
        TensorIntrin.register("test.dot8x16", dot_desc, dot_desc, override=True)
        return MultiLevelTilingWithIntrin("test.dot8x16")

    def test_the_tile_is_tensorized(self) -> None:
        func = matmul_bias()
        sch = Schedule(func, seed=0)
        tiled, plain = self.ready().apply(sch, sch.get_block("C"))
        assert plain is sch
        assert postprocess(tiled, TARGET)
        assert "match_buffer" in tiled.mod.script()
        assert_same_meaning(func, tiled)

    def test_names_what_is_not_registered(self) -> None:
        with pytest.raises(ScheduleError, match="test.nothing"):
            MultiLevelTilingWithIntrin("test.nothing")


def test_create_and_user_rules() -> None:
    assert {type(rule) for rule in ScheduleRule.create("llvm")} >= {
        AutoInline,
        RegisterTiling,
        ParallelizeVectorizeUnroll,
    }
    with pytest.raises(ScheduleError, match="'abacus'"):
        ScheduleRule.create("abacus")

    class Mine(PyScheduleRule):
        def _initialize_with_tune_context(self, context: object) -> None:
            self.seen = context

        def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
            return [sch]

    class Context:
        target = Target("cpu")

    rule, context = Mine(), Context()
    rule.initialize_with_tune_context(context)
    assert rule.seen is context and rule.target is context.target


class TestAutoBind:
    """Its schedules are interpreted: threads run one after the other."""

    def test_a_loop_whose_extent_depends_on_another_stays_inside(self) -> None:
        @T.prim_func
        def triangle(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
            for i in range(8):
                for j in range(i + 1):
                    with T.block("B"):
                        vi = T.axis.spatial(8, i)
                        vj = T.axis.spatial(8, j)
                        B[vi, vj] = A[vi, vj]

        rule = AutoBind(4, [2, 4])
        rule.initialize(Target("nvidia/nvidia-h100"))
        sch = Schedule(triangle, seed=0)
        assert rule.apply(sch, sch.get_block("B")) == [sch]
        tags = [sch.get(loop).thread_binding for loop in sch.get_loops("B")]
        assert [None if item is None else item.thread_tag for item in tags] == [
            "blockIdx.x",
            "threadIdx.x",
            None,
        ]
        assert_same_meaning(triangle, sch)

    @pytest.mark.parametrize("shape", [(3, 0), (0,)])
    def test_a_kernel_without_elements_has_a_thread(self, shape: tuple[int, ...]) -> None:
        a = te.placeholder(shape)
        func = te.create_prim_func([a, te.compute(shape, lambda *i: a(*i), name="B")])
        for extents in ([2, 4], []):
            sch = Schedule(func, seed=0)
            bind_block(sch, sch.get_block("B"), 4, 8, extents)
            assert [sch.get(loop).extent.value for loop in sch.get_loops("B")][-1] >= 1
            assert_same_meaning(func, sch)


def test_caches_are_not_made_of_what_lies_between_two_reads_of_a_tensor() -> None:
    a, k = te.placeholder((8, 8)), te.reduce_axis((0, 8), "k")
    func = te.create_prim_func(
        [a, te.compute((8, 8), lambda i, j: te.sum(a[i, k] * a[k, j], axis=k), name="B")]
    )
    rule = MultiLevelTiling(
        "SSSRRSRS", ["blockIdx.x", "vthread.x", "threadIdx.x"], reuse_read={"req": "must", "levels": [4]}
    )
    rule.initialize(Target("nvidia/nvidia-h100"))
    (sch,) = rule.apply(start := Schedule(func, seed=0), start.get_block("B"))
    assert DisallowDynamicLoop().apply(sch)
    assert_same_meaning(func, sch)


def test_a_block_without_variables_is_marked_by_nobody() -> None:
    @T.prim_func
    def opaque(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32")):
        for i, j in T.grid(8, 16):
            with T.block("B"):
                T.reads(A[i, j])
                T.writes(B[i, j])
                B[i, j] = A[i, j]

    for rule in (ParallelizeVectorizeUnroll(), RegisterTiling(), SpatialTiling(max_tile=2)):
        rule.initialize(TARGET)
        sch = Schedule(opaque, seed=0)
        for made in rule.apply(sch, sch.get_block("B")):
            assert_same_meaning(opaque, made)


def test_auto_bind_leaves_iterations_that_depend_on_each_other_to_one_thread() -> None:
    @T.prim_func
    def scattered(I: T.Buffer((8,), "int32"), A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
        for j, i in T.grid(4, 8):
            with T.block("B"):
                vj, vi = T.axis.remap("SS", [j, i])
                T.reads(I[vi], A[vi, vj])
                T.writes(B[0:8, vj])
                B[I[vi] % 8, vj] = A[vi, vj]

    rule = AutoBind(4, [1, 2, 4])
    rule.initialize(Target("nvidia/nvidia-h100"))
    (sketch,) = rule.apply(start := SketchSchedule(scattered, seed=0), start.get_block("B"))
    for row in Sketch(sketch).sample(8, np.random.default_rng(0)):
        sch = Sketch(sketch).materialize(scattered, row)
        assert [sch.get(loop).thread_binding is None for loop in sch.get_loops("B")] == [False, False, True]


@pytest.mark.parametrize(("extents", "shared"), [((1, 1), False), ((1, 3), True), ((2, 2), True)])
def test_threads_share_reductions_of_more_than_one_element(extents: tuple[int, int], shared: bool) -> None:
    a = te.placeholder((8, *extents))
    j, k = te.reduce_axis((0, extents[0]), "j"), te.reduce_axis((0, extents[1]), "k")
    func = te.create_prim_func([a, te.compute((8,), lambda i: te.sum(a[i, j, k], axis=[j, k]), name="B")])
    rule = CrossThreadReduction([4])
    rule.initialize(Target("nvidia/nvidia-h100"))
    start = Schedule(func, seed=0)
    found = rule.apply(start, start.get_block("B"))
    assert len(found) == 1 + shared
    for sch in found:
        assert_same_meaning(func, sch)
