"""What each part of one call took: the parts in order, and the table of them that ``VirtualMachine.profile`` prints, slowest first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimedPart:
    """A kernel of a call, or an instruction of the machine.

    Attributes:
        name: of the kernel, or what the instruction does.
        begin: seconds from the call's begin, by the times of the parts before.
        secs: seconds that it took.
        is_kernel: whether it is a kernel.
    """

    name: str
    begin: float
    secs: float
    is_kernel: bool = True


def timed_parts(rows: Iterable[tuple[float, str]], kernels: Sequence[bool] | None = None) -> list[TimedPart]:
    """The parts of a call in order, of their (seconds, name); ``kernels`` says which are kernels, by default all.

    >>> [part.begin for part in timed_parts([(1e-6, "relu"), (3e-6, "conv2d")])]
    [0.0, 1e-06]
    """
    parts, begin = [], 0.0
    for number, (secs, name) in enumerate(rows):
        parts.append(TimedPart(name, begin, secs, kernels is None or kernels[number]))
        begin += secs
    return parts


def profile_table(parts: Iterable[TimedPart]) -> str:
    """A line per part with its share of all, and their sum last.

    >>> print(profile_table(timed_parts([(1e-6, "relu"), (3e-6, "conv2d")])))
       time (us)   share  what
             3.0   75.0%  conv2d
             1.0   25.0%  relu
             4.0          all
    """
    rows = sorted(((part.secs, part.name) for part in parts), reverse=True)
    total = sum(seconds for seconds, _ in rows)
    lines = [f"{'time (us)':>12} {'share':>7}  what"]
    for seconds, label in rows:
        share = seconds / total if total else 0.0
        lines.append(f"{seconds * 1e6:12.1f} {share:7.1%}  {label}")
    return "\n".join([*lines, f"{total * 1e6:12.1f} {'':7}  all"])
