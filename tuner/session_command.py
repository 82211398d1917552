"""What a session says of how it was started. It is kept with records that teams share, so that nothing secret may be in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from database.secrets import masked

_ENTRY_POINTS = (
    ("loopsmith",),
    ("tuner", "__main__.py"),
    ("tuner", "cli", "__main__.py"),
    ("tuner", "cli", "main.py"),
)
"""How the path of the command line's program ends, whichever way it is started."""


def session_command(arguments: Sequence[str]) -> str:
    """The command of a session, from a process's ``sys.argv``.

    Of ``loopsmith`` it is the command line, in which passwords of URLs are masked: it has no other secrets. What the options of another
    program mean is not known here, so that of a script there is its name alone.

    >>> session_command(["/usr/bin/loopsmith", "tune", "--database", "postgresql://ann:top@server/db"])
    'loopsmith tune --database postgresql://ann:***@server/db'
    >>> session_command(["/home/ann/nightly.py", "--password", "top"])
    'nightly.py'
    """
    if not arguments or not arguments[0]:
        return "Python"
    program = Path(arguments[0])
    if any(program.parts[-len(end) :] == end for end in _ENTRY_POINTS):
        return masked(" ".join(["loopsmith", *arguments[1:]]))
    return "Python" if arguments[0] in ("-c", "-m", "-") else program.name
