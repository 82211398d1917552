"""OptunaExport: shows a search, whatever strategy it has, as Optuna studies while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from database.target_key import explicit_target
from runners.measure import MeasureResult

from ..search.base import MeasureCandidate
from ..search.optuna_storage import StudyWriter, is_new_file, open_storage
from ..state import TaskState, TuningRun
from .base import MeasureCallback


class OptunaExport(MeasureCallback):
    """Writes each candidate as a finished trial into an Optuna storage, batch by batch, one study for each task.

    What the database has of earlier sessions is written first; a candidate that the storage has already is not written again. So
    ``optuna-dashboard sqlite:///study.db`` shows the search live, and a search that goes on goes on there, too.

    Args:
        storage: a URL, a path, ``:memory:`` or a storage; see :func:`tuner.search.optuna_storage.open_storage`. A file is made when the
            search begins.
        study_name: begins the name of each study, which goes on with the name of the task.

    Raises:
        TunerError: Optuna is not installed, or the storage cannot be opened.
    """

    def __init__(self, storage: Any, study_name: str = "") -> None:
        self._where = storage if is_new_file(storage) else open_storage(storage)
        self._study_name = study_name
        self._writers: list[StudyWriter] = []
        self._read: list[int] = []
        """Records of each task that were looked at."""

    @cached_property
    def storage(self) -> Any:
        """Optuna's storage."""
        return open_storage(self._where)

    @property
    def studies(self) -> list[Any]:
        """Optuna's studies, in the order of the tasks."""
        return [writer.study for writer in self._writers]

    def start(self, task_scheduler: TuningRun) -> None:
        self._writers = [self._writer(task) for task in task_scheduler.tasks]
        self._read = [0] * len(self._writers)
        self._write_all(task_scheduler)

    def apply(
        self,
        task_scheduler: TuningRun,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        results: Sequence[MeasureResult],
    ) -> None:
        self._write(task_scheduler, task_id)

    def finish(self, task_scheduler: TuningRun) -> None:
        # Of a batch that Ctrl-C ended some trials are in the database.
        self._write_all(task_scheduler)

    def _writer(self, task: TaskState) -> StudyWriter:
        context = task.context
        return StudyWriter(
            self.storage,
            context.task_name,
            task.workload,
            explicit_target(context.target),
            context.structures(),
            task.strategy.objectives,
            self._study_name,
        )

    def _write_all(self, task_scheduler: TuningRun) -> None:
        for task_id in range(len(self._writers)):
            self._write(task_scheduler, task_id)

    def _write(self, task_scheduler: TuningRun, task_id: int) -> None:
        """All that is new; the database is asked, so that there is one account of what was measured."""
        task = task_scheduler.tasks[task_id]
        records = task_scheduler.database.get_records(task.workload, task.context.target, self._read[task_id])
        self._read[task_id] += len(records)
        self._writers[task_id].write(records)
