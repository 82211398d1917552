"""FuseTIR: make one PrimFunc of every primitive Relax function, so that a group of operators is one kernel.

The blocks of all parts follow each other in one root block; what one part hands to the next is an intermediate buffer there,
which scheduling inlines or tiles into its consumer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...tir.buffer import Buffer, decl_buffer
from ...tir.expr import Var as TirVar
from ...tir.function import PrimFunc
from ...tir.stmt import Block, BlockRealize, SeqStmt, Stmt
from ...tir.stmt_functor import StmtExprMutator
from ...transform import ModulePass, PassContext
from ..block_builder import BlockBuilder
from ..expr import (
    Call,
    Constant,
    Expr,
    PrimValue,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    is_call_to,
)
from ..function import Function
from ..function_signature import SignatureChange, change_signatures
from ..struct_info import PrimStructInfo, ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from .dead_code_elimination import DeadCodeElimination
from .expand_tuple_arguments import flatten_tuples
from .remove_unused_parameters import RemoveUnusedParameters


class _Instantiate(StmtExprMutator):
    """A copy of a PrimFunc's body with new variables, other buffers for the parameters, and values for its symbols."""

    def __init__(self, buffers: dict[Buffer, Buffer], values: dict[TirVar, Any]) -> None:
        super().__init__()
        self._buffers.update(buffers)
        self._values = values
        # A parameter's data pointer may be used by itself (in calls of intrinsics).
        for old, new in buffers.items():
            values.setdefault(old.data, new.data)

    def visit_Var(self, var: TirVar) -> Any:
        found = self._values.get(var)
        if found is None:
            found = self._values[var] = type(var)(var.name, var.type_annotation or var.dtype)
        return found

    def visit_Block(self, block: Block) -> Block:
        mapped = self.generic_visit(block)
        annotations = self.visit_annotations(block.annotations) if block.annotations else block.annotations
        return mapped if annotations is block.annotations else mapped.replace(annotations=annotations)


class _UniqueNames(StmtExprMutator):
    """Makes block names unique by numbering repeated ones."""

    def __init__(self) -> None:
        super().__init__()
        self._taken: set[str] = {"root"}

    def visit_Block(self, block: Block) -> Block:
        name, number = block.name_hint, 0
        while name in self._taken:
            number += 1
            name = f"{block.name_hint}_{number}"
        self._taken.add(name)
        block = self.generic_visit(block)
        return block if name == block.name_hint else block.replace(name_hint=name)

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return buffer

    def visit_PrimExpr(self, expr: Any) -> Any:
        return expr  # there are no blocks below expressions


def root_block(func: PrimFunc) -> Block | None:
    """The block around the whole body, or None where there is none."""
    body = func.body
    if isinstance(body, BlockRealize) and not body.block.iter_vars:
        return body.block
    return None


def _buffer_of(info: StructInfo, name: str, scope: str = "") -> Buffer:
    if not isinstance(info, TensorStructInfo) or info.shape_values is None or not info.dtype:
        raise IRValueError(f"FuseTIR: {name} must be a tensor with known shape and dtype, it is {info}")
    return decl_buffer(info.shape_values, info.dtype, name, scope=scope)


def tensor_fields(info: StructInfo) -> list[StructInfo]:
    """The tensors in a struct info, tuples flattened."""
    if isinstance(info, TupleStructInfo):
        return [leaf for item in info.fields for leaf in tensor_fields(item)]
    return [info]


