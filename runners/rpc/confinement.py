"""The confinement of worker processes that run what clients sent: what they may still do is to compute.

Everything here happens in the template of a pool (:mod:`runners.template`) and in each worker after its fork and before its first call. A
step that the system does not allow is left out, and told: :func:`measures` in a worker lists all of them.

* The network and System V's shared memory are namespaces of the template's own, in which there is nothing.
* Limits of the system: open files, threads, the size of a file, no dumps of memory.
* Another user, without groups and capabilities, where the server is root.
* No privileges by what is executed (``PR_SET_NO_NEW_PRIVS``).
* Landlock: the code of Python and of this project, and what the system tells of the machine, may be read; the folder of references
  and the locks may be written; nothing else (:mod:`.allowed_paths`).
* Seccomp: no sockets, no other processes, no programs, nothing of the kernel's administration (:mod:`.seccomp`).
"""

from __future__ import annotations

import ctypes
import glob
import os
import resource
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .. import worker
from . import landlock, seccomp
from .allowed_paths import allowed_paths, python_folders
from .sandbox import Sandbox, replies

_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_NEWIPC = 0x10000000, 0x40000000, 0x08000000
_PR_SET_KEEPCAPS, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 8, 24, 38
_CAP_DAC_READ_SEARCH = 2
_CAPABILITIES_VERSION = 0x20080522


@dataclass(frozen=True, slots=True)
class Measure:
    """A step of the confinement."""

    name: str
    is_taken: bool
    told: str
    """How far it goes, or why it was not taken."""

    def __str__(self) -> str:
        return f"{self.name}: {self.told if self.is_taken else f'NO ({self.told})'}"


_TAKEN: list[Measure] = []


def measures() -> list[tuple[str, bool, str]]:
    """Asked in a worker: the name of each step, whether it was taken, and how far it goes or why not."""
    return [(item.name, item.is_taken, item.told) for item in _TAKEN]


def can_open(paths: list[str]) -> list[str]:
    """Asked in a worker: those of some files that it can read."""
    found = []
    for path in paths:
        try:
            with open(path, "rb"):
                found.append(path)
        except OSError:
            pass
    return found


def _take(name: str, step: Callable[[], str]) -> None:
    try:
        _TAKEN.append(Measure(name, True, step()))
    except (OSError, ValueError, KeyError) as error:
        _TAKEN.append(Measure(name, False, str(error) or type(error).__name__))


# -- in the template -------------------------------------------------------------------
def prepare() -> Sandbox | None:
    """The sandbox of this template's workers, if they have one; the part of it that they inherit begins here.

    It is called before anything is imported that starts threads.
    """
    sandbox = Sandbox.of_environment()
    if sandbox is not None:
        _take("network", _leave_network)
        replies()  # loads what candidates need
    return sandbox


def _leave_network() -> str:
    flags = _CLONE_NEWNET | _CLONE_NEWIPC
    if os.geteuid() != 0:
        flags |= _CLONE_NEWUSER
    user, group = os.getuid(), os.getgid()
    _check("unshare", _libc().unshare(flags))
    if flags & _CLONE_NEWUSER:  # files that are made belong to who the server is
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return "a namespace of its own, without devices"


def serve(
    connection: socket.socket, memory_limit: int, sandbox: Sandbox, before_filter: Callable[[], None]
) -> None:
    """Confine this process, a new worker, and answer calls in it; see :func:`confine`."""
    encoded = replies().encoded
    confine(sandbox, {0, 1, 2, connection.fileno()}, before_filter)
    worker.serve(connection, memory_limit, encoded)


