"""How the threads of a GPU's block access memory: sectors, words of banks, and what they keep in shared memory and in registers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir.target.gpu_facts import BANK_BYTES, BANKS, WARP
from schedules.population.skeleton import Access, Nest
from schedules.population.warp_tile import is_fragment

from .loops import Array

SECTOR = 32
"""Bytes that the level-2 cache hands out together."""
WORD_BYTES = 4
"""Of a register."""


def times(access: Access, nest: Nest, size: int) -> Array:
    """How often a thread accesses memory: innermost loops that do not move the access keep its value in a register."""
    total, moved = np.ones(size), np.zeros(size, dtype=bool)
    for position in range(len(nest.loops) - 1, -1, -1):
        loop = nest.loops[position]
        if loop.mark.startswith(("blockIdx", "threadIdx")):
            continue
        moved = moved | ((access.strides[position] != 0) & (loop.extent > 1))
        total = np.where(moved, total * np.maximum(loop.extent, 1), total)
    return total


def sectors_of(access: Access, at_once: Array) -> Array:
    """Sectors that a warp asks for at a time."""
    if access.warp is None:
        return np.ones(len(at_once))
    first = access.warp * access.element_bytes
    last = first + (at_once[:, None].astype(np.int64) - 1) * access.element_bytes
    return _distinct(np.concatenate([first // SECTOR, last // SECTOR], axis=1))


def conflicts(access: Access, at_once: Array) -> Array:
    """Cycles in which shared memory serves a warp: one bank has one word at a time, equal words go to all who ask."""
    if access.warp is None:
        return np.ones(len(at_once))
    begin = access.warp * access.element_bytes
    first = begin // BANK_BYTES
    last = (begin + at_once[:, None].astype(np.int64) * access.element_bytes - 1) // BANK_BYTES
    longest = int((last - first).max(initial=0))
    words = np.concatenate([np.minimum(first + part, last) for part in range(longest + 1)], axis=1)
    words = np.sort(words, axis=1)
    is_new = np.concatenate([np.ones((len(words), 1), dtype=bool), np.diff(words, axis=1) != 0], axis=1)
    banks = words % BANKS + BANKS * np.arange(len(words))[:, None]
    hits = np.bincount(banks[is_new], minlength=BANKS * len(words)).reshape(-1, BANKS)
    return hits.max(axis=1).astype(np.float64)


def _distinct(values: Array) -> Array:
    ordered = np.sort(values, axis=1)
    return 1.0 + (np.diff(ordered, axis=1) != 0).sum(axis=1)


def steps_ahead(nest: Nest) -> Array:
    """Iterations [N] or [] by which copies to shared memory are begun before what they bring is used; 0 where threads wait for them."""
    ahead = np.asarray(0)
    for loop in nest.loops:
        ahead = np.maximum(ahead, loop.ahead)
    return ahead


def shared_bytes(nests: Sequence[Nest], size: int) -> Array:
    """Bytes of the buffers in shared memory: of those that are filled ahead, of one step more than they are ahead."""
    found: dict[int, Array] = {}
    for nest in nests:
        for access in nest.accesses:
            if access.held is not None:
                held = access.held * access.element_bytes * (1 + steps_ahead(nest))
                found[access.buffer] = np.maximum(held, found.get(access.buffer, 0))
    return np.asarray(sum(found.values(), np.zeros(size)))


def accumulator_words(nests: Sequence[Nest], size: int) -> Array:
    """Registers [N] that a thread keeps results in."""
    total = np.zeros(size)
    for buffer, writers in _private_writes(nests).items():
        if not any(_is_operand(nest) for nest, _ in writers):
            total = total + _held_words(buffer, writers, nests, size)
    return total


def operand_words(nests: Sequence[Nest], size: int) -> Array:
    """Registers [N] that a thread keeps fragments of operands in: twice as many where the next ones are loaded ahead."""
    total = np.zeros(size)
    for buffer, writers in _private_writes(nests).items():
        if any(_is_operand(nest) for nest, _ in writers):
            total = total + _held_words(buffer, writers, nests, size)
    return total


def _is_operand(nest: Nest) -> bool:
    return nest.tile is not None and nest.tile.role == "load"


def _private_writes(nests: Sequence[Nest]) -> dict[int, list[tuple[Nest, Access]]]:
    """By buffer, who writes to registers."""
    found: dict[int, list[tuple[Nest, Access]]] = {}
    for nest in nests:
        for access in nest.accesses:
            if access.is_write and (access.scope.startswith("local") or is_fragment(access.scope)):
                found.setdefault(access.buffer, []).append((nest, access))
    return found


def _held_words(
    buffer: int, writers: Sequence[tuple[Nest, Access]], nests: Sequence[Nest], size: int
) -> Array:
    """Registers of a thread for one buffer, which has room for what is written under the loops that not all of its users share."""
    users = [nest for nest in nests if any(access.buffer == buffer for access in nest.accesses)]
    shared = set.intersection(*({loop.key for loop in nest.loops} for nest in users))
    outside = shared if len(users) > 1 else set()
    words = np.zeros(size)
    for nest, access in writers:
        kept = [
            position
            for position, loop in enumerate(nest.loops)
            if not loop.mark.startswith(("blockIdx", "threadIdx"))
            and (loop.key not in outside or loop.mark.startswith("vthread"))
        ]
        held = _touched(access, nest, kept, size)
        if is_fragment(access.scope):
            held = held * access.element_bytes / (WARP * WORD_BYTES)
        else:
            held = held * max(1.0, access.element_bytes / WORD_BYTES)
        words = np.maximum(words, held)
    return words


def unique_bytes(nests: Sequence[Nest], size: int, only_read: bool = False) -> Array:
    """Bytes of device memory that a kernel touches, or reads [N]."""
    found: dict[int, Array] = {}
    for nest in nests:
        for access in nest.accesses:
            if access.scope in ("", "global") and not (only_read and access.is_write):
                touched = _touched(access, nest, range(len(nest.loops)), size) * access.element_bytes
                found[access.buffer] = np.maximum(touched, found.get(access.buffer, np.zeros(size)))
    return np.asarray(sum(found.values(), np.zeros(size)))


def _touched(access: Access, nest: Nest, positions: Sequence[int], size: int) -> Array:
    """Elements that some loops reach: of each dimension no more than it has, and no more than the loops have iterations."""
    total = np.ones(size)
    for dim, extent in enumerate(access.shape):
        span, times = np.ones(size), np.ones(size)
        for position in positions:
            moves = access.reach[dim, position] != 0
            count = nest.loops[position].extent
            span = span + np.where(moves, np.abs(access.reach[dim, position]) * (count - 1.0), 0.0)
            times = np.where(moves, times * np.maximum(count, 1), times)
        total = total * np.minimum(np.minimum(span, times), np.maximum(extent, 1))
    return total
