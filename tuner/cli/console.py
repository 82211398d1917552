"""Where the command writes: results to standard output, progress and complaints to standard error."""

from __future__ import annotations

import sys

from rich.console import Console

out = Console(soft_wrap=True, highlight=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)


def complain(message: str) -> None:
    """One paragraph on standard error."""
    text = " ".join(message.split()) if len(message) < 2000 else message
    print(f"loopsmith: error: {text}", file=sys.stderr)
