"""The programs of docs/cuda.md run, in Python and in C."""

from __future__ import annotations

import linecache
import os
import re
import shutil
import subprocess
from pathlib import Path

import runners
from runners.cuda import stand_in

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cuda.md"


def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) == 7
    script = tmp_path / "example.py"
    script.write_text("\n".join(blocks))
    linecache.checkcache(str(script))
    names: dict = {"__name__": "example"}
    exec(compile(script.read_text(), str(script), "exec"), names)
    assert all(secs > 0 for secs in names["seconds"]) and names["runner"].devices == (0,)
    if shutil.which("cc") is not None:
        _check_program(tmp_path)


def _check_program(folder: Path) -> None:
    """The program in C of the page; the Python above it has made the library."""
    page = PAGE.read_text(encoding="utf-8")
    (program,) = re.findall(r"^```c\n(.*?)^```$", page, re.M | re.S)
    (command,) = re.findall(r"^cc .*$", page, re.M)
    (folder / "main.c").write_text(program)
    subprocess.run(command.split(), check=True, cwd=folder, timeout=60)
    stand_in.keep_image(runners.load_module(folder / "liblayer.so").device_code, folder)
    environment = {**os.environ, stand_in.IMAGES_VARIABLE: str(folder)}
    ran = subprocess.run(["./main"], cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "0.0625\n", "")
