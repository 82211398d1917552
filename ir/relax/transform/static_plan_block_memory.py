"""StaticPlanBlockMemory: tensors of one block that are never live together share storage."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ... import dtype as dt
from ...arith.analyzer import Analyzer
from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...structural import structural_equal
from ...tir.expr import IntImm, Mul
from ...tir.expr import Var as TirVar
from ...tir.function import PrimFunc
from ...tir.operators import const
from ...tir.stmt_functor import substitute
from ...transform import PassContext
from ..analysis.binding import leaves, used_vars
from ..analysis.memory import Aliases, MemoryAnalysis
from ..expr import (
    BindingBlock,
    Call,
    DataTypeImm,
    Expr,
    If,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    is_call_to,
)
from ..expr_functor import ExprMutator
from ..function import ExternFunc, Function
from ..struct_info import ShapeStructInfo
from ..symbolic_vars import defined_symbolic_vars
from .function_pass import FunctionPass
from .memory_plan import Lifetime, plan_memory

_RANGE = 16
"""Storage is reused for a tensor at most this many times smaller or larger."""


@dataclass(eq=False)
class _Storage:
    """What storage must hold, in bytes (a symbolic number is an expression), and its variable once it is emitted."""

    size: Any
    dtype: str
    home: tuple[int, str]
    """The device and the scope."""
    var: Var | None = None


@dataclass(frozen=True)
class _Place:
    """Where a tensor begins."""

    storage: _Storage
    offset: int


@dataclass(frozen=True)
class _Tensor:
    """An allocation that stays inside of its block."""

    var: Var
    size: Any
    dtype: str
    home: tuple[int, str]
    lifetime: Lifetime


class _Lifetimes:
    """Where the tensors that a block allocates end, by their variable; those that leave the block have no end."""

    def __init__(
        self,
        block: BindingBlock,
        used_outside: set[Expr],
        mod: IRModule,
        analysis: MemoryAnalysis,
        aliases: Aliases,
    ) -> None:
        self.last: dict[Var, int] = {}
        self._mod = mod
        self._analysis = analysis
        self._aliases = aliases
        self._unused: set[Var] = set()
        """Tensors that nobody has written yet."""
        leaving: set[Var] = set()
        for number, binding in enumerate(block.bindings):
            value: Expr = binding.value  # type: ignore[attr-defined]
            if is_call_to(value, "relax.builtin.alloc_tensor"):
                self.last[binding.var] = number
                self._unused.add(binding.var)
                continue
            used = self._allocations(used_vars(value))
            self.last.update(dict.fromkeys(used, number))
            if not self._only_uses(value):
                leaving |= used
            self._unused -= used
        leaving |= self._allocations(binding.var for binding in block.bindings if binding.var in used_outside)
        for var in leaving:
            self.last.pop(var)

    def _allocations(self, variables: Iterable[Var]) -> set[Var]:
        """Those of the block's tensors that the variables may be in the memory of."""
        owners = {root.owner for var in variables for root in self._aliases.roots(var)}
        return {owner for owner in owners if owner in self.last}

    def _only_uses(self, value: Expr) -> bool:
        """Whether nobody can reach a tensor by way of a value but through the variable that it is bound to."""
        if not isinstance(value, Call):
            return isinstance(
                value, Var | Tuple | TupleGetItem
            )  # branches and local functions are not looked into
        effect = self._analysis.effect_of(value)
        if isinstance(value.op, Op):
            lowered = value.op.get_attr("FLegalize") is None or bool(effect.views)
            return lowered and not effect.opaque
        if isinstance(value.op, ExternFunc):
            # a function that is given memory to fill keeps nothing; any other may keep what it is given
            return not effect.opaque and (
                self._analysis.is_declared(value) or any(arg in self._unused for arg in value.args)
            )
        is_kernel = isinstance(value.op, GlobalVar) and isinstance(
            self._mod.functions.get(value.op), PrimFunc
        )
        return is_kernel or not effect.effect


