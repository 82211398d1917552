"""Accesses of buffers that a software pipeline keeps in several versions: a leading dimension, or an offset behind an address."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from ...error import IRValueError
from ...node import Visitor
from ..buffer import Buffer, number_of_elements
from ..expr import BufferLoad, Call, IntImm, PrimExpr, Range, Var
from ..intrinsic.address_arguments import ADDRESSES
from ..operators import const, convert
from ..stmt import BufferRegion, BufferStore, DeclBuffer, Stmt
from ..stmt_functor import StmtExprMutator

FRAGMENTS: dict[str, tuple[tuple[int, int], ...]] = {
    "tir.tvm_load_matrix_sync": ((0, 4),),
    "tir.tvm_store_matrix_sync": ((0, 4),),
    "tir.tvm_fill_fragment": ((0, 4),),
    "tir.tvm_mma_sync": ((0, 1), (2, 3), (4, 5), (6, 7)),
    "tir.tvm_bmma_sync": ((0, 1), (2, 3), (4, 5), (6, 7)),
}
"""By intrinsic: the places of fragments of matrices among its arguments, each with that of its offset, which counts fragments."""

_EXTENTS_OF_FRAGMENT = {"matrix_a": (1, 3), "matrix_b": (2, 3), "accumulator": (1, 2)}
"""By the kind of fragment: the arguments of loads, stores and fills that are its extents, of m, n and k behind the fragment."""


def with_versions(buffer: Buffer, count: int) -> Buffer:
    """The buffer with a leading dimension for its versions, in the same memory."""
    extent = const(count, buffer.shape[0].dtype if buffer.shape else "int32")
    strides = (buffer.strides[0] * buffer.shape[0], *buffer.strides) if buffer.strides else ()
    versioned: Buffer = buffer.replace(shape=(extent, *buffer.shape), strides=strides)
    return versioned


class Versions(StmtExprMutator):
    """Rewrites what accesses buffers so that it accesses the version of its iteration.

    Args:
        buffers: the buffers with their versions, by address.
        iteration: the number of the iteration, in terms of the loop's variable.
        loop_name: for errors.
        fragments: how many elements fragments have, by address.
    """

    def __init__(
        self, buffers: Mapping[Var, Buffer], iteration: PrimExpr, loop_name: str, fragments: Mapping[Var, int]
    ) -> None:
        super().__init__()
        self._versioned, self._iteration = buffers, iteration
        self._loop_name, self._fragments = loop_name, fragments

    def _index(self, data: Var) -> PrimExpr:
        """The version of the iteration."""
        extent = self._versioned[data].shape[0]
        return self._iteration.astype(extent.dtype) % extent

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return self._versioned[buffer.data] if buffer.data in self._versioned else buffer

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        mapped = self.generic_visit(load)
        if load.buffer.data not in self._versioned:
            return mapped
        return BufferLoad(
            mapped.buffer, (self._index(load.buffer.data), *mapped.indices), mapped.predicate, load.span
        )

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        mapped = self.generic_visit(store)
        if store.buffer.data not in self._versioned:
            return mapped
        return mapped.replace(indices=(self._index(store.buffer.data), *mapped.indices))

    def visit_BufferRegion(self, region: BufferRegion) -> BufferRegion:
        mapped = self.generic_visit(region)
        if region.buffer.data not in self._versioned:
            return mapped
        index = self._index(region.buffer.data)
        version = Range.from_min_extent(index, const(1, index.dtype))
        return BufferRegion(mapped.buffer, (version, *mapped.region))

    def visit_DeclBuffer(self, stmt: DeclBuffer) -> Stmt:
        if stmt.buffer.data in self._versioned:
            raise self._refusal(stmt.buffer.data, f"it has another name there, buffer {stmt.buffer.name}")
        return self.generic_visit(stmt)

    def visit_Var(self, var: Var) -> PrimExpr:
        if var in self._versioned:
            raise self._refusal(var, "its address is used there other than with an offset")
        return var

    def visit_Call(self, call: Call) -> PrimExpr:
        name = getattr(call.op, "name", "")
        places = ADDRESSES.get(name) or FRAGMENTS.get(name, ())
        args: list[Any] = list(call.args)
        moved = [(at, offset) for at, offset in places if args[at] in self._versioned]
        if not moved:
            return self.generic_visit(call)
        addresses = {at for at, _ in moved}
        args = [item if at in addresses else self.visit(item) for at, item in enumerate(args)]
        for at, offset in moved:
            step = self._step(args[at], name in FRAGMENTS)
            args[offset] = convert(args[offset]) + step * self._index(args[at])
        return call.replace(args=tuple(args))

    def _step(self, data: Var, in_fragments: bool) -> PrimExpr:
        """How far versions are apart, in elements or in fragments."""
        buffer = self._versioned[data]
        step = buffer.strides[0] if buffer.strides else number_of_elements(*buffer.shape[1:])
        if not in_fragments:
            return step
        size = self._fragments.get(data, 0)
        if not isinstance(step, IntImm) or not size or step.value % size:
            raise self._refusal(data, "it is no whole number of fragments that are loaded or filled there")
        return const(step.value // size, step.dtype)

    def _refusal(self, data: Var, why: str) -> IRValueError:
        return IRValueError(
            f"software pipeline of loop {self._loop_name!r}: buffer {data.name} needs"
            f" {self._versioned[data].shape[0]} versions, but {why}; choose stages that need one version"
        )


class _FragmentSizes(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.found: dict[Var, int] = {}

    def visit_Buffer(self, buffer: Buffer) -> None:
        """Declarations load nothing."""

    def visit_Call(self, call: Call) -> None:
        name = getattr(call.op, "name", "")
        if name in FRAGMENTS and len(call.args) > 5 and isinstance(call.args[1], IntImm):
            fragment: Any = call.args[0]
            annotation = getattr(fragment, "type_annotation", None)
            kind = getattr(annotation, "storage_scope", "").rpartition(".")[2]
            places = _EXTENTS_OF_FRAGMENT.get(kind, ())
            extents = [item.value for item in map(call.args.__getitem__, places) if isinstance(item, IntImm)]
            if extents and len(extents) == len(places):
                self.found[fragment] = prod(extents)
        self.generic_visit(call)


def fragment_sizes(stmt: Stmt) -> dict[Var, int]:
    """How many elements the fragments have that are loaded, stored or filled in a statement, by address."""
    visitor = _FragmentSizes()
    visitor.visit(stmt)
    return visitor.found
