"""What the command ``loopsmith`` starts: it loads the rest late, so that Ctrl-C in the meantime is exit status 130 as later."""

from __future__ import annotations

import sys


def main() -> None:
    """Load the command line and run it."""
    try:
        from .main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()
