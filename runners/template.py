"""The process from which workers are forked: it has everything loaded, so that a new worker takes milliseconds.

``python -m runners.template FD module ...`` imports the modules and serves requests on the socket FD: fork a worker
on the file descriptors that come along, or tell how a worker ended. It ends, and ends its workers, when the
socket closes, which happens however the parent dies.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

from . import worker

if TYPE_CHECKING:
    from .rpc.sandbox import Sandbox

_PR_SET_PDEATHSIG = 1
SANDBOX_VARIABLE = "LOOPSMITH_SANDBOX"
"""Tells the template how its workers are confined."""
_CONFINEMENT = "runners.rpc.confinement"
"""Loaded where they are."""


def serve(control: socket.socket, sandbox: Sandbox | None) -> None:
    """Answer requests until the other side is gone; ``sandbox`` confines the workers."""
    children: set[int] = set()
    parent = os.getpid()
    try:
        while True:
            data, fds, _, _ = socket.recv_fds(control, 65536, 2)
            if not data:
                return
            request = json.loads(data)
            if request["op"] == "fork":
                pid = os.fork()
                if pid == 0:
                    _become_worker(control, fds, parent, request, sandbox)
                for fd in fds:
                    os.close(fd)
                children.add(pid)
                reply = {"pid": pid}
            else:
                _, status = os.waitpid(request["pid"], 0)
                children.discard(request["pid"])
                reply = {"status": status}
            control.sendall(json.dumps(reply).encode())
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)


def _become_worker(
    control: socket.socket, fds: list[int], parent: int, request: dict[str, int], sandbox: Sandbox | None
) -> None:
    """In the child: take the connection, send output to the log, serve calls, and never return."""
    code = 1
    try:
        control.close()
        connection_fd, log_fd = fds
        os.dup2(log_fd, 1)
        os.dup2(log_fd, 2)
        os.close(log_fd)
        connection = socket.socket(fileno=connection_fd)
        _end_with(parent)
        if sandbox is None:
            worker.serve(connection, request["memory_limit"])
        else:
            # Another user's process does not end with its parent any more, and in the end nobody may change that: it is said in between.
            importlib.import_module(_CONFINEMENT).serve(
                connection, request["memory_limit"], sandbox, lambda: _end_with(parent)
            )
        code = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end_with(parent: int) -> None:
    """A worker that loops in native code does not see its connection close; the system ends it with its parent."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def main() -> None:
    """Load the modules named on the command line, say so, and serve."""
    sandbox = importlib.import_module(_CONFINEMENT).prepare() if SANDBOX_VARIABLE in os.environ else None
    control = socket.socket(fileno=int(sys.argv[1]))
    for name in ("runners.worker", *sys.argv[2:]):
        getattr(importlib.import_module(name), "warm", int)()
    gc.collect()
    gc.freeze()  # to look for garbage among what is loaded would copy all of its pages in every worker
    control.sendall(b"ready")
    serve(control, sandbox)


if __name__ == "__main__":
    main()
