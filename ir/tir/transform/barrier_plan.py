"""Where barriers of a kernel stand: as few as order all accesses of different threads that meet, in loops and around conditions.

A kernel becomes a tree of statements. Between two neighbours of a sequence a barrier is wanted if something before it and something behind
it meet and no barrier is between them; it is placed as late as possible, which makes the fewest. The end of a loop's body and its
begin are neighbours, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ...error import IRValueError
from .. import expr as E
from .. import stmt as S
from ..analysis.thread_accesses import Access, AccessFinder, Step, Touch
from ..analysis.thread_conflicts import Apart, Conflicts, Meets, common_steps
from ..analysis.thread_groups import GroupKind, ThreadGroup, Uniformity, barrier_of
from ..expr import Var
from ..spelled import spelled

Pairs = Callable[[Access, Access, int, Apart], Meets]
"""Whether two accesses meet, see :meth:`Conflicts.between`."""


@dataclass(frozen=True)
class Exposed:
    """What of a statement is seen from outside."""

    head: tuple[Access, ...] = ()
    """What may happen before its first barrier."""
    tail: tuple[Access, ...] = ()
    """What may happen behind its last barrier."""
    cut: bool = False
    """Whether a barrier is met in any case."""


@dataclass(eq=False)
class Leaf:
    """A statement without statements in it, or the part of another one that is evaluated before its body."""

    stmt: S.Stmt
    accesses: tuple[Access, ...] = ()
    is_barrier: bool = False
    completes: tuple[Access, ...] = ()
    """Writes begun before that are done here, perhaps."""

    @property
    def exposed(self) -> Exposed:
        """Its accesses."""
        return Exposed(self.accesses, self.accesses + self.completes, self.is_barrier)


@dataclass(eq=False)
class Sequence_:
    """Statements in order; before those in :attr:`cuts` a barrier is placed."""

    items: list[Node]
    cuts: set[int] = field(default_factory=set)


@dataclass(eq=False)
class Scope:
    """A let, an allocation, an attribute: what it evaluates, and its body."""

    stmt: S.Stmt
    enter: Leaf
    body: Sequence_


@dataclass(eq=False)
class Choice:
    """A condition with its branches; ``differs`` if threads may decide differently: then one branch runs behind the other."""

    stmt: S.IfThenElse
    enter: Leaf
    then: Sequence_
    other: Sequence_ | None
    differs: bool
    cut_between: bool = False


@dataclass(eq=False)
class Loop:
    """A loop; ``back`` tells whether a barrier is placed at the begin or the end of its body."""

    stmt: S.For | S.While
    enter: Leaf
    body: Sequence_
    step: Step
    depth: int
    """How many steps are around it."""
    extent: int | None
    differs: bool
    """Whether threads may run it differently often."""
    back: str | None = None
    variants: dict[str, Exposed] = field(default_factory=dict)
    """What is seen of it, by where the barrier is."""

    @property
    def runs(self) -> bool:
        """Whether its body surely runs."""
        return self.extent is not None and self.extent >= 1


Node = Leaf | Scope | Choice | Loop


@dataclass(eq=False)
class _Slot:
    """A place in a flat sequence: in whose cuts a barrier before it is noted."""

    owner: Sequence_
    index: int
    node: Leaf | Choice | Loop
    exposed: Exposed = Exposed()


class KernelTree:
    """A kernel as a tree, with what threads touch.

    Args:
        kernel: the statement that launches threads.
        kind: which threads meet.
        wanted: whether the memory behind an address variable is asked about.
    """

    def __init__(self, kernel: S.Stmt, kind: GroupKind, wanted: Callable[[Var], bool]) -> None:
        self.kind = kind
        self.group = ThreadGroup.of(kernel, kind)
        self.uniformity = Uniformity(self.group, kernel)
        self._finder = AccessFinder(self.group, self.uniformity, wanted)
        self._waits: list[Leaf] = []
        self._asynchronous: list[Access] = []
        self.root = self._sequence(kernel)
        for wait in self._waits:
            wait.completes = tuple([access.of_any_iteration() for access in self._asynchronous])

    def _leaf(self, stmt: S.Stmt, *parts: object) -> Leaf:
        leaf = Leaf(stmt, self._finder.of(stmt, *parts))
        self._asynchronous += [access for access in leaf.accesses if access.is_asynchronous]
        return leaf

    def _sequence(self, stmt: S.Stmt) -> Sequence_:
        return Sequence_([self._node(item) for item in S.stmt_list(stmt)])

    def _node(self, stmt: S.Stmt) -> Node:
        make = _MAKERS.get(stmt.__class__)
        if make is not None:
            return make(self, stmt)
        leaf = self._leaf(stmt)
        leaf.is_barrier = barrier_of(stmt, self.kind)
        if _waits(stmt):
            self._waits.append(leaf)
        return leaf

    def _let(self, stmt: S.LetStmt) -> Node:
        enter = Leaf(stmt) if self._finder.is_address(stmt.value) else self._leaf(stmt, stmt.value)
        with self._finder.bound(stmt.var, stmt.value, stmt):
            return Scope(stmt, enter, self._sequence(stmt.body))

    def _plain_scope(self, stmt: S.AttrStmt | S.Allocate | S.AllocateConst | S.DeclBuffer) -> Node:
        return Scope(stmt, Leaf(stmt), self._sequence(stmt.body))

    def _assert(self, stmt: S.AssertStmt) -> Node:
        enter = self._leaf(stmt, stmt.condition)
        with self._finder.under(stmt.condition):
            return Scope(stmt, enter, self._sequence(stmt.body))

    def _choice(self, stmt: S.IfThenElse) -> Node:
        enter = self._leaf(stmt, stmt.condition)
        with self._finder.under(stmt.condition):
            then = self._sequence(stmt.then_case)
        other = None
        if stmt.else_case is not None:
            with self._finder.under(stmt.condition, False):
                other = self._sequence(stmt.else_case)
        return Choice(stmt, enter, then, other, self.uniformity.varies(stmt.condition))

    def _for(self, stmt: S.For) -> Node:
        if stmt.kind == S.ForKind.VECTORIZED:  # all of its iterations at once
            return self._vectorized(stmt)
        enter = self._leaf(stmt, stmt.min, stmt.extent)
        step = self._step(stmt)
        depth = len(self._finder.path)
        with self._finder.below(step):
            body = self._sequence(stmt.body)
        extent = stmt.extent.value if isinstance(stmt.extent, E.IntImm) else None
        differs = self.uniformity.varies(stmt.extent)
        return Loop(stmt, enter, body, step, depth, extent, differs)

    def _step(self, stmt: S.For) -> Step:
        simplifier = self.group.simplifier
        begin, extent = self._finder.in_terms(stmt.min), self._finder.in_terms(stmt.extent)
        simplifier.bind_range(stmt.loop_var, begin, extent)
        is_box = isinstance(begin, E.IntImm) and isinstance(extent, E.IntImm)
        return Step(stmt.loop_var, stmt, self.uniformity.varies(stmt.min), is_box)

    def _vectorized(self, stmt: S.For) -> Node:
        with self._finder.below(self._step(stmt)):
            return self._leaf(stmt, stmt.min, stmt.extent, stmt.body)

    def _while(self, stmt: S.While) -> Node:
        depth = len(self._finder.path)
        with self._finder.below(step := Step(None, stmt, False)):
            condition = self._leaf(stmt, stmt.condition)
            body = self._sequence(stmt.body)
        return Loop(stmt, condition, body, step, depth, None, self.uniformity.varies(stmt.condition))


_MAKERS: dict[type, Callable[..., Node]] = {
    S.LetStmt: KernelTree._let,
    S.AttrStmt: KernelTree._plain_scope,
    S.Allocate: KernelTree._plain_scope,
    S.AllocateConst: KernelTree._plain_scope,
    S.DeclBuffer: KernelTree._plain_scope,
    S.AssertStmt: KernelTree._assert,
    S.IfThenElse: KernelTree._choice,
    S.For: KernelTree._for,
    S.While: KernelTree._while,
}


def _waits(stmt: S.Stmt) -> bool:
    """Whether a statement waits for copies that were begun."""
    call = stmt.value if isinstance(stmt, S.Evaluate) else None
    return getattr(getattr(call, "op", None), "name", "") == "tir.ptx_wait_group"


class BarrierPlan:
    """Places barriers in a kernel's tree.

    Args:
        tree: gets them.
        meet: which accesses meet; by default those of different threads that touch the same bytes.

    Raises:
        IRValueError: a barrier is wanted in a loop that threads run differently often.
    """

    def __init__(self, tree: KernelTree, meet: Pairs | None = None) -> None:
        self.placed = 0
        """How many barriers were placed."""
        self._meet = Conflicts(tree.group).between if meet is None else meet
        self._is_same = meet is None
        self._sequence(tree.root, None, None)

    # -- what is seen of statements -------------------------------------------------------------------------------------
    def _exposed(self, node: Leaf | Choice | Loop, inside: S.Stmt | None) -> Exposed:
        """What is seen of a statement; ``inside`` is the loop around it that threads run differently often."""
        if isinstance(node, Leaf):
            self._check_alone(node)
            found = node.exposed
            return Exposed(found.head, found.tail) if inside is not None else found
        return self._choice(node, inside) if isinstance(node, Choice) else self._loop(node, inside)

    def _choice(self, node: Choice, inside: S.Stmt | None) -> Exposed:
        enter = node.enter.accesses
        then = self._sequence(node.then, None, inside)
        other = Exposed() if node.other is None else self._sequence(node.other, None, inside)
        if not node.differs:
            rest = () if then.cut and other.cut else enter
            return Exposed(
                enter + then.head + other.head, rest + then.tail + other.tail, then.cut and other.cut
            )
        parts = [Exposed(enter, enter), then, other]
        pending = _Pending()
        pending.add(then.tail)
        if node.other is not None and self._any(pending, other.head):
            self._refuse_inside(inside, other.head)
            node.cut_between = True
            self.placed += 1
            parts.insert(2, Exposed(cut=True))
        return _joined(parts)

    def _loop(self, node: Loop, inside: S.Stmt | None) -> Exposed:
        inside = node.stmt if inside is None and node.differs else inside
        found = self._sequence(node.body, node, inside)
        if node.back is None:
            return found
        node.variants["end"] = self._around(node, Exposed(found.head, (), True))
        if isinstance(node.stmt, S.For):
            node.variants["begin"] = self._around(node, Exposed((), found.tail, True))
        return node.variants["end"]

    def _around(self, node: Loop, body: Exposed) -> Exposed:
        """What is seen of a loop by what is seen of its body."""
        enter = node.enter.accesses
        is_cut = body.cut and node.runs
        again = isinstance(node.stmt, S.While)  # which evaluates its condition last
        tail = body.tail if is_cut and not again else enter + body.tail
        return Exposed(enter + body.head, tail, is_cut)

    # -- sequences ----------------------------------------------------------------------------------------------------------
    def _sequence(self, sequence: Sequence_, loop: Loop | None, inside: S.Stmt | None) -> Exposed:
        """Places the barriers of a sequence, which may be the body of a loop."""
        slots = list(_slots(sequence))
        if loop is not None and isinstance(loop.stmt, S.While):
            slots.insert(0, _Slot(sequence, 0, loop.enter))
        for slot in slots:
            slot.exposed = self._exposed(slot.node, inside)
        cuts = self._straight(slots, inside)
        if loop is not None and self._is_carried(slots, cuts, loop):
            if inside is not None:
                self._refuse(inside, slots[0].node.stmt)
            cuts = self._around_the_loop(slots, cuts, loop)
            if 0 in cuts:
                loop.back = "end"
        for position in cuts:
            if position:
                slots[position].owner.cuts.add(slots[position].index)
        self.placed += len(cuts)
        parts: list[Exposed] = []
        for position, slot in enumerate(slots):
            if position in cuts and position:
                parts.append(Exposed(cut=True))
            parts.append(slot.exposed)
        found = _joined(parts)
        return found if loop is None or loop.back is not None else self._around(loop, found)

    def _straight(self, slots: Sequence[_Slot], inside: S.Stmt | None) -> list[int]:
        """Before which places a barrier is wanted, when they are passed once."""
        pending = _Pending()
        cuts: list[int] = []
        for position, slot in enumerate(slots):
            wanted = self._any(pending, slot.exposed.head)
            begin = slot.node.variants.get("begin") if isinstance(slot.node, Loop) else None
            if wanted and begin is not None and not self._any(pending, begin.head):
                assert isinstance(slot.node, Loop)
                slot.node.back, slot.exposed, wanted = "begin", begin, False
            if wanted:
                self._refuse_inside(inside, slot.exposed.head)
                cuts.append(position)
                pending.clear()
            if slot.exposed.cut:
                pending.clear()
            pending.add(slot.exposed.tail)
        return cuts

    def _is_carried(self, slots: Sequence[_Slot], cuts: Iterable[int], loop: Loop) -> bool:
        """Whether an iteration meets what an earlier one did, with no barrier between."""
        extent = loop.extent
        if extent is not None and extent <= 1:
            return False
        known = set(cuts)
        pending = _Pending()
        is_cut = False
        for position, slot in enumerate(slots):
            if position in known or slot.exposed.cut:
                pending.clear()
                is_cut = True
            pending.add(slot.exposed.tail)
        for position, slot in enumerate(slots):
            if position in known:
                break
            if self._any(pending, slot.exposed.head, loop.depth, Apart.ONE):
                return True
            if slot.exposed.cut:
                break
        if is_cut or (extent is not None and extent <= 2):
            return False
        heads = [access for slot in slots for access in slot.exposed.head]
        return self._any(pending, heads, loop.depth, Apart.MORE)

    def _around_the_loop(self, slots: Sequence[_Slot], cuts: list[int], loop: Loop) -> list[int]:
        """The barriers of a loop's body, of which one is at its end, or as many as are wanted without it, elsewhere."""
        for start in range(cuts[0] - 1, 0, -1) if cuts else ():
            found = self._circular(slots, start, loop)
            if len(found) <= len(cuts):
                return sorted(found)
        return [0, *cuts]

    def _circular(self, slots: Sequence[_Slot], start: int, loop: Loop) -> list[int]:
        """The barriers of a loop's body, of which one is at this place."""
        cuts = [start]
        pending, earlier = _Pending(), _Pending()
        for position in [*range(start, len(slots)), *range(start)]:
            slot = slots[position]
            if not position:  # the next iteration begins
                pending, earlier = earlier, pending
            head = slot.exposed.head
            if self._any(pending, head) or self._any(earlier, head, loop.depth, Apart.ONE):
                cuts.append(position)
                pending.clear()
                earlier.clear()
            if slot.exposed.cut:
                pending.clear()
                earlier.clear()
            pending.add(slot.exposed.tail)
        return cuts

    # -- pairs ----------------------------------------------------------------------------------------------------------------
    def _any(
        self,
        before: _Pending,
        behind: Sequence[Access],
        depth: int | None = None,
        apart: Apart = Apart.NONE,
    ) -> bool:
        """Whether some access meets some other one."""
        return any(
            self._meet(first, second, common_steps(first, second) if depth is None else depth, apart)
            is not Meets.NEVER
            for second in behind
            for first in before.rivals(second, self._is_same)
        )

    def _check_alone(self, leaf: Leaf) -> None:
        """Raise for a statement that surely reads what another thread writes in it: nothing can stand between."""
        reads = [access for access in leaf.accesses if access.touch is Touch.READ]
        writes = [access for access in leaf.accesses if access.touch is Touch.WRITE]
        for read in reads:
            for write in writes:
                if self._meet(read, write, common_steps(read, write), Apart.NONE) is Meets.SURELY:
                    raise IRValueError(
                        f"{spelled(leaf.stmt)!r} reads what other threads write in the same statement, where no barrier can stand;"
                        " let each thread keep what it reads, and write behind a barrier"
                    )

    def _refuse_inside(self, inside: S.Stmt | None, accesses: Sequence[Access]) -> None:
        if inside is not None:
            self._refuse(inside, accesses[0].stmt)

    def _refuse(self, inside: S.Stmt, stmt: S.Stmt) -> None:
        name = inside.loop_var.name if isinstance(inside, S.For) else "while"
        raise IRValueError(
            f"a barrier is wanted before {spelled(stmt)!r}, in loop {name}, which threads run differently often; "
            "let it run as often in all of them, with a condition around what only some do"
        )


