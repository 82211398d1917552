"""Running Relax programs in every way there is: evaluated, built as it is, and built with all optimizations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import runners
from ir import IRModule, relax
from ir.relax import transform
from ir.relax.testing import evaluate

Execute = Callable[..., Any]


def plain(value: Any) -> Any:
    """A result with numpy arrays."""
    if isinstance(value, tuple | list):
        return tuple(plain(item) for item in value)
    return value.numpy() if isinstance(value, runners.NDArray) else value


def machine(mod: IRModule, optimized: bool = True) -> runners.VirtualMachine:
    """The built program; without optimizations, operators become kernels and nothing else happens."""
    if optimized:
        built = relax.build(mod, "llvm", tir_pipeline=None)
    else:
        kernels = transform.LegalizeOps()(transform.LambdaLift()(mod))
        built = relax.build(kernels, "llvm", pipeline=None)
    return runners.VirtualMachine(built, runners.cpu())


def executors(mod: IRModule) -> list[tuple[str, Execute]]:
    """Functions that call ``main``, by what runs it."""

    def evaluated(*args: Any) -> Any:
        return evaluate(mod, *args)

    lifted = transform.LambdaLift()(mod)
    found: list[tuple[str, Execute]] = [("evaluated", evaluated)]
    for name, optimized in (("as it is", False), ("optimized", True)):
        found.append((name, machine(lifted, optimized)["main"]))
    return found


def holds(mod: IRModule, args: list[Any], expected: Any) -> None:
    """Every way to run a program gives the expected result, each time that it is called."""
    for name, execute in executors(mod):
        for _ in range(2):
            given = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
            same(plain(execute(*given)), expected, name)


def same(found: Any, expected: Any, name: str) -> None:
    """Results that are equal, element by element."""
    if isinstance(expected, tuple):
        assert isinstance(found, tuple) and len(found) == len(expected), name
        for item, wanted in zip(found, expected, strict=True):
            same(item, wanted, name)
    else:
        np.testing.assert_array_equal(np.asarray(found), expected, err_msg=name)
