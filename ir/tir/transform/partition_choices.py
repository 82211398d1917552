"""PartitionChoices: split loops where another source begins, so that a concatenation reads each of its sources in a loop of its own.

An element of a concatenation is chosen by a chain of ``if_then_else``. In vectors, each of the sources would be read under a mask for
each vector of the result, whichever it is from: with twenty sources twenty loads instead of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ...arith.index_simplifier import INF, IndexSimplifier, Linear
from ...module import IRModule
from ...node import Mutator, post_order_visit
from ...transform import PassContext
from ..conjunction import comparisons
from ..expr import Call, IntImm, PrimExpr, Var
from ..function import PrimFunc
from ..operators import const
from ..stmt import BufferStore, For, ForKind, Stmt, seq
from ..stmt_functor import loads_in, substitute, variables_in
from .fresh_copy import fresh_copy
from .loop_partition import distance_of, first_of
from .prim_func_pass import PrimFuncPass
from .simplify_indices import SimplifyMutator


class _Partition(Mutator):
    def __init__(self, most_pieces: int) -> None:
        super().__init__()
        self.simplifier = IndexSimplifier()
        self.pieces_left = most_pieces

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_For(self, loop: For) -> Stmt:
        self.simplifier.bind_range(loop.loop_var, loop.min, loop.extent)
        cuts = self._cuts(loop)
        if len(cuts) > 2 and len(cuts) - 2 <= self.pieces_left:
            self.pieces_left -= len(cuts) - 2
            first, *others = [self._piece(loop, begin, end) for begin, end in pairwise(cuts)]
            return seq([first, *map(fresh_copy, others)])
        body = self.visit(loop.body)
        return loop if body is loop.body else loop.replace(body=body)

    def _cuts(self, loop: For) -> list[int]:
        """Where a loop begins, where sources begin or end in it, and where it ends; nothing for a loop that is not split."""
        if loop.kind in (ForKind.PARALLEL, ForKind.THREAD_BINDING):
            return []  # two would wait for each other
        if not isinstance(loop.min, IntImm) or not isinstance(loop.extent, IntImm):
            return []
        begin, end = loop.min.value, loop.min.value + loop.extent.value
        inner = self._defined_in(loop.body)
        found = {begin, end}
        for part in _choices_in(loop.body):
            distance = distance_of(self.simplifier, part)
            if distance is not None:
                found.update(self._changes(distance, loop.loop_var, inner))
        return sorted(cut for cut in found if begin <= cut <= end)

    def _defined_in(self, body: Stmt) -> set[Var]:
        """The variables of the loops in a statement, whose ranges are known from now on."""
        loops: list[For] = []
        post_order_visit(body, lambda node: loops.append(node) if isinstance(node, For) else None)
        for loop in reversed(loops):  # those outside first
            self.simplifier.bind_range(loop.loop_var, loop.min, loop.extent)
        return {loop.loop_var for loop in loops}

    def _changes(self, distance: Linear, var: Var, inner: set[Var]) -> list[int]:
        """From which values of a loop's variable ``distance >= 0`` holds for some of what runs inside, for all of it, or no longer."""
        step = distance.terms.get(var, 0)
        rest = {atom: factor for atom, factor in distance.terms.items() if atom is not var}
        if not step or any(not inner.issuperset(variables_in(atom)) for atom in rest):
            return []
        low, high = self.simplifier.bounds_of(Linear(rest, distance.const))
        if low <= -INF or high >= INF:
            return []
        return [first_of(step, low), first_of(step, high)]

    def _piece(self, loop: For, begin: int, end: int) -> Stmt:
        """The iterations of ``[begin, end)`` with what is known in them."""
        var = loop.loop_var
        self.simplifier.bind(var, begin, end - 1)
        body = SimplifyMutator(self.simplifier).visit(loop.body)
        self.simplifier.rewrite = None
        if end - begin == 1:
            return self.visit(substitute(body, {var: const(begin, var.dtype)}))
        extent = const(end - begin, var.dtype)
        return self.visit(loop.replace(min=const(begin, var.dtype), extent=extent, body=body))


def _choices_in(body: Stmt) -> Iterator[PrimExpr]:
    """The comparisons by which stored values choose between what they load, and load something else."""
    stores: list[BufferStore] = []
    post_order_visit(body, lambda node: stores.append(node) if isinstance(node, BufferStore) else None)
    calls: list[Call] = []
    for store in stores:
        post_order_visit(store.value, lambda node: calls.append(node) if isinstance(node, Call) else None)
    for call in calls:
        if getattr(call.op, "name", "") == "tir.if_then_else":
            condition, chosen, other = call.args
            if loads_in(chosen) and loads_in(other):
                yield from comparisons(condition)


@dataclass(frozen=True)
class PartitionChoices(PrimFuncPass):
    """Split loops at the values where a choice between sources changes.

    Args:
        most_pieces: how many pieces are added at most, each with the loops in it. The option ``tir.PartitionChoices`` of the PassContext
            sets it: ``{"most_pieces": 0}``.

    Before::

        for i in range(96):
            C[i] = T.if_then_else(i < 64, A[i], B[i - 64])

    After::

        for i in range(64):
            C[i] = A[i]
        for i in range(64, 96):
            C[i] = B[i - 64]
    """

    most_pieces: int = 64
    pass_name = "tir.PartitionChoices"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with a loop for each source."""
        options = self.configured(ctx)
        if next(_choices_in(func.body), None) is None:
            return func
        return func.replace(body=_Partition(options.most_pieces).visit(func.body))
