"""Pages in a browser: drawn in light and dark, wide and narrow, without errors and without scripts of a hostile database.

Skipped where there is no Chromium; ``REPORT_SCREENSHOTS`` names a folder that keeps the pictures, for a person to look at.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from database import MemoryDatabase
from tests.tuner.report.databases import HOSTILE, filled
from tuner.report import DatabaseReader, write_report
from tuner.report.server import PageServer

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
_SECS = 120
_DARK = "--blink-settings=preferredColorScheme=0"


def chromium(folder: Path, *arguments: str) -> str:
    """Run it without a window, with a profile of its own; what it prints."""
    assert CHROMIUM is not None
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--no-first-run",
        "--disable-extensions",
    ]
    done = subprocess.run(
        [CHROMIUM, *options, f"--user-data-dir={folder / 'profile'}", *arguments],
        capture_output=True, text=True, timeout=_SECS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(filled(["conv", HOSTILE, "softmax"], 40), path, f"tuning.db {HOSTILE}", 1)
    return path


@pytest.mark.parametrize("width", [1200, 360], ids=["wide", "narrow"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_page_is_drawn(page: Path, tmp_path: Path, width: int, dark: bool) -> None:
    picture = tmp_path / f"{'dark' if dark else 'light'}-{width}.png"
    scheme = [_DARK] if dark else []
    chromium(tmp_path, *scheme, f"--window-size={width},700", f"--screenshot={picture}", page.as_uri())
    if kept := os.environ.get("REPORT_SCREENSHOTS"):
        shutil.copy(picture, kept)
    image = pytest.importorskip("PIL.Image").open(picture).convert("RGB")
    corner = image.getpixel((0, 0))
    assert (max(corner) < 64) if dark else (min(corner) > 240)
    assert len(image.getcolors(image.width * image.height)) > 50, (
        "texts and drawings have more colours than the ground"
    )


def test_no_script_of_a_hostile_database_runs(page: Path, tmp_path: Path) -> None:
    found = chromium(tmp_path, "--dump-dom", page.as_uri())
    assert "<script" not in found and "<img" not in found
    title = re.search("<title>(.*?)</title>", found, re.S)
    assert title is not None and title[1].startswith("tuning.db &lt;/title&gt;")


def test_a_narrow_page_does_not_scroll_sideways(page: Path, tmp_path: Path) -> None:
    """The page asked in a frame how wide its content is: a script of the test, which the report's own policy would not run."""
    content = re.sub(r"<meta http-equiv[^>]*>", "", page.read_text(encoding="utf-8"))
    asks = "<script>document.documentElement.dataset.wide = document.documentElement.scrollWidth - innerWidth</script>"
    asking = tmp_path / "asking.html"
    asking.write_text(content.replace("</body>", f"{asks}</body>"), encoding="utf-8")
    for width in (500, 1200):  # Chromium's windows are no narrower
        found = chromium(tmp_path, f"--window-size={width},700", "--dump-dom", asking.as_uri())
        assert re.search(r'data-wide="(-?\d+)"', found)[1] == "0"  # type: ignore[index]


def test_a_live_page_follows_and_says_when_it_has_ended(tmp_path: Path) -> None:
    store = MemoryDatabase()
    with PageServer("127.0.0.1:0") as server:
        reader = DatabaseReader(store, "t")
        server.show(reader.read())

        def go_on() -> None:
            deadline = time.monotonic() + _SECS
            while not server.followers and time.monotonic() < deadline:
                time.sleep(0.02)
            filled(["arrived_later"], 3, store=store)
            server.show(reader.read())
            server.close()

        following = threading.Thread(target=go_on)
        following.start()
        found = chromium(tmp_path, "--virtual-time-budget=20000", "--dump-dom", server.url)
        following.join(_SECS)
    assert "arrived_later" in found and "this is its last state" in found
