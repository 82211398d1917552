"""The page of what came of hostile messages; counts of several runs are kept beside it, and added up."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from ..harness.tables import markdown
from .rpc import Report

_TEXT = """# Hostile messages

Made by `python -m experiments.hostile rpc --page experiments/results/hostile_rpc.md`, with `--tls` and without. Runs, by seeds:

{runs}

Messages by call; *in a session* are those with a session's token. Half of the others have none, and are refused before they are looked at.

{calls}

What came of them, beside raw bytes, which get no answer:

{answers}

A message fails that is not answered within 20 seconds, that ends the process or makes it start another one, or after which the log has an
error that no client is told the meaning of.
"""


def publish(report: Report, grown: int, seeds: range, tls: bool, path: Path) -> None:
    """Write the page, and the counts beside it.

    Args:
        report: of a run.
        grown: bytes by which the process has grown.
        seeds: of the run, in whose place it stands.
        tls: whether it was with certificates.
        path: of the page.
    """
    data = path.with_suffix(".json")
    runs = json.loads(data.read_text()) if data.exists() else {}
    runs[f"{seeds.start}:{seeds.stop}{' with TLS' if tls else ''}"] = {
        "sent": report.sent,
        "answers": report.answers,
        "slowest": report.slowest,
        "failures": report.failures,
        "grown": grown,
    }
    data.write_text(json.dumps(runs, indent=1, sort_keys=True) + "\n")
    sent: Counter[str] = Counter()
    answers: Counter[str] = Counter()
    for run in runs.values():
        sent.update(run["sent"])
        answers.update(run["answers"])
    names = sorted({name.removesuffix(_WITHIN) for name in sent})
    calls = [
        (name, str(sent[name]), str(sent[name + _WITHIN]) if name + _WITHIN in sent else "") for name in names
    ]
    told = [
        (
            name,
            f"{sum(run['sent'].values()):,}",
            f"{run['slowest']:.1f}",
            str(run["grown"] >> 20),
            str(len(run["failures"])),
        )
        for name, run in sorted(runs.items())
    ]
    path.write_text(
        _TEXT.format(
            runs=markdown(("seeds", "messages", "slowest answer in s", "MiB grown", "failures"), told),
            calls=markdown(("call", "messages", "in a session"), calls),
            answers=markdown(
                ("status", "answers"), [(name, f"{count:,}") for name, count in answers.most_common()]
            ),
        )
    )


_WITHIN = " in a session"
