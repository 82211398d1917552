"""Traces: JSON, replay, simplification, decisions, errors."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cost_models.prior import estimate_seconds
from ir import IRModule, assert_structural_equal
from ir.target import Target
from schedules import Instruction, Schedule, Trace, TraceError
from schedules.population import Sketch, SketchSchedule, TileDecision
from schedules.space import PostOrderApply
from tests.programs import kernels
from tests.programs.expressions import matmul

from .checks import assert_replays

program = kernels.elementwise(16, 16)


def scheduled() -> Schedule:
    sch = Schedule(program, seed=0)
    block = sch.get_block("B")
    i, j = sch.get_loops(block)
    sch.split(i, sch.sample_perfect_tile(i, 2, decision=[4, 4]))
    sch.annotate(j, "unroll", sch.sample_categorical([0, 16], [0.5, 0.5], decision=1))
    sch.enter_postproc()
    sch.vectorize(sch.get_loops(block)[-1])
    return sch


def test_json_and_replay() -> None:
    assert_replays(scheduled(), program)


def test_decisions_can_be_replaced() -> None:
    trace = scheduled().trace
    assert trace is not None
    tile = next(inst for inst in trace.insts if inst.kind.name == "SamplePerfectTile")
    assert trace.get_decision(tile) == [4, 4]
    other = trace.with_decision(tile, [2, 8], remove_postproc=True)
    sch = Schedule(program)
    other.apply_to_schedule(sch, remove_postproc=False)
    assert [sch.get(loop).extent.value for loop in sch.get_loops("B")] == [2, 8, 16]
    assert "vectorized" not in sch.mod.script()
    assert trace.get_decision(tile) == [4, 4]


def test_decision_provider() -> None:
    trace = scheduled().trace
    assert trace is not None
    sch = Schedule(program)

    def provide(inst: Instruction, inputs: object, attrs: object, decision: object) -> object:
        return [8, 2] if inst.kind.name == "SamplePerfectTile" else decision

    trace.apply_to_schedule(sch, True, provide)
    assert [sch.get(loop).extent.value for loop in sch.get_loops("B")][:2] == [8, 2]


def test_simplified_drops_what_nobody_uses() -> None:
    sch = Schedule(program)
    sch.get_consumers("B")
    sch.sample_categorical([1, 2], [0.5, 0.5])
    sch.parallel(sch.get_loops("B")[0])
    assert sch.trace is not None
    assert [inst.kind.name for inst in sch.trace.simplified(False).insts] == [
        "GetBlock",
        "GetLoops",
        "Parallel",
    ]


def test_python_form_and_pop() -> None:
    trace = scheduled().trace
    assert trace is not None
    text = str(trace)
    assert text.startswith("def apply_trace(sch: Schedule) -> None:\n")
    assert "sch.sample_perfect_tile(" in text and "decision=[4, 4]" in text and "sch.enter_postproc()" in text
    steps = len(trace.insts)
    last = trace.pop()
    assert last is not None and last.kind.name == "Vectorize" and len(trace.insts) == steps - 1
    assert Trace().pop() is None


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (None, "not a trace"),
        ([], "not a trace"),
        ([[["Nothing", [], [], []]], []], "unknown instruction 'Nothing'; there are .*, Split, "),
        ([[["Parallel", ["l0"], [], []]], []], "'l0' is used before"),
        ([[["GetBlock", [], ["B", "main", 3], ["b0"]]], []], "GetBlock takes name, func_name; .*'main', 3"),
        ([[["GetBlock", ["None"], ["B", "main"], ["b0"]]], []], r"takes name, func_name; .*inputs \[None\]"),
    ],
)
def test_broken_traces_are_named(broken: object, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        Trace.apply_json_to_schedule(broken, Schedule(program))


def test_a_trace_of_another_program_is_refused() -> None:
    other = kernels.copy(16)

    trace = scheduled().trace
    assert trace is not None
    with pytest.raises(TraceError, match="another program"):
        trace.apply_to_schedule(Schedule(other), False)


def test_the_json_form_counts_random_variables_together_and_writes_values_as_they_are() -> None:
    sch = Schedule(program)
    block = sch.get_block("B")
    i, j = sch.get_loops(block)
    sch.split(i, [None, 2])
    sch.annotate(j, "facts", {"names": ["x"], "n": 1})
    sch.cache_read(block, 0, "shared", consumer_blocks=[block])
    assert sch.trace is not None
    instructions, decisions = sch.trace.as_json()
    assert instructions == [
        ["GetBlock", [], ["B", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1", "l2"]],
        ["Split", ["l1", "None", 2], [True, False], ["l3", "l4"]],
        ["Annotate", ["l2", {"names": ["x"], "n": 1}], ["facts"], []],
        ["CacheRead", ["b0", ["b0"]], [0, "shared"], ["b5"]],
    ]
    assert decisions == []


def test_traces_that_list_consumers_one_by_one_are_read() -> None:
    trace = [[["GetBlock", [], ["B", "main"], ["b0"]], ["CacheRead", ["b0", "b0"], [0, "local"], ["b1"]]], []]
    sch = Schedule(program)
    Trace.apply_json_to_schedule(trace, sch)
    assert sch.get(sch.get_block("A_local")).reads[0].buffer.name == "A"


def test_index_maps_print_with_the_names_of_their_variables() -> None:
    sch = Schedule(program)
    sch.transform_layout("B", ("write", 0), lambda row, column: (column, row))
    assert sch.trace is not None
    assert "index_map=lambda row, column: (column, row,)" in sch.trace.as_python()[-1]


def test_layouts_of_a_sketch_keep_their_sampled_integers_in_json() -> None:
    context = Target("llvm -mcpu=znver3 -num-cores 1")
    mod = IRModule({"main": matmul(48)})
    packed = [
        sketch
        for sketch in PostOrderApply().generate_sketches(mod, context)
        if any(inst.kind.name == "TransformLayout" for inst in sketch.trace.insts)
    ]
    assert packed
    for sketch in packed:
        text = json.dumps(sketch.trace.as_json())
        again = Trace.from_json(json.loads(text))
        assert json.dumps(again.as_json()) == text
        replayed = SketchSchedule(mod, seed=0)
        again.apply_to_schedule(replayed, remove_postproc=True)
        rebuilt = Sketch(replayed)
        for own, other in zip(rebuilt.decisions, sketch.decisions, strict=True):
            if isinstance(own, TileDecision) and isinstance(other, TileDecision):
                own.table = other.table  # rules restrict tables, which no trace says
        rows = sketch.sample(8, np.random.default_rng(0))
        for row in rows:
            assert_structural_equal(sketch.materialize(mod, row).mod, rebuilt.materialize(mod, row).mod)
        np.testing.assert_array_equal(
            estimate_seconds(sketch.skeleton(rows), context),
            estimate_seconds(rebuilt.skeleton(rows), context),
        )
