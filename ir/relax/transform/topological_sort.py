"""TopologicalSort: order the bindings of dataflow blocks by a walk over the graph."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ...module import IRModule
from ...transform import PassContext
from ..analysis.binding import used_vars
from ..analysis.memory import Aliases, MemoryAnalysis
from ..expr import Binding, DataflowBlock, MatchCast, Var
from ..function import Function
from .dataflow_block_pass import rewrite_dataflow_blocks
from .function_pass import FunctionPass
from .grouping import tir_vars_of


def _dependencies(block: DataflowBlock, aliases: Aliases) -> list[list[int]]:
    """The bindings that each binding needs, in the order of their use."""
    number = {binding.var: index for index, binding in enumerate(block.bindings)}
    symbols = {
        symbol: index
        for index, binding in enumerate(block.bindings)
        if isinstance(binding, MatchCast)
        for symbol in tir_vars_of(binding.struct_info)
    }
    result: list[list[int]] = []
    for index, binding in enumerate(block.bindings):
        value = binding.value  # type: ignore[attr-defined]
        found = dict.fromkeys(number[var] for var in _ordered_vars(value) if var in number)
        found.update(
            dict.fromkeys(symbols[s] for s in tir_vars_of(value) if s in symbols and symbols[s] < index)
        )
        result.append([item for item in found if item != index])
    _add_orders_of_writes(block, aliases, result)
    return result


def _add_orders_of_writes(block: DataflowBlock, aliases: Aliases, needs: list[list[int]]) -> None:
    """Bindings of which one writes what the other reads or writes keep their order."""
    if not aliases.written:
        return
    values: list[Any] = [binding.value for binding in block.bindings]  # type: ignore[attr-defined]
    changed = [aliases.changed_by(value) for value in values]
    touched = [
        frozenset(root for var in used_vars(value) for root in aliases.roots(var)) | changed[index]
        for index, value in enumerate(values)
    ]
    for index in range(len(values)):
        for earlier in range(index):
            conflict = changed[index] & touched[earlier] or touched[index] & changed[earlier]
            if conflict and earlier not in needs[index]:
                needs[index].append(earlier)


def _ordered_vars(value: object) -> list[Var]:
    found: dict[Var, None] = {}

    def visit(node: object) -> None:
        if isinstance(node, Var):
            found.setdefault(node)
        else:
            node._visit_children(visit)  # type: ignore[attr-defined]

    visit(value)
    return list(found) + sorted(set(used_vars(value)) - set(found), key=lambda var: var.name_hint)


def _walk(
    needs: list[list[int]], users: list[list[int]], depth_first: bool, first: Sequence[int]
) -> list[int]:
    """Emit a binding as soon as all that it needs is there, going on with its users.

    Args:
        first: the bindings that need nothing, in the order in which the walk takes them.
    """
    remaining = [len(items) for items in needs]
    ready = deque(reversed(first) if depth_first else first)
    order: list[int] = []
    while ready:
        index = ready.pop() if depth_first else ready.popleft()
        order.append(index)
        freed = []
        for user in users[index]:
            remaining[user] -= 1
            if remaining[user] == 0:
                freed.append(user)
        ready.extend(reversed(freed) if depth_first else freed)
    return order


def sorted_block(
    block: DataflowBlock, order: str, direction: str, aliases: Aliases, results: Sequence[Var] = ()
) -> DataflowBlock:
    """The block with its bindings in another order; ``results`` are those of the function, where outputs begin."""
    needs = _dependencies(block, aliases)
    users: list[list[int]] = [[] for _ in needs]
    for index, items in enumerate(needs):
        for item in items:
            users[item].append(index)
    depth_first = order == "depth-first"
    if direction == "from-inputs":
        numbers = _walk(needs, users, depth_first, [i for i, items in enumerate(needs) if not items])
    else:
        # The same walk over the reversed graph, taken backwards.
        rank = {var: place for place, var in enumerate(results)}
        ends = [i for i, items in enumerate(users) if not items]
        ends.sort(key=lambda i: rank.get(block.bindings[i].var, len(rank)))
        operands = [list(reversed(items)) for items in needs] if depth_first else needs
        backwards = _walk(users, operands, depth_first, ends[::-1] if depth_first else ends)
        numbers = list(reversed(backwards))
    bindings: list[Binding] = [block.bindings[number] for number in numbers]
    return DataflowBlock(bindings, block.span)


@dataclass(frozen=True)
class TopologicalSort(FunctionPass):
    """Sort the bindings of each dataflow block.

    Before::

        a = R.exp(x)
        b = R.exp(y)
        c = R.log(a)
        d = R.log(b)

    After ``TopologicalSort("depth-first", "from-inputs")``::

        a = R.exp(x)
        c = R.log(a)
        b = R.exp(y)
        d = R.log(b)

    Args:
        order: ``depth-first`` or ``breadth-first``.
        direction: ``from-inputs`` begins with what needs nothing of the block, ``from-outputs`` with what it is for.
    """

    order: str = "depth-first"
    direction: str = "from-inputs"

    def __post_init__(self) -> None:
        if self.order not in ("depth-first", "breadth-first"):
            raise IRValueError(
                f"TopologicalSort: order must be 'depth-first' or 'breadth-first', got {self.order!r}"
            )
        if self.direction not in ("from-inputs", "from-outputs"):
            raise IRValueError(
                f"TopologicalSort: direction must be 'from-inputs' or 'from-outputs', got {self.direction!r}"
            )

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with sorted blocks."""
        results = used_vars(func.body.body)
        aliases = MemoryAnalysis(mod).aliases(func)
        return rewrite_dataflow_blocks(
            func, lambda block: sorted_block(block, self.order, self.direction, aliases, results)
        )
