"""The command in the process of a test: its imports take longest."""

from __future__ import annotations

import pytest

from tuner.cli import main as entry


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the command, and give its exit status."""
    monkeypatch.setattr("sys.argv", ["loopsmith", *arguments])
    try:
        entry.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0
