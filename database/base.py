"""The interface of tuning databases, and what every one of them can do with six operations of its own."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ir import IRModule
from ir.kinds import Kinds
from ir.tir import PrimFunc
from schedules.schedule import Schedule

from .error import DatabaseError
from .machine_calibration import MachineCalibration, calibration_key
from .nearest import NearestRecord, find_nearest
from .record import Session, TuningRecord, by_speed
from .target_key import TargetLike, target_key
from .workload import Workload

Program = IRModule | PrimFunc
"""What a workload is made of; a PrimFunc stands for the module of which it is ``main``."""

CLAIM_SECONDS = 3600.0
"""After so long, nobody is measuring a claimed candidate any more: a batch takes minutes. A claim that lies so far in the future, which a
wrong clock has made, counts for nothing either."""

_ENTERED = threading.local()
_LOG = logging.getLogger(__name__)


class Database(ABC):
    """Workloads and their tuning records.

    The contract, held by ``tests/database/contract.py`` over every implementation:

    - A workload is known by its structure: committing an equal program again returns the same entry.
    - A record that ``commit_tuning_record`` has taken is there for every later reader, and after a crash of this process.
    - ``get_top_k`` and the queries see only candidates that ran, fastest first. Failed ones are kept for the search and
      show in ``get_all_tuning_records``.
    - A record that is ``remeasured`` supersedes the others of its workload, target and trace in ``get_top_k`` and the queries,
      whichever came first; all of them stay in ``get_all_tuning_records``.
    - Queries never answer with a record of another target.
    - ``with db:`` makes it ``Database.current()`` for this thread; blocks nest. Builds within the block that name no database apply its
      records; tuning does not write into it unless it is named.

    A subclass defines the six abstract methods; the others follow from them and may be overridden where storage
    has a faster way.
    """

    kinds: ClassVar[Kinds[Callable[..., Database]]] = Kinds("kind of database", DatabaseError, __package__)
    """The databases that :meth:`create` knows; each registers itself where it is defined."""

    schemes: ClassVar[Kinds[Callable[[str, bool], Database]]] = Kinds(
        "scheme of a database URL", DatabaseError, __package__
    )
    """What opens a URL (and must not make a new database when its second argument is True), by the URL's scheme."""

    # ------------------------------------------------------------------------------------- to implement

    @abstractmethod
    def has_workload(self, mod: Program) -> bool:
        """Whether a structurally equal program was committed."""

    @abstractmethod
    def commit_workload(self, mod: Program) -> Workload:
        """The entry of a program, made when there is none yet."""

    @abstractmethod
    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Keep a record; when this returns it is safe."""

    @abstractmethod
    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        """The ``top_k`` fastest records of a workload over all targets, fastest first."""

    @abstractmethod
    def get_all_tuning_records(self) -> list[TuningRecord]:
        """All records in the order in which they came, failed candidates included."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of records, failed candidates included."""

    # --------------------------------------------------------------------------------------- derived

    def get_workloads(self) -> list[Workload]:
        """All workloads that have records, in order of their first one."""
        return list(dict.fromkeys(record.workload for record in self.get_all_tuning_records()))

    def get_records(self, workload: Workload, target: TargetLike, skip: int = 0) -> list[TuningRecord]:
        """All records of a workload on a target in the order in which they came, failed candidates included.

        The first ``skip`` are left out: whoever has read them asks what has come since.
        """
        key = target_key(target)
        found = [record for record in self.get_all_tuning_records() if record.place == (workload.shash, key)]
        return found[skip:]

    def count_trials(self, workload: Workload, target: TargetLike) -> int:
        """How many candidates of a workload were measured on a target, by whomever; second measurements are none."""
        return sum(not record.remeasured for record in self.get_records(workload, target))

    def query_tuning_record(
        self, mod: Program, target: TargetLike, workload_name: str = "main"
    ) -> TuningRecord | None:
        """The fastest record of a program on exactly this target, or None.

        Programs are found by structure; ``workload_name`` is what messages and the log call this one.
        """
        record = self.fastest_record(mod, target)
        if record is None:
            _LOG.debug("%s has no record of %r for %s", type(self).__name__, workload_name, target)
        return record

    def fastest_record(self, mod: Program, target: TargetLike) -> TuningRecord | None:
        """What :meth:`query_tuning_record` answers; databases that have a quicker way, or another answer, override it."""
        if not self.has_workload(mod):
            return None
        best = by_speed(self.get_records(Workload(mod), target))
        return best[0] if best else None

    def query_schedule(
        self, mod: Program, target: TargetLike, workload_name: str = "main"
    ) -> Schedule | None:
        """A Schedule with the best record applied, or None. One that does not apply any more is named in a warning, and the next best
        takes its place, as in builds.

        Raises:
            DatabaseError: there are records, but the trace of none applies any more: what is wrong with the best.
        """
        best = self.query_tuning_record(mod, target, workload_name)
        if best is None:
            return None
        try:
            return best.schedule_of(workload_name)
        except DatabaseError as error:
            _LOG.warning("kernel %s: skipped %s", workload_name, error)
            for record in self.records_behind(best, mod, target):
                if record.applies():
                    return record.schedule_of(workload_name)
            raise

    def records_behind(self, best: TuningRecord, mod: Program, target: TargetLike) -> list[TuningRecord]:
        """The records of a program on a target that are left where the best one does not apply, best first."""
        ranked = by_speed(self.get_records(Workload(mod), target))
        return [record for record in ranked if record.trace_key != best.trace_key]

    def query_ir_module(
        self, mod: Program, target: TargetLike, workload_name: str = "main"
    ) -> IRModule | None:
        """The scheduled IRModule of the best record, or None."""
        sch = self.query_schedule(mod, target, workload_name)
        return None if sch is None else sch.mod

    def query(
        self, mod: Program, target: TargetLike, *, workload_name: str = "main", kind: str = "schedule"
    ) -> Schedule | TuningRecord | IRModule | None:
        """One of ``"schedule"``, ``"record"`` or ``"ir_module"`` of the best record, or None."""
        if kind == "schedule":
            return self.query_schedule(mod, target, workload_name)
        if kind == "record":
            return self.query_tuning_record(mod, target, workload_name)
        if kind == "ir_module":
            return self.query_ir_module(mod, target, workload_name)
        raise DatabaseError(f"unknown kind of query {kind!r}; expected 'schedule', 'record' or 'ir_module'")

    def nearest_record(self, mod: Program, target: TargetLike) -> NearestRecord | None:
        """For a program without a record: the record that comes closest, and the fields in which it differs.

        None when the database has no record that ran.
        """
        return find_nearest(Workload(mod), target, by_speed(self.get_all_tuning_records()))

    def dump_pruned(self, destination: Database) -> None:
        """Copy the fastest record of each workload and target into another database."""
        seen: set[tuple[str, str]] = set()
        for record in by_speed(self.get_all_tuning_records()):
            if record.place not in seen:
                seen.add(record.place)
                destination.commit_workload(record.workload.mod)
                destination.commit_tuning_record(record)

    def claim(
        self, workload: Workload, target: TargetLike, candidates: Sequence[str], owner: str
    ) -> list[bool]:
        """Announce that candidates are about to be measured, so that no other tuner on this database measures them too.

        Of several that ask for a candidate at once, one gets it. A claim lasts until its owner releases it, until the process that
        :func:`database.claim_owner.new_owner` named has ended, where the one that asks runs on the same machine, or for
        :data:`CLAIM_SECONDS`: whoever was killed with a claim does not hold it for ever. What was measured is in the records.

        Args:
            workload, target: what the candidates are of.
            candidates: a key of each, at most 64 characters, equal for equal candidates.
            owner: names the search that asks, at most 64 characters; :func:`database.claim_owner.new_owner` makes such names.

        Returns:
            for each candidate whether it is the owner's now. A database that several tuners cannot write to grants everything.
        """
        return [True] * len(candidates)

    def release(self, owner: str) -> None:
        """Give up all claims of an owner."""

    def commit_session(self, session: Session) -> None:
        """Keep or update the description of a tuning run; a database without sessions ignores it."""

    def get_sessions(self) -> list[Session]:
        """All tuning runs, oldest first."""
        return []

    def commit_calibration(self, calibration: MachineCalibration) -> None:
        """Keep what was measured of a machine, in place of what the same version measured of it before; a database without
        calibrations ignores it."""

    def get_calibration(self, fingerprint: dict[str, Any], version: int) -> MachineCalibration | None:
        """What a version of what measures has found of the machine with a fingerprint, or None."""
        key = calibration_key(fingerprint, version)
        return next((item for item in self.get_calibrations() if item.key == key), None)

    def get_calibrations(self) -> list[MachineCalibration]:
        """What is known of machines, oldest first."""
        return []

    def close(self) -> None:
        """Release files and connections; everything committed is kept. Closing twice is fine."""

    # --------------------------------------------------------------------------------------- scope

    def __enter__(self) -> Database:
        _stack().append(self)
        return self

    def __exit__(self, exc_type: Any, exc: Any, traceback: Any) -> None:
        _stack().pop()

    @staticmethod
    def current() -> Database | None:
        """The database of the innermost ``with`` block of this thread, or None."""
        stack = _stack()
        return stack[-1] if stack else None

    @staticmethod
    def create(kind: str | Callable[[Any], bool] = "json", *args: Any, **kwargs: Any) -> Database:
        """Make a database by name: json, memory, sql, union, ordered_union, ...; or from a schedule function.

        Raises:
            DatabaseError: the name is unknown.
        """
        if callable(kind):
            return Database.kinds["schedule_fn"](kind, *args, **kwargs)
        return Database.kinds[kind](*args, **kwargs)


def _stack() -> list[Database]:
    stack: list[Database] | None = getattr(_ENTERED, "stack", None)
    if stack is None:
        stack = _ENTERED.stack = []
    return stack


def check_top_k(top_k: int) -> int:
    """Refuse a negative count."""
    if top_k < 0:
        raise DatabaseError(f"top_k must not be negative, got {top_k}")
    return top_k
