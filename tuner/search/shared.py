"""One database, several tuners: what the others have measured, and whose turn it is with a candidate.

A candidate that has a record is not measured again, whoever made the record and whenever. One that another tuner is measuring at this
moment is claimed in the database, and left to that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np

from database import Database, TuningRecord
from database.claim_owner import new_owner
from schedules.population import Sketch
from schedules.space import Structures

from ..context import TuneContext
from .records import MeasuredRow, measured_rows


class SharedDatabase:
    """A search's view of the database that it shares with others.

    Args:
        database: where all of them read and write.
        context: the task.
        structures: of its design space.
    """

    def __init__(self, database: Database, context: TuneContext, structures: Structures) -> None:
        self._database, self._target, self._structures = database, context.target, structures
        self.workload = database.commit_workload(context.mod)
        self._owner = new_owner()
        self._read = 0
        """Records read so far."""
        self._unread: list[TuningRecord] = []
        """Those of them that nobody was told of yet."""

    def news(self) -> list[MeasuredRow]:
        """What has been committed for this workload and target since the last call, this search's own results included."""
        return measured_rows(self.records(), self._structures)

    def records(self) -> list[TuningRecord]:
        """The records behind :meth:`news`, for searches that ask for more than the time; of both, one is called."""
        self._read_on()
        found, self._unread = self._unread, []
        return found

    def _read_on(self) -> None:
        records = self._database.get_records(self.workload, self._target, self._read)
        self._read += len(records)
        self._unread += records

    def claim(self, candidates: Sequence[tuple[int, np.ndarray]]) -> list[bool]:
        """Which of the candidates, (number of the sketch, decisions), this search may measure."""
        keys = [key_of(self._structures.known[number], row) for number, row in candidates]
        granted = self._database.claim(self.workload, self._target, keys, self._owner)
        # Another may have measured one since the news were read, and have given up its claim: its record came before that.
        self._read_on()
        known = {(item.number, item.row.tobytes()) for item in measured_rows(self._unread, self._structures)}
        return [
            own and (number, row.tobytes()) not in known
            for own, (number, row) in zip(granted, candidates, strict=True)
        ]

    def release(self) -> None:
        """Nothing is being measured any more."""
        self._database.release(self._owner)


def key_of(sketch: Sketch, row: np.ndarray) -> str:
    """A hash of a candidate's trace before postprocessing, equal in all processes."""
    text = json.dumps(sketch.trace_of(row).as_json(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
