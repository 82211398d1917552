"""``loopsmith db rm``, ``prune`` and ``gc``: what a database needs no longer."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from database import Database, TuningRecord, open_database, open_for_writing
from database.secrets import masked
from ir.time_interval import milliseconds

from ...error import TunerError
from ...names import target_text
from ..console import out, print_json
from ..options import JsonOption
from .kernels import ID_CHARACTERS, Kernel, chosen_kernel, chosen_records, kernels_of, one_by_one
from .output import Path_, count_of, print_table

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Remove without asking.")]

_SHOWN = 20
"""So many candidates are listed; the others are counted."""
_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0}


def remove(
    path: Path_,
    ids: Annotated[
        list[str] | None, typer.Argument(help="Beginnings of records' ids, as `db top` shows them.")
    ] = None,
    kernel: Annotated[
        list[str], typer.Option(help="Number or name of a kernel of which all records go.")
    ] = [],  # noqa: B006  typer copies it
    session: Annotated[list[str], typer.Option(help="Id of a session of which all records go.")] = [],  # noqa: B006
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: JsonOption = False,
) -> None:
    """Remove records, by their ids, of a kernel, or of a session.

    A candidate goes with all that was measured of it: the search may propose it again, and a wrong result does not come back as a good one.

    Example: loopsmith db rm tuning.db 3f2a91c0 77ab01de

    Example: loopsmith db rm tuning.db --kernel fused_conv2d_relu --dry-run
    """
    if not (ids or kernel or session):
        raise TunerError("say which records: ids of `loopsmith db top`, --kernel or --session")
    store = open_database(path, must_exist=True)
    kernels = kernels_of(store)
    chosen = [record for _, record in chosen_records(store, kernels, ids or [])]
    for item in kernel:
        chosen += chosen_kernel(kernels, item).records
    if session:
        measured = [record for record in store.stream_records() if record.session_id in session]
        for item in set(session) - {record.session_id for record in measured}:
            raise TunerError(
                f"no record is of a session {item!r}; `loopsmith db history --json` has their ids"
            )
        chosen += measured
    _remove(path, kernels, chosen, dry_run=dry_run, yes=yes, as_json=as_json)


def prune(
    path: Path_,
    keep: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Keep so many of the best candidates of each kernel and target that apply, and remove the others that ran.",
        ),
    ] = None,
    failures: Annotated[bool, typer.Option("--failures", help="Remove candidates that failed.")] = False,
    older_than: Annotated[
        str | None,
        typer.Option(
            help="Remove only what was measured longer ago: 12h, 30d or 8w. Alone: all that is so old."
        ),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: JsonOption = False,
) -> None:
    """Remove what builds do not need: candidates behind the best, failures, what is old.

    Searches learn from all records: a pruned database tunes on with less knowledge. `db export --pruned` makes a small copy instead.

    Example: loopsmith db prune tuning.db --keep 10 --failures --dry-run

    Example: loopsmith db prune tuning.db --failures --older-than 30d --yes
    """
    if keep is None and not failures and older_than is None:
        raise TunerError("say what goes: --keep 10, --failures, --older-than 30d, or several of them")
    before = None if older_than is None else time.time() - _seconds(older_than)
    store = open_database(path, must_exist=True)
    kernels = kernels_of(store)
    chosen = [record for item in one_by_one(kernels) for record in _pruned(item, keep, failures, before)]
    _remove(path, kernels, chosen, dry_run=dry_run, yes=yes, as_json=as_json)


def collect_garbage(path: Path_, dry_run: DryRun = False, as_json: JsonOption = False) -> None:
    """Remove kernels without records, and give the room of removed records back to the system.

    Kernels of a search that may be running are kept. A JSON database is written anew: whoever has it open is told to open it again.

    Example: loopsmith db gc tuning.db
    """
    store = open_database(path, must_exist=True)
    unused = _unused(store) if dry_run else []
    count = len(unused) if dry_run else open_for_writing(path).compact()
    if as_json:
        print_json({"kernels": count, "dry_run": dry_run})
    elif dry_run:
        out.print(f"{count_of(count, 'kernel')} without records would go: {_names(unused)}")
    else:
        out.print(f"removed {count_of(count, 'kernel')} without records from {masked(path)}")


def _unused(store: Database) -> list[Kernel]:
    used = {record.workload.shash for record in store.stream_records()}
    return [item for item in kernels_of(store) if item.workload.shash not in used]


def _names(kernels: Sequence[Kernel]) -> str:
    shown = ", ".join(item.name for item in kernels[:_SHOWN]) or "none"
    return shown + (f" and {len(kernels) - _SHOWN} more" if len(kernels) > _SHOWN else "")


def _pruned(kernel: Kernel, keep: int | None, failures: bool, before: float | None) -> list[TuningRecord]:
    """The records of a kernel that go, by candidates as a whole."""
    ran = {record.candidate for record in kernel.ranked}
    best = _best(kernel, keep or 0)
    newest: dict[tuple[str, str, str], float] = {}
    for record in kernel.records:
        newest[record.candidate] = max(newest.get(record.candidate, 0.0), record.created_at)
    takes_all = keep is None and not failures
    gone = {
        item
        for item, measured in newest.items()
        if (before is None or measured < before)
        and (takes_all or (keep is not None and item in ran - best) or (failures and item not in ran))
    }
    return [record for record in kernel.records if record.candidate in gone]


def _best(kernel: Kernel, keep: int) -> set[tuple[str, str, str]]:
    """So many of the best candidates of each target of a kernel, of those that apply; and those that only another version can judge."""
    kept: dict[tuple[str, str], set[tuple[str, str, str]]] = {}
    others = set()
    for record in kernel.ranked:
        found = kept.setdefault(record.place, set())
        if record.readable_trace is None:
            others.add(record.candidate)
        elif len(found) < keep and record.applies():
            found.add(record.candidate)
    return others.union(*kept.values())


def _seconds(text: str) -> float:
    """Seconds of ``12h``, ``30d`` or ``8w``.

    Raises:
        TunerError: it is something else.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([hdw])\s*", text)
    if match is None:
        raise TunerError(f"--older-than {text!r} is no age; write hours (12h), days (30d) or weeks (8w)")
    return float(match.group(1)) * _DAYS[match.group(2)] * 86400.0


