"""The page: sections with a style sheet, in one file that asks for nothing else.

The page of a report runs no script at all, and its security policy lets none run, whatever a database holds. The live page has one script,
which the policy knows by its hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from database import Database
from database.secrets import masked

from ..error import TunerError
from .diagnosis import failures, phases, predictions, spread
from .markup import node, text_of
from .numbers import DatabaseReader, Report
from .outcome import curves, overview, programs, shares
from .programs import programs_of
from .roofline import roofline

_SECTIONS = (overview, shares, curves, failures, spread, phases, roofline, predictions, programs)
"""In the order of the page."""
PROGRAMS = 8
"""Kernels whose programs a report shows, unless another number is asked for."""


@cache
def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class DrawnSection:
    """A section's heading and its HTML."""

    title: str
    html: str


def sections_of(report: Report) -> dict[str, DrawnSection]:
    """The sections of a report by their keys, in their order."""
    made = [section(report) for section in _SECTIONS]
    return {str(element.get("id")): DrawnSection(element[0].text or "", text_of(element)) for element in made}


def page_of(report: Report) -> str:
    """The HTML of a report."""
    return assembled(report.title, sections_of(report))


def assembled(title: str, sections: Mapping[str, DrawnSection], *, live: bool = False) -> str:
    """The HTML of a page of sections; that of a live page asks the server that it comes from for changes."""
    links = [node("li", node("a", section.title, href=f"#{key}")) for key, section in sections.items()]
    header = node(
        "header",
        node("a", "To the report", href="#report", class_="skip"),
        node("h1", title),
        node("p", "Connecting ...", id="connection", role="status") if live else None,
        node("nav", node("ul", *links), aria_label="Sections"),
    )
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy_of(live)}">',
            '<meta name="generator" content="loopsmith">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            text_of(node("title", f"{title} - loopsmith")),
            f"<style>{_file('page.css')}</style>",
            "</head>",
            "<body>",
            text_of(header),
            '<main id="report">',
            *(section.html for section in sections.values()),
            "</main>",
            f"<script>{_file('live.js')}</script>" if live else "",
            "</body>",
            "</html>",
            "",
        ]
    )


def policy_of(live: bool) -> str:
    """The content security policy: styles of the page; for the live page its one script and its server."""
    allowed = ["default-src 'none'", "style-src 'unsafe-inline'", "base-uri 'none'", "form-action 'none'"]
    if live:
        digest = base64.b64encode(hashlib.sha256(_file("live.js").encode()).digest()).decode()
        allowed += [f"script-src 'sha256-{digest}'", "connect-src 'self'"]
    return "; ".join(allowed)


def title_of(database: str) -> str:
    """How a page names a database by its path or URL: without user and password, which are nobody's business.

    >>> title_of("postgresql://user:secret@server/tuning"), title_of("tuning@home.db")
    ('server/tuning', 'tuning@home.db')
    >>> title_of("postgresql://server/tuning?user=ann&password=secret")
    'postgresql://server/tuning?user=ann&password=***'
    """
    return masked(database.rpartition("@")[2] if "://" in database else database)


def report_of(database: Database, title: str, count: int = PROGRAMS) -> Report:
    """What a database holds, with the programs of the ``count`` kernels that take most time."""
    report = DatabaseReader(database, title).read()
    report.programs = programs_of(report.kernels, count)
    return report


def write_report(database: Database, path: Path, title: str = "", count: int = PROGRAMS) -> int:
    """Write a report as one HTML file; returns its size in bytes.

    Args:
        database: only read.
        path: of the file.
        title: of the page; by default what the database calls itself.
        count: kernels whose best and default programs are shown; each takes up to some seconds.

    Raises:
        TunerError: the file cannot be written.
    """
    content = page_of(report_of(database, title or str(database), count)).encode()
    try:
        path.write_bytes(content)
    except OSError as error:
        raise TunerError(f"cannot write {path}: {error.strerror}; choose another place") from error
    return len(content)
