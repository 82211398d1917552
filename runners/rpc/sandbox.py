"""How worker processes are confined that run what clients sent, as a server says it: as whom they run, what they may use up, and what they
know of the server. The steps themselves are in :mod:`.confinement`.
"""

from __future__ import annotations

import glob
import json
import os
import pwd
import re
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from .. import lock
from ..template import SANDBOX_VARIABLE

_KEPT_VARIABLES = ("PATH", "LANG", "LC_", "LD_", "PYTHON", "OMP_", "CUDA_", "NVIDIA_", "LOOPSMITH_")
_SECRET_VARIABLES = ("LOOPSMITH_RPC_CREDENTIALS", "LOOPSMITH_TRACKER_")
_GPUS = "/proc/driver/nvidia/gpus/*/information"


@dataclass(frozen=True)
class Sandbox:
    """How workers are confined."""

    user: str = "nobody"
    """Whom they run as where the server is root; its groups are none but its own."""
    files: int = 256
    """That a worker may have open."""
    file_bytes: int = 1 << 30
    """That a file may have which a worker writes."""
    threads: int = 1024
    """That the workers' user may have beyond those that it has already."""
    reply_bytes: int = 256 << 20
    """That a worker may answer at once."""
    call_seconds: float = 3600.0
    """That a call may take, whatever the worker says of its phases."""
    has_devices: bool = False
    """Drivers of accelerators are used, and compilers of their own: programs may be started, and UNIX sockets opened."""
    readable: tuple[str, ...] = ()
    """Folders that workers may read beside those of Python and of this project."""

    def environment(self, given: dict[str, str]) -> dict[str, str]:
        """What a template gets of a server's environment, in which there may be passwords; and the sandbox itself."""
        kept = {
            name: value
            for name, value in given.items()
            if name.startswith(_KEPT_VARIABLES) and not name.startswith(_SECRET_VARIABLES)
        }
        return {**kept, SANDBOX_VARIABLE: json.dumps(asdict(self))}

    @staticmethod
    def of_environment() -> Sandbox | None:
        """The sandbox of the workers of this template, which do not see it any more; None where they have none."""
        text = os.environ.pop(SANDBOX_VARIABLE, None)
        if text is None:
            return None
        told = json.loads(text)
        return Sandbox(**{**told, "readable": tuple(told["readable"])})

    @property
    def account(self) -> pwd.struct_passwd | None:
        """Whom workers become; None where the server is not root, or names nobody, and they stay who it is.

        Raises:
            KeyError: the system does not know the user.
        """
        return pwd.getpwnam(self.user) if os.geteuid() == 0 and self.user else None

    def receive(self, connection: socket.socket) -> Any:
        """The next answer of a worker, as :func:`runners.plain_reply.receive` reads it."""
        return replies().receive(connection, self.reply_bytes)

    def prepare_folder(self, own: Path, shared: Path) -> None:
        """Make the folder that workers share, within one of the server's own, and see that the locks are there, which they cannot make."""
        shared.mkdir(mode=0o700, exist_ok=True)
        account = self.account
        if account is not None:
            os.chown(shared, account.pw_uid, account.pw_gid)
            own.chmod(0o711)
        lock.prepare(_device_names() if self.has_devices else ())


def _device_names() -> list[str]:
    """Of the GPUs of this machine, as :func:`runners.cuda.context.identity` names them, without starting a driver."""
    found = []
    for path in glob.glob(_GPUS):
        with suppress(OSError):
            found += re.findall(r"GPU-[0-9a-f-]+", Path(path).read_text(errors="replace"))
    return found


def replies() -> Any:
    """The module of answers, which loads what candidates need: in a template not before its namespaces are made."""
    return import_module("runners.plain_reply")
