"""What effects call when the program runs: the KV cache, and printing; registered under the names that effects emit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ir.registry import get_global_func, register_func
from ir.relax.op.memory_effect import EFFECT, FRESH, IDENTITY, declare_external, view_of, writes

from .error import NNError, NNValueError


class RuntimeCache:
    """Rows in a buffer that doubles when it is full; the same object is changed by every append."""

    def __init__(self, buffer: np.ndarray, fill_count: int) -> None:
        self.buffer = buffer
        self.fill_count = fill_count

    def append(self, rows: np.ndarray) -> None:
        """Add rows behind the last one."""
        if rows.shape[1:] != self.buffer.shape[1:]:
            raise NNValueError(
                f"KVCache.append: elements have shape {rows.shape[1:]}, those of the cache {self.buffer.shape[1:]}"
            )
        end = self.fill_count + len(rows)
        if end > len(self.buffer):
            grown = np.empty((max(end, 2 * len(self.buffer)), *self.buffer.shape[1:]), self.buffer.dtype)
            grown[: self.fill_count] = self.buffer[: self.fill_count]
            self.buffer = grown
        self.buffer[self.fill_count : end] = rows
        self.fill_count = end

    def last(self, shape: Sequence[int]) -> np.ndarray:
        """The last ``shape[0]`` rows."""
        if tuple(shape[1:]) != self.buffer.shape[1:] or shape[0] > self.fill_count:
            raise NNValueError(
                f"KVCache.view: {tuple(shape)} does not fit {self.fill_count} elements of shape {self.buffer.shape[1:]}"
            )
        return self.buffer[self.fill_count - shape[0] : self.fill_count]


declare_external("vm.builtin.attention_kv_cache_create", IDENTITY)
declare_external("vm.builtin.attention_kv_cache_append", view_of(0) | writes(0))
declare_external("vm.builtin.attention_kv_cache_view", FRESH)
declare_external("vm.builtin.invoke_debug_func", view_of(0) | EFFECT)


@register_func("vm.builtin.attention_kv_cache_create", override=True)
def _create(initial_rows: Any, reserved: Sequence[int], fill_count: int) -> RuntimeCache:
    initial = np.asarray(initial_rows)
    buffer = np.zeros(tuple(reserved), initial.dtype)
    buffer[:fill_count] = initial[:fill_count]
    return RuntimeCache(buffer, int(fill_count))


@register_func("vm.builtin.attention_kv_cache_append", override=True)
def _append(cache: RuntimeCache, rows: Any) -> RuntimeCache:
    cache.append(np.asarray(rows))
    return cache


@register_func("vm.builtin.attention_kv_cache_view", override=True)
def _view(cache: RuntimeCache, shape: Sequence[int]) -> np.ndarray:
    # A copy: what was viewed must not change when the cache is appended to.
    return cache.last(shape).copy()


@register_func("vm.builtin.invoke_debug_func", override=True)
def _invoke(io: Any, name: str, line: str, *args: Any) -> Any:
    function = get_global_func(name, allow_missing=True)
    if function is None:
        raise NNError(
            f"the debug function {name!r} of {line} is not registered; register it with ir.register_func"
        )
    function(line, *args)
    return io


@register_func("vm.builtin.debug_print", override=True)
def _print(line: str, array: Any) -> None:
    values = np.asarray(array)
    print(f"{line}: shape = {values.shape}, dtype = {values.dtype}, data =\n{values}")
