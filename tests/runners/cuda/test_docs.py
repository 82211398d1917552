"""The programs of docs/cuda.md run."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cuda.md"


def test_the_examples_of_the_page_run(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) == 3
    script = tmp_path / "example.py"
    script.write_text("\n".join(blocks))
    linecache.checkcache(str(script))
    names: dict = {"__name__": "example"}
    exec(compile(script.read_text(), str(script), "exec"), names)
    assert all(secs > 0 for secs in names["seconds"]) and names["runner"].devices == (0,)
