"""Random candidates of design spaces."""

from __future__ import annotations

import argparse

from ..candidates import DESCRIBED, candidates_of, judge_candidate_trace, judge_candidates, space_of
from ..children import judged_alone
from ..kind import KINDS, Kind
from ..oracle import TARGETS, usable_targets
from ..schedules import trace_text
from ..schedules_reduce import TraceJson, without
from ..verdict import Verdict


@KINDS.register("candidates")
class Candidates(Kind):
    """random rows of design spaces: a candidate is a program that computes what its kernel does"""

    def add_options(self, command: argparse.ArgumentParser) -> None:
        command.add_argument(
            "--target",
            choices=[*TARGETS, *DESCRIBED],
            help="what the space is for; default: one, by the seed",
        )

    def _target(self, seed: int, options: argparse.Namespace) -> str:
        targets = [*usable_targets(), *DESCRIBED]
        return options.target or targets[seed % len(targets)]

    def show(self, seed: int, options: argparse.Namespace) -> str:
        space = space_of(seed, self._target(seed, options))
        parts = [f"# {space.workload.name} for {space.target}", space.func.script()]
        for candidate in candidates_of(space, seed):
            parts += [f"# candidate {candidate.position}, accepted: {candidate.accepted}"]
            parts += [trace_text(candidate.trace), candidate.scheduled.mod["main"].script()]
        return "\n".join(parts)

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        return judge_candidates(seed, self._target(seed, options))

    def reduced(self, seed: int, options: argparse.Namespace, verdict: Verdict) -> str:
        """The kernel, and a failing trace with as few instructions as fail alike."""
        space = space_of(seed, self._target(seed, options))
        arguments = space.workload.arguments(seed, special=seed % 4 == 0)

        def fails(trace: TraceJson) -> bool:
            found = judged_alone(lambda: judge_candidate_trace(space, trace, arguments))
            return (found.kind, found.place) == (verdict.kind, verdict.place)

        for candidate in candidates_of(space, seed):
            trace = candidate.trace
            if not fails(trace):
                continue
            position = len(trace[0]) - 1
            while position >= 0:
                smaller = without(trace, position, 1)
                trace = smaller if fails(smaller) else trace
                position = min(position - 1, len(trace[0]) - 1)
            return f"# {space.workload.name} for {space.target}\n{space.func.script()}\n# by:\n{trace_text(trace)}"
        return f"# {space.workload.name} for {space.target}\n{space.func.script()}"
