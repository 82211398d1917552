"""Another process that claims candidates, and that a test may kill."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

_SCRIPT = """
import sys
from database.claim_owner import new_owner

print(new_owner(), flush=True)
sys.stdin.read()
"""


class OtherProcess:
    """A process that lives until :meth:`kill` or the end of the block."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert self._child.stdout is not None
        self.pid = self._child.pid
        self.owner = self._child.stdout.readline().strip()

    def kill(self) -> None:
        """Kill it as ``kill -9`` does, and do not ask for its exit status."""
        self._child.kill()
        while Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.01)

    def reap(self) -> None:
        """Ask for the exit status of a process that was killed: its number is free then."""
        self._child.wait()

    def __enter__(self) -> OtherProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.communicate()
