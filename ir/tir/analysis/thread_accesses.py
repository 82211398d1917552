"""What the statements of a kernel touch of the memory that threads share: loads, stores, and calls that are given addresses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count
from typing import Any, ClassVar

from ... import dtype as dt
from ...node import Visitor
from .. import expr as E
from .. import stmt as S
from ..buffer import Buffer
from ..conjunction import conjuncts
from ..expr import IntImm, PrimExpr, Var
from ..intrinsic.matrix_types import matrix_dtype
from ..operators import const, logical_not
from ..stmt_functor import substitute
from .thread_groups import WARP, ThreadGroup, Uniformity


class Touch(Enum):
    """What an access does."""

    READ = "reads"
    WRITE = "writes"
    ATOMIC = "updates"


@dataclass(frozen=True, eq=False)
class Step:
    """A loop, or a let of what is not known, around an access."""

    var: Var | None
    node: S.Stmt
    varies: bool
    """Whether threads differ in the variable's value at the same time."""
    is_box: bool = False
    """Whether its bounds are constant."""


@dataclass(frozen=True, eq=False)
class Access:
    """Bytes that a thread touches."""

    data: Var
    touch: Touch
    index: PrimExpr | None
    """Where, in units of :attr:`scale` bytes; None for anywhere."""
    scale: int
    size: int
    """How many bytes from there on."""
    path: tuple[Step, ...]
    guards: tuple[PrimExpr, ...]
    """Conditions that hold where it happens."""
    stmt: S.Stmt
    is_collective: bool = False
    """Whether it is done for other threads, too: then it is none of its thread alone."""
    is_asynchronous: bool = False
    """Whether it happens at any time until something waits for it."""
    base: int = 0
    """Bytes that are added to where it is."""
    content: int = -1
    """A number that accesses have in common which differ in nothing but the statement."""

    def of_any_iteration(self) -> Access:
        """The same access in an iteration of the loops around that is not known."""
        path = tuple([replace(step) for step in self.path])
        return replace(self, path=path, content=next(_NUMBERS))


_NUMBERS = count()
"""Of accesses of different contents."""

Reach = Callable[[E.Call], int | None]
"""How many bytes a call touches from an address on; None where that is not known."""


def _tile(rows: int, stride: int) -> Reach:
    """Of the elements of a tile of matrices, as the arguments at these places say; extents of the tile stand at 1 to 3."""

    def reach(call: E.Call) -> int | None:
        sizes = [item.value for item in call.args[rows : rows + 3] if isinstance(item, IntImm)]
        step = call.args[stride]
        if len(sizes) < 3 or not isinstance(step, IntImm):
            return None
        return (max(sizes) - 1) * step.value + max(sizes)

    return reach


@dataclass(frozen=True)
class _AddressUse:
    """What an intrinsic does with the memory behind one of its arguments."""

    address: int
    offset: int | None
    """The argument with elements to go from the address."""
    touch: Touch
    elements: Reach | None = None
    """By elements of the address; else by :attr:`bytes`."""
    bytes: Reach | None = None
    is_collective: bool = False
    is_asynchronous: bool = False


def _last_bytes(call: E.Call) -> int | None:
    return call.args[4].value if isinstance(call.args[4], IntImm) else None


def _stored_rows(call: E.Call) -> int | None:
    rows, columns, stride = call.args[0], call.args[1], call.args[5]
    if not (isinstance(rows, IntImm) and isinstance(columns, IntImm) and isinstance(stride, IntImm)):
        return None
    return (rows.value - 1) * stride.value + columns.value


def _of_matrix(position: int) -> Reach:
    """Bytes that a lane has of the left operand (0), the right one (1) or the sums (2) of ``ptx_mma``."""

    def reach(call: E.Call) -> int | None:
        m, n, k = (int(item) for item in re.findall(r"\d+", str(getattr(call.args[0], "value", ""))))
        elements = ((m, k), (k, n), (m, n))[position]
        bits = dt.bits(matrix_dtype(str(getattr(call.args[3 + position], "value", ""))))
        return elements[0] * elements[1] * bits // (8 * WARP)

    return reach


def _of_rows(call: E.Call) -> int | None:
    """Bytes that a lane has of matrices of 8 by 8 elements of 16 bits."""
    return 4 * call.args[1].value if isinstance(call.args[1], IntImm) else None


