"""The driver of a model: one native function that calls all its kernels, with every address computed from four pointers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_CLOCK_MONOTONIC = 1  # of Linux
_TABLES = {"input": "inputs", "output": "outputs", "constant": "constants"}
QUEUE = ("queue", 0)
"""The buffer that host functions of a device's kernels are given first."""


def driver_text(symbol: str, calls: Sequence[tuple[str, Sequence[tuple[str, int]], Sequence[int]]]) -> str:
    """LLVM assembly of ``int32 symbol(void** inputs, void** outputs, void** constants, void* workspace, timespec* times, queue*)``.

    Args:
        symbol: name of the function.
        calls: (kernel's symbol, buffers as (kind, index) pairs, integers) in order; kinds are ``input``, ``output``,
            ``constant`` (numbers in the three tables), ``workspace`` (byte offsets) and ``queue`` (:mod:`.llvm.launch`).

    The first kernel that returns a value other than 0 ends the function with that value. Where ``times`` is not null, it
    receives the monotonic clock before each call and behind the last one. Addresses are only handed on: they may be a device's.
    """
    lines = ["declare i32 @clock_gettime(i32, ptr)"]
    declared = {kernel: (len(buffers), len(scalars)) for kernel, buffers, scalars in calls}
    for kernel, (n_buffers, n_scalars) in declared.items():
        lines.append(f"declare i32 @{quoted(kernel)}({', '.join(['ptr'] * n_buffers + ['i64'] * n_scalars)})")
    lines.append(
        f"define i32 @{quoted(symbol)}(ptr %inputs, ptr %outputs, ptr %constants, ptr %workspace, ptr %times, ptr %queue)"
        " nounwind {"
    )
    known: dict[tuple[str, int], str] = {QUEUE: "%queue"}
    for kind, index in dict.fromkeys(item for _, buffers, _ in calls for item in buffers):
        if (kind, index) in known:
            continue
        name = known[kind, index] = f"%{kind}.{index}"
        if kind == "workspace":
            lines.append(f"  {name} = getelementptr i8, ptr %workspace, i64 {index}")
        else:
            lines.append(f"  {name}.slot = getelementptr ptr, ptr %{_TABLES[kind]}, i64 {index}")
            lines.append(f"  {name} = load ptr, ptr {name}.slot, align 8")
    lines.append("  %timed = icmp ne ptr %times, null")
    for number, (kernel, buffers, scalars) in enumerate(calls):
        args = [f"ptr {known[item]}" for item in buffers] + [f"i64 {value}" for value in scalars]
        lines += [
            *_clock_lines(number),
            f"  %status{number} = call i32 @{quoted(kernel)}({', '.join(args)})",
            f"  %failed{number} = icmp ne i32 %status{number}, 0",
            f"  br i1 %failed{number}, label %fail{number}, label %next{number}",
            f"fail{number}:",
            f"  ret i32 %status{number}",
            f"next{number}:",
        ]
    lines += [*_clock_lines(len(calls)), "  ret i32 0", "}"]
    return "\n".join(lines) + "\n"


def _clock_lines(number: int) -> list[str]:
    """Reads the clock into the entry ``number`` of the times, if there are any."""
    return [
        f"  br i1 %timed, label %clock{number}, label %timed{number}",
        f"clock{number}:",
        f"  %time{number} = getelementptr [2 x i64], ptr %times, i64 {number}",
        f"  %clock_status{number} = call i32 @clock_gettime(i32 {_CLOCK_MONOTONIC}, ptr %time{number})",
        f"  br label %timed{number}",
        f"timed{number}:",
    ]


def quoted(symbol: str) -> str:
    """A symbol as LLVM writes it."""
    return symbol if symbol.replace("_", "").replace(".", "").isalnum() else f'"{symbol}"'


def quoted_text(data: bytes) -> str:
    """Bytes as LLVM writes them between quotes."""
    return "".join(chr(c) if 32 <= c < 127 and c not in (34, 92) else f"\\{c:02X}" for c in data)


def model_text(drivers: Mapping[str, Any]) -> str:
    """The drivers of several functions in one text, kernels declared once."""
    declarations: dict[str, None] = {}
    bodies: list[str] = []
    for symbol, calls in drivers.items():
        for line in driver_text(symbol, calls).splitlines():
            if line.startswith("declare"):
                declarations.setdefault(line)
            else:
                bodies.append(line)
    return "\n".join([*declarations, *bodies]) + "\n"
