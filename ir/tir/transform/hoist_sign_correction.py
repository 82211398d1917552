"""HoistSignCorrection: what an unsigned operand adds to dot products of signed bytes is taken away behind a loop, not in each step."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any

from ... import dtype as dt
from ...arith.deep_equal import expr_deep_equal
from ...module import IRModule
from ...node import post_order_visit
from ...transform import PassContext
from ..analysis.contiguous import first_of_piece
from ..analysis.own_memory import own_memory
from ..buffer import Buffer, decl_buffer
from ..effects import has_effect
from ..expr import Broadcast, BufferLoad, Call, IntImm, PrimExpr, Ramp, Var
from ..function import PrimFunc
from ..intrinsic.bits import reinterpret
from ..intrinsic.declaration import call
from ..intrinsic.vectors import dot_accumulate
from ..operators import const
from ..stmt import Allocate, BufferStore, Evaluate, For, ForKind, LetStmt, SeqStmt, Stmt, seq
from ..stmt_functor import StmtExprMutator
from .prim_func_pass import PrimFuncPass

_FEWEST_STEPS = 4
"""Of a loop: with fewer, the sums behind it cost what they save."""

Place = tuple[Buffer, int, int]
"""Where a sum is: a buffer, the first element, and how many."""

_Key = tuple[str, frozenset[Place]]


@dataclass(frozen=True)
class _Step:
    """A store ``x[place] = dot_accumulate(x[place], first, second)`` of bytes that are both signed, or both unsigned."""

    store: BufferStore
    place: Place
    first: PrimExpr
    second: BufferLoad
    element: str
    """The dtype of the bytes."""


@dataclass
class _Operand:
    """A second operand, with the sums that it is used for in one round of the loop."""

    second: BufferLoad
    places: list[Place] = field(default_factory=list)

    @property
    def key(self) -> _Key:
        """What operands have in common that one correction serves."""
        return dt.element_of(self.second.dtype), frozenset(self.places)


@dataclass(frozen=True)
class _Correction:
    """What was added to each of some sums by the sign of the first operand."""

    places: tuple[Place, ...]
    buffer: Buffer
    start: int
    lanes: int

    @property
    def index(self) -> Ramp:
        """Where it is."""
        return Ramp(const(self.start, "int64"), const(1, "int64"), self.lanes)


class _Steps:
    """The steps of a loop's body; it is no such loop if there is something else than steps, names and hints."""

    def __init__(self, body: Stmt) -> None:
        self.steps: list[_Step] = []
        self.read: set[Var] = set()
        """The memory of all that is read but for the sums."""
        self.fits = self._fits(body)

    def _fits(self, node: Stmt) -> bool:
        if isinstance(node, SeqStmt):
            return all(self._fits(item) for item in node.seq)
        if isinstance(node, LetStmt):
            self._reads(node.value)
            return self._fits(node.body)
        step = _step_of(node) if isinstance(node, BufferStore) else None
        if step is None:
            return _is_hint(node)
        self.steps.append(step)
        self._reads(step.first)
        self._reads(step.second)
        return not has_effect(step.first) and not has_effect(step.second)

    def _reads(self, expr: PrimExpr) -> None:
        def check(node: Any) -> None:
            if isinstance(node, BufferLoad):
                self.read.add(node.buffer.data)

        post_order_visit(expr, check)


def _is_hint(node: Stmt) -> bool:
    return (
        isinstance(node, Evaluate)
        and isinstance(node.value, Call)
        and getattr(node.value.op, "name", "") == "tir.prefetch"
    )


def _step_of(store: BufferStore) -> _Step | None:
    """The step that a store is: of sums in registers, so that their places are constant."""
    value = store.value
    if not isinstance(value, Call) or getattr(value.op, "name", "") != "tir.dot_accumulate":
        return None
    sums, first, second = value.args
    element = dt.element_of(first.dtype)
    place = _place_of(store.buffer, store.indices)
    if (
        store.predicate is not None
        or place is None
        or element not in ("int8", "uint8")
        or dt.lanes(value.dtype) == 1
        or dt.element_of(second.dtype) != element
        or not isinstance(second, BufferLoad)
        or not isinstance(sums, BufferLoad)
        or sums.predicate is not None
        or _place_of(sums.buffer, sums.indices) != place
    ):
        return None
    return _Step(store, place, first, second, element)


