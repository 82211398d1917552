"""What comes of judging a program, and when two failures are one."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass

INTERRUPTED = 130
"""The exit code of what Ctrl-C ended, as shells have it."""

UNREAD = 141
"""The exit code where nobody reads the output any more, as shells have it."""

_VARYING = re.compile(r"0x[0-9a-f]+|[-+.\de]*\d|'[^']*'|\"[^\"]*\"|\([^()]*\)|\[[^\[\]]*\]")
"""What two messages of one defect differ in: numbers, names in quotes, shapes."""


@dataclass(frozen=True)
class Verdict:
    """What came of a program: "ok", "invalid" (the generator's mistake, or the interpreter's), "none" (there is no such program), or what
    went wrong.
    """

    kind: str
    detail: str = ""
    place: str = ""
    """Where it went wrong: a target, a pass, a line of the compiler."""

    @property
    def failed(self) -> bool:
        """Whether somebody should look."""
        return self.kind not in ("ok", "invalid", "none")

    @property
    def signature(self) -> str:
        """Equal for failures that are likely one defect: the kind, the place, and the first line of the detail without its numbers."""
        first_line = self.detail.strip().partition("\n")[0]
        return " | ".join(
            part for part in (self.kind, self.place, _VARYING.sub("_", first_line)[:120]) if part
        )

    def __str__(self) -> str:
        return " ".join(part for part in (self.kind, self.place and f"({self.place})", self.detail) if part)


def is_folded_divisor(error: Exception) -> bool:
    """Whether the parser refuses a program for a divisor that it folds to zero, under a condition that is false: no finding."""
    return str(error).startswith(("error: division by zero", "error: remainder by zero"))


def crash(where: str, error: BaseException) -> Verdict:
    """An exception that should not have been raised; its place is the line that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    file = "/".join(frame.filename.rsplit("/", 2)[-2:])
    return Verdict(f"crash {type(error).__name__}", f"{where}: {error}", f"{file}:{frame.lineno}")
