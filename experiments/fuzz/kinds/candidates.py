"""Random candidates of design spaces."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from ..candidates import (
    ROWS,
    candidates_of,
    judge_candidate,
    judge_candidates,
    judge_trace,
    space_of,
    target_names,
)
from ..candidates.spaces import DESCRIBED
from ..children import judged_alone
from ..kind import KINDS, Kind
from ..oracle import TARGETS
from ..schedules import trace_text
from ..schedules_reduce import TraceJson, without
from ..verdict import Verdict


@KINDS.register("candidates")
class Candidates(Kind):
    """random rows of design spaces, for CPUs and GPUs: a candidate is a program that computes what its kernel does"""

    batch: ClassVar[int] = ROWS
    seconds: ClassVar[int] = 120

    def add_options(self, command: argparse.ArgumentParser) -> None:
        command.add_argument(
            "--target",
            choices=[*TARGETS, *DESCRIBED],
            help="what the space is for; default: one, by the seed",
        )

    def _target(self, seed: int, options: argparse.Namespace) -> str:
        targets = target_names()
        return options.target or targets[seed // ROWS % len(targets)]

    def show(self, seed: int, options: argparse.Namespace) -> str:
        number, position = divmod(seed, ROWS)
        space = space_of(number, self._target(seed, options))
        parts = [f"# {space.program.name} for {space.target}, {space.name}", space.func.script()]
        candidate = candidates_of(space, number, [position])[position]
        if isinstance(candidate, Verdict):
            return "\n".join([*parts, f"# {candidate}"])
        script = candidate.scheduled.mod["main"].script()
        return "\n".join([*parts, f"# accepted: {candidate.accepted}", trace_text(candidate.trace), script])

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        target = self._target(seed, options)
        return _on(target, judge_candidate(seed, target))

    def judge_together(self, seeds: Sequence[int], options: argparse.Namespace) -> list[Verdict]:
        """Seeds of one space together."""
        groups: dict[int, list[int]] = {}
        for seed in seeds:
            groups.setdefault(seed // ROWS, []).append(seed)
        verdicts: list[Verdict] = []
        for group in groups.values():
            target = self._target(group[0], options)
            verdicts += [_on(target, verdict) for verdict in judge_candidates(group, target)]
        return verdicts

    def reduced(self, seed: int, options: argparse.Namespace, verdict: Verdict) -> str:
        """The kernel, and a failing trace with as few instructions as fail alike."""
        number, position = divmod(seed, ROWS)
        target = self._target(seed, options)
        space = space_of(number, target)

        def fails(trace: TraceJson) -> bool:
            found = judged_alone(lambda: _on(target, judge_trace(space, trace)))
            return (found.kind, found.place) == (verdict.kind, verdict.place)

        head = f"# {space.program.name} for {space.target}, {space.name}\n{space.func.script()}"
        candidate = candidates_of(space, number, [position])[position]
        if isinstance(candidate, Verdict) or not fails(candidate.trace):
            return head
        trace = candidate.trace
        position = len(trace[0]) - 1
        while position >= 0:
            smaller = without(trace, position, 1)
            trace = smaller if fails(smaller) else trace
            position = min(position - 1, len(trace[0]) - 1)
        return f"{head}\n# by:\n{trace_text(trace)}"


def _on(target: str, verdict: Verdict) -> Verdict:
    """A failure of a target: one of another is not taken for the same defect."""
    if not verdict.failed or verdict.place.startswith(target):
        return verdict
    return replace(verdict, place=", ".join(filter(None, [target, verdict.place])))
