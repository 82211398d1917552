"""Round trips of random programs: script, JSON, and the traces of schedules."""

from __future__ import annotations

import argparse
import json
import random

from ir.script import from_source
from ir.structural import structural_equal
from ir.tir.function import PrimFunc
from schedules import Schedule
from schedules.trace import Trace

from ..kernels import kernel
from ..kind import KINDS, Kind
from ..relax.program import relax_module
from ..round_trips import round_trip
from ..schedules_steps import WiderStep
from ..tir_programs import tir_program
from ..verdict import Verdict, crash


@KINDS.register("round-trip")
class RoundTrip(Kind):
    """programs through script and JSON and back, and traces of schedules replayed: Relax, TIR and schedules by turns"""

    def add_options(self, command: argparse.ArgumentParser) -> None:
        command.add_argument("--size", type=int, default=10, help="statements (default: 10)")

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
        try:
            if kind == 0:
                trouble = round_trip(relax_module(seed, options.size))
            elif kind == 1:
                trouble = round_trip(from_source(tir_program(seed, size=options.size).text))
            else:
                trouble = _replayed(seed)
        except Exception as error:  # any error is a verdict
            return crash(("relax", "tir", "trace")[kind], error)
        return Verdict("lost", trouble, ("relax", "tir", "trace")[kind]) if trouble else Verdict("ok")


def _scheduled(seed: int) -> tuple[PrimFunc, Schedule]:
    """A small kernel, and a random schedule of it."""
    generator = random.Random(seed)
    func = from_source(kernel(generator))
    assert isinstance(func, PrimFunc)
    sch = Schedule(func, seed=seed, error_render_level="none")
    for _ in range(generator.randint(2, 9)):
        WiderStep(sch, generator).run()
    return func, sch


def _replayed(seed: int) -> str:
    """What is lost when the trace of a random schedule goes through JSON and is replayed on the kernel."""
    func, sch = _scheduled(seed)
    again = Schedule(func, seed=seed)
    assert sch.trace is not None and again.trace is not None
    saved = json.dumps(sch.trace.as_json())
    Trace.apply_json_to_schedule(json.loads(saved), again)
    if not structural_equal(again.mod, sch.mod):
        return "the replayed trace makes another program"
    if json.dumps(again.trace.as_json()) != saved:
        return "the replayed trace is saved otherwise"
    return round_trip(sch.mod)
