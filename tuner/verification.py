"""Records tried again: each is replayed, built, and compared with its program; what fails is marked, so that builds no longer use it.

What is found goes into a session of the database, by the digests of the records, so that a run that was interrupted goes on where it was.
A record that failed gets a second measurement that says so, which supersedes it wherever records are looked up.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from database import (
    RIGHT,
    Database,
    DatabaseError,
    Session,
    TuningRecord,
    WorkloadSummary,
    by_speed,
    hardware_fingerprint,
    software_versions,
)
from ir.error import IRError
from ir.target import Target
from runners import (
    Builder,
    BuilderInput,
    EvaluatorConfig,
    LocalBuilder,
    LocalRunner,
    ResultKind,
    Runner,
    RunnerInput,
    RunnerResult,
    WorkerPool,
)

from .measurable import require_measurable
from .program import ScheduledProgram

COMMAND = "loopsmith db verify"
UNREADABLE = "unreadable"
"""This version cannot read the record, which a newer one may have made: it is nobody's failure, and builds pass it over."""
ELSEWHERE = "elsewhere"
"""It replays; what it computes is for another machine to say."""
_FAILURES = frozenset(
    map(
        str,
        (
            ResultKind.ILLEGAL_SCHEDULE,
            ResultKind.BUILD_ERROR,
            ResultKind.CRASH,
            ResultKind.RUN_ERROR,
            ResultKind.WRONG_RESULT,
        ),
    )
)
"""What is the candidate's fault. One that took too long, or too much memory, may be what there is where it was measured."""
_BATCH = 16
_SECONDS = 5.0
"""Between two notes in the database of what was verified."""
_PER_SESSION = 1000
"""So many records does one session tell of: it is written anew with each note."""
_ONCE = EvaluatorConfig(number=1, repeat=1, min_repeat_ms=0)


@dataclass(frozen=True)
class Verification:
    """What came of one record."""

    record: TuningRecord
    outcome: str
    """:data:`RIGHT`, :data:`UNREADABLE`, :data:`ELSEWHERE`, or a kind of :class:`runners.ResultKind`."""
    message: str = ""

    @property
    def is_failure(self) -> bool:
        """Whether the record is marked as one that builds must not use."""
        return self.outcome in _FAILURES

    @property
    def is_settled(self) -> bool:
        """Whether this machine need not try again."""
        return self.is_failure or self.outcome == RIGHT


def records_to_verify(
    store: Database,
    *,
    top_k: int | None = None,
    workloads: Collection[str] | None = None,
    again: bool = False,
) -> list[TuningRecord]:
    """The records that builds may use, of each kernel and target the best first, and the best of all of them before the others.

    Args:
        store: where they are.
        top_k: so many of each kernel and target.
        workloads: hashes of those that count; None for all.
        again: also those that these versions have verified on this machine before.
    """
    known = set() if again else _verified(store)
    ranked = []
    for workload in store.get_workloads():
        if workloads is None or workload.shash in workloads:
            by_place: dict[tuple[str, str], list[TuningRecord]] = {}
            for record in store.records_of(workload):
                by_place.setdefault(record.place, []).append(record)
            ranked += [by_speed(items)[:top_k] for items in by_place.values()]
    longest = max(map(len, ranked), default=0)
    ordered = [items[place] for place in range(longest) for items in ranked if place < len(items)]
    return [record for record in ordered if record.digest not in known] if known else ordered


def _verified(store: Database) -> set[str]:
    """Digests of what these versions have verified on this machine."""
    here, versions = hardware_fingerprint(), software_versions()
    return {
        digest
        for session in store.get_sessions()
        if session.fingerprint == here and session.versions == versions
        for digest in session.verified
    }


def verify_records(
    store: Database,
    records: Sequence[TuningRecord],
    builder: Builder | None = None,
    runner: Runner | None = None,
) -> Iterator[Verification]:
    """Verify records in their order, marking in the database what fails; one after the other, as it is known.

    Whoever ends the iteration, as Ctrl-C does, loses what was being tried at the moment.

    Args:
        store: where they are, which is written.
        records: as of :func:`records_to_verify`.
        builder, runner: by default worker processes of this machine, and its first CUDA device for records of CUDA targets.
    """
    notes = _Notes(store)
    refusals: dict[str, str] = {}
    try:
        with WorkerPool(
            preload=("runners.native", "runners.candidate", "schedules", "tuner.program")
        ) as pool:
            for begin in range(0, len(records), _BATCH):
                batch = records[begin : begin + _BATCH]
                for found in _verified_batch(batch, refusals, pool, builder, runner):
                    notes.add(found)
                    yield found
    finally:
        notes.end()


