"""``loopsmith rpc``: devices elsewhere. A tracker, servers on the machines that have devices, and who has which."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

import runners

from . import rpc_certs
from .console import out, print_json
from .elsewhere import who_starts_a_tracker
from .options import JsonOption, checked_target

if TYPE_CHECKING:
    from runners.rpc.proto.tracker_pb2 import Fleet, FleetServer

DEFAULT_TRACKER = "127.0.0.1:9190"

app = typer.Typer(
    help="Devices elsewhere: a tracker, servers that have one each, and who has which. Needs the extra rpc of loopsmith.",
    no_args_is_help=True,
)

TrackerOption = Annotated[
    str,
    typer.Option(
        help="Where the tracker is, as host:port.",
        envvar="LOOPSMITH_TRACKER",
        show_envvar=True,
        metavar="HOST:PORT",
    ),
]
CredentialsOption = Annotated[
    str | None,
    typer.Option(
        help="Folder of who runs here, with certificate and tokens, as `loopsmith rpc certs` makes it; without one there is no TLS.",
        envvar="LOOPSMITH_RPC_CREDENTIALS",
        show_envvar=True,
        metavar="DIR",
    ),
]
InsecureOption = Annotated[
    bool,
    typer.Option(
        "--insecure",
        help="Without credentials, listen to other machines, too: whoever reaches it may use it.",
    ),
]

app.command("certs")(rpc_certs.certs)


@contextmanager
def _until_asked_to_end() -> Iterator[threading.Event]:
    """An event that Ctrl-C and a request of the system set, so that everything is closed in order."""
    asked = threading.Event()
    before = {}

    def ask(number: int, frame: FrameType | None) -> None:
        asked.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        before[number] = signal.signal(number, ask)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@app.command("tracker")
def tracker(
    listen: Annotated[
        str, typer.Option(help="Where to listen, as host:port; port 0 takes a free one.", metavar="HOST:PORT")
    ] = DEFAULT_TRACKER,
    credentials: CredentialsOption = None,
    insecure: InsecureOption = False,
) -> None:
    """Run a tracker until it is asked to end: servers report to it, and clients ask it for devices.

    Nothing is lost when it is restarted: servers report again, and sessions go on meanwhile.

    Example: loopsmith rpc tracker --listen 127.0.0.1:9190
    """
    address = runners.rpc.Address.of(listen)
    with _until_asked_to_end() as asked, _open_tracker(address, credentials, insecure) as running:
        out.print(f"tracker at {running.address}; Ctrl-C ends it", soft_wrap=True)
        asked.wait()


def _open_tracker(address: Any, credentials: str | None, insecure: bool) -> Any:
    _warn_of_insecure(credentials, insecure)
    return runners.rpc.Tracker(address, credentials=credentials, insecure=insecure)


def _warn_of_insecure(credentials: str | None, insecure: bool) -> None:
    if insecure and credentials is None:
        out.print("warning: there is no TLS; whoever reaches the port may run code here", soft_wrap=True)


@app.command("server")
def server(
    key: Annotated[str, typer.Option(help="What clients ask the tracker for, such as cpu-zen4.")],
    tracker: Annotated[
        str | None,
        typer.Option(
            help="The tracker that hands the device out, as host:port; without one, clients connect by themselves.",
            envvar="LOOPSMITH_TRACKER",
            metavar="HOST:PORT",
        ),
    ] = None,
    listen: Annotated[
        str, typer.Option(help="Where to listen, as host:port; port 0 takes a free one.", metavar="HOST:PORT")
    ] = "127.0.0.1:0",
    public: Annotated[
        str | None,
        typer.Option(help="Where clients reach it, if not where it listens.", metavar="HOST:PORT"),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="What the device is: this processor by default; cuda or cuda:1 for a GPU of this machine."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes; one for each core by default.")
    ] = None,
    content_limit: Annotated[
        float, typer.Option(min=0.001, help="GiB of code and programs of clients that are kept at most.")
    ] = 4.0,
    credentials: CredentialsOption = None,
    insecure: InsecureOption = False,
) -> None:
    """Run a server until it is asked to end: its device is one client's at a time.

    What clients send runs in worker processes, which are confined, and have limits of time and memory; a measurement has the machine to
    itself.

    Example: loopsmith rpc server --key cpu-zen4 --tracker 10.0.0.1:9190 --listen 0.0.0.0:9191 --public 10.0.0.7:9191
    """
    address_of = runners.rpc.Address.of
    chosen = _device(target)
    _warn_of_insecure(credentials, insecure)
    reached = None if public is None else address_of(public)
    of_tracker = None if tracker is None else address_of(tracker)
    running_server = runners.rpc.Server(
        key,
        address_of(listen),
        of_tracker,
        public_address=reached,
        workers=workers,
        limits=runners.rpc.Limits(content_bytes=int(content_limit * (1 << 30))),
        credentials=credentials,
        insecure=insecure,
        **chosen,
    )
    with _until_asked_to_end() as asked, running_server as running:
        facts = running.facts
        out.print(f"server {facts.name} at {running.address}: {facts.hardware}", soft_wrap=True)
        out.print(f"key {facts.key}, target {facts.target}; Ctrl-C ends it", soft_wrap=True)
        for step in running.measures:
            out.print(f"workers, {step}", soft_wrap=True, markup=False, highlight=False)
        told = False
        while not asked.wait(0.2):
            if of_tracker is not None and running.wait_registered(0) != told:
                told = not told
                state = "is known to" if told else "has lost"
                out.print(f"{state} the tracker at {of_tracker}", soft_wrap=True)


def _device(text: str | None) -> dict[str, Any]:
    """How a server measures on a device, as arguments of it."""
    if text is None:
        return {}
    name, _, number = text.partition(":")
    target = checked_target(name if number.isdigit() else text)
    if not target.is_gpu:
        return {"target": target}
    index = int(number) if number.isdigit() else 0

    def make(*args: Any, **options: Any) -> Any:
        return runners.CudaRunner(*args, devices=(index,), **options)

    return {"target": target, "runner": make}


@app.command("ls")
def list_fleet(
    tracker: TrackerOption = DEFAULT_TRACKER,
    credentials: CredentialsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the servers of a tracker, what they do, and who waits.

    Example: loopsmith rpc ls --tracker 10.0.0.1:9190
    """
    address = runners.rpc.Address.of(tracker)
    client = runners.rpc.TrackerClient(address, credentials)
    try:
        with who_starts_a_tracker(address):
            fleet = client.fleet()
    finally:
        client.close()
    if as_json:
        print_json(_plain(fleet))
        return
    out.print(_servers(fleet))
    waiting = [(queue.key, item) for queue in fleet.queues for item in queue.waiting]
    if waiting:
        out.print(_waiting(waiting))
    count = len(fleet.servers)
    out.print(
        f"{count} {'server' if count == 1 else 'servers'}, tracker {address} of version {fleet.version}"
    )


