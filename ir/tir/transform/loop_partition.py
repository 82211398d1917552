"""LoopPartition: split loops where a guard changes, so that the interior of a tiled loop nest runs unchecked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd
from typing import Any

from ...arith.index_simplifier import INF, IndexSimplifier, Linear
from ...module import IRModule
from ...node import Mutator, Visitor, post_order_visit
from ...transform import PassContext
from .. import expr as E
from ..conjunction import conjunction, conjuncts, marked_conjuncts
from ..expr import IntImm, PrimExpr, Var
from ..faults import may_fault
from ..function import PrimFunc
from ..intrinsic.declaration import is_transparent
from ..operators import const
from ..stmt import AttrStmt, Evaluate, For, ForKind, IfThenElse, LetStmt, Stmt, seq
from ..stmt_functor import substitute, variables_in
from .fresh_copy import fresh_copy
from .prim_func_pass import PrimFuncPass
from .simplify_indices import SimplifyMutator


def distance_of(simplifier: IndexSimplifier, clause: PrimExpr) -> Linear | None:
    """``d`` such that the clause holds exactly if ``d >= 0``; None for what is no inequality of indices.

    ``k == 0`` of a variable that starts at 0, the first step of a reduction, is ``k <= 0``, and ``k // 4 < 3`` is ``k < 12``.
    """
    found = _difference(simplifier, clause)
    return None if found is None else _without_quotient(simplifier, found)


def _difference(simplifier: IndexSimplifier, clause: PrimExpr) -> Linear | None:
    if not isinstance(clause, E.CmpExpr) or not simplifier.compares_numbers(clause):
        return None
    a, b = simplifier.linear(clause.a), simplifier.linear(clause.b)
    if isinstance(clause, E.LT):
        return b.plus(a, -1).plus(Linear({}, -1))
    if isinstance(clause, E.LE):
        return b.plus(a, -1)
    if isinstance(clause, E.GT):
        return a.plus(b, -1).plus(Linear({}, -1))
    if isinstance(clause, E.EQ):
        low, high = simplifier.bounds_of(a.plus(b, -1))
        return b.plus(a, -1) if low >= 0 else a.plus(b, -1) if high <= 0 else None
    return a.plus(b, -1) if isinstance(clause, E.GE) else None


def _without_quotient(simplifier: IndexSimplifier, distance: Linear) -> Linear:
    """What is not negative for the same values, where all that changes is one quotient: its numerator's distance."""
    while len(distance.terms) == 1:
        ((atom, factor),) = distance.terms.items()
        if not isinstance(atom, E.FloorDiv) or not isinstance(atom.b, IntImm) or atom.b.value <= 0:
            break
        divisor, quotient = atom.b.value, first_of(factor, distance.const)
        above = simplifier.linear(atom.a).plus(Linear({}, -divisor * quotient))
        distance = above if factor > 0 else Linear({}, -1).plus(above, -1)
    return distance


