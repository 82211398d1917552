"""A tuned build beside untuned ones and ONNX Runtime: how much faster it is, and whether it computes the same."""

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

from ..compile import compile_relax
from ..model import exported
from .contestants import onnx_contestant
from .reference import TOLERANCE, flatten, relative_error, require_onnxruntime
from .survival import require_survives
from .turns import Contestant, take_turns

_PLAIN_RATIO, _PLAIN_SECONDS = 150, 60.0
"""How many times longer than default schedules plain loops of large layers take, and how long they may take at all."""


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare_builds` found: lines to show, and the relative error against ONNX Runtime where it ran."""

    lines: list[str]
    error: float | None

    @property
    def is_accurate(self) -> bool:
        """Whether the outputs agree with ONNX Runtime's, as far as is known."""
        return self.error is None or self.error <= TOLERANCE


def compare_builds(model: Any, target: Any, store: Any) -> Comparison:
    """Build tuned and untuned, run both, and compare with each other and with ONNX Runtime where that is installed."""
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
        main = runners.VirtualMachine(executable, runners.cpu())["main"]
        if not entries:
            require_survives(lambda: main(*arrays))
        enter(name, lambda: main(*arrays))

    notes, error = [], None
    enter_build("tuned", store, report=report)
    without = MemoryDatabase()  # whatever database is current
    enter_build("default schedules", without)
    untuned = "default schedules"
    if first_calls[untuned] * _PLAIN_RATIO > _PLAIN_SECONDS:
        notes.append("not compared with untuned loops: they would run for minutes")
    else:
        untuned = "untuned loops"
        enter_build(untuned, without, scheduled=False)
    try:
        require_onnxruntime()
        onnx = model.onnx_path if model.onnx_path is not None else exported(model)
        contestant = onnx_contestant(onnx, arrays, 0)
        enter(contestant.name, contestant.call)
    except IRError as problem:  # the comparison is an extra: what it lacks is said, and the rest goes on
        notes.append(f"not compared with ONNX Runtime: {problem}")
    if "onnxruntime" in outputs:
        error = _largest_error(outputs["tuned"], outputs["onnxruntime"])
        notes.append(
            f"outputs of the tuned build and ONNX Runtime's differ by {error:.1e} (relative; limit {TOLERANCE:g})"
        )
    times = take_turns(entries, 7, first_calls)
    base = times["tuned"].median
    lines = [str(report), f"tuned build: {base * 1e3:.3f} ms per run"]
    for entry in entries[1:]:
        lines.append(
            f"  {times[entry.name].median / base:6.2f}x the speed of {entry.name} ({times[entry.name].median * 1e3:.3f} ms)"
        )
    difference = _largest_error(outputs["tuned"], outputs[untuned])
    lines.append(f"outputs of the tuned and the untuned build differ by {difference:.1e} (relative)")
    return Comparison(lines + notes, error)


def _largest_error(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    return max((relative_error(a, b) for a, b in zip(found, wanted, strict=True)), default=0.0)
