"""The state of a program that is being written: its lines, what is in scope, and what may be stored where."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from .values import FLOATS, INTEGERS, BufferSpec, Reals, Variable

_EXTENTS = [1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 19]
_MOST_ELEMENTS = 600
_MOST_COPIES = 40
"""Of a statement, by unrolled loops: a few programs with hundreds took most of a campaign's time, in LLVM."""


class Scope:
    """Lines, buffers, variables and the source of randomness of one program.

    A parallel or vectorized loop pins one dimension of every buffer that may be stored inside: all accesses have the same index
    there, one that differs in every iteration. So no iteration touches what another one stores, and the order does not matter.
    """

    def __init__(self, seed: int, wrap: bool, plain_memory: bool = False) -> None:
        self.random = random.Random(seed)
        self.wrap = wrap or self.random.random() < 0.35
        self.lines: list[str] = []
        self._indent = 1
        self._names = 0
        self.dtypes = self._choose_dtypes()
        self.buffers = [
            self.new_buffer("ABCDEFGH"[position]) for position in range(self.random.randint(2, 5))
        ]
        self.noalias = self.random.random() < 0.6
        if not self.noalias and self.random.random() < 0.6 and not plain_memory:
            self._share_memory()
        for buffer in self.buffers:
            is_padded = self.random.random() < 0.15 and not plain_memory
            buffer.padding = self.random.choice([1, 2, 4]) if is_padded else 0
        self.scalars = self._choose_scalars()
        self.variables = [variable for variable, _ in self.scalars]
        self.let_variables: dict[str, str] = {}
        self.pins: dict[str, dict[int, str]] = {}
        self.writable = {buffer.name for buffer in self.buffers}
        self.loop_kinds: tuple[str, ...] = ("serial", "parallel", "vectorized", "unroll")
        self.rounded_products = self.random.random() < 0.5
        """Whether products of any floats are written, or sums: of both a compiler may make one operation that rounds once."""
        self.in_parallel = False
        self.in_vector = False
        self.iterations = 1
        self._copies = 1
        """How often what is written now runs, at most."""

    def _choose_dtypes(self) -> list[str]:
        if self.random.random() < 0.3:
            return [*self.random.sample(list(FLOATS), self.random.randint(1, 2)), "int32"]
        pool = [*INTEGERS, "bool", *FLOATS]
        dtypes = self.random.sample(pool, self.random.randint(1, 3))
        if "int32" not in dtypes and self.random.random() < 0.6:
            dtypes.append("int32")
        return dtypes

    def _share_memory(self) -> None:
        """One parameter more, in the memory of another one: its whole, or a part by another shape."""
        first = self.random.choice(self.buffers)
        shape = list(first.shape)
        if self.random.random() < 0.4:
            shape = [
                self.random.randint(1, max(1, first.span - 1)),
                *([1] if self.random.random() < 0.3 else []),
            ]
        second = replace(first, name="X", shape=shape, memory=first.name, is_shared=True)
        first.is_shared = True
        self.buffers.append(second)

    def _choose_scalars(self) -> list[tuple[Variable, int]]:
        """The parameters that are numbers, with their arguments."""
        scalars = []
        for position in range(self.random.randint(0, 2)):
            argument = self.random.randint(0, 7)
            scalars.append((Variable(f"n{position}", "int32", 0, 7, "size"), argument))
        if self.random.random() < 0.3:
            argument = self.random.randint(-9, 9)
            dtype = self.random.choice(["int32", "int64"])
            scalars.append((Variable("s0", dtype, -9, 9, "scalar"), argument))
        return scalars

    # -- lines -----------------------------------------------------------------
    def emit(self, text: str) -> None:
        """Adds a line at the current depth."""
        self.lines.append("    " * self._indent + text)

    def open(self, header: str) -> None:
        """A line with a colon; what follows is its body until the enclosing :meth:`nest` ends."""
        self.emit(header)
        self._indent += 1

    def open_loop(self, name: str, kind: str, values: str, extent: int) -> None:
        """Opens a loop; one that would make too many copies of its body by unrolling is serial."""
        if kind == "unroll" and self._copies * extent > _MOST_COPIES:
            kind = "serial"
        if kind == "unroll":
            self._copies *= max(extent, 1)
        self.open(f"for {name} in T.{kind}({values}):")

    @contextmanager
    def nest(self) -> Iterator[None]:
        """Ends what is opened inside."""
        saved = self._indent, self._copies
        try:
            yield
        finally:
            self._indent, self._copies = saved

    @contextmanager
    def body(self, header: str) -> Iterator[None]:
        """The body of a line with a colon."""
        with self.nest():
            self.open(header)
            yield

    # -- names -----------------------------------------------------------------
    def fresh(self, prefix: str) -> str:
        """A name that is not used yet."""
        self._names += 1
        return f"{prefix}{self._names}"

    @contextmanager
    def visible(self, *variables: Variable) -> Iterator[None]:
        """Variables are in scope."""
        self.variables.extend(variables)
        try:
            yield
        finally:
            del self.variables[len(self.variables) - len(variables) :]

    @contextmanager
    def repeated(self, times: int) -> Iterator[None]:
        """What is written inside runs so many times."""
        saved = self.iterations
        self.iterations *= max(times, 1)
        try:
            yield
        finally:
            self.iterations = saved

    @contextmanager
    def only(self, variables: list[Variable], buffers: list[BufferSpec] | None = None) -> Iterator[None]:
        """Nothing else is in scope."""
        saved = self.variables, self.buffers
        self.variables = variables
        self.buffers = self.buffers if buffers is None else buffers
        try:
            yield
        finally:
            self.variables, self.buffers = saved

    # -- buffers ---------------------------------------------------------------
    def new_buffer(self, name: str) -> BufferSpec:
        """A buffer of a random shape, dtype and interval."""
        dtype = self.random.choice(self.dtypes)
        rank = self.random.choice([1, 1, 2, 2, 3])
        shape = [self.random.choice(_EXTENTS) for _ in range(rank)]
        self.shrink(shape, _MOST_ELEMENTS)
        if dtype == "bool":
            return BufferSpec(name, shape, dtype, 0, 1)
        if dtype in FLOATS:
            (reals,) = self.random.choices(list(Reals), [2, 1, 1])
            return BufferSpec(name, shape, dtype, -8, 8, reals)
        low, high = self._interval(dtype)
        return BufferSpec(name, shape, dtype, low, high)

    def _interval(self, dtype: str) -> tuple[int, int]:
        """Everything, small numbers, small natural numbers, or the upper end of an integer dtype."""
        least, greatest = INTEGERS[dtype]
        style = self.random.random()
        if style < 0.3:
            return least, greatest
        if style < 0.6:
            return max(least, -9), min(9, greatest)
        if style < 0.9:
            return 0, min(greatest, self.random.choice([3, 7, 12]))
        return max(least, greatest - 3), greatest

    def shrink(self, shape: list[int], most: int) -> None:
        """Changes extents until there are no more elements than so many."""
        while np.prod(shape) > most:
            shape[self.random.randrange(len(shape))] = self.random.randint(1, 4)

    def pinned(self, buffer: BufferSpec) -> dict[int, str]:
        """The dimensions in which every access of a buffer has the same index, with that index."""
        return self.pins.get(buffer.name, {})

    def targets(self) -> list[BufferSpec]:
        """The buffers that may be stored to."""
        unordered = self.in_parallel or self.in_vector
        return [
            buffer
            for buffer in self.buffers
            if buffer.name in self.writable and not (unordered and buffer.is_shared)
        ]

    @contextmanager
    def allocated(self, buffer: BufferSpec) -> Iterator[None]:
        """A buffer is in scope, for loads and stores."""
        self.buffers.append(buffer)
        self.writable.add(buffer.name)
        try:
            yield
        finally:
            self.buffers.remove(buffer)
            self.writable.discard(buffer.name)

    @contextmanager
    def viewed(self, buffer: BufferSpec, view: BufferSpec, aliased: bool) -> Iterator[None]:
        """A view of a buffer is in scope, in the place of the buffer, or, if aliased, beside it.

        Where both names are used, loops inside run in order: the index that is pinned for one says nothing of the other.
        """
        saved = self.pins, self.buffers, self.loop_kinds
        pins = self.pinned(buffer)
        if pins:
            self.pins = {**self.pins, view.name: dict.fromkeys(pins, "0")}
        others = [other for other in self.buffers if aliased or other is not buffer]
        self.buffers = [*others, view, view]
        if aliased:
            self.loop_kinds = ("serial", "unroll")
        self.writable.add(view.name)
        try:
            yield
        finally:
            self.writable.discard(view.name)
            self.pins, self.buffers, self.loop_kinds = saved
