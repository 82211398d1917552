"""``loopsmith db show``: all that one record says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from database import Database, Session, TuningRecord, open_database, standing
from database.secrets import masked
from ir.time_interval import milliseconds

from ...names import target_text
from ..console import out, print_json
from ..options import JsonOption
from .kernels import Kernel, chosen_records, kernels_of, program_text, trace_text
from .output import Path_, date_text


def show(
    path: Path_,
    record: Annotated[
        str,
        typer.Argument(
            help="The beginning of a record's id, as `db top` shows it; or the number or name of a kernel, for its best record."
        ),
    ],
    programs: Annotated[bool, typer.Option(help="Print the program before and behind the schedule.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Print a record in full: times and noise, hardware, versions, how it was checked, the trace as Python, and both programs.

    Example: loopsmith db show tuning.db 3f2a91c0

    Example: loopsmith db show tuning.db fused_conv2d_relu --no-programs
    """
    store = open_database(path, must_exist=True)
    ((kernel, found),) = chosen_records(store, kernels_of(store), [record])
    before, after = _programs(found) if programs else (None, None)
    if as_json:
        hardware, versions = _circumstances(store, found)
        shown: dict[str, Any] = {"id": found.digest, "kernel": kernel.name, **found.as_json()}
        shown |= {
            "shapes": kernel.shapes,
            "fingerprint": hardware,
            "versions": versions,
            "stands": found in standing(kernel.records),
            "verifications": [_verification(item, found) for item in _verifying(store, found)],
            "python": trace_text(found),
        }
        if programs:
            shown |= {"program": before, "scheduled_program": after}
        print_json(shown)
        return
    for line in _lines(kernel, found, store):
        out.print(line, soft_wrap=True)
    for name, text in (("trace", trace_text(found)), ("program", before), ("scheduled program", after)):
        if text is not None:
            out.print(f"\n# {name}\n{text}", soft_wrap=True)  # lines of a program stay lines


def _lines(kernel: Kernel, found: TuningRecord, store: Database) -> Iterator[str]:
    """What the record says, a line each."""
    yield f"record {found.digest} of #{kernel.number} {kernel.name} ({kernel.shapes})"
    yield f"target: {target_text(found.target)}"
    if found.is_valid():
        interval = found.interval
        noise = (interval.high - interval.middle) / interval.middle
        yield f"time: {milliseconds(found.secs)} ms, give or take {noise:.1%}{', cut: the first call only' if found.cut else ''}"
        yield f"runs: {', '.join(milliseconds(secs) for secs in found.run_secs or ())} ms"
        if kernel.flops:
            yield f"rate: {kernel.flops / found.secs / 1e9:.1f} GFLOP/s"
    else:
        message = found.failure_message or "no message"
        yield f"failed: {found.failure_kind or 'no time'}: {message}"
    for name, value in found.metrics.items():
        yield f"{name}: {value:.6g}"
    yield f"checked: {'its outputs were those of the program' if found.verified else 'no'}"
    for session in _verifying(store, found):
        told = _verification(session, found)
        yield f"verified: {told['outcome']}, {date_text(told['at'])}, by {_named(told['versions'])} on {_named(told['fingerprint'])}"
    yield f"counts: {_counts(kernel, found)}"
    yield f"measured: {date_text(found.created_at)}{', again, in turns with its rivals' if found.remeasured else ''}"
    hardware, versions = _circumstances(store, found)
    yield f"hardware: {_named(hardware)}"
    yield f"versions: {_named(versions)}"
    if (own := _session_of(store, found)) is not None:
        yield f"session: {own.id}, {masked(own.command) or 'no command'}"


def _counts(kernel: Kernel, found: TuningRecord) -> str:
    """Whether builds look at the record, and where it stands."""
    rivals = [item for item in kernel.ranked if item.place == found.place]
    if found in rivals:
        place = f"number {rivals.index(found) + 1} of {len(rivals)} on its target"
        return f"{place}; {'it applies' if found.applies() else 'it does not apply any more, and builds pass it over'}"
    if found.is_valid():
        return "no: a later measurement of the same candidate supersedes it"
    return "no: the candidate failed"


def _session_of(store: Database, found: TuningRecord) -> Session | None:
    """The session that has measured a record, where the database has it."""
    return next((item for item in store.get_sessions() if item.id == found.session_id), None)


def _circumstances(store: Database, found: TuningRecord) -> tuple[dict[str, Any], dict[str, Any]]:
    """Hardware and versions of a measurement: what the record itself says goes before what its session says of all of its records."""
    session = _session_of(store, found)
    if session is None:
        return found.fingerprint, found.versions
    return {**session.fingerprint, **found.fingerprint}, {**session.versions, **found.versions}


def _verifying(store: Database, found: TuningRecord) -> list[Session]:
    """The runs of ``db verify`` that say something of a record."""
    digest = found.digest
    return [session for session in store.get_sessions() if digest in session.verified]


def _verification(session: Session, found: TuningRecord) -> dict[str, Any]:
    return {
        "outcome": session.verified[found.digest],
        "at": session.finished_at or session.started_at,
        "versions": session.versions,
        "fingerprint": session.fingerprint,
    }


def _programs(found: TuningRecord) -> tuple[str, str]:
    """The program before and behind the schedule."""
    before = program_text(lambda: found.workload.mod)
    return before, program_text(lambda: found.schedule_of(found.workload.summary.name).mod)


def _named(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items()) or "unknown"
