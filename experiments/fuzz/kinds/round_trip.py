"""Round trips of random programs: script, JSON, and the traces of schedules."""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable

from ir.script import from_source
from ir.structural import structural_equal
from ir.tir.function import PrimFunc
from schedules import Schedule
from schedules.trace import Trace

from ..children import judged_alone
from ..kernels import kernel
from ..kind import KINDS, Kind, count
from ..reduce import reduced
from ..relax.program import relax_module
from ..round_trips import round_trip
from ..schedules_steps import WiderStep
from ..tir_programs import tir_program
from ..verdict import Verdict, crash

_MOST_STEPS = 9


@KINDS.register("round-trip")
class RoundTrip(Kind):
    """programs through script and JSON and back, and traces of schedules replayed: Relax, TIR and schedules by turns"""

    def add_options(self, command: argparse.ArgumentParser) -> None:
        command.add_argument("--size", type=count, default=10, help="statements (default: 10)")

    def show(self, seed: int, options: argparse.Namespace) -> str:
        kind = seed % 3
        if kind == 0:
            return relax_module(seed, options.size).script(show_meta=True)
        if kind == 1:
            return tir_program(seed, size=options.size).text
        _, sch = _scheduled(seed)
        return str(sch.trace)

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        kind = seed % 3
        if kind == 0:
            return _judged("relax", lambda: round_trip(relax_module(seed, options.size)))
        if kind == 1:
            return _judged_tir(tir_program(seed, size=options.size).text)
        return _judged("trace", lambda: _replayed(seed))

    def reduced(self, seed: int, options: argparse.Namespace, verdict: Verdict) -> str:
        """The program of the text with what can go, the module of the fewest statements, or the schedule of the fewest steps."""

        def alike(judge: Callable[[], Verdict]) -> bool:
            return judged_alone(judge).signature == verdict.signature

        kind = seed % 3
        if kind == 1:
            text = tir_program(seed, size=options.size).text
            return reduced(text, lambda smaller: alike(lambda: _judged_tir(smaller)))
        if kind == 0:
            for size in range(1, options.size):
                if alike(lambda size=size: _judged("relax", lambda: round_trip(relax_module(seed, size)))):  # type: ignore[misc]
                    return f"{relax_module(seed, size).script(show_meta=True)}\n# --size {size}"
            return self.show(seed, options)
        for steps in range(1, _MOST_STEPS + 1):
            if alike(lambda steps=steps: _judged("trace", lambda: _replayed(seed, steps))):  # type: ignore[misc]
                func, sch = _scheduled(seed, steps)
                return f"{func.script()}\n# by:\n{sch.trace}"
        return self.show(seed, options)


def _judged(place: str, trip: Callable[[], str]) -> Verdict:
    try:
        trouble = trip()
    except Exception as error:  # any error is a verdict
        return crash(place, error)
    return Verdict("lost", trouble, place) if trouble else Verdict("ok")


def _judged_tir(text: str) -> Verdict:
    return _judged("tir", lambda: round_trip(from_source(text)))


def _scheduled(seed: int, most: int | None = None) -> tuple[PrimFunc, Schedule]:
    """A small kernel, and a random schedule of it, of ``most`` steps at most."""
    generator = random.Random(seed)
    func = from_source(kernel(generator))
    assert isinstance(func, PrimFunc)
    sch = Schedule(func, seed=seed, error_render_level="none")
    for _ in range(min(generator.randint(2, _MOST_STEPS), most or _MOST_STEPS)):
        WiderStep(sch, generator).run()
    return func, sch


def _replayed(seed: int, most: int | None = None) -> str:
    """What is lost when the trace of a random schedule goes through JSON and is replayed on the kernel."""
    func, sch = _scheduled(seed, most)
    again = Schedule(func, seed=seed)
    assert sch.trace is not None and again.trace is not None
    saved = json.dumps(sch.trace.as_json())
    Trace.apply_json_to_schedule(json.loads(saved), again)
    if not structural_equal(again.mod, sch.mod):
        return "the replayed trace makes another program"
    if json.dumps(again.trace.as_json()) != saved:
        return "the replayed trace is saved otherwise"
    return round_trip(sch.mod)
