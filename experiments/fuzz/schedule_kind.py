"""Kinds of random schedules: what they have in common beside the programs and the steps that they draw."""

from __future__ import annotations

import argparse
from abc import abstractmethod
from collections.abc import Sequence

from ir.script import from_source

from .children import judged_alone
from .kind import Kind, add_targets, targets_of
from .schedules import Program, ScheduledKernel, arguments_for, judge_schedule, judge_trace, trace_text
from .schedules_reduce import TraceJson, reduced_schedule
from .verdict import Verdict


class ScheduleKind(Kind):
    """A kind whose seeds stand for a program and a schedule of it."""

    @abstractmethod
    def scheduled(self, seed: int) -> ScheduledKernel:
        """The program and the schedule of a seed."""

    def add_options(self, command: argparse.ArgumentParser) -> None:
        add_targets(command)

    def show(self, seed: int, options: argparse.Namespace) -> str:
        found = self.scheduled(seed)
        by = trace_text(found.trace)
        return f"{found.program.func.script()}\n# scheduled:\n{found.scheduled.script()}\n# by:\n{by}"

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        return judge_schedule(seed, targets_of(seed, options), self.scheduled)

    def reduced(self, seed: int, options: argparse.Namespace, verdict: Verdict) -> str:
        found, targets = self.scheduled(seed), targets_of(seed, options)
        return smaller_schedule(found.program, found.trace, seed, targets, verdict)


def smaller_schedule(
    program: Program, trace: TraceJson, seed: int, targets: Sequence[str], verdict: Verdict
) -> str:
    """A smaller program and trace that fail like a given pair, as text."""
    func = program.func

    def again(text: str) -> Program:
        """The program of a text; other extents have other arguments."""
        made = from_source(text)
        alike = [made.buffer_map[p].shape for p in made.params] == [
            func.buffer_map[p].shape for p in func.params
        ]
        arguments = program.arguments if alike else arguments_for(made, seed)
        return Program(made, arguments, program.tolerance)

    def fails(text: str, smaller: TraceJson) -> bool:
        found = judged_alone(lambda: judge_trace(again(text), smaller, targets))
        return (found.kind, found.place) == (verdict.kind, verdict.place)

    text, trace = reduced_schedule(func.script(), trace, fails)
    return f"{text}\n# by:\n{trace_text(trace)}"
