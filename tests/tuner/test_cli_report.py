"""``loopsmith report`` and ``loopsmith tune --serve``, as commands: what they write, show, refuse, and how they end."""

from __future__ import annotations

import json
import re
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from database import SQLDatabase
from tests.tuner.command_line import command
from tests.tuner.report.databases import filled
from tuner.cli import report as report_command
from tuner.report.server import PageServer


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a database of two kernels."""
    store = SQLDatabase(tmp_path / "tuning.db")
    filled(["conv", "dense"], 3, store=store)
    store.close()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    shown = capsys.readouterr()
    return shown.out, " ".join(shown.err.split())


def test_a_page_is_written(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (here / "tuning.db").read_bytes()
    assert command(monkeypatch, "report", "tuning.db", "-o", "page.html", "--programs", "1") == 0
    page = (here / "page.html").read_text()
    assert "conv" in page and "dense" in page and "<script" not in page
    assert said(capsys)[0].startswith("wrote page.html, ")
    assert command(monkeypatch, "report", "tuning.db", "-o", "page.html", "--programs", "0", "-q") == 0, (
        "a report may be written again"
    )
    assert said(capsys) == ("", "") and (here / "tuning.db").read_bytes() == before


@pytest.mark.parametrize(
    "arguments, says",
    [
        ([], "say where to: -o report.html for a file, or --serve 127.0.0.1:8080"),
        (["-o", "a.html", "--serve", "0"], "not both"),
        (["-o", "page.txt"], "name it page.html"),
        (["-o", "notes.html"], "notes.html"),
        (["-o", "none/page.html"], "there is no folder none"),
        (["--serve", "127.0.0.1:many"], "127.0.0.1:many"),
    ],
)
def test_what_cannot_be_is_refused(
    arguments: list[str],
    says: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (here / "notes.html").write_text("<p>my own</p>")
    assert command(monkeypatch, "report", "tuning.db", *arguments) == 2
    assert says in said(capsys)[1]
    assert (here / "notes.html").read_text() == "<p>my own</p>", "a file of another kind is not overwritten"
    assert command(monkeypatch, "report", "missing.db", "-o", "page.html") == 2
    assert "does not exist" in said(capsys)[1] and not (here / "missing.db").exists()


def test_a_live_page_is_reached_and_ends_with_ctrl_c(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pages: list[str] = []

    def looked_at(store: Any, title: str, server: PageServer, programs: int) -> None:
        """What a browser sees; then somebody types Ctrl-C."""
        report_of(store, title, server, programs, goes_on=lambda: not pages.append(_fetched(server.url)))

    def report_of(*arguments: Any, goes_on: Any) -> None:
        real(*arguments, goes_on=lambda: len(pages) < 2 and goes_on())
        raise KeyboardInterrupt

    real = report_command.watch
    monkeypatch.setattr("tuner.report.live._LOOKING_SECS", 0.0)
    monkeypatch.setattr(report_command, "watch", looked_at)
    assert command(monkeypatch, "report", "tuning.db", "--serve", "0", "-q") == 130
    assert re.match(r"live page: http://127\.0\.0\.1:\d+", said(capsys)[0])
    assert "conv" in pages[-1] and "dense" in pages[-1]


def _fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return str(answer.read().decode())


def test_a_search_is_shown_by_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx = pytest.importorskip("onnx")
    x, y = (onnx.helper.make_tensor_value_info(name, 1, [4, 8]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Exp", ["x"], ["y"])], "m", [x], [y])
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    pages: list[str] = []
    close = PageServer.close

    def closed(server: PageServer) -> None:
        """The last that a browser sees of it."""
        reader = threading.Thread(target=lambda: pages.append(_fetched(server.url)))
        reader.start()
        reader.join(30)
        close(server)

    monkeypatch.setattr(PageServer, "close", closed)
    options = ("--trials", "2", "--no-check", "--calibrate", "never", "--final-choice", "never")
    assert command(monkeypatch, "tune", "m.onnx", "--serve", "0", "--json", *options) == 0
    shown = capsys.readouterr()
    assert "live page: http://127.0.0.1:" in shown.err and json.loads(shown.out)["kernels"]
    assert "tir_exp" in pages[-1] and "ended, 2 of 2 trials" in pages[-1]
