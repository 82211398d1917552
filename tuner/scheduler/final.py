"""The final choice of a task: its fastest candidates are measured again in turns, and the new times decide.

The best of many noisy times is partly luck, and the trials lie minutes apart: what disturbs the machine for a while favours
whoever was measured before or after. Rivals that take turns are disturbed alike. Who may be the best, by the repeats of its time and of the
best one's, takes part, and so does who is nearly as fast: repeats within one process differ less than processes do. The default schedule,
measured first of all, takes part unless it was far behind: a search should not end with less than what a build takes without it.
"""

from __future__ import annotations

from collections.abc import Collection

from database import Database, TuningRecord, Workload, by_speed
from ir.target import Target
from runners import Builder, BuilderInput, ResultKind, Runner, RunnerResult
from runners.runner import require_results

from ..program import ScheduledProgram
from ..state import TimeShares

_RIVALS = 6
"""How many take part in one contest."""
_NEAR = 1.1
"""Who takes up to so many times the best one's time is nearly as fast: one program, measured in two processes, may differ by as much."""
_FAR = 2.0
"""The default takes part up to so many times the best one's time. It is measured before all others, when clocks and caches may be what
they never are again: of three kernels whose defaults had taken 1.10, 1.30 and 1.75 times as long as the best, none was slower by default
when both were compared afterwards."""
_CONTESTS = 3
"""Measured again, the best may fall behind candidates that took no part, which then challenge the winner: so often."""
_ALONE = 12
"""After those contests, so many more go through the check and are measured alone: nobody should stay the best who has passed the
first part of the check only. Where the whole machine has become slower that could be all of them. Contests in which one failed
are not counted."""


def settle(
    database: Database,
    workload: Workload,
    target: Target,
    builder: Builder,
    runner: Runner,
    session_id: str | None = None,
    times: TimeShares | None = None,
    confirmed: Collection[str] = (),
    default: str | None = None,
) -> tuple[str, float] | None:
    """Let the fastest checked candidates of a workload compete, and commit their new times, which supersede the old.

    The old records stay: whoever is killed in between has lost nothing. When one turns out to be wrong, or does not run any
    more, those behind it are checked in full; a contest in which one failed counts for nothing. What checking takes is added
    to ``times``. Candidates whose keys of traces are in ``confirmed`` have passed the whole check already; ``default`` is the key of
    the default schedule's trace.

    Returns:
        "confirmed" or "changed" and the best candidate's time, infinite when all have failed; None where there were no
        rivals or builder and runner cannot measure in turns.
    """
    before, passed_whole = _fastest(database, workload, target), set(confirmed)
    expecting = [*_overlapping(before), *_within(_NEAR, before)[:_RIVALS]]
    expecting += [item for item in _within(_FAR, before) if item.trace_key == default]
    waiting = {item.trace_key for item in expecting}
    settled: dict[str, TuningRecord] = {}
    contests, failed = 0, False
    while contests < _CONTESTS + _ALONE:
        ranked = _fastest(database, workload, target)
        # All that may be the best have their turn; what comes of it may bring others forward.
        expected = [item for item in ranked if item.trace_key in waiting]
        if not ranked or (not expected and ranked[0].trace_key in settled):
            break
        others = [item for item in _overlapping(ranked) if item.trace_key not in settled]
        winner = sorted(settled.values(), key=lambda item: item.secs)[:1]
        rivals = [*winner, *(expected or others)][:_RIVALS]
        if not expected and contests >= _CONTESTS:
            rivals = ranked[:1]
        elif len(rivals) < 2 and not failed:
            break
        results = _contest(rivals, workload, builder, runner, passed_whole)
        if results is None:
            break
        passed = [bool(result.run_secs) for result in results]
        contests += all(passed) and not expected
        waiting -= {rival.trace_key for rival in rivals}
        failed |= not all(passed)
        for rival, result in zip(rivals, results):
            again = rival.measured_again(
                result.run_secs,
                failure_kind=None if result.run_secs else str(result.kind),
                session_id=session_id,
            )
            if result.error_msg is not None:
                again.failure_message = f"{result.error_msg}, when it was measured again among the fastest"
            database.commit_tuning_record(again)
            settled.pop(rival.trace_key, None)
            if again.is_valid():
                settled[rival.trace_key] = again
                passed_whole.add(rival.trace_key)
            if times is not None:
                times.check += result.check_secs
    if not settled and not failed:
        return None
    ranked = _fastest(database, workload, target)
    if not ranked:
        return "changed", float("inf")
    return "confirmed" if ranked[0].trace_key == before[0].trace_key else "changed", ranked[0].secs


def _fastest(database: Database, workload: Workload, target: Target) -> list[TuningRecord]:
    """All checked candidates of a workload and target that this version can read, fastest first.

    What a peer of a newer version has found is not this one's to judge: that it cannot be built here is no failure of the candidate.
    """
    records = by_speed(database.get_records(workload, target))
    own = [record for record in records if record.verified and not record.cut]
    return [record for record in own if record.readable_trace is not None]


def _overlapping(ranked: list[TuningRecord]) -> list[TuningRecord]:
    """Those of some records, fastest first, that may be the fastest in truth."""
    return [item for item in ranked if item.interval.overlaps(ranked[0].interval)]


def _within(times: float, ranked: list[TuningRecord]) -> list[TuningRecord]:
    """Those of some records, fastest first, that take up to so many times the fastest one's time."""
    return [item for item in ranked if item.secs <= times * ranked[0].secs]


def _contest(
    rivals: list[TuningRecord],
    workload: Workload,
    builder: Builder,
    runner: Runner,
    confirmed: Collection[str],
) -> list[RunnerResult] | None:
    programs = [ScheduledProgram(workload.module_json, rival.trace_json) for rival in rivals]
    artifacts = [
        builder.unbuilt(BuilderInput(program, rival.target)) for program, rival in zip(programs, rivals)
    ]
    if any(artifact is None for artifact in artifacts):
        return None
    places = [place for place, rival in enumerate(rivals) if rival.trace_key in confirmed]
    results = runner.final_choice(artifacts, workload.mod, confirmed=places)
    if not results:
        return None
    results = require_results(results, len(rivals), f"{type(runner).__name__}.final_choice")
    # When none of them runs it is not the candidates' fault; one that is wrong is wrong.
    told = any(item.kind in (ResultKind.OK, ResultKind.WRONG_RESULT) for item in results)
    return results if told else None
