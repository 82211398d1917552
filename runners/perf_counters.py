"""Counters of the processor and of the system for what all threads of this process do, through Linux's ``perf_event_open``.

What may be counted differs: virtual machines often have no counters of the processor, containers may forbid the call, and the system
decides what users may count (``/proc/sys/kernel/perf_event_paranoid``). What cannot be counted is refused with a reason, event by event.
(Linux manual page perf_event_open(2).)
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_HARDWARE, _SOFTWARE = 0, 1
EVENTS: dict[str, tuple[int, int]] = {
    "cycles": (_HARDWARE, 0),
    "instructions": (_HARDWARE, 1),
    "cache misses": (_HARDWARE, 3),
    "branch misses": (_HARDWARE, 5),
    "nanoseconds of processors": (_SOFTWARE, 1),
    "page faults": (_SOFTWARE, 2),
    "context switches": (_SOFTWARE, 3),
}
"""Type and number of each event, as ``linux/perf_event.h`` has them. A cache miss is one of the last cache, as the processor defines it."""

_SYSCALLS = {"x86_64": 298, "aarch64": 241, "ppc64le": 319, "s390x": 331, "riscv64": 241}
_ATTRIBUTE = struct.Struct("=IIQQQQQIIQ")
"""``perf_event_attr`` of the first version: type, size, number, period, sample type, read format, flags, and what sampling needs."""
_ENABLED_AND_RUNNING = 1 | 2
_DISABLED, _INHERIT, _NO_KERNEL, _NO_HYPERVISOR = 1, 2, 1 << 5, 1 << 6
_ENABLE, _DISABLE = 0x2400, 0x2401
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_FORBIDDEN = (errno.EACCES, errno.EPERM)


@dataclass
class Counts:
    """What was counted, by the names of :data:`EVENTS`, and why the others were not."""

    values: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def reasons(self) -> list[str]:
        """A sentence for each reason, with the events that it is one for."""
        grouped: dict[str, list[str]] = {}
        for name, reason in self.refused.items():
            grouped.setdefault(reason, []).append(name)
        return [f"{', '.join(names)} not counted: {reason}" for reason, names in grouped.items()]


def count_events(call: Callable[[], object]) -> Counts:
    """Make a call, and count what the threads that exist now, and those that they start, do in it.

    The call is made whatever can be counted.
    """
    counts = Counts()
    opened: list[tuple[str, int]] = []
    try:
        for name, (kind, number) in EVENTS.items():
            handles, problem = _open_all(kind, number)
            opened += [(name, handle) for handle in handles]
            if problem is not None:
                counts.refused[name] = problem
        for _, handle in opened:
            fcntl.ioctl(handle, _ENABLE)
        call()
        for name, handle in opened:
            fcntl.ioctl(handle, _DISABLE)
            counts.values[name] = counts.values.get(name, 0.0) + _value(handle)
    finally:
        for _, handle in opened:
            os.close(handle)
    return counts


def _open_all(kind: int, number: int) -> tuple[list[int], str | None]:
    """Handles of an event, one for each thread; none, and a reason, where it cannot be counted."""
    call_number = _SYSCALLS.get(platform.machine())
    if platform.system() != "Linux" or call_number is None:
        return [], f"perf_event_open is known for Linux on {', '.join(sorted(_SYSCALLS))}"
    handles: list[int] = []
    for thread in map(int, os.listdir("/proc/self/task")):
        handle = _open(call_number, kind, number, thread)
        if handle == -errno.ESRCH:  # the thread has ended
            continue
        if handle < 0:
            for other in handles:
                os.close(other)
            return [], _reason(-handle)
        handles.append(handle)
    return handles, None


def _open(call_number: int, kind: int, number: int, thread: int) -> int:
    """A handle of an event of a thread; the negative number of an error."""
    flags = _DISABLED | _INHERIT | _NO_KERNEL | _NO_HYPERVISOR
    attribute = _ATTRIBUTE.pack(kind, _ATTRIBUTE.size, number, 0, 0, _ENABLED_AND_RUNNING, flags, 0, 0, 0)
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    close_on_exec = 8
    found = int(
        syscall(
            ctypes.c_long(call_number),
            ctypes.c_char_p(attribute),
            ctypes.c_int(thread),
            ctypes.c_int(-1),  # on every processor
            ctypes.c_int(-1),  # in no group
            ctypes.c_ulong(close_on_exec),
        )
    )
    return found if found >= 0 else -ctypes.get_errno()


def _value(handle: int) -> float:
    """A count, scaled where the processor had fewer counters than events and took turns."""
    value, enabled, running = struct.unpack("=QQQ", os.read(handle, 24))
    return float(value) * (enabled / running if 0 < running < enabled else 1.0)


def _reason(error: int) -> str:
    if error in _FORBIDDEN:
        level = "?"
        with suppress(OSError):
            level = _PARANOID.read_text().strip()
        return (
            f"the system does not allow it ({_PARANOID} is {level}; `sysctl kernel.perf_event_paranoid=2` lets users count their own"
            " processes, and a container needs CAP_PERFMON)"
        )
    if error == errno.ENOSYS:
        return "the system, or the container, has no perf_event_open"
    if error in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV, errno.EINVAL):
        return "this machine does not offer it, as is usual for virtual ones"
    return os.strerror(error)
