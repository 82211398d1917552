"""The code of the page on programs and arrays elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "remote.md"


def test_the_page_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "page.py"  # script reads the source of functions
    source.write_text(code)
    exec(compile(code, str(source), "exec"), {"__name__": "page"})
    shown = capsys.readouterr().out
    assert re.search(r"^cpu-here +1 +1 +0$", shown, re.M)
    assert re.search(r"^remote\[127\.0\.0\.1:\d+\]:cpu\(0\)$", shown, re.M) and "median" in shown
