"""A database in this process's memory, for tests and for short searches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .base import Database, Program, check_top_k
from .claims import ClaimFile, Claims, Holders, Place
from .duplicates import Candidate
from .forks import ForkSafeLock
from .machine_calibration import MachineCalibration
from .module_equality import ModuleEquality
from .record import Session, TuningRecord, by_speed
from .target_key import TargetLike, target_key
from .workload import Workload, as_module, structural_key


@Database.kinds.register("memory")
class MemoryDatabase(Database):
    """Keeps everything in memory; safe to use from several threads.

    Args:
        module_equality: a name of :class:`database.module_equality.ModuleEquality`.
    """

    def __init__(self, module_equality: str = "structural") -> None:
        self.module_equality = ModuleEquality(module_equality)
        self._lock = ForkSafeLock()
        self._workloads: dict[str, Workload] = {}
        self._records: list[TuningRecord] = []
        self._by_workload: dict[str, list[TuningRecord]] = {}
        self._by_place: dict[Place, list[TuningRecord]] = {}
        """By workload and target: searches ask before each candidate what has come since."""
        self._candidates: dict[tuple[str, str, str], Candidate] = {}
        """By place and trace."""
        self._trials: Counter[Place] = Counter()
        """First measurements by workload and target: schedulers ask for them before each batch."""
        self._sessions: dict[str, Session] = {}
        self._calibrations: dict[str, MachineCalibration] = {}
        self._claims: Claims | ClaimFile = Claims()
        self._holders = Holders()

    def has_workload(self, mod: Program) -> bool:
        return structural_key(as_module(mod)) in self._workloads or bool(self.equal_workloads(mod))

    def commit_workload(self, mod: Program) -> Workload:
        return self._keep_workload(Workload(mod))

    def commit_tuning_record(self, record: TuningRecord) -> None:
        with self._lock:
            self._keep_workload(record.workload)
            candidate = self._candidate_of(record)
            kept = candidate.admitted(record)
            if kept is not None:
                self._store(kept)
                candidate.keep(kept)
            if due := self._holders.due():
                self._claims.renew(due)

    def remove_records(self, records: Sequence[TuningRecord]) -> int:
        with self._lock:
            gone = {record.candidate for record in records}
            kept = [record for record in self._records if record.candidate not in gone]
            removed = len(self._records) - len(kept)
            self._forget_records()
            for record in kept:
                MemoryDatabase._store(self, record)
                self._candidate_of(record).keep(record)
            return removed

    def compact(self) -> int:
        with self._lock:
            unused = self._workloads.keys() - self._by_workload.keys()
            for shash in unused:
                del self._workloads[shash]
            return len(unused)

    def _candidate_of(self, record: TuningRecord) -> Candidate:
        return self._candidates.setdefault((*record.place, record.trace_hash), Candidate())

    def _forget_records(self) -> None:
        self._records, self._by_workload, self._by_place = [], {}, {}
        self._candidates.clear()
        self._trials.clear()

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        check_top_k(top_k)
        return by_speed(self._by_workload.get(workload.shash, []))[:top_k]

    def get_all_tuning_records(self) -> list[TuningRecord]:
        return list(self._records)

    def get_workloads(self) -> list[Workload]:
        return list(self._workloads.values())

    def claim(
        self, workload: Workload, target: TargetLike, candidates: Sequence[str], owner: str
    ) -> list[bool]:
        with self._lock:
            self._holders.add(owner)
            return self._claims.claim((workload.shash, target_key(target)), candidates, owner)

    def release(self, owner: str) -> None:
        with self._lock:
            self._holders.remove(owner)
            self._claims.release(owner)

    def records_of(self, workload: Workload) -> list[TuningRecord]:
        return list(self._by_workload.get(workload.shash, []))

    def get_records(self, workload: Workload, target: TargetLike, skip: int = 0) -> list[TuningRecord]:
        return self._by_place.get((workload.shash, target_key(target)), [])[skip:]

    def count_trials(self, workload: Workload, target: TargetLike) -> int:
        return self._trials[workload.shash, target_key(target)]

    def commit_session(self, session: Session) -> None:
        with self._lock:
            self._sessions[session.id] = session

    def get_sessions(self) -> list[Session]:
        return sorted(self._sessions.values(), key=lambda session: session.started_at)

    def commit_calibration(self, calibration: MachineCalibration) -> None:
        with self._lock:
            self._calibrations[calibration.key] = calibration

    def get_calibrations(self) -> list[MachineCalibration]:
        return sorted(self._calibrations.values(), key=lambda item: item.created_at)

    def _store(self, record: TuningRecord) -> None:
        """Add a record that is no duplicate."""
        self._records.append(record)
        self._by_workload.setdefault(record.workload.shash, []).append(record)
        place = record.place
        self._by_place.setdefault(place, []).append(record)
        self._trials[place] += not record.remeasured

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self._records)} records of {len(self._workloads)} workloads>"

    def _keep_workload(self, workload: Workload) -> Workload:
        with self._lock:
            return self._workloads.setdefault(workload.shash, workload)
