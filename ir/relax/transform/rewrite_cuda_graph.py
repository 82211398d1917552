"""RewriteCUDAGraph: what runs the same way on every call becomes functions that CUDA graphs can hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...tir.expr import FloatImm, IntImm
from ...tir.expr import Var as TirVar
from ...tir.function import PrimFunc
from ...transform import ModulePass, PassContext
from ..analysis.binding import used_vars
from ..analysis.memory import MemoryAnalysis, returns_nothing
from ..bind import bind
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    Expr,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    is_call_to,
)
from ..expr_functor import ExprMutator
from ..function import ExternFunc, Function
from ..op.memory_effect import view_of
from ..struct_info import ShapeStructInfo, StructInfo
from ..symbolic_vars import definable_tir_vars_in_struct_info, tir_vars_in
from .grouping import NameTable

_FORCE_PURE = {"relax.force_pure": True}
CAPTURE_SYMBOLIC_VARS = "relax.rewrite_cuda_graph.capture_symbolic_vars"
"""Attribute of a function: names of symbolic variables; there is a CUDA graph for each of their values that calls come with."""


def _values(func: Function) -> list[tuple[Var, Expr]]:
    """The bindings of the function's own blocks, in order."""
    return [
        (binding.var, binding.value)  # type: ignore[attr-defined]
        for block in func.body.blocks
        for binding in block.bindings
    ]


def _is_static_shape(expr: Expr, captured: Collection[TirVar] = ()) -> bool:
    """Whether all extents are numbers, where variables that calls are captured by count as numbers."""
    return isinstance(expr, ShapeExpr) and all(set(tir_vars_in(dim)) <= set(captured) for dim in expr.values)


def _captured_vars(func: Function) -> list[TirVar]:
    """The symbolic variables by whose values calls are captured, as the function's attribute names them."""
    names = [str(getattr(name, "value", name)) for name in func.attrs.get(CAPTURE_SYMBOLIC_VARS) or ()]
    infos = [param.struct_info_ for param in func.params]
    known = {
        var.name: var for info in infos if info is not None for var in definable_tir_vars_in_struct_info(info)
    }
    unknown = [name for name in names if name not in known]
    if unknown:
        raise IRValueError(
            f"RewriteCUDAGraph: {CAPTURE_SYMBOLIC_VARS} names {unknown[0]!r}, which no parameter defines; they define"
            f" {', '.join(known) or 'none'}"
        )
    return [known[name] for name in names]


def _lifted_storage(func: Function, memory: MemoryAnalysis) -> list[Var]:
    """Storage of static size that does not leave the function: nobody keeps what is made in it."""
    aliases = memory.aliases(func)
    candidates = [
        var
        for var, value in _values(func)
        if is_call_to(value, "relax.memory.alloc_storage") and _is_static_shape(value.args[0])  # type: ignore[attr-defined]
    ]
    leaving = set(aliases.roots(func.body.body))
    for _, value in _values(func):
        if isinstance(value, Call) and memory.effect_of(value).opaque:  # it may keep what it is given
            for arg in value.args:
                leaving |= aliases.roots(arg)
    owners = {root.owner for root in leaving}
    return [var for var in candidates if var not in owners]


class _Region:
    """Neighbouring bindings that one CUDA graph holds."""

    def __init__(self) -> None:
        self.bindings: list[Binding] = []
        self.launches = 0
        """How many bindings belong to the region: up to its last kernel."""

    def close(self) -> list[Binding]:
        """The bindings up to the last kernel."""
        return self.bindings[: self.launches]


def _regions(func: Function, mod: IRModule, lifted: set[Var]) -> list[list[Binding]]:
    """The runs of kernels whose arguments are the same memory on every call."""
    count = func.attrs.get("num_input")
    captured = set(_captured_vars(func))
    static: set[Any] = set(lifted)
    if count is not None:
        static.update(func.params[int(getattr(count, "value", count)) :])

    def is_static(expr: Any) -> bool:
        if isinstance(expr, Var):
            return expr in static
        if isinstance(expr, Tuple):
            return all(map(is_static, expr.fields))
        if isinstance(expr, ShapeExpr):
            return _is_static_shape(expr, captured)
        if isinstance(expr, PrimValue):
            return isinstance(expr.value, IntImm | FloatImm) or set(tir_vars_in(expr.value)) <= captured
        return isinstance(expr, Constant)

    found: list[list[Binding]] = []
    region = _Region()
    for block in func.body.blocks:
        for binding in [*block.bindings, None]:
            value: Any = getattr(binding, "value", None)
            if binding is not None and binding.var in lifted:
                continue
            launch = isinstance(value, Call) and _is_kernel(value, mod) and all(map(is_static, value.args))
            if binding is not None and (launch or _keeps_memory(value, is_static, captured)):
                if not launch:
                    static.add(binding.var)
                if launch or region.bindings:
                    region.bindings.append(binding)
                    region.launches = len(region.bindings) if launch else region.launches
                continue
            if region.launches:
                found.append(region.close())
            region = _Region()
    return found


