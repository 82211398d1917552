"""LazyTransformParams: a function of weights fetches its inputs and stores its outputs one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..expr import BindingBlock, Call, Expr, MatchCast, PrimValue, SeqExpr, Tuple, TupleGetItem, Var
from ..expr_functor import ExprMutator
from ..function import ExternFunc, Function
from ..function_signature import SignatureChange, change_signatures
from ..struct_info import ObjectStructInfo, TupleStructInfo
from ..symbolic_vars import definable_tir_vars_in_struct_info
from .lazy_get_input import no_callers, that_tell_extents
from .lazy_set_output import handing_out, returned_values
from .to_non_dataflow import to_non_dataflow

_SUFFIX = "transform_params"


@dataclass(frozen=True)
class LazyTransformParams(ModulePass):
    """Let ``transform_params`` functions (``main_transform_params``, ...) fetch inputs and store outputs one by one.

    Registered functions hand over and take the arrays.

    Run ToNonDataflow and RemovePurityChecking before.

    Before::

        def transform_params(params: R.Tuple(R.Tensor((4, 4)), R.Tensor((4,)))):
            lv = params[0]
            lv1 = R.permute_dims(lv)
            return (lv1, params[1])

    After::

        def transform_params():
            lv = R.call_packed("get_item", R.prim_value(0), sinfo_args=[R.Object])
            lv_ = R.match_cast(lv, R.Tensor((4, 4)))
            lv1 = R.permute_dims(lv_)
            _ = R.call_packed("set_item", R.prim_value(0), lv1)
            ...
            return ()

    Fields that tell what a symbolic extent is are fetched first.

    Args:
        fget_item, fset_item: names of the functions; None for ``fset_item`` keeps the outputs.
        extra_get_item_params, extra_set_item_params: parameters of the function that are passed before the index.
    """

    fget_item: str = "get_item"
    fset_item: str | None = "set_item"
    extra_get_item_params: Sequence[Var] | None = None
    extra_set_item_params: Sequence[Var] | None = None

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with lazy functions: those named as LiftTransformParams names them, whose one parameter is a tuple."""
        changes: dict[GlobalVar, SignatureChange] = {}
        for var, func in mod.functions.items():
            if (
                isinstance(func, Function)
                and "Codegen" not in func.attrs
                and var.name_hint.endswith(_SUFFIX)
                and len(func.params) == 1
                and isinstance(func.params[0].struct_info_, TupleStructInfo)
            ):
                changes[var] = SignatureChange(self._lazy(mod, func), no_callers("LazyTransformParams", var))
        return change_signatures(mod, changes)

    def _lazy(self, mod: IRModule, func: Function) -> Function:
        extra = dict.fromkeys([*(self.extra_get_item_params or ()), *(self.extra_set_item_params or ())])
        params = tuple(extra)
        bundle = func.params[0]
        fields = [Var("field", info) for info in bundle.struct_info.fields]  # type: ignore[attr-defined]
        known = {symbol for item in params for symbol in definable_tir_vars_in_struct_info(item.struct_info)}
        whole = _used_as_a_whole(func, bundle)
        first = range(len(fields)) if whole else that_tell_extents(fields, known)
        fetcher = _TupleFetcher(mod, bundle, self._get, first)
        flat = to_non_dataflow(func).body
        if not flat.blocks:
            flat = SeqExpr((BindingBlock(()),), flat.body, flat.struct_info_)
        body = fetcher.visit_with_new_scope(flat, params)
        fetched = Function(params, body, None, False, func.attrs, func.span)
        if self.fset_item is None:
            return fetched
        result, outputs = returned_values(fetched)
        blocks = handing_out(mod, body, params, self._set, outputs)
        if outputs != (result,):  # the tuple itself is not needed any more
            blocks = [_without(block, result) for block in blocks]
        blocks = [block for block in blocks if block.bindings]
        return Function(params, SeqExpr(blocks, Tuple(())), None, False, func.attrs, func.span)

    def _get(self, index: int) -> Call:
        args = (*(self.extra_get_item_params or ()), PrimValue(index))
        return Call(ExternFunc(self.fget_item), args, None, [ObjectStructInfo()], None, ObjectStructInfo())

    def _set(self, index: int, value: Expr) -> Call:
        args = (*(self.extra_set_item_params or ()), PrimValue(index), value)
        return Call(
            ExternFunc(str(self.fset_item)), args, None, [ObjectStructInfo()], None, ObjectStructInfo()
        )


def _without(block: BindingBlock, var: Expr) -> BindingBlock:
    kept = [binding for binding in block.bindings if binding.var is not var]
    return block if len(kept) == len(block.bindings) else BindingBlock(kept)


class _TupleFetcher(ExprMutator):
    """Replaces reading a field of the parameter by a call.

    Args:
        first: the numbers of the fields that are fetched where the function begins.
    """

    def __init__(self, mod: IRModule, bundle: Var, get: Callable[[int], Call], first: Sequence[int]) -> None:
        super().__init__(mod)
        self._bundle = bundle
        self._get = get
        self._first = list(first)
        self._fetched: dict[int, Var] = {}

    def visit_bindings(self, block: BindingBlock) -> None:
        while self._first:
            self._field(self._first.pop(0))
        super().visit_bindings(block)

    def _field(self, index: int) -> Var:
        info = self._bundle.struct_info.fields[index]  # type: ignore[attr-defined]
        name = f"{self._bundle.name_hint}_{index}"
        self._fetched[index] = self.builder_.match_cast(self.builder_.emit(self._get(index)), info, name)
        return self._fetched[index]

    def visit_var_(self, var: Any) -> Any:
        """The tuple as a whole is put together from all of its fields."""
        if var is not self._bundle:
            return super().visit_var_(var)
        return Tuple([self._fetched[index] for index in range(len(var.struct_info.fields))])

    def visit_var_binding_(self, binding: Any) -> None:
        value = binding.value
        if not isinstance(value, TupleGetItem) or value.tuple_value is not self._bundle:
            super().visit_var_binding_(binding)
            return
        if value.index in self._fetched:
            self.reemit_binding(binding, self._fetched[value.index])
            return
        untyped = self.builder_.emit(self._get(value.index), binding.var.name_hint)
        self.builder_.emit_normalized(MatchCast(binding.var, untyped, binding.var.struct_info))


def _used_as_a_whole(func: Function, bundle: Var) -> bool:
    """Whether a function does anything with a tuple but read its fields."""
    found = False

    def visit(node: Any) -> None:
        nonlocal found
        if node is bundle:
            found = True
        elif not isinstance(node, TupleGetItem) or node.tuple_value is not bundle:
            node._visit_children(visit)

    visit(func.body)
    return found
