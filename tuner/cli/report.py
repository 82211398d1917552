"""``loopsmith report``: what a tuning database holds, as one page; with ``--serve`` live, while others write into it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from database import open_database

from ..error import TunerError
from ..report.live import watch
from ..report.page import PROGRAMS, title_of, write_report
from ..report.server import PageServer
from .console import note, size_text
from .options import Serve, say_where
from .output_file import REPORT, check_output


def report(
    path: Annotated[
        str, typer.Argument(help="Path or URL of the database, as --database of `loopsmith tune`.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The .html file to write, such as report.html.")
    ] = None,
    serve: Serve = None,
    programs: Annotated[
        int,
        typer.Option(
            min=0,
            help="Kernels whose best and default programs are shown, those that take most time first; each takes up to some seconds.",
        ),
    ] = PROGRAMS,
) -> None:
    """Show what a tuning database holds, as a page for a browser.

    It has the best time of each kernel over its trials, failures by kind, how far times spread, what the time of the runs went to, each
    kernel below the roofline of its machine, what the search expected beside what was measured, the best programs beside the default
    ones, and where the model's time goes.

    With -o it is one file that needs no network and no server. With --serve it is live: it changes as other processes, such as
    `loopsmith tune`, write into the database, until Ctrl-C.

    Example: loopsmith report tuning.db -o report.html

    Example: loopsmith report tuning.db --serve 127.0.0.1:8080
    """
    if (output is None) == (serve is None):
        raise TunerError(
            f"say where to: -o report.html for a file, or --serve 127.0.0.1:8080 for a live page{'' if output is None else ', not both'}"
        )
    store = open_database(path, must_exist=True)
    title = title_of(path)
    if output is not None:
        if output.suffix.lower() not in (".html", ".htm"):
            raise TunerError(
                f"a report is an .html file; name it {output.with_suffix('.html') if output.name else 'report.html'}"
            )
        check_output(output, REPORT)
        size = write_report(store, output, title, programs)
        note(f"wrote {output}, {size_text(size)}")
        return
    assert serve is not None
    with PageServer(serve) as server:
        say_where(server)
        try:
            watch(store, title, server, programs)
        except KeyboardInterrupt:
            sys.exit(130)
