"""InjectDotProduct: a loop over a group of narrow numbers becomes a dot product, for which processors have an instruction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ... import dtype as dt
from ...arith.deep_equal import expr_deep_equal
from ...arith.index_simplifier import IndexSimplifier, Linear
from ...module import IRModule
from ...node import post_order_visit
from ...transform import PassContext
from ..analysis.contiguous import stride_of
from ..analysis.own_memory import own_memory
from ..analysis.undefined_vars import undefined_vars
from ..effects import has_effect
from ..expr import Add, Broadcast, BufferLoad, Cast, IntImm, Mul, PrimExpr, Ramp, Var
from ..function import PrimFunc
from ..intrinsic.vectors import DOT_GROUPS, dot_accumulate
from ..kernel_attributes import DOT_PRODUCT
from ..operators import const
from ..stmt import BufferStore, For, ForKind, Stmt
from ..stmt_functor import StmtExprMutator
from .prim_func_pass import PrimFuncPass


@dataclass(frozen=True)
class _Operand:
    """A factor of the product, which the loop takes an element of each group of."""

    load: BufferLoad
    element: PrimExpr
    """The index of that element, in the first lane."""
    is_shared: bool
    """Whether all lanes take the same one."""


class _Inject(StmtExprMutator):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__()
        self.func = func
        self.simplifier = IndexSimplifier()

    @cached_property
    def own(self) -> frozenset[Var]:
        """Memory that is read by one name only; found where there is a loop that asks for it."""
        return own_memory(self.func)

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_For(self, loop: For) -> Stmt:
        self.simplifier.bind_range(loop.loop_var, loop.min, loop.extent)
        if DOT_PRODUCT in loop.annotations:
            return self._in_one(loop) or loop
        body = self.visit(loop.body)
        return loop if body is loop.body else loop.replace(body=body)

    def _in_one(self, loop: For) -> Stmt | None:
        """The store of all that a loop adds; None where no instruction does that."""
        store = loop.body
        if (
            loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED)
            or not isinstance(store, BufferStore)
            or store.predicate is not None
            or dt.lanes(store.value.dtype) == 1
            or any(_mentions(index, loop.loop_var) for index in store.indices)
            or any(has_effect(part) for part in (loop.min, store.value, *store.indices))
            or any(self._may_read(index, store.buffer.data) for index in store.indices)
        ):
            return None
        found = sum_and_product(store)
        if found is None:
            return None
        sums, factors = found
        if any(self._may_read(factor, store.buffer.data) for factor in factors):
            return None  # the loop changes what it reads
        first, second = (_operand(factor, store) for factor in factors)
        if first is not None and second is not None and second.is_shared:
            first, second = second, first
        if first is None or second is None or second.is_shared:
            return None
        group = _group(loop, store, first, second)
        parts = (
            [self._all_of(item, loop, group, dt.lanes(sums.dtype)) for item in (first, second)]
            if group
            else []
        )
        if not parts or None in parts:
            return None
        return store.replace(value=dot_accumulate(sums, *parts))

    def _may_read(self, expr: PrimExpr, memory: Var) -> bool:
        """Whether an expression may load from memory that is stored to, by whatever name."""
        found = False

        def check(node: Any) -> None:
            nonlocal found
            if isinstance(node, BufferLoad):
                data = node.buffer.data
                found = found or data is memory or not (data in self.own or memory in self.own)

        post_order_visit(expr, check)
        return found

    def _all_of(self, operand: _Operand, loop: For, group: int, lanes: int) -> BufferLoad | None:
        """The load of all that the loop takes of an operand, if that is one piece of memory."""
        if not operand.is_shared:
            (index,) = operand.load.indices
            if stride_of(index) != group:
                return None
        element = self.simplifier.linear(operand.element)
        if element.terms.get(loop.loop_var) != 1 or not dt.is_index(operand.element.dtype):
            return None
        others = {atom: factor for atom, factor in element.terms.items() if atom is not loop.loop_var}
        before = self.simplifier.linear(loop.min)
        start = self.simplifier.try_build(Linear(others, element.const).plus(before), operand.element.dtype)
        if start is None or _mentions(start, loop.loop_var):
            return None
        count = group if operand.is_shared else group * lanes
        return BufferLoad(operand.load.buffer, [Ramp(start, const(1, start.dtype), count)])


def _group(loop: For, store: BufferStore, first: _Operand, second: _Operand) -> int:
    """How many products an instruction adds, if that is what the loop does; else 0."""
    dtypes = [dt.element_of(item.dtype) for item in (first.load, second.load, store.value)]
    group = DOT_GROUPS.get((dtypes[0], dtypes[1], dtypes[2]), 0)
    extent = loop.extent.value if isinstance(loop.extent, IntImm) else None
    return group if group == extent else 0


def _mentions(expr: PrimExpr, var: Var) -> bool:
    return var in undefined_vars(expr)


def sum_and_product(store: BufferStore) -> tuple[BufferLoad, tuple[PrimExpr, PrimExpr]] | None:
    """What stands where the sum is stored, and the factors of what is added to it."""
    value = store.value
    if not isinstance(value, Add):
        return None
    for sums, product in ((value.a, value.b), (value.b, value.a)):
        if (
            isinstance(product, Mul)
            and isinstance(sums, BufferLoad)
            and sums.predicate is None
            and sums.buffer is store.buffer
            and len(sums.indices) == len(store.indices)
            and all(expr_deep_equal(x, y) for x, y in zip(sums.indices, store.indices))
        ):
            return sums, (product.a, product.b)
    return None


def _operand(factor: PrimExpr, store: BufferStore) -> _Operand | None:
    """A factor that is loaded, and cast to what is stored."""
    is_shared = False
    inner = factor
    while isinstance(inner, Broadcast | Cast):
        is_shared = is_shared or isinstance(inner, Broadcast)
        if isinstance(inner, Cast) and dt.element_of(inner.dtype) != dt.element_of(store.value.dtype):
            return None
        inner = inner.value
    if not isinstance(inner, BufferLoad) or inner.predicate is not None or len(inner.indices) != 1:
        return None
    if dt.lanes(inner.buffer.dtype) != 1:
        return None
    (index,) = inner.indices
    if isinstance(index, Broadcast):
        return _Operand(inner, index.value, True)
    if isinstance(index, Ramp):
        return _Operand(inner, index.base, False)
    return _Operand(inner, index, True) if is_shared and dt.lanes(index.dtype) == 1 else None


@dataclass(frozen=True)
class InjectDotProduct(PrimFuncPass):
    """Replace annotated loops (:data:`ir.tir.kernel_attributes.DOT_PRODUCT`) by one call of ``dot_accumulate``.

    The loop runs over a group of narrow numbers, inside of a vector: of one operand every lane takes a group of its own, and they lie one
    behind the other; of the other operand all lanes take the same group, or each its own as well. A loop that is not quite of this form
    stays a loop. Machines without the instruction gain, too: what is made of the call there reads every element once.

    Before::

        for g in T.serial(4, annotations={"dot_product": 1}):
            C[0:16] = C[0:16] + T.Broadcast(T.Cast("int32", x[k * 4 + g]), 16) * T.Cast("int32x16", y[k * 64 + g : k * 64 + g + 64 : 4])

    After::

        C[0:16] = T.dot_accumulate(C[0:16], x[k * 4 : k * 4 + 4], y[k * 64 : k * 64 + 64])
    """

    pass_name = "tir.InjectDotProduct"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with dot products."""
        body = _Inject(func).visit(func.body)
        return func if body is func.body else func.replace(body=body)
