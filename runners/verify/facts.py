"""What verification needs to know of a program: its tensors, which of them index others, and what may not be zero."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ir import dtype as dt
from ir.node import post_order_visit
from ir.tir.analysis.written_params import stored_params
from ir.tir.expr import And, BufferLoad, CmpExpr, FloatImm, IntImm, IterVar, Max, Min, Mul, Or, PrimExpr
from ir.tir.stmt import Block, BufferStore
from ir.tir.stmt_functor import loads_in

from ..error import RunnerError
from ..ndarray import numpy_dtype
from .domains import Domain, integer_domains
from .rounding import format_of

_MOST_CONSTANTS = 16
"""Of more constants some are among the inputs, from all of their range."""


@dataclass(frozen=True, slots=True)
class Param:
    """One tensor parameter of a kernel."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    output: bool
    """The kernel writes to it."""
    domain: Domain | None = None
    """The integers that it may hold, where not all are legal: indices, divisors, shifts."""
    updated: bool = False
    """It is an output, of which the kernel reads what the caller gave."""

    @property
    def given(self) -> bool:
        """Whether what the caller gives matters."""
        return not self.output or self.updated


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """What verification needs to know of a program."""

    params: tuple[Param, ...]
    terms: int
    """The longest sum: how many terms one element of a buffer is made of."""
    narrow: float
    """Up to which magnitude the narrowest dtype that sums are kept in holds all integers."""
    repeatable: bool
    """A second call with the outputs of the first gives the same: no output is read before it is written."""
    extremes: bool = False
    """The program takes a maximum or a minimum, or compares what it computes, or asks whether any or all are true."""
    multiplied: bool = False
    """Something is a product of many: in one order it overflows, or vanishes, on the way and in another one not."""
    constants: tuple[int | float, ...] = ()
    """Floats that the program computes with, integers that it compares data with: at them, and beside them, it may do something else."""

    @property
    def longest(self) -> int:
        """The largest extent of a tensor."""
        return max([1, *(extent for item in self.params for extent in item.shape)])

    @property
    def nbytes(self) -> int:
        """Memory of one set of arguments."""
        return sum(math.prod(item.shape) * numpy_dtype(item.dtype).itemsize for item in self.params)


def entry(mod: Any) -> Any:
    """The PrimFunc that a tuning module is about: its only function, or ``main``.

    Raises:
        RunnerError: there is no such function.
    """
    functions = {var.name_hint: func for var, func in mod.functions.items()}
    if len(functions) == 1:
        return next(iter(functions.values()))
    if "main" not in functions:
        raise RunnerError(
            f"a candidate has one function, or one called 'main'; this module has {sorted(functions)}"
        )
    return functions["main"]


def params_of(func: Any) -> tuple[Param, ...]:
    """The tensor parameters of a PrimFunc with static shapes.

    Raises:
        RunnerError: a parameter is not a tensor, or an extent is symbolic.
    """
    stored = stored_params(func)
    domains = integer_domains(func)
    updated = _updated(func)
    found: list[Param] = []
    for number, param in enumerate(func.params):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            raise RunnerError(
                f"parameter {param.name} is not a tensor; a kernel to be measured takes tensors only"
            )
        shape: list[int] = []
        for extent in buffer.shape:
            value = getattr(extent, "value", extent)
            if not isinstance(value, int):
                raise RunnerError(
                    f"tensor {buffer.name} has the symbolic extent {extent}; give it a value before measuring"
                )
            shape.append(value)
        found.append(
            Param(
                buffer.name,
                buffer.dtype,
                tuple(shape),
                output=number in stored,
                domain=domains.get(buffer.data),
                updated=buffer.data in updated,
            )
        )
    return tuple(found)


def facts_of(mod: Any) -> KernelFacts:
    """Parameters, and how sums behave, of an unscheduled program."""
    func = entry(mod)
    terms, narrow, extremes, multiplied = 1, math.inf, False, False
    constants: dict[tuple[type, float], int | float] = {}

    def note(values: Iterable[int | float]) -> None:
        constants.update({(type(value), value): value for value in values if value and math.isfinite(value)})

    def visit(node: Any) -> None:
        nonlocal terms, narrow, extremes, multiplied
        if isinstance(node, Block):
            length = math.prod(
                getattr(axis.dom.extent, "value", 1)
                for axis in node.iter_vars
                if axis.iter_type == IterVar.CommReduce
            )
            terms = max(terms, int(length))
            if length > 1:
                narrow = min([narrow, *(_whole(region.buffer.dtype) for region in node.writes)])
        elif isinstance(node, Max | Min | CmpExpr | And | Or):
            is_of_data = bool(loads_in(node))
            extremes = extremes or is_of_data
            if is_of_data and not isinstance(node, And | Or):
                note(_whole_numbers(node))
        elif isinstance(node, FloatImm):
            note([node.value])
        elif isinstance(node, BufferStore) and isinstance(node.value, Mul):
            factors = (node.value.a, node.value.b)
            multiplied = multiplied or any(
                isinstance(item, BufferLoad) and item.buffer.data is node.buffer.data for item in factors
            )

    post_order_visit(func.body, visit)
    params = params_of(func)
    repeatable = not any(item.updated for item in params)
    telling = sorted(constants.values())
    step = -(-len(telling) // _MOST_CONSTANTS) or 1
    return KernelFacts(params, terms, narrow, repeatable, extremes, multiplied, tuple(telling[::step]))


def _whole_numbers(expr: Any) -> list[int]:
    """The integers in an expression, but not in the indices of what it loads."""
    found: dict[int, None] = {}
    seen: set[int] = set()

    def visit(node: Any) -> None:
        if isinstance(node, IntImm):
            found.setdefault(node.value)
        elif not isinstance(node, BufferLoad) and id(node) not in seen:
            seen.add(id(node))
            node._visit_children(visit)

    visit(expr)
    return list(found)


def _whole(dtype: str) -> float:
    """Up to which magnitude a dtype holds all integers; those of integers wrap the same way in any order."""
    return format_of(dtype).whole if dt.is_float(dtype) else math.inf


def _updated(func: Any) -> set[Any]:
    """The data variables of outputs that are loaded before they are stored to, in the order of the program's text."""
    outputs = {buffer.data for buffer in func.buffer_map.values()}
    stored: set[Any] = set()
    early: set[Any] = set()
    views = views_of(func)

    def visit(node: Any) -> None:
        data = node.buffer.data
        while data in views:
            data = views[data]
        if isinstance(node, BufferStore):
            stored.add(data)
        elif data not in stored:
            early.add(data)

    _in_order(func.body, visit)
    return early & stored & outputs


def views_of(func: Any) -> dict[Any, Any]:
    """For the data variable of each view, that of the buffer of which it shows a region."""
    views: dict[Any, Any] = {}

    def visit(node: Any) -> None:
        if isinstance(node, Block):
            views.update({item.buffer.data: item.source.buffer.data for item in node.match_buffers})

    post_order_visit(func.body, visit)
    return views


def _in_order(node: Any, visit: Any) -> None:
    """Loads of a store before the store, initializations before bodies."""
    if isinstance(node, PrimExpr):
        for load in loads_in(node):
            visit(load)
        return
    if isinstance(node, Block):
        for part in (node.init, node.body):
            if part is not None:
                _in_order(part, visit)
        return
    node._visit_children(lambda child: _in_order(child, visit))
    if isinstance(node, BufferStore):
        visit(node)
