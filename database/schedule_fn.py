"""A database that computes its answers: a function that schedules what it knows how to schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from schedules.schedule import Schedule

from .base import Database, Program
from .error import DatabaseError
from .module_equality import ModuleEquality
from .record import TuningRecord
from .target_key import TargetLike
from .workload import Workload


@Database.kinds.register("schedule_fn")
class ScheduleFnDatabase(Database):
    """Answers queries by calling ``schedule_fn(sch)`` on a fresh Schedule of the program.

    The function schedules in place and returns True, or returns False for a program that it does not know. Nothing is
    stored.
    """

    def __init__(self, schedule_fn: Callable[[Schedule], bool], module_equality: str = "structural") -> None:
        """``module_equality`` is looked at and makes no difference: the function says which programs it knows."""
        self.schedule_fn = schedule_fn
        self.module_equality = ModuleEquality(module_equality)

    def fastest_record(self, mod: Program, target: TargetLike) -> TuningRecord | None:
        workload = Workload(mod)
        sch = Schedule(workload.mod)
        if not self.schedule_fn(sch):
            return None
        return TuningRecord(sch.trace, workload, None, target, None)

    def has_workload(self, mod: Program) -> bool:
        self._refuse("has_workload")

    def commit_workload(self, mod: Program) -> Workload:
        self._refuse("commit_workload")

    def commit_tuning_record(self, record: TuningRecord) -> None:
        self._refuse("commit_tuning_record")

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        self._refuse("get_top_k")

    def get_all_tuning_records(self) -> list[TuningRecord]:
        return []

    def __len__(self) -> int:
        return 0

    def _refuse(self, method: str) -> NoReturn:
        raise DatabaseError(f"ScheduleFnDatabase stores nothing and has no {method}; use its query methods")
