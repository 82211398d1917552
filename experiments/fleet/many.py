"""A tracker with hundreds of servers and clients that only pretend: ``python -m experiments.fleet.many --servers 500``.

Servers report as real ones do and hand their device out; clients ask for a device, hold it for a moment, and ask again. With
``--database`` each session claims a candidate and stores a record, as a tuner does. Told are the grants per second, how evenly clients of
one priority were served, how long devices and the database were waited for, and what the process takes. With ``--page`` a series of such
fleets is tried, each in a process of its own, and told in a table.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from database import TuningRecord, open_for_writing
from database.claim_owner import new_owner
from ir.target.host import host_info
from runners.rpc import Address, Tracker
from runners.rpc.desk import DeviceTaken, SessionDesk
from runners.rpc.device_service import DeviceFacts
from runners.rpc.registration import Registration
from runners.rpc.tracker_client import TrackerClient
from schedules import Schedule
from tests.programs.nodes import matmul

from ..harness.tables import markdown

_HELD_SECS = 0.2
_PATIENCE_SECS = 60.0
"""Clients of tuners wait for as long as it takes; who gives up while a device is on its way keeps it from others for ten seconds."""


def _serve(tracker: Address, number: int) -> tuple[Registration, SessionDesk]:
    facts = DeviceFacts("fake", f"fake-{number}", "llvm", "none", "{}", "0", 1)
    registration: list[Registration] = []
    desk = SessionDesk(True, lambda: registration[0].changed() if registration else None)
    registration.append(Registration(tracker, facts, Address("127.0.0.1", 1 + number), desk))
    return registration[0], desk


@dataclass
class _Client:
    """What one client saw."""

    sessions: int = 0
    late: int = 0
    """Grants whose tickets the server did not have in time."""
    waited: list[float] = field(default_factory=list)
    """Seconds from asking for a device to having it."""
    stored: list[float] = field(default_factory=list)
    """Seconds in which a candidate was claimed and its record committed."""


class _Records:
    """The records of one client in a database that all share."""

    def __init__(self, url: str, place: int) -> None:
        self._database = open_for_writing(url)
        self._workload = self._database.commit_workload(matmul(16, 16, 16))
        self._place, self._owner, self._count = place, new_owner(), 0

    def store(self) -> None:
        """Claim a candidate that nobody else has, and commit its record."""
        self._count += 1
        name = f"{self._place}/{self._count}"
        if self._database.claim(self._workload, "cpu", [name], self._owner) != [True]:
            raise AssertionError(f"the candidate {name} was refused, and nobody else has it")
        schedule = Schedule(self._workload.mod)
        schedule.annotate(schedule.get_block("C"), "number", name)
        record = TuningRecord(schedule.trace, self._workload, [_HELD_SECS], "cpu", [])
        self._database.commit_tuning_record(record)

    def count(self) -> int:
        """Records of all clients."""
        return len(self._database.get_all_tuning_records())


def _use(
    tracker: Address, desks: dict[str, SessionDesk], until: float, seen: _Client, place: int, url: str | None
) -> None:
    client = TrackerClient(tracker)
    records = None if url is None else _Records(url, place)
    while time.monotonic() < until:
        begin = time.monotonic()
        grant = client.acquire("fake", timeout_sec=_PATIENCE_SECS)
        if grant is None:
            continue
        desk = desks[grant.server]
        try:
            session = desk.open(grant.ticket, f"client {place}", 0.0, patience_sec=5.0)
        except DeviceTaken:  # the ticket came later than that: a client asks on, as Lending does
            seen.late += 1
            continue
        seen.waited.append(time.monotonic() - begin)
        time.sleep(_HELD_SECS)
        desk.end(session)
        seen.sessions += 1
        if records is not None:
            begin = time.monotonic()
            records.store()
            seen.stored.append(time.monotonic() - begin)
    client.close()


def _quantile(seconds: list[float], share: float) -> float:
    """Seconds that this share of all did not exceed; 0 where there are none."""
    return sorted(seconds)[int(share * (len(seconds) - 1))] if seconds else 0.0


def _fairness(counts: list[int]) -> float:
    """Jain's index (DEC-TR-301, 1984): 1 where all have the same, 1/n where one has everything."""
    return sum(counts) ** 2 / max(1e-9, len(counts) * sum(count**2 for count in counts))


@dataclass(frozen=True)
class Figures:
    """What came of one fleet."""

    servers: int
    clients: int
    database: str
    """Its kind; empty without."""
    known_secs: float
    """Until the tracker knew all servers."""
    sessions: int
    sessions_per_sec: float
    fairness: float
    asked_secs: tuple[float, float]
    """From asking for a device to having it: median, and what 99% did not exceed."""
    stored_secs: tuple[float, float]
    """For a claim and a record, in the same way; 0 without a database."""
    records: int
    """In the database at the end."""
    late: int
    """Grants that came to nothing, as the server heard of them too late."""
    megabytes: float
    """Of memory that the process had at most, in MiB."""
    core_share: float
    """Of one core, which the process kept busy."""

    def cells(self) -> list[str]:
        """For a table."""
        stored = [f"{secs:.2f}" for secs in self.stored_secs] if self.database else ["", ""]
        lost = str(self.sessions - self.records) if self.database else ""
        return [
            str(self.servers),
            str(self.clients),
            self.database or "none",
            f"{self.known_secs:.1f}",
            f"{self.sessions_per_sec:.0f}",
            f"{self.fairness:.3f}",
            *[f"{secs:.2f}" for secs in self.asked_secs],
            *stored,
            lost,
            str(self.late),
            f"{self.megabytes:.0f}",
            f"{self.core_share:.0%}",
        ]


