"""A filter of system calls (seccomp, in classic BPF) that refuses what a kernel of a tensor program never needs.

See :manpage:`seccomp(2)` and the kernel's ``Documentation/userspace-api/seccomp_filter.rst``. The filter lists what is refused, since what
Python, LLVM and C libraries need changes with their versions; files are for :mod:`.landlock` to guard.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

_SET_MODE_FILTER = 1
_FLAG_SPEC_ALLOW = 4
"""Without it some systems slow all code of the process down, against attacks by speculation: kernels are measured here."""
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""Codes of BPF: load 32 bits of the call's description, compare them with a constant, end."""
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
"""Offsets in ``struct seccomp_data``; arguments have 8 bytes each, the lower half first on these processors."""
_X32_BIT = 0x40000000
"""Numbers of x86's third interface, which would go round the filter."""


@dataclass(frozen=True)
class _Processor:
    arch: int
    """``AUDIT_ARCH_...``"""
    column: int
    """Of :data:`_NUMBERS`."""
    seccomp: int
    """Number of the system call that installs a filter."""


_PROCESSORS = {"x86_64": _Processor(0xC000003E, 0, 317), "aarch64": _Processor(0xC00000B7, 1, 277)}

_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    # processes: programs that are started, other processes that are looked into, changed or made
    "execve": (59, 221),
    "execveat": (322, 281),
    "fork": (57, None),
    "vfork": (58, None),
    "clone": (56, 220),
    "clone3": (435, 435),
    "unshare": (272, 97),
    "setns": (308, 268),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "setpriority": (141, 140),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "ioprio_set": (251, 30),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    # connections
    "socket": (41, 198),
    "socketpair": (53, 199),
    "mq_open": (240, 180),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    # the file system as a whole
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "acct": (163, 89),
    # the kernel itself
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "personality": (135, 92),
    "lookup_dcookie": (212, 18),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "nfsservctl": (180, 42),
    "uselib": (134, None),
}
"""Numbers of system calls on x86_64 and aarch64."""

_CLONE_THREAD = 0x00010000
_OF_PROCESSES = ("execve", "execveat", "fork", "vfork", "clone", "clone3")
_SOCKETS = ("socket", "socketpair")
_OF_THIS_PROCESS = ("kill", "tgkill")
"""Calls whose first argument names a process: this one's alone is allowed."""
_AF_UNIX = 1
_PR_SET_PDEATHSIG = 1


class SeccompUnavailable(OSError):
    """The system does not have it, or its numbers of system calls are not known here."""


class _Program:
    """Instructions, each of 8 bytes."""

    def __init__(self) -> None:
        self.code = b""

    def add(self, code: int, value: int, if_true: int = 0, if_false: int = 0) -> None:
        self.code += struct.pack("=HBBI", code, if_true, if_false, value)

    def refuse(self, error: int = errno.EPERM) -> None:
        self.add(_RETURN, _REFUSE | error)

    def refuse_call(self, number: int, *, error: int = errno.EPERM) -> None:
        """Refuse a call, whatever its arguments."""
        self.add(_JUMP_EQUAL, number, 0, 1)
        self.refuse(error)

    def refuse_unless(self, code: int, values: tuple[int, ...], number: int) -> None:
        """Refuse a call whose first argument, of which the lower half counts, compares with none of the values."""
        self.add(_JUMP_EQUAL, number, 0, 2 * len(values) + 2)
        self.add(_LOAD, _ARGUMENTS_AT)
        for value in values:
            self.add(code, value, 0, 1)
            self.add(_RETURN, _ALLOW)
        self.refuse()

    def refuse_first(self, value: int, number: int) -> None:
        """Refuse a call whose first argument is this one."""
        self.add(_JUMP_EQUAL, number, 0, 4)
        self.add(_LOAD, _ARGUMENTS_AT)
        self.add(_JUMP_EQUAL, value, 0, 1)
        self.refuse()
        self.add(_RETURN, _ALLOW)


def filter_program(pid: int, *, runs_programs: bool = False, machine: str | None = None) -> bytes:
    """The filter of a process.

    Args:
        pid: of the process, which may send signals to itself alone.
        runs_programs: other programs may be started, and sockets of the machine itself opened, as compilers and drivers of accelerators
            need it.
        machine: as :func:`platform.machine` names processors; this one by default.

    Raises:
        SeccompUnavailable: the processor's numbers of system calls are not known here.
    """
    name = machine or platform.machine()
    processor = _PROCESSORS.get(name)
    if processor is None:
        raise SeccompUnavailable(f"no filter of system calls is known for {name}")
    program = _Program()
    program.add(_LOAD, _ARCH_AT)
    program.add(_JUMP_EQUAL, processor.arch, 1, 0)
    program.refuse(errno.ENOSYS)
    program.add(_LOAD, _NUMBER_AT)
    if name == "x86_64":
        program.add(_JUMP_AT_LEAST, _X32_BIT, 0, 1)
        program.refuse(errno.ENOSYS)
    special = _special(program, pid, runs_programs=runs_programs)
    for call, row in _NUMBERS.items():
        number = row[processor.column]
        if number is not None:
            special.get(call, program.refuse_call)(number)
    program.add(_RETURN, _ALLOW)
    return program.code


def _special(program: _Program, pid: int, *, runs_programs: bool) -> dict[str, Callable[[int], None]]:
    """What the program does, by its number, with a call of :data:`_NUMBERS` that is not always refused, or in another way."""
    found: dict[str, Callable[[int], None]] = {
        **{call: partial(program.refuse_unless, _JUMP_EQUAL, (pid,)) for call in _OF_THIS_PROCESS},
        "prlimit64": partial(program.refuse_unless, _JUMP_EQUAL, (0, pid)),
        "prctl": partial(program.refuse_first, _PR_SET_PDEATHSIG),
        # Its arguments are in memory, where no filter sees them; C libraries then use clone.
        "clone3": partial(program.refuse_call, error=errno.ENOSYS),
        "clone": partial(program.refuse_unless, _JUMP_BITS, (_CLONE_THREAD,)),
    }
    if runs_programs:
        found.update({call: lambda number: None for call in _OF_PROCESSES})
        found.update({call: partial(program.refuse_unless, _JUMP_EQUAL, (_AF_UNIX,)) for call in _SOCKETS})
    return found


def install(code: bytes) -> None:
    """Filter the calls of this thread and of what it starts, for good. It needs ``PR_SET_NO_NEW_PRIVS`` before.

    Raises:
        SeccompUnavailable: the system refuses.
    """
    library = ctypes.CDLL(None, use_errno=True)
    kept = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("@HP", len(code) // 8, ctypes.addressof(kept))
    processor = _PROCESSORS.get(platform.machine())
    if processor is not None and not library.syscall(
        processor.seccomp, _SET_MODE_FILTER, _FLAG_SPEC_ALLOW, described
    ):
        return
    if library.prctl(_PR_SET_SECCOMP, _MODE_FILTER, described, 0, 0):
        fault = ctypes.get_errno()
        raise SeccompUnavailable(fault, f"seccomp: {os.strerror(fault)}")
