"""FoldConstant: compute at build time what depends on constants only."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import dtype as dt
from ...error import IRError
from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...tir.expr import IntImm
from ...tir.function import PrimFunc
from ...transform import PassContext
from ..analysis.binding import get_var2val
from ..expr import (
    BindingBlock,
    Call,
    Constant,
    DataTypeImm,
    Expr,
    Id,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..function import Function
from ..op.declaration import OperatorDeclaration, declaration_of
from ..op.folding import NotComputable
from ..struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from ..struct_info_lattice import BaseCheckResult, static_dims, struct_info_base_check
from .constant_kernels import ConstantKernels
from .function_pass import FunctionPass
from .legalize_ops import LegalizeOps
from .memory_mutator import MemoryMutator

_LOG = logging.getLogger(__name__)

_MAX_GROWTH = 16
_MAX_GROWN_BYTES = 1 << 20
"""A constant that is much larger than what it is computed from, and large, is better computed when the program runs."""


def _static(info: StructInfo | None) -> bool:
    if isinstance(info, TensorStructInfo):
        return bool(info.dtype) and static_dims(info.shape_values) is not None
    if isinstance(info, TupleStructInfo):
        return all(_static(field) for field in info.fields)
    return False


_CACHE_LINE = 64


def _n_bytes(info: StructInfo) -> int:
    if isinstance(info, TupleStructInfo):
        return sum(_n_bytes(field) for field in info.fields)
    assert isinstance(info, TensorStructInfo)
    return int(np.prod(static_dims(info.shape_values) or (), dtype=np.int64)) * dt.bytes_of(info.dtype)


class _Folder(MemoryMutator):
    """Also what operators that fold by themselves ask (:class:`ir.relax.op.folding.Known`)."""

    def __init__(self, mod: IRModule, kernels: ConstantKernels, legalized: bool = False) -> None:
        """``legalized`` says that operators have become kernels where they can; those that are left are."""
        super().__init__(mod)
        self._legalized = legalized
        self._mod = mod
        self._kernels = kernels
        self._bound: dict[Id, Expr] = {}
        """The variables that constants are bound to; later uses read the constant itself."""

    def visit_var_binding_(self, binding: Any) -> None:
        stays = self._stays(binding)
        value = binding.value if stays else self.visit_expr(binding.value)
        folded = self._fold(value) if isinstance(value, Call) else self._field(value)
        if folded is not None and self.aliases.is_written(binding.var):
            folded = None  # it is memory of its own, which a constant is not
        if stays and folded is None:
            self.builder_.emit_normalized(binding)
            return
        value = value if folded is None else folded
        var = self.reemit_binding(binding, value)
        if isinstance(value, Constant | ShapeExpr | PrimValue):
            self._bound[binding.var.vid] = var
            self.set_var_remap(binding.var.vid, value)

    def visit_result(self, body: Any) -> Any:
        """Results stay variables: a function returns what it bound."""
        outer = self._var_remap
        self._var_remap = {**outer, **self._bound}
        try:
            return super().visit_result(body)
        finally:
            self._var_remap = outer

    def _field(self, value: Expr) -> Expr | None:
        """The constant that a field of a tuple is."""
        source = self._resolved(value.tuple_value) if isinstance(value, TupleGetItem) else None
        field = source.fields[value.index] if isinstance(source, Tuple) else None  # type: ignore[attr-defined]
        return field if isinstance(field, Constant) else None

    def _resolved(self, expr: Expr) -> Expr:
        """The tuple of constants that a variable is bound to."""
        value = self.lookup_binding(expr)
        return value if isinstance(value, Tuple) and _all_constant(value) else expr

    # ---- evaluation -----------------------------------------------------------------------------------------

    def _fold(self, call: Call) -> Expr | None:
        """What a call is; None where that is not known."""
        if not isinstance(call.op, Op):
            return None
        declared = declaration_of(call.op)
        try:
            if declared is not None and declared.fold is not None:
                return declared.fold(call, self)
            return self._evaluated(call, declared)
        except NotComputable as reason:
            _LOG.debug("not folding %s: %s", call.op.name, reason)
            return None

    def value(self, expr: Expr) -> Any:
        """What a constant argument is."""
        expr = self._resolved(expr)
        if isinstance(expr, Constant):
            return expr.data
        if isinstance(expr, Tuple):
            return tuple([self.value(field) for field in expr.fields])
        if isinstance(expr, ShapeExpr):
            dims = static_dims(expr.values)
            if dims is None:
                raise NotComputable("an extent is known when the program runs")
            return tuple(dims)
        if isinstance(expr, PrimValue) and hasattr(expr.value, "value"):
            return expr.value.value
        if isinstance(expr, StringImm | DataTypeImm):
            return expr.value
        raise NotComputable("an argument is known when the program runs")

    def _evaluated(self, call: Any, declared: OperatorDeclaration | None) -> Expr | None:
        """What an operator computes of constants: by its kernels, or its reference where that is exact or there are none."""
        info = call.struct_info
        if self._legalized or not self.memory.is_repeatable(call) or not _static(info):
            return None
        values = [self.value(arg) for arg in call.args]
        sizes = [value.nbytes for value in _arrays(values)]
        if not sizes or _grows(sum(sizes), _n_bytes(info)):
            return None
        undefined = declared.undefined if declared is not None else ()
        moves = declared is not None and declared.moves
        has_kernels = call.op.get_attr("FLegalize") is not None and not moves
        reference = call.op.get_attr("FReference")
        found = None
        if reference is not None and (undefined or not has_kernels):
            try:
                with np.errstate(all="ignore"):
                    found = reference(*values, **{key: _plain(item) for key, item in call.attrs.items()})
            except undefined as error:
                # What the program does there is its own affair.
                raise NotComputable(str(error)) from error
        if has_kernels:
            return self._by_kernels(call.with_args([self._resolved(arg) for arg in call.args]), info)
        return None if found is None else _as_constant(found, info)

    def _by_kernels(self, call: Call, info: StructInfo) -> Expr | None:
        """What the kernels compute that a call of constants is legalized to."""
        try:
            program = _program_of(call.replace(struct_info_=info))
        except IRError as error:  # such as a division by a constant that is zero; LegalizeOps will say so
            raise NotComputable(str(error)) from error
        folder = _Folder(program, self._kernels, legalized=True)
        func = folder.visit_expr(program["main"])
        result = folder._resolved(get_var2val(func).get(func.body.body, func.body.body))
        parts = result.fields if isinstance(result, Tuple) else (result,)
        if not all(isinstance(part, Constant) for part in parts):
            return None
        return result if struct_info_base_check(info, result.struct_info) is BaseCheckResult.PASS else None

    def result_of(self, kernel: Expr, args: Expr, info: StructInfo) -> Expr:
        """Constants that a kernel computes of others."""
        inputs = [np.asarray(value) for value in _arrays([self.value(args)])]
        callee = self._mod[kernel] if isinstance(kernel, GlobalVar) else None
        if not isinstance(callee, PrimFunc) or not _static(info):
            raise NotComputable("the kernel, or how large its results are, is known when the program runs")
        if _grows(sum(value.nbytes for value in inputs), _n_bytes(info)):
            raise NotComputable("the result is much larger than what it is computed of")
        infos = list(info.fields) if isinstance(info, TupleStructInfo) else [info]
        outputs = [_empty(item) for item in infos]
        self._kernels.run(callee, inputs, outputs)
        made = [Constant(value) for value in outputs]
        return Tuple(made) if isinstance(info, TupleStructInfo) else made[0]


def _program_of(call: Call) -> IRModule:
    """A module whose ``main`` computes a call by kernels."""
    result = Var("result", call.struct_info)
    seq = SeqExpr((BindingBlock((VarBinding(result, call),)),), result, call.struct_info)
    return LegalizeOps()(IRModule({"main": Function((), seq, call.struct_info)}))


def _empty(info: Any) -> np.ndarray:
    """An array for a tensor of static shape, on a cache line: wide loads of a packed weight then touch one line each."""
    shape, dtype = static_dims(info.shape_values) or (), dt.to_numpy(info.dtype)
    memory = np.empty(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize + _CACHE_LINE, np.uint8)
    return np.ndarray(shape, dtype, memory, -memory.ctypes.data % _CACHE_LINE)


def _grows(before: int, after: int) -> bool:
    return after > _MAX_GROWN_BYTES and after > _MAX_GROWTH * before


def _all_constant(value: Tuple) -> bool:
    return all(isinstance(field, Constant) for field in value.fields)


def _arrays(values: Any) -> list[np.ndarray]:
    if isinstance(values, np.ndarray):
        return [values]
    if isinstance(values, list | tuple):
        return [item for value in values for item in _arrays(value)]
    return []


def _plain(value: Any) -> Any:
    """An attribute as the numpy reference takes it."""
    if isinstance(value, IntImm) or (
        hasattr(value, "value") and not callable(value.value) and hasattr(value, "dtype")
    ):
        return value.value
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    return value


def _as_constant(result: Any, info: StructInfo) -> Expr | None:
    """The reference's result as constants, provided that it is what inference promised."""
    if isinstance(info, TupleStructInfo):
        if not isinstance(result, list | tuple) or len(result) != len(info.fields):
            return None
        parts = [_as_constant(item, field) for item, field in zip(result, info.fields, strict=True)]
        return (
            None
            if any(part is None for part in parts)
            else Tuple([part for part in parts if part is not None])
        )
    assert isinstance(info, TensorStructInfo)
    array = np.asarray(result)
    dims = tuple(static_dims(info.shape_values) or ())
    if array.shape != dims:
        return None
    return Constant(np.ascontiguousarray(array.astype(dt.to_numpy(info.dtype), copy=False)).reshape(dims))


@dataclass(frozen=True)
class FoldConstant(FunctionPass):
    """Evaluate pure operators and ``call_tir`` whose arguments are all constants.

    Operators are legalized and their kernels are run, so that a constant is what the program would compute; those that move
    elements only, and those that the runtime computes, are evaluated by their numpy reference. Others say themselves what they
    are (``fold`` of the declaration): shapes that a program computes from shapes (``shape_of``, ``tensor_to_shape``) become
    shape expressions. What has no value, such as an element beyond a tensor's end or a quotient by zero, is left to the
    program, as are memory that is overwritten and objects that are changed later.

    Before::

        lv = R.permute_dims(metadata["relax.expr.Constant"][0], axes=[1, 0])
        gv = R.matmul(x, lv)

    After::

        lv = metadata["relax.expr.Constant"][1]
        gv = R.matmul(x, metadata["relax.expr.Constant"][1])
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with constants computed."""
        if func.attrs.get("Primitive"):
            return func
        return _Folder(mod, ConstantKernels()).visit_expr(func)  # type: ignore[no-any-return]


__all__ = ["FoldConstant"]
