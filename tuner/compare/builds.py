"""A tuned build beside the default and the unscheduled build and ONNX Runtime: how fast it is, and whether it computes the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import runners
from database import MemoryDatabase
from database.meta_schedule_apply_database import ApplyReport
from ir.error import IRError
from ir.time_interval import milliseconds

from ..compile import compile_relax
from ..model import exported
from .accuracy import Accuracy, compare_outputs, formats_of, relative_error, tolerance_for
from .contestants import finished_call, onnx_contestant
from .float64_reference import float64_outputs
from .reference import flatten, require_onnxruntime
from .survival import require_survives, runs_in_process
from .turns import Contestant, take_turns

_UNSCHEDULED_RATIO, _UNSCHEDULED_SECONDS = 150, 60.0
"""How many times longer than default schedules loops without schedules take in large layers, and how long they may take at all."""
_DEFAULT, _UNSCHEDULED = "the default build", "the unscheduled build"


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare_builds` found: lines to show, and how close the outputs are to ONNX Runtime's where it ran."""

    lines: list[str]
    accuracy: Accuracy | None
    times: dict[str, float]
    """Seconds per run, the median, of the tuned build and of each it was compared with."""

    @property
    def is_accurate(self) -> bool:
        """Whether the outputs agree with ONNX Runtime's, as far as is known."""
        return self.accuracy is None or self.accuracy.holds


def compare_builds(model: Any, target: Any, store: Any, tolerance: float | None = None) -> Comparison:
    """Build with the records of ``store``, with default schedules, and without schedules; compare them, and ONNX Runtime if it is there.

    Args:
        tolerance: relative error up to which outputs agree with ONNX Runtime's; None takes that of the model's narrowest numbers.
    """
    report = ApplyReport()
    arrays = list(model.inputs.values())
    entries: list[Contestant] = []
    outputs: dict[str, list[np.ndarray]] = {}
    first_calls: dict[str, float] = {}

    def enter(name: str, call: Callable[[], Any]) -> None:
        begin = time.perf_counter()
        outputs[name] = flatten(call())
        first_calls[name] = time.perf_counter() - begin
        entries.append(Contestant(name, call))

    def enter_build(name: str, database: Any, **options: Any) -> None:
        executable = compile_relax(model.mod, target, model.params, database, **options)
        machine = runners.VirtualMachine(executable)
        call = finished_call(machine, arrays)
        if not entries and runs_in_process(machine):
            require_survives(call)
        enter(name, call)
        formats.update(formats_of(executable, outputs[name]))

    notes: list[str] = []
    accuracy: Accuracy | None = None
    formats: set[str] = set()
    enter_build("tuned", store, report=report)
    without = MemoryDatabase()  # whatever database is current
    enter_build(_DEFAULT, without)
    other = _DEFAULT
    if target.is_gpu:
        notes.append(f"not compared with {_UNSCHEDULED}, which a GPU does not run: it has no threads")
    elif first_calls[_DEFAULT] * _UNSCHEDULED_RATIO > _UNSCHEDULED_SECONDS:
        notes.append(f"not compared with {_UNSCHEDULED}, which would run for minutes")
    else:
        other = _UNSCHEDULED
        enter_build(_UNSCHEDULED, without, scheduled=False)
    try:
        require_onnxruntime()
        onnx = model.onnx_path if model.onnx_path is not None else exported(model)
        contestant = onnx_contestant(onnx, arrays, 0)
        enter(contestant.name, contestant.call)
        if target.is_gpu:
            notes.append("ONNX Runtime ran on the processor, the builds on the device")
    except IRError as problem:  # the comparison is an extra: what it lacks is said, and the rest goes on
        notes.append(f"not compared with ONNX Runtime: {problem}")
    if "onnxruntime" in outputs:
        accuracy = compare_outputs(
            outputs["tuned"],
            outputs["onnxruntime"],
            tolerance_for(formats) if tolerance is None else tolerance,
            lambda: float64_outputs(onnx, arrays),
        )
        notes.append(
            f"outputs of the tuned build and ONNX Runtime's differ by {accuracy.error:.1e} (relative; limit {accuracy.tolerance:g})"
        )
        if accuracy.in_float64 and accuracy.holds:
            notes.append("both are as close to a float64 run of the model")
    times = take_turns(entries, 7, first_calls)
    base = times["tuned"].median
    lines = [str(report), f"tuned build: {milliseconds(base)} ms per run"]
    for entry in entries[1:]:
        lines.append(
            f"  {times[entry.name].median / base:6.2f}x the speed of {entry.name} ({milliseconds(times[entry.name].median)} ms)"
        )
    difference = _largest_error(outputs["tuned"], outputs[other])
    lines.append(f"outputs of the tuned build and {other} differ by {difference:.1e} (relative)")
    return Comparison(lines + notes, accuracy, {entry.name: times[entry.name].median for entry in entries})


def _largest_error(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    return max((relative_error(a, b) for a, b in zip(found, wanted, strict=True)), default=0.0)
