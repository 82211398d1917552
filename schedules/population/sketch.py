"""Sketches: traces whose sampling decisions are left open, replayed once on a schedule whose extents are expressions.

Rules of a design space run on a :class:`SketchSchedule`. Its sampling instructions return decision variables instead of
numbers, so one run of the rules describes all candidates that share the structure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from ir import IRModule, structural_equal, tir
from ir.node import Node
from ir.tir import IndexMap, PrimFunc
from ir.tir.evaluate import evaluate
from ir.tir.stmt_functor import variables_in

from ..bounds import is_open
from ..error import ScheduleError
from ..instruction import Instruction, InstructionKind
from ..primitive.sampling import compute_locations, partitioned_tiles
from ..random_variable import BlockRV, DecisionVar, ExprRV, LoopRV
from ..schedule import Schedule
from ..trace import Trace
from .choices import Choices
from .constraint import Constraint, Sampler
from .decision import CategoricalDecision, Decision, TileDecision, variables_of
from .extraction import Extraction
from .skeleton import Skeleton

_ATTEMPTS = 64
"""So many times as many rows as are wanted are drawn before invalid ones are repaired."""
_NEAREST = 3
"""Choices of each decision that are tried when a candidate of another workload is adapted."""


class WouldChange(BaseException):
    """A step would change a schedule that somebody only looks at.

    Not an error: it must get past a user's ``except Exception``.
    """


class SketchSchedule(Schedule):
    """A schedule with open decisions."""

    def __init__(self, mod: PrimFunc | IRModule, *, seed: int | None = None) -> None:
        super().__init__(mod, seed=seed, error_render_level="none")
        self.columns: list[tuple[Instruction, Decision]] = []
        self.constraints: list[Constraint] = []
        self.choices: Choices | None = None
        """Who makes choices of structure; without anybody all decisions stay open."""
        self._is_looked_at = False

    def copy(self) -> SketchSchedule:
        new = super().copy()
        assert isinstance(new, SketchSchedule)
        new._is_looked_at = False
        new.columns = list(self.columns)
        new.constraints = list(self.constraints)
        return new

    @contextmanager
    def looked_at(self) -> Iterator[None]:
        """While somebody only looks: random variables that they get are forgotten in the end.

        Raises:
            WouldChange: at the first step that changes something. Copies may be changed.
        """
        assert self.trace is not None
        n_steps, n_variables = len(self.trace.insts), len(self._table)
        self._is_looked_at = True
        try:
            yield
        finally:
            self._is_looked_at = False
            del self.trace.insts[n_steps:]
            while len(self._table) > n_variables:
                self._table.popitem()

    def _begin_change(self) -> None:
        if self._is_looked_at:
            raise WouldChange

    def sample_perfect_tile(
        self, loop: LoopRV, n: int, max_innermost_factor: int = 16, decision: Sequence[int] | None = None
    ) -> list[ExprRV]:
        """Factors left open: decision variables, one per factor; a given decision stays what it is."""
        self._begin_change()
        tile = None
        if decision is None:
            name, extent = self._tiled("sample_perfect_tile", loop)
            tile = TileDecision.create(name, extent, n, max_innermost_factor)
            number = self._number_of(tile)
            decision = None if number is None else tile.trace_decision(number)
        if tile is None or decision is not None:
            return super().sample_perfect_tile(loop, n, max_innermost_factor, decision)
        return self._open("SamplePerfectTile", [loop], [n, max_innermost_factor], tile)

    def sample_partitioned_tile(
        self,
        loop: LoopRV,
        n: int,
        partition_pos: int = 0,
        innerpart_factor: int = 1,
        decision: Sequence[int] | None = None,
    ) -> list[ExprRV]:
        """Factors left open: decision variables, one per factor; a given decision stays what it is."""
        self._begin_change()
        tile = None
        if decision is None:
            name, extent = self._tiled("sample_partitioned_tile", loop)
            table = partitioned_tiles(extent, n, partition_pos, innerpart_factor)
            tile = TileDecision.of_table(name, extent, table)
            number = self._number_of(tile)
            decision = None if number is None else tile.trace_decision(number)
        if tile is None or decision is not None:
            return super().sample_partitioned_tile(loop, n, partition_pos, innerpart_factor, decision)
        return self._open("SamplePartitionedTile", [loop], [n, partition_pos, innerpart_factor], tile)

    def sample_categorical(
        self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
    ) -> ExprRV:
        """A choice left open: a decision variable; a given decision stays what it is."""
        self._begin_change()
        choice = None
        if decision is None:
            choice = CategoricalDecision.create(f"choice{len(self.columns)}", candidates, probs)
            decision = self._number_of(choice)
        if choice is None or decision is not None:
            return super().sample_categorical(candidates, probs, decision)
        return self._open("SampleCategorical", [], [list(candidates), list(probs)], choice)[0]

    def sample_compute_location(self, block: BlockRV | str, decision: int | None = None) -> LoopRV:
        """A choice of structure where somebody makes them, a random place otherwise; a given decision stays what it is."""
        self._begin_change()
        if decision is None and self.choices is not None:
            block = self.get_block(block) if isinstance(block, str) else block
            node = self._block(block)
            places = list(compute_locations(node))
            location = CategoricalDecision.create(node.name, places, [1.0] * len(places))
            numbers = {place: number for number, place in enumerate(places)}
            chosen = self.choices.number_of(location, self._position, numbers.get, is_structural=True)
            assert chosen is not None
            decision = places[chosen]
        return super().sample_compute_location(block, decision)

    def get(self, rand_var_or_sref: Any) -> Any:
        """As in a schedule. The number that was sampled for a random variable is only known where it is a choice of structure."""
        value = super().get(rand_var_or_sref)
        if self.choices is not None and isinstance(rand_var_or_sref, tir.PrimExpr):
            self.choices.read(value)
        return value

    def _tiled(self, method: str, loop: LoopRV) -> tuple[str, int]:
        """Name and extent of a loop."""
        node = self._loop(loop)
        if not isinstance(node.extent, tir.IntImm):
            raise ScheduleError(
                f"{method}: loop {node.var.name!r} has extent {node.extent}, it must be constant"
            )
        return node.var.name, node.extent.value

    def _number_of(self, decision: Decision) -> int | None:
        """Of a decision that is a choice of structure; None where it stays open."""
        if self.choices is None:
            return None
        return self.choices.number_of(decision, self._position, decision.number_of)

    @property
    def _position(self) -> int:
        """Of the next instruction in the trace."""
        assert self.trace is not None
        return len(self.trace.insts)

    def _open(self, kind: str, inputs: list[Any], attrs: list[Any], decision: Decision) -> list[ExprRV]:
        variables = variables_of(decision)
        rvs = [ExprRV() for _ in variables]
        self._table.update(zip(rvs, variables, strict=True))
        inst = Instruction(InstructionKind.get(kind), tuple(inputs), tuple(attrs), tuple(rvs))
        assert self.trace is not None
        self.trace.append(inst)
        self.columns.append((inst, decision))
        return rvs

    def restrict_tile(self, rvs: Sequence[ExprRV], keep: Callable[[np.ndarray], np.ndarray]) -> None:
        self._begin_change()
        wanted = self._table[rvs[0]]
        for place, (inst, decision) in enumerate(self.columns):
            if isinstance(decision, TileDecision) and decision.variables[0] is wanted:
                self.columns[place] = (inst, decision.restricted(keep))  # copies of the schedule keep theirs

    def constrain(self, rvs: Sequence[ExprRV], allowed: Callable[..., np.ndarray]) -> None:
        self.constrain_numbers([self._table[rv] for rv in rvs], allowed)

    def constrain_numbers(self, numbers: Sequence[tir.PrimExpr], allowed: Callable[..., np.ndarray]) -> None:
        self._begin_change()
        used = {var for number in numbers for var in variables_in(number) if isinstance(var, DecisionVar)}
        self.constraints.append(
            Constraint(
                frozenset(used),
                lambda values: allowed(*[np.asarray(evaluate(number, values)) for number in numbers]),
            )
        )

    def largest_of(self, rv: ExprRV) -> int:
        variable = self._table[rv]
        for _, decision in self.columns:
            if any(variable is item for item in variables_of(decision)):
                return int(decision.values(np.arange(decision.size))[variable].max())
        return super().largest_of(rv)

    def has_candidates(self) -> bool:
        sampler = Sampler([decision for _, decision in self.columns], self.constraints)
        return len(sampler.sample(1, np.random.default_rng(0), _ATTEMPTS)) > 0

    def _recorded_map(self, index_map: IndexMap) -> IndexMap:
        return index_map

    def _symbolic_shape(self, index_map: IndexMap, shape: Sequence[Any]) -> list[Any] | None:
        """Extents of ``v // d``, ``v % d`` and ``v`` where d is an open decision.

        It divides v's extent if it belongs to a tile of that; a tile of a padded extent leaves a part of the last panel over. None for
        maps of known numbers, which need no other way.
        """
        if not any(map(is_open, (*index_map.final_indices, *shape))):
            return None
        extents: dict[Any, Any] = dict(zip(index_map.initial_indices, shape, strict=True))
        result: list[Any] = []
        for item in index_map.final_indices:
            if isinstance(item, tir.Var):
                result.append(extents[item])
            elif isinstance(item, tir.FloorDiv) and item.a in extents:
                extent = tir.convert(extents[item.a])
                divides = self._divides(item.b, extent)
                result.append(tir.floordiv(extent if divides else extent + (item.b - 1), item.b))
            elif isinstance(item, tir.FloorMod) and item.a in extents:
                extent = tir.convert(extents[item.a])
                result.append(item.b if self._divides(item.b, extent) else tir.min(extent, item.b))
            else:
                return None
        return result

    def _divides(self, factor: Any, extent: Any) -> bool:
        """Whether a factor is one of an extent that divides this one."""
        tiled = getattr(factor, "tiled", None)
        return tiled is None or not isinstance(extent, tir.IntImm) or extent.value % tiled == 0


class Sketch:
    """One structure of a design space: a trace with open decisions, its columns, and its skeleton.

    Attributes:
        trace: the instructions; those in ``decisions`` have no decision.
        decisions: the columns of the matrix, in order of the trace.
        name: which rules made it.
    """

    def __init__(self, schedule: SketchSchedule, name: str = "") -> None:
        assert schedule.trace is not None
        self.name = name
        self.trace = schedule.trace
        self._instructions = [inst for inst, _ in schedule.columns]
        self.decisions = [decision for _, decision in schedule.columns]
        self._constraints = list(schedule.constraints)
        self._sampler = Sampler(self.decisions, self._constraints)
        func = schedule.func_working_on
        assert func is not None
        self._extraction = Extraction(schedule._root(func))

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """What the steps of a candidate's trace do, as :func:`kinds_of_steps` says: other traces are none of this sketch."""
        return kinds_of_steps(self.trace)

    @cached_property
    def _steps(self) -> list[Instruction]:
        return _steps_of(self.trace)

    @property
    def n_columns(self) -> int:
        """Number of decisions."""
        return len(self.decisions)

    def columns_of(self, instructions: Collection[Instruction]) -> list[int]:
        """The columns with more than one choice that the decisions of some instructions of the trace are."""
        wanted = set(map(id, instructions))
        return [
            column
            for column, (inst, decision) in enumerate(zip(self._instructions, self.decisions, strict=True))
            if id(inst) in wanted and decision.size > 1
        ]

    def size(self) -> int:
        """Number of candidates, constraints aside."""
        total = 1
        for decision in self.decisions:
            total *= decision.size
        return total

    def values(self, matrix: np.ndarray) -> dict[Any, np.ndarray]:
        """Decision values [N] of a matrix int64 [N, n_columns]."""
        values: dict[Any, np.ndarray] = {}
        for position, decision in enumerate(self.decisions):
            values.update(decision.values(matrix[:, position]))
        return values

    def valid(self, matrix: np.ndarray) -> np.ndarray:
        """Which rows satisfy the sketch's constraints: bool [N]."""
        return self.violations(matrix) == 0

    def violations(self, matrix: np.ndarray) -> np.ndarray:
        """How many of the sketch's constraints each row breaks: int64 [N]."""
        broken = np.zeros(len(matrix), dtype=np.int64)
        if self._constraints:
            values = self.values(matrix)
            for constraint in self._constraints:
                broken += constraint.broken(values, len(matrix))
        return broken

    def all_rows(self, limit: int) -> np.ndarray | None:
        """All valid rows int64 [N, n_columns], or None where there are more than ``limit`` rows, invalid ones included."""
        if self.size() > limit:
            return None
        grids = np.meshgrid(*[np.arange(decision.size) for decision in self.decisions], indexing="ij")
        rows = np.stack([grid.ravel() for grid in grids], axis=1) if grids else np.zeros((1, 0))
        rows = rows.astype(np.int64)
        return rows[self.valid(rows)]

    def coordinates(self, matrix: np.ndarray) -> np.ndarray:
        """Where rows lie in decision space, float64 [N, coordinates]: Euclidean distances count doublings of tile factors and
        other choices that differ."""
        parts = [
            decision.coordinates()[matrix[:, position]] for position, decision in enumerate(self.decisions)
        ]
        return np.concatenate(parts, axis=1) if parts else np.zeros((len(matrix), 0))

    def neighbours(self, row: np.ndarray) -> np.ndarray:
        """All valid rows that differ in one decision, a tile by one prime factor moved: int64 [N, n_columns]."""
        found = [row[None][:0]]
        for position, decision in enumerate(self.decisions):
            numbers = decision.near(int(row[position]))
            changed = np.repeat(row[None], len(numbers), axis=0)
            changed[:, position] = numbers
            found.append(changed)
        rows = np.concatenate(found)
        return rows[self.valid(rows)]

    def skeleton(self, matrix: np.ndarray) -> Skeleton:
        """Loop extents and accesses of all rows at once."""
        return self._extraction.evaluate(self.values(matrix), len(matrix))

    def sample(self, count: int, generator: np.random.Generator, attempts: int = _ATTEMPTS) -> np.ndarray:
        """Up to ``count`` random valid rows (fewer when valid ones are rare)."""
        return self._sampler.sample(count, generator, attempts)

    def mutate(self, matrix: np.ndarray, generator: np.random.Generator, rate: float = 0.3) -> np.ndarray:
        """Each row with at least one decision replaced: by a neighbour, or now and then by any other."""
        if not self.decisions:
            return matrix
        size = len(matrix)
        changes = generator.random((size, self.n_columns)) < rate
        changes[np.arange(size), generator.integers(self.n_columns, size=size)] = True
        result = matrix.copy()
        for position, decision in enumerate(self.decisions):
            column = matrix[:, position]
            near = decision.neighbours(column, generator)
            anywhere = decision.draw(size, generator)
            new = np.where(generator.random(size) < 0.7, near, anywhere)
            result[:, position] = np.where(changes[:, position], new, column)
        return result

    def crossover(self, first: np.ndarray, second: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Rows that take each decision from one of two parents."""
        return np.where(generator.random(first.shape) < 0.5, first, second)

    def trace_of(self, row: np.ndarray) -> Trace:
        """The trace with the decisions of one row filled in."""
        decisions = dict(self.trace.decisions)
        for inst, decision, number in zip(self._instructions, self.decisions, row, strict=True):
            decisions[inst] = decision.trace_decision(int(number))
        return Trace(self.trace.insts, decisions)

    def row_of(self, trace: Trace) -> np.ndarray | None:
        """The row of a stored trace of this sketch, or None when structure or decisions differ."""
        theirs = _steps_of(trace)
        if not _same_steps(theirs, self._steps):
            return None
        stored: dict[int, Any] = {}
        for ours, their in zip(self._steps, theirs, strict=True):
            if ours.kind.takes_decision:
                made, settled = trace.get_decision(their), self.trace.get_decision(ours)
                if settled is not None and not _same_decision(made, settled):
                    return None
                stored[id(ours)] = made
        return self.row_in(lambda inst: stored.get(id(inst)))

    def row_in(self, decided: Callable[[Instruction], Any]) -> np.ndarray | None:
        """The row int64 [n_columns] of what was decided for each sampling instruction of the trace; where that is None any choice will
        do. None where it is no choice of a column."""
        row = np.zeros(self.n_columns, dtype=np.int64)
        for position, (inst, decision) in enumerate(zip(self._instructions, self.decisions, strict=True)):
            made = decided(inst)
            number = 0 if made is None else decision.number_of(made)
            if number is None:
                return None
            row[position] = number
        return row

    def adapted_row(self, trace: Trace) -> np.ndarray | None:
        """The valid row that comes closest to a trace of the same steps on a workload of other extents.

        Of each decision the few nearest choices are tried together; the row in which they are nearest is taken.

        Returns:
            int64 [n_columns]; None where the steps differ, a tile has another number of factors, or no row tried is valid.
        """
        theirs = _steps_of(trace)
        if not _same_steps(theirs, self._steps, same_numbers=False):
            return None
        counterpart = dict(zip(map(id, self._steps), theirs, strict=True))
        for ours in self._steps:
            settled = self.trace.get_decision(ours)
            if isinstance(settled, int) and settled != trace.get_decision(counterpart[id(ours)]):
                return None  # another place, or another alternative
        choices = []
        for inst, decision in zip(self._instructions, self.decisions, strict=True):
            other = counterpart.get(id(inst))
            if other is None:
                choices.append(np.zeros(1, dtype=np.int64))  # its outputs are unused, any value will do
            else:
                choices.append(decision.nearest(trace.get_decision(other), other.attrs, _NEAREST))
        if not choices:
            return np.zeros(0, dtype=np.int64)
        ranks = np.stack(np.meshgrid(*[np.arange(len(item)) for item in choices]), axis=-1)
        ranks = ranks.reshape(-1, len(choices))
        ranks = ranks[np.argsort(ranks.sum(axis=1), kind="stable")]
        rows = np.stack([item[ranks[:, place]] for place, item in enumerate(choices)], axis=1)
        rows = rows[self.valid(rows)]
        return rows[0] if len(rows) else None

    def materialize(self, mod: PrimFunc | IRModule, row: np.ndarray) -> Schedule:
        """The real schedule of one row, before postprocessing."""
        sch = Schedule(mod, error_render_level="none", seed=0)
        self.trace_of(row).apply_to_schedule(sch, remove_postproc=True)
        return sch


def kinds_of_steps(trace: Trace) -> tuple[str, ...]:
    """The kinds of a trace's instructions, without postprocessing and what nothing uses."""
    return tuple(inst.kind.name for inst in _steps_of(trace))


def _steps_of(trace: Trace) -> list[Instruction]:
    """What a trace does before postprocessing."""
    return [inst for inst in trace.simplified(True).insts if not inst.kind.is_postproc]


def _names_samples(item: IndexMap | tir.PrimExpr) -> bool:
    return any(isinstance(var, ExprRV) for var in variables_in(item))


def _same_decision(one: Any, other: Any) -> bool:
    """Whether two traces decided the same: a number, or the factors of a tile."""
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))


