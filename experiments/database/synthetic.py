"""A database as years of tuning leave it, written by bulk insertion past the classes that would take an hour for it.

Sessions of twenty kernels measure in batches of 64 on one of two targets. Kernels are real programs (products, chains of elementwise
operators, reductions) in many shapes; traces are those of real candidates of one product, with decisions of their own.
"""

from __future__ import annotations

import hashlib
import json
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sqlalchemy.engine import make_url

from database import SQLDatabase, TuningRecord, Workload
from database.duplicates import key_of_saying
from database.workload_features import WorkloadFeatures
from ir import te, tir
from ir.target import Target
from ir.tir import PrimFunc

TARGETS = [Target("llvm -mcpu=znver4 -num-cores=2"), Target("llvm -mcpu=znver4 -num-cores=64")]
_BATCH, _KERNELS = 64, 20
_REAL = 128
"""Extents of the product whose traces are real."""
_SHAPES = [
    8,
    12,
    16,
    24,
    32,
    48,
    64,
    96,
    128,
    160,
    192,
    256,
    320,
    384,
    512,
    640,
    768,
    1024,
    1536,
    2048,
    3072,
    4096,
]


def product(n: int, m: int, depth: int) -> PrimFunc:
    """A product of two matrices."""
    a, b = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), name="k")
    return te.create_prim_func(
        [a, b, te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]
    )


def bounded(n: int, m: int, depth: int) -> PrimFunc:
    """Elementwise operators over three axes."""
    a, b = te.placeholder((n, m, depth), name="A"), te.placeholder((depth,), name="B")
    added = te.compute((n, m, depth), lambda i, j, k: a[i, j, k] + b[k], name="T_add")
    zero = tir.const(0.0, "float32")
    return te.create_prim_func(
        [a, b, te.compute((n, m, depth), lambda *i: tir.max(added[i], zero), name="T_relu")]
    )


def mean(n: int, m: int, depth: int) -> PrimFunc:
    """A sum over the last of three axes."""
    a, k = te.placeholder((n, m, depth), name="A"), te.reduce_axis((0, depth), name="k")
    return te.create_prim_func([a, te.compute((n, m), lambda i, j: te.sum(a[i, j, k], axis=k), name="T_sum")])


KINDS = [product, bounded, mean]


def programs(count: int, seed: int = 0) -> Iterator[PrimFunc]:
    """So many different programs, without the one whose traces are real."""
    generator = random.Random(seed)
    known = {(KINDS.index(product), _REAL, _REAL, _REAL)}
    while len(known) <= count:
        kind = generator.randrange(len(KINDS))
        n, m, depth = (generator.choice(_SHAPES) for _ in range(3))
        if (kind, n, m, depth) not in known:
            known.add((kind, n, m, depth))
            yield KINDS[kind](n, m, depth)


def real_traces(count: int) -> tuple[PrimFunc, list[Any]]:
    """A product, and the traces of so many of its candidates in their JSON form."""
    from tuner import TuneContext

    func = product(_REAL, _REAL, _REAL)
    sketch = TuneContext(func, TARGETS[0]).sketches()[0]
    rows = np.unique(sketch.sample(4 * count, np.random.default_rng(0)), axis=0)[:count]
    return func, [sketch.trace_of(row).as_json() for row in rows]


def fill(url: str, records: int, workloads: int) -> dict[str, float]:
    """Make a database; seconds and records.

    The first workload is the product whose traces are real; one in three hundred records is of it. One record in fifty is a second
    measurement, one in ten a failure.
    """
    begin = time.monotonic()
    database = SQLDatabase(url)
    func, traces = real_traces(200)
    entry = database.commit_workload(func)
    for number, target in enumerate(TARGETS):
        database.commit_tuning_record(
            TuningRecord(None, entry, [1.0 + number], target, trace_json=traces[number], verified=True)
        )
    on_server = make_url(url).get_backend_name() == "postgresql"
    load = _copy_to_server if on_server else _insert
    made = [Workload(item) for item in programs(workloads - 1)]
    load(database, "workloads", _WORKLOAD, (_workload(row, item) for row, item in enumerate(made, 2)))
    features = (values for row, item in enumerate(made, 2) for values in _features(row, item))
    load(database, "workload_features", _FEATURE, features)
    load(database, "records", _RECORD, _records(workloads, traces, records - len(TARGETS)))
    database.close()
    return {"seconds": time.monotonic() - begin, "records": records, "workloads": workloads}