def first_of(factor: int, rest: int) -> int:
    """The least x for which ``factor * x + rest >= 0``, or, of a negative factor, for which that is no longer so.

    >>> first_of(3, -7), first_of(-3, 7)
    (3, 3)
    """
    return -(rest // factor) if factor > 0 else rest // -factor + 1


def _guards_in(condition: PrimExpr) -> list[PrimExpr]:
    """The clauses of a condition, but for those that are marked to stay where they are."""
    return [
        clause
        for marked in marked_conjuncts(condition)
        if not _is_left_alone(marked)
        for clause in conjuncts(marked)
    ]


def _is_left_alone(clause: Any) -> bool:
    while is_transparent(clause):
        if clause.op.name == "tir.ignore_loop_partition":
            return True
        clause = clause.args[0]
    return False


@dataclass
class _Guards:
    """What the guards inside of a loop say about its variable."""

    low: int | None = None
    """All constant lower bounds hold from here on."""
    high: int | None = None
    """All constant upper bounds hold before here."""
    symbolic: set[tuple[object, ...]] = field(default_factory=set)
    """Keys of the clauses whose worst case depends on outer variables too."""
    worst_cases: dict[tuple[object, ...], PrimExpr] = field(default_factory=dict)
    """The conditions under which all those clauses hold, by key; tiles of several statements share them."""
    kept: list[Linear] = field(default_factory=list)
    """What the keys are of: they name atoms by identity, which must stay those atoms' own."""
    tiles: dict[tuple[object, ...], list[_TileGuard]] = field(default_factory=dict)
    """Guards of tiles that this loop numbers, by the tile: those of its statements are decided together."""


@dataclass
class _TileGuard:
    """``tile + inside >= 0`` where ``tile`` moves by whole tiles: one tile at most is cut, and known is where.

    With ``inside`` between ``low`` and ``high``, all of a tile is in if ``tile + low >= 0``, nothing if ``tile + high < 0``.
    """

    key: tuple[object, ...]
    tile: Linear
    inside: Linear
    low: int
    high: int
    dtype: str

    @staticmethod
    def of(simplifier: IndexSimplifier, distance: Linear, inner: set[Var], dtype: str) -> _TileGuard | None:
        """The clause ``distance >= 0`` as guard of the tile within the ``inner`` loops; None when it is none."""
        tile, inside = Linear({}, distance.const), Linear({}, 0)
        for atom, factor in distance.terms.items():
            variables = set(variables_in(atom))
            if not variables & inner:
                tile.terms[atom] = factor
            elif variables - inner:
                return None
            else:
                inside.terms[atom] = factor
        low, high = simplifier.bounds_of(inside)
        size = high - low + 1
        numbered = len(tile.terms) > 1 or not any(isinstance(atom, Var) for atom in tile.terms)
        if not inside.terms or low <= -INF or high >= INF or any(f % size for f in tile.terms.values()):
            return None
        if not numbered:
            return None  # one loop alone numbers the tiles: it is cut at a constant
        guard = _TileGuard(distance.key(), tile, inside, low, high, dtype)
        values = (tile.plus(Linear({}, low)), tile.plus(Linear({}, high)), guard.border)
        return None if any(simplifier.try_build(value, dtype) is None for value in values) else guard

    @property
    def border(self) -> Linear:
        """What is not negative within the tile that is cut."""
        return self.inside.plus(Linear({}, self.cut() or 0))

    def cut(self) -> int | None:
        """The value of ``tile`` at the tile that is cut; None if none is."""
        step = gcd(*self.tile.terms.values())
        last = -self.low - 1  # the largest value at which something is outside
        value = last - (last - self.tile.const) % step
        return value if value + self.high >= 0 else None


class _Work(Visitor):
    """Counts how often the stores below run, as far as extents are known."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self.times = 1

    def visit_PrimExpr(self, node: PrimExpr) -> None:
        pass

    def visit_Buffer(self, node: object) -> None:
        pass

    def visit_For(self, loop: For) -> None:
        saved = self.times
        self.times *= loop.extent.value if isinstance(loop.extent, IntImm) else 16
        self.visit(loop.body)
        self.times = saved

    def visit_BufferStore(self, node: object) -> None:
        self.total += self.times


def _work(body: Stmt) -> int:
    visitor = _Work()
    visitor.visit(body)
    return visitor.total


_WORTH_A_BRANCH = 128
"""Stores below a loop at least, for a choice between versions of its body in every iteration."""


class _FindGuards(Visitor):
    def __init__(self, simplifier: IndexSimplifier, loop: For, guards: _Guards, in_border: bool) -> None:
        super().__init__()
        self.simplifier = simplifier
        self.var = loop.loop_var
        self.guards = guards
        self.inner: set[Var] = set()
        self.defined: set[Var] = set()  # by a let inside of the loop
        self.path = [loop]
        self.in_border = in_border
        self._heavy: dict[int, bool] = {}

    def visit_PrimExpr(self, node: PrimExpr) -> None:
        pass

    def visit_Buffer(self, node: object) -> None:
        pass

    def visit_AttrStmt(self, stmt: AttrStmt) -> None:
        self.simplifier.bind_thread(stmt)
        self.generic_visit(stmt)

    def visit_For(self, loop: For) -> None:
        self.simplifier.bind_range(loop.loop_var, loop.min, loop.extent)
        self.inner.add(loop.loop_var)
        self.path.append(loop)
        self.visit(loop.body)
        self.path.pop()
        self.inner.discard(loop.loop_var)

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.defined.add(node.var)
        self.visit(node.body)

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        for clause in _guards_in(node.condition):
            distance = distance_of(self.simplifier, clause)
            if distance is None or not self._is_known_outside(distance):
                continue
            position, guard = self._tile_guard(distance, clause)
            if guard is None:
                self._clause(distance, clause)
            elif position == 0:
                self.guards.tiles.setdefault((guard.tile.key(), guard.low, guard.high), []).append(guard)
        self.visit(node.then_case)
        if node.else_case is not None:
            self.visit(node.else_case)

    def _is_known_outside(self, distance: Linear) -> bool:
        """Whether a guard says the same around the loop: it reads no memory, divides by numbers only, and names what is defined there."""
        return not any(
            atom in self.defined
            or (atom.is_compound and (may_fault(atom) or not self.defined.isdisjoint(variables_in(atom))))
            for atom in distance.terms
        )

    def _tile_guard(self, distance: Linear, clause: PrimExpr) -> tuple[int, _TileGuard | None]:
        """The clause as guard of a tile, and the position in the path of the loop that chooses between the tile's versions.

        That is the innermost loop that numbers tiles and has enough work inside: one copy of the tile for the border, however
        many loops are outside.
        """
        if isinstance(clause, E.EQ):
            return 0, None  # the first step of a reduction is peeled
        mentioned = set(variables_in(*distance.terms))
        inner: set[Var] = set()
        lanes = {loop.loop_var for loop in self.path if loop.kind == ForKind.VECTORIZED}
        dtype = clause.a.dtype  # type: ignore[attr-defined]
        for position in range(len(self.path) - 1, -1, -1):
            loop = self.path[position]
            if loop.loop_var not in mentioned:
                continue
            if inner and loop.kind != ForKind.VECTORIZED and self._is_heavy(loop):
                guard = _TileGuard.of(self.simplifier, distance, inner, dtype)
                if guard is not None:
                    # a border's border is masked, rather than a fourth version
                    return (-1 if self.in_border and lanes & inner else position), guard
            inner.add(loop.loop_var)
        return 0, None

    def _is_heavy(self, loop: For) -> bool:
        if id(loop) not in self._heavy:
            self._heavy[id(loop)] = _work(loop.body) >= _WORTH_A_BRANCH
        return self._heavy[id(loop)]

    def _mentions(self, atom: PrimExpr) -> tuple[bool, bool]:
        """Whether an atom contains the loop variable, and inner variables."""
        own = inner = False

        def check(node: object) -> None:
            nonlocal own, inner
            if isinstance(node, Var):
                own = own or node is self.var
                inner = inner or node in self.inner

        post_order_visit(atom, check)
        return own, inner

    def _clause(self, distance: Linear, clause: PrimExpr) -> None:
        coefficient = 0
        worst = distance.const
        rest: dict[PrimExpr, int] = {}
        own_inside = any_inner = False
        for atom, factor in distance.terms.items():
            if atom is self.var:
                coefficient = factor
                continue
            own, inner = self._mentions(atom)
            if inner:
                if own:
                    return
                any_inner = True
                low, _ = self.simplifier.bounds_of(Linear({atom: factor}, 0))
                if low <= -INF:
                    return
                worst += low
            else:
                own_inside = own_inside or own
                rest[atom] = factor
        if not coefficient and not own_inside:
            return
        if not rest and coefficient:
            threshold = first_of(coefficient, worst)
            if coefficient > 0:
                self.guards.low = threshold if self.guards.low is None else max(self.guards.low, threshold)
            else:
                self.guards.high = threshold if self.guards.high is None else min(self.guards.high, threshold)
        elif any_inner:
            if coefficient:
                rest[self.var] = coefficient
            dtype = clause.a.dtype  # type: ignore[attr-defined]
            worst_case = Linear(rest, worst)
            built = self.simplifier.try_build(worst_case, dtype)
            if built is None:
                return  # it never holds, or hardly ever
            self.guards.kept += [distance, worst_case]
            self.guards.symbolic.add(distance.key())
            self.guards.worst_cases.setdefault(worst_case.key(), E.GE(built, const(0, dtype)))


class _Assume(Mutator):
    """Drops the clauses of guards that are known to hold, or puts what they amount to in their place."""

    def __init__(
        self, simplifier: IndexSimplifier, known: Mapping[tuple[object, ...], PrimExpr | None]
    ) -> None:
        super().__init__()
        self.simplifier = simplifier
        self.known = known

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        left = []
        for marked in marked_conjuncts(node.condition):
            distance = None if _is_left_alone(marked) else distance_of(self.simplifier, *conjuncts(marked))
            amounts_to = marked if distance is None else self.known.get(distance.key(), marked)
            if amounts_to is not None:
                left.append(amounts_to)
        condition = conjunction(left)
        then = self.visit(node.then_case)
        if condition is None:
            return then
        otherwise = self.visit(node.else_case) if node.else_case is not None else None
        return IfThenElse(condition, then, otherwise, node.span)


def _is_nothing(body: Stmt) -> bool:
    return isinstance(body, Evaluate) and isinstance(body.value, IntImm)


def _is_masked(before: int, lanes: int, after: int) -> bool:
    """Whether a vector loop keeps its guard as a mask, rather than to fall apart into several narrower ones."""
    return before == 0 and after > 0 and lanes & (lanes - 1) != 0 and lanes + after <= 16


class _Partition(Mutator):
    def __init__(self, budget: int) -> None:
        super().__init__()
        self.simplifier = IndexSimplifier()
        self.budget = budget
        self.in_border = False

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def _simplified(self, body: Stmt) -> Stmt:
        simplified = SimplifyMutator(self.simplifier).visit(body)
        self.simplifier.rewrite = None
        return simplified

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        self.simplifier.bind_thread(stmt)
        return self.generic_visit(stmt)  # type: ignore[no-any-return]

    def visit_For(self, loop: For) -> Stmt:
        self.simplifier.bind_range(loop.loop_var, loop.min, loop.extent)
        if loop.kind == ForKind.THREAD_BINDING or self.budget <= 0:
            return loop
        guards = self._guards(loop)
        if isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm):
            begin = loop.min.value
            end = begin + loop.extent.value
            low = begin if guards.low is None else min(max(begin, guards.low), end)
            high = end if guards.high is None else max(min(end, guards.high), low)
            if (low, high) != (begin, end) and low < high:
                if loop.kind == ForKind.PARALLEL:
                    return self._version_parallel(loop, low, high)
                spans = [(a, b) for a, b in ((begin, low), (low, high), (high, end)) if a < b]
                if loop.kind == ForKind.VECTORIZED and _is_masked(low - begin, high - low, end - high):
                    return loop
                pieces = [self._piece(loop, a, b) for a, b in spans]
                if loop.kind not in (ForKind.VECTORIZED, ForKind.UNROLLED):
                    self.budget -= sum(not _is_nothing(piece) for piece in pieces) - 1
                return seq([pieces[0], *[fresh_copy(piece) for piece in pieces[1:]]])
        if loop.kind == ForKind.VECTORIZED:
            return loop  # what is left depends on the lane, or is invariant: a mask, or a branch
        body = self._versions(loop, guards)
        return loop if body is loop.body else loop.replace(body=body)

    def _guards(self, loop: For) -> _Guards:
        guards = _Guards()
        _FindGuards(self.simplifier, loop, guards, self.in_border).visit(loop.body)
        return guards

    def _versions(self, loop: For, guards: _Guards) -> Stmt:
        """The body, for tiles and regions without guards and for others."""
        if self.budget > 0:
            for tiles in guards.tiles.values():
                return self._by_tile(loop, tiles)
            if guards.symbolic and loop.kind != ForKind.UNROLLED:
                self.budget -= 1
                interior = _Assume(self.simplifier, dict.fromkeys(guards.symbolic)).visit(loop.body)
                condition = conjunction(list(guards.worst_cases.values()))
                assert condition is not None
                return IfThenElse(condition, self.visit(interior), fresh_copy(self.visit(loop.body)))
        return self.visit(loop.body)

    def _by_tile(self, loop: For, guards: list[_TileGuard]) -> Stmt:
        """The body for whole tiles, for the one that is cut, and for those outside (often nothing is left of it)."""
        self.budget -= 1
        tile, low, high, dtype = guards[0].tile, guards[0].low, guards[0].high, guards[0].dtype
        cut = guards[0].cut()

        def at_least(value: Linear) -> PrimExpr:
            return E.GE(self.simplifier.build(value, dtype), const(0, dtype))

        def version(clauses: list[PrimExpr | None]) -> For:
            known = {guard.key: clause for guard, clause in zip(guards, clauses, strict=True)}
            return loop.replace(body=_Assume(self.simplifier, known).visit(loop.body))

        # What the simplifier knows of atoms is good until a variable gets another range: everything is derived first.
        is_whole, is_cut = at_least(tile.plus(Linear({}, low))), at_least(tile.plus(Linear({}, high)))
        some_outside = self.simplifier.bounds_of(tile)[0] + high < 0
        whole = version([None for _ in guards])
        border = version([at_least(guard.border) for guard in guards])
        outside = version([const(False) for _ in guards])

        body = self._versions(whole, self._guards(whole))
        saved, self.in_border = self.in_border, True
        rest = self._border(outside) if some_outside else None
        if cut is not None:
            at_border = self._border(border)
            rest = (
                IfThenElse(is_cut, at_border, rest) if some_outside and at_border is not None else at_border
            )
        self.in_border = saved
        return IfThenElse(is_whole, body, rest)

    def _border(self, loop: For) -> Stmt | None:
        """The body for the border; None where nothing is left."""
        simple = loop.replace(body=self._simplified(loop.body))
        body = self._versions(simple, self._guards(simple))
        return None if _is_nothing(body) else fresh_copy(body)

    def _piece(self, loop: For, begin: int, end: int) -> Stmt:
        """The iterations of ``[begin, end)`` as a loop of their own."""
        var = loop.loop_var
        self.simplifier.bind(var, begin, end - 1)
        body = self._simplified(loop.body)
        if _is_nothing(body):
            return body
        if end - begin == 1:
            body = substitute(body, {var: const(begin, var.dtype)})
            return self.visit(body)
        return self.visit(
            For(
                var,
                const(begin, var.dtype),
                const(end - begin, var.dtype),
                loop.kind,
                body,
                None,
                loop.annotations,
            )
        )

    def _version_parallel(self, loop: For, low: int, high: int) -> Stmt:
        """One parallel loop that chooses inside, because two would wait for each other."""
        self.budget -= 1
        var = loop.loop_var
        dtype = var.dtype
        begin, end = loop.min.value, loop.min.value + loop.extent.value  # type: ignore[attr-defined]
        clauses: list[PrimExpr] = []
        if low > begin:
            clauses.append(E.GE(var, const(low, dtype)))
        if high < end:
            clauses.append(E.LT(var, const(high, dtype)))
        self.simplifier.bind(var, low, high - 1)
        interior = self.visit(self._simplified(loop.body))
        # what is outside lies on one side only, unless both ends are cut
        outside = (high, end - 1) if low == begin else (begin, low - 1) if high == end else (begin, end - 1)
        self.simplifier.bind(var, *outside)
        border = self.visit(self._simplified(loop.body))
        self.simplifier.bind(var, begin, end - 1)
        condition = conjunction(clauses)
        assert condition is not None
        return loop.replace(body=IfThenElse(condition, interior, fresh_copy(border)))


class _HasGuard(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def visit_PrimExpr(self, node: PrimExpr) -> None:
        pass

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        self.found = True


@dataclass(frozen=True)
class LoopPartition(PrimFuncPass):
    """Split loops at the values where guards of tiles begin or cease to hold.

    A parallel loop is not split; its body chooses between a version without guards and one with.  Where the point
    depends on outer variables, the body of the loop chooses likewise.

    Args:
        max_partitions: loops taken apart at most; each makes a copy of what is inside. The option ``tir.LoopPartition`` of
            the PassContext sets it: ``{"max_partitions": 0}``.

    Before::

        for i, j in T.grid(5, 14):
            if i * 14 + j < 64:
                A[i * 14 + j] = 0.0

    After::

        for i, j in T.grid(4, 14):
            A[i * 14 + j] = 0.0
        for j in range(8):
            A[j + 56] = 0.0
    """

    max_partitions: int = 8
    pass_name = "tir.LoopPartition"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with partitioned loops."""
        options = self.configured(ctx)
        search = _HasGuard()
        search.visit(func.body)
        if not search.found:
            return func
        return func.replace(body=_Partition(options.max_partitions).visit(func.body))
