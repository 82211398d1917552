"""What blocks state to read and write: accesses of other elements are refused.

Regions are compared with the numbers of the indices. The bounds of a region are computed once for each time that its block runs, where
it begins if they read memory, else where the first access asks for them. Accesses through addresses are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...node import post_order_visit
from ...structural import structural_equal
from .. import expr as E
from .. import stmt as S
from ..buffer import Buffer
from .empty_reductions import depends
from .error import UndefinedError, element, refusal

if TYPE_CHECKING:
    from .expressions import Expressions

Env = dict[Any, Any]
Numbers = Sequence[int]
Box = list[tuple[int, int]]
Inside = Callable[[Env, Numbers], bool]
Check = Callable[[Env, Numbers], None]

_EVERYWHERE = (-(1 << 63), 1 << 63)


class StatedBlock:
    """A block around what is translated, with what it states.

    Attributes:
        is_asked: whether some access must be compared with it when the program runs.
    """

    def __init__(self, block: S.Block) -> None:
        self.block = block
        self.is_asked = False
        self.bounds: dict[S.BufferRegion, Callable[[Env], Box]] = {}
        """What computes the ends of the regions that are asked for."""
        self.changing: list[S.BufferRegion] = []
        """Those of which the block may change the ends."""

    def regions(self, is_write: bool) -> Sequence[S.BufferRegion]:
        """What it states to write, or to read."""
        return self.block.writes if is_write else self.block.reads

    def enter(self, env: Env) -> None:
        """The block begins to run: bounds of its regions are unknown, but for those that it may change."""
        known: dict[S.BufferRegion, Box | UndefinedError] = {}
        env[self] = known
        for region in self.changing:
            try:
                known[region] = self.bounds[region](env)
            except UndefinedError as error:  # matters only if there is an access
                known[region] = error

    def entry_over_nothing(self, absent: set[E.Var]) -> Callable[[Env], None]:
        """What begins the init of a reduction over nothing: a region that mentions its variables, which have no values there,
        says nothing of where the init reads and writes.
        """

        def enter(env: Env) -> None:
            env[self] = {
                region: [_EVERYWHERE] * len(region.region)
                for region in self.bounds
                if any(depends(end, absent) for end in _ends(region))
            }

        return enter


class Regions:
    """Compares accesses with the regions that the blocks around them state."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._blocks: list[StatedBlock] = []
        self._depth = 0
        """How many blocks are around, the root included."""
        self._sources: dict[Buffer, S.MatchBufferRegion] = {}
        self._addresses: set[E.Var] = set()
        self._homes: dict[Any, int] = {}
        """How many blocks are around where memory, or a buffer over an address, begins: those state nothing of it to the outside."""

    # -- what is around --------------------------------------------------------------------------------------------
    @contextmanager
    def of(self, stated: StatedBlock) -> Iterator[None]:
        """What is translated inside stands in a block; the root, which has no variables and states nothing, promises nothing."""
        block = stated.block
        promises = self._depth > 0 or bool(block.iter_vars or block.reads or block.writes)
        self._depth += 1
        if promises:
            self._blocks.append(stated)
        yield
        if promises:
            self._blocks.pop()
        self._depth -= 1

    def begins(self, data: E.Var) -> None:
        """Memory begins here: a parameter, or what is allocated."""
        self._homes[data] = len(self._blocks)

    def is_address(self, var: E.Var) -> None:
        """A variable is an address in memory that is not known."""
        self._addresses.add(var)

    def declared(self, buffer: Buffer) -> None:
        """A buffer is declared: over memory that is known it is another name of that; what lies at an address is not looked at outside."""
        if buffer.data in self._addresses:
            self._homes[buffer] = len(self._blocks)
        elif buffer.data not in self._homes:
            self.begins(buffer.data)

    def views(self, match: S.MatchBufferRegion) -> None:
        """A buffer is a view of a region."""
        self._sources[match.buffer] = match

    # -- checks ----------------------------------------------------------------------------------------------------
    def check(self, buffer: Buffer, indices: Sequence[E.PrimExpr], is_write: bool) -> Check | None:
        """What raises for an access that a block around does not state; None where each surely does."""
        if not self._blocks:
            return None
        names = self._names(buffer)
        around = self._blocks[self._home(names[-1][0]) :]
        checks: list[Check] = []
        is_initialized = False
        for block in reversed(around):
            regions = list(block.regions(is_write))
            if not is_write:
                # a block with an init reads what it wrote itself, which neither it nor the blocks around it state
                own = [name for name, _ in names]
                is_initialized |= block.block.init is not None and any(
                    item.buffer in own for item in block.block.writes
                )
                regions += block.block.writes if is_initialized else ()
            found = self._check_of(block, names, regions, indices, is_write)
            if found is not None:
                checks.append(found)
        if len(checks) < 2:
            return checks[0] if checks else None

        def check(env: Env, numbers: Numbers) -> None:
            for item in checks:
                item(env, numbers)

        return check

    def _names(self, buffer: Buffer) -> list[tuple[Buffer, list[S.MatchBufferRegion]]]:
        """The buffer and those that it is a view of, with the matches that lead there."""
        names: list[tuple[Buffer, list[S.MatchBufferRegion]]] = [(buffer, [])]
        while (match := self._sources.get(names[-1][0])) is not None:
            names.append((match.source.buffer, [*names[-1][1], match]))
        return names

    def _home(self, buffer: Buffer) -> int:
        found = self._homes.get(buffer)
        return self._homes.get(buffer.data, 0) if found is None else found

    def _check_of(
        self,
        block: StatedBlock,
        names: Sequence[tuple[Buffer, list[S.MatchBufferRegion]]],
        regions: Sequence[S.BufferRegion],
        indices: Sequence[E.PrimExpr],
        is_write: bool,
    ) -> Check | None:
        """The comparison with the regions of one block."""
        accessed = names[0][0]
        if any(item.buffer is accessed and _is_surely_in(indices, item) for item in regions):
            return None
        tests: list[Inside] = []
        for name, matches in names:
            stated = [item for item in regions if item.buffer is name]
            if not matches and any(_is_whole(item) for item in stated):
                return None
            tests += [self._inside(block, item, matches) for item in stated]
        memory = {name.data for name, _ in names}
        if not tests and any(item.buffer.data in memory for item in regions):
            return None  # the same memory by another name
        block.is_asked = True

        def check(env: Env, numbers: Numbers) -> None:
            for test in tests:
                if test(env, numbers):
                    return
            verb, statement = ("writes", "T.writes") if is_write else ("reads", "T.reads")
            raise refusal(
                "region",
                f"block {block.block.name_hint} {verb} {element(accessed.name, numbers)}, which is not in what it states,"
                f" {statement}({', '.join(map(_told, block.regions(is_write)))})",
            )

        return check

    def _inside(
        self, block: StatedBlock, region: S.BufferRegion, matches: Sequence[S.MatchBufferRegion]
    ) -> Inside:
        """Whether the element at indices of a view, looked at as one of the source, is in a region."""
        bounds = block.bounds.get(region)
        if bounds is None:
            bounds = block.bounds[region] = self._bounds(region)
            if not all(map(_is_constant, _ends(region))):
                block.changing.append(region)

        def inside(env: Env, numbers: Numbers) -> bool:
            known = env[block]
            box = known.get(region)
            if box is None:
                box = known[region] = bounds(env)
            if isinstance(box, UndefinedError):
                raise box
            for number, (low, high) in zip(numbers, box):
                if not low <= number < high:
                    return False
            return True

        if not matches:
            return inside

        def inside_of_source(env: Env, numbers: Numbers) -> bool:
            for match in matches:
                first = env[match]
                dropped = len(first) - len(numbers)
                numbers = [*first[:dropped], *(a + b for a, b in zip(first[dropped:], numbers))]
            return inside(env, numbers)

        return inside_of_source

    def _bounds(self, region: S.BufferRegion) -> Callable[[Env], Box]:
        """The ends of a region; to compute them is no access of the block."""
        blocks, self._blocks = self._blocks, []
        with self._expressions.apart():
            ends = [
                (self._expressions.end_of_region(item.min), self._expressions.end_of_region(item.extent))
                for item in region.region
            ]
        self._blocks = blocks

        def bounds(env: Env) -> Box:
            lows = [low(env) for low, _ in ends]
            return [(low, low + extent(env)) for low, (_, extent) in zip(lows, ends)]

        return bounds


