"""``loopsmith db export``, ``import``, ``merge`` and ``export-study``: records between databases, files and Optuna."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from database import (
    Database,
    count_records,
    export_records,
    import_records,
    is_record_file,
    open_database,
    open_for_writing,
)
from database.damage import LeftOut
from database.pareto import UNITS
from database.secrets import masked

from ...context import TuneContext
from ...error import TunerError
from ...search.optuna_storage import StudyWriter, open_storage
from ..console import complain, note, out, print_json, renamed
from ..options import JsonOption, objectives_of
from ..output_file import RECORDS, check_apart, check_output
from .kernels import kernels_of, one_by_one
from .output import Path_, count_of

Sources = Annotated[
    list[str], typer.Argument(help=".jsonl files of exported records, or paths or URLs of other databases.")
]


def export(
    path: Path_,
    output: Annotated[Path, typer.Argument(help="The .jsonl file to write.")],
    pruned: Annotated[
        bool, typer.Option(help="Only the best record of each workload and target that applies.")
    ] = False,
) -> None:
    """Write all records to a file, one line each.

    Example: loopsmith db export tuning.db records.jsonl --pruned
    """
    if output.suffix != ".jsonl":  # by which a database of exported records is known wherever one is named
        raise TunerError(
            f"exported records are a .jsonl file; name it {renamed(output, '.jsonl', 'records')}"
        )
    check_output(output, RECORDS)
    check_apart(database=Path(path), exported_records=output)
    count = export_records(open_database(path, must_exist=True), output, pruned=pruned)
    note(f"wrote {count} records to {output}")


def export_study(
    path: Path_,
    storage: Annotated[
        str,
        typer.Argument(help="Optuna's storage: an SQLite file (study.db), a journal (study.log) or a URL."),
    ],
    objectives: Annotated[
        str, typer.Option(help=f"The trials' values, with commas between, of {', '.join(UNITS)}.")
    ] = "time",
) -> None:
    """Write all candidates into Optuna studies, one per kernel and target; those that are there already are skipped.

    Example: loopsmith db export-study tuning.db study.db && optuna-dashboard sqlite:///study.db
    """
    names = objectives_of(objectives)
    store = open_database(path, must_exist=True)
    opened = open_storage(storage)
    added = studies = 0
    for kernel in one_by_one(kernels_of(store)):
        workload, records = kernel.workload, kernel.records
        targets = {item.place[1]: item.target for item in records if item.target is not None}
        for key, target in targets.items():
            structures = TuneContext(workload.mod, target).structures()
            writer = StudyWriter(opened, kernel.name, workload, target, structures, names)
            added += writer.write([item for item in records if item.place[1] == key])
            studies += 1
    out.print(f"added {added} trials to {studies} studies in {masked(storage)}")


def import_(
    path: Path_,
    source: Annotated[
        str, typer.Argument(help="A .jsonl file of exported records, or the path or URL of another database.")
    ],
) -> None:
    """Add the records of a file or of another database; those that are there already are skipped.

    Example: loopsmith db import tuning.db records.jsonl
    """
    out.print(_added(path, source)[1])


def merge(path: Path_, sources: Sources, as_json: JsonOption = False) -> None:
    """Add the records of several files or databases to one; those that are there already are skipped.

    A record that cannot be read is named and left out. A source that cannot be opened is named at once, before anything is added.

    Example: loopsmith db merge team.db alice.db bob.jsonl postgresql+psycopg://user@server/tuning
    """
    for source in sources:
        _opened(source)
    counts = {}
    for source in sources:
        added, says = _added(path, source)
        counts[masked(source)] = added
        if not as_json:
            out.print(says)
    if as_json:
        print_json({"added": counts, "records": len(open_database(path))})
    elif len(sources) > 1:
        out.print(f"{masked(path)} has {count_of(len(open_database(path)), 'record')} now")


def _opened(source: str) -> Path | Database:
    return Path(source) if is_record_file(source) else open_database(source, must_exist=True)


def _added(path: str, source: str) -> tuple[int, str]:
    """Import from one source: how many records are new, and that in words.

    Raises:
        TunerError: it holds no records.
    """
    given, left_out = _opened(source), LeftOut()
    added = import_records(open_for_writing(path), given, left_out)
    count = count_records(given) if isinstance(given, Path) else len(given)
    there = max(0, count - added - left_out.count)
    if not added and not there and isinstance(given, Path) and given.stat().st_size:
        raise TunerError(f"{source} holds no tuning records; give a file that `loopsmith db export` wrote")
    says = f"added {added} records from {masked(source)}" + (f"; {there} were there already" if there else "")
    if left_out.count:
        complain(f"{count_of(left_out.count, 'item')} of {source} cannot be read, and was left out")
    return added, says
