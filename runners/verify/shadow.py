"""The program that computes the reference: each float in float64, and beside it how far a right kernel may be from it.

Every buffer of floats becomes one of float64. A buffer gets a second one for its *error* where errors reach it that are not relative
to its values, and a *mass* (the sum of the magnitudes of all finite terms) where it is summed up: whatever the order of a
sum, its error is at most a multiple of the mass (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).
The structure of the program stays as it is: loops, blocks, and conditions are those of the unscheduled program.

    C[i, j] = C[i, j] + A[i, k] * B[k, j]                                              float32
    C_wide[i, j] = C_wide[i, j] + f64(A[i, k]) * f64(B[k, j])                          becomes this
    C_mass[i, j] = C_mass[i, j] + fabs(f64(A[i, k]) * f64(B[k, j]))                    and this beside it
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ir import IRModule
from ir import dtype as dt
from ir.node import Visitor
from ir.tir.analysis.block_access_region import stating_its_accesses
from ir.tir.buffer import Buffer, decl_buffer
from ir.tir.expr import GT, BufferLoad, FloatImm, IntImm, Not, PrimExpr, Select, Var
from ir.tir.function import PrimFunc
from ir.tir.operators import const
from ir.tir.stmt import (
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    seq,
)
from ir.tir.transform.lower_match_buffer import LowerMatchBuffer

from .algebra import Algebra
from .estimate import (
    ALWAYS,
    INFINITY,
    NEVER,
    WHEN_EXACT,
    WIDE,
    ZERO,
    Binding,
    Estimate,
    added,
    as_distance,
    counts,
    error_of_sum,
    finite_size,
    magnitude,
    or_zero,
    rounded,
    roundings_of,
    unless_whole,
    widened,
)
from .expressions import Expressions, Unanalysable, either, let
from .facts import entry, params_of
from .rounding import format_of, growth, most_telling
from .sums import Addition, Sums

_At = Callable[[Sequence[Var]], tuple[PrimExpr, Sequence[Binding]]]
"""From the variables of a place to what stands there, and the names that it uses."""

_ROUNDS = 12
"""Buffers depend on each other through loops; what is not settled after so many passes gets an error of its own."""
_PATIENCE = 4
"""So often may the relative error of a buffer grow from pass to pass before it is taken for one that grows with each step."""
_NOTHING = Evaluate(IntImm("int32", 0))


@dataclass(slots=True)
class _Shadow:
    """What stands for one buffer of the program, and what is known of all that is stored to it."""

    buffer: Buffer
    wide: Buffer
    given: bool
    """It is an input: its values are exact."""
    updated: bool = False
    """It is an output that begins with what the caller gave."""
    terms: float = 0
    """How many terms one element is the sum of, infinity where that is not known; 0 for a buffer that is not summed up."""
    mass: Buffer | None = None
    count: Buffer | None = None
    """How many of the terms are more than next to nothing beside the sum, where that is counted."""
    error: Buffer | None = None
    relative: float = 0.0
    floor: float = 0.0
    whole: int = ALWAYS
    limit: float = math.inf
    largest: float = math.inf
    grown: int = 0


@dataclass(slots=True)
class ShadowProgram:
    """The rewritten program; its parameters are the inputs, per output its values and their error, and a flag."""

    mod: IRModule
    inputs: tuple[int, ...]
    """Positions of the original's parameters that it reads as they are."""
    outputs: tuple[int, ...]
    errors: tuple[bool, ...]
    """For each output whether an array of errors follows its values."""
    wide: tuple[str, ...]
    """The dtype of each output's values."""
    longest_sum: float
    """How many terms the longest sum has, infinity where that is not known."""
    whole_sums: bool
    """Whether small integers make all terms whole numbers: the sums are exact, as long as they are not too large."""


def shadow_of(mod: Any, counting: bool = False) -> ShadowProgram:
    """Rewrite an unscheduled program; ``counting`` which terms of long sums are more than next to nothing makes tighter bounds.

    Raises:
        Unanalysable: it has vectors, calls of unknown functions, or other names of memory.
        RunnerError: it has no entry, or parameters that are no tensors.
    """
    return _Rewriter(entry(LowerMatchBuffer()(mod)), counting).run()