def _place_of(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Place | None:
    """The place of an access to one piece of a buffer of local scope."""
    if buffer.scope() != "local" or len(indices) != 1:
        return None
    one_piece, start = first_of_piece(indices[0])
    if not one_piece or not isinstance(start, IntImm):
        return None
    return buffer, start.value, dt.lanes(indices[0].dtype)


def _steps_of(loop: For) -> list[_Step]:
    """The steps in a loop whose corrections can wait until it ends; none if they cannot."""
    if loop.kind != ForKind.SERIAL:
        return []
    if isinstance(loop.extent, IntImm) and loop.extent.value < _FEWEST_STEPS:
        return []
    found = _Steps(loop.body)
    if not found.fits or any(step.store.buffer.data in found.read for step in found.steps):
        return []
    return found.steps


def _operands(steps: list[_Step]) -> list[tuple[_Operand, list[_Step]]]:
    """The different second operands, with the steps that use each, in order."""
    found: list[tuple[_Operand, list[_Step]]] = []
    for step in steps:
        known = next((item for item in found if expr_deep_equal(item[0].second, step.second)), None)
        if known is None:
            known = (_Operand(step.second), [])
            found.append(known)
        known[0].places.append(step.place)
        known[1].append(step)
    return found


class _Replace(StmtExprMutator):
    """Puts statements in place of stores."""

    def __init__(self, instead: dict[int, Stmt]) -> None:
        super().__init__()
        self.instead = instead

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        return self.instead.get(id(store), store)


class _Hoist(StmtExprMutator):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__()
        self.func = func

    @cached_property
    def own(self) -> frozenset[Var]:
        """Memory that is read by one name only: that of sums by others would tell of corrections that are missing."""
        return own_memory(self.func)

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_For(self, loop: For) -> Stmt:
        steps = _steps_of(loop)
        if not steps or any(step.store.buffer.data not in self.own for step in steps):
            body = self.visit(loop.body)
            return loop if body is loop.body else loop.replace(body=body)
        operands = _operands(steps)
        if any(len(set(operand.places)) < len(operand.places) for operand, _ in operands):
            return loop  # some sum has several parts of one operand
        return _hoisted(loop, operands)


def _hoisted(loop: For, operands: list[tuple[_Operand, list[_Step]]]) -> Stmt:
    """A loop with corrections before, in and behind it."""
    corrections = _corrections(operands)
    instead: dict[int, Stmt] = {}
    for operand, users in operands:
        instead.update((id(step.store), _with_other_sign(step)) for step in users)
        first = users[0]
        added = _corrected(corrections[operand.key], first)
        instead[id(first.store)] = seq([added, instead[id(first.store)]])
    found = corrections.values()
    memory = next(iter(found)).buffer
    before = [BufferStore(memory, Broadcast(const(0, "int32"), item.lanes), [item.index]) for item in found]
    behind = [_without(place, item) for item in found for place in item.places]
    rounds = loop.replace(body=_Replace(instead).visit(loop.body))
    return Allocate(memory.data, "int32", memory.shape, const(True), seq([*before, rounds, *behind]))


def _corrections(operands: list[tuple[_Operand, list[_Step]]]) -> dict[_Key, _Correction]:
    """One correction for all operands that are used for the same sums."""
    different = {operand.key: operand.places for operand, _ in operands}
    lanes = [places[0][2] for places in different.values()]
    memory = decl_buffer((sum(lanes),), "int32", "corrections", scope="local")
    starts = accumulate(lanes, initial=0)
    return {
        key: _Correction(tuple(places), memory, start, width)
        for (key, places), width, start in zip(different.items(), lanes, starts)
    }


_SIGN = -128
"""The sign of a byte, by which the numbers of both dtypes with the same bits differ but for it."""


def _with_other_sign(step: _Step) -> BufferStore:
    """The step with a first operand of the other dtype: 128 more than a signed number is an unsigned one, 128 less the other way round."""
    lanes = dt.lanes(step.first.dtype)
    other = "uint8" if step.element == "int8" else "int8"
    sign = _sign(step.element, lanes)
    flipped = reinterpret(dt.with_lanes(other, lanes), call("bitwise_xor", step.first, sign))
    sums = step.store.value.args[0]  # type: ignore[attr-defined]
    return step.store.replace(value=dot_accumulate(sums, flipped, step.second))


def _sign(element: str, lanes: int) -> PrimExpr:
    return Broadcast(const(_SIGN if element == "int8" else -_SIGN, element), lanes)


def _corrected(correction: _Correction, step: _Step) -> BufferStore:
    """What a second operand adds too much, to each of its sums."""
    other = "uint8" if step.element == "int8" else "int8"
    sums = BufferLoad(correction.buffer, [correction.index])
    return BufferStore(
        correction.buffer, dot_accumulate(sums, _sign(other, 4), step.second), [correction.index]
    )


def _without(place: Place, correction: _Correction) -> BufferStore:
    """A sum without what was added too much."""
    buffer, start, lanes = place
    index = Ramp(const(start, "int64"), const(1, "int64"), lanes)
    added = BufferLoad(correction.buffer, [correction.index])
    return BufferStore(buffer, BufferLoad(buffer, [index]) - added, [index])


@dataclass(frozen=True)
class HoistSignCorrection(PrimFuncPass):
    """Multiply bytes of the same sign as one unsigned and one signed operand, which is what x86's instruction takes.

    The first operand gets 128 more (or less), by its sign bit. What that adds to a sum follows from the second operand alone, and is the
    same for all rows of a register tile: it is summed up beside them, and taken away behind the loop. Loops of other statements stay as
    they are; code generation corrects each step there.

    Before::

        for k in range(64):
            X[0:16] = T.dot_accumulate(X[0:16], a[k * 4 : k * 4 + 4], b[k * 64 : k * 64 + 64])
            X[16:32] = T.dot_accumulate(X[16:32], a[k * 4 + 256 : k * 4 + 260], b[k * 64 : k * 64 + 64])

    After::

        corrections = T.decl_buffer((16,), "int32", scope="local")
        corrections[0:16] = T.Broadcast(0, 16)
        for k in range(64):
            corrections[0:16] = T.dot_accumulate(corrections[0:16], T.Broadcast(T.uint8(128), 4), b[k * 64 : k * 64 + 64])
            X[0:16] = T.dot_accumulate(X[0:16], T.reinterpret("uint8x4", a[k * 4 : k * 4 + 4] ^ T.Broadcast(T.int8(-128), 4)), b[...])
            X[16:32] = T.dot_accumulate(X[16:32], T.reinterpret("uint8x4", a[k * 4 + 256 : ...] ^ ...), b[k * 64 : k * 64 + 64])
        X[0:16] = X[0:16] - corrections[0:16]
        X[16:32] = X[16:32] - corrections[0:16]
    """

    pass_name = "tir.HoistSignCorrection"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with corrections behind its loops."""
        body = _Hoist(func).visit(func.body)
        return func if body is func.body else func.replace(body=body)
