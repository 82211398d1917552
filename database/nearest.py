"""Why a program has no record: the record that comes closest, and what differs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .error import DatabaseError
from .record import TuningRecord, by_speed
from .target_key import TargetLike, explicit_target, target_differences
from .workload import Workload, WorkloadSummary

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which a record's workload or target is not what was asked for."""

    field: str
    """As ``target.num-cores``, ``A.shape`` or ``blocks``."""
    wanted: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.field} is {_show(self.found)} there, {_show(self.wanted)} here"


@dataclass(frozen=True, slots=True)
class NearestRecord:
    """The closest record and all fields in which it differs; it is never applied by itself."""

    record: TuningRecord
    differences: tuple[Difference, ...]

    def explain(self) -> str:
        """One line for a report."""
        if not self.differences:
            return "an equal workload and target (other structure inside the blocks)"
        other = next((item for item in self.differences if item.field == "blocks"), None)
        if other is not None:
            return f"no record of this kernel: it has blocks {_show(other.wanted)}, the nearest that was tuned {_show(other.found)}"
        return "; ".join(str(difference) for difference in self.differences)


def find_nearest(
    wanted: Workload, target: TargetLike, records: Sequence[TuningRecord]
) -> NearestRecord | None:
    """The best record of the workload and target with the fewest differences; of equals of those that came first. Records that do not say
    of what they are are left out.

    The same program on another target beats another program on the same target, and the same kernel on other shapes
    beats another kernel, of whose arguments nothing is compared.

    Args:
        wanted, target: for which there is none.
        records: in the order in which they came, failed candidates included.
    """
    best: tuple[tuple[int, int, int, int], NearestRecord] | None = None
    fastest: dict[tuple[str, str], TuningRecord] = {}
    for record in by_speed(records):
        fastest.setdefault(record.place, record)
    places = dict.fromkeys(record.place for record in records if record.place in fastest)
    for record in map(fastest.__getitem__, places):
        try:
            kernel = (
                ()
                if record.workload.shash == wanted.shash
                else workload_differences(wanted.summary, record.workload.summary)
            )
        except DatabaseError as error:
            _LOG.warning("left out: %s", error)
            continue
        on = tuple(
            Difference(f"target.{name}", here, there)
            for name, here, there in (
                [("", "set", None)]
                if record.target is None
                else target_differences(explicit_target(target), record.target)
            )
        )
        other_program = int(record.workload.shash != wanted.shash)
        other_kernel = int(any(item.field == "blocks" for item in kernel))
        rank = (other_kernel, other_program, 0 if other_kernel else len(kernel), len(on))
        if best is None or rank < best[0]:
            best = (rank, NearestRecord(record, kernel + on))
    return None if best is None else best[1]


def workload_differences(wanted: WorkloadSummary, found: WorkloadSummary) -> tuple[Difference, ...]:
    """The fields in which two workloads differ: blocks, number of arguments, and each argument's dtype and shape."""
    differences: list[Difference] = []
    if wanted.blocks != found.blocks:
        differences.append(Difference("blocks", wanted.blocks, found.blocks))
    if len(wanted.args) != len(found.args):
        differences.append(Difference("number of arguments", len(wanted.args), len(found.args)))
        return tuple(differences)
    for (name, dtype, shape), (_, other_dtype, other_shape) in zip(wanted.args, found.args):
        if dtype != other_dtype:
            differences.append(Difference(f"{name}.dtype", dtype, other_dtype))
        if shape != other_shape:
            differences.append(Difference(f"{name}.shape", shape, other_shape))
    return tuple(differences)


def _show(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(str, value)) + ")"
    return str(value)
