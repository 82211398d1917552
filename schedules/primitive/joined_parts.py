"""Whether sums of a part may be relative to the maximum so far, as ``run_chain(joins_parts=True)`` makes them.

A part of a chain adds up terms relative to its own maximum, and a factor brings the sum to that of all. To take the maximum so far in place
of the part's is the same only if this factor is the one of each term: ``f(x, m) = g(m', m) * f(x, m')``. A program that
:mod:`~schedules.primitive.rfactor_chain` has made is such; one that is written by hand need not be. (:mod:`schedules.rescaling`.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ir import structural_equal, tir
from ir.tir import IterVar
from ir.tir.analysis.reducer import Abstraction, Reduction
from ir.tir.stmt_functor import loads_in, substitute

from ..affine import mentions
from ..analysis import require, why_not_complete, why_not_reduction, written_buffers
from ..error import ScheduleError
from ..rescaling import NotRescalable, Rescaling, finite_forms
from ..tree import BlockNode, LeafNode, LoopNode, blocks_below
from .rfactor import reduction_of


@dataclass(frozen=True)
class _Relative:
    """What is known of a term, in variables of its block."""

    at: tuple[tir.PrimExpr, ...]
    """Relative to which element of the parts' maxima."""
    factor: tir.PrimExpr
    is_share: bool