def _remove(
    path: str,
    kernels: Sequence[Kernel],
    chosen: Sequence[TuningRecord],
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Show what goes, ask, and remove it."""
    candidates = {record.candidate: record for record in chosen}
    hashes = {record.workload.shash for record in chosen}
    touched = [item for item in kernels if item.workload.shash in hashes]
    affected = [record for item in touched for record in item.records if record.candidate in candidates]
    without = [
        item for item in touched
        if item.ranked and all(record.candidate in candidates for record in item.ranked)
    ]  # fmt: skip
    if not as_json:
        _show(kernels, list(candidates.values()))
        for item in without:
            out.print(
                f"{item.name} has no record of a candidate that ran afterwards: builds give it the default schedule"
            )
    says = f"{count_of(len(affected), 'record')} of {count_of(len(candidates), 'candidate')}"
    removed = 0
    if not dry_run and affected:
        if not yes:
            _ask(f"remove {says} from {masked(path)}?")
        removed = open_for_writing(path).remove_records(list(candidates.values()))
    if as_json:
        ids = [record.digest for record in affected]
        print_json({"records": ids, "removed": removed, "dry_run": dry_run})
    elif dry_run or not affected:
        out.print(f"{says} would go; nothing was removed" if affected else "nothing is to be removed")
    else:
        out.print(f"removed {count_of(removed, 'record')}; `loopsmith db gc` gives their room back")


def _show(kernels: Sequence[Kernel], chosen: Sequence[TuningRecord]) -> None:
    if not chosen:
        return
    names = {item.workload.shash: f"#{item.number} {item.name}" for item in kernels}
    more = f", of which {_SHOWN} are shown" if len(chosen) > _SHOWN else ""
    print_table(
        f"{count_of(len(chosen), 'candidate')} to be removed{more}",
        ("id", "kernel", "ms", "target"),
        [
            (
                item.digest[:ID_CHARACTERS],
                names[item.workload.shash],
                milliseconds(item.secs) if item.is_valid() else str(item.failure_kind or "no time"),
                target_text(item.target),
            )
            for item in chosen[:_SHOWN]
        ],
    )


def _ask(question: str) -> None:
    """Go on only where somebody agrees.

    Raises:
        TunerError: nobody is there, or does not agree.
    """
    if not sys.stdin.isatty():
        raise TunerError(
            "nobody can be asked here; --dry-run shows what would go, --yes removes it without asking"
        )
    if not typer.confirm(question):
        raise TunerError("nothing was removed")