def _is_surely_in(indices: Sequence[E.PrimExpr], region: S.BufferRegion) -> bool:
    """Whether a region begins at the very indices of an access, which are the same number wherever the block evaluates them."""
    return all(
        structural_equal(index, item.min)
        and isinstance(item.extent, E.IntImm)
        and item.extent.value > 0
        and _is_constant(index)
        for index, item in zip(indices, region.region)
    )


def _ends(region: S.BufferRegion) -> list[E.PrimExpr]:
    return [end for item in region.region for end in (item.min, item.extent)]


def _is_constant(index: E.PrimExpr) -> bool:
    """Whether nothing that a block does changes an expression: it has no loads and no calls."""
    found: list[Any] = []
    post_order_visit(
        index, lambda node: found.append(node) if isinstance(node, E.BufferLoad | E.Call) else None
    )
    return not found


def _is_whole(region: S.BufferRegion) -> bool:
    """Whether a region is the whole buffer, as it is written."""
    return all(
        isinstance(item.min, E.IntImm) and item.min.value == 0 and structural_equal(item.extent, extent)
        for item, extent in zip(region.region, region.buffer.shape)
    )


def _told(region: S.BufferRegion) -> str:
    ends = [
        f"{item.min}"
        if isinstance(item.extent, E.IntImm) and item.extent.value == 1
        else f"{item.min}:{item.min + item.extent}"
        for item in region.region
    ]
    return f"{region.buffer.name}[{', '.join(ends)}]"
