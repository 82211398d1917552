"""What NVRTC's log says, message by message: the C++ front end's, and those of ptxas, which is behind it.

ptxas tells lines of the PTX text; :func:`located_in_source` finds the lines of the source that they come from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ..error import CudaDiagnostic

_FRONT_END = re.compile(
    r"(?P<file>[^\s(][^(]*)\((?P<line>\d+)\): (?P<severity>(?:catastrophic )?error|warning|remark)(?: #[\w-]+)?: (?P<message>.*)"
)
_NOTE = re.compile(r"[^\s(][^(]*\(\d+\): note\b.*")  # more about the message before
_PTX_LINE = re.compile(
    r"ptxas (?P<file>.*), line (?P<line>\d+); (?P<severity>error|fatal|warning)\s*: (?P<message>.*)"
)
_NO_LINE = re.compile(
    r"(?:ptxas|nvrtc:?|nvlink|Command-line) ?(?P<severity>error|fatal|warning)\s*: (?P<message>.*)"
)
_SEVERITIES = {"catastrophic error": "error", "fatal": "error"}
_AFTERMATH = "Ptx assembly aborted due to errors"
_LOCATION = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"')
PTX_TEXT = "PTX"
"""The file of a message that names a line of the PTX text."""


def parse_log(log: str) -> list[CudaDiagnostic]:
    """The messages of a log, in its order; what ptxas says of resources is none."""
    found: list[CudaDiagnostic] = []
    excerpt: list[str] = []

    def close() -> None:
        if found and excerpt:
            found[-1] = replace(found[-1], excerpt="\n".join(excerpt))
        excerpt.clear()

    in_excerpt = False
    for line in log.splitlines():
        begun = _diagnostic(line)
        if begun is not None:
            close()
            found.append(begun)
            in_excerpt = begun.file not in ("", PTX_TEXT)
        elif in_excerpt and (line.startswith(" ") or _NOTE.fullmatch(line)):
            excerpt.append(line.rstrip())
        else:
            in_excerpt = False
    close()
    return [item for item in found if item.message != _AFTERMATH]


def _diagnostic(line: str) -> CudaDiagnostic | None:
    """The message that begins in this line of the log."""
    for pattern in (_FRONT_END, _PTX_LINE, _NO_LINE):
        match = pattern.fullmatch(line.rstrip())
        if match is not None:
            parts = match.groupdict()
            severity = _SEVERITIES.get(parts["severity"], parts["severity"])
            if pattern is _NO_LINE:
                return CudaDiagnostic(severity, parts["message"])
            file = PTX_TEXT if pattern is _PTX_LINE else parts["file"]
            return CudaDiagnostic(severity, parts["message"], file, int(parts["line"]))
    return None


def located_in_source(
    diagnostics: Sequence[CudaDiagnostic], ptx: str, source: str, name: str
) -> list[CudaDiagnostic]:
    """Messages about lines of PTX text as messages about the lines of the source that these come from.

    Args:
        diagnostics: any messages; those with a place in the source stay as they are.
        ptx: the text, with its ``.loc`` lines (``-lineinfo``).
        source: what was compiled.
        name: its file name.
    """
    lines = ptx.splitlines()
    files = {match[1]: match[2] for line in lines if (match := _FILE.match(line))}
    return [
        _located(item, lines, files, source.splitlines(), name) if item.file == PTX_TEXT else item
        for item in diagnostics
    ]


def _located(
    item: CudaDiagnostic, ptx: list[str], files: dict[str, str], source: list[str], name: str
) -> CudaDiagnostic:
    if item.line is None or not 0 < item.line <= len(ptx):
        return item
    excerpt = f"  in the PTX text: {ptx[item.line - 1].strip()}"
    locations = (match for line in reversed(ptx[: item.line]) if (match := _LOCATION.match(line)))
    location = next(locations, None)
    if location is None or not _same_file(files.get(location[1], ""), name):
        return replace(item, excerpt=excerpt)
    line = int(location[2])
    quoted = f"  {source[line - 1].strip()}\n" if 0 < line <= len(source) else ""
    return replace(item, file=name, line=line, excerpt=quoted + excerpt)


def _same_file(path: str, name: str) -> bool:
    """Whether a path of the PTX text, which may be absolute, means the program."""
    return path == name or path.endswith("/" + name)