def _is_kernel(call: Call, mod: IRModule) -> bool:
    if isinstance(call.op, ExternFunc):
        # what is declared is no kernel: the machine's own functions, which check or print
        return returns_nothing(call) and not MemoryAnalysis(mod).is_declared(call)
    return isinstance(call.op, GlobalVar) and isinstance(mod.functions.get(call.op), PrimFunc)


def _keeps_memory(value: Any, is_static: Callable[[Any], bool], captured: Collection[TirVar]) -> bool:
    """Whether a value is static memory under another name or shape."""
    if is_call_to(value, "relax.memory.alloc_tensor"):
        return is_static(value.args[0]) and _is_static_shape(value.args[2], captured)
    if isinstance(value, Call) and MemoryAnalysis().effect_of(value) == view_of(0):
        return all(map(is_static, value.args))
    if isinstance(value, TupleGetItem):
        return is_static(value.tuple_value)
    return isinstance(value, Var | Tuple) and is_static(value)


def _function(params: list[Var], bindings: list[Binding], results: list[Var]) -> Function:
    """A function that returns the tuple of the results."""
    value = Tuple(results)
    result = Var("gv", value.struct_info_)
    seq = SeqExpr((BindingBlock([*bindings, VarBinding(result, value)]),), result, result.struct_info_)
    return Function(params, seq, result.struct_info_, True, _FORCE_PURE)


class _Rewriter(ExprMutator):
    def __init__(
        self, result: IRModule, func: Function, names: NameTable, numbers: dict[str, int], name: str
    ) -> None:
        super().__init__(result)
        self._result = result
        self._free = names
        self._numbers = numbers
        self._name = name
        self._func = func
        self._symbols = _captured_vars(func)
        self._lifted = _lifted_storage(func, MemoryAnalysis(result))
        self._region_of: dict[int, list[Binding]] = {}
        for region in _regions(func, result, set(self._lifted)):
            self._region_of.update({id(binding): region for binding in region})
        self._pool: Var | None = None

    @property
    def changes(self) -> bool:
        """Whether there is anything to lift."""
        return bool(self._lifted or self._region_of)

    def visit_bindings(self, block: BindingBlock) -> None:
        if isinstance(block, DataflowBlock):
            super().visit_bindings(block)
            return
        for binding in block.bindings:
            region = self._region_of.get(id(binding))
            if binding.var in self._lifted:
                self._take(binding)
            elif region is None:
                self.visit_binding(binding)
            elif binding is region[-1]:
                self._capture(region)

    def _call(
        self, builtin: str, args: list[Expr], info: StructInfo | None, kind: str, keys: Sequence[Expr] = ()
    ) -> Var:
        assert info is not None
        number = self._numbers.get(kind, 0)
        self._numbers[kind] = number + 1
        operands = (ExternFunc(builtin), Tuple([*args, PrimValue(number), *keys]))
        op = Op.get("relax.call_builtin_with_ctx")
        return self.builder_.emit(Call(op, operands, None, [info], None, info))

    def _take(self, binding: Any) -> None:
        """Bind lifted storage to its place in the storage that is allocated once."""
        if self._pool is None:
            wanted = set(self._lifted)
            fresh = {item: Var(item.name_hint, item.struct_info_) for item in self._lifted}
            bindings: list[Binding] = [
                VarBinding(fresh[item], value) for item, value in _values(self._func) if item in wanted
            ]
            function = _function([], bindings, [fresh[item] for item in self._lifted])
            callee = self._free.add(self._result, "cuda_graph_alloc", function)
            info = function.ret_struct_info
            self._pool = self._call("vm.builtin.cuda_graph.get_cached_alloc", [callee], info, "alloc")
        self.reemit_binding(binding, TupleGetItem(self._pool, self._lifted.index(binding.var)))

    def _capture(self, region: list[Binding]) -> None:
        """Call a function with the region's bindings in their place."""
        inside = [binding.var for binding in region]
        own = set(inside)
        params: dict[Var, None] = {}
        for binding in region:
            for used in used_vars(binding.value):  # type: ignore[attr-defined]
                if used not in own:
                    params.setdefault(used)
        members = {id(binding) for binding in region}
        outside = set(used_vars(self._func.body.body))
        for block in self._func.body.blocks:
            for binding in block.bindings:
                if id(binding) not in members:
                    outside.update(used_vars(binding.value))  # type: ignore[attr-defined]
        outputs = [binding for binding in region if binding.var in outside]
        renamed = {var: Var(var.name_hint, var.struct_info_) for var in [*params, *inside]}
        bindings: list[Binding] = [
            VarBinding(renamed[binding.var], bind(binding.value, renamed)) for binding in region
        ]
        results = [renamed[binding.var] for binding in outputs]
        given: list[Expr] = [self.visit_expr(var) for var in params]
        taken = [renamed[var] for var in params]
        depends: list[Any] = [binding.value for binding in region]  # type: ignore[attr-defined]
        depends += [var.struct_info_ for var in [*params, *inside]]
        mentioned = {var for item in depends for var in tir_vars_in(item)}
        symbols = ShapeExpr([var for var in self._symbols if var in mentioned])
        keys = [symbols] if symbols.values else []
        if keys:
            given.append(symbols)
            taken.append(Var("shape_expr", ShapeStructInfo(symbols.values)))
        function = _function(taken, bindings, results)
        callee = self._free.add(self._result, f"{self._name}_cuda_graph_capture", function)
        info = function.ret_struct_info
        done = self._call(
            "vm.builtin.cuda_graph.run_or_capture", [callee, Tuple(given)], info, "capture", keys
        )
        for index, binding in enumerate(outputs):
            self.reemit_binding(binding, TupleGetItem(done, index))  # type: ignore[arg-type]


