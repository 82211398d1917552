"""A tuning record: one candidate of one workload on one target, with its times or with why it has none."""

from __future__ import annotations

import hashlib
import json
import math
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ir import IRModule
from ir.error import IRError
from ir.target import Target
from ir.time_interval import TimeInterval, median_secs
from schedules.anchor_trace import schedule_using_anchor_trace
from schedules.schedule import Schedule
from schedules.trace import Trace

from .arg_info import ArgInfo
from .damage import FAULTS
from .error import DatabaseError
from .module_equality import renamed_anchor
from .secrets import masked
from .target_key import TargetLike, recorded_key, recorded_target
from .workload import Workload


@dataclass(slots=True)
class Session:
    """One run of the tuner: what was asked, with which seed, on what, and when it began and ended.

    ``kernels`` are the names that its kernels have in the model, by the hashes of their workloads; ``verified`` is what a run of
    ``loopsmith db verify`` has found, by :attr:`TuningRecord.digest`: :data:`RIGHT` or a kind of failure. Passwords of URLs in
    ``command`` are masked, whoever gives it. ``weights`` are how often one run of the model calls the kernels, by the same hashes, and
    ``phases`` the seconds that parts of the run took, by name, once it has ended; sessions of earlier versions have neither.
    """

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    command: str = ""
    seed: int | None = None
    started_at: float = field(default_factory=time.time)
    finished_at: float | None = None
    fingerprint: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    kernels: dict[str, str] = field(default_factory=dict)
    verified: dict[str, str] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.command = masked(self.command)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    @staticmethod
    def from_json(json_obj: dict[str, Any]) -> Session:
        """The session that ``as_json`` described; fields of later versions are ignored.

        Raises:
            DatabaseError: a field is of another kind.
        """
        known = Session.__dataclass_fields__.keys()
        given = {name: value for name, value in json_obj.items() if name in known}
        check_kinds(given, _SESSION_FIELDS, "session")
        return Session(**given)


_MAX_NAME = 64
"""Characters of a kind of failure and of a session's id, as tables have room for."""
_LAST_SECOND = 2.0**53
"""No clock shows such a time, and not every system has a date for it."""
RIGHT = "right"
"""What a verification says of a record whose candidate can be built and computes what its program does."""
WRONG_RESULT = "wrong_result"
"""The ``failure_kind`` of a candidate whose outputs were not those of the unscheduled program."""


EXPECTED_SECS = "expected_secs"
"""The metric that tells which time the search expected of a candidate when it proposed it, in seconds; missing where it had no idea."""

OF_ONE_MEASUREMENT = ("disturbance",)
"""Metrics that tell of the machine at the time: the share of it that others took in the repeats, where that was not quiet. Another
measurement of the same candidate has its own."""


