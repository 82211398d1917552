"""Ways of "building" for tests: the interpreter, and candidates that misbehave in a chosen way when they are called.

A function attribute ``inject`` of the program says how; the unscheduled program has none.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ir.pass_context import PassContext
from ir.tir import interpreter
from runners.verify import entry


def interpreted(mod: Any, target: Any) -> Callable[..., Any]:
    """Run by the interpreter, or misbehave."""
    inject = entry(mod).attrs.get("inject")
    inject = None if inject is None else str(getattr(inject, "value", inject))
    if inject == "build_error":
        raise ValueError("this program cannot be built")
    if inject == "build_hang":
        time.sleep(60)
    if inject == "build_crash":
        ctypes.string_at(0)
    if inject == "needs_option" and not PassContext.current().get("tir.disable_assert"):
        raise ValueError("built without the option")

    def call(*arguments: Any) -> None:
        if inject in MISBEHAVIOURS:
            MISBEHAVIOURS[inject](*arguments)
        else:
            interpreter.run(mod, *arguments)
            if inject == "slow":
                time.sleep(0.1)

    return call


def _hang(*arguments: Any) -> None:
    while True:
        pass


def _eat_memory(*arguments: Any) -> None:
    held = []
    while True:
        held.append(np.ones(1 << 27, np.float64))


def _wrong(*arguments: Any) -> None:
    arguments[-1][...] = 0


def _almost(*arguments: Any) -> None:
    """Right up to one element that is never written."""
    *inputs, output = arguments
    right = inputs[0] @ inputs[1]
    output.ravel()[:-1] = right.ravel()[:-1]


def _sometimes() -> Callable[..., None]:
    """Right in the first calls of a process, wrong now and then after them."""
    calls = 0

    def call(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        np.matmul(arguments[0], arguments[1], out=arguments[2])
        if calls > 6 and calls % 2:
            arguments[2][0, 0] += 1

    return call


def _write_input(*arguments: Any) -> None:
    np.matmul(arguments[0], arguments[1], out=arguments[2])
    arguments[1][0, 0] = 0.5


def _write_beside(*arguments: Any) -> None:
    np.matmul(arguments[0], arguments[1], out=arguments[2])
    ctypes.memset(arguments[2].ctypes.data + arguments[2].nbytes, 1, 4)


def _wrong_below_zero(*arguments: Any) -> None:
    """So slow that only the first kinds of inputs are tried before the time counts, and wrong on a later one."""
    time.sleep(2e-3)
    np.matmul(arguments[0], arguments[1], out=arguments[2])
    if (arguments[0] < 0).all():
        arguments[2][...] = 0


def _raise(*arguments: Any) -> None:
    raise RuntimeError("refused to run")


def _exit(*arguments: Any) -> None:
    os._exit(3)


def _segfault(*arguments: Any) -> None:
    print("last words", flush=True)
    ctypes.string_at(0)


MISBEHAVIOURS: dict[str, Callable[..., None]] = {
    "segfault": _segfault,
    "hang": _hang,
    "memory": _eat_memory,
    "wrong": _wrong,
    "almost": _almost,
    "raise": _raise,
    "sometimes": _sometimes(),
    "input": _write_input,
    "beside": _write_beside,
    "below_zero": _wrong_below_zero,
    "exit": _exit,
}