@dataclass(frozen=True)
class RewriteCUDAGraph(ModulePass):
    """Lift allocations and runs of kernels that are the same on every call into functions for CUDA graphs.

    Storage of static size that stays inside the function is allocated once (``cuda_graph_alloc``). Kernels that only touch
    such storage, weights (the parameters behind ``num_input``) and constants are captured. The pass runs behind
    StaticPlanBlockMemory, and does nothing unless the pass context's ``relax.backend.use_cuda_graph`` is set.

    Shapes of symbolic variables that the attribute ``relax.rewrite_cuda_graph.capture_symbolic_vars`` of a function names (a list of names)
    count as static: the call is given their values besides, and there is a graph for each of these. Memory for them is static where it is
    planned by ``tir_var_upper_bound``.

    Before::

        storage = R.memory.alloc_storage(R.shape([32]), ...)
        a = R.memory.alloc_tensor(storage, ...)
        _ = cls.exp(x, a)
        _1 = cls.exp(a, a)
        _2 = cls.exp(a, y)

    After::

        gv = R.call_builtin_with_ctx("vm.builtin.cuda_graph.get_cached_alloc", (cls.cuda_graph_alloc, R.prim_value(0)), ...)
        storage = gv[0]
        a = R.memory.alloc_tensor(storage, ...)
        _ = cls.exp(x, a)
        gv1 = R.call_builtin_with_ctx(
            "vm.builtin.cuda_graph.run_or_capture", (cls.main_cuda_graph_capture, (a,), R.prim_value(0)), ...
        )
        _2 = cls.exp(a, y)
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with lifted functions."""
        if not ctx.get("relax.backend.use_cuda_graph"):
            return mod
        result = mod.clone()
        names = NameTable(mod)
        numbers: dict[str, int] = {}
        changed = False
        for var, func in list(mod.functions.items()):
            if not isinstance(func, Function) or func.attrs.get("Primitive") or "Codegen" in func.attrs:
                continue
            rewriter = _Rewriter(result, func, names, numbers, var.name_hint)
            if rewriter.changes:
                changed = True
                result.functions[var] = rewriter.visit_expr(func)
        return result if changed else mod


__all__ = ["RewriteCUDAGraph"]
