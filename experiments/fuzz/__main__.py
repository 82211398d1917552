"""Runs the command line of :mod:`.command`; Ctrl-C while it is loaded, which takes seconds, is exit code 130 as later."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    try:
        from .command import main

        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
