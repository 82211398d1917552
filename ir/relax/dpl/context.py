"""Patterns of graphs: several patterns with constraints on who uses whose result, matched in a dataflow block."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, ClassVar

from ...expr import RelaxExpr
from ..analysis.binding import udchain
from ..expr import Call, DataflowBlock, DataflowVar, MatchCast, Tuple, TupleGetItem, Var
from .matcher import Matcher
from .pattern import DFPattern


class PatternContext:
    """Collects constraints between patterns; ``used_by``, ``only_used_by`` and calls of patterns inside add to it.

    As in::

        with PatternContext() as ctx:
            lhs, rhs = is_op("relax.matmul")(x, w1), is_op("relax.matmul")(x, w2)
        matched = ctx.match_dfb(block)

    Args:
        incremental: start with the constraints of the context around this one.
    """

    _local: ClassVar[threading.local] = threading.local()

    def __init__(self, incremental: bool = False) -> None:
        outer = PatternContext.current() if incremental else None
        self._constraints: list[tuple[DFPattern, DFPattern, int, bool]] = (
            list(outer._constraints) if outer else []
        )

    @staticmethod
    def current() -> PatternContext | None:
        """The innermost context that this thread is in."""
        stack = getattr(PatternContext._local, "stack", None)
        return stack[-1] if stack else None

    def __enter__(self) -> PatternContext:
        PatternContext._local.__dict__.setdefault("stack", []).append(self)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        PatternContext._local.stack.pop()

    def add_constraint(
        self, producer: DFPattern, consumer: DFPattern, index: int = -1, only_use: bool = False
    ) -> None:
        """Require that the consumer uses the producer's result as argument ``index`` (-1: any), and, if wanted, that nothing else does."""
        self._constraints.append((producer, consumer, index, only_use))

    def match_dfb(self, dfb: DataflowBlock) -> dict[DFPattern, Var] | None:
        """Variables of a dataflow block for all patterns of the context, such that all constraints hold; None if there are none."""
        return _GraphMatcher(self._constraints, dfb).find()


class _GraphMatcher:
    """Assigns variables to patterns by backtracking, consumers before producers."""

    def __init__(self, constraints: list[tuple[DFPattern, DFPattern, int, bool]], dfb: DataflowBlock) -> None:
        self.constraints = constraints
        self.patterns = self._order()
        self.values: dict[Var, RelaxExpr] = {
            binding.var: binding.value for binding in dfb.bindings if not isinstance(binding, MatchCast)
        }
        self.users = udchain(dfb)
        self.candidates = list(self.users)
        self.by_id = {var.vid: var for var in self.candidates}
        self.outputs = {binding.var for binding in dfb.bindings if not isinstance(binding.var, DataflowVar)}

    def _order(self) -> list[DFPattern]:
        """Consumers first, so that a producer's candidates are arguments of what was chosen."""
        found: dict[DFPattern, None] = {}
        for producer, consumer, _, _ in self.constraints:
            found.setdefault(consumer)
            found.setdefault(producer)
        producers = {producer for producer, _, _, _ in self.constraints}
        order = [pattern for pattern in found if pattern not in producers]
        remaining = [pattern for pattern in found if pattern in producers]
        while remaining:
            ready = [
                p for p in remaining if all(c in order for q, c, _, _ in self.constraints if q is p)
            ] or remaining[:1]
            order += ready
            remaining = [p for p in remaining if p not in ready]
        return order

    def find(self) -> dict[DFPattern, Var] | None:
        chosen: dict[DFPattern, Var] = {}
        return chosen if self.patterns and self._assign(0, chosen, Matcher(self.values)) else None

    def _assign(self, position: int, chosen: dict[DFPattern, Var], matcher: Matcher) -> bool:
        if position == len(self.patterns):
            return True
        pattern = self.patterns[position]
        taken = set(chosen.values())
        for var in self._candidates_for(pattern, chosen):
            if var in taken:
                continue
            mark = len(matcher.memo)
            if matcher.match(pattern, var):
                chosen[pattern] = var
                if self._constraints_hold(pattern, chosen) and self._assign(position + 1, chosen, matcher):
                    return True
                del chosen[pattern]
            matcher.restore(mark)
        return False

    def _candidates_for(self, pattern: DFPattern, chosen: dict[DFPattern, Var]) -> list[Var]:
        for producer, consumer, index, _ in self.constraints:
            if producer is pattern and consumer in chosen:
                return self._arguments(chosen[consumer], index)
        return self.candidates

    def _arguments(self, consumer: Var, index: int) -> list[Var]:
        value = self.values.get(consumer)
        if isinstance(value, Call):
            args = value.args if index == -1 else value.args[index : index + 1]
        elif isinstance(value, Tuple):
            args = value.fields if index == -1 else value.fields[index : index + 1]
        elif isinstance(value, TupleGetItem):
            args = (value.tuple_value,)
        else:
            args = () if value is None else (value,)
        flat: list[Any] = []
        for arg in args:
            flat += arg.fields if isinstance(arg, Tuple) else (arg,)
        return [self.by_id[arg.vid] for arg in flat if isinstance(arg, Var) and arg.vid in self.by_id]

    def _constraints_hold(self, pattern: DFPattern, chosen: dict[DFPattern, Var]) -> bool:
        for producer, consumer, index, only in self.constraints:
            if producer not in chosen or consumer not in chosen or pattern not in (producer, consumer):
                continue
            source, user = chosen[producer], chosen[consumer]
            if not any(arg is source for arg in self._arguments(user, index)):
                return False
            if only and (source in self.outputs or any(item is not user for item in self.users[source])):
                return False
        return True