def _stored_elements(call: E.Call) -> int | None:
    """Elements that a lane has of what ``mma_store`` stores."""
    rows, columns = call.args[:2]
    known = isinstance(rows, IntImm) and isinstance(columns, IntImm)
    return rows.value * columns.value // WARP if known else None  # type: ignore[attr-defined]


def _filled_elements(call: E.Call) -> int | None:
    return call.args[0].value if isinstance(call.args[0], IntImm) else None


_ADDRESS_USES: dict[str, tuple[_AddressUse, ...]] = {
    "tir.atomic_add": (_AddressUse(0, None, Touch.ATOMIC, elements=lambda call: 1),),
    "tir.ptx_cp_async": (
        _AddressUse(0, 1, Touch.WRITE, bytes=_last_bytes, is_asynchronous=True),
        _AddressUse(2, 3, Touch.READ, bytes=_last_bytes),
    ),
    "tir.ptx_ldmatrix": (
        _AddressUse(5, 6, Touch.READ, bytes=lambda call: 16, is_collective=True),
        _AddressUse(3, 4, Touch.WRITE, bytes=_of_rows),
    ),
    "tir.ptx_stmatrix": (
        _AddressUse(3, 4, Touch.WRITE, bytes=lambda call: 16, is_collective=True),
        _AddressUse(5, 6, Touch.READ, bytes=_of_rows),
    ),
    "tir.ptx_mma": (
        _AddressUse(6, 7, Touch.READ, bytes=_of_matrix(0)),
        _AddressUse(8, 9, Touch.READ, bytes=_of_matrix(1)),
        _AddressUse(10, 11, Touch.READ, bytes=_of_matrix(2)),
        _AddressUse(10, 11, Touch.WRITE, bytes=_of_matrix(2)),
    ),
    "tir.mma_fill": (_AddressUse(1, 2, Touch.WRITE, elements=_filled_elements),),
    "tir.tvm_load_matrix_sync": (_AddressUse(5, None, Touch.READ, elements=_tile(1, 6), is_collective=True),),
    "tir.tvm_store_matrix_sync": (
        _AddressUse(5, None, Touch.WRITE, elements=_tile(1, 6), is_collective=True),
    ),
    "tir.mma_store": (
        _AddressUse(2, None, Touch.WRITE, elements=_stored_rows, is_collective=True),
        _AddressUse(3, 4, Touch.READ, elements=_stored_elements),
    ),
}
"""By intrinsic; what another one does is not known."""

_WAITED_FOR = (
    "tir.ptx_cp_async_bulk", "tir.ptx_cp_async_bulk_tensor", "tir.tensor_map_encode_tiled", "tir.ptx_wgmma_mma_async",
)  # fmt: skip
"""Intrinsics that nothing but the program orders: it waits for what they do at barriers with transactions, or for groups of products."""


@dataclass(frozen=True)
class _Address:
    """Where an argument leads to."""

    data: Var
    dtype: str
    """Of the elements that it is counted in."""
    index: PrimExpr | None
    mask: int = 3


