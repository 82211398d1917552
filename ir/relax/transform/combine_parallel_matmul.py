"""CombineParallelMatmul: products of one matrix with several become one product with all of them side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...module import IRModule
from ...tir.expr import IntImm
from ...transform import PassContext
from .. import op
from ..analysis.binding import get_var2val, use_counts
from ..expr import (
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    Expr,
    TupleGetItem,
    Var,
    VarBinding,
    is_call_to,
)
from ..expr_functor import ExprMutator
from ..function import Function
from ..op.declaration import OpPatternKind, declaration_of
from ..struct_info_lattice import can_prove_shape_equal
from .function_pass import FunctionPass
from .matmul_rewrites import shape_values

Check = Callable[[Var, list[Var], list[Var], dict[Var, Expr]], bool]


def _is_activation(call: Any) -> bool:
    """Whether an operator computes each element from the one at the same place, so that it may run on all products at once."""
    declared = declaration_of(call.op)
    elementwise = declared is not None and declared.pattern == OpPatternKind.kElemWise
    return elementwise and len(call.args) == 1 and not call.attrs


@dataclass
class _Branch:
    """``activation(x @ rhs + bias)``, the last two of them optional.

    ``chain`` are the variables from the product to the result.
    """

    rhs: Expr
    chain: list[Var]
    bias: Expr | None = None
    activation: Call | None = None


@dataclass
class _Combination:
    lhs: Expr
    branches: list[_Branch] = field(default_factory=list)


class _Finder:
    """Finds combinations in one block."""

    def __init__(
        self, block: BindingBlock, counts: dict[Var, int], check: Check | None, bindings: dict[Var, Expr]
    ) -> None:
        self._order = {binding.var: number for number, binding in enumerate(block.bindings)}
        self._block = block
        self._counts = counts
        self._check = check
        self._bindings = bindings
        self._users: dict[Var, list[VarBinding]] = {}
        for binding in block.bindings:
            if isinstance(binding, VarBinding) and isinstance(binding.value, Call):
                for arg in binding.value.args:
                    if isinstance(arg, Var):
                        self._users.setdefault(arg, []).append(binding)

    def find(self) -> list[_Combination]:
        groups: dict[Any, list[VarBinding]] = {}
        for binding in self._block.bindings:
            if isinstance(binding, VarBinding) and is_call_to(binding.value, "relax.matmul"):
                lhs, rhs = binding.value.args  # type: ignore[attr-defined]
                shape = shape_values(rhs)
                if shape is not None and len(shape) >= 2 and isinstance(shape[-1], IntImm):
                    out_dtype = binding.value.attrs.get("out_dtype")  # type: ignore[attr-defined]
                    groups.setdefault((id(lhs), len(shape), rhs.struct_info_.dtype, out_dtype), []).append(
                        binding
                    )
        found = []
        for members in groups.values():
            combination = self._combination(members)
            if combination is not None:
                found.append(combination)
        return found

    def _available(self, expr: Expr, before: int) -> bool:
        return isinstance(expr, Constant) or (isinstance(expr, Var) and self._order.get(expr, -1) < before)

    def _combination(self, members: list[VarBinding]) -> _Combination | None:
        first = self._order[members[0].var]
        lhs = members[0].value.args[0]  # type: ignore[attr-defined]
        reference = shape_values(members[0].value.args[1])  # type: ignore[attr-defined]
        usable = []
        for member in members:
            rhs = member.value.args[1]  # type: ignore[attr-defined]
            shape = shape_values(rhs)
            if self._available(rhs, first) and can_prove_shape_equal(shape[:-2], reference[:-2]):  # type: ignore[index]
                usable.append(member)
        if len(usable) < 2:
            return None
        branches = [_Branch(member.value.args[1], [member.var]) for member in usable]  # type: ignore[attr-defined]
        self._take_biases(branches, first)
        self._take_activations(branches)
        if self._check is not None:
            biases = [branch.bias for branch in branches if isinstance(branch.bias, Var)]
            rhs_vars = [branch.rhs for branch in branches]
            if not self._check(lhs, rhs_vars, biases, self._bindings):  # type: ignore[arg-type]
                return None
        return _Combination(lhs, branches)

    def _only_user(self, var: Var) -> VarBinding | None:
        users = self._users.get(var, [])
        return users[0] if len(users) == 1 and self._counts.get(var) == 1 else None

    def _take_biases(self, branches: list[_Branch], first: int) -> None:
        found = []
        for branch in branches:
            user = self._only_user(branch.chain[-1])
            if (
                user is None
                or not is_call_to(user.value, "relax.add")
                or user.value.args[0] is not branch.chain[-1]  # type: ignore[attr-defined]
            ):
                return
            bias = user.value.args[1]  # type: ignore[attr-defined]
            shape = shape_values(bias)
            columns = shape_values(branch.rhs)[-1]  # type: ignore[index]
            if shape is None or len(shape) != 1 or not can_prove_shape_equal(shape, (columns,)):
                return
            if not self._available(bias, first):
                return
            found.append((user.var, bias))
        for branch, (var, bias) in zip(branches, found, strict=True):
            branch.bias = bias
            branch.chain.append(var)

    def _take_activations(self, branches: list[_Branch]) -> None:
        users = [self._only_user(branch.chain[-1]) for branch in branches]
        if any(user is None for user in users):
            return
        names = {getattr(getattr(user.value, "op", None), "name", "") for user in users if user is not None}
        if len(names) == 1 and all(user is not None and _is_activation(user.value) for user in users):
            for branch, user in zip(branches, users, strict=True):
                assert user is not None
                branch.activation = user.value  # type: ignore[assignment]
                branch.chain.append(user.var)


class _Combiner(ExprMutator):
    def __init__(self, mod: IRModule, func: Function, check: Check | None) -> None:
        super().__init__(mod)
        self._check = check
        self._counts = use_counts(func)
        self._bindings = get_var2val(func)

    def visit_bindings(self, block: BindingBlock) -> None:
        if not isinstance(block, DataflowBlock):
            super().visit_bindings(block)
            return
        combinations = _Finder(block, self._counts, self._check, self._bindings).find()
        start = {item.branches[0].chain[0]: item for item in combinations}
        inner = {var for item in combinations for branch in item.branches for var in branch.chain}
        results: dict[Var, tuple[_Combination, int]] = {
            branch.chain[-1]: (item, number)
            for item in combinations
            for number, branch in enumerate(item.branches)
        }
        pieces: dict[int, Var] = {}
        for binding in block.bindings:
            if binding.var in start:
                pieces[id(start[binding.var])] = self._emit_combined(start[binding.var])
            if binding.var in results:
                item, number = results[binding.var]
                self.reemit_binding(binding, TupleGetItem(pieces[id(item)], number))  # type: ignore[arg-type]
            elif binding.var not in inner:
                self.visit_binding(binding)

    def _emit_combined(self, item: _Combination) -> Var:
        lhs = self.visit_expr(item.lhs)
        weights = [self.visit_expr(branch.rhs) for branch in item.branches]
        ndim = len(shape_values(weights[0]) or ())
        combined = self.builder_.emit(op.concat(weights, axis=ndim - 1))
        first = self._bindings[item.branches[0].chain[0]]
        dtype = first.attrs.get("out_dtype") or item.branches[0].chain[0].struct_info.dtype  # type: ignore[attr-defined]
        value: Expr = self.builder_.emit(op.matmul(lhs, combined, None if dtype == "void" else dtype))
        if item.branches[0].bias is not None:
            bias = self.builder_.emit(
                op.concat([self.visit_expr(branch.bias) for branch in item.branches], axis=0)
            )
            value = self.builder_.emit(op.add(value, bias))
        activation = item.branches[0].activation
        if activation is not None:
            value = self.builder_.emit(Call(activation.op, (value,), activation.attrs))
        sections, total = [], 0
        for weight in weights[:-1]:
            total += int(shape_values(weight)[-1].value)  # type: ignore[index]
            sections.append(total)
        return self.builder_.emit(op.split(value, sections, axis=(value.struct_info.ndim - 1)))


@dataclass(frozen=True)
class CombineParallelMatmul(FunctionPass):
    """Combine matrix products that share their left operand, with equal epilogues (bias, activation), and split the result.

    Before::

        lv0 = R.matmul(x, w0)
        lv1 = R.matmul(x, w1)

    After::

        lv = R.concat((w0, w1), axis=1)
        lv2 = R.matmul(x, lv)
        lv3 = R.split(lv2, indices_or_sections=[640], axis=1)
        lv0 = lv3[0]
        lv1 = lv3[1]

    Args:
        check: ``(input, [right operands], [biases], bindings) -> bool`` refuses combinations.
    """

    check: Check | None = None

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with combined products."""
        return _Combiner(mod, func, self.check).visit_expr(func)
