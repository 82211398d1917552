"""The lattice of struct infos: subsumption, least common ancestor, erasing what is out of scope, results of calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any

from ..arith.analyzer import Analyzer
from ..error import IRTypeError, IRValueError
from ..node import Mutator
from ..registry import get_global_func
from ..structural import structural_equal
from ..tir.expr import IntImm, PrimExpr
from ..tir.expr import Var as TirVar
from ..type import FuncType, PrimType, TupleType, Type
from .expr import Call
from .struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from .symbolic_vars import definable_tir_vars_in_struct_info
from .ty import DynTensorType, ObjectType, PackedFuncType, ShapeType


class BaseCheckResult(IntEnum):
    """How ``derived`` relates to ``base``: no common value, by kind (L0); or a run-time check decides (L1, L2); or it is one."""

    FAIL_L0 = 0
    """The two cannot describe the same value."""
    FAIL_L1 = 1
    """They may: a check of the kind, dtype or number of dimensions is needed."""
    FAIL_L2 = 2
    """They may: a check of the extents (or the scalar's value) is needed."""
    PASS = 3
    """Every value of ``derived`` is one of ``base``."""


def prove_dim_equal(a: Any, b: Any, analyzer: Any = None) -> bool:
    """Whether two integer expressions are equal for all values of their variables."""
    if a is b:
        return True
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    if structural_equal(a, b):
        return True
    if isinstance(a, TirVar | IntImm) and isinstance(b, TirVar | IntImm):
        return False
    if analyzer is None:
        analyzer = Analyzer()
    return bool(analyzer.can_prove_equal(a, b))


def can_prove_shape_equal(a: Any, b: Any, analyzer: Any = None) -> bool:
    """Whether two shapes (ShapeExpr, sequences of extents, or variables) are equal for sure."""
    if a is b:
        return True
    left, right = getattr(a, "values", a), getattr(b, "values", b)
    if not isinstance(left, Sequence) or not isinstance(right, Sequence):
        return False
    return len(left) == len(right) and all(
        prove_dim_equal(x, y, analyzer) for x, y in zip(left, right, strict=True)
    )


def _dim_check(base: Any, derived: Any, analyzer: Any) -> BaseCheckResult:
    if prove_dim_equal(base, derived, analyzer):
        return BaseCheckResult.PASS
    if isinstance(base, IntImm) and isinstance(derived, IntImm):
        return BaseCheckResult.FAIL_L0
    return BaseCheckResult.FAIL_L2


def _dims_check(base: Sequence[Any], derived: Sequence[Any], analyzer: Any) -> BaseCheckResult:
    if len(base) != len(derived):
        return BaseCheckResult.FAIL_L0
    return min(
        (_dim_check(x, y, analyzer) for x, y in zip(base, derived, strict=True)), default=BaseCheckResult.PASS
    )


def _other_kind(derived: StructInfo) -> BaseCheckResult:
    return BaseCheckResult.FAIL_L1 if type(derived) is ObjectStructInfo else BaseCheckResult.FAIL_L0


def _check_object(base: ObjectStructInfo, derived: StructInfo, analyzer: Any) -> BaseCheckResult:
    return BaseCheckResult.PASS


def _check_prim(base: PrimStructInfo, derived: StructInfo, analyzer: Any) -> BaseCheckResult:
    if not isinstance(derived, PrimStructInfo):
        return _other_kind(derived)
    if base.dtype != derived.dtype:
        return BaseCheckResult.FAIL_L0
    if base.value is None:
        return BaseCheckResult.PASS
    if derived.value is None:
        return BaseCheckResult.FAIL_L2
    return _dim_check(base.value, derived.value, analyzer)


def _check_shape(base: ShapeStructInfo, derived: StructInfo, analyzer: Any) -> BaseCheckResult:
    if not isinstance(derived, ShapeStructInfo):
        return _other_kind(derived)
    if base.ndim != -1 and base.ndim != derived.ndim:
        return BaseCheckResult.FAIL_L1 if derived.ndim == -1 else BaseCheckResult.FAIL_L0
    if base.values is None:
        return BaseCheckResult.PASS
    if derived.values is None:
        return BaseCheckResult.FAIL_L2
    return _dims_check(base.values, derived.values, analyzer)


def _check_tensor(base: TensorStructInfo, derived: StructInfo, analyzer: Any) -> BaseCheckResult:
    if not isinstance(derived, TensorStructInfo):
        return _other_kind(derived)
    result = BaseCheckResult.PASS
    for wanted, found, unknown in ((base.dtype, derived.dtype, ""), (base.ndim, derived.ndim, -1)):
        if wanted != unknown and wanted != found:
            if found != unknown:
                return BaseCheckResult.FAIL_L0
            result = BaseCheckResult.FAIL_L1
    if base.vdevice is not None and base.vdevice != derived.vdevice:
        if derived.vdevice is not None:
            return BaseCheckResult.FAIL_L0
        result = BaseCheckResult.FAIL_L1
    if base.shape is None or result is not BaseCheckResult.PASS:
        return result
    if derived.shape is None:
        return BaseCheckResult.FAIL_L2
    if base.shape is derived.shape:
        return BaseCheckResult.PASS
    left, right = base.shape_values, derived.shape_values
    if left is None or right is None:
        return BaseCheckResult.FAIL_L2
    return _dims_check(left, right, analyzer)


def _check_tuple(base: TupleStructInfo, derived: StructInfo, analyzer: Any) -> BaseCheckResult:
    if not isinstance(derived, TupleStructInfo):
        return _other_kind(derived)
    if len(base.fields) != len(derived.fields):
        return BaseCheckResult.FAIL_L0
    return min(
        (struct_info_base_check(x, y, analyzer) for x, y in zip(base.fields, derived.fields, strict=True)),
        default=BaseCheckResult.PASS,
    )


def _check_func(base: FuncStructInfo, derived: StructInfo, analyzer: Any) -> BaseCheckResult:
    if not isinstance(derived, FuncStructInfo):
        return _other_kind(derived)
    if base.purity and not derived.purity:
        return BaseCheckResult.FAIL_L0
    if base.is_opaque():
        if base.derive_func is not None:
            return (
                BaseCheckResult.PASS if base.derive_func == derived.derive_func else BaseCheckResult.FAIL_L2
            )
        return struct_info_base_check(base.ret, derived.ret, analyzer)
    if derived.is_opaque():
        return BaseCheckResult.FAIL_L1
    if len(base.params) != len(derived.params):
        return BaseCheckResult.FAIL_L0
    if structural_equal(base.replace(purity=derived.purity), derived):
        return BaseCheckResult.PASS
    # A function may stand for another when it takes at least as much and returns at most as much.
    result = struct_info_base_check(base.ret, derived.ret, analyzer)
    for wanted, found in zip(base.params, derived.params, strict=True):
        result = min(result, struct_info_base_check(found, wanted, analyzer))
    return result


_CHECKS: dict[type, Callable[[Any, StructInfo, Any], BaseCheckResult]] = {
    ObjectStructInfo: _check_object,
    PrimStructInfo: _check_prim,
    ShapeStructInfo: _check_shape,
    TensorStructInfo: _check_tensor,
    TupleStructInfo: _check_tuple,
    FuncStructInfo: _check_func,
}


def _lookup(table: Mapping[type, Any], info: StructInfo) -> Any:
    for cls in type(info).__mro__:
        if cls in table:
            return table[cls]
    return table[ObjectStructInfo]


def struct_info_base_check(base: StructInfo, derived: StructInfo, analyzer: Any = None) -> BaseCheckResult:
    """How ``derived`` relates to ``base``; PASS when it is at least as precise for sure."""
    if base is derived:
        return BaseCheckResult.PASS
    return _lookup(_CHECKS, base)(base, derived, analyzer)


def is_base_of(base: StructInfo, derived: StructInfo) -> bool:
    """Whether every value that ``derived`` describes is described by ``base`` too."""
    return struct_info_base_check(base, derived) == BaseCheckResult.PASS


def _lca_prim(a: PrimStructInfo, b: PrimStructInfo, analyzer: Any) -> StructInfo:
    if a.dtype != b.dtype:
        return ObjectStructInfo()
    if a.value is not None and b.value is not None and prove_dim_equal(a.value, b.value, analyzer):
        return a
    return PrimStructInfo(a.dtype)


def _lca_shape(a: ShapeStructInfo, b: ShapeStructInfo, analyzer: Any) -> StructInfo:
    if a.values is not None and b.values is not None and can_prove_shape_equal(a.values, b.values, analyzer):
        return a
    return ShapeStructInfo(ndim=a.ndim if a.ndim == b.ndim else -1)


def _lca_tensor(a: TensorStructInfo, b: TensorStructInfo, analyzer: Any) -> StructInfo:
    dtype = a.dtype if a.dtype == b.dtype else ""
    ndim = a.ndim if a.ndim == b.ndim else -1
    vdevice = (
        a.vdevice if a.vdevice is not None and b.vdevice is not None and a.vdevice == b.vdevice else None
    )
    same = a.shape is not None and a.shape is b.shape
    if not same and a.shape_values is not None and b.shape_values is not None:
        same = can_prove_shape_equal(a.shape_values, b.shape_values, analyzer)
    if same:
        return a if dtype == a.dtype and vdevice is a.vdevice else TensorStructInfo(a.shape, dtype, vdevice)
    return TensorStructInfo(None, dtype, vdevice, ndim)


def _lca_tuple(a: TupleStructInfo, b: TupleStructInfo, analyzer: Any) -> StructInfo:
    if len(a.fields) != len(b.fields):
        return ObjectStructInfo()
    return TupleStructInfo([struct_info_lca(x, y, analyzer) for x, y in zip(a.fields, b.fields, strict=True)])


def _lca_func(a: FuncStructInfo, b: FuncStructInfo, analyzer: Any) -> StructInfo:
    if structural_equal(a, b):
        return a
    purity = a.purity and b.purity
    ret = struct_info_lca(a.ret, b.ret, analyzer)
    if a.is_opaque() or b.is_opaque() or len(a.params) != len(b.params):
        return FuncStructInfo.opaque_func(ret=ret, purity=purity)
    for x, y in zip(a.params, b.params, strict=True):
        if not structural_equal(x, y, map_free_vars=True):
            return FuncStructInfo.opaque_func(ret=ret, purity=purity)
    return FuncStructInfo(a.params, ret, purity)


_LCAS: dict[type, Callable[[Any, Any, Any], StructInfo]] = {
    PrimStructInfo: _lca_prim,
    ShapeStructInfo: _lca_shape,
    TensorStructInfo: _lca_tensor,
    TupleStructInfo: _lca_tuple,
    FuncStructInfo: _lca_func,
}


def struct_info_lca(lhs: StructInfo, rhs: StructInfo, analyzer: Any = None) -> StructInfo:
    """The most precise struct info that describes the values of both."""
    if lhs is rhs:
        return lhs
    for cls, join in _LCAS.items():
        if isinstance(lhs, cls) and isinstance(rhs, cls):
            return join(lhs, rhs, analyzer)
    return ObjectStructInfo()


Lookup = Mapping[Any, Any] | Callable[[Any], Any] | None


def _as_lookup(mapping: Lookup) -> Callable[[Any], Any]:
    if mapping is None:
        return lambda var: None
    return mapping if callable(mapping) else mapping.get


class _Eraser(Mutator):
    """Rewrites expressions through the maps; meets the unknown by raising :class:`_Undefined`."""

    def __init__(self, shape_var: Callable[[Any], Any], var: Callable[[Any], Any]) -> None:
        super().__init__()
        self._shape_var, self._var = shape_var, var
        self._keep: set[int] = set()

    def visit_Var(self, var: Any) -> Any:
        if isinstance(var, TirVar):
            if id(var) in self._keep:
                return var
            found = self._shape_var(var)
        else:
            found = self._var(var)
        if found is None:
            raise _Undefined
        return found

    def visit_PrimExpr(self, expr: Any) -> Any:
        new = self.generic_visit(expr)
        if new is expr:
            return expr
        return Analyzer().simplify(new)

    def visit_ShapeStructInfo(self, info: ShapeStructInfo) -> StructInfo:
        try:
            return self.generic_visit(info)
        except _Undefined:
            return ShapeStructInfo(ndim=info.ndim)

    def visit_PrimStructInfo(self, info: PrimStructInfo) -> StructInfo:
        if info.value is None:
            return info
        try:
            value = self.visit(info.value)
        except _Undefined:
            return PrimStructInfo(info.dtype)
        return info if value is info.value else PrimStructInfo(value=value)

    def visit_TensorStructInfo(self, info: TensorStructInfo) -> StructInfo:
        try:
            return self.generic_visit(info)
        except _Undefined:
            return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)

    def visit_VDevice(self, vdevice: Any) -> Any:
        return vdevice

    def visit_FuncStructInfo(self, info: FuncStructInfo) -> StructInfo:
        """The symbolic variables of a signature are its own."""
        if info.params is None:
            return self.generic_visit(info)
        own = {
            id(var) for param in info.params for var in definable_tir_vars_in_struct_info(param)
        } - self._keep
        self._keep |= own
        try:
            return self.generic_visit(info)
        finally:
            self._keep -= own