class JoinedParts:
    """The blocks of a loop that compute one part of a chain of reductions in each iteration.

    Args:
        loop: over the parts.
        maxima: the buffer of the parts' maxima.
        is_maximum: whether those are the largest of each part, not the smallest.
        name: of the primitive, for errors.
    """

    def __init__(self, loop: LoopNode, maxima: tir.Buffer, is_maximum: bool, name: str) -> None:
        self._maxima, self._name = maxima, name
        self._writers: dict[tir.Buffer, list[BlockNode]] = {}
        for node in blocks_below(loop):
            for buffer in written_buffers(node):
                self._writers.setdefault(buffer, []).append(node)
        result, extreme = (tir.Var(text, maxima.dtype) for text in ("result", "extreme"))
        self._rescaling = Rescaling(result, extreme, is_maximum)
        self._extreme = self._reduction(maxima)
        self.identity: tir.PrimExpr = self._extreme.inits[0].value
        self._stored: dict[tir.Buffer, tuple[tir.Var, BlockNode, _Relative] | None] = {}

    def require_factor(
        self,
        part: tir.PrimExpr,
        at: Sequence[tir.PrimExpr],
        factor: tir.PrimExpr,
        before: tir.Var,
        after: tir.Var,
    ) -> None:
        """Refuse a sum of a part that another factor, or none, brings to another maximum.

        Args:
            part: the sum, as the block behind the loop reads it.
            at: which of the parts' maxima it is said to be relative to, likewise.
            factor: what it is multiplied by there, in terms of ``before`` and ``after``.

        Raises:
            ScheduleError: it is no such sum.
        """
        require(
            isinstance(part, tir.BufferLoad) and part.buffer in self._writers,
            self._name,
            f"{part} is no sum that the loop computes of each part",
        )
        assert isinstance(part, tir.BufferLoad)
        reduction = self._reduction(part.buffer)
        (node,) = self._writers[part.buffer]
        there, coming = (tir.Var(text, part.dtype) for text in "xy")
        is_sum = isinstance(reduction.combine([there], [coming])[0], tir.Add)
        names: dict[Any, Any] = dict(zip(reduction.indices, part.indices, strict=True))
        known = self._of_term(node, reduction.operands[0]) if is_sum else None
        require(
            known is not None
            and all(map(structural_equal, [substitute(index, names) for index in known.at], at))
            and self._are_same(known.factor, factor, before, after),
            self._name,
            f"{part.buffer.name} is no sum that {factor} brings from one maximum to another, so that its terms cannot be relative to"
            " the maximum so far",
        )

    def _are_same(self, known: tir.PrimExpr, factor: tir.PrimExpr, before: tir.Var, after: tir.Var) -> bool:
        """Whether two factors are one where maxima are finite."""
        own = substitute(known, {self._rescaling.before: before, self._rescaling.after: after})
        table = [(form, after) for form in finite_forms(after, self.identity)]
        return structural_equal(*[Abstraction(table).visit(item) for item in (own, factor)])

    def _reduction(self, buffer: tir.Buffer) -> Reduction:
        """How a buffer is computed of each part, by one reduction of one result."""
        writers = self._writers.get(buffer, [])
        require(
            len(writers) == 1 and why_not_reduction(writers[0]) is None,
            self._name,
            f"{buffer.name} is not what one reduction in the loop computes of each part",
        )
        reduction = reduction_of(writers[0], self._name)
        require(
            len(reduction.outputs) == 1
            and all(isinstance(index, tir.Var) for index in reduction.indices)
            and len(set(reduction.indices)) == len(reduction.indices),
            self._name,
            f"block {writers[0].name!r} does not store one result at variables of its own",
        )
        return reduction

    def _of_term(self, node: BlockNode, term: tir.PrimExpr) -> _Relative | None:
        """What a term of a block is relative to; None for one that depends on no maximum.

        Raises:
            ScheduleError: it has no factor.
        """
        loads = loads_in(term)
        found = [tuple(load.indices) for load in loads if load.buffer is self._maxima]
        stored = []
        for load in loads:
            entry = self._stored_in(load.buffer)
            if entry is not None:
                name, writer, known = entry
                names: dict[Any, Any] = dict(zip(_store_of(writer).indices, load.indices, strict=True))
                found.append(tuple(substitute(index, names) for index in known.at))
                stored.append((load, name))
        if not found:
            return None
        require(
            all(all(map(structural_equal, at, found[0])) for at in found[1:]),
            self._name,
            f"terms of block {node.name!r} are relative to several maxima",
        )
        result = tir.BufferLoad(self._maxima, found[0])
        reasons = []
        for extreme in self._extremes(node, found[0]):
            try:
                factor, is_share = self._rescaling.factor_in_program(
                    term, extreme, result, stored, self.identity
                )
            except NotRescalable as reason:
                reasons.append(str(reason))
                continue
            if factor is not None:
                return _Relative(found[0], factor, is_share)
        raise ScheduleError(
            f"{self._name}: the terms of block {node.name!r}, {term}, are no multiples of themselves relative to another maximum:"
            f" {reasons[0] if reasons else 'they are those of other elements than the maximum'}"
        )

    def _extremes(self, node: BlockNode, at: Sequence[tir.PrimExpr]) -> list[tir.PrimExpr]:
        """What a maximum is taken of, by each variable of a block that may count the elements of a part."""
        names: dict[Any, Any] = dict(zip(self._extreme.indices, at, strict=True))
        (writer,) = self._writers[self._maxima]
        reduced = [item for item in writer.iter_vars if item.iter_type == IterVar.CommReduce]
        if len(reduced) != 1:
            return []
        within = [
            item.var
            for item in node.iter_vars
            if structural_equal(item.dom.extent, reduced[0].dom.extent)
            and not any(mentions(index, {item.var}) for index in at)
        ]
        # What only reads stored terms has no variable of its own for that.
        return [
            substitute(self._extreme.operands[0], {**names, reduced[0].var: var})
            for var in (*within, reduced[0].var)
        ]

    def _stored_in(self, buffer: tir.Buffer) -> tuple[tir.Var, BlockNode, _Relative] | None:
        """What a buffer of weights holds; None of what depends on no maximum."""
        if buffer is self._maxima or buffer not in self._writers:
            return None
        if buffer not in self._stored:
            self._stored[buffer] = None  # a block that reads what it writes, as reductions do
            writers = self._writers[buffer]
            if len(writers) == 1 and why_not_complete(writers[0]) is None:
                self._stored[buffer] = self._weight(writers[0])
            else:
                require(
                    not any(self._depends(node) for node in writers),
                    self._name,
                    f"{buffer.name}, which terms are computed of, depends on maxima in another way than element by element",
                )
        return self._stored[buffer]

    def _depends(self, node: BlockNode) -> bool:
        """Whether a block reads maxima, or weights."""
        buffers = {item.buffer for item in node.reads}
        return self._maxima in buffers or any(self._stored_in(item) is not None for item in buffers)

    def _weight(self, node: BlockNode) -> tuple[tir.Var, BlockNode, _Relative] | None:
        if not self._depends(node):
            return None
        store = _store_of(node)
        variables = {item.var for item in node.iter_vars}
        require(
            store is not None
            and len(store.indices) == len(set(store.indices))
            and set(store.indices) == variables,
            self._name,
            f"block {node.name!r} is no elementwise block",
        )
        known = self._of_term(node, store.value)
        if known is None:
            return None
        name = tir.Var(store.buffer.name, store.buffer.dtype)
        self._rescaling.know(name, known.factor, known.is_share)
        return name, node, known


def _store_of(node: BlockNode) -> Any:
    """The only statement of a block; None if it has others."""
    store = node.body.leaf if isinstance(node.body, LeafNode) else None
    return store if isinstance(store, tir.BufferStore) else None
