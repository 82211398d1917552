"""Sessions with a device: programs are uploaded and loaded there, arrays are made there, functions called there::

with rpc.connect("10.0.0.7", 9191) as remote:
    remote.upload("model.so")
    machine = runners.VirtualMachine(remote.load_module("model.so"), remote.cpu())
    y = machine["main"](x).numpy()
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..device import Device, cpu, cuda, device
from ..error import RunnerError
from ..executable import Executable
from ..interpreter import packed_function
from ..kernel_code import digest
from ..settings import check_seconds
from .connection import Address
from .device_client import DeviceClient
from .programs import KernelModule, opened, program_bytes
from .remote_array import RemoteDevice, remote_device
from .remote_calls import RemoteCalls
from .remote_module import RemoteFunction, RemoteModule, RemoteProgram


class RPCSession:
    """A session with the device of a server.

    Everything that a client sends is run in one process of the server, which holds the arrays and ends with the session. Where a program
    crashes it, or takes longer than ``session_timeout``, that is a RunnerError, and the session goes on with a fresh process: arrays and
    modules have to be made again, what was uploaded is still there. One call is made at a time, whichever threads ask.

    Args:
        client: of the server.
        session_timeout: seconds that a call may take; 0 for as long as the server grants.
    """

    def __init__(self, client: DeviceClient, session_timeout: float = 0.0) -> None:
        self.calls = RemoteCalls(client, session_timeout)
        self._client = client
        self._files: dict[str, str] = {}

    # -- files -------------------------------------------------------------------------
    def upload(self, data: Any, target: str | None = None) -> str:
        """Have the device have something, which is sent unless it has the same bytes already.

        Args:
            data: the path of a library that ``export_library`` of a model wrote, bytes, or a module of kernels, which ``ir.build`` or
                ``runners.cuda.build_module`` made.
            target: the name by which :meth:`load_module` finds it; that of the file by default.

        Returns:
            The name.

        Raises:
            RunnerError: there is no such file, no name, or the server has no room for it.
        """
        content, name = _content_of(data, target)
        key = digest(content)
        self._client.send({key: content})
        self._files[name] = key
        return name

    def download(self, path: str) -> bytearray:
        """The bytes of what was uploaded."""
        return bytearray(self._client.fetch(self._key(path)))

    def remove(self, path: str) -> None:
        """Forget what was uploaded under a name; modules that were loaded of it stay."""
        del self._files[self._checked(path)]

    def listdir(self, path: str = ".") -> list[str]:
        """The names of what was uploaded; all of them are in one folder."""
        if path not in ("", ".", "/"):
            raise RunnerError(f"a session has one folder, '.', and no {path!r}")
        return sorted(self._files)

    def _checked(self, path: str) -> str:
        if path not in self._files:
            raise RunnerError(
                f"nothing was uploaded as {path!r}; there is {', '.join(self.listdir()) or 'nothing'}"
            )
        return path

    def _key(self, path: str) -> str:
        return self._files[self._checked(path)]

    # -- programs ----------------------------------------------------------------------
    def load_module(self, path: str) -> RemoteModule:
        """A program that was uploaded.

        Raises:
            RunnerError: nothing was, or it is no program.
        """
        return RemoteModule(RemoteProgram(self.calls, self._key(path), path))

    def get_function(self, name: str) -> RemoteFunction:
        """A Python function that the server's processes register (``ir.register_func``); that there is none of the name is an error of the
        first call."""
        return RemoteFunction(self.calls, 0, name, {})

    # -- devices -----------------------------------------------------------------------
    def device(self, dev_type: str, dev_id: int = 0) -> RemoteDevice:
        """A device of the server by the name of its type, as ``"cuda"``.

        Raises:
            DeviceError: there is no such type.
        """
        found = device(dev_type)
        return remote_device(self.calls, Device(found.device_type, dev_id or found.device_id))

    def cpu(self, dev_id: int = 0) -> RemoteDevice:
        """The server's processor."""
        return remote_device(self.calls, cpu(dev_id))

    def cuda(self, dev_id: int = 0) -> RemoteDevice:
        """A CUDA device of the server."""
        return remote_device(self.calls, cuda(dev_id))

    # -- the session -------------------------------------------------------------------
    @property
    def is_open(self) -> bool:
        """Whether the device is still this session's, as far as it is known here."""
        return self._client.is_open

    def close(self) -> None:
        """Give the device back; its process ends, and with it all arrays."""
        self._client.close()

    def __enter__(self) -> RPCSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RPCSession with {self.calls.place}{'' if self.is_open else ', over'}>"


