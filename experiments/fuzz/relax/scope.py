"""The state of a module that is being written: values in scope with what they are for the arguments at hand, and bindings so far.

Every binding is computed by the reference evaluator when it is written. So a call whose result is not defined, not finite or too large is
never in a program, and extents that depend on data are known.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import ir
from ir import relax as rx
from ir import tir
from ir.error import IRError
from ir.relax.analysis import tir_vars_in_struct_info
from ir.relax.op import OPERATORS
from ir.relax.testing.evaluate import Evaluator, Frame
from ir.relax.testing.values import Gone

from .arguments import argument, extents, symbol_value
from .effects import recorded

_MOST_ELEMENTS = 600
_MOST_DIMENSIONS = 5
_LARGEST = 1e4


class Rejected(Exception):
    """A call that may not be in a program: it is not valid, or its result would spoil what follows."""


@dataclass(eq=False)
class Value:
    """A variable in scope, and what it is for the arguments at hand: an array, or a list of values."""

    var: rx.Var
    data: Any

    @property
    def info(self) -> Any:
        """The struct info of the variable."""
        return self.var.struct_info

    @property
    def dims(self) -> list[Any]:
        """The extents of a tensor, each a number or an expression of symbols."""
        return [int(dim.value) if isinstance(dim, tir.IntImm) else dim for dim in self.info.shape_values]

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of a tensor as numbers."""
        return tuple(self.data.shape)

    @property
    def dtype(self) -> str:
        """The dtype of a tensor."""
        return str(self.info.dtype)

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor of known shape and dtype."""
        info = self.info
        return isinstance(info, rx.TensorStructInfo) and info.shape_values is not None and bool(info.dtype)

    @property
    def is_static(self) -> bool:
        """Whether no extent is symbolic."""
        return all(isinstance(dim, int) for dim in self.dims)


@dataclass(eq=False)
class FunctionScope:
    """What belongs to one function: parameters, symbols and blocks."""

    name: str
    params: list[rx.Var] = field(default_factory=list)
    symbols: dict[str, tir.Var] = field(default_factory=dict)
    local_symbols: set[tir.Var] = field(default_factory=set)
    """Those that a binding defines, which no parameter may name."""
    values: list[Value] = field(default_factory=list)
    blocks: list[list[rx.VarBinding | rx.MatchCast]] = field(default_factory=lambda: [[]])
    pure: bool = True
    may_add_params: bool = True
    dataflow: bool = False
    """Whether bindings are in a dataflow block: nothing impure, no branches, and names that end with the block."""
    overwritable: set[Any] = field(default_factory=set)
    """Variables whose memory nobody else has a name for, so that an in-place call may take it."""


class Scope:
    """A module, the functions that are being written (the innermost last), and the source of randomness."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.builder = rx.BlockBuilder()
        self.evaluator = Evaluator(None)
        self.functions: list[FunctionScope] = []
        self._names = 0
        self.dtypes = self._choose_dtypes()
        self.symbolic = self.random.random() < 0.45
        self.special = self.random.random() < 0.15

    def _choose_dtypes(self) -> list[str]:
        others = ["float16", "float64", "bfloat16", "int32", "int64", "int8", "uint8", "int16", "bool"]
        dtypes = ["float32"] * 4 + self.random.sample(others, self.random.randint(0, 2))
        return dtypes if self.random.random() < 0.85 else self.random.sample(others, 2)

    @property
    def function(self) -> FunctionScope:
        """The function that is being written."""
        return self.functions[-1]

    def fresh(self, prefix: str) -> str:
        """A name that is not used yet."""
        self._names += 1
        return f"{prefix}{self._names}"

    # -- parameters and constants -----------------------------------------------
    def symbol(self, value: int, letter: str = "") -> tir.Var:
        """A symbolic extent of a value."""
        letter = letter or self.random.choice("nm")
        return self.function.symbols.setdefault(f"{letter}{value}", tir.Var(f"{letter}{value}", "int64"))

    def dim(self, extent: int | None = None) -> Any:
        """An extent: a number, or a symbol."""
        if extent is None:
            extent = self.random.choice([0, 1, 1, 2, 3, 3, 4, 5, 7, 8, 8, 9, 16, 17])
            if extent == 0 and self.random.random() < 0.7:
                extent = 4
        if self.symbolic and extent > 1 and self.random.random() < 0.3 and self.function.may_add_params:
            return self.symbol(extent)
        return extent

    def known_dim(self) -> Any:
        """An extent that may stand where none is defined: a number, or a symbol that a parameter defines."""
        known = [var for var in self.function.symbols.values() if var in self.evaluator.frame.symbols]
        return (
            self.random.choice(known)
            if known and self.random.random() < 0.4
            else self.random.choice([0, 1, 2, 3, 5])
        )

    def domain(self, dtype: str) -> str:
        """What a new parameter holds, unless something is wanted."""
        if self.special and self.random.random() < 0.5:
            return "edge" if ir.dtype.is_integral(dtype) else "special"
        return self.random.choice(["any", "any", "whole", "whole", "positive", "unit"])

    def tensor(self, dims: Sequence[Any], dtype: str, domain: str | None = None) -> Value:
        """A new parameter of the function, or, for extents that are numbers, sometimes a constant."""
        name = self.fresh(f"{domain or self.domain(dtype)}_")
        info = rx.TensorStructInfo(list(dims), dtype)
        static = all(isinstance(dim, int) for dim in dims)
        if static and (not self.function.may_add_params or self.random.random() < 0.25):
            data = argument(name, info, self.seed)
            return self.bind(rx.const(data, dtype), fresh=False)
        if not self.function.may_add_params or self.function.local_symbols & set(
            tir_vars_in_struct_info(info)
        ):
            raise Rejected
        return self.param(name, info)

    def param(self, name: str, info: rx.StructInfo, data: Any = None) -> Value:
        """A new parameter of the function."""
        var = rx.Var(name, info)
        self.function.params.append(var)
        if data is None:
            data = argument(name, info, self.seed)
        for symbol in tir_vars_in_struct_info(info):
            self.evaluator.frame.symbols.setdefault(symbol, np.int64(symbol_value(symbol.name)))
        self.evaluator.frame.values[var.vid] = data
        value = Value(var, data)
        self.function.values.append(value)
        return value

    # -- bindings ----------------------------------------------------------------
    def bind(self, expr: Any, prefix: str = "v", fresh: bool = True) -> Value:
        """A binding of an expression.

        Args:
            expr: the expression.
            prefix: of the name of the variable.
            fresh: whether the result is memory of its own.

        Raises:
            Rejected: the expression is not valid, or its value is none that a program may compute.
        """
        expr = self.normalized(expr)
        if _lost_shape(expr):
            raise Rejected
        data = self.computed(expr)
        if not self._welcome(data):
            self.forget_overwritten()  # by a call that is computed, yet not in the program
            raise Rejected
        var = self.variable(prefix, expr.struct_info)
        return self.record(rx.VarBinding(var, expr), data, fresh)

    def variable(self, prefix: str, info: Any) -> rx.Var:
        """A new variable of the kind that the block has."""
        kind = rx.DataflowVar if self.function.dataflow else rx.Var
        return kind(self.fresh(prefix), info)

    def end_dataflow(self, values: Sequence[Value]) -> None:
        """Ends a dataflow block: some values get names outside of it, and no other is in scope any more."""
        function = self.function
        inside = [value for value in function.values if isinstance(value.var, rx.DataflowVar)]
        function.values = [value for value in function.values if value not in inside]
        function.dataflow = False
        function.overwritable.clear()
        for value in values:
            if value in inside:
                self.record(rx.VarBinding(rx.Var(self.fresh("o"), value.info), value.var), value.data)
        function.blocks.append([])

    def record(self, binding: Any, data: Any, fresh: bool = False) -> Value:
        """Adds a binding whose value is known."""
        self.function.blocks[-1].append(binding)
        self.evaluator.frame.values[binding.var.vid] = data
        value = Value(binding.var, data)
        if fresh and value.is_tensor and _makes_memory(binding.value):
            self.function.overwritable.add(binding.var)
        self.function.values.append(value)
        return value

    def forget_overwritten(self) -> None:
        """Takes out of scope what shared memory with a value that an in-place call has taken."""
        for function, frame in zip(self.functions, self.evaluator.stack, strict=True):
            function.values = [value for value in function.values if _readable(frame.values[value.var.vid])]
            function.overwritable &= {value.var for value in function.values}

    def normalized(self, expr: Any) -> Any:
        """An expression with its struct info, behind bindings of what was nested in it; one that inference refuses is rejected."""
        try:
            with self.builder.testing_scope(list(self.function.symbols.values())):
                self.builder._begin_binding_block()
                try:
                    normalized = self.builder.normalize(expr)
                finally:
                    nested = self.builder._end_block().bindings
        except IRError as error:
            raise Rejected from error
        for binding in nested:
            assert isinstance(binding, rx.VarBinding)
            self.record(binding, self.computed(binding.value))
        return normalized

    def computed(self, expr: Any) -> Any:
        """The value of an expression; what the operator's declaration leaves undefined is rejected, anything else is a failure."""
        self.evaluator.mod = self.builder.get()
        is_operator = isinstance(expr, rx.Call) and isinstance(expr.op, ir.Op)
        undefined = OPERATORS[expr.op.name].undefined if is_operator else ()
        try:
            with recorded(), np.errstate(all="ignore"):
                return self.evaluator.expr(expr)
        except undefined as error:
            raise Rejected from error

    def _welcome(self, data: Any) -> bool:
        if isinstance(data, list | tuple):
            return all(self._welcome(item) for item in data)
        if not isinstance(data, np.ndarray) or data.dtype == bool:
            return True
        if data.size > _MOST_ELEMENTS or data.ndim > _MOST_DIMENSIONS:
            return False
        if data.dtype.kind in "iu" or self.special:
            return True
        wide = data.astype("float64")
        return bool(np.isfinite(wide).all() and (np.abs(wide) < _LARGEST).all())

    # -- functions and blocks ------------------------------------------------------
    @contextmanager
    def writing(self, function: FunctionScope, frame: Frame) -> Iterator[FunctionScope]:
        """A function is the innermost one, and what it computes is known in a frame of its own."""
        self.functions.append(function)
        self.evaluator.stack.append(frame)
        try:
            yield function
        finally:
            self.functions.pop()
            self.evaluator.stack.pop()

    @contextmanager
    def nested(self) -> Iterator[list[rx.VarBinding | rx.MatchCast]]:
        """Bindings of a branch: what is bound inside is not in scope behind."""
        function = self.function
        saved = list(function.values), function.blocks, function.may_add_params
        overwritable, symbols = set(function.overwritable), set(function.symbols)
        inner: list[rx.VarBinding | rx.MatchCast] = []
        function.blocks = [inner]
        function.overwritable = set()
        function.may_add_params = False
        try:
            yield inner
        finally:
            function.values, function.blocks, function.may_add_params = saved
            function.overwritable = overwritable
            for name in function.symbols.keys() - symbols:
                del function.symbols[name]

    # -- choosing --------------------------------------------------------------------
    def tensors(self, wanted: Callable[[Value], bool] = lambda value: True) -> list[Value]:
        """The tensors in scope that are wanted."""
        return [value for value in self.function.values if value.is_tensor and wanted(value)]

    def pick(
        self,
        wanted: Callable[[Value], bool] = lambda value: True,
        dtype: str | None = None,
        rank: int | None = None,
    ) -> Value:
        """A tensor in scope that is wanted, the latest often, or a new one.

        Raises:
            Rejected: there is none, and a new one would not be wanted either.
        """
        found = self.tensors(
            lambda value: wanted(value) and dtype in (None, value.dtype) and rank in (None, len(value.shape))
        )
        if found and self.random.random() < 0.85:
            return self.random.choice(found[-6:] if self.random.random() < 0.6 else found)
        rank = self.random.choice([0, 1, 2, 2, 3, 4]) if rank is None else rank
        dims = [self.dim() for _ in range(rank)]
        if (
            int(np.prod(extents([tir.const(d, "int64") if isinstance(d, int) else d for d in dims])))
            > _MOST_ELEMENTS
        ):
            raise Rejected
        new = self.tensor(dims, dtype or self.random.choice(self.dtypes))
        if not wanted(new):
            raise Rejected
        return new

    def like(self, dims: Sequence[Any], dtype: str, domain: str | None = None) -> Value:
        """A tensor of a shape and dtype: one in scope, or a new one."""
        shape = extents([tir.const(dim, "int64") if isinstance(dim, int) else dim for dim in dims])
        found = (
            []
            if domain
            else self.tensors(
                lambda value: (
                    value.dtype == dtype
                    and value.shape == shape
                    and all(_equal(one, other) for one, other in zip(value.dims, dims))
                )
            )
        )
        if found and self.random.random() < 0.7:
            return self.random.choice(found)
        return self.tensor(dims, dtype, domain)


def _readable(data: Any) -> bool:
    if isinstance(data, list | tuple):
        return all(_readable(item) for item in data)
    return not isinstance(data, Gone)


def _lost_shape(expr: Any) -> bool:
    """Whether inference could not say the extents of a result, though they do not depend on data: two symbols may be one number.

    Such calls are not lowered to kernels.
    """
    depends = (
        isinstance(expr, rx.Call) and isinstance(expr.op, ir.Op) and OPERATORS[expr.op.name].data_dependent
    )
    info = expr.struct_info
    fields = info.fields if isinstance(info, rx.TupleStructInfo) else [info]
    return not depends and any(
        isinstance(item, rx.TensorStructInfo) and item.shape_values is None for item in fields
    )


def _makes_memory(expr: Any) -> bool:
    """Whether an expression is a call whose result is no part of an argument."""
    if not isinstance(expr, rx.Call) or not isinstance(expr.op, ir.Op):
        return False
    effect = OPERATORS[expr.op.name].memory.of(expr)
    return not (effect.views or effect.unknown or effect.identity)


def _equal(one: Any, other: Any) -> bool:
    return ir.arith.Analyzer().can_prove_equal(one, other) if not (one is other or one == other) else True
