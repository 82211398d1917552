"""A smaller schedule that fails in the same way: fewer instructions, then smaller numbers in the program and in the trace."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

TraceJson = list[Any]
Fails = Callable[[str, TraceJson], bool]
"""Whether a program's text and a trace fail in the way that matters; whatever is no program or no trace of it does not."""

_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")


def reduced_schedule(
    text: str, trace: TraceJson, fails: Fails, seconds: float = 120
) -> tuple[str, TraceJson]:
    """The smallest program and trace found within a time.

    Args:
        text: the program as script.
        trace: the schedule in JSON form; the two fail together.
        fails: whether a smaller pair fails as this one does.
        seconds: how long to search.
    """
    end = time.monotonic() + seconds
    before: Any = None
    while (text, trace) != before and time.monotonic() < end:
        before = (text, trace)
        trace = _fewer_instructions(text, trace, fails, end)
        text, trace = _smaller_numbers(text, trace, fails, end)
    return text, trace


def _fewer_instructions(text: str, trace: TraceJson, fails: Fails, end: float) -> TraceJson:
    """Drops runs of instructions, long ones first, with everything that uses what they made."""
    length = max(1, len(trace[0]) // 2)
    while length and time.monotonic() < end:
        position = len(trace[0]) - length
        while position >= 0 and time.monotonic() < end:
            smaller = without(trace, position, length)
            if smaller != trace and fails(text, smaller):
                trace = smaller
            position = min(position - length, len(trace[0]) - length)
        length //= 2
    return trace


def without(trace: TraceJson, position: int, length: int) -> TraceJson:
    """A trace without some instructions, and without those that use their results."""
    instructions, decisions = trace
    gone: set[str] = set()
    kept: list[int] = []
    for number, (_, inputs, _, outputs) in enumerate(instructions):
        if position <= number < position + length or gone & set(_names(inputs)):
            gone |= set(outputs)
        else:
            kept.append(number)
    places = {old: new for new, old in enumerate(kept)}
    return [
        [instructions[number] for number in kept],
        [[places[number], value] for number, value in decisions if number in places],
    ]


def _names(value: Any) -> Iterator[str]:
    """Random variables among the inputs of an instruction."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _names(item)


def _smaller_numbers(text: str, trace: TraceJson, fails: Fails, end: float) -> tuple[str, TraceJson]:
    """Every number of the text replaced by a smaller one wherever it stands, in the text and in the decisions."""
    changed = True
    while changed and time.monotonic() < end:
        changed = False
        for number in sorted({int(found) for found in _NUMBER.findall(text)}, reverse=True):
            for smaller in dict.fromkeys((1, 2, number // 2, number - 1)):
                if smaller >= number or time.monotonic() > end:
                    continue
                shorter = _NUMBER.sub(
                    lambda found, old=number, new=smaller: (  # type: ignore[misc]
                        str(new) if int(found.group()) == old else found.group()
                    ),
                    text,
                )
                if fails(shorter, trace):
                    text, changed = shorter, True
                    break
    return text, trace