class _Rewriter(Visitor):
    """Statements; expressions are those of :class:`runners.verify.expressions.Expressions`."""

    def __init__(self, func: PrimFunc, counting: bool) -> None:
        super().__init__()
        self._func = func
        self._counting = counting
        self._params = params_of(func)
        flag = decl_buffer((1,), WIDE, "exact")
        self._flag = flag
        self._algebra = Algebra(GT(flag[0], ZERO))
        self._expressions = Expressions(self._algebra, self._load)
        self._shadows: dict[Any, _Shadow] = {}
        self._sums = Sums(func.body)
        self._changed = False
        self._doubt: list[PrimExpr] = []
        """Conditions under which the statements at hand may not run as they do here."""
        self._marking = False
        """Of statements that may run in a kernel and did not run here all that is left is which elements they store to."""
        self._within: set[Any] = set()
        """Data variables of what such statements allocate."""

    def run(self) -> ShadowProgram:
        for handle, param in zip(self._func.params, self._params):
            self._declare(self._func.buffer_map[handle], given=not param.output, updated=param.updated)
        for _ in range(_ROUNDS):
            self._changed = False
            body = self.visit(self._func.body)
            if not self._changed:
                return self._program(body)
        raise Unanalysable("the errors of its buffers do not settle")

    def _program(self, body: Stmt) -> ShadowProgram:
        inputs, outputs, errors, wide = [], [], [], []
        params: list[Any] = []
        for position, (handle, param) in enumerate(zip(self._func.params, self._params)):
            shadow = self._shadows[self._func.buffer_map[handle].data]
            if not param.output:
                inputs.append(position)
                params.append(shadow.wide)
        extra: list[Buffer] = []
        head: list[Stmt] = []
        tail: list[Stmt] = []
        for position, (handle, param) in enumerate(zip(self._func.params, self._params)):
            if not param.output:
                continue
            shadow = self._shadows[self._func.buffer_map[handle].data]
            outputs.append(position)
            wide.append(shadow.wide.dtype)
            params.append(shadow.wide)
            errors.append(self._has_error(shadow))
            if errors[-1]:
                total = decl_buffer(shadow.buffer.shape, WIDE, f"{shadow.buffer.name}_bound")
                params.append(total)
                tail.append(self._bound(shadow, total))
                extra += self._beside(shadow)
            if shadow.mass is not None and shadow.updated:
                head.append(_over_all(shadow.mass, _magnitude_of(shadow.wide)))
            if shadow.count is not None and shadow.updated:
                head.append(_over_all(shadow.count, lambda places: (FloatImm(WIDE, 1.0), [])))
            if shadow.error is not None and shadow.updated:
                head.append(_over_all(shadow.error, lambda places: (ZERO, [])))
        params.append(self._flag)
        attrs = {"global_symbol": "main", "tir.noalias": True}
        func = PrimFunc(params, _root(seq(*head, body), tail, extra), attrs=attrs)
        longest_sum = max((item.terms for item in self._shadows.values()), default=0)
        whole_sums = all(item.whole != NEVER for item in self._shadows.values() if item.mass is not None)
        return ShadowProgram(
            IRModule({"main": func}),
            tuple(inputs),
            tuple(outputs),
            tuple(errors),
            tuple(wide),
            longest_sum,
            whole_sums,
        )

    @staticmethod
    def _has_error(shadow: _Shadow) -> bool:
        return shadow.mass is not None or shadow.error is not None or shadow.relative > 0

    def _bound(self, shadow: _Shadow, total: Buffer) -> Stmt:
        """The loops that write an output's errors."""

        def error_at(places: Sequence[Var]) -> tuple[PrimExpr, list[Binding]]:
            with self._algebra.scope() as names:
                error = as_distance(self._algebra.error(self._estimate_of(shadow, places)))
            return or_zero(error), names

        return _over_all(total, error_at)

    # ---- buffers ---------------------------------------------------------------------------------------------

    def _declare(self, buffer: Buffer, *, given: bool, updated: bool = False) -> _Shadow:
        found = self._shadows.get(buffer.data)
        if found is not None:
            if found.buffer is not buffer:
                raise Unanalysable(f"buffer {buffer.name} is a second view of its memory")
            return found
        if buffer.strides or buffer.elem_offset is not None or dt.lanes(buffer.dtype) != 1:
            raise Unanalysable(f"buffer {buffer.name} has strides, an offset, or vectors as elements")
        floats = dt.is_float(buffer.dtype)
        wide = buffer if given or not floats else decl_buffer(buffer.shape, WIDE, f"{buffer.name}_wide")
        whole = WHEN_EXACT if (given or updated) and floats else ALWAYS
        found = _Shadow(buffer, wide, given, updated, whole=whole)
        self._shadows[buffer.data] = found
        return found

    def _shadow(self, buffer: Buffer) -> _Shadow:
        found = self._shadows.get(buffer.data)
        if found is None or found.buffer is not buffer:
            raise Unanalysable(f"buffer {buffer.name} is a view of other memory, or is not declared")
        return found

    def _load(self, buffer: Buffer, indices: Sequence[Estimate]) -> Estimate:
        """What an element of a buffer is; anything where the index is not certain."""
        if buffer.data in self._within:
            raise Unanalysable(f"buffer {buffer.name} says what is stored where rounded floats say")
        found = self._estimate_of(self._shadow(buffer), [index.value for index in indices])
        doubt: PrimExpr | None = None
        for index in indices:
            doubt = added(doubt, self._algebra.error(index))
        if doubt is None:
            return found
        slack: PrimExpr | None
        if dt.is_bool(buffer.dtype):
            slack = either(found.slack, GT(doubt, ZERO))
        else:
            slack = added(found.slack, Select(GT(doubt, ZERO), INFINITY, ZERO))
        return Estimate(
            found.value, slack, found.relative, found.floor, found.whole, found.limit, found.largest
        )

    def _estimate_of(self, shadow: _Shadow, indices: Sequence[PrimExpr]) -> Estimate:
        load = BufferLoad(shadow.wide, indices)
        value = widened(load) if dt.is_float(shadow.buffer.dtype) else load
        if shadow.given:
            return Estimate(value, whole=shadow.whole)
        slack: PrimExpr | None = None
        if shadow.error is not None:
            slack = BufferLoad(shadow.error, indices)
            if dt.is_bool(shadow.buffer.dtype):
                slack = GT(slack, ZERO)
        if shadow.mass is None:
            return Estimate(
                value, slack, shadow.relative, shadow.floor, shadow.whole, shadow.limit, shadow.largest
            )
        form = format_of(shadow.buffer.dtype)
        roundings: PrimExpr = FloatImm(WIDE, growth(shadow.terms, form.unit) * form.unit)
        if shadow.count is not None:
            roundings = roundings_of(BufferLoad(shadow.count, indices), form.unit)
        # of terms that are off already
        relative = roundings * FloatImm(WIDE, 1.0 + shadow.relative) + FloatImm(WIDE, shadow.relative)
        mass = BufferLoad(shadow.mass, indices)
        size = mass if slack is None else mass + slack
        largest = min(form.largest, shadow.largest)
        reach = self._algebra.share(size * (FloatImm(WIDE, 1.0) + relative))
        error = rounded(
            size,
            relative,
            shadow.terms * shadow.floor if shadow.floor else 0.0,  # additions do not underflow
            largest,
            shadow.whole,
            min(form.whole, shadow.limit),
            self._algebra.exact,
            reach,
        )
        of_sum = error_of_sum(value, reach, error, largest)
        return Estimate(value, added(slack, of_sum), whole=shadow.whole)

    def _note(self, shadow: _Shadow, item: Estimate) -> None:
        """Learn from a store; whoever loaded the buffer before is asked again."""
        before = (shadow.relative, shadow.floor, shadow.whole, shadow.limit, shadow.largest, shadow.error)
        if shadow.error is None and item.slack is not None:
            shadow.error = decl_buffer(shadow.buffer.shape, WIDE, f"{shadow.buffer.name}_error")
        if shadow.mass is not None or shadow.error is None:
            if item.relative > shadow.relative:
                shadow.relative = item.relative
                shadow.grown += 1
            shadow.floor = max(shadow.floor, item.floor)
            shadow.limit = min(shadow.limit, item.limit)
            shadow.largest = min(shadow.largest, item.largest)
        shadow.whole = min(shadow.whole, item.whole)
        if shadow.grown > _PATIENCE and shadow.error is None and shadow.mass is None:
            shadow.error = decl_buffer(shadow.buffer.shape, WIDE, f"{shadow.buffer.name}_error")
        if shadow.error is not None and shadow.mass is None:
            shadow.relative = shadow.floor = 0.0
            shadow.limit = shadow.largest = math.inf
        after = (shadow.relative, shadow.floor, shadow.whole, shadow.limit, shadow.largest, shadow.error)
        self._changed |= before != after

    # ---- stores ----------------------------------------------------------------------------------------------

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        """A store of the value, and of its error and mass."""
        with self._algebra.scope() as names:
            stores = self._store(store)
        return _let(stores, names)

    def _store(self, store: BufferStore) -> Stmt:
        if store.predicate is not None:
            raise Unanalysable("a store has a predicate")
        shadow = self._shadow(store.buffer)
        indices = [self._expressions.visit(index) for index in store.indices]
        if any(not index.certain for index in indices):
            raise Unanalysable(f"what is stored to {store.buffer.name} lies where rounded floats say")
        places = [index.value for index in indices]
        if self._marking:
            if shadow.error is None or shadow.buffer.data in self._within:
                return _NOTHING
            return BufferStore(shadow.error, INFINITY, places)
        addition = self._sums.addition(store)
        if addition is not None:
            return self._sum(shadow, places, addition)
        item = self._expressions.visit(store.value)
        if dt.is_float(store.buffer.dtype):
            item = self._algebra.settled(item)
        if self._doubt:
            item = self._doubted(item)
        item = self._with_underflow(shadow, item)
        self._note(shadow, item)
        stores: list[Stmt] = [BufferStore(shadow.wide, item.value, places)]
        if shadow.mass is not None:
            stores.append(BufferStore(shadow.mass, finite_size(item.value), places))
        if shadow.count is not None:
            stores.append(BufferStore(shadow.count, FloatImm(WIDE, 1.0), places))
        if shadow.error is not None:
            error = as_distance(self._algebra.error(item))
            stores.append(BufferStore(shadow.error, or_zero(error), places))
        return seq(*reversed(stores))

    def _sum(self, shadow: _Shadow, places: Sequence[PrimExpr], addition: Addition) -> Stmt:
        """``buffer[...] = buffer[...] + term`` (or minus it, or several): the mass grows, errors of the terms add up."""
        unit = format_of(shadow.buffer.dtype).unit
        if shadow.mass is None:
            shadow.mass = decl_buffer(shadow.buffer.shape, WIDE, f"{shadow.buffer.name}_mass")
            shadow.terms = self._sums.terms(shadow.buffer) + shadow.updated
            if math.isinf(shadow.terms) or (self._counting and shadow.terms > 2 * most_telling(unit)):
                shadow.count = decl_buffer(shadow.buffer.shape, WIDE, f"{shadow.buffer.name}_count")
            shadow.floor = 0.0  # stores that came before are asked again
            self._changed = True
        value: PrimExpr = BufferLoad(shadow.wide, places)
        mass: PrimExpr = BufferLoad(shadow.mass, places)
        slack: PrimExpr | None = None
        sizes: list[PrimExpr] = []
        for term, sign in addition:
            item = self._algebra.settled(self._expressions.visit(term))
            if self._doubt:
                item = self._doubted(item)
            item = self._with_underflow(shadow, item)
            self._note(shadow, item)
            value = value + item.value if sign > 0 else value - item.value
            sizes.append(self._algebra.share(finite_size(item.value)))
            mass = mass + sizes[-1]
            slack = added(slack, item.slack)
        stores: list[Stmt] = [BufferStore(shadow.mass, mass, places), BufferStore(shadow.wide, value, places)]
        if shadow.count is not None:
            count: PrimExpr = BufferLoad(shadow.count, places)
            for size in sizes:
                count = count + counts(size, self._algebra.share(mass), unit, shadow.terms)
            stores.insert(0, BufferStore(shadow.count, count, places))
            # A term that does not count here may be as large as its error in a kernel, and adding it errs by as much again.
            slack = added(slack, slack)
        if shadow.error is not None and slack is not None:
            stores.insert(0, BufferStore(shadow.error, BufferLoad(shadow.error, places) + slack, places))
        return seq(*stores)

    def _with_underflow(self, shadow: _Shadow, item: Estimate) -> Estimate:
        """What is stored to a sum of nobody knows how many terms, with what its own underflow may have cost among its errors."""
        if shadow.mass is None or not math.isinf(shadow.terms) or not item.floor:
            return item
        floor = unless_whole(
            FloatImm(WIDE, item.floor), magnitude(item.value), item.whole, item.limit, self._algebra.exact
        )
        return replace(item, slack=added(item.slack, floor), floor=0.0)

    def _doubted(self, item: Estimate) -> Estimate:
        slack = item.slack
        for condition in self._doubt:
            if dt.is_bool(item.value.dtype):
                slack = either(slack, condition)
            else:
                slack = added(slack, Select(condition, INFINITY, ZERO))
        return Estimate(item.value, slack, item.relative, item.floor, item.whole, item.limit, item.largest)

    # ---- statements around -----------------------------------------------------------------------------------

    def generic_visit(self, node: Any) -> Any:
        raise Unanalysable(f"it has a statement {type(node).__name__}")

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        """Statements in order."""
        return seq(*[self.visit(item) for item in node.seq])

    def visit_For(self, node: For) -> Stmt:
        """A loop; its bounds are certain, or all that is computed in it is not."""
        with self._algebra.scope() as names:
            begin, extent = self._expressions.visit(node.min), self._expressions.visit(node.extent)
            with_doubt = self._with_doubt(added(self._algebra.error(begin), self._algebra.error(extent)))
        body = with_doubt(lambda: self.visit(node.body))
        return _let(node.replace(min=begin.value, extent=extent.value, body=body), names)

    def visit_While(self, node: While) -> Stmt:
        """A loop under a condition."""
        if self._marking:
            raise Unanalysable("a loop under a condition runs where rounded floats say")
        with self._algebra.scope() as names:
            condition = self._expressions.visit(node.condition)
        if condition.slack is not None:
            raise Unanalysable("a loop ends when rounded floats say so")
        return While(let(condition.value, names), self.visit(node.body))

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        """Both sides; what either stores is anything where the condition may turn out either way."""
        sides = [side for side in (node.then_case, node.else_case) if side is not None]
        with self._algebra.scope() as names:
            condition = self._expressions.visit(node.condition)
            if condition.slack is not None:
                condition = replace(condition, slack=self._algebra.share(condition.slack))
        if self._marking:
            tests = (condition.value, Not(condition.value))
            marked = [
                IfThenElse(either(test, condition.slack), self.visit(side))
                for test, side in zip(tests, sides)
            ]
            return _let(seq(*marked), names)
        with_doubt = self._with_doubt(as_distance(condition.slack))
        then_case = with_doubt(lambda: self.visit(node.then_case))
        else_case = None if node.else_case is None else with_doubt(lambda: self.visit(node.else_case))
        chosen: Stmt = node.replace(condition=condition.value, then_case=then_case, else_case=else_case)
        if condition.slack is not None:
            chosen = seq(chosen, IfThenElse(condition.slack, seq(*map(self._marked, sides))))
        return _let(chosen, names)

    def _marked(self, side: Stmt) -> Stmt:
        """Make anything of what a side of a choice stores to, whether it ran here or not."""
        self._marking = True
        try:
            return self.visit(side)  # type: ignore[no-any-return]
        finally:
            self._marking = False
            self._within.clear()

    def _with_doubt(self, error: PrimExpr | None) -> Callable[[Callable[[], Stmt]], Stmt]:
        def run(make: Callable[[], Stmt]) -> Stmt:
            if error is None:
                return make()
            self._doubt.append(GT(error, ZERO))
            try:
                return make()
            finally:
                self._doubt.pop()

        return run

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        """A name for a value, and one for its error."""
        with self._algebra.scope() as names:
            _, binding = self._expressions.bind(node.var, node.value)
        return _let(self.visit(node.body), [*names, *binding])

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        """Attributes of loops and functions mean nothing here."""
        return self.visit(node.body)  # type: ignore[no-any-return]

    def visit_AssertStmt(self, node: AssertStmt) -> Stmt:
        """What is asserted holds for arguments that are legal."""
        return self.visit(node.body)  # type: ignore[no-any-return]

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        """Nothing but a constant has no effect."""
        if not isinstance(node.value, IntImm):
            raise Unanalysable("it calls something for its effect")
        return node

    def visit_BlockRealize(self, node: BlockRealize) -> Stmt:
        """A block under its predicate."""
        with self._algebra.scope() as names:
            values = [self._expressions.visit(value) for value in node.iter_values]
            predicate = self._expressions.visit(node.predicate)
        if predicate.slack is not None or any(not value.certain for value in values):
            raise Unanalysable(f"block {node.block.name_hint} depends on floats that are rounded")
        block = self.visit(node.block)
        return BlockRealize([let(value.value, names) for value in values], let(predicate.value, names), block)

    def visit_Block(self, node: Block) -> Stmt:
        """A block with the shadows of its buffers."""
        if node.match_buffers:
            raise Unanalysable(f"block {node.name_hint} has views of buffers")
        if self._marking:
            self._within.update(buffer.data for buffer in node.alloc_buffers)
        for buffer in node.alloc_buffers:
            self._declare(buffer, given=False)
        init = None if node.init is None else self.visit(node.init)
        body = self.visit(node.body)
        allocated = (
            [] if self._marking else [item for buffer in node.alloc_buffers for item in self._family(buffer)]
        )
        return stating_its_accesses(Block(node.iter_vars, [], [], node.name_hint, body, init, allocated))

    def _family(self, buffer: Buffer) -> list[Buffer]:
        shadow = self._shadow(buffer)
        return [shadow.wide, *self._beside(shadow)]

    @staticmethod
    def _beside(shadow: _Shadow) -> list[Buffer]:
        """What is kept of a buffer beside its values."""
        return [item for item in (shadow.mass, shadow.count, shadow.error) if item is not None]