class _Planner(ExprMutator):
    def __init__(self, mod: IRModule, bounds: Mapping[TirVar, int], arena: bool) -> None:
        super().__init__(mod)
        self._mod = mod
        self._bounds = bounds
        self._arena = arena
        self._used_outside: set[Expr] = set()
        self._analysis = MemoryAnalysis(mod)
        self._aliases: Aliases | None = None
        self._analyzer = Analyzer()
        self._sizes: dict[tuple[Any, ...], Any] = {}
        """Bytes by dtype and the identities of the extents, which the function holds."""
        self._places: dict[Var, _Place] = {}
        """Of the tensors that get shared storage, by their variable."""

    def visit_function_(self, expr: Any) -> Any:
        outer = self._aliases
        self._aliases = self._analysis.aliases(expr)
        try:
            return super().visit_function_(expr)
        finally:
            self._aliases = outer

    def visit_seq_expr_(self, expr: Any) -> Any:
        outer = self._used_outside
        self._used_outside = outer | _used_across_blocks(expr)
        try:
            return super().visit_seq_expr_(expr)
        finally:
            self._used_outside = outer

    def visit_bindings(self, block: BindingBlock) -> None:
        self._plan(block)
        super().visit_bindings(block)

    def _plan(self, block: BindingBlock) -> None:
        assert self._aliases is not None
        last = _Lifetimes(block, self._used_outside, self._mod, self._analysis, self._aliases).last
        tensors: list[_Tensor] = []
        for number, binding in enumerate(block.bindings):
            var = binding.var
            alloc: Any = binding.value  # type: ignore[attr-defined]
            size = self._size(alloc) if var in last else None
            if size is not None:
                home = (_device(alloc), _scope(alloc))
                tensors.append(_Tensor(var, size, alloc.args[1].value, home, Lifetime(number, last[var])))
        if self._arena:
            self._places.update(_in_one_arena([item for item in tensors if isinstance(item.size, int)]))
            tensors = [item for item in tensors if not isinstance(item.size, int)]
        self._places.update(_in_shared_storage(tensors))

    def visit_var_binding_(self, binding: Any) -> None:
        place = self._places.get(binding.var)
        if place is None:
            super().visit_var_binding_(binding)
            return
        storage = place.storage
        alloc = binding.value
        if storage.var is None:
            args = (
                ShapeExpr([storage.size]),
                PrimValue(storage.home[0]),
                StringImm(storage.home[1]),
                DataTypeImm(storage.dtype),
            )
            storage.var = self.builder_.emit(Call(Op.get("relax.memory.alloc_storage"), args), "storage")
        operands = (storage.var, PrimValue(place.offset), self.visit_expr(alloc.args[0]), alloc.args[1])
        tensor = Call(
            Op.get("relax.memory.alloc_tensor"), operands, None, None, alloc.span, binding.var.struct_info_
        )
        self.reemit_binding(binding, tensor)

    def _size(self, alloc: Any) -> Any:
        """Bytes of a tensor, by upper bounds of symbolic extents; an expression where there are none, None if unknown."""
        shape, dtype = alloc.args[:2]
        values = shape.values if isinstance(shape, ShapeExpr) else None
        if values is None and isinstance(shape.struct_info_, ShapeStructInfo):
            values = shape.struct_info_.values
        if values is None:
            return None
        key = (dtype.value, *map(id, values))
        if key not in self._sizes:
            self._sizes[key] = self._n_bytes(dt.bytes_of(dtype.value), values)
        return self._sizes[key]

    def _n_bytes(self, bytes_each: int, values: tuple[Any, ...]) -> Any:
        extents = [substitute(value, self._bounds) for value in values] if self._bounds else values
        known = [extent.value for extent in extents if isinstance(extent, IntImm)]
        if len(known) == len(extents):
            return math.prod(known, start=bytes_each)
        total: Any = const(bytes_each, "int64")
        for extent in extents:
            total = total * extent
        total = self._analyzer.simplify(total)
        if isinstance(total, IntImm):
            return total.value
        if isinstance(total, Mul) and isinstance(total.b, IntImm):
            return Mul(total.b, total.a)
        return total


def _device(alloc: Any) -> int:
    return int(alloc.args[2].value.value) if len(alloc.args) > 2 else 0


def _scope(alloc: Any) -> str:
    return str(alloc.args[3].value) if len(alloc.args) > 3 else "global"


def _in_shared_storage(tensors: list[_Tensor]) -> dict[Var, _Place]:
    """Storage for each tensor, first come first served, from what is free at that point."""
    places: dict[Var, _Place] = {}
    free: list[_Storage] = []
    busy: list[tuple[int, int, _Storage]] = []
    for number, tensor in enumerate(tensors):
        ended = sorted((item for item in busy if item[0] < tensor.lifetime.first), key=lambda item: item[:2])
        for item in ended:
            busy.remove(item)
            free.append(item[2])
        storage = _reused(free, tensor) or _Storage(tensor.size, tensor.dtype, tensor.home)
        busy.append((tensor.lifetime.last, number, storage))
        places[tensor.var] = _Place(storage, 0)
    return places


