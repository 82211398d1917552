"""Memory accesses: addresses, plain, strided, gathered and masked loads and stores."""

from __future__ import annotations

from collections.abc import Callable

from ... import dtype as dt
from ...tir import expr as E
from ...tir.buffer import Buffer
from ...tir.expr import PrimExpr
from .builder import Value, constant, element_of, lanes_of, mangled, vector
from .compile import CodegenError
from .index import IndexEmitter
from .types import element_bytes, memory_type


class MemoryEmitter(IndexEmitter):
    """Emits loads and stores."""

    def address(self, buffer: Buffer, index: PrimExpr | None) -> Value:
        """Address of an element at a scalar index."""
        base = self._variable(buffer.data)
        if index is None:
            return base
        terms, const = self.split_index(index)
        return self._offset(base, memory_type(buffer.dtype), terms, const)

    def _offset(self, base: Value, element: str, terms: tuple[tuple[str, int], ...], const: int) -> Value:
        if terms:
            base = self._run_time_address(base, element, terms, self._copies > 1)
        if const == 0:
            return base
        displaced = ("displaced", base.ref, element, const)
        found = self._known(displaced)
        if found is None:
            found = self._scopes[-1][displaced] = self.b.offset_pointer(
                base, element, Value(str(const), "i64")
            )
        return found

    def _run_time_address(
        self, base: Value, element: str, terms: tuple[tuple[str, int], ...], opaque: bool
    ) -> Value:
        """Base plus a sum; the part of the innermost loop is added last, so that the rest is invariant in it.

        Where many copies use an address with displacements of their own, it is made ``opaque``: strength reduction
        would think about each of them (it was two thirds of the time of emitting code), and behind an empty piece of
        assembly sees one value.
        """
        key = ("address", base.ref, element, terms, opaque)
        found = self._known(key)
        if found is None:
            innermost = self._depth.get(terms[-1][0], 0)
            outer = tuple(term for term in terms if self._depth.get(term[0], 0) < innermost)
            if outer:
                base = self._run_time_address(base, element, outer, False)
            index = self._sum(terms[len(outer) :])
            if opaque:
                pure = self.module.attributes("nounwind willreturn memory(none)")
                index = self.b.define(f'call i64 asm "", "=r,0"(i64 {index.ref}) {pure}', "i64")
            found = self.b.offset_pointer(base, element, index)
            self._scopes[-1][key] = found
        return found

    def _from_memory(self, value: Value, dtype: str) -> Value:
        if dt.is_bool(dtype):
            return self.b.icmp("ne", value, constant(0, value.type))
        return value

    def _to_memory(self, value: Value, dtype: str) -> Value:
        if dt.is_bool(dtype):
            return self.b.cast("zext", value, vector("i8", lanes_of(value.type)))
        return value

    def _load(self, expr: E.BufferLoad) -> Value:
        buffer = expr.buffer
        index = self._flat_index(expr.indices, buffer)
        type_ = memory_type(expr.dtype)
        align = element_bytes(buffer.dtype)
        if expr.predicate is not None:
            value = self._masked_load(buffer, index, expr.predicate, type_, align)
            return self._from_memory(value, expr.dtype)
        if index is None or dt.lanes(index.dtype) == 1:
            return self._from_memory(
                self._plain_load(buffer, self.address(buffer, index), type_, align), expr.dtype
            )
        if isinstance(index, E.Broadcast):
            scalar = self._plain_load(
                buffer, self.address(buffer, index.value), memory_type(buffer.dtype), align
            )
            return self._from_memory(self.b.splat(scalar, index.lanes), expr.dtype)
        if isinstance(index, E.Ramp):
            stride = self.index(index.stride).literal
            if stride == 1:
                pointer = self.address(buffer, index.base)
                return self._from_memory(self._plain_load(buffer, pointer, type_, align), expr.dtype)
            if stride == -1:
                pointer = self.address(buffer, index.base - (index.lanes - 1))
                straight = self._plain_load(buffer, pointer, type_, align)
                turned = self.b.shuffle(straight, straight, range(index.lanes - 1, -1, -1))  # type: ignore[arg-type]
                return self._from_memory(turned, expr.dtype)
        result = Value("poison", type_)
        element = memory_type(buffer.dtype)
        for i, pointer in enumerate(self._lane_addresses(buffer, index)):
            result = self.b.insert(result, self._plain_load(buffer, pointer, element, align), i)
        return self._from_memory(result, expr.dtype)

    def _plain_load(self, buffer: Buffer, pointer: Value, type_: str, align: int) -> Value:
        if self._guard is not None:
            pointer = self._safe_address(buffer, pointer)
        return self.b.load(type_, pointer, align)

    def _safe_address(self, buffer: Buffer, pointer: Value) -> Value:
        """The address where the guard holds, else the buffer's first element."""
        base = self._variable(buffer.data)
        if pointer.ref == base.ref:
            return pointer
        assert self._guard is not None
        key = ("safe", pointer.ref, self._guard.ref)
        found = self._known(key)
        if found is None:
            found = self._scopes[-1][key] = self.b.select(self._guard, pointer, base)
        return found

    def _flat_index(self, indices: tuple[PrimExpr, ...], buffer: Buffer) -> PrimExpr | None:
        if len(indices) > 1:
            raise CodegenError(
                f"buffer {buffer.name} is accessed with {len(indices)} indices; run ir.tir.transform.FlattenBuffer first"
            )
        return indices[0] if indices else None

    def _lane_addresses(self, buffer: Buffer, index: PrimExpr) -> list[Value]:
        base = self._variable(buffer.data)
        element = memory_type(buffer.dtype)
        if isinstance(index, E.Ramp):
            terms, const = self.split_index(index.base)
            stride = self.index(index.stride)
            if stride.literal is not None:
                return [
                    self._offset(base, element, terms, const + i * stride.literal) for i in range(index.lanes)
                ]
        lanes = self.value(index)
        result = []
        for i in range(lanes_of(lanes.type)):
            offset = self._wide(self.b.extract(lanes, i))
            result.append(self.b.element_pointer(base, element, offset))
        return result

    def _address_vector(self, buffer: Buffer, index: PrimExpr) -> Value:
        lanes = self.value(index)
        count = lanes_of(lanes.type)
        if element_of(lanes.type) != "i64":
            lanes = self.b.cast("sext", lanes, vector("i64", count))
        base = self._variable(buffer.data)
        return self.b.define(
            f"getelementptr {memory_type(buffer.dtype)}, ptr {base.ref}, {lanes.type} {lanes.ref}",
            vector("ptr", count),
        )

    def _masked_load(
        self, buffer: Buffer, index: PrimExpr | None, predicate: PrimExpr, type_: str, align: int
    ) -> Value:
        mask = self.value(predicate)
        count = lanes_of(type_)
        if index is None or count == 1:
            return self._guarded(mask, lambda: self.b.load(type_, self.address(buffer, index), align), type_)
        nothing = Value("zeroinitializer", type_)
        if isinstance(index, E.Ramp) and self.index(index.stride).literal == 1:
            pointer = self.address(buffer, index.base)
            name = f"llvm.masked.load.{mangled(type_)}.p0"
            self.module.declare(name, type_, ["ptr", "i32", mask.type, type_])
            return self.b.call(name, type_, [pointer, Value(str(align), "i32"), mask, nothing])
        pointers = self._address_vector(buffer, index)
        name = f"llvm.masked.gather.{mangled(type_)}.v{count}p0"
        self.module.declare(name, type_, [pointers.type, "i32", mask.type, type_])
        return self.b.call(name, type_, [pointers, Value(str(align), "i32"), mask, nothing])

    def _guarded(self, condition: Value, compute: Callable[[], Value], type_: str) -> Value:
        """``compute()`` where the condition holds, else zero."""
        then, join = self.b.fresh("then"), self.b.fresh("join")
        before = self.b.block
        self.b.cond_branch(condition, then, join)
        self.b.label(then)
        self.enter()
        with self.conditionally():
            value = compute()
        self.leave()
        last = self.b.block
        self.b.branch(join)
        self.b.label(join)
        return self.b.define(f"phi {type_} [{value.ref}, %{last}], [zeroinitializer, %{before}]", type_)

    def store(
        self, buffer: Buffer, indices: tuple[PrimExpr, ...], value: PrimExpr, predicate: PrimExpr | None
    ) -> None:
        """Emits a store."""
        index = self._flat_index(indices, buffer)
        stored = self._to_memory(self.value(value), value.dtype)
        align = element_bytes(buffer.dtype)
        if index is not None and isinstance(index, E.Broadcast):
            index = index.value  # all lanes go to one place: the last one wins
            stored = self.b.extract(stored, lanes_of(stored.type) - 1)
        if predicate is not None:
            self._masked_store(buffer, index, stored, self.value(predicate), align)
            return
        if index is None or dt.lanes(index.dtype) == 1:
            self.b.store(stored, self.address(buffer, index), align)
            return
        if isinstance(index, E.Ramp):
            stride = self.index(index.stride).literal
            if stride == 1:
                self.b.store(stored, self.address(buffer, index.base), align)
                return
        for i, pointer in enumerate(self._lane_addresses(buffer, index)):
            self.b.store(self.b.extract(stored, i), pointer, align)

    def _masked_store(
        self, buffer: Buffer, index: PrimExpr | None, value: Value, mask: Value, align: int
    ) -> None:
        count = lanes_of(value.type)
        if index is None or count == 1:
            then, join = self.b.fresh("then"), self.b.fresh("join")
            pointer = self.address(buffer, index)
            self.b.cond_branch(mask, then, join)
            self.b.label(then)
            self.b.store(value, pointer, align)
            self.b.branch(join)
            self.b.label(join)
            return
        if isinstance(index, E.Ramp) and self.index(index.stride).literal == 1:
            name = f"llvm.masked.store.{mangled(value.type)}.p0"
            self.module.declare(name, "void", [value.type, "ptr", "i32", mask.type])
            self.b.call(
                name, "void", [value, self.address(buffer, index.base), Value(str(align), "i32"), mask]
            )
            return
        pointers = self._address_vector(buffer, index)
        name = f"llvm.masked.scatter.{mangled(value.type)}.v{count}p0"
        self.module.declare(name, "void", [value.type, pointers.type, "i32", mask.type])
        self.b.call(name, "void", [value, pointers, Value(str(align), "i32"), mask])
