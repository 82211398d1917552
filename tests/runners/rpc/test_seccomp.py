"""The filter of system calls, run by an interpreter of BPF: which calls it lets through, on both processors."""

from __future__ import annotations

import errno
import struct

import pytest

from runners.rpc import seccomp

PID = 77
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
COLUMN = {"x86_64": 0, "aarch64": 1}
_THREAD, _SIGCHLD = 0x00010000 | 0x100, 17


def run(program: bytes, arch: int, number: int, *arguments: int) -> int:
    """The error that a call gets; 0 where it is let through. The few instructions that filters have, as the kernel's manual has them."""
    described = struct.pack("=IIQ6Q", number, arch, 0, *arguments, *[0] * (6 - len(arguments)))
    instructions = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    value, place = 0, 0
    while True:
        code, if_true, if_false, constant = instructions[place]
        place += 1
        if code == 0x20:  # load
            (value,) = struct.unpack_from("=I", described, constant)
        elif code == 0x06:  # return
            action, data = constant & 0xFFFF0000, constant & 0xFFFF
            assert action in (0x7FFF0000, 0x00050000)
            return 0 if action == 0x7FFF0000 else data
        else:
            holds = {0x15: value == constant, 0x35: value >= constant, 0x45: bool(value & constant)}[code]
            place += if_true if holds else if_false


def called(machine: str, name: str, *arguments: int, runs_programs: bool = False) -> int:
    number = seccomp._NUMBERS[name][COLUMN[machine]]
    assert number is not None
    program = seccomp.filter_program(PID, machine=machine, runs_programs=runs_programs)
    return run(program, ARCH[machine], number, *arguments)


machines = pytest.mark.parametrize("machine", list(ARCH))


@machines
def test_what_is_not_named_is_let_through(machine: str) -> None:
    program = seccomp.filter_program(PID, machine=machine)
    reads_and_maps = {"x86_64": (0, 9, 202), "aarch64": (63, 222, 98)}[machine]
    assert [run(program, ARCH[machine], number) for number in reads_and_maps] == [0, 0, 0]


@machines
def test_calls_of_another_interface_are_refused(machine: str) -> None:
    """They have other numbers: those of 32 bits, and of x32."""
    program = seccomp.filter_program(PID, machine=machine)
    assert run(program, 0x40000003, 3) == errno.ENOSYS
    if machine == "x86_64":
        assert run(program, ARCH[machine], 0x40000000) == errno.ENOSYS
        assert run(program, ARCH[machine], 0x40000000 + 59) == errno.ENOSYS


@machines
def test_all_that_is_named_is_refused_but_for_some_arguments(machine: str) -> None:
    for name, row in seccomp._NUMBERS.items():
        if row[COLUMN[machine]] is not None and name not in ("prctl", "prlimit64"):
            assert called(machine, name) == (errno.ENOSYS if name == "clone3" else errno.EPERM), name


@machines
def test_signals_go_to_the_process_itself_alone(machine: str) -> None:
    for name in ("kill", "tgkill"):
        assert called(machine, name, PID, 9) == 0
        assert called(machine, name, PID + 1, 9) == called(machine, name, 0xFFFFFFFF, 9) == errno.EPERM
    assert called(machine, "tkill", PID, 9) == errno.EPERM
    assert called(machine, "prlimit64", 0) == called(machine, "prlimit64", PID) == 0
    assert called(machine, "prlimit64", PID + 1) == errno.EPERM


@machines
def test_threads_are_made_and_processes_are_not(machine: str) -> None:
    assert called(machine, "clone", _THREAD) == 0
    assert called(machine, "clone", _SIGCHLD) == errno.EPERM
    assert called(machine, "clone3") == errno.ENOSYS  # upon which C libraries call clone


@machines
def test_nobody_outlives_the_server(machine: str) -> None:
    assert called(machine, "prctl", 1) == errno.EPERM
    assert called(machine, "prctl", 15) == 0  # the name of a thread


@machines
def test_with_devices_programs_are_started_and_sockets_of_the_machine_opened(machine: str) -> None:
    for name in ("execve", "clone", "clone3"):
        assert called(machine, name, _SIGCHLD, runs_programs=True) == 0
    for name in ("socket", "socketpair"):
        assert called(machine, name, 1, runs_programs=True) == 0
        assert called(machine, name, 2, runs_programs=True) == errno.EPERM
        assert called(machine, name, 1) == errno.EPERM
    assert called(machine, "ptrace", runs_programs=True) == errno.EPERM
