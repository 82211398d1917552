"""FuseAttention: scores, their softmax and the product with the values become one kernel, where the scores would not stay in the caches.

Frameworks export attention as the operators that it is made of. Of long sequences the scores are by far the largest tensor; kernel by
kernel they are written, read for their maxima, for their sums, for the shares and for the product. In one kernel a tile of rows keeps
them in the caches, or a tile of keys with sums of its own (the schedule rule ``ReductionChain``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from ... import dtype as dt
from ...expr import GlobalVar
from ...module import IRModule
from ...target.target import Target
from ...tir.expr import FloatImm, IntImm
from ...tir.function import PrimFunc
from ...topi.nn.softmax import softmax_matmul
from ...transform import ModulePass, PassContext
from ..analysis.binding import use_counts
from ..analysis.memory import MemoryAnalysis
from ..expr import (
    Call,
    DataflowBlock,
    DataflowVar,
    Expr,
    PrimValue,
    ShapeExpr,
    Var,
    VarBinding,
    is_call_to,
)
from ..expr_functor import ExprMutator
from ..function import Function
from ..op.base import call_tir
from ..op.declaration import OpPatternKind, declaration_of
from ..struct_info_lattice import can_prove_shape_equal
from ..te_conversion import gen_call_tir_inputs
from .grouping import Group, GroupRewriter, NameTable, op_name
from .matmul_rewrites import shape_values

_Before = Callable[[Expr], VarBinding | None]
"""The binding of an operand that nothing else uses."""

_MOST_STEPS = 16
"""Elementwise operators between scores and softmax at most: scales, masks, biases."""


@dataclass(frozen=True)
class FuseAttention(ModulePass):
    """Merge ``softmax(f(q @ k)) @ v`` into a ``Primitive`` function, in which the division by the sums comes behind the last product.

    Runs before LegalizeOps, and not where the PassContext says ``"relax.transform.apply_legalize_ops": False``. ``f`` are elementwise
    operators with tensors of any kind: a scale, a mask. What lies between the operators is used by the next one alone, extents are
    known, numbers are float32 or float64, the softmax is along the last axis, and the scores are larger than the caches that the
    target's cores have for themselves.

    Before::

        with R.dataflow():
            lv = R.matmul(q, k)
            lv1 = R.add(lv, mask)
            lv2 = R.nn.softmax(lv1, axis=-1)
            gv = R.matmul(lv2, v)
            R.output(gv)

    After::

        @R.function(private=True)
        def fused_matmul_add_nn_softmax_matmul(q, k, mask, v):
            R.func_attr({"Primitive": True})
            with R.dataflow():
                lv = R.matmul(q, k)
                lv1 = R.add(lv, mask)
                gv = R.call_tir(cls.softmax_matmul, (lv1, v), R.Tensor((1, 6, 1500, 64), "float32"))
                R.output(gv)
            return gv

    Args:
        min_bytes: merge where the scores are larger; 0 takes the second caches of the current target's cores. Without a target, and for
            a GPU, nothing is merged.
    """

    min_bytes: int = 0

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with merged attention."""
        target = Target.current(allow_none=True)
        if target is None or target.is_gpu or not ctx.get("relax.transform.apply_legalize_ops", True):
            return mod
        min_bytes = self.min_bytes or target.l2_cache_bytes * target.num_cores
        memory = MemoryAnalysis(mod)
        result, names = mod.clone(), NameTable(mod)
        for var, func in list(mod.functions.items()):
            if not isinstance(func, Function) or {"Codegen", "Composite", "Primitive"} & set(func.attrs):
                continue
            groups = _groups_of(func, memory, min_bytes)
            if groups:
                result.functions[var] = _Rewriter(result, groups, func, names).visit_expr(func)
        return result


def _groups_of(func: Function, memory: MemoryAnalysis, min_bytes: int) -> list[Group]:
    """The attentions of a function, each from the product of the scores to the product with the values."""
    counts, aliases = use_counts(func), memory.aliases(func)
    groups = []
    for block in func.body.blocks:
        if not isinstance(block, DataflowBlock):
            continue
        made: dict[Var, VarBinding] = {}
        for binding in block.bindings:
            if not isinstance(binding, VarBinding):
                continue
            chain = _chain_to(binding, made, counts)
            if chain and _bytes_of(chain[0]) > min_bytes:
                used = [arg for item in chain for arg in item.value.args]  # type: ignore[attr-defined]
                if not aliases.is_written(*used):
                    name = "_".join(["fused", *[op_name(item.value) for item in chain]])
                    groups.append(Group(chain, name, {"Primitive": True}, keeps_scalars=True))
                    continue  # its product is no other attention's scores
            if isinstance(binding.var, DataflowVar):
                made[binding.var] = binding
    return groups


