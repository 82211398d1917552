"""``loopsmith db history``: the searches and verifications that a database has seen."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import typer

from database import RIGHT, Session, open_database
from database.secrets import masked

from ..console import print_json
from ..options import JsonOption
from .output import Path_, count_of, date_text, print_table


def history(
    path: Path_,
    count: Annotated[int, typer.Option("-k", min=1, help="How many, the newest.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List tuning sessions, the newest first: when, how long, how many records came, and the command.

    A command of `loopsmith` has no passwords; of a script of your own only its name was kept.

    Example: loopsmith db history tuning.db
    """
    store = open_database(path, must_exist=True)
    sessions = store.get_sessions()[::-1]
    records: Counter[str | None] = Counter()
    failed: Counter[str | None] = Counter()
    for record in store.stream_records():
        records[record.session_id] += 1
        failed[record.session_id] += not record.is_valid()
    shown = sessions[:count]
    if as_json:
        print_json([_described(item, records[item.id], failed[item.id]) for item in shown])
        return
    print_table(
        f"{path}: {count_of(len(sessions), 'session')}",
        ("began", "took", "records", "failed", "kernels", "machine", "loopsmith", "command"),
        [
            (
                date_text(item.started_at),
                _took(item),
                str(records[item.id]),
                str(failed[item.id] + sum(outcome != RIGHT for outcome in item.verified.values())),
                str(len(item.kernels)),
                str(item.fingerprint.get("cpu", "-")),
                str(item.versions.get("loopsmith", "-")),
                masked(item.command) + (f" (verified {len(item.verified)})" if item.verified else ""),
            )
            for item in shown
        ],
    )


def _took(session: Session) -> str:
    """How long a session lasted, as ``1:02:03``; of one that was killed or still runs that it has not ended."""
    if session.finished_at is None:
        return "not ended"
    seconds = round(max(0.0, session.finished_at - session.started_at))
    hours, rest = divmod(seconds, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def _described(session: Session, records: int, failed: int) -> dict[str, Any]:
    return {**session.as_json(), "records": records, "failed": failed}
