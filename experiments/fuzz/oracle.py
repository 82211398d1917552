"""What a program computes: the interpreter says it, with loops run forwards and backwards, and native code must say the same."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from ir.codegen.build import NativeModule, build
from ir.module import IRModule
from ir.registry import register_func
from ir.script import from_source
from ir.tir import interpreter
from ir.tir.function import PrimFunc

from .statements import TRACE
from .verdict import Verdict, crash, is_folded_divisor

TARGETS = {
    "x86-64": "llvm -mcpu=x86-64",
    "x86-64-v3": "llvm -mcpu=x86-64-v3",
    "x86-64-v4": "llvm -mcpu=x86-64-v4",
    "cpu": "cpu",
}
"""Names of targets on the command line: vectors of 16, 32 and 64 bytes, and this machine as it is."""

_NEEDED_FEATURES = {"x86-64": "sse2", "x86-64-v3": "avx2", "x86-64-v4": "avx512f"}
_UNORDERED = ("parallel", "vectorized", "thread_binding", "launch_thread")
"""Loops whose iterations have no order."""
_GUARD_BYTES = 64
_GUARD = 0xA5

_calls: list[int] = []
register_func(TRACE, lambda value: _calls.append(int(value)), override=True)


@dataclass(frozen=True)
class Outcome:
    """Arguments after a call, and the calls of the packed function."""

    arguments: list[Any]
    calls: list[int]

    def agrees(self, other: Outcome) -> bool:
        """Whether every element is equal; NaN equals NaN, and the sign of zero does not count."""
        pairs = zip(self.arguments, other.arguments, strict=True)
        return self.calls == other.calls and all(_same(a, b) for a, b in pairs)


@dataclass(frozen=True)
class Meaning:
    """A program, arguments for it, and what it does with them."""

    func: PrimFunc
    arguments: Sequence[Any]
    expected: Outcome


def _same(a: Any, b: Any) -> bool:
    if not isinstance(a, np.ndarray):
        return True
    if a.dtype.kind in "iub":
        return np.array_equal(a, b)
    wide_a, wide_b = a.astype("float64"), b.astype("float64")
    return np.array_equal(wide_a, wide_b, equal_nan=True)


def usable_targets() -> list[str]:
    """The names of the targets whose code this machine runs."""
    features = llvm.get_host_cpu_features()
    return [name for name in TARGETS if features.get(_NEEDED_FEATURES.get(name, ""), True)]


# -- the interpreter ---------------------------------------------------------------
class Backwards(interpreter.Interpreter):
    """Runs parallel and vectorized loops from their end: what differs then depends on the order of iterations."""

    def order(self, iterations: range) -> Iterable[int]:
        return reversed(iterations)


def interpreted(
    program: PrimFunc | IRModule,
    arguments: Sequence[Any],
    by: type[interpreter.Interpreter] = interpreter.Interpreter,
) -> Outcome:
    """What an interpreter computes; the arguments stay as they are."""
    module = program if isinstance(program, IRModule) else None
    func = program["main"] if isinstance(program, IRModule) else program
    _calls.clear()
    copies = copied(arguments)
    by(module).call(func, copies)  # type: ignore[arg-type]
    return Outcome(copies, list(_calls))


def copied(arguments: Sequence[Any], copy: Callable[[np.ndarray], np.ndarray] = np.ndarray.copy) -> list[Any]:
    """Arguments with memory of their own: arrays that overlap do so again, and have the strides that they had.

    Args:
        arguments: arrays, and anything else, which is passed on.
        copy: copies the bytes of a memory.
    """
    memories: dict[int, np.ndarray] = {}

    def one(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        owner = _owner(value)
        if id(owner) not in memories:
            memories[id(owner)] = copy(owner.ravel(order="K").view("uint8"))
        start = value.ctypes.data - owner.ctypes.data
        return np.ndarray(value.shape, value.dtype, memories[id(owner)], start, value.strides)

    return [one(value) for value in arguments]


def _owner(array: np.ndarray) -> np.ndarray:
    """The array that has the memory of an array."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


# -- native code -------------------------------------------------------------------
class Guarded:
    """A copy of an array with bytes around it that nobody may change."""

    def __init__(self, array: np.ndarray) -> None:
        self._memory = np.full(array.nbytes + 3 * _GUARD_BYTES, _GUARD, "uint8")
        self._start = -self._memory.ctypes.data % _GUARD_BYTES + _GUARD_BYTES
        self._end = self._start + array.nbytes
        self.array = self._memory[self._start : self._end].view(array.dtype).reshape(array.shape)
        self.array[...] = array

    @property
    def intact(self) -> bool:
        """Whether the bytes around are as they were."""
        around = self._memory[: self._start], self._memory[self._end :]
        return all((part == _GUARD).all() for part in around)