# -- in a worker -----------------------------------------------------------------------
def confine(sandbox: Sandbox, keep: set[int], before_filter: Callable[[], None] = lambda: None) -> None:
    """Confine this process, which has one thread.

    Args:
        sandbox: how.
        keep: file descriptors that it needs; all others are closed.
        before_filter: what is left to do as another user, and what the filter of system calls would refuse.
    """
    _close_files(keep)
    os.umask(0o077)
    try:
        ruleset: int | OSError = landlock.make_ruleset(allowed_paths(sandbox))
    except OSError as error:
        ruleset = error
    _take("limits", lambda: _limit(sandbox))
    _take("user", lambda: _become(sandbox, may_search=isinstance(ruleset, int)))
    _take("no new privileges", _refuse_privileges)
    _take("files", lambda: _restrict_files(ruleset))
    before_filter()
    _take("system calls", lambda: _filter(sandbox))


def _close_files(keep: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in keep:
            with suppress(OSError):  # that of the listing itself
                os.close(int(name))


def _limit(sandbox: Sandbox) -> str:
    account = sandbox.account
    processes = sandbox.threads + _tasks_of(os.getuid() if account is None else account.pw_uid)
    for name, most in (
        (resource.RLIMIT_NOFILE, sandbox.files),
        (resource.RLIMIT_FSIZE, sandbox.file_bytes),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_RTPRIO, 0),
    ):
        _, hard = resource.getrlimit(name)
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(name, (limit, limit))
    return f"{sandbox.files} files, {sandbox.file_bytes >> 20} MiB each, {sandbox.threads} threads, no core"


def _tasks_of(user: int) -> int:
    """Threads that a user has; RLIMIT_NPROC counts all of them, whoever started them."""
    count = 0
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            if os.stat(folder).st_uid == user:
                with open(f"{folder}/stat", encoding="utf-8", errors="replace") as file:
                    count += int(file.read().rpartition(")")[2].split()[17])
        except (OSError, ValueError, IndexError):  # it has just ended
            pass
    return count


def _become(sandbox: Sandbox, *, may_search: bool) -> str:
    if os.geteuid() != 0:
        _set_capabilities(0)
        return f"that of the server, {os.getuid()}, without capabilities"
    account = sandbox.account
    if account is None:
        raise PermissionError("the sandbox names no user")
    searches = not all(_is_open_to_all(path) for path in python_folders(sandbox))
    if searches and not may_search:
        # Without Landlock the right to search would open every file of the machine.
        raise PermissionError(
            f"{sandbox.user} cannot read the folder of Python; install it where all can read it"
        )
    library = _libc()
    for capability in range(64):
        library.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    if searches:
        _check("prctl", library.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0))
    os.setgroups([])
    os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
    os.setresuid(account.pw_uid, account.pw_uid, account.pw_uid)
    _set_capabilities(1 << _CAP_DAC_READ_SEARCH if searches else 0)
    also = ", which may pass closed folders on the way to what Landlock opens" if searches else ""
    return f"{sandbox.user}, without groups and capabilities{also}"


def _is_open_to_all(path: str) -> bool:
    """Whether everybody can list a folder and get there."""
    where = Path(path).resolve()
    try:
        if where.stat().st_mode & 0o005 != 0o005:
            return False
        return all(parent.stat().st_mode & 0o001 for parent in where.parents)
    except OSError:
        return True  # what is not there is needed by nobody


def _set_capabilities(mask: int) -> None:
    header = struct.pack("=Ii", _CAPABILITIES_VERSION, 0)
    data = struct.pack("=6I", mask, mask, 0, 0, 0, 0)
    _check("capset", _libc().capset(header, data))


def _refuse_privileges() -> str:
    _check("prctl", _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    return "by what is executed"


def _restrict_files(ruleset: int | OSError) -> str:
    if isinstance(ruleset, OSError):  # there is none
        raise ruleset
    landlock.restrict(ruleset)
    os.close(ruleset)
    return (
        f"Landlock {landlock.version()}: reads code and /proc, writes the folder of references and the locks"
    )


def _filter(sandbox: Sandbox) -> str:
    seccomp.install(seccomp.filter_program(os.getpid(), runs_programs=sandbox.has_devices))
    if sandbox.has_devices:
        return "seccomp: no sockets but UNIX's, no administration; programs may be started, for the device's compiler"
    return "seccomp: no sockets, no processes, no programs, no administration"


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(name: str, status: int) -> None:
    if status:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