class _Undefined(Exception):
    """A variable is not known outside its scope."""


def erase_to_well_defined(
    info: StructInfo, shape_var_map: Lookup = None, var_map: Lookup = None
) -> StructInfo:
    """Replace the variables in a struct info, and erase what mentions variables that the maps do not know.

    Args:
        shape_var_map: from symbolic (TIR) variables to the expressions to put in their place; a function or a mapping.
        var_map: from Relax variables to expressions (shapes).
    """
    return _Eraser(_as_lookup(shape_var_map), _as_lookup(var_map)).visit(info)


def _match_dims(param: Sequence[Any], arg: Sequence[Any] | None, known: dict[Any, Any]) -> None:
    if arg is None:
        return
    for left, right in zip(param, arg, strict=False):
        if isinstance(left, TirVar) and left not in known:
            known[left] = right


def match_param(param: StructInfo, arg: StructInfo, known: dict[Any, Any]) -> None:
    """Add to ``known`` what the symbolic variables that a parameter's struct info defines are in an argument's; the first counts."""
    if isinstance(param, TensorStructInfo) and isinstance(arg, TensorStructInfo):
        if param.shape_values is not None:
            _match_dims(param.shape_values, arg.shape_values, known)
    elif isinstance(param, ShapeStructInfo) and isinstance(arg, ShapeStructInfo):
        if param.values is not None:
            _match_dims(param.values, arg.values, known)
    elif isinstance(param, PrimStructInfo) and isinstance(arg, PrimStructInfo):
        if param.value is not None and arg.value is not None:
            _match_dims([param.value], [arg.value], known)
    elif isinstance(param, TupleStructInfo) and isinstance(arg, TupleStructInfo):
        for left, right in zip(param.fields, arg.fields, strict=False):
            match_param(left, right, known)