def _state(item: FleetServer) -> str:
    found: str = runners.rpc.state_name(item.report)
    return found


def _servers(fleet: Fleet) -> Table:
    table = Table("key", "address", "state", "client", "hardware", box=None, pad_edge=False)
    for item in fleet.servers:
        report = item.report
        cells = (
            report.device.key,
            report.address,
            _state(item),
            report.client or "-",
            report.device.hardware,
        )
        table.add_row(*map(_plain_text, cells))
    return table


def _waiting(waiting: list[tuple[str, Any]]) -> Table:
    table = Table("waits for", "client", "priority", "seconds", box=None, pad_edge=False)
    for key, item in waiting:
        table.add_row(*map(_plain_text, (key, item.client, str(item.priority), f"{item.waiting_secs:.0f}")))
    return table


def _plain_text(text: str) -> Any:
    """What somebody else has named, which is no markup."""
    return Text(text)


def _plain(fleet: Fleet) -> dict[str, Any]:
    servers = [
        {
            "key": item.report.device.key,
            "name": item.report.device.name,
            "address": item.report.address,
            "state": _state(item),
            "client": item.report.client,
            "target": item.report.device.target,
            "hardware": item.report.device.hardware,
            "version": item.report.device.version,
            "sessions": item.report.sessions,
            "busy_secs": item.report.busy_secs,
            "silent_secs": item.silent_secs,
        }
        for item in fleet.servers
    ]
    queues = {
        queue.key: [
            {"client": item.client, "priority": item.priority, "waiting_secs": item.waiting_secs}
            for item in queue.waiting
        ]
        for queue in fleet.queues
    }
    return {"version": fleet.version, "servers": servers, "queues": queues}
