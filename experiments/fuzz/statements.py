"""Random statements: stores, conditions, lets, loops of every kind, allocated buffers, and calls whose order is observed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import blocks
from .expressions import Expressions
from .scope import Scope
from .values import INTEGERS, BufferSpec, Reals, Value, Variable, literal

TRACE = "fuzz.trace"
"""The packed function that programs call, to be seen doing so."""

_TOP_LEVEL = 4
_EXTENTS = [0, 1, 2, 3, 4, 5, 7, 8, 8, 9, 13, 16, 16, 17]
_LONG_EXTENTS = [24, 31, 33]
_MOST_ALLOCATED = 40
_MOST_ITERATIONS = 2000
"""Of the loops around a statement, together: the interpreter walks through all of them."""


@dataclass(frozen=True)
class LoopRange:
    """What a loop runs over: the text between its parentheses, and the interval of its variable."""

    text: str
    low: int
    high: int
    constant: bool = True

    @property
    def span(self) -> int:
        """The greatest number of iterations."""
        return self.high - self.low + 1


class Statements:
    """Writes statements into a scope; each method of one kind writes a store where its kind is not possible."""

    def __init__(self, scope: Scope, size: int) -> None:
        self.scope = scope
        self.random = scope.random
        self.expressions = Expressions(scope)
        self._size = size
        self._left = size

    def program(self) -> None:
        """The whole body."""
        for _ in range(self.random.choice([1, 2, 2, 3])):
            self._left = self._size
            self.statement(_TOP_LEVEL)

    def sequence(self, depth: int) -> None:
        """One to three statements."""
        for _ in range(self.random.choice([1, 1, 2, 2, 3])):
            self.statement(depth)

    def statement(self, depth: int) -> None:
        """One statement, with at most so many levels of others inside."""
        self._left -= 1
        if depth <= 0 or self._left <= 0:
            self.store(depth)
        elif depth == _TOP_LEVEL and self.random.random() < 0.7:
            self.random.choice(_AT_THE_TOP)(self, depth)
        else:
            self.random.choice(_ANYWHERE)(self, depth)

    # -- values and stores -----------------------------------------------------
    def value_for(self, buffer: BufferSpec, depth: int = 3) -> Value:
        """An expression that a buffer may hold: one that happens to be in its interval, or one that is brought into it."""
        with self.expressions.up_to(buffer.reals):
            for _ in range(6):
                value = self.expressions.number(buffer.dtype, depth)
                if buffer.holds(value):
                    return value
        low, high, dtype = buffer.low, buffer.high, buffer.dtype
        if dtype in INTEGERS and low == 0 and high < INTEGERS[dtype][1] and self.random.random() < 0.6:
            return Value(f"({value} % {literal(high + 1, dtype)})", dtype, 0, high)
        return Value(
            f"T.max(T.min({value}, {literal(high, dtype)}), {literal(low, dtype)})",
            dtype,
            low,
            high,
            value.reals,
        )

    def store(self, depth: int) -> None:
        """A store to a buffer, sometimes under the condition that its index is one."""
        targets = self.scope.targets()
        if not targets:
            self.scope.emit("T.evaluate(0)")
            return
        buffer = self.random.choice(targets)
        value = self.value_for(buffer)
        if self.random.random() < 0.12 and not self.scope.pinned(buffer):
            condition, element = self.expressions.guarded_access(buffer, 2)
            with self.scope.body(f"if {condition}:"):
                self.scope.emit(f"{element} = {value}")
            return
        self.scope.emit(f"{self.expressions.access(buffer)} = {value}")

    def call(self, depth: int) -> None:
        """A call of a packed function, where the order of calls is defined."""
        if self.scope.in_parallel or self.scope.in_vector:
            self.store(depth)
            return
        value = self.expressions.number("int32", 2)
        self.scope.emit(f'T.evaluate(T.call_packed("{TRACE}", {value}))')

    # -- statements with a body ------------------------------------------------
    def branch(self, depth: int) -> None:
        """``if``, sometimes with ``else``."""
        with self.scope.body(f"if {self.expressions.condition(2)}:"):
            self.sequence(depth - 1)
        if self.random.random() < 0.4:
            with self.scope.body("else:"):
                self.sequence(depth - 1)

    def let(self, depth: int) -> None:
        """A variable with a value."""
        dtypes = [dtype for dtype in self.scope.dtypes if dtype != "bool"]
        dtype = self.random.choice(["int32", "int32", "int64", *dtypes])
        with self.expressions.up_to(self.random.choice(list(Reals))):
            value = self.expressions.number(dtype, 2)
        name = self.scope.fresh("x")
        with self.scope.body(f"with T.LetStmt({value}) as {name}:"):
            with self.scope.visible(Variable(name, dtype, value.low, value.high, reals=value.reals)):
                self.sequence(depth - 1)

    def while_loop(self, depth: int) -> None:
        """A loop that counts in memory; the counter may be read, not stored to."""
        if self.scope.in_vector and self.random.random() < 0.7:
            self.store(depth)
            return
        name = self.scope.fresh("W")
        memory = self.random.choice(["global", "local"])
        with self.scope.body(f'with T.decl_buffer((1,), "int32", scope="{memory}") as {name}:'):
            count = self.random.randint(0, 5)
            self.scope.emit(f"{name}[0] = 0")
            with self.scope.body(f"while {name}[0] < {count}:"):
                self.scope.emit(f"{name}[0] = {name}[0] + 1")
                counter = BufferSpec(name, [1], "int32", 0, max(count, 1))
                self.scope.buffers.append(counter)
                with self.scope.repeated(count):
                    self.sequence(depth - 1)
                self.scope.buffers.remove(counter)

    def allocate(self, depth: int) -> None:
        """A buffer of the function's own, filled before it is used."""
        name = self.scope.fresh("Z")
        buffer = self.scope.new_buffer(name)
        self.scope.shrink(buffer.shape, _MOST_ALLOCATED)
        memory = self.random.choice(["global", "local", "shared"])
        header = f'with T.decl_buffer({tuple(buffer.shape)}, "{buffer.dtype}", scope="{memory}") as {name}:'
        with self.scope.body(header):
            self._fill(buffer)
            with self.scope.allocated(buffer):
                self.sequence(depth - 1)

    def _fill(self, buffer: BufferSpec) -> None:
        """Loops that store every element."""
        names = [self.scope.fresh("z") for _ in buffer.shape]
        loops = [Variable(name, "int32", 0, extent - 1) for name, extent in zip(names, buffer.shape)]
        with self.scope.nest():
            for loop in loops:
                kind = "serial"
                if loop is loops[-1]:
                    kind = self.random.choice(["serial", "serial", "unroll", "vectorized"])
                if self.scope.in_vector:
                    kind = "serial"
                self.scope.open_loop(loop.name, kind, str(loop.high + 1), loop.high + 1)
            with self.scope.visible(*loops):
                self.scope.emit(f"{buffer.name}[{', '.join(names)}] = {self.value_for(buffer, 2)}")

    # -- loops -----------------------------------------------------------------
    def loop(self, depth: int) -> None:
        """A loop of any kind, over any range."""
        kind = self.random.choice(self.scope.loop_kinds)
        if kind == "vectorized" and self.scope.in_vector:
            kind = "serial"
        name = self.scope.fresh("i")
        values = self._range()
        if kind == "vectorized" and not values.constant and self.random.random() < 0.8:
            kind = "serial"
        scope = self.scope
        if scope.iterations * max(values.span, 1) > _MOST_ITERATIONS:
            self.store(depth)
            return
        saved = scope.pins, scope.writable, scope.in_parallel, scope.in_vector
        scope.pins, scope.writable = dict(scope.pins), set(scope.writable)
        if kind in ("parallel", "vectorized"):
            self._pin(name, values, kind)
            scope.in_parallel |= kind == "parallel"
            scope.in_vector |= kind == "vectorized"
        with scope.nest():
            scope.open_loop(name, kind, values.text, values.span)
            with (
                scope.visible(Variable(name, "int32", values.low, values.high, "loop")),
                scope.repeated(values.span),
            ):
                self.sequence(depth - 1)
        scope.pins, scope.writable, scope.in_parallel, scope.in_vector = saved

    def _range(self) -> LoopRange:
        """A parameter, the variable of a loop around, a range that does not start at zero, or a constant."""
        sizes = [variable for variable in self.scope.variables if variable.role == "size"]
        if sizes and self.random.random() < 0.15:
            size = self.random.choice(sizes)
            return LoopRange(size.name, 0, max(size.high - 1, 0), constant=False)
        outer = [
            variable
            for variable in self.scope.variables
            if variable.dtype == "int32"
            and variable.role == "loop"
            and variable.low >= 0
            and variable.high < 9
        ]
        if outer and self.random.random() < 0.08:
            around = self.random.choice(outer)
            return LoopRange(f"{around.name} + 1", 0, around.high, constant=False)
        if self.random.random() < 0.15:
            low = self.random.choice([1, 2, 3, -2, -3])
            extent = self.random.randint(1, 9)
            return LoopRange(f"{low}, {low + extent}", low, low + extent - 1)
        extent = self.random.choice(_EXTENTS if self.random.random() < 0.9 else _LONG_EXTENTS)
        return LoopRange(str(extent), 0, max(extent - 1, 0))

    def _pin(self, name: str, values: LoopRange, kind: str) -> None:
        """Gives every buffer that may be stored an index that differs between the iterations, and forbids stores to the rest."""
        kept = set()
        for buffer in self.scope.targets():
            if buffer.is_shared:
                continue
            options = self._pins_for(buffer, name, values)
            if not options:
                continue
            dimension, index = self.random.choice(options)
            if kind == "vectorized":
                last = [option for option in options if option[0] == len(buffer.shape) - 1]
                if last and self.random.random() < 0.8:
                    dimension, index = self.random.choice(last)
            self.scope.pins[buffer.name] = {**self.scope.pinned(buffer), dimension: index}
            kept.add(buffer.name)
        self.scope.writable &= kept

    def _pins_for(self, buffer: BufferSpec, name: str, values: LoopRange) -> list[tuple[int, str]]:
        """Dimensions that are not pinned yet, with indices that are another in each iteration: moved, backwards, in steps."""
        options = []
        for dimension, extent in enumerate(buffer.shape):
            if dimension in self.scope.pinned(buffer):
                continue
            if extent >= values.span:
                shift = self.random.randint(0, extent - values.span) - values.low
                options.append((dimension, _moved(name, shift)))
                options.append((dimension, f"{values.high} - {name}"))
            if extent >= 2 * values.span - 1 and values.low == 0:
                options.append((dimension, f"{name} * 2"))
            if extent >= 3 * values.span and values.low == 0:
                options.append((dimension, f"{name} * 3 + 1"))
        return options


def _moved(name: str, shift: int) -> str:
    """A variable plus a number, as one writes it."""
    if shift == 0:
        return name
    return f"{name} + {shift}" if shift > 0 else f"{name} - {-shift}"


Kind = Callable[[Statements, int], None]
_AT_THE_TOP: list[Kind] = [
    *[Statements.loop] * 4,
    blocks.spatial,
    blocks.reduction,
    Statements.allocate,
    blocks.view,
]
_ANYWHERE: list[Kind] = [
    *[Statements.loop] * 6,
    *[Statements.branch] * 3,
    *[Statements.store] * 3,
    Statements.let,
    Statements.while_loop,
    *[Statements.allocate] * 2,
    blocks.spatial,
    blocks.reduction,
    blocks.view,
    Statements.call,
]
"""The kinds of statements; what is there twice is drawn twice as often."""
