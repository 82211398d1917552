"""Every schedule rule through the contract, and what is special about each."""

from __future__ import annotations

import pytest

from ir import register_func
from ir.registry import remove_global_func
from ir.script import tir as T
from ir.target import Target
from ir.tir import TensorIntrin
from schedules import BlockRV, Schedule, ScheduleError
from schedules.postproc import postprocess
from schedules.rule import (
    AddRFactor,
    ApplyCustomRule,
    AutoInline,
    FunctionRule,
    InlineConstantScalars,
    MultiLevelTilingWithIntrin,
    ParallelizeVectorizeUnroll,
    PyScheduleRule,
    RandomComputeLocation,
    RegisterTiling,
    ScheduleRule,
)

from ..checks import assert_same_meaning
from ..rule_contract import TARGET, RuleContract, elementwise, matmul_bias, row_sum


class TestAutoInline(RuleContract):
    def rule(self) -> ScheduleRule:
        return AutoInline()

    def test_inlines_into_the_consumer(self) -> None:
        sch = Schedule(elementwise())
        self.ready().apply(sch, sch.get_block("B"))
        assert self.blocks(sch.mod["main"]) == ["C"]


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


class TestRegisterTiling(RuleContract):
    def rule(self) -> ScheduleRule:
        return RegisterTiling()

    def test_refuses_a_structure_without_tiles(self) -> None:
        with pytest.raises(ScheduleError, match="structure"):
            RegisterTiling(structure="SSRX")


class TestRandomComputeLocation(RuleContract):
    def rule(self) -> ScheduleRule:
        return RandomComputeLocation()


class TestParallelizeVectorizeUnroll(RuleContract):
    def rule(self) -> ScheduleRule:
        return ParallelizeVectorizeUnroll()


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
        with pytest.raises(ScheduleError, match="must return a Schedule"):
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
        tiled, plain = self.ready().apply(sch, sch.get_block("Y"))
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
