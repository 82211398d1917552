"""Programs run in every way there is: by the interpreter, and as native code for vectors of every width that this machine has.

What is expected is written by hand or computed by numpy and Python: never by code of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from ir import IRModule
from ir.codegen.build import build
from ir.dtype import to_numpy
from ir.script import from_source
from ir.tir import PrimFunc
from ir.tir.interpreter import InterpreterError, run

_NEEDED = {
    "llvm -mcpu=x86-64": "sse2",
    "llvm -mcpu=x86-64-v3": "avx2",
    "llvm -mcpu=x86-64-v4": "avx512f",
}
_FEATURES = llvm.get_host_cpu_features()
TARGETS = [target for target, feature in _NEEDED.items() if _FEATURES.get(feature)] + ["cpu"]
"""Vectors of 16, 32 and 64 bytes, as far as this machine has them, and the machine as it is."""

_LENGTH = 37
"""Elements of the arrays of :func:`law`: whole vectors of every width, and a rest."""


def executors(program: PrimFunc | IRModule) -> list[tuple[str, Callable[..., Any]]]:
    """The ways to run a function ``main``, with their names."""
    native = [(target, build(program, target)["main"]) for target in TARGETS]
    return [("interpreter", lambda *args: run(program, *args)), *native]


def same(found: np.ndarray, expected: Any, signs: bool = True) -> None:
    """Equal in every bit that counts: NaN equals NaN, and the sign of zero is looked at where ``signs`` is True."""
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    if found.dtype.kind in "iub":
        np.testing.assert_array_equal(found, expected)
        return
    got, wanted = found.astype("float64"), expected.astype("float64")
    np.testing.assert_array_equal(got, wanted)
    if signs:
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(wanted)[numbers])


def holds(
    program: PrimFunc | IRModule, args: Sequence[Any], expected: Mapping[int, Any], signs: bool = True
) -> None:
    """In every way to run it, the program leaves what is expected in its arguments, by their number, and the others as they are."""
    for name, execute in executors(program):
        copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
        execute(*copies)
        for index, (before, after) in enumerate(zip(args, copies)):
            if isinstance(before, np.ndarray):
                try:
                    same(after, expected.get(index, before), signs)
                except AssertionError as error:
                    raise AssertionError(f"argument {index}, {name}: {error}") from None


def refused(program: PrimFunc | IRModule, args: Sequence[Any], rule: str) -> None:
    """The interpreter refuses the program and names the rule."""
    with pytest.raises(InterpreterError, match=rf"\[{rule}\]"):
        run(program, *args)


def script(parameters: Mapping[str, tuple[Sequence[int], str]], *lines: str) -> PrimFunc:
    """A function ``main`` from the lines of its body and its buffers: name, shape and dtype."""
    buffers = ", ".join(
        f'{name}: T.Buffer({tuple(shape)}, "{dtype}")' for name, (shape, dtype) in parameters.items()
    )
    body = "\n".join(f"    {line}" for line in lines)
    found = from_source(f"@T.prim_func\ndef main({buffers}):\n{body}\n")
    assert isinstance(found, PrimFunc)
    return found


def law(
    value: str,
    inputs: Mapping[str, tuple[Any, str]],
    expected: Any,
    dtype: str,
    signs: bool = True,
    let: str = "",
) -> None:
    """``O[i] = value`` for all i stores what is expected, in serial, vectorized, parallel and unrolled loops.

    Args:
        value: an expression of ``A[i]`` for the inputs ``A``, as script.
        inputs: elements and dtype by name; they are repeated.
        expected: the value for each of the elements, by other means.
        dtype: of the result.
        signs: whether the sign of zero counts.
        let: a statement before the store, such as ``x = A[i] + 1``.
    """
    count = len(next(iter(inputs.values()))[0])
    length = -(-_LENGTH // count) * count
    arrays = [np.resize(np.asarray(values, to_numpy(kind)), length) for values, kind in inputs.values()]
    loops = ["range", "T.vectorized", "T.parallel", "T.unroll"]
    outputs = [f"O{number}" for number in range(len(loops))]
    parameters = {name: ((length,), kind) for name, (_, kind) in inputs.items()}
    parameters |= {name: ((length,), dtype) for name in outputs}
    lines = []
    for loop, output in zip(loops, outputs):
        lines += [
            f"for i in {loop}({length}):",
            *([f"    {let}"] if let else []),
            f"    {output}[i] = {value}",
        ]
    wanted = np.resize(np.asarray(expected, to_numpy(dtype)), length)
    args = [*arrays, *[np.zeros(length, to_numpy(dtype)) for _ in outputs]]
    holds(
        script(parameters, *lines),
        args,
        {len(arrays) + number: wanted for number in range(len(outputs))},
        signs,
    )


def undefined(value: str, inputs: Mapping[str, tuple[Any, str]], dtype: str, rule: str) -> None:
    """The interpreter refuses ``O[i] = value`` in a serial and in a vectorized loop."""
    length = len(next(iter(inputs.values()))[0])
    parameters = {name: ((length,), kind) for name, (_, kind) in inputs.items()} | {"O": ((length,), dtype)}
    args = [np.asarray(values, to_numpy(kind)) for values, kind in inputs.values()]
    for loop in ("range", "T.vectorized"):
        program = script(parameters, f"for i in {loop}({length}):", f"    O[i] = {value}")
        refused(program, [*args, np.zeros(length, to_numpy(dtype))], rule)