def judge_native(func: PrimFunc, arguments: Sequence[Any], expected: Outcome, target: str) -> Verdict:
    """Whether the code for a target computes what is expected, calls what is expected, and writes nothing else."""
    return judge_natives([Meaning(func, arguments, expected)], target)[0]


def judge_natives(programs: Sequence[Meaning], target: str) -> list[Verdict]:
    """Whether the code of each of some programs, compiled in one module, does what :func:`judge_native` asks."""
    names = [f"main_{position}" if len(programs) > 1 else "main" for position in range(len(programs))]
    functions = [
        program.func.with_attr("global_symbol", name) for program, name in zip(programs, names, strict=True)
    ]
    try:
        native = build(IRModule(dict(zip(names, functions, strict=True))), TARGETS[target])
    except Exception as error:  # whatever the compiler raises on a valid program is a finding
        return [crash(target, error)] * len(programs)
    return [
        _judge_compiled(native, name, program, target) for name, program in zip(names, programs, strict=True)
    ]


def _judge_compiled(native: NativeModule, name: str, program: Meaning, target: str) -> Verdict:
    guards: list[Guarded] = []

    def guarded(memory: np.ndarray) -> np.ndarray:
        guards.append(Guarded(memory))
        return guards[-1].array

    passed = copied(program.arguments, guarded)
    _calls.clear()
    try:
        native[name](*passed)
    except Exception as error:  # any error is a verdict
        return crash(target, error)
    if not Outcome(passed, program.expected.calls).agrees(program.expected):
        return Verdict("wrong", target)
    if _calls != program.expected.calls:
        return Verdict("other calls", target)
    if not (all(guard.intact for guard in guards) and same_gaps(program.arguments, passed)):
        return Verdict("wrote beside an array", target)
    return Verdict("ok")


def same_gaps(arguments: Sequence[Any], passed: Sequence[Any]) -> bool:
    """Whether the bytes between elements are as they were; the elements are lost."""
    pairs = [(a, b) for a, b in zip(arguments, passed, strict=True) if isinstance(a, np.ndarray)]
    for before, after in pairs:
        after[...] = before
    return all(np.array_equal(_memory_of(before), _memory_of(after, before)) for before, after in pairs)


def _memory_of(array: np.ndarray, original: np.ndarray | None = None) -> np.ndarray:
    """The bytes of the memory that an array lies in; of a copy, those that the original's memory was copied to."""
    original = array if original is None else original
    owner = _owner(original)
    start = array.ctypes.data - (original.ctypes.data - owner.ctypes.data)
    return np.frombuffer((ctypes.c_uint8 * owner.nbytes).from_address(start), "uint8")


def run_native(func: PrimFunc, arguments: Sequence[Any], target: str) -> Outcome:
    """What the code for a target does with arguments; those that are :class:`Guarded` are changed."""
    passed = [value.array if isinstance(value, Guarded) else value for value in arguments]
    _calls.clear()
    build(func, TARGETS[target])["main"](*passed)
    return Outcome(passed, list(_calls))


# -- both --------------------------------------------------------------------------
def meaning(text: str, arguments: Sequence[Any]) -> Meaning | Verdict:
    """What a program computes, or why that is not defined."""
    try:
        func = from_source(text)
    except Exception as error:  # the generator writes valid text: any other error is a finding
        if is_folded_divisor(error):
            return Verdict("invalid", str(error))
        return Verdict("parse", f"{type(error).__name__}: {error}")
    try:
        expected = interpreted(func, arguments)
        unordered = any(f"T.{kind}(" in text for kind in _UNORDERED)
        backwards = interpreted(func, arguments, Backwards) if unordered else expected
    except interpreter.InterpreterError as error:
        return Verdict("invalid", f"{type(error).__name__}: {error}")
    if not expected.agrees(backwards):
        return Verdict("invalid", "the order of iterations matters")
    return Meaning(func, arguments, expected)


def judge_text(text: str, arguments: Sequence[Any], targets: Sequence[str]) -> Verdict:
    """Whether the code of a program for some targets computes what the program means."""
    found = meaning(text, arguments)
    if isinstance(found, Verdict):
        return found
    for target in targets:
        (verdict,) = judge_natives([found], target)
        if verdict.failed:
            return verdict
    return Verdict("ok")
