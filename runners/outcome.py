"""How a call in another process ended, and how that process did."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import IO, Any

_LOG_BYTES = 2000

CONTEXT_LOST = "CudaContextLost"
"""Name of the error (:mod:`runners.cuda.driver`) after which a process can do nothing more with its device."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call in a worker ended."""

    kind: str
    """``returned``, ``raised``, ``died`` or ``timeout``."""
    value: Any = None
    """What the function returned."""
    error: str = ""
    """Name of the exception, or of the signal."""
    message: str = ""
    phase: str = ""
    """What the worker was doing when it ended."""
    traceback: str = ""


def ending(status: int, where: str) -> tuple[str, str]:
    """How a process ended: the name of the signal, or "exit", and a sentence.

    Args:
        status: of its wait.
        where: in what it did, as the sentence goes on.
    """
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return name, f"the process was ended by {name} {where}"
    return "exit", f"the process ended with status {os.waitstatus_to_exitcode(status)} {where}"


def last_output(log: IO[bytes]) -> str:
    """The last that a process has written.

    Args:
        log: the file that gets it.
    """
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - _LOG_BYTES))
    return log.read().decode(errors="replace").strip()
