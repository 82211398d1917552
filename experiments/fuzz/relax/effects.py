"""External functions that programs call, and the record of what they were called with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ir.registry import register_func
from ir.relax.op.memory_effect import EFFECT, FRESH, IDENTITY, declare_external, view_of, writes

NOTE, NEXT, TWICE, FILL, NEGATE = (
    f"fuzz.relax.{name}" for name in ("note", "next", "twice", "fill", "negate")
)


@dataclass(frozen=True)
class Event:
    """A call of an external function that can be seen."""

    label: str
    values: tuple[np.ndarray, ...]


_events: list[Event] = []
_count = [0]


@contextmanager
def recorded() -> Iterator[list[Event]]:
    """A list to which the calls inside are added; counters start again."""
    saved, count = list(_events), _count[0]
    _events.clear()
    _count[0] = 0
    found: list[Event] = []
    try:
        yield found
    finally:
        found.extend(_events)
        _events[:] = saved
        _count[0] = count


def _array(value: Any) -> np.ndarray:
    return np.array(value.numpy() if hasattr(value, "numpy") else value)


def _note(label: Any, *values: Any) -> tuple[()]:
    _events.append(Event(f"note {int(label)}", tuple(_array(value) for value in values)))
    return ()


def _next(like: Any) -> np.ndarray:
    """An array like the argument, of how often the function was called."""
    _count[0] += 1
    array = _array(like)
    _events.append(Event("next", ()))
    return np.full(array.shape, _count[0], array.dtype)


def _twice(value: Any) -> np.ndarray:
    array = _array(value)
    return np.asarray(array + array)


def _fill(source: Any, target: Any) -> tuple[()]:
    """Writes the negative of an array to another one."""
    _memory(target)[...] = -_array(source)
    return ()


def _negate(value: Any) -> Any:
    """Negates an array where it is."""
    memory = _memory(value)
    memory[...] = -memory
    return value


def _memory(value: Any) -> np.ndarray:
    return value if isinstance(value, np.ndarray) else np.from_dlpack(value)


for _name, _function, _memory_effect in (
    (NOTE, _note, EFFECT),
    (NEXT, _next, EFFECT | IDENTITY),
    (TWICE, _twice, FRESH),
    (FILL, _fill, writes(1)),
    (NEGATE, _negate, view_of(0) | writes(0)),
):
    register_func(_name, _function, override=True)
    declare_external(_name, _memory_effect)
