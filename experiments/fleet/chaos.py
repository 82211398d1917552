"""A fleet whose parts are killed at random moments: ``python -m experiments.fleet.chaos``.

A tracker, four servers and two clients, in processes of their own and with mutual TLS, tune small configurations of ResNet-18 and
MobileNetV2 into one database, while ``kill -9`` ends one of them again and again, and links between them (``link.py``) are cut, held and
slowed. Who was killed is started again. Afterwards each trial has to be in the database once, none that was kept may be missing, and
no process, claim, session or file may be left.

    python -m experiments.fleet.chaos --what each --times 20 --page experiments/results/fleet_chaos.md

The exit code is 1 if anything of that is not so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from database import open_database
from database.claim_owner import has_ended
from database.schema import ClaimRow
from database.sql import SQLDatabase
from ir.target.host import host_info
from runners.rpc import Address, TrackerClient, state_name
from runners.rpc.certificates import make_certificates

from ..harness.tables import markdown
from .cast import MARK, Player, files_left, free_port, processes_left, processes_of, remove
from .client import BEGUN, KEPT, record_key
from .link import Links
from .postgres import Postgres

_KEY = "chaos"
_HOST = "127.0.0.1"
_CLIENTS = ("alice", "bob")
WHAT = ("server", "tracker", "client", "database", "workers", "links")
_PAUSE_SECONDS = (0.5, 4.0)
"""Between two events; of the database, since a client has kept something again."""
_AGAIN_SECONDS = 1.0
"""After which a client is started again that has ended with an error."""
_DOWN_SECONDS = (0.0, 3.0)
"""Who was killed is started again after so long."""
_MOST_ERRORS = 25
"""Ends of a client by itself, with an error, in one run."""
_FREE_SECONDS = 30.0
"""After which all devices are to be free."""


@dataclass
class Outcome:
    """What came of a run."""

    what: str
    events: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    """Of tuning until all events had been."""
    resumed: int = 0
    """Starts of clients after they had ended before all trials were there."""
    errors: list[str] = field(default_factory=list)
    """Of clients that ended by themselves."""
    kept: int = 0
    trials: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    """Trials by kind of failure."""
    in_hand: int = 0
    """Records that a client was committing when it, or its database, was killed, and that are not there: they were measured again, or
    others in their stead."""
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


class Fleet:
    """The processes of a run.

    Args:
        folder: of all that it writes.
        with_postgres: the database is a server's; a file otherwise.
        servers: how many.
        stack: closes what is opened.
    """

    def __init__(self, folder: Path, with_postgres: bool, servers: int, stack: ExitStack) -> None:
        self.folder, self.mark = folder, uuid.uuid4().hex
        self.links = stack.enter_context(Links())
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        make_certificates(folder / "fleet", trackers=[_HOST], hosts=[_HOST], clients=_CLIENTS, keys=[_KEY])
        self._environment = {
            MARK: self.mark,
            "TMPDIR": str(self.temporary),
            "LOOPSMITH_LOCK_FOLDER": str(folder / "locks"),
        }
        (folder / "locks").mkdir()
        self.postgres: Postgres | None = None
        self.url = str(folder / "tuning.db")
        if with_postgres:
            self.postgres = Postgres(folder / "postgres", free_port())
            stack.callback(self.postgres.close)
            self.url = self.postgres.url(self.links.open("database", self.postgres.port).port)
        tracker_port = free_port()
        self._tracker = Address(_HOST, self.links.open("tracker", tracker_port).port)
        self.tracker = self._player(
            "tracker",
            "trackers/127.0.0.1",
            ["-m", "tuner", "rpc", "tracker", "--listen", f"{_HOST}:{tracker_port}"],
        )
        self.servers = [self._server(number) for number in range(servers)]
        self.clients: list[Player] = []
        for player in (*self.servers, self.tracker):
            stack.callback(player.close)
            player.start()

    def _player(self, name: str, credentials: str, command: list[str]) -> Player:
        where = {"LOOPSMITH_RPC_CREDENTIALS": str(self.folder / "fleet" / credentials)}
        return Player(name, command, self.folder, {**self._environment, **where})

    def _server(self, number: int) -> Player:
        port = free_port()
        public = self.links.open(f"server{number}", port).port
        command = [
            "-m",
            "tuner",
            "rpc",
            "server",
            "--key",
            _KEY,
            "--workers",
            "1",
            "--tracker",
            str(self._tracker),
        ]
        command += ["--listen", f"{_HOST}:{port}", "--public", f"{_HOST}:{public}"]
        return self._player(f"server{number}", f"servers/{_HOST}", command)

    def begin_clients(self, trials: int, stack: ExitStack) -> None:
        """Let both tune until the database has so many trials."""
        for player in self.clients:
            player.close()
        self.clients = [self._client(name, trials) for name in _CLIENTS]
        for player in self.clients:
            stack.callback(player.close)
            player.start()

    def _client(self, name: str, trials: int) -> Player:
        command = [
            "-m",
            "experiments.fleet.client",
            "--tracker",
            str(self._tracker),
            "--key",
            _KEY,
            "--database",
            self.url,
        ]
        command += ["--journal", str(self.folder / f"{name}.journal"), "--trials", str(trials)]
        return self._player(name, f"clients/{name}", command)

    def journal(self) -> Iterator[tuple[str, str, bool]]:
        """What the clients have written down: event, trial, whether it was measured again."""
        for name in _CLIENTS:
            path = self.folder / f"{name}.journal"
            for line in path.read_text().splitlines() if path.exists() else ():
                event, key, again = json.loads(line)
                yield event, key, again

    def kept_bytes(self) -> int:
        """Of the journals, which grow with each record that is kept."""
        paths = [self.folder / f"{name}.journal" for name in _CLIENTS]
        return sum(path.stat().st_size for path in paths if path.exists())

    @property
    def has_no_database(self) -> bool:
        """Whether its server has been killed, and not been started again: who starts a client looks at that first."""
        server = self.postgres
        return server is not None and (server.process is None or server.process.poll() is not None)

    def devices(self) -> list[str]:
        """What the servers do, as the tracker has it."""
        client = TrackerClient(self._tracker, str(self.folder / "fleet" / "clients" / _CLIENTS[0]))
        try:
            return [state_name(item.report) for item in client.fleet().servers]
        finally:
            client.close()


class Chaos:
    """Events at random moments.

    Args:
        fleet: whom they happen to.
        rng: draws them.
        outcome: that counts them.
    """

    def __init__(self, fleet: Fleet, rng: random.Random, outcome: Outcome) -> None:
        self._fleet, self._rng, self._outcome = fleet, rng, outcome
        self._waiting: list[tuple[float, Callable[[], None]]] = []
        """When who was killed is started again."""

    def happen(self, what: str) -> None:
        """One event of a kind; none where the one it would happen to is not there."""
        if what == "links":
            self._break_link()
        elif what == "database":
            self._kill_database()
        elif what == "workers":
            self._kill_worker()
        else:
            fleet = self._fleet
            players = {"server": fleet.servers, "tracker": [fleet.tracker], "client": fleet.clients}[what]
            self._kill(what, [player for player in players if player.is_running])

    def _kill(self, what: str, players: list[Player]) -> None:
        if not players:
            return
        player = self._rng.choice(players)
        player.kill()
        self._outcome.events[what] += 1
        if what != "client":  # clients are looked after by who waits for them
            self._later(player.start)

    def _kill_database(self) -> None:
        server = self._fleet.postgres
        if server is None or server.process is None or server.process.poll() is not None:
            return
        server.kill()
        self._outcome.events["database"] += 1
        self._later(server.start)

    def _kill_worker(self) -> None:
        """Of a server or a client: one that builds or measures, or the template of them."""
        found = [
            pid for pid, command in processes_of(self._fleet.mark).items() if "runners.template" in command
        ]
        if found:
            with suppress(ProcessLookupError):
                os.kill(self._rng.choice(found), signal.SIGKILL)
                self._outcome.events["workers"] += 1

    def _break_link(self) -> None:
        link = self._rng.choice(list(self._fleet.links.all.values()))
        how = self._rng.choice(("cut", "cut for long", "held", "held for long", "slowed"))
        if how.startswith("cut"):
            link.cut(self._rng.uniform(3.0, 12.0) if "long" in how else 0.0)
        elif how.startswith("held"):
            link.hold(self._rng.uniform(8.0, 14.0) if "long" in how else self._rng.uniform(0.2, 4.0))
        else:
            link.slow(self._rng.uniform(0.01, 0.3), self._rng.uniform(2.0, 8.0))
        self._outcome.events["links"] += 1

    def resume(self, player: Player) -> None:
        """Start a client again that was killed, or, after a while, one that has ended with an error."""
        status = player.status
        if status is not None and status > 0:
            lines = player.said(4000).strip().splitlines()
            self._outcome.errors.append(lines[-1][:300] if lines else f"status {status}")
            time.sleep(_AGAIN_SECONDS)
        self._outcome.resumed += 1
        player.start()

    def _later(self, start: Callable[[], None]) -> None:
        self._waiting.append((time.monotonic() + self._rng.uniform(*_DOWN_SECONDS), start))

    def mend(self, *, everything: bool = False) -> None:
        """Start again who was down for long enough, or all."""
        now = time.monotonic()
        due = [start for when, start in self._waiting if everything or when <= now]
        self._waiting = [item for item in self._waiting if not everything and item[0] > now]
        for start in due:
            start()


def run(what: str, args: argparse.Namespace) -> Outcome:
    """One run with events of a kind, or of all kinds where it is "all"."""
    outcome, rng = Outcome(what), random.Random(f"{args.seed} {what}")
    kinds = list(WHAT) if what == "all" else [what]
    begin = time.monotonic()
    with ExitStack() as outer:
        folder = (
            Path(args.keep, what)
            if args.keep
            else Path(outer.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        )
        if args.keep:
            remove(folder)  # that of an earlier run
            folder.mkdir(parents=True)
        folder.chmod(0o755)  # PostgreSQL and workers are other users
        with ExitStack() as stack:
            fleet = Fleet(folder, "database" in kinds or args.postgres, args.servers, stack)
            outer.callback(processes_left, fleet.mark, 1.0)  # also where somebody has ended the chaos
            _play(fleet, kinds, args, rng, outcome, stack)
            _check_records(fleet, outcome)
            _check_devices(fleet, outcome)
            for player in (*fleet.clients, *fleet.servers, fleet.tracker):
                player.close()
        left = processes_left(fleet.mark, 10.0)
        outcome.wrong += [f"process {pid} is left: {command}" for pid, command in left.items()]
        outcome.wrong += [f"a file is left: {name}" for name in files_left(fleet.temporary)]
    outcome.seconds = time.monotonic() - begin
    return outcome


def _play(
    fleet: Fleet,
    kinds: list[str],
    args: argparse.Namespace,
    rng: random.Random,
    outcome: Outcome,
    stack: ExitStack,
) -> None:
    """Tune until all events have been, and then to the end."""
    chaos, deadline = Chaos(fleet, rng, outcome), time.monotonic() + args.seconds
    coming = [kind for kind in kinds for _ in range(args.times)]
    rng.shuffle(coming)
    trials, kept, next_event = 0, 0, time.monotonic() + rng.uniform(*_PAUSE_SECONDS)
    while True:
        if not fleet.clients or all(player.status == 0 for player in fleet.clients):
            if fleet.clients and not coming:
                chaos.mend(everything=True)
                return
            trials += args.trials
            outcome.rounds += 1
            fleet.begin_clients(trials, stack)
        if time.monotonic() > deadline:
            said = "; ".join(f"{player.name}: {player.said(300)}" for player in fleet.clients)
            outcome.wrong.append(f"it did not end within {args.seconds:g} seconds: {said}")
            chaos.mend(everything=True)
            return
        for player in fleet.clients:
            if player.status not in (None, 0) and not fleet.has_no_database:
                chaos.resume(player)
        if coming and time.monotonic() > next_event:
            before = outcome.events.total()
            chaos.happen(coming[-1])
            if outcome.events.total() > before:
                coming.pop()
            next_event, kept = time.monotonic() + rng.uniform(*_PAUSE_SECONDS), fleet.kept_bytes()
        elif coming and coming[-1] == "database" and fleet.kept_bytes() == kept:
            next_event = time.monotonic() + rng.uniform(*_PAUSE_SECONDS)  # nobody works on it yet
        chaos.mend(everything=not coming and not any(player.is_running for player in fleet.clients))
        if len(outcome.errors) > _MOST_ERRORS:
            outcome.wrong.append("clients end again and again")
            return
        time.sleep(0.05)


def _check_records(fleet: Fleet, outcome: Outcome) -> None:
    store = open_database(fleet.url)
    assert isinstance(store, SQLDatabase)
    records = store.get_all_tuning_records()
    trials = Counter(record_key(record) for record in records if not record.remeasured)
    outcome.trials = trials.total()
    outcome.failed.update(str(record.failure_kind) for record in records if record.failure_kind)
    twice = {key: count for key, count in trials.items() if count > 1}
    outcome.wrong += [f"a trial is there {count} times: {key[:200]}" for key, count in twice.items()]
    events = Counter((event, key) for event, key, again in fleet.journal() if not again)
    kept = {key for event, key in events if event == KEPT}
    outcome.kept = len(kept)
    outcome.wrong += [f"a trial was kept and is not there: {key[:200]}" for key in kept - set(trials)]
    begun = {key for event, key in events if event == BEGUN}
    outcome.in_hand = len(begun - set(trials))
    outcome.wrong += [f"a trial is there that nobody has kept: {key[:200]}" for key in set(trials) - begun]
    with store._connections.session() as session:
        owners = [row.owner for row in session.query(ClaimRow)]
    outcome.wrong += [f"a claim is left of {owner}" for owner in owners if not has_ended(owner)]
    store.close()


def _check_devices(fleet: Fleet, outcome: Outcome) -> None:
    """All servers are there, and nobody has one."""
    end, states = time.monotonic() + _FREE_SECONDS, [""]
    while time.monotonic() < end:
        states = fleet.devices()
        if states == ["free"] * len(fleet.servers):
            return
        time.sleep(0.2)
    outcome.wrong.append(
        f"the devices are {', '.join(states) or 'gone'}, not all free, {_FREE_SECONDS:g} seconds after the end"
    )


def page(rows: Mapping[str, Mapping[str, Any]], machine: str) -> str:
    """What came of runs, in Markdown.

    Args:
        rows: by what was hit; see :class:`Outcome`.
        machine: on which the last of them was.
    """
    ordered = sorted(rows.items(), key=lambda item: (*WHAT, item[0]).index(item[0]))
    table = [
        (
            name,
            _counted(row["events"]),
            str(row["trials"]),
            str(row["kept"]),
            str(row["in_hand"]),
            str(row["resumed"]),
            str(len(row["errors"])),
            _counted(row["failed"]),
            f"{row['seconds']:.0f}",
            str(len(row["wrong"])),
        )
        for name, row in ordered
    ]
    header = (
        "what is hit", "events", "trials", "kept", "in hand", "resumed", "by an error", "failed trials", "seconds", "wrong"
    )  # fmt: skip
    return _TEXT.format(table=markdown(header, table), machine=machine)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


def publish(outcome: Outcome, path: Path) -> None:
    """Write a page, and its rows beside it; those of earlier runs stay unless the same was hit again."""
    data = path.with_suffix(".json")
    rows = json.loads(data.read_text()) if data.exists() else {}
    rows[outcome.what] = vars(outcome)
    data.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")
    path.write_text(page(rows, _machine()))


def _machine() -> str:
    host = host_info()
    return f"{host.model_name or host.cpu}, {host.cores} cores"


_TEXT = """# A fleet in chaos

