"""No kernel is left without a program: odd ones are tuned, and where all trials fail what needs no search is kept."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from database import Database, MemoryDatabase, has_static_arguments
from database.meta_schedule_apply_database import ApplyReport, MetaScheduleApplyDatabase, MissingRecordError
from ir import IRModule, structural_equal
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.interpreter import Interpreter
from runners import ReplayBuilder, ReplayRunner, ResultKind
from schedules import Schedule
from schedules.dlight import default_schedule
from tests.programs.expressions import matmul
from tests.programs.irregular import IRREGULAR
from tests.schedules.checks import main_of
from tuner import MeasureCallback, tune_tir
from tuner.compile import default_of_builds
from tuner.progress import PlainProgress

TARGET = Target("cpu")


def _tuned(func: PrimFunc, answer: Callable[[Any], Any], **options: Any) -> Database:
    return tune_tir(
        func,
        TARGET,
        None,
        3,
        builder=ReplayBuilder(),
        runner=ReplayRunner(answer),
        cost_model="prior",
        **options,
    )


def _only(func: PrimFunc) -> Callable[[Any], Any]:
    """Times that call every program wrong but the one that was given."""
    return lambda mod: 1e-3 if _is_the_same(mod, func) else ResultKind.WRONG_RESULT


def _is_the_same(mod: IRModule, func: PrimFunc) -> bool:
    """Whether a function has the loops that were given."""
    return structural_equal(main_of(mod).replace(attrs=None), func.replace(attrs=None))


def _build(database: Database, func: PrimFunc) -> tuple[IRModule, ApplyReport]:
    report = ApplyReport()
    with TARGET:
        mod = MetaScheduleApplyDatabase(database=database, report=report, fallback=default_of_builds)(
            IRModule({"main": func})
        )
    return mod, report


@pytest.mark.parametrize(
    "name", [name for name, item in IRREGULAR.items() if has_static_arguments(item.func())]
)
def test_every_program_can_be_tuned(name: str) -> None:
    """Whatever its loops, a search ends with a record of a program that a build applies."""
    func = IRREGULAR[name].func()
    database = _tuned(func, lambda _: 1e-3)
    assert any(record.is_valid() for record in database.get_all_tuning_records())
    _, report = _build(database, func)
    assert [kernel.source for kernel in report.kernels] == ["record"]


def test_a_kernel_with_an_extent_that_is_data_is_measured_and_right() -> None:
    program = IRREGULAR["data extent of an update"]
    database = tune_tir(program.func(), TARGET, None, 2, cost_model="random")
    records = database.get_all_tuning_records()
    assert any(record.is_valid() and record.verified for record in records)
    mod, _ = _build(database, program.func())
    arrays, expected = program.arrays(), program.arrays()
    Interpreter(mod).call(main_of(mod), arrays)
    expected[2] = np.array([expected[0][:count].sum() for count in expected[1]], "float32")
    np.testing.assert_array_equal(arrays[2], expected[2])


def test_where_all_trials_are_wrong_the_kernel_is_kept_as_it_was_given() -> None:
    """The record is the fastest that the check let pass; a build takes it and no unchecked default schedule."""
    func, shown = matmul(16), io.StringIO()
    display = PlainProgress(3, None, Console(file=shown, width=200))
    database = _tuned(func, _only(func), measure_callbacks=[display])
    valid = [record for record in database.get_all_tuning_records() if record.is_valid()]
    assert len(database) == 4 and len(valid) == 1 and valid[0].verified
    mod, report = _build(database, func)
    assert _is_the_same(mod, func)
    assert [kernel.source for kernel in report.kernels] == ["record"]
    assert (
        "all 3 trials failed: wrong_result: recorded as wrong_result; kept a program that needs no search"
        in (shown.getvalue())
    )


def test_what_is_kept_is_no_trial_of_the_next_session() -> None:
    func = matmul(16)
    database = _tuned(func, _only(func))
    _tuned(func, _only(func), database=database)
    assert len(database) == 4


def _default(func: PrimFunc) -> PrimFunc:
    return main_of(default_of_builds(IRModule({"main": func}), TARGET).mod)


def test_where_nothing_is_right_a_build_leaves_the_kernel_as_it_is_and_says_so() -> None:
    """The default schedule is among those that were wrong."""
    func = matmul(16)
    database = _tuned(func, lambda _: ResultKind.WRONG_RESULT)
    mod, report = _build(database, func)
    assert _is_the_same(mod, func)
    assert [kernel.source for kernel in report.kernels] == ["unscheduled"]
    assert report.kernels[0].reason == (
        "no candidate ran and was right: wrong_result: recorded as wrong_result; the default schedule was measured, too: wrong_result:"
        " recorded as wrong_result"
    )


def test_what_fails_as_a_last_resort_is_known_to_builds_and_not_tried_again() -> None:
    """A search that does not begin with the default schedule tries it when all else has failed."""
    func, tried = matmul(16), []

    def answer(mod: Any) -> ResultKind:
        tried.append(mod)
        return ResultKind.WRONG_RESULT

    database = _tuned(func, answer, strategy="replay-trace")
    assert len(tried) == len(database) == 5, (
        "three trials, the default schedule, and the kernel as it was given"
    )
    mod, report = _build(database, func)
    assert _is_the_same(mod, func) and "the default schedule was measured, too" in report.kernels[0].reason
    _tuned(func, answer, strategy="replay-trace", database=database)
    assert len(tried) == 5


@pytest.mark.parametrize(
    ("kind", "source"), [(ResultKind.RUN_TIMEOUT, "default"), (ResultKind.CRASH, "unscheduled")]
)
def test_a_default_schedule_that_failed_is_taken_unless_it_is_no_program_to_run(
    kind: ResultKind, source: str
) -> None:
    func = matmul(16)
    _, report = _build(_tuned(func, lambda _: kind), func)
    assert [kernel.source for kernel in report.kernels] == [source]


class _Stop(MeasureCallback):
    def trial(self, task_scheduler: object, task: object, result: object) -> None:
        raise KeyboardInterrupt


def test_after_one_failed_trial_and_ctrl_c_a_build_takes_the_default_schedule() -> None:
    func, database = matmul(16), MemoryDatabase()
    with pytest.raises(KeyboardInterrupt):
        _tuned(
            func,
            lambda _: ResultKind.CRASH,
            database=database,
            strategy="replay-trace",
            measure_callbacks=[_Stop()],
        )
    assert [record.failure_kind for record in database.get_all_tuning_records()] == ["crash"]
    mod, report = _build(database, func)
    assert [(kernel.source, kernel.reason) for kernel in report.kernels] == [
        ("default", "no candidate ran and was right: crash: recorded as crash")
    ]
    assert _is_the_same(mod, _default(func)) and not _is_the_same(mod, func)


def test_a_strict_build_complains_before_anything_is_scheduled() -> None:
    scheduled: list[IRModule] = []

    def fallback(mod: IRModule, target: Target) -> Schedule:
        scheduled.append(mod)
        return default_schedule(mod, target)

    known, unknown = matmul(8), matmul(16)
    database = _tuned(known, lambda _: 1e-3)
    mod = IRModule({"known": known, "unknown": unknown, "other": matmul(4)})
    with TARGET, pytest.raises(MissingRecordError, match="refuses: unknown: .*; other: .*; tune them first"):
        MetaScheduleApplyDatabase(database=database, strict=True, fallback=fallback)(mod)
    assert not scheduled