class _Fuser:
    """Builds the PrimFunc of one primitive function."""

    def __init__(self, mod: IRModule, func: Function) -> None:
        self._mod = mod
        self._func = func
        self._buffers: dict[Var, list[Buffer]] = {}
        self._bodies: list[Stmt] = []
        self._allocated: list[Buffer] = []
        self._scalars: list[TirVar] = []
        self._params: list[Buffer] = []

    def fuse(self) -> PrimFunc:
        for param in self._func.params:
            self._declare_param(param)
        outputs = self._declare_outputs()
        for block in self._func.body.blocks:
            for binding in block.bindings:
                if not isinstance(binding, VarBinding):
                    raise IRValueError(
                        "FuseTIR: a primitive function may hold no match_cast; run it behind FuseOps only"
                    )
                self._visit(binding.var, binding.value)
        return self._assemble(outputs)

    def _declare_param(self, param: Var) -> None:
        info = param.struct_info
        if isinstance(info, TensorStructInfo):
            self._buffers[param] = [_buffer_of(info, param.name_hint)]
        elif isinstance(info, TupleStructInfo):
            self._buffers[param] = [
                _buffer_of(field, f"{param.name_hint}_{index}")
                for index, field in enumerate(tensor_fields(info))
            ]
        elif isinstance(info, ShapeStructInfo) and info.values is not None:
            self._scalars += [value for value in info.values if isinstance(value, TirVar)]
            return
        elif isinstance(info, PrimStructInfo) and isinstance(info.value, TirVar):
            self._scalars.append(info.value)
            return
        else:
            raise IRValueError(
                f"FuseTIR: parameter {param.name_hint} of a primitive function is {info}, expected tensors"
            )
        self._params += self._buffers[param]

    def _declare_outputs(self) -> list[Buffer]:
        """Result variables write to parameters; their buffers are fixed before the bindings are visited."""
        body = self._func.body.body
        values = {
            binding.var: binding.value
            for block in self._func.body.blocks
            for binding in block.bindings  # type: ignore[attr-defined]
        }
        outputs: list[Buffer] = []

        def declare(expr: Expr) -> None:
            if isinstance(expr, Tuple):
                for field in expr.fields:
                    declare(field)
                return
            if not isinstance(expr, Var) or expr not in values:
                raise IRValueError("FuseTIR: a primitive function must return what its kernels compute")
            value = values[expr]
            if isinstance(value, Tuple):
                for field in value.fields:
                    declare(field)
                return
            if isinstance(value, TupleGetItem) and isinstance(value.tuple_value, Var):
                source = values.get(value.tuple_value)
                if is_call_to(source, "relax.call_tir"):
                    made = self._buffers.setdefault(
                        value.tuple_value,
                        [None] * len(tensor_fields(value.tuple_value.struct_info)),  # type: ignore[list-item]
                    )
                    made[value.index] = _buffer_of(expr.struct_info, f"p_output{len(outputs)}")
                    outputs.append(made[value.index])
                    return
            made = []
            for info in tensor_fields(expr.struct_info):
                made.append(_buffer_of(info, f"p_output{len(outputs)}"))
                outputs.append(made[-1])
            self._buffers[expr] = made

        declare(body)
        return outputs

    def _visit(self, var: Var, value: Expr) -> None:
        if is_call_to(value, "relax.call_tir"):
            self._visit_call(var, value)  # type: ignore[arg-type]
        elif isinstance(value, TupleGetItem):
            source = self._arg_buffers(value.tuple_value)
            self._buffers[var] = [source[value.index]]
        elif isinstance(value, Tuple):
            self._buffers[var] = [item for field in value.fields for item in self._arg_buffers(field)]
        elif isinstance(value, Var):
            self._buffers[var] = self._buffers[value]
        else:
            what = (
                f"a call of {value.op.name}"
                if isinstance(value, Call) and isinstance(value.op, Op)
                else type(value).__name__
            )
            raise IRValueError(
                f"FuseTIR: a primitive function may hold calls of PrimFuncs only, found {what}; run LegalizeOps before"
            )

    def _arg_buffers(self, expr: Expr) -> list[Buffer]:
        if isinstance(expr, Var):
            return self._buffers[expr]
        if isinstance(expr, Tuple):
            return [item for field in expr.fields for item in self._arg_buffers(field)]
        if isinstance(expr, TupleGetItem):
            return [self._arg_buffers(expr.tuple_value)[expr.index]]
        raise IRValueError(f"FuseTIR: a kernel's argument must be a variable, found {type(expr).__name__}")

    def _visit_call(self, var: Var, call: Call) -> None:
        callee = self._mod[call.args[0]] if isinstance(call.args[0], GlobalVar) else None
        if not isinstance(callee, PrimFunc):
            raise IRValueError(
                "FuseTIR: call_tir inside a primitive function must call a PrimFunc of the module"
            )
        root = root_block(callee)
        if root is None:
            raise IRValueError(
                "FuseTIR: a kernel without a root block cannot be fused; keep it opaque (op_pattern 8)"
            )
        args = self._arg_buffers(call.args[1])
        infos = tensor_fields(call.sinfo_args[0])
        made: list[Any] = list(self._buffers.get(var) or ()) or [None] * len(infos)
        fresh: list[Buffer] = []
        for index, info in enumerate(infos):
            if made[index] is None:
                name = (
                    f"{var.name_hint}_intermediate"
                    if len(infos) == 1
                    else f"{var.name_hint}_intermediate_{index}"
                )
                made[index] = _buffer_of(info, name)
                fresh.append(made[index])
        self._buffers[var] = made
        mapping: dict[Buffer, Buffer] = {}
        values: dict[TirVar, Any] = {}
        handles = [param for param in callee.params if param in callee.buffer_map]
        scalars = [param for param in callee.params if param not in callee.buffer_map]
        for handle, actual in zip(handles, [*args, *made], strict=True):
            formal = callee.buffer_map[handle]
            mapping[formal] = actual
            _match_extents(formal.shape, actual.shape, values)
        if scalars:
            given = call.args[2].values if len(call.args) > 2 and isinstance(call.args[2], ShapeExpr) else ()
            values.update(zip(scalars, given, strict=True))
        for known in self._scalars:
            values.setdefault(known, known)
        instance = _Instantiate(mapping, values)
        new_root = instance.visit_Block(root)
        self._allocated += [*new_root.alloc_buffers, *fresh]
        self._bodies.append(new_root.body)

    def _assemble(self, outputs: list[Buffer]) -> PrimFunc:
        statements: list[Stmt] = []
        for body in self._bodies:
            statements += body.seq if isinstance(body, SeqStmt) else [body]
        body = statements[0] if len(statements) == 1 else SeqStmt(statements)
        block = Block((), (), (), "root", _UniqueNames().visit(body), None, tuple(self._allocated))
        attrs: dict[str, Any] = {"tir.noalias": True}
        attrs |= {
            key: value
            for key, value in self._func.attrs.items()
            if key not in ("Primitive", "Composite", "relax.force_pure")
        }
        return PrimFunc(
            [*self._params, *outputs, *self._scalars], BlockRealize((), True, block), None, None, attrs
        )


