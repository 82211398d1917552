"""Where the command writes: results to standard output, complaints to standard error."""

from __future__ import annotations

from ..console import make_console

out = make_console()


def complain(message: str) -> None:
    """One paragraph on standard error; a terminal gets it in lines of its width, anything else in one."""
    text = " ".join(message.split()) if len(message) < 2000 else message
    make_console(stderr=True).print(f"loopsmith: error: {text}")