class AccessFinder(Visitor):
    """Finds the accesses in expressions and simple statements.

    Args:
        group: the threads that are asked about.
        uniformity: what those have in common.
        wanted: whether the memory behind an address variable is asked about.
    """

    remembers: ClassVar[bool] = False

    def __init__(self, group: ThreadGroup, uniformity: Uniformity, wanted: Callable[[Var], bool]) -> None:
        super().__init__()
        self.group = group
        self.uniformity = uniformity
        self.path: tuple[Step, ...] = ()
        self.guards: tuple[PrimExpr, ...] = ()
        self._values: dict[Var, PrimExpr] = dict(group.values)
        self._names: dict[Var, tuple[Var, int | None]] = {}
        """Address variables that lead into memory which is known by another one, and how many bytes they begin behind that."""
        self._wanted = wanted
        self._known: dict[tuple[Any, ...], tuple[Access, int]] = {}
        self._found: list[Access] = []
        self._stmt: Any = None

    # -- where ---------------------------------------------------------------------------------------------------------
    @contextmanager
    def under(self, condition: PrimExpr, holds: bool = True) -> Iterator[None]:
        """What stands under a condition."""
        outer = self.guards
        clauses = conjuncts(condition if holds else logical_not(condition))
        self.guards = (*outer, *[self.in_terms(item) for item in clauses])
        yield
        self.guards = outer

    @contextmanager
    def below(self, step: Step) -> Iterator[None]:
        """What stands in a loop or let."""
        outer = self.path
        self.path = (*outer, step)
        yield
        self.path = outer

    @contextmanager
    def bound(self, var: Var, value: PrimExpr, node: S.Stmt) -> Iterator[None]:
        """What stands in the scope of a let: a value of index arithmetic is known, of another one only whether threads see the same."""
        address = self._address(value)
        if address is not None:
            self._names[var] = self._lead(address)
        known = self.in_terms(value)
        if dt.is_index(var.dtype) and _is_arithmetic(known):
            self._values[var] = known
            yield
        else:
            self._values.pop(var, None)
            with self.below(Step(var, node, var in self.uniformity.varying)):
                yield

    def _lead(self, address: _Address) -> tuple[Var, int | None]:
        """The memory that an address leads to, and how many bytes behind its begin; None where that is no constant."""
        data, base = self._names.get(address.data, (address.data, 0))
        if base is None or not isinstance(address.index, IntImm):
            return data, None
        return data, base + address.index.value * dt.bytes_of(address.dtype)

    def is_address(self, value: PrimExpr) -> bool:
        """Whether a value is the address of known memory, which by itself touches nothing."""
        return self._address(value) is not None

    def in_terms(self, expr: PrimExpr) -> PrimExpr:
        """An expression in terms of loops, threads and what is not known."""
        return substitute(expr, self._values) if self._values else expr

    # -- what -----------------------------------------------------------------------------------------------------------
    def of(self, stmt: S.Stmt, *parts: Any) -> tuple[Access, ...]:
        """The accesses of a statement, in some of its parts (by default all of it)."""
        self._found, self._stmt = [], stmt
        for part in parts or (stmt,):
            if part is not None:
                self.visit(part)
        return tuple(self._found)

    def _add(
        self,
        data: Var,
        touch: Touch,
        index: PrimExpr | None,
        scale: int,
        size: int,
        is_collective: bool = False,
        is_asynchronous: bool = False,
    ) -> None:
        data, base = self._names.get(data, (data, 0))
        if self._wanted(data):
            where = None if index is None or base is None else self.in_terms(index)
            found = Access(
                data, touch, where, scale, size, self.path, self.guards, self._stmt, is_collective, is_asynchronous, base or 0
            )  # fmt: skip
            key = (
                data, touch, id(where), scale, size, self.path, tuple(map(id, self.guards)), is_collective, is_asynchronous, base
            )  # fmt: skip
            known = self._known.setdefault(
                key, (found, next(_NUMBERS))
            )  # which is kept, as its parts' identities are the key
            self._found.append(replace(found, content=known[1]))

    def _element(self, buffer: Buffer, indices: tuple[PrimExpr, ...], touch: Touch) -> None:
        scale = dt.bytes_of(buffer.dtype)
        begin, lanes = _first_lane(indices)
        if begin is None:
            self._add(buffer.data, touch, None, scale, scale)
        else:
            self._add(buffer.data, touch, buffer.offset_of(begin)[0], scale, scale * lanes)

    def visit_BufferLoad(self, load: E.BufferLoad) -> None:
        for index in load.indices:
            self.visit(index)
        self._masked(load, Touch.READ)

    def visit_BufferStore(self, store: S.BufferStore) -> None:
        self.visit(store.value)
        for index in store.indices:
            self.visit(index)
        self._masked(store, Touch.WRITE)

    def _masked(self, access: Any, touch: Touch) -> None:
        predicate = access.predicate
        if predicate is None:
            self._element(access.buffer, access.indices, touch)
            return
        self.visit(predicate)
        with self.under(predicate if dt.lanes(predicate.dtype) == 1 else const(True)):
            self._element(access.buffer, access.indices, touch)

    def visit_Buffer(self, buffer: Buffer) -> None:
        """Reached through accesses only."""

    def visit_Var(self, var: Var) -> None:
        """An address that goes where nothing is known of it."""
        if var.dtype == "handle":
            for touch in (Touch.READ, Touch.WRITE):
                self._add(var, touch, None, 1, 1, is_collective=True)

    def visit_Let(self, let: E.Let) -> None:
        self.visit(let.value)
        with self.bound(let.var, let.value, self._stmt):
            self.visit(let.body)

    # -- calls ----------------------------------------------------------------------------------------------------------
    def visit_Call(self, call: E.Call) -> None:
        name = getattr(call.op, "name", "")
        own = self._address(call)
        if own is not None:  # it goes where nothing is known of it
            self._unknown(own)
            return
        if name == "tir.if_then_else":
            condition, chosen, other = call.args
            self.visit(condition)
            with self.under(condition):
                self.visit(chosen)
            with self.under(condition, False):
                self.visit(other)
            return
        uses = _ADDRESS_USES.get(name, ())
        addresses = {use.address for use in uses}
        for position, arg in enumerate(call.args):
            address = self._address(arg) if isinstance(arg, PrimExpr) else None
            if address is None:
                if isinstance(arg, PrimExpr):
                    self.visit(arg)
                continue
            for part in getattr(arg, "args", ()):
                for index in part.indices if isinstance(part, E.BufferLoad) else ():
                    self.visit(index)
            if position not in addresses and name not in _WAITED_FOR:
                self._unknown(address)
        for use in uses:
            self._use(call, use)

    def _use(self, call: E.Call, use: _AddressUse) -> None:
        address = self._address(call.args[use.address])
        if address is None:
            return
        dtype = address.dtype or dt.element_of(call.dtype)
        scale = dt.bytes_of(dtype) if dtype != "handle" else 1
        index = address.index
        if use.offset is not None and index is not None:
            index = index + call.args[use.offset]
        size = None if use.bytes is None else use.bytes(call)
        if use.elements is not None:
            count = use.elements(call)
            size = None if count is None else count * scale
        if size is None:
            index, size = None, 1
        self._add(address.data, use.touch, index, scale, size, use.is_collective, use.is_asynchronous)

    def _unknown(self, address: _Address) -> None:
        """Whoever has an address may go anywhere from there."""
        for bit, touch in ((1, Touch.READ), (2, Touch.WRITE)):
            if address.mask & bit:
                self._add(address.data, touch, None, 1, 1, is_collective=True)

    def _address(self, arg: Any) -> _Address | None:
        """What an argument is the address of; None where it is none."""
        if isinstance(arg, Var):
            if arg.dtype != "handle":
                return None
            element = getattr(getattr(arg.type_annotation, "element_type", None), "dtype", "")
            return _Address(arg, element, const(0))
        name = getattr(getattr(arg, "op", None), "name", "")
        if name == "tir.address_of" and isinstance(arg.args[0], E.BufferLoad):
            load = arg.args[0]
            begin, _ = _first_lane(load.indices)
            index = None if begin is None else load.buffer.offset_of(begin)[0]
            return _Address(load.buffer.data, load.buffer.dtype, index)
        if name == "tir.tvm_access_ptr":
            kind, data, offset, _, mask = arg.args
            bits = mask.value if isinstance(mask, IntImm) else 3
            return _Address(data, kind.dtype, offset, bits)
        if name == "tir.handle_add_byte_offset":
            inner = self._address(arg.args[0])
            return None if inner is None else replace(inner, index=None)
        return None


def _is_arithmetic(expr: PrimExpr) -> bool:
    """Whether an expression is made of integers and variables alone."""
    if isinstance(expr, E.BufferLoad | E.Call | E.Let | E.Reduce):
        return False
    below: list[Any] = []
    expr._visit_children(below.append)
    return all(_is_arithmetic(item) for item in below)


def _first_lane(indices: tuple[PrimExpr, ...]) -> tuple[list[PrimExpr] | None, int]:
    """The indices of the first element in memory, and how many lie from there to the last; None where lanes lie anywhere."""
    begin, reach = list(indices), 1
    for position, index in enumerate(indices):
        if dt.lanes(index.dtype) == 1:
            continue
        if isinstance(index, E.Broadcast):
            begin[position] = index.value
        elif isinstance(index, E.Ramp) and isinstance(index.stride, IntImm) and position == len(indices) - 1:
            last = index.stride.value * (index.lanes - 1)
            begin[position] = index.base if last >= 0 else index.base + const(last, index.base.dtype)
            reach = abs(last) + 1
        else:
            return None, 1
    return begin, reach