def contradicts(wanted: StructInfo, found: StructInfo | None) -> bool:
    """Whether no value is both."""
    return found is not None and struct_info_base_check(wanted, found) is BaseCheckResult.FAIL_L0


def derive_call_ret_struct_info(func_sinfo: FuncStructInfo, call: Call, ctx: Any = None) -> StructInfo:
    """What a call of a function with this signature returns, in terms of the arguments' symbolic variables.

    Raises:
        IRValueError: the number of arguments is wrong.
        IRTypeError: an argument cannot be what the parameter asks for.
    """
    if func_sinfo.params is None:
        if func_sinfo.derive_func is None:
            # A function that nothing is known of returns what the call says.
            if call.sinfo_args and isinstance(func_sinfo.ret, ObjectStructInfo):
                return call.sinfo_args[0] if len(call.sinfo_args) == 1 else TupleStructInfo(call.sinfo_args)
            return func_sinfo.ret
        derive = func_sinfo.derive_func
        if isinstance(derive, str):
            derive = get_global_func(derive)
        return derive(call, ctx)
    if len(func_sinfo.params) != len(call.args):
        raise IRValueError(
            f"call of {call.op}: expected {len(func_sinfo.params)} arguments, got {len(call.args)}"
        )
    known: dict[Any, Any] = {}
    for param, arg in zip(func_sinfo.params, call.args, strict=True):
        match_param(param, arg.struct_info, known)
    for index, (param, arg) in enumerate(zip(func_sinfo.params, call.args, strict=True)):
        wanted = erase_to_well_defined(param, known)
        if struct_info_base_check(wanted, arg.struct_info) is BaseCheckResult.FAIL_L0:
            raise IRTypeError(
                f"call of {call.op}: argument {index} ({arg}) has struct info {arg.struct_info}, expected {param}"
            )
    return erase_to_well_defined(func_sinfo.ret, known)


def get_static_type(sinfo: StructInfo) -> Type:
    """The struct info without shapes and values."""
    if isinstance(sinfo, TensorStructInfo):
        return DynTensorType(sinfo.ndim, sinfo.dtype)
    if isinstance(sinfo, ShapeStructInfo):
        return ShapeType(sinfo.ndim)
    if isinstance(sinfo, PrimStructInfo):
        return PrimType(sinfo.dtype)
    if isinstance(sinfo, TupleStructInfo):
        return TupleType([get_static_type(item) for item in sinfo.fields])
    if isinstance(sinfo, FuncStructInfo):
        if sinfo.params is None:
            return PackedFuncType()
        return FuncType([get_static_type(item) for item in sinfo.params], get_static_type(sinfo.ret))
    return ObjectType()


def static_dims(dims: Sequence[PrimExpr] | None) -> list[int] | None:
    """The extents as Python integers, or None when some are symbolic (or nothing is known)."""
    if dims is None or not all(isinstance(dim, IntImm) for dim in dims):
        return None
    return [dim.value for dim in dims]  # type: ignore[attr-defined]
