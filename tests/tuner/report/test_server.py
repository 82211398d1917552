"""The live page's server: what it answers, whom it refuses, and that those who follow get what has changed."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from database import MemoryDatabase
from runners import MeasureResult
from runners.replay import ReplayBuilder, ReplayRunner
from tests.programs.expressions import matmul
from tests.tuner.report.databases import filled
from tuner import tune_tir
from tuner.callback.base import MeasureCallback
from tuner.error import TunerError
from tuner.report.live import LivePage, watch
from tuner.report.numbers import DatabaseReader, Report
from tuner.report.server import PageServer, parse_address
from tuner.state import TaskState, TuningRun

_SECS = 60.0
"""Enough for a busy machine; nothing waits as long where it works."""


@pytest.fixture
def server() -> Iterator[PageServer]:
    with PageServer("127.0.0.1:0") as made:
        yield made


def port_of(server: PageServer) -> int:
    return int(server.url.rstrip("/").rpartition(":")[2])


def asked(
    server: PageServer, path: str = "/", host: str | None = None, method: str = "GET"
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=_SECS)
    connection.request(method, path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read().decode()
    connection.close()
    return found


class Follower:
    """Who reads the events of a page."""

    def __init__(self, server: PageServer) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port_of(server)), timeout=_SECS)
        self._socket.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self._lines = self._socket.makefile("r", encoding="utf-8")
        self.status = self._lines.readline().split()[1]
        while self._lines.readline().strip():
            pass

    def event(self) -> tuple[str, dict[str, str]]:
        """Kind and data of the next event; comments are passed over."""
        kind = ""
        for line in self._lines:
            if line.startswith("event: "):
                kind = line[7:].strip()
            elif line.startswith("data: "):
                return kind, json.loads(line[6:])
        return "closed", {}

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


def test_the_page_is_the_report_with_a_script_that_its_policy_knows(server: PageServer) -> None:
    server.show(Report("first & last"))
    status, headers, text = asked(server)
    assert status == 200 and "first &amp; last" in text and "EventSource" in text
    policy = headers["Content-Security-Policy"]
    assert "script-src 'sha256-" in policy and "default-src 'none'" in policy
    assert headers["Cache-Control"] == "no-store" and headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("path", "host", "method", "status"),
    [
        ("/nothing", None, "GET", 404),
        ("/../../etc/passwd", None, "GET", 404),
        ("/", "evil.example", "GET", 403),
        ("/events", "evil.example:80", "GET", 403),
        ("/", "localhost:1", "GET", 200),
        ("/", "[::1]:1", "GET", 200),
        ("/", None, "POST", 501),
    ],
)
def test_what_is_answered(server: PageServer, path: str, host: str | None, method: str, status: int) -> None:
    server.show(Report("t"))
    assert asked(server, path, host, method)[0] == status


def test_followers_get_what_has_changed_and_the_end(server: PageServer) -> None:
    store = filled(["conv"], 5, calibrated=False)
    reader = DatabaseReader(store, "t")
    server.show(reader.read())
    follower = Follower(server)
    kind, sections = follower.event()
    assert kind == "sections" and {"overview", "curves", "programs"} <= set(sections)
    filled(["conv", "dense"], 5, seed=1, store=store, calibrated=False)
    server.show(reader.read())
    kind, sections = follower.event()
    assert kind == "sections" and "dense" in sections["curves"] and "programs" not in sections
    closing = threading.Thread(target=server.close)
    closing.start()
    assert follower.event() == ("end", {})
    assert follower.event()[0] == "closed"
    closing.join(_SECS)
    follower.close()


def test_followers_have_an_end_of_places(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.report.server._MOST_STREAMS", 1)
    server.show(Report("t"))
    first = Follower(server)
    assert first.event()[0] == "sections"
    second = Follower(server)
    assert (first.status, second.status) == ("200", "503")
    first.close()
    second.close()


@pytest.mark.parametrize("text", ["", "host", "host:", ":80:", "1:2:3", "70000", "::1:80", "a b:80", "-1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(TunerError, match="is no address; write a port"):
        parse_address(text)


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(TunerError, match=f"127.0.0.1:{port}: nobody can listen there: .* another port"):
            PageServer(f"127.0.0.1:{port}")


def test_who_is_told_to_listen_elsewhere_says_so() -> None:
    with PageServer("0.0.0.0:0") as server:
        server.show(Report("t"))
        assert not server.is_private and asked(server, host="anything")[0] == 200


class Shown:
    """In the place of a server: what it was shown."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, int, int]] = []

    def show(self, report: Report) -> None:
        self.reports.append((report.status, report.n_trials, len(report.programs)))


class Interrupting(MeasureCallback):
    def trial(self, task_scheduler: TuningRun, task: TaskState, result: MeasureResult) -> None:
        raise KeyboardInterrupt


def tuned(shown: Shown, *others: MeasureCallback) -> None:
    page: Any = LivePage(shown, "t", 3, programs=1)  # type: ignore[arg-type]
    given: dict[str, Any] = {"builder": ReplayBuilder(), "runner": ReplayRunner({}, default=1e-3)}
    tune_tir(matmul(16), "cpu", None, 3, calibrate="never", measure_callbacks=[page, *others], **given)


def test_a_search_is_shown_from_its_beginning_to_its_end() -> None:
    shown = Shown()
    tuned(shown)
    first, begun, *_, last = shown.reports
    assert first == ("preparing", 0, 0) and begun == ("running, 0 of 3 trials", 0, 0)
    assert last == ("ended, 3 of 3 trials", 3, 1)


def test_an_interrupted_search_ends_without_programs() -> None:
    shown = Shown()
    with pytest.raises(KeyboardInterrupt):
        tuned(shown, Interrupting())
    status, _, programs = shown.reports[-1]
    assert status.startswith("interrupted, ") and programs == 0


def test_a_database_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.report.live._LOOKING_SECS", 0.0)
    shown, store, looks = Shown(), MemoryDatabase(), iter(range(6))

    def goes_on() -> bool:
        look = next(looks)
        if look == 2:
            filled(["conv"], 3, store=store)
        return look < 5

    watch(store, "t", shown, programs=1, goes_on=goes_on)  # type: ignore[arg-type]
    assert [item[1] for item in shown.reports] == [0, 0, 3, 3]
    assert [item[2] for item in shown.reports] == [0, 0, 0, 1]
