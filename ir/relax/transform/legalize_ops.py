"""LegalizeOps: turn calls of high-level operators into call_tir of PrimFuncs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ... import dtype as dt
from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...structural import array_key, structural_hash
from ...tir.expr import FloatImm, IntImm
from ...transform import ModulePass, PassContext
from ..block_builder import BlockBuilder
from ..expr import Call, Constant, Expr, PrimValue, SeqExpr, ShapeExpr, Tuple, Var, is_call_to
from ..expr_functor import ExprMutator
from ..function import ExternFunc
from ..op.base import call_pure_packed
from ..op.declaration import declaration_of
from ..op.requirement import unproved_requirements
from ..struct_info import ObjectStructInfo, ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo

LegalizeFunc = Callable[[BlockBuilder, Call], Expr]


def _shapes_known(info: StructInfo) -> bool:
    """Whether every tensor (and shape value) in it has known extents, as a PrimFunc needs."""
    if isinstance(info, TensorStructInfo):
        return info.shape_values is not None and bool(info.dtype)
    if isinstance(info, ShapeStructInfo):
        return info.values is not None
    if isinstance(info, TupleStructInfo):
        return all(_shapes_known(field) for field in info.fields)
    return True


class _Legalizer(ExprMutator):
    def __init__(
        self, mod: IRModule, custom: Mapping[str, LegalizeFunc], warn: bool, skip: frozenset[str]
    ) -> None:
        super().__init__(mod)
        self._custom = custom
        self._warn = warn
        self._skip = skip
        self._made: dict[Any, tuple[GlobalVar, tuple[int, ...]]] = {}
        """Kernels of operators on operands of equal shapes: most calls of a network repeat others."""

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        legalize = self._function_for(call)
        if legalize is None:
            if not isinstance(call.op, Op) or call.op.name in self._skip:
                return call
            packed, info = call.op.get_attr("FCallPacked"), call.struct_info
            if packed is None:
                return call
            if call.op.get_attr("FPurity"):
                return self.builder_.normalize(call_pure_packed(str(packed), *call.args, sinfo_args=[info]))
            return call.replace(op=ExternFunc(str(packed)), sinfo_args=(info,), struct_info_=info)
        for requirement in unproved_requirements(call, self.builder_):
            self.builder_.match_cast(*requirement.match_cast, "_")
        key, leaves = _call_key(call) if call.op.name not in self._custom else (None, [])
        if key is not None and key in self._made:
            kernel, positions = self._made[key]
            info = call.struct_info
            operands = (kernel, Tuple([leaves[position] for position in positions]))
            return Call(Op.get("relax.call_tir"), operands, None, [info], call.span, info)
        builder = self.builder_
        builder._begin_block(builder.current_block_is_dataflow())
        try:
            value = builder.normalize(legalize(builder, call))
        finally:
            block = builder._end_block()
        pending = list(block.bindings)
        while isinstance(value, SeqExpr):
            pending += [binding for inner in value.blocks for binding in inner.bindings]
            value = value.body
        value = _where_it_is(value, call.struct_info_)
        for binding in pending:
            # What a legalization emits may hold operators again.
            self.visit_binding(binding)
        if isinstance(value, Call) and value.op is not call.op and self._function_for(value) is not None:
            return self.visit_expr(value)
        if pending:
            return self.visit_expr_post_order(value)
        if key is not None and value.struct_info_ == call.struct_info_:
            taken = _positions(value, leaves)
            if taken is not None:
                self._made[key] = (value.args[0], taken)
        return value

    def _function_for(self, call: Call) -> LegalizeFunc | None:
        if not isinstance(call.op, Op):
            return None
        name = call.op.name
        if name in self._custom:
            return self._custom[name]
        if name in self._skip:
            return None
        found = call.op.get_attr("FLegalize")
        if found is None:
            declared = declaration_of(call.op)
            if self._warn and not (declared is not None and declared.is_lowered):
                warnings.warn(f"operator {name} has no legalization; the call stays as it is", stacklevel=2)
            return None
        for arg in call.args:
            if arg.struct_info_ is not None and not _shapes_known(arg.struct_info_):
                return None
        info = call.struct_info_
        if (
            info is not None
            and not isinstance(info, ObjectStructInfo | ShapeStructInfo)
            and not _shapes_known(info)
        ):
            # The result's shape depends on data: a PrimFunc could not be given its output.
            if not call.op.get_attr("FDataDependent"):
                return None
        return found  # type: ignore[no-any-return]


def _where_it_is(value: Any, info: StructInfo | None) -> Any:
    """A kernel's call with its output on the virtual device that the operator's result is said to be on."""
    if (
        not is_call_to(value, "relax.call_tir")
        or not isinstance(info, TensorStructInfo)
        or info.vdevice is None
    ):
        return value
    found = value.sinfo_args[0]
    if not isinstance(found, TensorStructInfo) or found.vdevice is not None:
        return value
    placed = TensorStructInfo(found.shape, found.dtype, info.vdevice, found.ndim)
    return value.replace(sinfo_args=(placed,), struct_info_=placed)


def _call_key(call: Call) -> tuple[Any, list[Expr]]:
    """What decides the kernel of a call of an operator, and the tensors that the call gives it.

    The key is None for calls that are not remembered: symbolic shapes, constants whose contents matter, other kinds of arguments.
    """
    leaves: list[Expr] = []

    def part(arg: Expr) -> Any:
        if isinstance(arg, Tuple):
            return tuple(part(field) for field in arg.fields)
        info = arg.struct_info_
        if isinstance(arg, ShapeExpr):
            return ("shape", _numbers(arg.values))
        if isinstance(arg, PrimValue):
            return ("value", arg.value.dtype, _numbers((arg.value,)))
        if isinstance(arg, Constant) and arg.data.size <= 1:
            return ("constant", array_key(arg.data))
        if (
            not isinstance(arg, Var | Constant)
            or not isinstance(info, TensorStructInfo)
            or info.shape_values is None
        ):
            raise _Unremembered
        same = next((number for number, leaf in enumerate(leaves) if leaf is arg), len(leaves))
        leaves.append(arg)
        return (same, _numbers(info.shape_values), info.dtype)

    try:
        parts = tuple(part(arg) for arg in call.args)
        # The contents of an array of indices may become part of the kernel (take, gather, slices).
        if any(
            isinstance(leaf, Constant) and dt.is_integral(dt.from_numpy(leaf.data.dtype)) for leaf in leaves
        ):
            return None, []
        attrs = structural_hash(call.attrs) if call.attrs else None
    except _Unremembered:
        return None, []
    return (call.op.name, parts, attrs, call.sinfo_args), leaves  # type: ignore[attr-defined]


class _Unremembered(Exception):
    """An argument of a kind that makes a call not comparable with others."""


def _numbers(values: Any) -> tuple[Any, ...]:
    """Numbers as parts of a key; floats as they are written, for zeros have signs."""
    if not all(isinstance(value, IntImm | FloatImm) for value in values):
        raise _Unremembered
    return tuple(repr(value.value) if isinstance(value, FloatImm) else value.value for value in values)


def _positions(value: Expr, leaves: list[Expr]) -> tuple[int, ...] | None:
    """Which of the call's tensors the kernel takes, in order; None when it takes anything else."""
    if (
        not is_call_to(value, "relax.call_tir")
        or len(value.args) != 2  # type: ignore[attr-defined]
        or not isinstance(value.args[1], Tuple)  # type: ignore[attr-defined]
    ):
        return None
    found = []
    for field in value.args[1].fields:  # type: ignore[attr-defined]
        position = next((number for number, leaf in enumerate(leaves) if leaf is field), None)
        if position is None:
            return None
        found.append(position)
    return tuple(found)


