"""The interface of tuning databases, and what every one of them can do with six operations of its own."""

from __future__ import annotations

import logging
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from ir import IRModule
from ir.kinds import Kinds
from ir.tir import PrimFunc
from schedules.schedule import Schedule

from .error import DatabaseError
from .machine_calibration import MachineCalibration, calibration_key
from .module_equality import STRUCTURAL, ModuleEquality
from .nearest import NearestRecord, find_nearest
from .record import Session, TuningRecord, by_speed
from .target_key import TargetLike, target_key
from .workload import Workload, as_module, structural_key
from .workload_features import shape_distance

Program = IRModule | PrimFunc
"""What a workload is made of; a PrimFunc stands for the module of which it is ``main``."""

CLAIM_SECONDS = 900.0
"""After so long without a sign of its owner nobody is measuring a claimed candidate any more: a tuner commits a record every few
minutes at least, which renews its claims. One that lies so far in the future, which a wrong clock has made, counts for nothing either."""
RENEWAL_SECONDS = 60.0
"""Claims are renewed by the first commit after so long."""

MISFITS_AT_MOST = 20
"""So many records of a kernel that do not apply are tried before the others are taken for such, too: they come from one version."""

_ENTERED = threading.local()
_LOG = logging.getLogger(__name__)


class Database(ABC):
    """Workloads and their tuning records.

    The contract, held by ``tests/database/contract.py`` over every implementation:

    - A workload is known by its structure: committing an equal program again returns the same entry.
    - A record that ``commit_tuning_record`` has taken is there for every later reader, and after a crash of this process.
    - ``get_top_k`` and the queries see only candidates that ran, fastest first. Failed ones are kept for the search and
      show in ``get_all_tuning_records``.
    - The first measurement of a candidate (a trace of a workload on a target) is kept once, whoever commits another, also from another
      process at the same moment; so is each second measurement. :mod:`database.duplicates` tells what becomes of the other.
    - A record that is ``remeasured`` supersedes the others of its workload, target and trace in ``get_top_k`` and the queries,
      whichever came first; all of them stay in ``get_all_tuning_records``.
    - Queries never answer with a record of another target.
    - ``with db:`` makes it ``Database.current()`` for this thread; blocks nest. Builds within the block that name no database apply its
      records; tuning does not write into it unless it is named.

    A subclass defines the six abstract methods; the others follow from them and may be overridden where storage
    has a faster way.
    """

    module_equality: ModuleEquality = STRUCTURAL
    """Which other programs' records answer a query for a program that has none of its own."""

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
        """Keep a record, unless it is a duplicate; when this returns it is safe."""

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

    def commit_tuning_records(self, records: Iterable[TuningRecord]) -> int:
        """Keep many records, which may come one by one and need not exist all at a time; how many were no duplicates."""
        before = len(self)
        for record in records:
            self.commit_tuning_record(record)
        return len(self) - before

    def stream_records(self) -> Iterator[TuningRecord]:
        """All records in the order in which they came, failed candidates included; a large database holds a few of them in memory at
        a time. What is committed meanwhile may come at the end."""
        yield from self.get_all_tuning_records()

    def get_workloads(self) -> list[Workload]:
        """All workloads that have records, in order of their first one."""
        return list(dict.fromkeys(record.workload for record in self.get_all_tuning_records()))

    def records_of(self, workload: Workload) -> list[TuningRecord]:
        """All records of a workload, of every target and of none, in the order in which they came, failed candidates included."""
        return [record for record in self.stream_records() if record.workload.shash == workload.shash]

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
        record = self.fastest_record(mod, target) or self.fastest_equal_record(mod, target)
        if record is None:
            _LOG.debug("%s has no record of %r for %s", type(self).__name__, workload_name, target)
        return record

    def fastest_record(self, mod: Program, target: TargetLike) -> TuningRecord | None:
        """What :meth:`query_tuning_record` answers; databases that have a quicker way, or another answer, override it."""
        if not self.has_workload(mod):
            return None
        return next(iter(self.fastest_records(Workload(mod), target, 1)), None)

    def fastest_records(
        self, workload: Workload, target: TargetLike, count: int | None = None
    ) -> list[TuningRecord]:
        """The fastest records of a workload on exactly this target, fastest first: ``count`` at most, or all of them."""
        return by_speed(self.get_records(workload, target))[:count]

    def recent_records(
        self,
        target: TargetLike,
        count: int,
        *,
        of: Workload | None = None,
        without: Collection[Workload] = (),
    ) -> list[TuningRecord]:
        """The newest ``count`` records on exactly this target, failed candidates included, the newest first.

        Args:
            target: of the records.
            count: at most so many.
            of: only of this workload.
            without: of others than these.
        """
        key, left_out = target_key(target), {item.shash for item in without}
        found = [
            record
            for record in self.get_all_tuning_records()
            if record.place[1] == key
            and record.workload.shash not in left_out
            and (of is None or record.workload.shash == of.shash)
        ]
        return found[::-1][:count]

    def similar_workloads(self, workload: Workload, target: TargetLike, count: int) -> list[Workload]:
        """Workloads that are the same program with other extents, of which candidates ran on exactly this target: ``count`` at most,
        those first whose extents are the fewest doublings away."""
        key = target_key(target)
        found: dict[str, tuple[float, Workload]] = {}
        for record in self.get_all_tuning_records():
            other = record.workload
            if other.shash not in (*found, workload.shash) and record.place[1] == key and record.is_valid():
                try:
                    distance = shape_distance(workload.summary, other.summary)
                except DatabaseError as error:
                    _LOG.warning("left out: %s", error)
                    continue
                if math.isfinite(distance):
                    found[other.shash] = distance, other
        return [other for _, other in sorted(found.values(), key=lambda item: item[0])[:count]]

    def equal_workloads(self, mod: Program) -> list[Workload]:
        """The stored workloads that :attr:`module_equality` takes for a program, without the program itself."""
        equality = self.module_equality
        if equality.is_structural:
            return []
        module = as_module(mod)
        own, key = structural_key(module), equality.key(module)
        alike = [item for item in self.get_workloads() if item.shash != own and equality.key_of(item) == key]
        return [item for item in alike if equality.equal(module, item.mod)]

    def fastest_equal_record(self, mod: Program, target: TargetLike) -> TuningRecord | None:
        """The fastest record of the workloads that :attr:`module_equality` takes for a program, on exactly this target, or None."""
        found = [
            record for item in self.equal_workloads(mod) for record in self.fastest_records(item, target, 1)
        ]
        return next(iter(by_speed(found)), None)

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
        module = as_module(mod)
        own = structural_key(module)

        def scheduled(record: TuningRecord) -> Schedule:
            return record.schedule_of(workload_name, None if record.workload.shash == own else module)

        try:
            return scheduled(best)
        except DatabaseError as error:
            _LOG.warning("kernel %s: skipped %s", workload_name, error)
            for record in self.records_behind(best, mod, target):
                with suppress(DatabaseError):
                    return scheduled(record)
            raise

    def records_behind(self, best: TuningRecord, mod: Program, target: TargetLike) -> list[TuningRecord]:
        """The records of a program on a target that are left where the best one does not apply, best first."""
        ranked = self.fastest_records(Workload(mod), target)
        for item in self.equal_workloads(mod):
            ranked += self.fastest_records(item, target)
        return [record for record in ranked if record.candidate != best.candidate]

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

        None when the database has no record that ran. See :func:`database.nearest.find_nearest`.
        """
        return find_nearest(Workload(mod), target, self.get_all_tuning_records())

    def dump_pruned(self, destination: Database) -> None:
        """Copy :meth:`pruned_records` into another database."""
        destination.commit_tuning_records(self.pruned_records())

    def pruned_records(self) -> Iterator[TuningRecord]:
        """The fastest record of each workload and target: of those that apply, or else of all.

        Workloads whose program cannot be read are named in a warning and left out.
        """
        ranked: dict[tuple[str, str], list[TuningRecord]] = {}
        for record in by_speed(self.get_all_tuning_records()):
            ranked.setdefault(record.place, []).append(record)
        for records in ranked.values():
            if (best := best_applying(records)) is not None:
                yield best

    def remove_records(self, records: Sequence[TuningRecord]) -> int:
        """Remove the candidates of some records: all that was measured of their traces, since one measurement decides about another.

        Returns:
            the number of records that were removed, second measurements and failures included.

        Raises:
            DatabaseError: this kind of database removes nothing.
        """
        raise DatabaseError(f"{type(self).__name__} removes no records; remove them where they are stored")

    def compact(self) -> int:
        """Remove workloads without records, and what no reader needs any more; give the room back. The number of those workloads.

        Raises:
            DatabaseError: this kind of database removes nothing.
        """
        raise DatabaseError(f"{type(self).__name__} keeps nothing of its own; compact what it reads")

    def claim(
        self, workload: Workload, target: TargetLike, candidates: Sequence[str], owner: str
    ) -> list[bool]:
        """Announce that candidates are about to be measured, so that no other tuner on this database measures them too.

        Of several that ask for a candidate at once, one gets it. A claim lasts until its owner releases it, until the process that
        :func:`database.claim_owner.new_owner` named has ended, where the one that asks runs on the same machine, or for
        :data:`CLAIM_SECONDS` after the last record that was committed through this object: whoever was killed with a claim does not hold
        it for ever. What was measured is in the records.

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
        """Make a database by name: json, memory, sql, union, ordered_union, ...; or from a schedule function. What else is given is what
        the class takes, as in ``database.create("json", work_dir="records", module_equality="anchor-block")``.

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


def best_applying(ranked: Sequence[TuningRecord]) -> TuningRecord | None:
    """Of the records of a workload and target, best first: the first that applies, or the first where none of the best does.

    None, and a warning, where the program cannot be read.
    """
    try:
        _ = ranked[0].workload.mod
    except DatabaseError as error:
        _LOG.warning("left out: %s", error)
        return None
    return next((record for record in ranked[:MISFITS_AT_MOST] if record.applies()), ranked[0])