class TuningRecord:
    """The outcome of one candidate.

    The first five parameters are MetaSchedule's. A candidate that failed has no ``run_secs`` and says why in
    ``failure_kind`` (``"crash"``, ``"wrong_result"``, ...) and ``failure_message``. One that is ``remeasured`` supersedes what
    earlier records say of its trace; see :func:`standing`. The trace of a record that comes from
    storage is parsed when it is first read.
    """

    __slots__ = (
        "_trace",
        "_trace_hash",
        "_trace_json",
        "args_info",
        "created_at",
        "cut",
        "failure_kind",
        "failure_message",
        "fingerprint",
        "metrics",
        "remeasured",
        "run_secs",
        "session_id",
        "target",
        "verified",
        "versions",
        "workload",
    )

    def __init__(
        self,
        trace: Trace | None,
        workload: Workload,
        run_secs: Sequence[float] | None = None,
        target: TargetLike | None = None,
        args_info: Sequence[ArgInfo] | None = None,
        *,
        trace_json: Any = None,
        verified: bool = False,
        cut: bool = False,
        remeasured: bool = False,
        failure_kind: str | None = None,
        failure_message: str | None = None,
        metrics: dict[str, float] | None = None,
        fingerprint: dict[str, Any] | None = None,
        versions: dict[str, str] | None = None,
        session_id: str | None = None,
        created_at: float | None = None,
    ) -> None:
        """
        Args:
            trace: with its decisions; None where ``trace_json`` stands for it.
            workload: what was tuned.
            run_secs: seconds per call, one value per repeat.
            target: a Target, or what ``Target(...)`` accepts. One that leaves the processor to the machine gets that of the machine that
                measured, where that is this one (:func:`database.target_key.recorded_target`).
            args_info: dtypes and shapes of the arguments.
            trace_json: the trace as storage has it, parsed when it is first read.
            verified: the outputs were compared with the unscheduled program's before the time counted.
            cut: the candidate was far behind, so that ``run_secs`` holds its first call only.
            remeasured: no trial, but a second measurement of one, in turns with its rivals.
            failure_kind: why there is no time; None for a candidate that ran.
            failure_message: the details, for a person.
            metrics: what was measured beside the time, by the names and in the units of :data:`database.pareto.UNITS`, what was
                noticed about the machine (:data:`OF_ONE_MEASUREMENT`), and what the search expected (:data:`EXPECTED_SECS`); records of
                earlier versions have none.
            fingerprint: the hardware, as :func:`database.hardware_fingerprint` describes it; None for this machine.
            versions: of the software, as :func:`database.software_versions` lists them.
            session_id: the :class:`Session` that measured it.
            created_at: seconds since the epoch; now by default.

        Raises:
            DatabaseError: both times and a failure, or a time or another measure that is negative or not finite.
        """
        if run_secs is not None and failure_kind is not None:
            raise DatabaseError(
                f"a record has times or a failure, not both: {list(run_secs)} and {failure_kind!r}"
            )
        if isinstance(run_secs, str):
            raise DatabaseError(f"run times are a list of seconds, got the text {run_secs!r}")
        times = None if run_secs is None else tuple(float(getattr(secs, "value", secs)) for secs in run_secs)
        if times is not None and not all(math.isfinite(secs) and secs >= 0 for secs in times):
            raise DatabaseError(
                f"run times are finite seconds, got {times}; give a failure_kind for a candidate without"
            )
        measures = {name: float(value) for name, value in (metrics or {}).items()}
        if not all(math.isfinite(value) and value >= 0 for value in measures.values()):
            raise DatabaseError(f"measures are finite numbers that are not negative, got {measures}")
        self._trace = trace
        self._trace_json = trace_json
        self._trace_hash: str | None = None
        self.workload = workload
        self.run_secs = times
        self.metrics = measures
        self.target: Target | None = None if target is None else recorded_target(target, fingerprint)
        self.args_info = None if args_info is None else tuple(args_info)
        self.verified = verified
        self.cut = cut
        self.remeasured = remeasured
        self.failure_kind = failure_kind
        self.failure_message = None if failure_message is None else masked(failure_message)
        self.fingerprint = fingerprint or {}
        self.versions = versions or {}
        self.session_id = session_id
        self.created_at = time.time() if created_at is None else float(created_at)

    @property
    def trace(self) -> Trace:
        """The trace."""
        if self._trace is None:
            self._trace = Trace.from_json(self._trace_json)
        return self._trace

    @property
    def readable_trace(self) -> Trace | None:
        """The trace; None where this version cannot read it, as one with an instruction of a newer one."""
        try:
            return self.trace
        except FAULTS:
            return None

    @property
    def trace_json(self) -> Any:
        """The trace as plain JSON values."""
        if self._trace_json is None and self._trace is not None:
            self._trace_json = self._trace.as_json()
        return self._trace_json

    @property
    def digest(self) -> str:
        """What the record is known by, 16 characters: the same wherever it is kept, another for whatever says something else."""
        return hashlib.sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()[:16]

    @property
    def candidate(self) -> tuple[str, str, str]:
        """What was measured: the workload's hash, the target's key and the trace's. Second measurements are of the same candidate."""
        return (*self.place, self.trace_key)

    @property
    def place(self) -> tuple[str, str]:
        """What the record competes for: the workload's hash and the key of the target ("" without one)."""
        return self.workload.shash, "" if self.target is None else recorded_key(self.target)

    @property
    def mean_secs(self) -> float:
        """Mean seconds per call; infinity for a candidate without times."""
        return sum(self.run_secs) / len(self.run_secs) if self.run_secs else math.inf

    @property
    def secs(self) -> float:
        """Seconds per call by which records are compared, the median of the repeats; infinity for a candidate without times."""
        return median_secs(self.run_secs)

    @property
    def interval(self) -> TimeInterval:
        """Where the time that :attr:`secs` tells lies, by its repeats; of a candidate that has one.

        Raises:
            DatabaseError: it has no time.
        """
        if not self.run_secs:
            raise DatabaseError(f"{self!r} has no time, and so no interval")
        return TimeInterval.of(self.run_secs)

    @property
    def trace_key(self) -> str:
        """A text that is equal for equal traces."""
        return key_of_trace(self.trace_json)

    @property
    def trace_hash(self) -> str:
        """A hash of :attr:`trace_key`, 32 characters."""
        if self._trace_hash is None:
            self._trace_hash = hash_of_trace(self.trace_json)
        return self._trace_hash

    def measured_again(
        self,
        run_secs: Sequence[float] | None,
        *,
        failure_kind: str | None = None,
        failure_message: str | None = None,
        session_id: str | None = None,
    ) -> TuningRecord:
        """A record of the same candidate that supersedes this one: other times, or why it did not run this time."""
        return TuningRecord(
            self._trace,
            self.workload,
            run_secs,
            self.target,
            self.args_info,
            verified=self.verified,
            remeasured=True,
            failure_kind=failure_kind,
            failure_message=failure_message,
            metrics={name: value for name, value in self.metrics.items() if name not in OF_ONE_MEASUREMENT},
            fingerprint=self.fingerprint,
            versions=self.versions,
            session_id=session_id,
            trace_json=self._trace_json,
        )

    @property
    def is_wrong(self) -> bool:
        """Whether the candidate computed something else than its program."""
        return self.failure_kind == WRONG_RESULT

    @property
    def is_decisive(self) -> bool:
        """Whether the record says more of its trace than earlier ones."""
        return self.remeasured or self.is_wrong

    @property
    def rank(self) -> tuple[bool, float]:
        """Of several decisive records of a trace the one with the largest stands, of equals the last; see :func:`standing`."""
        return self.is_wrong, self.created_at

    def merit(self) -> tuple[bool, bool, float, float]:
        """What records are ordered by, the best first."""
        return not self.verified, self.cut, self.secs, self.created_at

    def is_valid(self) -> bool:
        """Whether the candidate ran and has a time, which zero is not."""
        return self.failure_kind is None and 0.0 < self.secs < math.inf

    def schedule(self, mod: IRModule | None = None) -> Schedule:
        """A new Schedule of the workload with the trace applied; or of another program ``mod``, for which a database's module equality
        takes the workload (:func:`schedules.anchor_trace.schedule_using_anchor_trace`)."""
        sch = Schedule(self.workload.mod if mod is None else mod)
        if mod is None:
            self.trace.apply_to_schedule(sch, remove_postproc=False)
        else:
            schedule_using_anchor_trace(sch, self.trace, self.target, renamed_anchor(mod, self.workload.mod))
        return sch

    def schedule_of(self, workload_name: str, mod: IRModule | None = None) -> Schedule:
        """A new Schedule of the workload, which messages call ``workload_name``, with the trace applied; ``mod`` as for :meth:`schedule`.

        Raises:
            DatabaseError: the trace cannot be read, or does not apply any more.
        """
        try:
            return self.schedule(mod)
        except FAULTS as error:
            # An argument that a primitive has no more is a TypeError, as in Python; a trace that somebody changed may be anything.
            why = str(error) if isinstance(error, IRError) else f"{type(error).__name__}: {error}"
            raise DatabaseError(
                f"the record of {workload_name!r} ({self!r}) does not apply: {why}. It was made by "
                f"{self.versions or 'an unknown version'}; update loopsmith if that is newer, else tune the workload again into a new"
                " database"
            ) from error

    def applies(self) -> bool:
        """Whether this version can make the schedule of it."""
        try:
            self.schedule_of(self.workload.summary.name)
        except DatabaseError:
            return False
        return True

    def as_json(self) -> dict[str, Any]:
        """Everything but the workload, which is named by its hash, as plain JSON values."""
        return {
            "workload": self.workload.shash,
            "trace": self.trace_json,
            "run_secs": None if self.run_secs is None else list(self.run_secs),
            "target": None if self.target is None else self.target.export(),
            "args_info": None if self.args_info is None else [info.as_json() for info in self.args_info],
            "verified": self.verified,
            "cut": self.cut,
            "remeasured": self.remeasured,
            "failure_kind": self.failure_kind,
            "failure_message": self.failure_message,
            "metrics": self.metrics,
            "fingerprint": self.fingerprint,
            "versions": self.versions,
            "session_id": self.session_id,
            "created_at": self.created_at,
        }

    @staticmethod
    def from_json(json_obj: dict[str, Any], workload: Workload) -> TuningRecord:
        """The record that ``as_json`` described; ``workload`` is the one that its hash names.

        Raises:
            DatabaseError: fields are missing, or the record belongs to another workload.
        """
        try:
            if json_obj["workload"] != workload.shash:
                raise DatabaseError(
                    f"record of workload {json_obj['workload']}, but {workload!r} was given for it"
                )
            check_record_fields(json_obj)
            infos = json_obj.get("args_info")
            return TuningRecord(
                None,
                workload,
                json_obj["run_secs"],
                json_obj["target"],
                None if infos is None else [ArgInfo.from_json(info) for info in infos],
                verified=json_obj.get("verified", False),
                cut=json_obj.get("cut", False),
                remeasured=json_obj.get("remeasured", False),
                failure_kind=json_obj.get("failure_kind"),
                failure_message=json_obj.get("failure_message"),
                metrics=json_obj.get("metrics"),
                fingerprint=json_obj.get("fingerprint") or {},
                versions=json_obj.get("versions"),
                session_id=json_obj.get("session_id"),
                created_at=json_obj.get("created_at"),
                trace_json=json_obj["trace"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DatabaseError(f"not a tuning record: {str(json_obj)[:200]!r} ({error!r})") from error

    def __reduce__(self) -> Any:
        return (TuningRecord.from_json, (self.as_json(), self.workload))

    def __repr__(self) -> str:
        outcome = f"{self.secs * 1e6:.3f} us" if self.is_valid() else self.failure_kind or "no time"
        return f"TuningRecord({self.workload.summary.name}, {outcome}, target={self.target}, verified={self.verified})"


_Kinds = type | tuple[type, ...]
_NOTHING = type(None)
_RECORD_FIELDS: dict[str, _Kinds] = {
    "trace": (list, _NOTHING),
    "run_secs": (list, _NOTHING),
    "verified": bool,
    "cut": bool,
    "remeasured": bool,
    "failure_kind": (str, _NOTHING),
    "failure_message": (str, _NOTHING),
    "metrics": (dict, _NOTHING),
    "fingerprint": (dict, _NOTHING),
    "versions": (dict, _NOTHING),
    "session_id": (str, _NOTHING),
    "created_at": (int, float, _NOTHING),
}
_SESSION_FIELDS: dict[str, _Kinds] = {
    "id": str,
    "command": str,
    "seed": (int, _NOTHING),
    "started_at": (int, float),
    "finished_at": (int, float, _NOTHING),
    "fingerprint": dict,
    "versions": dict,
    "kernels": dict,
    "verified": dict,
}
_NAMES = ("id", "failure_kind", "session_id")
_TIMES = ("created_at", "started_at", "finished_at")


def check_record_fields(fields: Mapping[str, Any]) -> None:
    """Refuse fields of a record, by their names in JSON, that are of another kind than they have to be.

    Raises:
        DatabaseError: one is.
    """
    check_kinds(fields, _RECORD_FIELDS, "tuning record")


def check_kinds(fields: Mapping[str, Any], kinds: dict[str, _Kinds], what: str) -> None:
    """Refuse fields that say something else than they do, which some storage would refuse later, and another keep.

    Raises:
        DatabaseError: a field is of another kind than ``kinds`` says, a name too long, a time not finite.
    """
    for name, expected in kinds.items():
        if name not in fields:
            continue
        value = fields[name]
        is_sound = isinstance(value, expected) and (bool in _each(expected) or not isinstance(value, bool))
        if is_sound and name in _NAMES:
            is_sound = len(value or "") <= _MAX_NAME
        if is_sound and name in _TIMES:
            is_sound = value is None or abs(value) < _LAST_SECOND
        if not is_sound:
            raise DatabaseError(f"{name} of a {what} cannot be {str(value)[:100]!r}")


def _each(kinds: _Kinds) -> tuple[type, ...]:
    return kinds if isinstance(kinds, tuple) else (kinds,)


def key_of_trace(trace_json: Any) -> str:
    """A text that is equal for equal traces, which are given in their JSON form."""
    return json.dumps(trace_json, sort_keys=True)


def hash_of_trace(trace_json: Any) -> str:
    """32 characters that are equal for equal traces, which are given in their JSON form."""
    return hashlib.sha256(key_of_trace(trace_json).encode()).hexdigest()[:32]


def standing(records: Sequence[TuningRecord]) -> list[TuningRecord]:
    """The records that count, in their order: a candidate that was measured again has its newest such record only.

    One that was wrong once is wrong for good, whatever was measured before or after and whatever the clocks say. It makes no
    difference in which order the records came, so that imports and unions agree with the database that wrote them.
    """
    decisive: dict[tuple[str, str, str], TuningRecord] = {}
    for record in records:
        if record.is_decisive:
            key = (*record.place, record.trace_key)
            if key not in decisive or decisive[key].rank <= record.rank:
                decisive[key] = record
    if not decisive:
        return list(records)
    # Traces are long: they are compared only where something was measured again.
    places = {key[:2] for key in decisive}
    kept = []
    for record in records:
        if record.place not in places or decisive.get((*record.place, record.trace_key), record) is record:
            kept.append(record)
    return kept


def by_speed(records: Sequence[TuningRecord]) -> list[TuningRecord]:
    """The records that ran and stand, best first: those that were verified, measured in full, and fast.

    Of equal ones the one that came first. A time of a candidate that nobody compared with the program counts only where
    nothing better is known, and so does that of a first call.
    """
    return sorted((record for record in standing(records) if record.is_valid()), key=TuningRecord.merit)