def _chain_to(
    mix: VarBinding, made: dict[Var, VarBinding], counts: dict[Var, int]
) -> list[VarBinding] | None:
    """The bindings from scores to the product with the values; None where a binding is no such product."""

    def before(operand: Expr) -> VarBinding | None:
        return made.get(operand) if isinstance(operand, Var) and counts.get(operand) == 1 else None

    if not _is_plain_product(mix.value):
        return None
    softmax = before(mix.value.args[0])  # type: ignore[attr-defined]
    if softmax is None or not is_call_to(softmax.value, "relax.nn.softmax"):
        return None
    shape, values = shape_values(softmax.var), shape_values(mix.value.args[1])  # type: ignore[attr-defined]
    if shape is None or values is None or not can_prove_shape_equal(shape[:-2], values[:-2]):
        return None
    if softmax.value.attrs["axis"] not in (-1, len(shape) - 1):  # type: ignore[attr-defined]
        return None
    scores = before(softmax.value.args[0])  # type: ignore[attr-defined]
    steps = _steps_to(scores, shape, before, _MOST_STEPS) if scores is not None else None
    return None if steps is None else [*steps, softmax, mix]


def _steps_to(
    binding: VarBinding, shape: tuple[Any, ...], before: _Before, most: int
) -> list[VarBinding] | None:
    """A product of matrices and at most so many elementwise steps that make a value of it, which is one operand of each."""
    call = binding.value
    if _is_plain_product(call):
        return [binding]
    declared = declaration_of(call.op) if isinstance(call, Call) else None
    if not most or not isinstance(call, Call) or declared is None or declared.pattern is None:
        return None
    if declared.pattern > OpPatternKind.kBroadcast or not _is_float(binding.var):
        return None
    if not all(map(_is_known, call.args)):
        return None
    operands = [item for item in map(before, call.args) if item is not None]
    same = [item for item in operands if shape_values(item.var) == shape]
    found = [steps for item in same if (steps := _steps_to(item, shape, before, most - 1)) is not None]
    return [*found[0], binding] if len(found) == 1 else None


def _is_plain_product(value: Expr) -> bool:
    """Whether a value is a product of matrices of float32 or float64, in that dtype, of known extents."""
    if not is_call_to(value, "relax.matmul"):
        return False
    operands = [*value.args, value]  # type: ignore[attr-defined]
    dtypes = {item.struct_info_.dtype for item in operands}
    return (
        len(dtypes) == 1
        and all(map(_is_float, operands))
        and all(map(_has_known_extents, operands))
        and all(item.struct_info_.ndim >= 2 for item in operands)
    )


def _is_known(operand: Expr) -> bool:
    """Whether an operand is a tensor of known extents or literal numbers; those of the caller would be one more kind of argument."""
    if isinstance(operand, PrimValue | ShapeExpr):
        numbers = operand.values if isinstance(operand, ShapeExpr) else [operand.value]
        return all(isinstance(number, IntImm | FloatImm) for number in numbers)
    return _has_known_extents(operand)


def _has_known_extents(operand: Expr) -> bool:
    """Whether an operand is a tensor of known extents."""
    shape = shape_values(operand)
    return shape is not None and all(isinstance(n, IntImm) for n in shape)


def _is_float(expr: Expr) -> bool:
    """Whether sums in the dtype of the numbers are as good as those that a softmax takes."""
    return expr.struct_info_.dtype in ("float32", "float64")  # type: ignore[union-attr]


def _bytes_of(scores: VarBinding) -> int:
    extents = shape_values(scores.var) or ()
    return prod(n.value for n in extents) * dt.bytes_of(scores.var.struct_info_.dtype)  # type: ignore[union-attr]


class _Rewriter(GroupRewriter):
    """Calls of the merged functions, which divide last."""

    def _add(self, group: Group, function: Function) -> Any:
        return super()._add(group, _DivideLast(self._add_kernel).visit_expr(function))

    def _add_kernel(self, kernel: PrimFunc) -> GlobalVar:
        return self._names_free.add(self._result, softmax_matmul.__name__, kernel)


class _DivideLast(ExprMutator):
    """Replaces a softmax and the product behind it by one kernel, which divides the product by the sums."""

    def __init__(self, add_kernel: Callable[[PrimFunc], GlobalVar]) -> None:
        super().__init__()
        self._add_kernel = add_kernel
        self._scores: dict[Var, Expr] = {}

    def visit_var_binding_(self, binding: Any) -> None:
        call = binding.value
        if is_call_to(call, "relax.nn.softmax"):
            self._scores[binding.var] = self.visit_expr(call.args[0])
        elif is_call_to(call, "relax.matmul") and call.args[0] in self._scores:
            operands = self._scores[call.args[0]], self.visit_expr(call.args[1])
            kernel, tensors, result, _ = gen_call_tir_inputs(softmax_matmul, *operands)
            self.reemit_binding(binding, call_tir(self._add_kernel(kernel), tensors, result))
        else:
            super().visit_var_binding_(binding)
