"""Which arguments of a call must be different memory, because the callee writes one while it reads others::

    apart = OperandsApart(memory)
    apart.of_call(call)  # pairs of paths into the call's arguments: what is written, and what must lie elsewhere
    apart.of_function(func)  # pairs of paths into its parameters

A kernel that says that it takes one array for several parameters (``tir.noalias`` is False) needs nothing apart; another one may be
scheduled, which moves its reads and writes past each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...expr import GlobalVar
from ...tir.function import PrimFunc
from ..expr import Call, is_call_to
from ..expr_functor import ExprVisitor
from ..function import Function
from ..op.memory_effect import Path
from ..struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from .memory import Aliases, MemoryAnalysis, Place, Roots

Pair = tuple[Path, Path]
"""Paths of something that is written, and of something that must be other memory."""


class OperandsApart:
    """Answers for the calls of one module.

    Args:
        memory: of the module.
    """

    def __init__(self, memory: MemoryAnalysis) -> None:
        self._memory = memory
        self._functions: dict[str, list[Pair]] = {}
        self._open: set[str] = set()

    def of_call(self, call: Call) -> list[Pair]:
        """The pairs of tensors among the arguments that the callee needs apart; a path begins with the number of an argument."""
        callee = self._memory.called_function(call)
        if isinstance(callee, Function) and isinstance(call.op, GlobalVar):
            return self._of_called(call.op, callee, call)
        if isinstance(callee, PrimFunc) and not callee.attrs.get("tir.noalias", True):
            return []
        if isinstance(callee, PrimFunc) or is_call_to(call, "relax.call_inplace_packed"):
            return self._all_pairs(call)
        return []

    def of_function(self, func: Function) -> list[Pair]:
        """The pairs of tensors among the parameters that calls in a function need apart."""
        aliases = self._memory.aliases(func)
        numbers = {param: number for number, param in enumerate(func.params)}

        def parameters(roots: Roots) -> list[Path]:
            return [(numbers[root.owner], *root.path) for root in roots if root.owner in numbers]

        found = {
            (written, other)
            for call in _calls_of(func)
            for one, another in self.of_call(call)
            for written in parameters(roots_at(call, one, aliases))
            for other in parameters(roots_at(call, another, aliases))
            if written != other
        }
        return sorted(found)

    def _of_called(self, var: GlobalVar, func: Function, call: Call) -> list[Pair]:
        """What a function that calls itself needs is not known while it is looked into: all that it writes, apart from all else."""
        name = var.name_hint
        if name in self._open:
            return self._all_pairs(call)
        if name not in self._functions:
            self._open.add(name)
            self._functions[name] = self.of_function(func)
            self._open.remove(name)
        return self._functions[name]

    def _all_pairs(self, call: Call) -> list[Pair]:
        writes = self._memory.effect_of(call).writes
        if not writes:
            return []
        leaves = [
            path for number, arg in enumerate(call.args) for path in tensors_of(arg.struct_info_, (number,))
        ]
        written = [path for path in leaves if any(path[: len(place)] == place for place in writes)]
        return [(path, other) for path in written for other in leaves if other != path]


def tensors_of(info: StructInfo | None, path: Path) -> Iterator[Path]:
    """The paths of the tensors in a value at ``path``."""
    if isinstance(info, TupleStructInfo):
        for index, field in enumerate(info.fields):
            yield from tensors_of(field, (*path, index))
    elif isinstance(info, TensorStructInfo):
        yield path


def roots_at(call: Call, path: Path, aliases: Aliases) -> Roots:
    """The pieces of memory that a tensor among a call's arguments may be in."""
    place: Place = aliases.place(call.args[path[0]])
    for index in path[1:]:
        place = place[index] if isinstance(place, tuple) else place
    return frozenset() if isinstance(place, tuple) else place


def _calls_of(func: Function) -> Iterable[Call]:
    found = _Calls()
    found.visit_expr(func.body)
    return found.calls


class _Calls(ExprVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def visit_call_(self, call: Any) -> None:
        self.calls.append(call)
        super().visit_call_(call)
