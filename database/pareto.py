"""Several objectives at once: which records no other record beats in all of them.

A record's time is always there; other measures (``code_size``, ``memory``, ``energy``) are in its ``metrics`` where builder or
runner measured them. All are the smaller the better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .error import DatabaseError
from .record import TuningRecord, by_speed

UNITS = {"time": "s", "code_size": "bytes", "memory": "bytes", "energy": "J"}
"""What a search can minimize, with its unit: seconds of one call, bytes of machine code, bytes of scratch memory that exist at a
time in a call, and joules of one call."""


def checked_objectives(names: Sequence[str]) -> tuple[str, ...]:
    """The names of objectives.

    Raises:
        DatabaseError: there are none, one is unknown, or one comes twice.
    """
    for name in () if isinstance(names, str) else names:
        if name not in UNITS:
            raise DatabaseError(f"unknown objective {name!r}; there are {', '.join(UNITS)}")
    if isinstance(names, str) or not names or len(set(names)) < len(names):
        raise DatabaseError(f"objectives are different names in a sequence, such as ('time',), got {names!r}")
    return tuple(names)


def objective_values(objectives: Sequence[str], secs: float, metrics: Mapping[str, float]) -> list[float]:
    """The values of objectives in their units.

    Args:
        objectives: names.
        secs: the time.
        metrics: the other measures by name.

    Raises:
        DatabaseError: one of them was not measured.
    """
    missing = [name for name in objectives if name != "time" and name not in metrics]
    if missing:
        raise DatabaseError(
            f"{', '.join(missing)} was not measured; there is {', '.join(['time', *metrics])}. LocalBuilder measures code_size and"
            " memory, LocalRunner(measure_energy=True) measures energy"
        )
    return [secs if name == "time" else float(metrics[name]) for name in objectives]


def domination_counts(values: np.ndarray) -> np.ndarray:
    """By how many others each is dominated: they are nowhere larger and somewhere smaller.

    Args:
        values: float64 [N, objectives]; smaller is better.

    Returns:
        int64 [N]; 0 for the Pareto front. Of a single objective it is the number of smaller ones.

    >>> domination_counts(np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 4.0]])).tolist()
    [0, 0, 2]
    """
    counts = np.zeros(len(values), dtype=np.int64)
    for other in values:
        counts += (other <= values).all(axis=1) & (other < values).any(axis=1)
    return counts


def pareto_front(
    records: Sequence[TuningRecord], objectives: Sequence[str] = ("time", "code_size")
) -> list[TuningRecord]:
    """The records of one workload and target that no other beats in all objectives, by the first objective.

    Only candidates that ran, stand and were measured in full count, of equal ones the first; ``record.schedule()`` is the schedule::

        front = pareto_front(database.get_records(workload, target), ("time", "code_size"))
        schedules = [record.schedule() for record in front]

    Raises:
        DatabaseError: an objective is unknown, or a record has no measure of it.
    """
    names = checked_objectives(objectives)
    found = [record for record in by_speed(records) if not record.cut]
    values = np.array([objective_values(names, item.secs, item.metrics) for item in found])
    if not found:
        return []
    front: dict[tuple[float, ...], TuningRecord] = {}
    for position in np.flatnonzero(domination_counts(values) == 0):
        front.setdefault(tuple(values[position]), found[position])
    return [front[key] for key in sorted(front)]
