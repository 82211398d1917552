"""Results as data: one JSON file per theme, in which a new measurement of a row takes the place of the old one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from . import machine

DEFAULT = Path(__file__).parents[1] / "results"


class Results:
    """The rows of one theme, written after each of them, so that an interrupted run keeps what it has."""

    def __init__(self, folder: Path, theme: str) -> None:
        self.theme, self.path = theme, folder / f"{theme}.json"
        self.rows: dict[str, dict[str, Any]] = {}
        self._read()

    def _read(self) -> None:
        if self.path.is_file():
            self.rows = json.loads(self.path.read_text())["rows"]

    def add(self, key: str, row: dict[str, Any]) -> None:
        """Store a row with the date and the machine that it was measured on, of which the row may tell more."""
        self._read()  # another run may have added rows meanwhile
        self.rows[key] = {
            **row,
            "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
            "machine": {**machine.describe(), **row.get("machine", {})},
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"theme": self.theme, "rows": self.rows}, indent=1)
        self.path.write_text(text + "\n")
