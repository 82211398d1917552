"""Accesses of buffers: where an element lies, by its indices, the buffer's extents, strides and offset; loads and stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ... import dtype as dt
from .. import expr as E
from ..buffer import Buffer
from .error import InterpreterError, refusal
from .lanes import Closure
from .memory import Elements, Pointer
from .numbers import number

if TYPE_CHECKING:
    from .expressions import Expressions

Env = dict[Any, Any]


class Accesses:
    """Translates accesses for :class:`.expressions.Expressions`."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self.views: set[Buffer] = set()
        """Matched regions without strides of their own: they have the source's, which are values of the buffer as a variable."""

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
    def place(self, buffer: Buffer, indices: Sequence[E.PrimExpr]) -> Callable[[Env], int]:
        """The offset of one element (the first lane, where elements are vectors) behind the buffer's address."""
        closures, offset = self._indices(buffer, indices), self._offset(buffer)
        return lambda env: offset(env, [closure(env) for closure in closures])

    def places(
        self, buffer: Buffer, indices: Sequence[E.PrimExpr]
    ) -> Callable[[Env, Sequence[bool]], list[Any]]:
        """The offsets of the lanes of an access, where elements are vectors those of their lanes; None where it is not active."""
        closures, offset = self._indices(buffer, indices), self._offset(buffer)
        widths, inner = [dt.lanes(index.dtype) for index in indices], dt.lanes(buffer.dtype)

        def lanes(env: Env, active: Sequence[bool]) -> list[Any]:
            accessed = [any(active[at : at + inner]) for at in range(0, len(active), inner)]
            if not any(accessed):
                return [None] * len(active)
            columns = [
                index(env, accessed) if width > 1 else [index(env)] * len(accessed)
                for index, width in zip(closures, widths)
            ]
            found: list[Any] = []
            for access, is_on in enumerate(accessed):
                start = offset(env, [column[access] for column in columns]) if is_on else 0
                found += [start + lane if active[access * inner + lane] else None for lane in range(inner)]
            return found

        return lanes

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
        if len(indices) != len(buffer.shape):
            raise InterpreterError(
                f"buffer {buffer.name} has {len(buffer.shape)} dimensions, got {len(indices)} indices"
            )
        return [self._expressions.index(index) for index in indices]

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
                        f"index {index} of dimension {axis} of {buffer.name} is not in [0, {extent})",
                    )
                found += index * stride
                axis += 1
            return found * width

        return offset

    # -- loads and stores ------------------------------------------------------------------------------------------
    def load(self, node: E.BufferLoad) -> Closure:
        """The value of an element, or of several; lanes under a predicate that does not hold are zero."""
        elements, name = self.elements(node.buffer), node.buffer.name
        zero = number(0, dt.element_of(node.dtype))
        if dt.lanes(node.dtype) == 1:
            place = self.place(node.buffer, node.indices)
            load = lambda env: elements(env).read(place(env), name)  # noqa: E731
            if node.predicate is None:
                return load
            predicate = self._expressions.condition(node.predicate)
            return lambda env: load(env) if predicate(env) else zero
        places = self.places(node.buffer, node.indices)
        mask = self._mask(node.predicate, dt.lanes(node.dtype))

        def lanes(env: Env, active: Sequence[bool]) -> list[Any]:
            masked = mask(env, active)
            memory = elements(env)
            values = [None if at is None else memory.read(at, name) for at in places(env, masked)]
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
        is_undefined = _is_undefined(value)
        if dt.lanes(value.dtype) == 1 and predicate is None and dt.lanes(buffer.dtype) == 1:
            place = self.place(buffer, indices)
            if is_undefined:
                return lambda env: elements(env).forget(place(env), name)

            def store(env: Env) -> None:
                stored = new(env)
                elements(env).write(place(env), stored, name)

            return store
        lanes = max([dt.lanes(index.dtype) for index in indices] + [1]) * dt.lanes(buffer.dtype)
        places, mask = self.places(buffer, indices), self._mask(predicate, lanes)
        whole, is_scalar = (True,) * lanes, dt.lanes(value.dtype) == 1

        def store_lanes(env: Env) -> None:
            masked = mask(env, whole)
            if not any(masked):
                return
            if is_undefined:
                values = [None] * lanes
            else:
                values = [new(env)] * lanes if is_scalar else new(env, masked)
            memory = elements(env)
            for at, stored in zip(places(env, masked), values):
                if at is not None and is_undefined:
                    memory.forget(at, name)
                elif at is not None:
                    memory.write(at, stored, name)

        return store_lanes

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