def _in_one_arena(tensors: list[_Tensor]) -> dict[Var, _Place]:
    """One storage per device and scope, and an offset in it for each tensor."""
    places: dict[Var, _Place] = {}
    for home in dict.fromkeys(tensor.home for tensor in tensors):
        group = [tensor for tensor in tensors if tensor.home == home]
        plan = plan_memory([(tensor.size, tensor.lifetime) for tensor in group])
        arena = _Storage(plan.arena_bytes, "uint8", home)
        for tensor, offset in zip(group, plan.offsets, strict=True):
            places[tensor.var] = _Place(arena, offset)
    return places


def _reused(free: list[_Storage], tensor: _Tensor) -> _Storage | None:
    size = tensor.size
    fitting = [item for item in free if item.dtype == tensor.dtype and item.home == tensor.home]
    if not isinstance(size, int):
        # Symbolic sizes are not ordered: only storage of the very size will do.
        chosen = next((item for item in fitting if structural_equal(item.size, size)), None)
        if chosen is not None:
            free.remove(chosen)
        return chosen
    known = [item for item in fitting if isinstance(item.size, int)]
    larger = [item for item in known if size <= item.size <= size * _RANGE]
    smaller = [item for item in known if size // _RANGE <= item.size < size]
    chosen = (
        min(larger, key=lambda item: item.size)
        if larger
        else max(smaller, key=lambda item: item.size)
        if smaller
        else None
    )
    if chosen is not None:
        free.remove(chosen)
        chosen.size = max(chosen.size, size)
    return chosen


def _used_across_blocks(seq: SeqExpr) -> set[Expr]:
    """Variables that another block, a branch or local function, or the result uses."""
    home: dict[Expr, BindingBlock] = {}
    used: set[Expr] = set()

    def use(expr: Expr, here: BindingBlock | None) -> None:
        if isinstance(expr, If):
            use(expr.cond, here)
            use(expr.true_branch, None)
            use(expr.false_branch, None)
            return
        if isinstance(expr, Function):
            here = None
        used.update([leaf for leaf in leaves(expr) if home.get(leaf, here) is not here])

    for block in seq.blocks:
        for binding in block.bindings:
            home[binding.var] = block
            use(binding.value, block)  # type: ignore[attr-defined]
    use(seq.body, None)
    return used


def upper_bounds(func: Function) -> dict[TirVar, int]:
    """Bounds of symbolic variables in the signature, from the attribute ``tir_var_upper_bound``."""
    given = func.attrs.get("tir_var_upper_bound")
    if not given:
        return {}
    values: dict[str, Any] = dict(given)
    named = {name: int(getattr(value, "value", value)) for name, value in values.items()}  # type: ignore[arg-type]
    return {var: named[var.name] for var in defined_symbolic_vars(func) if var.name in named}


@dataclass(frozen=True)
class StaticPlanBlockMemory(FunctionPass):
    """Replace ``R.builtin.alloc_tensor`` of tensors that stay inside a block by tensors in shared storage.

    Before::

        alloc = R.builtin.alloc_tensor(R.shape([2, 4]), R.dtype("float32"), R.prim_value(0))
        _ = cls.exp(x, alloc)
        alloc1 = R.builtin.alloc_tensor(R.shape([8]), R.dtype("float32"), R.prim_value(0))
        ...

    After::

        storage = R.memory.alloc_storage(R.shape([32]), R.prim_value(0), R.str("global"), R.dtype("float32"))
        alloc = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([2, 4]), R.dtype("float32"))
        _ = cls.exp(x, alloc)
        ...

    Symbolic extents are planned by upper bounds: ``R.func_attr({"tir_var_upper_bound": {"n": 1024}})``; without a bound,
    tensors share storage when their sizes are the same expression. What the function returns keeps its allocation.

    Args:
        arena: put all tensors whose size is known into one storage, at offsets that :mod:`.memory_plan` chooses (what
            :func:`ir.relax.build` asks for; it needs less memory)::

                storage = R.memory.alloc_storage(R.shape([96]), R.prim_value(0), R.str("global"), R.dtype("uint8"))
                alloc = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([2, 4]), R.dtype("float32"))
                _ = cls.exp(x, alloc)
                alloc1 = R.memory.alloc_tensor(storage, R.prim_value(64), R.shape([8]), R.dtype("float32"))
    """

    arena: bool = False

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with planned memory."""
        new: Function = _Planner(mod, upper_bounds(func), self.arena).visit_expr(func)
        return new


__all__ = ["StaticPlanBlockMemory", "upper_bounds"]
