"""What is read in the stead of an SQL database whose tables are missing or old: a copy of it, so that reading changes nothing."""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy import create_engine, event
from sqlalchemy.engine import Connection
from sqlalchemy.pool import QueuePool

from .damage import read_json, read_text
from .schema import Base
from .sql_schema import upgrade


class StandIn:
    """An SQLite database of this process alone, without tables at first; a large one is in a temporary file, which has no name.

    Attributes:
        state: what tells whether it can still stand for what it was made of.
        engine: makes its one connection, which threads use in turns.
    """

    def __init__(self, state: tuple[Any, ...]) -> None:
        self.state = state
        self.engine = create_engine(
            "sqlite://",
            creator=lambda: sqlite3.connect("", check_same_thread=False),
            poolclass=QueuePool,
            pool_size=1,
            max_overflow=0,
            json_deserializer=read_json,
        )

        @event.listens_for(self.engine, "connect")
        def configure(connection: Any, _: Any) -> None:
            connection.text_factory = read_text

    def make_tables(self) -> None:
        """Make them as they are today."""
        Base.metadata.create_all(self.engine)

    def take_over(self, source: Connection, name: str) -> None:
        """Copy all of an SQLite database, and bring the tables of the copy up to date."""
        with self.engine.connect() as own:
            driver, target = source.connection.driver_connection, own.connection.driver_connection
            assert driver is not None and target is not None
            driver.backup(target)
        with self.engine.begin() as connection:
            upgrade(connection, name)
