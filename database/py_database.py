"""A database of one's own, written in Python: MetaSchedule's ``PyDatabase``."""

from __future__ import annotations

from typing import NoReturn

from .base import Database, Program
from .error import DatabaseError
from .module_equality import ModuleEquality
from .record import TuningRecord
from .workload import Workload


class PyDatabase(Database):
    """Derive from it, and define the six methods below; the queries follow from them, and may be overridden.

    One that is not defined says so when it is called: a database of one's own that only answers queries needs no others::

        class Nightly(PyDatabase):
            def query_schedule(self, mod, target, workload_name="main"):
                ...

    Args:
        module_equality: a name of :class:`database.module_equality.ModuleEquality`.
    """

    def __init__(self, module_equality: str = "structural") -> None:
        self.module_equality = ModuleEquality(module_equality)

    def has_workload(self, mod: Program) -> bool:
        self._lacks("has_workload")

    def commit_workload(self, mod: Program) -> Workload:
        self._lacks("commit_workload")

    def commit_tuning_record(self, record: TuningRecord) -> None:
        self._lacks("commit_tuning_record")

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        self._lacks("get_top_k")

    def get_all_tuning_records(self) -> list[TuningRecord]:
        self._lacks("get_all_tuning_records")

    def __len__(self) -> int:
        self._lacks("__len__")

    def _lacks(self, method: str) -> NoReturn:
        raise DatabaseError(
            f"{type(self).__name__} defines no {method}, which a PyDatabase is to define where it is used"
        )