@dataclass(frozen=True)
class LegalizeOps(ModulePass):
    """Replace high-level operators by ``call_tir`` of PrimFuncs, which are added to the module (equal ones once).

    Before::

        z = R.add(x, y)

    After::

        z = R.call_tir(cls.add, (x, y), out_sinfo=R.Tensor((2, 3), "float32"))

        @T.prim_func(private=True)
        def add(A: T.Buffer((2, 3), "float32"), B: T.Buffer((2, 3), "float32"), T_add: T.Buffer((2, 3), "float32")): ...

    Each operator's way is its attribute ``FLegalize``: a function ``(BlockBuilder, Call) -> Expr``. Operators whose shapes are
    not known, or that have no legalization, stay. What an operator needs of extents and is not proved is compared before the
    kernel (see :mod:`ir.relax.op.requirement`). All stay where the PassContext says ``"relax.transform.apply_legalize_ops": False``.

    Args:
        customize_legalize_map: functions by operator name that take precedence.
        enable_warning: warn about operators without a legalization.
        skip_ops: names of operators to leave alone.
    """

    customize_legalize_map: Mapping[str, LegalizeFunc] | None = None
    enable_warning: bool = False
    skip_ops: tuple[str, ...] = ()

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with legalized functions and their PrimFuncs."""
        if not ctx.get("relax.transform.apply_legalize_ops", True):
            return mod
        custom = dict(self.customize_legalize_map or {})
        legalizer = _Legalizer(mod, custom, self.enable_warning, frozenset(self.skip_ops))
        return legalizer.rewrite_module(
            mod, lambda var, func: "Codegen" not in func.attrs and "Composite" not in func.attrs
        )


__all__ = ["LegalizeFunc", "LegalizeOps"]