class LocalSession:
    """The same for this process, so that a program runs here or elsewhere as it is given a session."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="loopsmith-session-")

    def upload(self, data: Any, target: str | None = None) -> str:
        """Copy something into the session's folder; see :meth:`RPCSession.upload`."""
        content, name = _content_of(data, target)
        self._path(name).write_bytes(content)
        return name

    def download(self, path: str) -> bytearray:
        """The bytes of what was uploaded."""
        return bytearray(self._found(path).read_bytes())

    def remove(self, path: str) -> None:
        """Forget what was uploaded; modules that were loaded of it stay."""
        self._found(path).unlink()

    def listdir(self, path: str = ".") -> list[str]:
        """The names of what was uploaded."""
        return sorted(os.listdir(self._folder.name))

    def load_module(self, path: str) -> Executable | KernelModule:
        """A program that was uploaded, in this process."""
        return opened(self._found(path))

    def get_function(self, name: str) -> Callable[..., Any]:
        """A Python function that is registered in this process."""
        return packed_function(name)

    def device(self, dev_type: str, dev_id: int = 0) -> Device:
        """A device of this machine."""
        return device(dev_type, dev_id or None)

    def cpu(self, dev_id: int = 0) -> Device:
        """The processor."""
        return cpu(dev_id)

    def cuda(self, dev_id: int = 0) -> Device:
        """A CUDA device."""
        return cuda(dev_id)

    def _path(self, name: str) -> Path:
        if not name or Path(name).name != name:
            raise RunnerError(f"a session has one folder, and no {name!r} in it; give a name without slashes")
        return Path(self._folder.name, name)

    def _found(self, name: str) -> Path:
        path = self._path(name)
        if not path.exists():
            raise RunnerError(
                f"nothing was uploaded as {name!r}; there is {', '.join(self.listdir()) or 'nothing'}"
            )
        return path

    def close(self) -> None:
        """Remove what was uploaded."""
        self._folder.cleanup()

    def __enter__(self) -> LocalSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _content_of(data: Any, target: str | None) -> tuple[bytes, str]:
    """The bytes of what is uploaded, and its name."""
    name = target
    if isinstance(data, str | os.PathLike):
        path = Path(data)
        name = path.name if name is None else name
        try:
            content = path.read_bytes()
        except OSError as error:
            raise RunnerError(f"cannot read {path}: {error.strerror}") from error
    elif isinstance(data, bytes | bytearray | memoryview):
        content = bytes(data)
    else:
        content = program_bytes(data)
    if not name:
        raise RunnerError("what is no file needs a name: upload(data, 'name')")
    return content, name


def connect(
    url: str, port: int, key: str = "", session_timeout: float = 0.0, *, credentials: str | None = None
) -> RPCSession:
    """A session with the device of a server that has no tracker.

    Args:
        url: the server's host.
        port: of the server.
        key: that its device must have; any by default.
        session_timeout: seconds that a call may take, and that the device is kept for a client that asks for nothing; 0 for no limits but
            the server's.
        credentials: folder of the client's certificate and tokens; by default that which ``LOOPSMITH_RPC_CREDENTIALS`` names.

    Raises:
        ConnectionLost: nobody answers there.
        RequestRefused: the device is in another session, or is a tracker's to give.
        RunnerError: the device has another key.
    """
    check_seconds("session_timeout", session_timeout)
    client = DeviceClient(Address(url, port), timeout_sec=session_timeout, credentials=credentials, key=key)
    if key:
        found = client.describe().key
        if found != key:
            client.close()
            raise RunnerError(f"the device at {client.address} has the key {found!r}, not {key!r}")
    return RPCSession(client, session_timeout)
