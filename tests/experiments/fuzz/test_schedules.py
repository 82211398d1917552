"""Random schedules: what they are drawn from, that bugs planted in primitives are found, and that failures become small."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from experiments.fuzz import command, schedules
from experiments.fuzz.children import judged_apart
from experiments.fuzz.kernels_te import FAMILIES, Sizes
from experiments.fuzz.reductions import ReductionProgram, scheduled_reduction
from experiments.fuzz.schedules import Program, arguments_for, judge_schedule, judge_trace, scheduled_kernel
from experiments.fuzz.schedules_reduce import reduced_schedule, without
from experiments.fuzz.schedules_steps import RefusalError, WiderStep
from ir import structural_equal
from ir.script import from_source
from schedules import Schedule, ScheduleError
from schedules.primitive import for_kind, loops, reduction

OVERLAPPING = """@T.prim_func
def main(A: T.Buffer((8, 6)), B: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    T.func_attr({"tir.noalias": True})
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi // 2, vj] = A[vi, vj]
    for i, j in T.grid(8, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
"""


def program(text: str) -> Program:
    func = from_source(text)
    arrays = [np.arange(48, dtype="float32").reshape(8, 6) for _ in func.params]
    return Program(func, arrays)


def trace_of(program: Program, *steps: Any) -> list[Any]:
    sch = Schedule(program.func)
    for step in steps:
        step(sch)
    assert sch.trace is not None
    return json.loads(json.dumps(sch.trace.as_json()))


# -- what is drawn -----------------------------------------------------------------
def test_about_half_of_the_steps_are_legal() -> None:
    counts: Counter[tuple[str, bool]] = Counter()
    for seed in range(60):
        counts += scheduled_kernel(seed).counts
    legal = sum(count for (_, is_legal), count in counts.items() if is_legal)
    assert 0.35 < legal / sum(counts.values()) < 0.75
    assert len({name for name, is_legal in counts if is_legal}) >= 30


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family_makes_kernels(name: str) -> None:
    for seed in range(3):
        sizes = Sizes(random.Random(seed), 60)
        assert FAMILIES[name](sizes) is not None and len(sizes.inputs) == len(sizes.bounds) > 0


@pytest.mark.parametrize("kind", ["schedules", "reductions"])
def test_some_schedules_pass(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([kind, "--seeds", "100:110"]) == 0


def test_random_reductions_are_bound_to_all_sorts_of_values() -> None:
    texts = [ReductionProgram(random.Random(seed)).text() for seed in range(150)]
    for part in ("T.axis.reduce", "T.where", "if l", "range(n)", "T.max(l", " // ", " % ", "range(0)"):
        assert any(part in text for text in texts), part


def test_steps_are_about_reductions() -> None:
    counts: Counter[tuple[str, bool]] = Counter()
    for seed in range(80):
        counts += scheduled_reduction(seed).counts
    legal = sum(count for (_, is_legal), count in counts.items() if is_legal)
    assert 0.35 < legal / sum(counts.values()) < 0.75
    about = {True: 0, False: 0}
    for name in ("rfactor", "split and rfactor", "decompose_reduction"):
        for is_legal in about:
            about[is_legal] += counts[name, is_legal]
    assert min(about.values()) >= 5 and sum(about.values()) > sum(counts.values()) / 20


def test_most_random_reductions_are_plain() -> None:
    texts = [ReductionProgram(random.Random(seed)).text() for seed in range(100)]
    plain = [
        text for text in texts if not any(part in text for part in ("T.where", "T.max(l", "if l", " % 2"))
    ]
    assert 50 < len(plain) < 90


def selections() -> Iterator[Program]:
    """Random programs that find the place of an extreme, with NaN among their arguments."""
    for seed in range(1500):
        drawn = ReductionProgram(random.Random(seed))
        text = drawn.text()
        if "T.Select" not in text or drawn.dtype != "float32" or drawn.is_symbolic:
            continue
        made = Program(from_source(text), arguments_for(from_source(text), seed))
        for array in made.arguments:
            if array.dtype == "float32" and array.size > 1:
                array.flat[::3] = np.nan
        yield made


def test_a_selection_orders_nan_too() -> None:
    """An argmax that only compares would find whatever comes last of numbers and NaN: no order may change what is found."""
    kinds: Counter[str] = Counter()
    for made in selections():
        sch = Schedule(made.func)
        (block,) = [
            block
            for block in sch.get_child_blocks(sch.get_block("root"))
            if "T.Select" in str(sch.get(block))
        ]
        try:
            sch.rfactor(sch.get_loops(block)[-1], 0)
        except ScheduleError:
            continue
        kinds[judge_trace(made, json.loads(json.dumps(sch.trace.as_json())), []).kind] += 1
    assert set(kinds) == {"ok"} and kinds["ok"] >= 5


# -- bugs planted in primitives ----------------------------------------------------
def test_a_loop_made_parallel_without_proof_is_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    case = program(OVERLAPPING)
    with pytest.raises(ScheduleError):
        trace_of(case, lambda sch: sch.parallel(sch.get_loops("B")[0]))
    monkeypatch.setattr(for_kind, "why_iterations_conflict", lambda *given, **named: None)
    trace = trace_of(case, lambda sch: sch.parallel(sch.get_loops("B")[0]))
    assert judge_trace(case, trace, []).kind == "the schedule has a race"


def found(judge: Any, seeds: range) -> set[str]:
    """The kinds of failures among some seeds, judged in other processes: wrong native code may write into whatever memory there is."""
    return {verdict.kind for _, verdict in judged_apart(seeds, judge) if verdict.failed}


def test_a_forgotten_predicate_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = loops._infer_factors
    monkeypatch.setattr(loops, "_infer_factors", lambda *given: (right(*given)[0], True))
    assert found(lambda seed: judge_schedule(seed, []), range(12)) & {
        "the schedule is not defined",
        "the schedule is wrong",
    }


def test_schedules_that_store_too_often_for_the_interpreter_run_as_native_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(for_kind, "why_iterations_conflict", lambda *given, **named: None)
    case = program(OVERLAPPING)
    trace = trace_of(case, lambda sch: sch.parallel(sch.get_loops("B")[0]))
    for most, kind in ((96, "the schedule has a race"), (95, "ok")):
        monkeypatch.setattr(schedules, "_MOST_STORES", most)
        assert judge_trace(case, trace, []).kind == kind
    monkeypatch.setattr(schedules, "_MOST_STORES", 0)
    right = loops._infer_factors
    monkeypatch.setattr(loops, "_infer_factors", lambda *given: (right(*given)[0], True))
    assert found(lambda seed: judge_schedule(seed, ["x86-64"]), range(12)) & {
        "wrong",
        "wrote beside an array",
    }


def test_an_init_that_is_taken_for_the_first_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "require_begun_once", lambda *given: None)
    wrong = found(lambda seed: judge_schedule(seed, [], scheduled_reduction), range(60))
    assert "the schedule is wrong" in wrong


def test_a_refusal_that_leaves_something_behind_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = for_kind.require_loop_can_run_in_any_order

    def late(loop: Any, primitive: str, allow_reduction: bool = False) -> None:
        loop.annotations = {**loop.annotations, "left": 1}
        loop.touch()
        right(loop, primitive, allow_reduction)
        loop.annotations = {}

    monkeypatch.setattr(for_kind, "require_loop_can_run_in_any_order", late)
    with pytest.raises(RefusalError, match="refused, and changed the program"):
        for seed in range(100):
            scheduled_kernel(seed)


class Tiled(WiderStep):
    def actions(self) -> dict[str, Any]:
        return dict.fromkeys(super().actions(), self.tiled)


@pytest.mark.parametrize("refused_at", ["reorder", "split"])
def test_a_step_of_several_primitives_keeps_those_before_the_one_that_is_refused(refused_at: str) -> None:
    axis = "T.axis.scan" if refused_at == "reorder" else "T.axis.spatial"
    sch = Schedule(
        from_source(f"""
@T.prim_func
def main(A: T.Buffer((8, 6))):
    for i, j in T.grid(8, 6):
        with T.block("A"):
            vi, vj = T.axis.spatial(8, i), {axis}(6, j)
            A[vi, vj] = T.float32(1)
"""),
        error_render_level="none",
    )
    if refused_at == "split":
        sch.annotate(sch.get_loops("A")[1], "note", 1)
    before = sch.mod
    Tiled(sch, random.Random(0)).run()
    assert len(sch.get_loops("A")) == {"reorder": 4, "split": 3}[refused_at]
    assert not structural_equal(sch.mod, before)
    Tiled(sch, random.Random(0)).run_counted(Counter())


# -- the reducer -------------------------------------------------------------------
def test_a_failing_schedule_becomes_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(for_kind, "why_iterations_conflict", lambda *given, **named: None)
    case = program(OVERLAPPING)
    trace = trace_of(
        case,
        lambda sch: sch.split(sch.get_loops("C")[0], [2, 4]),
        lambda sch: sch.vectorize(sch.get_loops("C")[-1]),
        lambda sch: sch.cache_read("C", 0, "global"),
        lambda sch: sch.parallel(sch.get_loops("B")[0]),
        lambda sch: sch.unroll(sch.get_loops("C")[0]),
    )

    def fails(text: str, smaller: list[Any]) -> bool:
        try:
            func = from_source(text)
            arrays = [
                np.arange(64, dtype="float32")[: int(np.prod(shape))].reshape(shape) for shape in shapes(func)
            ]
            return judge_trace(Program(func, arrays), smaller, []).kind == "the schedule has a race"
        except Exception:
            return False

    text, small = reduced_schedule(OVERLAPPING, trace, fails, seconds=30)
    assert fails(text, small)
    assert [item[0] for item in small[0]] == ["GetBlock", "GetLoops", "Parallel"]
    assert sum(int(np.prod(shape)) for shape in shapes(from_source(text))) < 30


def shapes(func: Any) -> list[list[int]]:
    return [[int(extent) for extent in func.buffer_map[param].shape] for param in func.params]


def test_what_uses_a_dropped_result_is_dropped_too() -> None:
    trace = trace_of(program(OVERLAPPING), lambda sch: sch.split(sch.get_loops("C")[0], [2, 4]))
    assert without(trace, 0, 1) == [[], []]
    assert [item[0] for item in without(trace, 2, 1)[0]] == ["GetBlock", "GetLoops"]
