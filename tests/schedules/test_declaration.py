"""The declaration of primitives: what a class shows of them, how calls are bound, and what is declared elsewhere."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from schedules import InstructionKind, LoopRV, Schedule, ScheduleError, Trace, TraceError
from schedules.argument import Argument, Loop
from schedules.declaration import primitive
from tests.programs import kernels

from .checks import assert_replays

program = kernels.elementwise(16, 16)


@primitive("AnnotateLoopOfATest", loop=Loop(), key=Argument(), value=Argument())
def annotate_loop_of_a_test(sch: Schedule, loop: LoopRV, key: str = "mark", *, value: int = 1) -> None:
    """A primitive outside of every family: its first parameter is the schedule."""
    node = sch._loop(loop)
    node.annotations = {**node.annotations, key: value}
    node.touch()


DECLARED = [
    kind for kind in map(InstructionKind.get, InstructionKind.kinds.names()) if "Test" not in kind.name
]


def test_there_are_all_the_primitives() -> None:
    assert len(DECLARED) == 65


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: kind.name)
def test_a_primitive_is_a_method_with_signature_and_documentation(kind: InstructionKind) -> None:
    method = vars(next(cls for cls in Schedule.__mro__ if kind.method in vars(cls)))[kind.method]
    assert method.__doc__ and method.__name__ == kind.method
    _, *parameters = inspect.signature(method).parameters.values()
    recorded = [*kind.arguments, *([kind.decision] if kind.decision else [])]
    assert [item.name for item in parameters] == recorded
    assert all(item.annotation is not item.empty for item in parameters)
    # Only what samples or finds may be dropped from a trace.
    assert kind.is_pure == kind.name.startswith(("Get", "Sample"))
    assert kind.takes_decision == kind.name.startswith("Sample")


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((), {}, "missing a required argument: 'loop'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"loop": 1}, "multiple values for argument 'loop'"),
        ((1,), {"lop": 1}, "unexpected keyword argument 'lop'"),
        ((), {"lop": 1, "key": "a", "value": 1}, "missing a required argument: 'loop'"),
        ((1, "a"), {"value": 1, "other": 2}, "unexpected keyword argument 'other'"),
    ],
)
def test_a_wrong_call_is_refused_as_python_does(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"annotate_loop_of_a_test: .*{message}"):
        annotate_loop_of_a_test(Schedule(program), *arguments, **options)


@pytest.mark.parametrize("options", [{"loops_to_fuse": []}, {"preserve": True}])
def test_loops_in_a_row_have_no_name(options: Any) -> None:
    sch = Schedule(program)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        sch.fuse(*sch.get_loops("B"), **options)


def test_what_is_declared_elsewhere_is_a_method_of_every_schedule() -> None:
    sch = Schedule(program)
    first, second = sch.get_loops("B")
    annotate_loop_of_a_test(sch, first, value=3)
    sch.annotate_loop_of_a_test(second, key="other")  # type: ignore[attr-defined]
    assert [dict(sch.get(loop).annotations) for loop in (first, second)] == [{"mark": 3}, {"other": 1}]
    assert sch.trace is not None
    assert sch.trace.as_python()[-2:] == [
        'sch.annotate_loop_of_a_test(loop=l1, key="mark", value=3)',
        'sch.annotate_loop_of_a_test(loop=l2, key="other", value=1)',
    ]
    assert_replays(sch, program)
    with pytest.raises(AttributeError, match="'Schedule' object has no attribute 'annotate_lop'"):
        sch.annotate_lop(first)  # type: ignore[attr-defined]


def test_a_trace_without_later_arguments_takes_their_defaults() -> None:
    steps = [
        ["GetBlock", [], ["B", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1", "l2"]],
        ["Split", ["l1", 4, 4], [], ["l3", "l4"]],
        ["AnnotateLoopOfATest", ["l3"], [], []],
    ]
    sch = Schedule(program)
    Trace.apply_json_to_schedule([steps, []], sch)
    assert [dict(sch.get(loop).annotations) for loop in sch.get_loops("B")] == [{"mark": 1}, {}, {}]


def test_a_declaration_names_the_parameters_of_its_method() -> None:
    with pytest.raises(TypeError, match=r"primitive Wrong: wrong takes \['loop'\], declared are \['lop'\]"):

        @primitive("Wrong", lop=Loop())
        def wrong(sch: Schedule, loop: LoopRV) -> None:
            """Never registered."""

    with pytest.raises(TraceError, match="unknown instruction 'Wrong'"):
        InstructionKind.get("Wrong")
    with pytest.raises(TraceError, match="instruction 'Split' is registered already"):

        @primitive("Split", loop=Loop())
        def split_again(sch: Schedule, loop: LoopRV) -> None:
            """Refused."""


def test_errors_name_the_step_and_quote_the_program_once() -> None:
    sch = Schedule(program)
    loop = sch.get_loops("B")[0]
    with pytest.raises(ScheduleError, match="^compute_inline: expected a block, got loop 'i'"):
        sch.compute_inline(loop)  # type: ignore[arg-type]
    with pytest.raises(ScheduleError, match="^set_scope: block 'B' accesses .'B'., not 'X'") as caught:
        sch.set_scope("B", "X", "local")
    assert len(caught.value.__notes__) == 1
    # A name is looked up by a step of its own, whose error it is.
    with pytest.raises(ScheduleError, match="^get_block: no block named 'X'") as caught:
        sch.compute_inline("X")
    assert len(caught.value.__notes__) == 1
    # Behind a failed step the schedule is as it was.
    with pytest.raises(ScheduleError, match="^get: expected a loop"):
        sch._loop(sch.get_block("B"))


def test_checks_cannot_be_switched_off() -> None:
    with pytest.raises(ScheduleError, match="enable_check: legality is always checked"):
        Schedule(program, enable_check=False)
