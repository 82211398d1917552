"""AlterOpImpl: replace kernels by others that may want their operands in other layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import te
from ...error import IRValueError
from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...tir.function import PrimFunc
from ...tir.index_map import IndexMap
from ...transform import ModulePass, PassContext
from .. import op
from ..block_builder import BlockBuilder
from ..expr import Call, Expr, ShapeExpr, Tuple, TupleGetItem, Var
from ..function import Function
from ..struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from .binding_rewriter import BindingRewriter, is_call_to
from .dead_code_elimination import remove_unused_functions

OPERATOR_NAME = "operator_name"
"""The attribute of a PrimFunc that names what it implements."""

Transform = IndexMap | Callable[..., Any] | None


def _as_map(transform: Any) -> IndexMap | None:
    if transform is None or isinstance(transform, IndexMap):
        return transform
    return IndexMap.from_func(transform)


class _Alterer(BindingRewriter):
    def __init__(self, builder: BlockBuilder, owner: AlterOpImpl) -> None:
        super().__init__()
        self._builder = builder
        self._owner = owner
        self._new: dict[str, GlobalVar] = {}

    def visit_call(self, var: Var, call: Call) -> None:
        kind = self._kind(call)
        if kind is None:
            self.bind(var, call)
            return
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
            self._transformed(field, transform, separator, before)
            for field, transform, separator, before in zip(
                fields, transforms, separators or transforms, inputs or transforms
            )
        ]
        outputs = transforms[len(fields) :]
        new_infos = [
            self._moved_info(item, transform) for item, transform in zip(infos, outputs, strict=True)
        ]
        new_info = TupleStructInfo(new_infos) if isinstance(info, TupleStructInfo) else new_infos[0]
        made = Call(
            Op.get("relax.call_tir"),
            (self._kernel(kind), Tuple(args), *call.args[2:]),
            None,
            [new_info],
            None,
            new_info,
        )
        if all(transform is None for transform in outputs):
            self.bind(var, made)
            return
        result = self.emit(made)
        if not isinstance(info, TupleStructInfo):
            self.bind(var, self._restored(result, infos[0], outputs[0]))
            return
        parts = []
        for index, (item, transform) in enumerate(zip(infos, outputs, strict=True)):
            part = self.emit(TupleGetItem(result, index))
            parts.append(part if transform is None else self.emit(self._restored(part, item, transform)))
        self.bind(var, Tuple(parts))

    def _kind(self, call: Call) -> str | None:
        if not is_call_to(call, "relax.call_tir") or not isinstance(call.args[0], GlobalVar):
            return None
        func = self._builder.get()[call.args[0]]
        kind = func.attrs.get(OPERATOR_NAME) if isinstance(func, PrimFunc) else None
        return str(kind) if kind is not None and str(kind) in self._owner.op_impl_map else None

    def _kernel(self, kind: str) -> GlobalVar:
        if kind not in self._new:
            func = self._owner.op_impl_map[kind]
            self._new[kind] = self._builder.add_func(func, f"{kind.replace('.', '_')}_replacement")
        return self._new[kind]

    def _transformed(self, expr: Expr, transform: IndexMap | None, separators: Any, before: Any) -> Expr:
        if transform is None:
            return expr
        return self.emit(op.layout_transform(expr, transform, None, separators or [], before or []))

    def _moved_info(self, info: StructInfo, transform: IndexMap | None) -> StructInfo:
        if transform is None:
            return info
        assert isinstance(info, TensorStructInfo)
        return TensorStructInfo(
            ShapeExpr(transform.map_shape(info.shape_values or ())), info.dtype, info.vdevice
        )

    def _restored(self, value: Expr, info: StructInfo, transform: IndexMap | None) -> Expr:
        """An output in the original layout, what padding added cut off."""
        assert transform is not None and isinstance(info, TensorStructInfo)

        shape = info.shape_values or ()
        inverse, _ = transform.non_surjective_inverse(shape)
        restored = self.emit(op.layout_transform(value, inverse))
        got = restored.struct_info.shape_values
        if all(getattr(a, "value", a) == getattr(b, "value", b) for a, b in zip(got, shape, strict=True)):
            return restored

        def remove_pad(data: Any) -> Any:
            return te.compute(shape, lambda *indices: data(*indices), name="te_remove_pad")

        return self._builder.call_te(remove_pad, restored, primfunc_name_hint="remove_pad")


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
        builder = BlockBuilder(mod)
        changed = False
        for var, func in mod.functions.items():
            if isinstance(func, Function):
                new = _Alterer(builder, self).rewrite(func)
                if new is not func:
                    changed = True
                    builder.get().functions[var] = new
        return remove_unused_functions(builder.get()) if changed else mod
