"""Accesses of buffers: where an element lies, by its indices, the buffer's extents, strides and offset; loads and stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from ... import dtype as dt
from .. import expr as E
from ..buffer import Buffer
from .error import ElementError, InterpreterError, element, refusal
from .lanes import Closure
from .memory import Elements, Pointer
from .numbers import number
from .regions import Check, Regions

if TYPE_CHECKING:
    from .expressions import Expressions

Env = dict[Any, Any]


class Use(Enum):
    """What an access does to an element."""

    READ = "read"
    WRITE = "write"


class Accesses:
    """Translates accesses for :class:`.expressions.Expressions`."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self.views: set[Buffer] = set()
        """Matched regions without strides of their own: they have the source's, which are values of the buffer as a variable."""
        self.regions = Regions(expressions)

    # -- layout ----------------------------------------------------------------------------------------------------
    def numbers(self, values: Sequence[E.PrimExpr]) -> Callable[[Env], Sequence[int]]:
        """Index expressions, such as a shape, as numbers."""
        if all(isinstance(value, E.IntImm) for value in values):
            known = tuple(int(value.value) for value in values)  # type: ignore[attr-defined]
            return lambda env: known
        closures = [self._expressions.index(value) for value in values]
        return lambda env: [closure(env) for closure in closures]

    def strides(self, buffer: Buffer) -> Callable[[Env], Sequence[int]]:
        """Elements from one index of each dimension to the next."""
        if buffer in self.views:
            return lambda env: env[buffer]  # type: ignore[no-any-return]
        if buffer.strides:
            return self.numbers(buffer.strides)
        shape = self.numbers(buffer.shape)
        if all(isinstance(extent, E.IntImm) for extent in buffer.shape):
            known = dense_strides(shape({}))
            return lambda env: known
        return lambda env: dense_strides(shape(env))

    def elements(self, buffer: Buffer) -> Callable[[Env], Elements]:
        """The memory of a buffer as elements of its dtype."""
        data, dtype = buffer.data, dt.element_of(buffer.dtype)
        self._expressions.note_use(data)

        def find(env: Env) -> Elements:
            pointer = env.get(data)
            if not isinstance(pointer, Pointer):
                raise InterpreterError(f"buffer {buffer.name} is used before it is allocated")
            return pointer.elements(dtype)

        return find

    # -- places ----------------------------------------------------------------------------------------------------
    def place(
        self, buffer: Buffer, indices: Sequence[E.PrimExpr], uses: Sequence[Use] = ()
    ) -> Callable[[Env], int]:
        """The offset of one element (the first lane, where elements are vectors) behind the buffer's address."""
        closures, offset = self._indices(buffer, indices), self._offset(buffer)
        checks = self._checks(buffer, indices, uses)
        if not checks:
            return lambda env: offset(env, [closure(env) for closure in closures])

        def place(env: Env) -> int:
            numbers = [closure(env) for closure in closures]
            found = offset(env, numbers)
            for check in checks:
                check(env, numbers)
            return found

        return place

    def places(
        self, buffer: Buffer, indices: Sequence[E.PrimExpr], use: Use
    ) -> Callable[[Env, Sequence[bool]], list[Any]]:
        """The offsets of the lanes of an access, where elements are vectors those of their lanes; None where it is not active."""
        columns_of, offset = self._columns(indices), self._offset(buffer)
        self._require_rank(buffer, indices)
        checks, inner = self._checks(buffer, indices, [use]), dt.lanes(buffer.dtype)

        def lanes(env: Env, active: Sequence[bool]) -> list[Any]:
            accessed = [any(active[at : at + inner]) for at in range(0, len(active), inner)]
            if not any(accessed):
                return [None] * len(active)
            columns = columns_of(env, accessed)
            found: list[Any] = []
            for access, is_on in enumerate(accessed):
                start = 0
                if is_on:
                    numbers = [column[access] for column in columns]
                    start = offset(env, numbers)
                    for check in checks:
                        check(env, numbers)
                found += [start + lane if active[access * inner + lane] else None for lane in range(inner)]
            return found

        return lanes

    def _columns(self, indices: Sequence[E.PrimExpr]) -> Callable[[Env, Sequence[bool]], list[Sequence[int]]]:
        """The numbers of each index in all lanes."""
        closures = [self._expressions.index(index) for index in indices]
        widths = [dt.lanes(index.dtype) for index in indices]
        return lambda env, accessed: [
            index(env, accessed) if width > 1 else [index(env)] * len(accessed)
            for index, width in zip(closures, widths)
        ]

    def _checks(self, buffer: Buffer, indices: Sequence[E.PrimExpr], uses: Sequence[Use]) -> list[Check]:
        """What refuses an access that the blocks around do not state."""
        checks = [self.regions.check(buffer, indices, use is Use.WRITE) for use in uses]
        return [check for check in checks if check is not None]

    def corner(
        self, buffer: Buffer, first: Sequence[E.PrimExpr], extents: Sequence[E.PrimExpr]
    ) -> Callable[[Env], int]:
        """The offset of the first element of a region, which must lie in the buffer."""
        begins, counts = self._indices(buffer, first), self.numbers(extents)
        shape, strides = self.numbers(buffer.shape), self.strides(buffer)
        begin = None if buffer.elem_offset is None else self._expressions.index(buffer.elem_offset)
        elements = self.elements(buffer)

        def find(env: Env) -> int:
            elements(env)  # it must be allocated
            found = 0 if begin is None else begin(env)
            for index, count, extent, stride in zip(begins, counts(env), shape(env), strides(env)):
                at = index(env)
                if count > 0 and not 0 <= at <= extent - count:
                    raise refusal(
                        "bounds", f"a region of {buffer.name} is [{at}, {at + count}), of [0, {extent})"
                    )
                found += at * stride
            return found

        return find

    def _indices(self, buffer: Buffer, indices: Sequence[E.PrimExpr]) -> list[Closure]:
        self._require_rank(buffer, indices)
        return [self._expressions.index(index) for index in indices]

    def _require_rank(self, buffer: Buffer, indices: Sequence[E.PrimExpr]) -> None:
        if len(indices) != len(buffer.shape):
            raise InterpreterError(
                f"buffer {buffer.name} has {len(buffer.shape)} dimensions, got {len(indices)} indices"
            )

    def _offset(self, buffer: Buffer) -> Callable[[Env, Sequence[int]], int]:
        """The offset of the element that numbers as indices address, which must be within the extents."""
        extents, strides = self.numbers(buffer.shape), self.strides(buffer)
        begin = None if buffer.elem_offset is None else self._expressions.index(buffer.elem_offset)
        width = dt.lanes(buffer.dtype)

        def offset(env: Env, indices: Sequence[int]) -> int:
            found, axis = 0 if begin is None else begin(env), 0
            for index, extent, stride in zip(indices, extents(env), strides(env)):
                if not 0 <= index < extent:
                    raise refusal(
                        "bounds",
                        f"index {index} of dimension {axis} of {buffer.name} is not in [0, {extent}):"
                        f" {element(buffer.name, indices)}",
                    )
                found += index * stride
                axis += 1
            return found * width

        return offset

    # -- loads and stores ------------------------------------------------------------------------------------------
    def load(self, node: E.BufferLoad) -> Closure:
        """The value of an element, or of several; lanes under a predicate that does not hold are zero."""
        elements, name = self.elements(node.buffer), node.buffer.name
        zero, named = number(0, dt.element_of(node.dtype)), self._named(node.buffer, node.indices)
        if dt.lanes(node.dtype) == 1:
            place = self.place(node.buffer, node.indices, [Use.READ])

            def load(env: Env) -> Any:
                try:
                    return elements(env).read(place(env), name)
                except ElementError as error:
                    raise error.of(named(env, [error.index], error)) from None

            if node.predicate is None:
                return load
            predicate = self._expressions.condition(node.predicate)
            return lambda env: load(env) if predicate(env) else zero
        places = self.places(node.buffer, node.indices, Use.READ)
        mask = self._mask(node.predicate, dt.lanes(node.dtype))

        def lanes(env: Env, active: Sequence[bool]) -> list[Any]:
            masked = mask(env, active)
            memory, found = elements(env), places(env, masked)
            try:
                values = [None if at is None else memory.read(at, name) for at in found]
            except ElementError as error:
                raise error.of(named(env, found, error)) from None
            return [
                zero if is_on and not unmasked else value
                for is_on, unmasked, value in zip(active, masked, values)
            ]

        return lanes

    def store(
        self, buffer: Buffer, indices: Sequence[E.PrimExpr], value: E.PrimExpr, predicate: Any
    ) -> Closure:
        """A statement that stores a value; storing ``undef()`` leaves an element as if nobody had written it."""
        elements, name = self.elements(buffer), buffer.name
        new = self._expressions.data(value)
        is_undefined, named = _is_undefined(value), self._named(buffer, indices)
        if dt.lanes(value.dtype) == 1 and predicate is None and dt.lanes(buffer.dtype) == 1:
            place = self.place(buffer, indices, [Use.WRITE])

            def store(env: Env) -> None:
                stored = None if is_undefined else new(env)
                try:
                    if is_undefined:
                        elements(env).forget(place(env), name)
                    else:
                        elements(env).write(place(env), stored, name)
                except ElementError as error:
                    raise error.of(named(env, [error.index], error)) from None

            return store
        lanes = max([dt.lanes(index.dtype) for index in indices] + [1]) * dt.lanes(buffer.dtype)
        places, mask = self.places(buffer, indices, Use.WRITE), self._mask(predicate, lanes)
        whole, is_scalar = (True,) * lanes, dt.lanes(value.dtype) == 1

        def store_lanes(env: Env) -> None:
            masked = mask(env, whole)
            if not any(masked):
                return
            if is_undefined:
                values = [None] * lanes
            else:
                values = [new(env)] * lanes if is_scalar else new(env, masked)
            memory, found = elements(env), places(env, masked)
            try:
                for at, stored in zip(found, values):
                    if at is not None and is_undefined:
                        memory.forget(at, name)
                    elif at is not None:
                        memory.write(at, stored, name)
            except ElementError as error:
                raise error.of(named(env, found, error)) from None

        return store_lanes

    def _named(
        self, buffer: Buffer, indices: Sequence[E.PrimExpr]
    ) -> Callable[[Env, Sequence[int | None], ElementError], str]:
        """The name of the element that an error is about, among the offsets of the lanes of an access."""
        columns, inner = self._columns(indices), dt.lanes(buffer.dtype)

        def named(env: Env, places: Sequence[int | None], error: ElementError) -> str:
            accesses = [places[at : at + inner] for at in range(0, len(places), inner)]
            found = columns(env, [any(at is not None for at in lanes) for lanes in accesses])
            access = next(number for number, lanes in enumerate(accesses) if error.index in lanes)
            return element(buffer.name, [column[access] for column in found])

        return named

    def _mask(
        self, predicate: E.PrimExpr | None, lanes: int
    ) -> Callable[[Env, Sequence[bool]], Sequence[bool]]:
        """Which of the active lanes a predicate holds for."""
        if predicate is None:
            return lambda env, active: active
        holds = self._expressions.condition(predicate)
        if dt.lanes(predicate.dtype) == 1:
            return lambda env, active: active if holds(env) else [False] * lanes
        return lambda env, active: [on and bool(lane) for on, lane in zip(active, holds(env, active))]


def dense_strides(shape: Sequence[int]) -> list[int]:
    """The strides of an array without gaps, rows behind one another."""
    strides, dense = [], 1
    for extent in reversed(shape):
        strides.append(dense)
        dense *= extent
    return strides[::-1]


def _is_undefined(value: E.PrimExpr) -> bool:
    """Whether a value is that of ``undef()``, which is no number."""
    while isinstance(value, E.Cast | E.Broadcast):
        value = value.value
    return isinstance(value, E.Call) and getattr(value.op, "name", "") == "tir.undef"