def _same_steps(
    first: Sequence[Instruction], second: Sequence[Instruction], *, same_numbers: bool = True
) -> bool:
    """Whether two traces do the same to the same blocks and loops; decisions may differ, and where the second names what it sampled, the
    layouts and numbers that follow from them.

    With ``same_numbers`` false all numbers may, such as limits that follow from an extent.
    """
    if len(first) != len(second):
        return False
    counterpart: dict[Any, Any] = {}

    def same(one: Any, other: Any) -> bool:
        if isinstance(one, (BlockRV, LoopRV, ExprRV)):
            return counterpart.get(one) is other
        if isinstance(one, (list, tuple)):
            return isinstance(other, (list, tuple)) and all_same(one, other)
        if not same_numbers and isinstance(one, (int, float)) and isinstance(other, (int, float)):
            return True
        if isinstance(other, IndexMap | tir.PrimExpr) and (not same_numbers or _names_samples(other)):
            return True
        one, other = (getattr(item, "value", item) for item in (one, other))  # JSON has numbers for constants
        if isinstance(one, Node) and isinstance(other, Node):
            return structural_equal(one, other, map_free_vars=True)
        return bool(one == other)

    def all_same(ones: Sequence[Any], others: Sequence[Any]) -> bool:
        if not same_numbers and all(isinstance(item, (int, float)) for item in [*ones, *others]):
            return True
        return len(ones) == len(others) and all(map(same, ones, others))

    for one, other in zip(first, second, strict=True):
        if one.kind is not other.kind:
            return False
        if not all_same(one.inputs, other.inputs) or not all_same(one.attrs, other.attrs):
            return False
        counterpart.update(zip(one.outputs, other.outputs, strict=True))
    return True
