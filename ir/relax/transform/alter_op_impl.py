"""AlterOpImpl: replace kernels by others that may want their operands in other layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import te
from ...error import IRValueError
from ...expr import GlobalVar
from ...module import IRModule
from ...tir.function import PrimFunc
from ...tir.index_map import IndexMap
from ...transform import ModulePass, PassContext
from .. import op
from ..block_builder import BlockBuilder
from ..expr import Call, Expr, ShapeExpr, Tuple, TupleGetItem, is_call_to
from ..function_signature import MapCall, replace_calls
from ..struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from .dead_code_elimination import remove_unused_functions

OPERATOR_NAME = "operator_name"
"""The attribute of a PrimFunc that names what it implements."""

Transform = IndexMap | Callable[..., Any] | None


def _as_map(transform: Any) -> IndexMap | None:
    if transform is None or isinstance(transform, IndexMap):
        return transform
    return IndexMap.from_func(transform)


class _Alterer:
    """Makes calls of replaced kernels."""

    def __init__(self, owner: AlterOpImpl) -> None:
        self._owner = owner
        self._new: dict[str, GlobalVar] = {}

    def calls_of(self, kind: str) -> MapCall:
        """What calls of kernels of an operator become."""

        def make(builder: BlockBuilder, call: Call) -> Expr:
            return self._altered(builder, call, kind) if is_call_to(call, "relax.call_tir") else call

        return make

    def _altered(self, builder: BlockBuilder, call: Call, kind: str) -> Expr:
        transforms = [_as_map(item) for item in self._owner.op_buffer_transforms.get(kind, ())]
        separators = list(self._owner.op_buffer_axis_separators.get(kind) or [None] * len(transforms))
        inputs = list(self._owner.op_buffer_input_axis_separators.get(kind) or [None] * len(transforms))
        fields = list(call.args[1].fields) if isinstance(call.args[1], Tuple) else [call.args[1]]
        info = call.sinfo_args[0]
        infos: list[StructInfo] = list(info.fields) if isinstance(info, TupleStructInfo) else [info]
        if transforms and len(transforms) != len(fields) + len(infos):
            raise IRValueError(
                f"AlterOpImpl: {kind} has {len(fields)} inputs and {len(infos)} outputs, got {len(transforms)} transforms"
            )
        transforms = transforms or [None] * (len(fields) + len(infos))
        args = [
            field
            if transform is None
            else builder.emit(op.layout_transform(field, transform, None, separator or [], before or []))
            for field, transform, separator, before in zip(
                fields, transforms, separators or transforms, inputs or transforms
            )
        ]
        outputs = transforms[len(fields) :]
        new_infos = [_moved_info(item, transform) for item, transform in zip(infos, outputs, strict=True)]
        new_info = TupleStructInfo(new_infos) if isinstance(info, TupleStructInfo) else new_infos[0]
        operands = (self._kernel(builder, kind), Tuple(args), *call.args[2:])
        made = Call(call.op, operands, None, [new_info], None, new_info)
        if all(transform is None for transform in outputs):
            return made
        result = builder.emit(made)
        if not isinstance(info, TupleStructInfo):
            return _restored(builder, result, infos[0], outputs[0])
        parts = []
        for index, (item, transform) in enumerate(zip(infos, outputs, strict=True)):
            part = builder.emit(TupleGetItem(result, index))
            parts.append(
                part if transform is None else builder.emit(_restored(builder, part, item, transform))
            )
        return Tuple(parts)

    def _kernel(self, builder: BlockBuilder, kind: str) -> GlobalVar:
        if kind not in self._new:
            func = self._owner.op_impl_map[kind]
            self._new[kind] = builder.add_func(func, f"{kind.replace('.', '_')}_replacement")
        return self._new[kind]


def _moved_info(info: StructInfo, transform: IndexMap | None) -> StructInfo:
    if transform is None:
        return info
    assert isinstance(info, TensorStructInfo)
    return TensorStructInfo(ShapeExpr(transform.map_shape(info.shape_values or ())), info.dtype, info.vdevice)


def _restored(builder: BlockBuilder, value: Expr, info: StructInfo, transform: IndexMap | None) -> Expr:
    """An output in the original layout, what padding added cut off."""
    assert transform is not None and isinstance(info, TensorStructInfo)

    shape = info.shape_values or ()
    inverse, _ = transform.non_surjective_inverse(shape)
    restored = builder.emit(op.layout_transform(value, inverse))
    got = restored.struct_info.shape_values
    if all(getattr(a, "value", a) == getattr(b, "value", b) for a, b in zip(got, shape, strict=True)):
        return restored

    def remove_pad(data: Any) -> Any:
        return te.compute(shape, lambda *indices: data(*indices), name="te_remove_pad")

    return builder.call_te(remove_pad, restored, primfunc_name_hint="remove_pad")


@dataclass(frozen=True)
class AlterOpImpl(ModulePass):
    """Replace PrimFuncs by their attribute ``operator_name``, transforming layouts at the calls.

    Before: ``y = R.call_tir(cls.add, (x, y), out_sinfo=R.Tensor((16,), "float32"))``

    After, with ``op_buffer_transforms={"relax.add": [lambda i: (i // 4, i % 4)] * 3}``::

        lv = R.layout_transform(x, index_map=lambda i: (i // 4, i % 4))
        lv1 = R.layout_transform(y, index_map=lambda i: (i // 4, i % 4))
        lv2 = R.call_tir(cls.relax_add_replacement, (lv, lv1), out_sinfo=R.Tensor((4, 4), "float32"))
        y = R.layout_transform(lv2, index_map=lambda i, j: (i * 4 + j,))

    Args:
        op_impl_map: the new PrimFunc by operator name.
        op_buffer_transforms: per operator the index map (or None) of each buffer, inputs first.
        op_buffer_axis_separators, op_buffer_input_axis_separators: axis separators of each buffer, behind and before.
    """

    op_impl_map: Mapping[str, PrimFunc]
    op_buffer_transforms: Mapping[str, Sequence[Transform]]
    op_buffer_axis_separators: Mapping[str, Sequence[Any]]
    op_buffer_input_axis_separators: Mapping[str, Sequence[Any]]

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with replaced kernels."""
        alterer = _Alterer(self)
        calls: dict[str, MapCall] = {}
        for var, func in mod.functions.items():
            kind = func.attrs.get(OPERATOR_NAME) if isinstance(func, PrimFunc) else None
            if kind is not None and str(kind) in self.op_impl_map:
                calls[var.name_hint] = alterer.calls_of(str(kind))
        result = replace_calls(mod, calls)
        return mod if result is mod else remove_unused_functions(result)
