"""What the records and workloads of older versions have in the columns that migration 0006 adds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from database.damage import DAMAGE, read_json, sound
from database.duplicates import FIRST, key_of_saying
from database.record import WRONG_RESULT, hash_of_trace
from database.workload import WorkloadSummary
from database.workload_features import WorkloadFeatures
from ir.json_format import load_json
from ir.time_interval import median_secs


def describe_workload(connection: sa.Connection, workload: int) -> None:
    """Fill in the features of a workload; one of which nothing can be read has none."""
    query = sa.text("SELECT CAST(summary AS TEXT), module FROM workloads WHERE id = :workload")
    summary_text, module = connection.execute(query, {"workload": workload}).one()
    try:
        summary = WorkloadSummary.from_json(sound(read_json(summary_text)))
    except DAMAGE:
        try:
            summary = WorkloadSummary.of(load_json(module))
        except DAMAGE:
            return
    found = WorkloadFeatures(summary)
    connection.execute(
        sa.text(
            "UPDATE workloads SET kernel = :kernel, family = :family, arguments = :arguments WHERE id = :workload"
        ),
        {
            "kernel": found.kernel,
            "family": found.family,
            "arguments": len(summary.args),
            "workload": workload,
        },
    )
    rows: list[dict[str, Any]] = [
        *({"name": name, "text": text, "number": None} for name, text in found.fields.items()),
        *({"name": name, "text": None, "number": number} for name, number in found.doublings.items()),
    ]
    if rows:
        connection.execute(
            sa.text("INSERT INTO workload_features VALUES (:workload, :name, :text, :number)"),
            [{"workload": workload, **row} for row in rows],
        )


@dataclass
class _Row:
    """What a record of older versions becomes."""

    row: int
    place: tuple[int | None, str]
    """Target and hash of the trace."""
    remeasured: bool
    is_wrong: bool
    created_at: float
    saying: str
    mean_secs: float | None
    measurement: str = FIRST
    superseded: bool = False


def tell_apart(connection: sa.Connection, workload: int) -> None:
    """Fill in the new columns of the records of a workload."""
    rows = list(_rows(connection, workload))
    known: set[tuple[Any, ...]] = set()
    decisive: dict[tuple[Any, ...], _Row] = {}
    twice = []
    for item in rows:
        item.measurement = item.saying if item.remeasured or (*item.place, FIRST) in known else FIRST
        # The first one's saying is known, too: what is there twice in every respect has that.
        keys = {(*item.place, item.measurement), (*item.place, item.saying, item.remeasured)}
        if keys & known:
            twice.append(item)
            continue
        known |= keys
        if item.remeasured or item.is_wrong:
            standing = decisive.setdefault(item.place, item)
            if (standing.is_wrong, standing.created_at) <= (item.is_wrong, item.created_at):
                decisive[item.place] = item
    for item in rows:
        item.superseded = decisive.get(item.place, item) is not item
    left = {item.row for item in twice}
    changes = [
        {
            "row": item.row,
            "trace_hash": item.place[1],
            "measurement": item.measurement,
            "superseded": item.superseded,
            "mean_secs": item.mean_secs,
        }
        for item in rows
        if item.row not in left
    ]
    if left:
        connection.execute(sa.text("DELETE FROM records WHERE id = :row"), [{"row": row} for row in left])
    if changes:
        connection.execute(
            sa.text(
                "UPDATE records SET trace_hash = :trace_hash, measurement = :measurement, superseded = :superseded,"
                " mean_secs = :mean_secs WHERE id = :row"
            ),
            changes,
        )


def _rows(connection: sa.Connection, workload: int) -> Iterator[_Row]:
    query = sa.text(
        "SELECT id, target_id, CAST(trace AS TEXT), CAST(details AS TEXT), remeasured, verified, cut, failure_kind, created_at,"
        " session_id, mean_secs FROM records WHERE workload_id = :workload ORDER BY id"
    )
    options = {"stream_results": True, "yield_per": 500}  # traces are long: not all of them at a time
    for (
        row,
        target,
        trace,
        details,
        remeasured,
        verified,
        cut,
        failure,
        created,
        session,
        mean_secs,
    ) in connection.execute(query, {"workload": workload}, execution_options=options):
        try:
            trace_hash = hash_of_trace(sound(read_json(trace)))
        except DAMAGE:
            trace_hash = _digest(str(trace))
        try:
            run_secs = sound(read_json(details))["run_secs"]
            run_secs = None if run_secs is None else [float(item) for item in run_secs]
            # Early versions kept the mean of the repeats here; records are compared by their median.
            secs = median_secs(run_secs)
            mean_secs = secs if failure is None and 0.0 < secs < float("inf") else None
            saying = key_of_saying(
                created, run_secs, failure, verified=bool(verified), cut=bool(cut), session_id=session
            )
        except DAMAGE:
            saying = _digest(f"damaged row {row}")
        yield _Row(
            row, (target, trace_hash), bool(remeasured), failure == WRONG_RESULT, created, saying, mean_secs
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]
