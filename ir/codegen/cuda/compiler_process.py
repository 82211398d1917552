"""NVRTC in a process of its own: a program that ends the compiler ends that process, and is one error for whoever asked.

The process is started when it is first needed and serves one program after the other, so that its start is paid for once.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Any

from ..error import CudaCompileError
from ..forking import hold_at_fork

_LENGTH_BYTES = 8
_PATIENCE_S = 2.0
"""For a process that is to end."""
_SERVE = """import sys
sys.path[:] = {path!r}
from ir.codegen.cuda.compiler_process import serve
from ir.codegen.cuda.nvrtc import compile_here
serve(compile_here)"""
"""What the process runs."""
_asking = threading.Lock()
hold_at_fork(_asking.acquire, _asking.release)
_process: subprocess.Popen[bytes] | None = None


def compile_apart(source: str, arch: str, name: str, options: Sequence[str], kernels: Sequence[str]) -> Any:
    """What :func:`~ir.codegen.cuda.nvrtc.compile_here` gives in the other process.

    Raises:
        CudaCompileError: the compiler ended its process, or the program is wrong.
        CudaToolkitError: there is no NVRTC.
    """
    with _asking:
        process = _running()
        try:
            _send(process.stdin, (source, arch, name, list(options), list(kernels)))
            found = _receive(process.stdout)
        except (EOFError, BrokenPipeError):
            raise CudaCompileError(f"{name}: {_told_end(process)} while it compiled for {arch}") from None
    if isinstance(found, Exception):
        raise found
    return found


def serve(compile_it: Callable[..., Any]) -> None:
    """Compiles what comes through the standard input until that ends, by :func:`~ir.codegen.cuda.nvrtc.compile_here`."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a compiler prints is no answer
    while True:
        try:
            source, arch, name, options, kernels = _receive(sys.stdin.buffer)
        except EOFError:
            return
        found: Any
        try:
            found = compile_it(source, arch, name=name, options=options, kernels=kernels)
        except Exception as error:
            found = error
        _send(answers, found)


def _running() -> subprocess.Popen[bytes]:
    global _process
    if _process is None or _process.poll() is not None:
        _end()
        command = [sys.executable, "-c", _SERVE.format(path=sys.path)]
        _process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
    return _process


def _told_end(process: subprocess.Popen[bytes]) -> str:
    """How a process ended."""
    status = process.wait()
    if status >= 0:
        return f"the compiler's process ended with status {status}"
    with suppress(ValueError):
        return f"the compiler was ended by {signal.Signals(-status).name}"
    return f"the compiler was ended by signal {-status}"


def _send(to: IO[bytes] | None, what: Any) -> None:
    assert to is not None
    data = pickle.dumps(what)
    to.write(len(data).to_bytes(_LENGTH_BYTES, "little") + data)
    to.flush()


def _receive(of: IO[bytes] | None) -> Any:
    assert of is not None
    head = of.read(_LENGTH_BYTES)
    size = int.from_bytes(head, "little")
    data = of.read(size)
    if len(head) < _LENGTH_BYTES or len(data) < size:
        raise EOFError
    return pickle.loads(data)


def _leave_to_parent() -> None:
    """A child that was forked starts a process of its own."""
    global _process
    _process = None


def _end() -> None:
    """A process that reads no more ends itself."""
    if _process is None:
        return
    for pipe in (_process.stdin, _process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    with suppress(subprocess.TimeoutExpired):
        _process.wait(timeout=_PATIENCE_S)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
atexit.register(_end)
