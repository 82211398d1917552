"""Where the command writes: results to standard output, complaints to standard error."""

from __future__ import annotations

import sys

from ..console import make_console

out = make_console()


def complain(message: str) -> None:
    """One paragraph on standard error."""
    text = " ".join(message.split()) if len(message) < 2000 else message
    print(f"loopsmith: error: {text}", file=sys.stderr)