Made by `python -m experiments.fleet.chaos --what each --times 20 --page experiments/results/fleet_chaos.md` on {machine}. Four servers, a
tracker and two clients, all in processes of their own and with mutual TLS, tune small configurations of ResNet-18 and MobileNetV2 into one
database (PostgreSQL with fsync where it is hit, SQLite otherwise). All connections go through links that can be cut, held and slowed.
Processes end by `kill -9`, and are started again within three seconds; events come every half to four seconds, those of the
database so long after a client has kept something again.

{table}

*Trials* are the records of first measurements in the database at the end; *kept* those of them that a client has written down as committed.
*In hand* were records that a client was committing when it or the database was killed, and that are not there. *Resumed*: clients that were
started again, of these *by an error* those that nobody had killed. Where workers are hit, *failed trials* are those whose worker was killed
while it built or measured: that counts as a failure of the candidate. *Wrong* counts trials that are there twice or are missing, claims,
sessions, processes and files that are left, and runs that do not end.
"""


def main() -> int:
    """Run the command line; its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--what",
        nargs="+",
        choices=(*WHAT, "all", "each"),
        default=["all"],
        help="who is hit, a run for each; each: of each kind one",
    )
    parser.add_argument("--times", type=int, default=2, help="how often, for each kind")
    parser.add_argument(
        "--trials", type=int, default=40, help="of a round of tuning; there are rounds until all has happened"
    )
    parser.add_argument("--servers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=600.0, help="after which a run has failed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--postgres", action="store_true", help="use a PostgreSQL server in all runs")
    parser.add_argument("--keep", type=Path, help="a folder for logs and databases, which stay")
    parser.add_argument("--page", type=Path, help="write the results there")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left behind
    is_right = True
    for what in WHAT if args.what == ["each"] else args.what:
        outcome = run(what, args)
        print(outcome, flush=True)
        is_right = is_right and not outcome.wrong
        if args.page is not None:
            publish(outcome, args.page)
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main())
