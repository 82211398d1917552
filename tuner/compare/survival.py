"""Calls of a model on inputs that were made up: one that ends the process is tried in a child, so that there is someone to say so."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from runners import Device, VirtualMachine

from ..error import TunerError


class EndsProcessError(TunerError):
    """A model ends the process that calls it."""


_SECONDS = 60.0
"""A child that takes longer is ended, and nothing is said: what is too slow is for others to find."""


def runs_in_process(machine: VirtualMachine) -> bool:
    """Whether a model's kernels run in this process and can end it.

    What goes wrong on a device is an error, and a child could not use the device.
    """
    return machine.device.device_type == Device.kDLCPU


def require_survives(call: Callable[[], object]) -> None:
    """Call once in a child process.

    Raises:
        EndsProcessError: a signal ended the child, as where inputs make the model divide by zero or take an index out of range. Both are
            undefined (``docs/semantics.md``), and native code does not look for them.
    """
    child = os.fork()
    if child == 0:
        try:
            call()
        finally:  # whatever it raised, the parent's own call raises too
            os._exit(0)
    status = _status_of(child)
    if status is not None and os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        raise EndsProcessError(
            f"the model ends its process by {name} on these inputs: it divides an integer by zero, or takes an index that is out of"
            " range, which nothing computes. Give inputs that it is made for: --inputs FILE.npz of `loopsmith run` does"
        )


def _status_of(child: int) -> int | None:
    """How a child ended; None when it had to be ended."""
    end = time.monotonic() + _SECONDS
    pause = 1e-3
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None