_HEADER = [
    "servers", "clients", "database", "known after s", "sessions/s", "fairness", "device: median s", "99%", "record: median s", "99%",
    "records lost", "late grants", "MiB", "of a core",
]  # fmt: skip


def run(servers: int, clients: int, secs: float, database: str | None) -> Figures:
    """One fleet in this process.

    Args:
        servers: how many report.
        clients: how many ask for their devices.
        secs: for which they do.
        database: URL or path of a new one, in which each session stores a record.

    Raises:
        AssertionError: the tracker does not know all servers within a minute.
    """
    with Tracker(Address("127.0.0.1", 0)) as tracker:
        begin = time.monotonic()
        made = [_serve(tracker.address, number) for number in range(servers)]
        desks = {f"fake-{number}": desk for number, (_, desk) in enumerate(made)}
        known = sum(registration.registered.wait(60) for registration, _ in made)
        known_secs = time.monotonic() - begin
        if known != servers:
            raise AssertionError(f"the tracker knows {known} of {servers} servers after a minute")
        if database is not None:
            _Records(database, -1)  # makes the tables
        seen = [_Client() for _ in range(clients)]
        before = _core_seconds()
        begin = time.monotonic()
        threads = [
            threading.Thread(
                target=_use, args=(tracker.address, desks, begin + secs, client, place, database)
            )
            for place, client in enumerate(seen)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - begin
        used = _core_seconds() - before
        records = 0 if database is None else _Records(database, -2).count()
        for registration, _ in made:
            registration.close()
    counts = [client.sessions for client in seen]
    waited = [secs for client in seen for secs in client.waited]
    stored = [secs for client in seen for secs in client.stored]
    return Figures(
        servers,
        clients,
        "" if database is None else "PostgreSQL" if "://" in database else "SQLite",
        known_secs,
        sum(counts),
        sum(counts) / took,
        _fairness(counts),
        (_quantile(waited, 0.5), _quantile(waited, 0.99)),
        (_quantile(stored, 0.5), _quantile(stored, 0.99)),
        records,
        sum(client.late for client in seen),
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        used / took,
    )


def _core_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


_SERIES = (
    (10, 20, False),
    (100, 50, False),
    (500, 50, False),
    (500, 200, False),
    (500, 500, False),
    (500, 10, True),
    (500, 50, True),
)
"""Servers, clients, and whether there is a database."""


def series(secs: float, each: Callable[[int, int, float, str | None], Figures]) -> list[Figures]:
    """Fleets one after the other, each for some seconds; ``each`` tries one of them, as :func:`run` does."""
    found = []
    for servers, clients, has_database in _SERIES:
        with tempfile.TemporaryDirectory() as folder:
            found.append(
                each(servers, clients, secs, str(Path(folder, "records.db")) if has_database else None)
            )
    return found


def _in_process(servers: int, clients: int, secs: float, database: str | None) -> Figures:
    """:func:`run` in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(run, servers, clients, secs, database).result()


def page(figures: Sequence[Figures], secs: float) -> str:
    """In Markdown."""
    host = host_info()
    return _TEXT.format(
        machine=f"{host.model_name or host.cpu}, {host.cores} cores",
        load=", ".join(f"{value:.1f}" for value in os.getloadavg()),
        held=_HELD_SECS,
        secs=secs,
        table=markdown(_HEADER, [item.cells() for item in figures]),
    )


_TEXT = """# A tracker with many servers and clients

Made by `python -m experiments.fleet.many --page experiments/results/fleet_many.md` on {machine} (load averages at the end: {load}). Servers
and clients only pretend; all of them are in one process with the tracker, which is a new one for each line. A session holds its device for
{held:g} s; each line ran for {secs:g} s. Fairness is Jain's index of the sessions of each client: 1 where all have the same.
"Device" is from asking for one to having it, "record" a claim and a committed record.

{table}
"""


def main() -> None:
    """Prints the figures, or the page of a series."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, default=500)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--secs", type=float, default=10.0)
    parser.add_argument(
        "--database", help="URL or path of a new database, in which each session stores a record"
    )
    parser.add_argument("--page", type=Path, help="try a series of fleets, and write it there")
    args = parser.parse_args()
    if args.page is None:
        print(markdown(_HEADER, [run(args.servers, args.clients, args.secs, args.database).cells()]))
        return
    text = page(series(args.secs, _in_process), args.secs)
    print(text)
    args.page.write_text(text)


if __name__ == "__main__":
    main()