def _slots(sequence: Sequence_, place: tuple[Sequence_, int] | None = None) -> Iterator[_Slot]:
    """The places of a sequence, those in scopes among them in a row; what comes first in a scope can have its barrier before that."""
    for index, item in enumerate(sequence.items):
        owner, at = (sequence, index) if place is None or index else place
        if not isinstance(item, Scope):
            yield _Slot(owner, at, item)
            continue
        if item.enter.accesses:
            yield _Slot(owner, at, item.enter)
            yield from _slots(item.body)
        else:
            yield from _slots(item.body, (owner, at))


def _joined(parts: Sequence[Exposed]) -> Exposed:
    """What is seen of statements in a row."""
    head: tuple[Access, ...] = ()
    tail: tuple[Access, ...] = ()
    cut = False
    for part in parts:
        if not cut:
            head += part.head
        tail = part.tail if part.cut else tail + part.tail
        cut |= part.cut
    return Exposed(_distinct(head), _distinct(tail), cut)


def _distinct(accesses: tuple[Access, ...]) -> tuple[Access, ...]:
    """The accesses, of those with one content the first."""
    found: dict[int, Access] = {}
    for access in accesses:
        found.setdefault(access.content, access)
    return tuple(found.values())


class _Pending:
    """Accesses that no barrier is behind yet, each once; two that read never meet."""

    def __init__(self) -> None:
        self._reads: dict[Var, dict[int, Access]] = {}
        self._others: dict[Var, dict[int, Access]] = {}

    def add(self, accesses: Iterable[Access]) -> None:
        """What happens next."""
        for access in accesses:
            kind = self._reads if access.touch is Touch.READ else self._others
            kind.setdefault(access.data, {}).setdefault(access.content, access)

    def clear(self) -> None:
        """A barrier."""
        self._reads, self._others = {}, {}

    def rivals(self, access: Access, is_same: bool) -> Iterator[Access]:
        """Those that may meet an access: of the same memory, or of any."""
        for kind in (self._others,) if access.touch is Touch.READ else (self._others, self._reads):
            for found in (kind.get(access.data, {}),) if is_same else kind.values():
                yield from found.values()
