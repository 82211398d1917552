"""Several databases asked as one: the fastest answer, or the first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from .base import Database, Program, check_top_k
from .error import DatabaseError
from .machine_calibration import MachineCalibration
from .record import Session, TuningRecord, by_speed
from .target_key import TargetLike
from .workload import Workload


class _ReadOnlyUnion(Database):
    """What both unions share: reading goes to all members, writing is refused.

    What was measured again supersedes the records of its own member, and those that other members would answer with.
    """

    def __init__(self, *databases: Database) -> None:
        self.databases = databases

    def has_workload(self, mod: Program) -> bool:
        return any(member.has_workload(mod) for member in self.databases)

    def commit_workload(self, mod: Program) -> Workload:
        self._refuse("workloads")

    def commit_tuning_record(self, record: TuningRecord) -> None:
        self._refuse("records")

    def commit_session(self, session: Session) -> None:
        self._refuse("sessions")

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        check_top_k(top_k)
        found = [record for member in self.databases for record in member.get_top_k(workload, top_k)]
        return by_speed(found)[:top_k]

    def equal_workloads(self, mod: Program) -> list[Workload]:
        return list(dict.fromkeys(w for member in self.databases for w in member.equal_workloads(mod)))

    def get_all_tuning_records(self) -> list[TuningRecord]:
        return [record for member in self.databases for record in member.get_all_tuning_records()]

    def stream_records(self) -> Iterator[TuningRecord]:
        for member in self.databases:
            yield from member.stream_records()

    def get_workloads(self) -> list[Workload]:
        return list(dict.fromkeys(w for member in self.databases for w in member.get_workloads()))

    def records_of(self, workload: Workload) -> list[TuningRecord]:
        return [record for member in self.databases for record in member.records_of(workload)]

    def get_records(self, workload: Workload, target: TargetLike, skip: int = 0) -> list[TuningRecord]:
        found = [record for member in self.databases for record in member.get_records(workload, target)]
        return found[skip:]

    def get_sessions(self) -> list[Session]:
        return [session for member in self.databases for session in member.get_sessions()]

    def commit_calibration(self, calibration: MachineCalibration) -> None:
        self._refuse("calibrations")

    def get_calibrations(self) -> list[MachineCalibration]:
        return [item for member in self.databases for item in member.get_calibrations()]

    def __len__(self) -> int:
        return sum(len(member) for member in self.databases)

    def close(self) -> None:
        for member in self.databases:
            member.close()

    def _refuse(self, what: str) -> NoReturn:
        raise DatabaseError(
            f"{type(self).__name__} is read-only: commit {what} to one of its {len(self.databases)} databases"
        )


@Database.kinds.register("union")
class UnionDatabase(_ReadOnlyUnion):
    """Answers a query with the fastest record of all its databases."""

    def fastest_equal_record(self, mod: Program, target: TargetLike) -> TuningRecord | None:
        found = [member.fastest_equal_record(mod, target) for member in self.databases]
        return next(iter(by_speed([record for record in found if record is not None])), None)

    def fastest_record(self, mod: Program, target: TargetLike) -> TuningRecord | None:
        found = [member.fastest_record(mod, target) for member in self.databases]
        records = [record for record in found if record is not None]
        # A record without times comes from a schedule function: it answers when nothing measured does.
        return next(iter([*by_speed(records), *records]), None)


@Database.kinds.register("ordered_union")
class OrderedUnionDatabase(_ReadOnlyUnion):
    """Answers a query with the record of the first database that has one."""

    def fastest_record(self, mod: Program, target: TargetLike) -> TuningRecord | None:
        for member in self.databases:
            record = member.fastest_record(mod, target) or member.fastest_equal_record(mod, target)
            if record is not None:
                return record
        return None
