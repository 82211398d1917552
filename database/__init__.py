"""Tuning records: what a search found, kept by workload and by target, so that builds can apply it.

``open_database`` takes whatever a user gives (a path, an SQLAlchemy URL, a :class:`Database`); the classes carry the names
and the behaviour of the field's MetaSchedule. SQLAlchemy is imported when the first :class:`SQLDatabase` is opened.
"""

from __future__ import annotations

from loopsmith_import_check import require_needs

require_needs(__name__, __file__)

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .arg_info import ArgInfo, TensorInfo
from .base import Database
from .error import DatabaseError, DatabaseFileError, SchemaVersionError
from .fingerprint import hardware_fingerprint, software_versions
from .json_database import JSONDatabase
from .jsonl import FORMAT_VERSION, count_records, export_records, import_records, is_record_file
from .machine_calibration import MachineCalibration
from .memory import MemoryDatabase
from .module_equality import ModuleEquality
from .nearest import Difference, NearestRecord
from .opening import open_database, open_for_writing
from .pareto import pareto_front
from .py_database import PyDatabase
from .record import RIGHT, Session, TuningRecord, by_speed, key_of_trace, standing
from .schedule_fn import ScheduleFnDatabase
from .target_key import target_differences, target_fields, target_key
from .union import OrderedUnionDatabase, UnionDatabase
from .workload import Workload, WorkloadSummary, has_static_arguments, kernel_module

if TYPE_CHECKING:
    from .sql import SQLDatabase
    from .tuning_lock import LockedDatabase, LockError, TuningLock

__all__ = [
    # the interface and its implementations
    "Database",
    "MemoryDatabase",
    "JSONDatabase",
    "SQLDatabase",
    "UnionDatabase",
    "OrderedUnionDatabase",
    "ScheduleFnDatabase",
    "LockedDatabase",
    "PyDatabase",
    "ModuleEquality",
    "create",
    "open_database",
    "open_for_writing",
    # what is kept
    "Workload",
    "WorkloadSummary",
    "kernel_module",
    "has_static_arguments",
    "TuningRecord",
    "Session",
    "MachineCalibration",
    "key_of_trace",
    "standing",
    "RIGHT",
    "by_speed",
    "pareto_front",
    "ArgInfo",
    "TensorInfo",
    # finding and explaining
    "NearestRecord",
    "Difference",
    "target_fields",
    "target_key",
    "target_differences",
    # exchange
    "FORMAT_VERSION",
    "count_records",
    "export_records",
    "import_records",
    "is_record_file",
    "hardware_fingerprint",
    "software_versions",
    # production
    "TuningLock",
    # errors
    "DatabaseError",
    "DatabaseFileError",
    "SchemaVersionError",
    "LockError",
]

create = Database.create
"""MetaSchedule's name for :meth:`Database.create`."""

_LAZY = {
    "SQLDatabase": "sql",
    "MetaScheduleApplyDatabase": "meta_schedule_apply_database",
    "TuningLock": "tuning_lock",
    "LockedDatabase": "tuning_lock",
    "LockError": "tuning_lock",
}


def __getattr__(name: str) -> Any:
    """Load the modules that need heavy libraries, or the compiler, when their name is first asked for."""
    if name in _LAZY:
        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """What is loaded later is there too, as for :func:`help` and for completion."""
    return sorted({*globals(), *__all__})
