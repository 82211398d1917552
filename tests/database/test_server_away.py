"""A server that is away for a while, as while it is restarted, is waited for; one that never was there is not."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from database import sql_connection
from database.sql_connection import Connections

psycopg = pytest.importorskip("psycopg")


class Dialect:
    """Of a server that does not answer at first."""

    dbapi = psycopg

    def __init__(self, failures: int) -> None:
        self.failures, self.asked = failures, 0

    def connect(self, host: str) -> object:
        self.asked += 1
        if self.asked <= self.failures:
            raise psycopg.OperationalError("connection refused")
        return SimpleNamespace(host=host)


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Connections:
    monkeypatch.setattr(sql_connection, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(sql_connection, "_LONGEST_PAUSE", 0.001)
    return Connections("postgresql+psycopg://me@127.0.0.1:1/nothing", must_exist=False)


def test_a_server_that_never_was_there_is_told_of_at_once(connections: Connections) -> None:
    dialect = Dialect(failures=1)
    with pytest.raises(psycopg.OperationalError):
        connections._connected_again(dialect, None, ("a",), {})
    assert dialect.asked == 1


def test_a_server_that_was_there_is_waited_for(
    connections: Connections, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever tuned on it ended when it was restarted, and lost what was being measured."""
    connections._connected_again(Dialect(failures=0), None, ("a",), {})
    caplog.set_level(logging.WARNING)
    dialect = Dialect(failures=5)
    assert connections._connected_again(dialect, None, ("a",), {}).host == "a"
    assert dialect.asked == 6 and caplog.text.count("is away (connection refused); waiting for it") == 1


def test_it_is_not_waited_for_for_ever(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    connections._connected_again(Dialect(failures=0), None, ("a",), {})
    monkeypatch.setattr(sql_connection, "_AWAY_SECONDS", 0.02)
    with pytest.raises(psycopg.OperationalError):
        connections._connected_again(Dialect(failures=1000), None, ("a",), {})
