"""Tuning records as Optuna studies in a storage of Optuna's, where optuna-dashboard and Optuna's own analyses find them.

One study holds one kernel on one target. Each candidate is a finished trial: its decisions by readable names are the parameters, its
time (and what else was asked for) are the values, and the trace and the kind of a failure are user attributes.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from database import TuningRecord, Workload, standing
from database.pareto import UNITS, checked_objectives, objective_values
from database.secrets import masked
from database.target_key import recorded_key
from ir.target import Target
from schedules.space import Structures

from ..error import TunerError
from .optuna_space import STRUCTURE, import_optuna, quiet, readable, structure_names
from .records import explained

_CANDIDATE = "candidate"
"""The user attribute that tells candidates apart: a digest of the trace."""
_SQLITE = (".db", ".sqlite", ".sqlite3")
_JOURNAL = (".log", ".journal")


def open_storage(where: Any) -> Any:
    """An Optuna storage.

    Args:
        where: an SQLAlchemy URL such as ``sqlite:///study.db``; a path that ends in .db, .sqlite or .sqlite3 (SQLite), or in .log or
            .journal (Optuna's journal file); ``:memory:``; or a storage, which is returned.

    Raises:
        TunerError: Optuna is not installed, the storage cannot be opened, or it is a tuning database or another program's.
    """
    storages = import_optuna().storages
    if isinstance(where, storages.BaseStorage):
        return where
    text, path = str(where), _checked_path(where)
    if text == ":memory:":
        return storages.InMemoryStorage()
    try:
        if "://" not in text and path is not None and path.suffix.lower() in _JOURNAL:
            return storages.JournalStorage(storages.journal.JournalFileBackend(text))
        with quiet():
            return storages.RDBStorage(text if "://" in text else f"sqlite:///{text}")
    except (
        Exception
    ) as error:  # of drivers, SQLAlchemy, alembic and the file system: all say that it cannot be opened
        raise TunerError(
            f"Optuna's storage {masked(text)!r} cannot be opened: {masked(str(error))}; check the path or URL, the rights on it, and that"
            " it was made by this version of Optuna or an older one"
        ) from error


def is_new_file(where: Any) -> bool:
    """Whether :func:`open_storage` would make a file, or fill an empty one.

    Raises:
        TunerError: Optuna is not installed, or no file can be made there.
    """
    if isinstance(where, import_optuna().storages.BaseStorage):
        return False
    path = _checked_path(where)
    return path is not None and (not path.exists() or not path.stat().st_size)


def _checked_path(where: Any) -> Path | None:
    """The file that is named; None for a storage that is none.

    Raises:
        TunerError: it is neither a file of Optuna's nor a URL, and cannot become one.
    """
    text = str(where)
    is_url = "://" in text
    if text == ":memory:" or (is_url and not text.startswith("sqlite:///")):
        return None
    path = Path(text.removeprefix("sqlite:///"))
    suffix = path.suffix.lower()
    if not is_url and suffix not in (*_SQLITE, *_JOURNAL):
        raise TunerError(
            f"{text!r} is no storage for Optuna's studies; give a URL such as sqlite:///study.db, or a path that ends in"
            f" {', '.join(_SQLITE)} (SQLite) or in {' or '.join(_JOURNAL)} (journal)"
        )
    folder = path.absolute().parent
    if not folder.is_dir():
        raise TunerError(
            f"Optuna's storage {str(path)!r} cannot be made: the folder {str(path.parent)!r} does not exist"
        )
    if not path.exists() and not os.access(folder, os.W_OK | os.X_OK):
        raise TunerError(
            f"Optuna's storage {str(path)!r} cannot be made: {str(path.parent)!r} cannot be written; choose another folder"
        )
    if path.is_file() and (is_url or suffix in _SQLITE):
        _check_tables(path)
    return path


def _check_tables(path: Path) -> None:
    """Refuse a tuning database, whose notes of versions Optuna would take for its own, and any file that another program uses."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)) as connection:
            found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    except sqlite3.Error:
        return  # what is wrong with it is said when it is opened
    if found and "studies" not in found:
        owner = "a tuning database" if {"workloads", "records"} <= found else "a database of another program"
        raise TunerError(
            f"{str(path)!r} is {owner}; give Optuna's studies a file of their own, such as study.db"
        )


class StudyWriter:
    """Writes the records of one kernel on one target into a study of its own, each candidate once.

    Args:
        storage: what :func:`open_storage` gives.
        task: the kernel's name, for people.
        workload, target: what the records are of; a target as they tell it.
        structures: what explains their traces.
        objectives: whose values are the trials'.
        study_name: begins the study's name.

    Raises:
        TunerError: the storage has the study with other objectives.
    """

    def __init__(
        self,
        storage: Any,
        task: str,
        workload: Workload,
        target: Target,
        structures: Structures,
        objectives: Sequence[str] = ("time",),
        study_name: str = "",
    ) -> None:
        self._workload, self._target, self._structures = workload, target, structures
        self.objectives = checked_objectives(objectives)
        self.study = self._open(storage, task, study_name)
        self._known = {trial.user_attrs.get(_CANDIDATE) for trial in self.study.get_trials(deepcopy=False)}

    def _open(self, storage: Any, task: str, study_name: str) -> Any:
        """The study, made when missing; it is found by workload and target, whatever the task was called before."""
        optuna = import_optuna()
        place = f"{study_name} {self._workload.shash} {recorded_key(self._target)}"
        digest = hashlib.sha256(place.encode()).hexdigest()[:8]
        with quiet():
            for name in optuna.get_all_study_names(storage):
                if name.endswith(f" [{digest}]"):
                    study = optuna.load_study(study_name=name, storage=storage)
                    self._check(study)
                    return study
            study = optuna.create_study(
                storage=storage,
                study_name=" ".join([*filter(None, [study_name]), task, f"[{digest}]"]),
                directions=["minimize"] * len(self.objectives),
            )
            study.set_metric_names([f"{name} ({UNITS[name]})" for name in self.objectives])
        study.set_user_attr("task", task)
        study.set_user_attr("objectives", list(self.objectives))
        study.set_user_attr("workload", self._workload.shash)
        study.set_user_attr("target", str(self._target))
        return study

    def _check(self, study: Any) -> None:
        found = tuple(study.user_attrs.get("objectives", ()))
        if found != self.objectives:
            raise TunerError(
                f"Optuna's study {study.study_name!r} holds the objectives {', '.join(found) or 'of something else'}, not"
                f" {', '.join(self.objectives)}; use another storage, or a study_name to begin the names with"
            )

    def write(self, records: Sequence[TuningRecord]) -> int:
        """Add those candidates that the study does not have yet, in order; how many were added.

        Of a candidate that was measured again the newest record counts. A candidate that ran and has no measure of one of the objectives
        is left out. A trial of Optuna's never changes, so that what is found later about a candidate is in the tuning database only.
        """
        fresh: dict[str, TuningRecord] = {}
        for record in standing(records):
            key = hashlib.sha256(record.trace_key.encode()).hexdigest()[:16]
            is_known = all(name == "time" or name in record.metrics for name in self.objectives)
            if key not in self._known and (is_known or not record.is_valid()):
                fresh.setdefault(key, record)
        rows = {
            id(record): (number, row)
            for record, number, row in explained(list(fresh.values()), self._structures)
        }
        names = structure_names(self._structures.known)
        trials = [self._trial(key, record, rows.get(id(record)), names) for key, record in fresh.items()]
        self.study.add_trials(trials)
        self._known.update(fresh)
        return len(trials)

    def _trial(
        self, key: str, record: TuningRecord, place: tuple[int, Any] | None, names: Sequence[str]
    ) -> Any:
        optuna = import_optuna()
        params: dict[str, Any] = {}
        distributions: dict[str, Any] = {}
        attributes: dict[str, Any] = {}
        if place is not None:
            number, row = place
            params, distributions = readable(self._structures.known[number], row, names[number])
            if self._structures.is_complete:
                params[STRUCTURE] = names[number]
                distributions[STRUCTURE] = optuna.distributions.CategoricalDistribution(names)
            else:  # a parameter's choices may not grow
                attributes[STRUCTURE] = names[number]
        attributes |= {
            _CANDIDATE: key,
            "trace": str(record.readable_trace or record.trace_json),
            "verified": record.verified,
            "cut": record.cut,
            **record.metrics,
        }
        values = None
        if record.is_valid():
            values = objective_values(self.objectives, record.secs, record.metrics)
        else:
            attributes |= {
                "failure_kind": record.failure_kind,
                "failure_message": record.failure_message or "",
            }
        trial = optuna.trial.create_trial(
            state=optuna.trial.TrialState.FAIL if values is None else optuna.trial.TrialState.COMPLETE,
            values=values,
            params=params,
            distributions=distributions,
            user_attrs=attributes,
        )
        trial.datetime_start = trial.datetime_complete = datetime.fromtimestamp(record.created_at)
        return trial
