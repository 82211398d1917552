"""What BF16StorageLegalize and FP8StorageLegalize share: memory and values of narrow floats become integers that hold their codes.

Numbers cross the borders of functions in float32, which holds them: as parameters, arguments and results.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from ... import dtype as dt
from ...error import IRTypeError
from ...expr import GlobalVar
from ...node import Visitor
from ...type import PointerType, PrimType
from ..buffer import Buffer
from ..expr import (
    BinaryOpExpr,
    BufferLoad,
    Call,
    Cast,
    CmpExpr,
    CommReducer,
    FloatImm,
    Let,
    PrimExpr,
    Select,
    Shuffle,
    Var,
)
from ..function import PrimFunc
from ..intrinsic.declaration import call as intrinsic_call
from ..operators import cast
from ..stmt import Allocate, AllocateConst, LetStmt, Stmt
from ..stmt_functor import StmtExprMutator
from .float_codes import code_dtype, code_of_constant, decoded, encoded

_FUNCTIONS = frozenset(
    {"tir.call_extern", "tir.call_pure_extern", "tir.tvm_call_packed", "tir.tvm_call_cpacked", "tir.ret"}
)
"""Calls that hand numbers to functions, or back."""
_ATOMIC = "tir.atomic_add"

_Binding = TypeVar("_Binding", Let, LetStmt)


class _AddedTo(Visitor):
    """The data of the buffers of some dtypes that ``atomic_add`` changes."""

    def __init__(self, dtypes: frozenset[str]) -> None:
        super().__init__()
        self._dtypes = dtypes
        self.found: set[Var] = set()

    def visit_Buffer(self, buffer: Buffer) -> None:
        pass

    def visit_Call(self, call: Call) -> None:
        if getattr(call.op, "name", "") == _ATOMIC and call.dtype in self._dtypes:
            self.found.update(_data_behind(call.args[0]))
        self.generic_visit(call)


def _data_behind(address: Any) -> list[Var]:
    if isinstance(address, Var):
        return [address]
    inner = address.args[0] if getattr(address.op, "name", "") == "tir.address_of" else address.args[1]
    return [inner.buffer.data if isinstance(inner, BufferLoad) else inner]


class _Store(StmtExprMutator):
    """Maps expressions of narrow floats to their codes."""

    def __init__(self, dtypes: frozenset[str], kept: set[Var]) -> None:
        super().__init__()
        self._dtypes, self._kept = dtypes, kept
        self._variables: dict[Var, Var] = {}
        """Addresses and codes."""
        self._numbers: dict[Var, Var] = {}
        """Parameters, in float32."""

    def parameter(self, param: Var) -> Var:
        """What a function takes for a parameter."""
        if not self._is_narrow(param.dtype):
            return self.visit(param)  # type: ignore[no-any-return]
        return self._numbers.setdefault(param, Var(param.name, "float32", param.span))

    # -- memory ----------------------------------------------------------------------------------------------------
    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        mapped = super().visit_Buffer(buffer)
        if not self._is_narrow(mapped.dtype) or buffer.data in self._kept:
            return mapped
        found = self._buffers[buffer] = mapped.replace(dtype=code_dtype(mapped.dtype))
        return found

    def visit_Var(self, var: Var) -> Any:
        found = self._variables.get(var)
        if found is not None:
            return found
        number = self._numbers.get(var)
        if number is not None:
            return encoded(number, var.dtype)
        pointer = var.type_annotation
        if not isinstance(pointer, PointerType) or var in self._kept:
            return var
        element = pointer.element_type
        if not isinstance(element, PrimType) or not self._is_narrow(element.dtype):
            return var
        codes = PointerType(PrimType(code_dtype(element.dtype)), pointer.storage_scope)
        made = self._variables[var] = Var(var.name, codes, var.span)
        return made

    def visit_Allocate(self, node: Allocate) -> Stmt:
        mapped = self.generic_visit(node)
        if not self._is_narrow(node.dtype) or node.buffer_var in self._kept:
            return mapped  # type: ignore[no-any-return]
        return mapped.replace(dtype=code_dtype(node.dtype))  # type: ignore[no-any-return]

    def visit_AllocateConst(self, node: AllocateConst) -> Stmt:
        if not self._is_narrow(node.dtype):
            return self.generic_visit(node)  # type: ignore[no-any-return]
        codes = code_dtype(node.dtype)
        return node.replace(
            buffer_var=self.visit(node.buffer_var),
            dtype=codes,
            extents=tuple(map(self.visit, node.extents)),
            data=node.data.view(dt.to_numpy(dt.element_of(codes))),
            body=self.visit(node.body),
        )

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        mapped = self.generic_visit(load)
        if not self._is_narrow(mapped.dtype):
            return mapped  # type: ignore[no-any-return]
        return intrinsic_call("reinterpret", mapped, dtype=code_dtype(mapped.dtype))

    def visit_BufferStore(self, store: Any) -> Stmt:
        mapped = self.generic_visit(store)
        if not self._is_narrow(mapped.buffer.dtype):
            return mapped  # type: ignore[no-any-return]
        value = intrinsic_call("reinterpret", mapped.value, dtype=store.value.dtype)
        return mapped.replace(value=value)  # type: ignore[no-any-return]

    # -- values ----------------------------------------------------------------------------------------------------
    def visit_FloatImm(self, number: FloatImm) -> PrimExpr:
        return code_of_constant(number) if self._is_narrow(number.dtype) else number

    def visit_Cast(self, node: Cast) -> PrimExpr:
        is_narrow = self._is_narrow(node.value.dtype)
        if not is_narrow and not self._is_narrow(node.dtype):
            return self.generic_visit(node)  # type: ignore[no-any-return]
        value = self._number(node.value) if is_narrow else self.visit(node.value)
        return encoded(value, node.dtype) if self._is_narrow(node.dtype) else cast(node.dtype, value)

    def _number(self, value: PrimExpr) -> PrimExpr:
        """A narrow number in float32."""
        found = self._numbers.get(value) if isinstance(value, Var) else None
        return decoded(self.visit(value), value.dtype) if found is None else found

    def visit_Select(self, node: Select) -> PrimExpr:
        if not self._is_narrow(node.dtype):
            return self.generic_visit(node)  # type: ignore[no-any-return]
        return Select(
            self.visit(node.condition), self.visit(node.true_value), self.visit(node.false_value), node.span
        )

    def visit_Shuffle(self, node: Shuffle) -> PrimExpr:
        if not self._is_narrow(node.dtype):
            return self.generic_visit(node)  # type: ignore[no-any-return]
        return Shuffle(tuple(map(self.visit, node.vectors)), node.indices, node.span)

    def visit_Let(self, node: Let) -> PrimExpr:
        return self._bound(node)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        return self._bound(node)

    def _bound(self, node: _Binding) -> _Binding:
        value = self.visit(node.value)
        if self._is_narrow(node.var.dtype):
            self._variables[node.var] = Var(node.var.name, value.dtype, node.var.span)
        var = self.visit(node.var)
        body = self.visit(node.body)
        if var is node.var and value is node.value and body is node.body:
            return node
        return node.replace(var=var, value=value, body=body)  # type: ignore[no-any-return]

    def visit_BinaryOpExpr(self, node: BinaryOpExpr) -> PrimExpr:
        return self._not_computed(node)

    def visit_CmpExpr(self, node: CmpExpr) -> PrimExpr:
        return self._not_computed(node)

    def _not_computed(self, node: Any) -> PrimExpr:
        if self._is_narrow(node.a.dtype):
            pass_name = "BF16ComputeLegalize" if dt.code(node.a.dtype) == "bfloat" else "FP8ComputeLegalize"
            raise IRTypeError(
                f"{node} computes with {node.a.dtype}, of which integers are to hold the codes; run ir.tir.transform.{pass_name} first"
            )
        return self.generic_visit(node)  # type: ignore[no-any-return]

    def visit_CommReducer(self, reducer: CommReducer) -> CommReducer:
        return reducer

    # -- calls -----------------------------------------------------------------------------------------------------
    def visit_Call(self, call: Call) -> PrimExpr:
        name = getattr(call.op, "name", "")
        if name == "tir.reinterpret":
            return self._reinterpreted(call)
        if name == "tir.address_of" and isinstance(call.args[0], BufferLoad):
            return self._rebuilt(call, [self.generic_visit(call.args[0])], call.dtype)
        if name == _ATOMIC and call.dtype in self._dtypes:
            value = Cast(call.dtype, self._number(call.args[1]))
            added = Call(call.dtype, call.op, (self.visit(call.args[0]), value), call.span)
            return intrinsic_call("reinterpret", added, dtype=code_dtype(call.dtype))
        if isinstance(call.op, GlobalVar) or name in _FUNCTIONS:
            args = [self._number(arg) if self._is_narrow(arg.dtype) else self.visit(arg) for arg in call.args]
            if not self._is_narrow(call.dtype):
                return self._rebuilt(call, args, call.dtype)
            found = self._rebuilt(call, args, dt.with_lanes("float32", dt.lanes(call.dtype)))
            return found if name == "tir.ret" else encoded(found, call.dtype)
        dtype = code_dtype(call.dtype) if self._is_narrow(call.dtype) else call.dtype
        return self._rebuilt(call, [self.visit(arg) for arg in call.args], dtype)

    def _reinterpreted(self, call: Call) -> PrimExpr:
        value = self.visit(call.args[0])
        dtype = code_dtype(call.dtype) if self._is_narrow(call.dtype) else call.dtype
        return value if value.dtype == dtype else self._rebuilt(call, [value], dtype)

    def _rebuilt(self, call: Call, args: list[PrimExpr], dtype: str) -> PrimExpr:
        if dtype == call.dtype and all(new is old for new, old in zip(args, call.args, strict=True)):
            return call
        return Call(dtype, call.op, tuple(args), call.span)

    def _is_narrow(self, dtype: str) -> bool:
        return dt.element_of(dtype) in self._dtypes


def stored_as_codes(func: PrimFunc, dtypes: Collection[str]) -> PrimFunc:
    """A function whose memory holds codes in place of floats of some dtypes; the same where its target converts them, or it has none."""
    target = func.attrs.get("target")
    narrow = frozenset(dtype for dtype in dtypes if target is None or not target.converts(dtype))
    if not narrow:
        return func
    added = _AddedTo(narrow)
    added.visit(func.body)
    store = _Store(narrow, added.found)
    params = tuple(store.parameter(param) for param in func.params)
    buffers = {
        new: store.visit(func.buffer_map[old])
        for old, new in zip(func.params, params, strict=True)
        if old in func.buffer_map
    }
    body = store.visit(func.body)
    returned = func.ret_type
    if isinstance(returned, PrimType) and returned.dtype in narrow:
        returned = PrimType("float32")
    if body is func.body and params == func.params and buffers == dict(func.buffer_map):
        return func
    return func.replace(params=params, buffer_map=buffers, ret_type=returned, body=body)
