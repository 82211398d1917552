"""What a reduction over nothing leaves: the init of its block runs before the loops that have no iterations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...node import post_order_visit
from .. import expr as E
from .. import stmt as S
from ..buffer import Buffer
from ..intrinsic.declaration import is_transparent

if TYPE_CHECKING:
    from .expressions import Expressions
    from .lanes import Closure

Env = dict[Any, Any]


@dataclass
class Around:
    """What stands between a block and the block or function around it, from outside to inside."""

    expressions: Expressions
    steps: list[S.Stmt | tuple[E.PrimExpr, bool]] = field(default_factory=list)
    """Statements, and conditions with the truth value that they must have."""


@dataclass(frozen=True)
class Initialization:
    """The parts of a block that run where its reduction has no iteration, as far as they do not need one."""

    kept: list[tuple[E.Var, Closure]]
    """Its other variables, with what is bound to them."""
    memory: Sequence[Closure]
    """Allocates its buffers."""
    views: Sequence[Closure]
    """Makes its matched regions."""
    run: Closure


def beside(
    around: Around, node: S.BlockRealize, initialization: Initialization
) -> tuple[S.For, Callable[[Env], None]] | None:
    """The loop before which the init of a block runs if a domain of its reduction is empty, and what runs; None where nothing does."""
    block, expressions = node.block, around.expressions
    axes = list(zip(block.iter_vars, node.iter_values))
    reduced = {axis.var: value for axis, value in axes if axis.iter_type == E.IterVar.CommReduce}
    absent = _loops_below(around.steps, list(reduced.values()))
    path = around.steps
    while path and not (isinstance(path[0], S.For) and path[0].loop_var in absent):
        path = path[1:]
    if not path:
        return None
    steps = _without(path, absent)
    absent |= set(reduced)
    dropped = [depends(match, absent) for match in block.match_buffers]
    prepare = [
        *initialization.memory,
        *(run for run, is_dropped in zip(initialization.views, dropped) if not is_dropped),
    ]
    spatial = [value for axis, value in axes if axis.var not in reduced]
    if steps is None or any(depends(value, absent) for value in spatial) or depends(block.init, absent):
        return None
    used = _used(block.init)
    if any(is_dropped and match.buffer in used for match, is_dropped in zip(block.match_buffers, dropped)):
        return None
    domains = [axis.dom.extent for axis in block.iter_vars if axis.var in reduced]
    domains = [extent for extent in domains if not depends(extent, absent)]
    extents = [expressions.index(extent) for extent in domains]
    guards = [_guard(expressions, clause, True) for clause in _clauses(node.predicate, True, absent)]

    def is_empty(env: Env) -> bool:
        return any(extent(env) <= 0 for extent in extents)

    def initialize(env: Env) -> None:
        if all(guard(env) for guard in guards):
            for var, value in initialization.kept:
                env[var] = value(env)
            for item in prepare:
                item(env)
            initialization.run(env)

    bound = {step.var for step in steps if isinstance(step, S.LetStmt)}
    asks_late = any(depends(extent, bound) for extent in domains)
    run: Closure = (lambda env: initialize(env) if is_empty(env) else None) if asks_late else initialize
    for step in reversed(steps):
        run = _around(expressions, step, run, absent)
    assert isinstance(path[0], S.For)
    return path[0], run if asks_late else lambda env: run(env) if is_empty(env) else None


def _around(expressions: Expressions, step: Any, run: Closure, absent: set[E.Var]) -> Closure:
    """A closure under one statement or condition."""
    if isinstance(step, tuple):
        condition, wanted = step
        guards = [_guard(expressions, clause, wanted) for clause in _clauses(condition, wanted, absent)]
        return lambda env: run(env) if all(guard(env) for guard in guards) else None
    if isinstance(step, S.LetStmt):
        var, value = step.var, expressions.bound(step.var, step.value)

        def bind(env: Env) -> None:
            env[var] = value(env)
            run(env)

        return bind
    begin, extent, counter = expressions.index(step.min), expressions.index(step.extent), step.loop_var

    def repeat(env: Env) -> None:
        for value in range(begin(env), begin(env) + extent(env)):
            env[counter] = value
            run(env)

    return repeat


def _guard(expressions: Expressions, clause: E.PrimExpr, wanted: bool) -> Closure:
    holds = expressions.condition(clause)
    return lambda env: bool(holds(env)) == wanted


def _clauses(condition: E.PrimExpr, wanted: bool, absent: set[E.Var]) -> list[E.PrimExpr]:
    """The parts of a conjunction that do not depend on what is absent, inside of marks too."""
    if wanted and isinstance(condition, E.And):
        return _clauses(condition.a, True, absent) + _clauses(condition.b, True, absent)
    if wanted and isinstance(condition, E.Call) and is_transparent(condition):
        return _clauses(condition.args[0], True, absent)
    return [] if depends(condition, absent) else [condition]


def _loops_below(steps: Sequence[Any], values: Iterable[E.PrimExpr]) -> set[E.Var]:
    """The variables of the loops that values are made of, lets looked through."""
    used: set[Any] = set().union(*map(_used, values))
    for step in reversed(steps):
        if isinstance(step, S.LetStmt) and step.var in used:
            used |= _used(step.value)
    return {step.loop_var for step in steps if isinstance(step, S.For) and step.loop_var in used}


def _without(path: Sequence[Any], absent: set[E.Var]) -> list[Any] | None:
    """The path without the loops of the reduction and what is bound in terms of them; None where the rest needs these."""
    kept: list[Any] = []
    for step in path:
        if isinstance(step, S.For):
            if step.loop_var in absent:
                continue
            if depends(step.min, absent) or depends(step.extent, absent):
                return None
        elif isinstance(step, S.LetStmt):
            if depends(step.value, absent):
                absent.add(step.var)
                continue
        elif not isinstance(step, tuple):
            return None
        kept.append(step)
    return kept


def _used(node: Any) -> set[Any]:
    """The variables and buffers in a node."""
    found: set[Any] = set()
    post_order_visit(node, lambda item: found.add(item) if isinstance(item, E.Var | Buffer) else None)
    return found


def depends(node: Any, variables: set[E.Var]) -> bool:
    """Whether there is one of the variables in a statement or expression."""
    return not _used(node).isdisjoint(variables)
