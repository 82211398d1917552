"""A server: it has a device of this machine, which clients use one after the other."""

from __future__ import annotations

import json
import logging
import secrets
import socket
from dataclasses import replace
from typing import Any

from ir.target import Target
from ir.target.host import fingerprint, host_info

from ..error import RunnerError
from ..local import LocalRunner
from ..pool import WorkerPool
from . import confinement
from .connection import Address, bind, make_server
from .content import ContentStore
from .credentials import Credentials
from .desk import SessionDesk
from .device_service import DeviceFacts, DeviceService
from .guard import Access, Guard
from .limits import Limits
from .messages import PROTOCOL
from .proto import device_pb2_grpc, remote_pb2_grpc
from .registration import Registration
from .remote_service import RemoteService
from .sandbox import Sandbox
from .version import version

DEFAULT_PORT = 9191
_START_SECONDS = 120.0
_LOG = logging.getLogger(__package__)

_PRELOADED = (
    "runners.native",
    "runners.candidate",
    "runners.rpc.remote_worker",
    "ir.relax.op",
    "ir.relax.frontend.nn.effects_runtime",
)
"""What worker processes have loaded when they start; of ``ir``, what registers the functions that models call."""


def device_facts(key: str, target: Target | None = None) -> DeviceFacts:
    """What this machine says of itself.

    Args:
        key: what clients ask for.
        target: what the device is; the processor of this machine by default.
    """
    host = host_info()
    name = f"{socket.gethostname()}-{secrets.token_hex(4)}"
    hardware = f"{host.model_name or host.cpu}, {host.cores} cores"
    return DeviceFacts(key, name, str(target or Target("cpu")), hardware, _fingerprint(), version(), PROTOCOL)


def _fingerprint() -> str:
    return json.dumps(fingerprint(), sort_keys=True)


class Server:
    """A server that is running; it ends with :meth:`close`.

    Args:
        key: what clients ask a tracker for, as "cpu-zen4".
        address: where it listens; port 0 stands for a free one.
        tracker: to which it belongs; without one, clients come by themselves.
        public_address: where clients reach it, if that is not where it listens.
        workers: processes that build; one of them measures at a time.
        limits: what it grants a client, and all of them together.
        credentials: of the server, or their folder; by default that which ``LOOPSMITH_RPC_CREDENTIALS`` names. Without any it listens to
            this machine alone.
        insecure: listen to everybody without credentials.
        sandbox: how its workers are confined.
        runner: how candidates are measured: a class of the kind of :class:`~runners.local.LocalRunner`.
        target: what the device is; the processor by default.

    Raises:
        RunnerError: it cannot listen there, its credentials have no token of the key, or workers do not start.
    """

    def __init__(
        self,
        key: str,
        address: Address = Address("127.0.0.1", DEFAULT_PORT),
        tracker: Address | None = None,
        *,
        public_address: Address | None = None,
        workers: int | None = None,
        limits: Limits = Limits(),
        credentials: Credentials | str | None = None,
        insecure: bool = False,
        sandbox: Sandbox | None = None,
        runner: Any = LocalRunner,
        target: Target | None = None,
    ) -> None:
        if not key or len(key) > 100 or not key.isprintable():
            raise RunnerError(f"the key of a server is 1 to 100 printable characters, got {key!r}")
        own = Credentials.found(credentials)
        if own is not None and key not in own.tokens:
            raise RunnerError(
                f"the server's credentials have no token of the key {key!r}, by which clients are known:"
                f" loopsmith rpc certs DIR --key {key!r}"
            )
        facts = device_facts(key, target)
        self._registration: Registration | None = None
        self.desk = SessionDesk(tracker is not None, self._changed)
        self._server = make_server(limits.calls, [Guard(limits, own)])
        self.address = bind(self._server, address, own, insecure)
        self._contents = ContentStore(limits.content_bytes)
        chosen = sandbox or Sandbox(has_devices=Target(facts.target).is_gpu)
        self._pool = WorkerPool(workers, preload=_PRELOADED, sandbox=chosen)
        try:
            self.measures = self._confined(own)
        except BaseException:
            self._pool.close()
            self._contents.close()
            raise
        self.facts = replace(facts, confinement=tuple(map(str, self.measures)))
        self._remote = RemoteService(
            lambda context: service.session(context), self._contents, self._pool.template, limits
        )
        service = DeviceService(
            self.facts,
            self.desk,
            self._contents,
            self._pool,
            runner,
            Access(own),
            limits,
            self._remote.end,
        )
        device_pb2_grpc.add_DeviceServicer_to_server(service, self._server)
        remote_pb2_grpc.add_RemoteServicer_to_server(self._remote, self._server)
        self._server.start()
        if tracker is not None:
            reached = public_address or self.address
            self._registration = Registration(tracker, self.facts, reached, self.desk, own)

    def _confined(self, own: Credentials | None) -> list[confinement.Measure]:
        """How the workers are confined, as a worker tells it; the log has it, too.

        Raises:
            RunnerError: none starts.
        """
        secret = [] if own is None else list(own.private_files)
        told = self._pool.submit(confinement.measures, limit=_START_SECONDS).result()
        read = self._pool.submit(confinement.can_open, secret, limit=_START_SECONDS).result()
        if told.kind != "returned" or read.kind != "returned":
            failed = told if told.kind != "returned" else read
            raise RunnerError(
                f"worker processes do not start in the sandbox: {failed.error} {failed.message}"
            )
        found = [confinement.Measure(*item) for item in told.value]
        missing = [str(item) for item in found if not item.is_taken]
        _LOG.info("workers are confined: %s", "; ".join(map(str, found)))
        if missing:
            _LOG.warning("workers are less confined than they could be: %s", "; ".join(missing))
        if read.value:
            _LOG.warning(
                "code of clients can read %s: run the server as root, which lets workers be another user, or on a system with Landlock",
                ", ".join(read.value),
            )
        return found

    def _changed(self) -> None:
        if self._registration is not None:
            self._registration.changed()

    def wait_registered(self, seconds: float) -> bool:
        """Whether the tracker knows it within some seconds."""
        return self._registration is not None and self._registration.registered.wait(seconds)

    def close(self) -> None:
        """End its session and all its processes."""
        if self._registration is not None:
            self._registration.close()
        self.desk.close()
        self._server.stop(grace=None).wait()
        self._pool.close()
        self._contents.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
