"""A tracker with hundreds of servers and clients that only pretend: ``python -m experiments.fleet.many --servers 500``.

Servers report as real ones do and hand their device out; clients ask for a device, hold it for a moment, and ask again. With
``--database`` each session claims a candidate and stores a record, as a tuner does. Told are the grants per second, how evenly clients of
one priority were served, how long devices and the database were waited for, and what the process takes.
"""

from __future__ import annotations

import argparse
import resource
import threading
import time
from dataclasses import dataclass, field

from database import TuningRecord, open_for_writing
from database.claim_owner import new_owner
from runners.rpc import Address, Tracker
from runners.rpc.desk import SessionDesk
from runners.rpc.device_service import DeviceFacts
from runners.rpc.registration import Registration
from runners.rpc.tracker_client import TrackerClient
from schedules import Schedule
from tests.programs.nodes import matmul

_HELD_SECS = 0.2


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
        grant = client.acquire("fake", timeout_sec=5.0)
        if grant is None:
            continue
        desk = desks[grant.server]
        session = desk.open(grant.ticket, f"client {place}", 0.0, patience_sec=5.0)
        seen.waited.append(time.monotonic() - begin)
        time.sleep(_HELD_SECS)
        desk.end(session)
        seen.sessions += 1
        if records is not None:
            begin = time.monotonic()
            records.store()
            seen.stored.append(time.monotonic() - begin)
    client.close()


def _quantiles(name: str, seconds: list[float]) -> str:
    found = sorted(seconds)
    shown = [f"{share:.0%} {1e3 * found[int(share * (len(found) - 1))]:.1f} ms" for share in (0.5, 0.99, 1.0)]
    return f"{name}: {', '.join(shown)}"


def _fairness(counts: list[int]) -> float:
    """Jain's index (DEC-TR-301, 1984): 1 where all have the same, 1/n where one has everything."""
    return sum(counts) ** 2 / max(1e-9, len(counts) * sum(count**2 for count in counts))


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, default=500)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--secs", type=float, default=20.0)
    parser.add_argument(
        "--database", help="URL or path of a new database, in which each session stores a record"
    )
    args = parser.parse_args()
    with Tracker(Address("127.0.0.1", 0)) as tracker:
        begin = time.monotonic()
        made = [_serve(tracker.address, number) for number in range(args.servers)]
        desks = {f"fake-{number}": desk for number, (_, desk) in enumerate(made)}
        known = sum(registration.registered.wait(60) for registration, _ in made)
        print(f"{known} of {args.servers} servers known after {time.monotonic() - begin:.1f} s")
        if args.database is not None:
            _Records(args.database, -1)  # makes the tables
        seen = [_Client() for _ in range(args.clients)]
        begin = time.monotonic()
        until = begin + args.secs
        threads = [
            threading.Thread(target=_use, args=(tracker.address, desks, until, client, place, args.database))
            for place, client in enumerate(seen)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counts, took = [client.sessions for client in seen], time.monotonic() - begin
        print(
            f"{sum(counts) / took:.0f} sessions a second for {args.clients} clients, each {min(counts)} to {max(counts)}"
            f" (Jain's fairness {_fairness(counts):.3f})"
        )
        print(_quantiles("asking for a device", [secs for client in seen for secs in client.waited]))
        if args.database is not None:
            print(_quantiles("a claim and a record", [secs for client in seen for secs in client.stored]))
            kept = _Records(args.database, -2).count()
            print(f"{kept} records in the database, of {sum(counts)} sessions")
        usage = resource.getrusage(resource.RUSAGE_SELF)
        print(
            f"this process (all of them in one): {usage.ru_maxrss / 1024:.0f} MiB, {usage.ru_utime + usage.ru_stime:.0f} s of a core"
        )
        for registration, _ in made:
            registration.close()


if __name__ == "__main__":
    main()