def _match_extents(formal: Any, actual: Any, values: dict[TirVar, Any]) -> None:
    if len(formal) != len(actual):
        raise IRValueError(
            f"FuseTIR: a kernel takes a {len(formal)}-dimensional buffer, it is given {len(actual)} dimensions"
        )
    for extent, value in zip(formal, actual, strict=True):
        if isinstance(extent, TirVar) and extent not in values:
            values[extent] = value if value.dtype == extent.dtype else value.astype(extent.dtype)


def _kernel_call(builder: BlockBuilder, call: Call) -> Expr:
    """The call of a primitive function as a call of its kernel."""
    args: list[Expr] = []
    scalars: list[Any] = []
    for arg in flatten_tuples(builder, call.args):
        info = arg.struct_info_
        if isinstance(arg, ShapeExpr):
            scalars += arg.values
        elif isinstance(info, ShapeStructInfo) and info.values is not None:
            scalars += info.values
        elif isinstance(arg, PrimValue):
            scalars.append(arg.value)
        elif isinstance(arg, Var | Constant):
            args.append(arg)
        else:
            raise IRValueError(f"FuseTIR: unexpected argument {type(arg).__name__} of a primitive function")
    operands: list[Expr] = [call.op, Tuple(args)]
    if scalars:
        operands.append(ShapeExpr(scalars))
    info = call.struct_info
    return Call(Op.get("relax.call_tir"), operands, None, [info], call.span, info)


@dataclass(frozen=True)
class FuseTIR(ModulePass):
    """Replace each primitive Relax function (attribute ``Primitive``, made by FuseOps) by one PrimFunc.

    Before::

        @R.function(private=True)
        def fused_add_relu(x: R.Tensor((8,), "float32"), p: R.Tensor((8,), "float32")):
            R.func_attr({"Primitive": True})
            with R.dataflow():
                lv = R.call_tir(cls.add, (x, p), R.Tensor((8,), "float32"))
                gv = R.call_tir(cls.relu, (lv,), R.Tensor((8,), "float32"))
                R.output(gv)
            return gv

        # in main
        y = cls.fused_add_relu(x, p)

    After::

        @T.prim_func(private=True)
        def fused_add_relu(x: T.Buffer((8,), "float32"), p: T.Buffer((8,), "float32"), p_output0: T.Buffer((8,), "float32")):
            lv_intermediate = T.alloc_buffer((8,))
            ...  # the block of add writes lv_intermediate, the block of relu reads it

        y = R.call_tir(cls.fused_add_relu, (x, p), R.Tensor((8,), "float32"))

    PrimFuncs that nothing calls any more are removed.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with fused PrimFuncs."""
        kernels = {
            var: SignatureChange(_Fuser(mod, func).fuse(), _kernel_call)
            for var, func in mod.functions.items()
            if isinstance(func, Function) and func.attrs.get("Primitive", False)
        }
        if not kernels:
            return mod
        result = change_signatures(mod, kernels)
        return DeadCodeElimination()(RemoveUnusedParameters()(result, ctx), ctx)