def _let(body: Stmt, names: Sequence[tuple[Var, PrimExpr]]) -> Stmt:
    for variable, value in reversed(names):
        body = LetStmt(variable, value, body)
    return body


def _magnitude_of(buffer: Buffer) -> _At:
    """What the mass of a sum begins with: the terms that were summed up before."""
    return lambda places: (finite_size(BufferLoad(buffer, places)), [])


def _over_all(buffer: Buffer, value_at: _At) -> Stmt:
    """The loops that write every element of a buffer."""
    variables = [
        Var(f"b{axis}", getattr(extent, "dtype", "int32")) for axis, extent in enumerate(buffer.shape)
    ]
    value, names = value_at(variables)
    body = _let(BufferStore(buffer, value, variables), names)
    for variable, extent in reversed(list(zip(variables, buffer.shape))):
        body = For(variable, const(0, variable.dtype), extent, 0, body)
    return body


def _root(body: Stmt, tail: Sequence[Stmt], extra: Sequence[Buffer]) -> Stmt:
    """The body with more statements behind it and more buffers, in a block of its own."""
    inner = stating_its_accesses(Block([], [], [], "bounds", seq(*tail))) if tail else None
    parts = [body] if inner is None else [body, BlockRealize([], True, inner)]
    return BlockRealize([], True, Block([], [], [], "root", seq(*parts), None, extra))
