"""Folders of processes: those of the dead are removed, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from runners.own_folder import own_folder


def test_folders_of_the_dead_are_removed_and_those_of_the_living_stay(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    prefix = f"loopsmith-pool-{os.getuid()}-"
    left, living, other = (
        tmp_path / name for name in (f"{prefix}{dead.pid}-abc", f"{prefix}{os.getppid()}-abc", "loopsmith-x")
    )
    for folder in (left, living, other):
        folder.mkdir()
        (folder / "file").write_text("")
    first, second = own_folder("pool", tmp_path), own_folder("pool", tmp_path)
    assert not left.exists() and (living / "file").exists() and (other / "file").exists()
    assert first != second and first.is_dir() and second.is_dir()
    assert first.stat().st_mode & 0o077 == 0
