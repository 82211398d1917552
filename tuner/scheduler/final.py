"""The final choice of a task: its fastest candidates are measured again in turns, and the new times decide.

The best of many noisy times is partly luck, and the trials lie minutes apart: what disturbs the machine for a while favours
whoever was measured before or after. Rivals that take turns are disturbed alike.
"""

from __future__ import annotations

from database import Database, TuningRecord, Workload, by_speed
from ir.target import Target
from runners import Builder, BuilderInput, Runner

from ..program import ScheduledProgram

_RIVALS = 4
"""How many take part in a contest."""
_MARGIN = 1.10
"""Slower than this many times the best time is no rival."""
_CONTESTS = 3
"""Measured again, the best may fall behind a candidate that took no part, which then challenges the winner."""


def settle(
    database: Database,
    workload: Workload,
    target: Target,
    builder: Builder,
    runner: Runner,
    session_id: str | None = None,
) -> tuple[str, float] | None:
    """Let the fastest checked candidates of a workload compete, and commit their new times, which supersede the old.

    The old records stay: whoever is killed in between has lost nothing.

    Returns:
        "confirmed" or "changed" and the best candidate's time; None where there were no rivals or builder and runner
        cannot measure in turns.
    """
    before = _fastest(database, workload, target)
    settled: dict[str, TuningRecord] = {}
    for _ in range(_CONTESTS):
        ranked = _fastest(database, workload, target)
        if not ranked or ranked[0].trace_key in settled:
            break
        rivals = [
            item
            for item in ranked
            if item.mean_secs <= _MARGIN * ranked[0].mean_secs and item.trace_key not in settled
        ]
        rivals = [*sorted(settled.values(), key=lambda item: item.mean_secs)[:1], *rivals][:_RIVALS]
        if len(rivals) < 2:
            break
        medians = _contest(rivals, workload, builder, runner)
        if medians is None:
            break
        for rival, secs in zip(rivals, medians):
            failure = "crash" if secs is None else None
            again = rival.measured_again(
                None if secs is None else [secs], failure_kind=failure, session_id=session_id
            )
            if failure is not None:
                again.failure_message = "it ran as a trial, but not when it was measured again"
            database.commit_tuning_record(again)
            settled.pop(rival.trace_key, None)
            if again.is_valid():
                settled[rival.trace_key] = again
    if not settled:
        return None
    best = _fastest(database, workload, target)[0]
    return "confirmed" if best.trace_key == before[0].trace_key else "changed", best.mean_secs


def _fastest(database: Database, workload: Workload, target: Target) -> list[TuningRecord]:
    """All checked candidates of a workload and target, fastest first."""
    records = by_speed(database.get_records(workload, target))
    return [record for record in records if record.verified and not record.cut]


def _contest(
    rivals: list[TuningRecord], workload: Workload, builder: Builder, runner: Runner
) -> list[float | None] | None:
    programs = [ScheduledProgram(workload.module_json, rival.trace_json) for rival in rivals]
    artifacts = [
        builder.unbuilt(BuilderInput(program, rival.target)) for program, rival in zip(programs, rivals)
    ]
    if any(artifact is None for artifact in artifacts):
        return None
    medians = runner.final_choice(artifacts, workload.mod)
    # When all of them fail it is not the candidates' fault.
    return medians if medians and any(secs is not None for secs in medians) else None
