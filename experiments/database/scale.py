"""What a question costs in a database of a million records: ``python -m experiments.database.scale make URL``.

``make`` writes a synthetic database (``experiments/database/synthetic.py``) and asks it, ``ask`` times questions on one that is there,
each of another kernel; ``export``, ``import`` and ``merge`` move all of it. Each is a process of its own, whose peak memory is told
beside the time. Results go to ``experiments/results/``, as JSON and as a page.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url

from database import (
    Database,
    MetaScheduleApplyDatabase,
    SQLDatabase,
    Workload,
    export_records,
    import_records,
    kernel_module,
)
from ir import IRModule

from ..harness.results import DEFAULT, Results
from .page import write_page
from .synthetic import TARGETS, bounded, fill, product, programs, real_traces

_ASKED = 200
"""Kernels that each question is asked of."""


def milliseconds(question: Callable[[Any], Any], items: Sequence[Any]) -> dict[str, float]:
    """Median and 95th percentile of the time that a question takes, each of another item, and the median of this process's own.

    The first is left out.
    """
    question(items[0])
    times, own = [], []
    for item in items[1:]:
        begin, own_begin = time.perf_counter(), time.process_time()
        question(item)
        times.append(1e3 * (time.perf_counter() - begin))
        own.append(1e3 * (time.process_time() - own_begin))
    times.sort()
    return {
        "median": statistics.median(times),
        "p95": times[int(0.95 * (len(times) - 1))],
        "cpu": statistics.median(own),
    }


def ask(url: str) -> dict[str, Any]:
    """The times of all questions on a database."""
    target = TARGETS[0]
    with_records = list(programs(_ASKED))
    known = [kernel_module(func) for func in with_records]
    # Of shapes that nobody has tuned, and of a kernel that nobody has tuned.
    missed = [kernel_module(product(7, number, 11)) for number in range(1, 22)]
    workloads = [Workload(mod) for mod in known]
    replayed, _ = real_traces(2)
    begin = time.perf_counter()
    database = SQLDatabase(url, must_exist=True)
    found = {"open": {"median": 1e3 * (time.perf_counter() - begin)}}
    heavy = Workload(kernel_module(replayed))
    found["hash of the program alone"] = milliseconds(Workload, known)
    found["query_tuning_record"] = milliseconds(lambda mod: database.query_tuning_record(mod, target), known)
    found["get_top_k, 5"] = milliseconds(lambda item: database.get_top_k(item, 5), workloads)
    found["fastest_records, 8"] = milliseconds(
        lambda item: database.fastest_records(item, target, 8), workloads
    )
    found["count_trials"] = milliseconds(lambda item: database.count_trials(item, target), workloads)
    found["get_records: what has come since"] = milliseconds(
        lambda item: database.get_records(item, target, 10_000), workloads
    )
    found["get_top_k, 5, of the kernel with most records"] = milliseconds(
        lambda item: database.get_top_k(item, 5), [heavy] * 20
    )
    found["query_schedule, the trace replayed"] = milliseconds(
        lambda mod: database.query_schedule(mod, target), [kernel_module(replayed)] * 10
    )
    found["query_ir_module, the trace replayed"] = milliseconds(
        lambda mod: database.query_ir_module(mod, target), [kernel_module(replayed)] * 10
    )
    record = database.query_tuning_record(kernel_module(replayed), target)
    assert record is not None
    found["replay of that trace alone"] = milliseconds(lambda item: item.schedule(), [record] * 10)
    found["apply, a kernel without a record"] = milliseconds(lambda mod: _apply(mod, database), missed)
    found["nearest_record, the kernel in other shapes"] = milliseconds(
        lambda mod: database.nearest_record(mod, target), missed
    )
    others = [kernel_module(bounded(5, number, 9)) for number in range(1, 12)]
    found["nearest_record, of other targets"] = milliseconds(
        lambda mod: database.nearest_record(mod, "llvm -mcpu=znver4 -num-cores=8"), others
    )
    found["nearest_record, another kernel"] = milliseconds(
        lambda mod: database.nearest_record(mod, target), [_unlike(number) for number in range(1, 12)]
    )
    found["similar_workloads, 4"] = milliseconds(
        lambda item: database.similar_workloads(item, target, 4), [Workload(mod) for mod in missed]
    )
    found["recent_records, 600"] = milliseconds(
        lambda _: database.recent_records(target, 600, without=[heavy]), range(6)
    )
    database.close()
    return {"milliseconds": found, "mib": _peak_mib()}


def _unlike(number: int) -> IRModule:
    from ir import te

    a = te.placeholder((number, 64), name="A")
    return kernel_module(
        te.create_prim_func([a, te.compute((number, 64), lambda i, j: te.exp(a[i, j]), name="E")])
    )


def _apply(mod: IRModule, database: Database) -> IRModule:
    """The look-up of a build; the kernel stays as it is, so that no schedule is made."""
    with TARGETS[0]:
        return MetaScheduleApplyDatabase(database=database, fallback=None)(mod)


def move(url: str, what: str, destination: str) -> dict[str, Any]:
    """Time, records and peak memory of one way to move a whole database."""
    before, begin = _peak_mib(), time.perf_counter()
    if what == "export":
        count = export_records(SQLDatabase(url, must_exist=True), destination)
    else:  # of a file, or of a database
        source = SQLDatabase(url, must_exist=True) if "://" in url else Path(url)
        count = import_records(SQLDatabase(destination), source)
    seconds, cpu = time.perf_counter() - begin, time.process_time()
    return {"seconds": seconds, "cpu": cpu, "records": count, "mib": _peak_mib(), "mib_before": before}


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _measured(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of what was asked for, with their keys."""
    what, url, destination = options.what, options.url, options.destination
    if what in ("make", "ask"):
        kind = make_url(url).get_backend_name()
        if what == "make":
            yield f"make {kind} {options.records}", fill(url, options.records, options.workloads)
        yield f"ask {kind} {options.records}", {**ask(url), "records": options.records}
    elif what != "page":
        ends = [make_url(item).get_backend_name() if "://" in item else "file" for item in (url, destination)]
        row = move(url, what, destination)
        yield f"{what} {' to '.join(ends)} {row['records']}", row


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["make", "ask", "export", "import", "merge", "page"])
    parser.add_argument("url", nargs="?", help="of the database; of an import the file")
    parser.add_argument(
        "destination", nargs="?", default=os.path.join(tempfile.gettempdir(), "records.jsonl")
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--workloads", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=DEFAULT)
    options = parser.parse_args()
    results = Results(options.out, "database")
    for key, row in _measured(options):
        results.add(key, row)
        print(key, row, flush=True)
    write_page(options.out, results.rows)


if __name__ == "__main__":
    _main()
