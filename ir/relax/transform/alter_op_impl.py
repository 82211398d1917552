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
from ..expr import Call, Expr, ShapeExpr, Tuple, TupleGetItem, Var, is_call_to
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
        fields = list(call.args[1].fields) if isinstance(call.args[1], Tuple) else [call.args[1]]
        info = call.sinfo_args[0]
        infos: list[StructInfo] = list(info.fields) if isinstance(info, TupleStructInfo) else [info]
        if transforms and len(transforms) != len(fields) + len(infos):
            raise IRValueError(
                f"AlterOpImpl: {kind} has {len(fields)} inputs and {len(infos)} outputs, got {len(transforms)} transforms"
            )
        count = len(fields) + len(infos)
        transforms = transforms or [None] * count
        behind = _separators("op_buffer_axis_separators", self._owner.op_buffer_axis_separators, kind, count)
        before = _separators(
            "op_buffer_input_axis_separators", self._owner.op_buffer_input_axis_separators, kind, count
        )
        moves = [_Move(*items) for items in zip(transforms, behind, before, strict=True)]
        args = [move.there(builder, field) for field, move in zip(fields, moves, strict=False)]
        outputs = moves[len(fields) :]
        new_infos = [_moved_info(item, move.transform) for item, move in zip(infos, outputs, strict=True)]
        new_info = TupleStructInfo(new_infos) if isinstance(info, TupleStructInfo) else new_infos[0]
        operands = (self._kernel(builder, kind), Tuple(args), *call.args[2:])
        made = Call(call.op, operands, None, [new_info], None, new_info)
        if all(move.transform is None for move in outputs):
            return made
        result = builder.emit(made)
        if not isinstance(info, TupleStructInfo):
            return outputs[0].back(builder, result, infos[0])
        parts = []
        for index, (item, move) in enumerate(zip(infos, outputs, strict=True)):
            part = builder.emit(TupleGetItem(result, index))
            parts.append(builder.normalize(move.back(builder, part, item)))
        return Tuple([part if isinstance(part, Var) else builder.emit(part) for part in parts])

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


def _separators(name: str, given: Mapping[str, Sequence[Any]], kind: str, count: int) -> list[Any]:
    """The axis separators of each buffer of an operator; None where none are given."""
    found = list(given.get(kind) or [None] * count)
    if len(found) != count:
        raise IRValueError(f"AlterOpImpl: {kind} has {count} buffers, {name} names {len(found)}")
    return found


@dataclass(frozen=True)
class _Move:
    """What becomes of a buffer: its index map, and the axis separators behind and before it."""

    transform: IndexMap | None
    behind: Any
    before: Any

    def there(self, builder: BlockBuilder, value: Expr) -> Expr:
        """An input in the layout of the new kernel."""
        if self.transform is None:
            return value
        moved = op.layout_transform(value, self.transform, None, self.behind or [], self.before or [])
        return builder.emit(moved)

    def back(self, builder: BlockBuilder, value: Expr, info: StructInfo) -> Expr:
        """An output in its original layout, what padding added cut off."""
        if self.transform is None:
            return value
        assert isinstance(info, TensorStructInfo)
        shape = info.shape_values or ()
        inverse, _ = self.transform.non_surjective_inverse(shape)
        moved = op.layout_transform(value, inverse, None, self.before or [], self.behind or [])
        restored = builder.emit(moved)
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
