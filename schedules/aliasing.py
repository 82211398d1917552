"""What schedules take for granted of a function's parameters: that they are different memory.

Primitives move reads and writes of different buffers past each other. So a function that a schedule has changed says ``tir.noalias``,
and one that denies it is scheduled only where that cannot matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ir import structural_equal, tir
from ir.node import Visitor
from ir.tir import PrimFunc

from .affine import simplify_polynomial
from .error import ScheduleError

NO_ALIAS = "tir.noalias"


def without_aliases(func: PrimFunc) -> PrimFunc:
    """A scheduled function, which says that its parameters are different memory unless it said something of that before."""
    if NO_ALIAS in func.attrs or len(func.buffer_map) < 2:
        return func
    return func.with_attr(NO_ALIAS, True)


def require_elementwise_aliases(name: str, func: PrimFunc) -> None:
    """Refuse to schedule a function that says that its parameters may be one array, unless it touches them at one place at a time.

    ``C[i] = A[i] + C[i]`` is the same in any order where A and C are one array; ``C[i] = A[i + 1]`` is not.

    Raises:
        ScheduleError: a parameter is written where another one is read or written by any other store, or at any other place.
    """
    if func.attrs.get(NO_ALIAS, True):
        return
    visitor = _Places(func)
    visitor.visit(func.body)
    for one in visitor.found:
        for other in visitor.found:
            if one.is_write and one.parameter is not other.parameter and not _is_one_place(one, other):
                raise ScheduleError(
                    f"function {name!r} says that its parameters may be one array (tir.noalias is False), and touches {other}"
                    f" where it writes {one}: schedules take them for different memory"
                )


@dataclass(frozen=True)
class _Place:
    """An access to a parameter's memory.

    Attributes:
        parameter: whose memory that is.
        indices: of the parameter; None where that is not known.
        is_write: whether it is written.
        store: the statement of which the access is a part; None outside of stores.
        instances: the variables whose values are those of one run of the statement; None where runs share the place.
    """

    parameter: tir.Buffer
    indices: tuple[tir.PrimExpr, ...] | None
    is_write: bool
    store: tir.BufferStore | None
    instances: tuple[tir.Var, ...] | None

    def __str__(self) -> str:
        place = "an unknown place" if self.indices is None else f"[{', '.join(map(str, self.indices))}]"
        return f"{self.parameter.name} at {place}"


def _is_one_place(one: _Place, other: _Place) -> bool:
    """Whether accesses of one statement are of one element, which no other run of it touches."""
    if one.store is None or one.store is not other.store or one.instances is None:
        return False
    if one.indices is None or other.indices is None:
        return False
    if not set(one.instances) <= set(one.indices) or not _have_one_layout(one.parameter, other.parameter):
        return False
    return len(one.indices) == len(other.indices) and all(
        structural_equal(a, b) for a, b in zip(one.indices, other.indices, strict=True)
    )


def _have_one_layout(one: tir.Buffer, other: tir.Buffer) -> bool:
    """Whether the same indices are the same bytes."""
    return (
        one.dtype == other.dtype
        and len(one.shape) == len(other.shape)
        and len(one.strides) == len(other.strides)
        and all(
            structural_equal(a, b)
            for a, b in zip((*one.shape, *one.strides), (*other.shape, *other.strides), strict=True)
        )
    )


class _Places(Visitor):
    """Collects the accesses to parameters, by their own names or by views of them."""

    def __init__(self, func: PrimFunc) -> None:
        super().__init__()
        self.found: list[_Place] = []
        self._names: dict[tir.Var, tir.Buffer] = {buffer.data: buffer for buffer in func.buffer_map.values()}
        self._views: dict[tir.Buffer, tir.BufferRegion] = {}
        self._store: tir.BufferStore | None = None
        self._instances: tuple[tir.Var, ...] | None = ()

    def visit_Block(self, block: tir.Block) -> None:
        outer = self._instances
        if block.init is not None:
            self._instances = None
        elif block.iter_vars:
            self._instances = tuple(item.var for item in block.iter_vars if not _is_one(item.dom.extent))
        for view in block.match_buffers:
            if view.source.buffer.data in self._names:
                self._names[view.buffer.data] = self._names[view.source.buffer.data]
                self._views[view.buffer] = view.source
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)
        self._instances = outer

    def visit_For(self, loop: tir.For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        outer = self._instances
        if outer is not None and not _is_one(loop.extent):
            self._instances = (*outer, loop.loop_var)
        self.visit(loop.body)
        self._instances = outer

    def visit_BufferStore(self, store: tir.BufferStore) -> None:
        self._store = store
        self._add(store, True)
        self.generic_visit(store)
        self._store = None

    def visit_BufferLoad(self, load: tir.BufferLoad) -> None:
        self._add(load, False)
        self.generic_visit(load)

    def visit_Call(self, call: tir.Call) -> None:
        for item in call.args:
            pointer = item.buffer.data if isinstance(item, tir.BufferLoad) and _is_address(call) else item
            if isinstance(pointer, tir.Var) and pointer in self._names:
                self._note(self._names[pointer], None, True)
        self.generic_visit(call)

    def visit_Buffer(self, buffer: tir.Buffer) -> None:
        pass

    def _add(self, access: tir.BufferLoad | tir.BufferStore, is_write: bool) -> None:
        parameter = self._names.get(access.buffer.data)
        if parameter is not None:
            self._note(parameter, self._indices(parameter, access.buffer, access.indices), is_write)

    def _indices(
        self, parameter: tir.Buffer, buffer: tir.Buffer, indices: Sequence[tir.PrimExpr]
    ) -> tuple[tir.PrimExpr, ...] | None:
        """What the indices of a view are in the parameter."""
        if buffer is parameter:
            return tuple(indices)
        source = self._views.get(buffer)
        if source is None or len(source.region) != len(indices) or buffer.dtype != source.buffer.dtype:
            return None
        moved = [
            simplify_polynomial(item.min + index) for item, index in zip(source.region, indices, strict=True)
        ]
        return self._indices(parameter, source.buffer, moved)

    def _note(self, parameter: tir.Buffer, indices: tuple[tir.PrimExpr, ...] | None, is_write: bool) -> None:
        self.found.append(_Place(parameter, indices, is_write, self._store, self._instances))


def _is_address(call: tir.Call) -> bool:
    return getattr(call.op, "name", "") == "tir.address_of"


def _is_one(extent: tir.PrimExpr) -> bool:
    return isinstance(extent, tir.IntImm) and extent.value == 1