_WORKLOAD = ("id", "shash", "name", "summary", "module", "created_at", "kernel", "family", "arguments")
_FEATURE = ("workload_id", "name", "text", "number")
_RECORD = (
    *("workload_id", "target_id", "session_id", "mean_secs", "verified", "cut", "remeasured", "failure_kind"),
    *("created_at", "trace", "trace_hash", "measurement", "details", "superseded"),
)


def _workload(row: int, item: Workload) -> tuple[Any, ...]:
    features, summary = WorkloadFeatures(item.summary), item.summary
    text = json.dumps(summary.as_json())
    alike = features.kernel, features.family, len(summary.args)
    return row, item.shash, summary.name, text, item.module_json, 1.7e9, *alike


def _features(row: int, item: Workload) -> Iterator[tuple[Any, ...]]:
    features = WorkloadFeatures(item.summary)
    yield from ((row, name, text, None) for name, text in features.fields.items())
    yield from ((row, name, None, number) for name, number in features.doublings.items())


def _records(workloads: int, traces: list[Any], count: int) -> Iterator[tuple[Any, ...]]:
    """Records session by session, of twenty kernels each."""
    generator = random.Random(1)
    texts = [json.dumps(trace) for trace in traces]
    used = [0] * workloads
    made = session = 0
    while made < count:
        kernels = [generator.randrange(workloads) for _ in range(_KERNELS)]
        target = session % len(TARGETS)
        for kernel in [*kernels, *([0] if session % 16 == 0 else [])]:
            for _ in range(min(_BATCH, count - made)):
                used[kernel] += 1
                made += 1
                # Of the first kernel they are real as far as they go; later ones differ from them in a decision.
                text = texts[(used[kernel] + 1) % len(texts)]
                if kernel or used[kernel] + 1 >= len(texts):
                    text = f"{text[:-2]}, [{used[kernel]}, [{kernel}]]]]"
                yield _record(kernel, target, text, used[kernel], made, generator)
        session += 1


def _record(
    kernel: int, target: int, trace: str, number: int, made: int, generator: random.Random
) -> tuple[Any, ...]:
    run_secs = None if generator.random() < 0.1 else [1e-3 * (1.0 + generator.random()) for _ in range(5)]
    failure = "crash" if run_secs is None else None
    again, ran, session = (
        run_secs is not None and number % 50 == 0,
        run_secs is not None,
        f"{made // 2000:032d}",
    )
    details = {
        "run_secs": run_secs,
        "args_info": None,
        "failure_message": failure,
        "metrics": {"code_size": 4096.0},
        "fingerprint": {"machine": "x86_64", "cpu": "AMD EPYC", "cores": 2 + 62 * target, "l2": 1048576},
        "versions": {"loopsmith": "0.1", "python": "3.11", "numpy": "2.4"},
    }
    created, key = 1.7e9 + made, ""
    if again:
        key = key_of_saying(created, run_secs, failure, verified=ran, cut=False, session_id=session)
    return (
        *(kernel + 1, target + 1, session, None if run_secs is None else statistics.median(run_secs)),
        *(ran, False, again, failure, created, trace, hashlib.sha256(trace.encode()).hexdigest()[:32]),
        *(key, json.dumps(details), False),
    )


def _insert(database: SQLDatabase, table: str, names: Sequence[str], rows: Iterator[tuple[Any, ...]]) -> None:
    import sqlite3

    connection = sqlite3.connect(database.url.database or "")
    places = ", ".join("?" * len(names))
    with connection:
        connection.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({places})", rows)
    connection.close()


def _copy_to_server(
    database: SQLDatabase, table: str, names: Sequence[str], rows: Iterator[tuple[Any, ...]]
) -> None:
    import psycopg

    url = database.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url) as connection:
        with connection.cursor().copy(f"COPY {table} ({', '.join(names)}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        if "id" in names:
            connection.execute(f"SELECT setval('{table}_id_seq', (SELECT max(id) FROM {table}))")
        connection.commit()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ANALYZE {table}")