class _Notes:
    """Writes down what was verified."""

    def __init__(self, store: Database) -> None:
        self._store = store
        self._session = self._new()
        self._written = time.monotonic()

    def _new(self) -> Session:
        return Session(command=COMMAND, fingerprint=hardware_fingerprint(), versions=software_versions())

    def add(self, found: Verification) -> None:
        record = found.record
        if found.is_failure:
            self._store.commit_session(self._session)
            marked = record.measured_again(
                None,
                failure_kind=found.outcome,
                failure_message=f"{found.message}, when it was verified",
                session_id=self._session.id,
            )
            self._store.commit_tuning_record(marked)
        if found.is_settled:
            self._session.verified[record.digest] = found.outcome
        if time.monotonic() - self._written > _SECONDS:
            self._write()
        if len(self._session.verified) >= _PER_SESSION:
            self.end()
            self._session = self._new()

    def _write(self) -> None:
        if self._session.verified:
            self._store.commit_session(self._session)
        self._written = time.monotonic()

    def end(self) -> None:
        """Nothing more comes."""
        self._session.finished_at = time.time()
        self._write()


def _verified_batch(
    records: Sequence[TuningRecord],
    refusals: dict[str, str],
    pool: WorkerPool,
    builder: Builder | None,
    runner: Runner | None,
) -> Iterator[Verification]:
    """Built on all cores, run one after the other; ``refusals`` say by target why its records cannot run here."""
    told = [_without_running(record, refusals) for record in records]
    runnable = [record for record, known in zip(records, told, strict=True) if known is None]
    build = builder or LocalBuilder(pool=pool)
    built = build.build(
        [
            BuilderInput(ScheduledProgram(item.workload.module_json, item.trace_json), item.target)
            for item in runnable
        ]
    )
    results = iter(zip(runnable, built, strict=True))
    for record, known in zip(records, told, strict=True):
        if known is not None:
            yield known
            continue
        _, artifact = next(results)
        if artifact.artifact is None:
            yield Verification(record, str(artifact.kind), artifact.error_msg or "")
            continue
        assert record.target is not None
        run = runner or _runner_of(record.target, pool)
        asked = RunnerInput(
            artifact.artifact, record.target.device_type, record.args_info, record.workload.mod
        )
        (future,) = run.run([asked])
        yield _judged(record, future.result())


def _judged(record: TuningRecord, result: RunnerResult) -> Verification:
    if result.run_secs is None:
        return Verification(record, str(result.kind), result.error_msg or "")
    if not result.verified:
        return Verification(record, ELSEWHERE, "its runner compares no outputs")
    return Verification(record, RIGHT)


def _runner_of(target: Target, pool: WorkerPool) -> Runner:
    kind = "cuda" if target.device_type == "cuda" else "local"
    if kind == "local":
        return LocalRunner(evaluator_config=_ONCE, cut_ratio=inf, pool=pool)
    return Runner.create(kind, evaluator_config=_ONCE, cut_ratio=inf, pool=pool)


def _without_running(record: TuningRecord, refusals: dict[str, str]) -> Verification | None:
    """What can be said of a record without running it; None where it has to be run."""
    try:
        name = WorkloadSummary.of(record.workload.mod).name
    except DatabaseError as error:
        return Verification(record, UNREADABLE, str(error))
    if record.readable_trace is None or record.target is None:
        return Verification(record, UNREADABLE, "this version cannot read its trace, or it has no target")
    try:
        record.schedule_of(name)
    except DatabaseError as error:
        return Verification(record, str(ResultKind.ILLEGAL_SCHEDULE), str(error))
    key = record.place[1]
    if key not in refusals:
        try:
            require_measurable(record.target)
            refusals[key] = ""
        except IRError as error:
            refusals[key] = str(error)
    return Verification(record, ELSEWHERE, refusals[key]) if refusals[key] else None
