"""FuseOps: group the operators of dataflow blocks into primitive functions, one per kernel to be."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...tir.function import PrimFunc
from ...transform import ModulePass, PassContext
from ..analysis.memory import Aliases, MemoryAnalysis
from ..expr import (
    Call,
    DataflowBlock,
    DataflowVar,
    Expr,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    is_call_to,
)
from ..function import Function
from ..op.declaration import OpPatternKind
from .grouping import Group, GroupRewriter, NameTable, leaves, op_name
from .operator_groups import DEFAULT_MAX_FUSE_DEPTH, GraphNode, partition

_MAX_NAME = 100
"""Names of fused functions become symbols and file names; longer ones are cut, with a hash of the whole name."""


class _GraphBuilder:
    """The graph of one function's dataflow blocks, in the form that :func:`partition` takes."""

    def __init__(self, mod: IRModule, aliases: Aliases) -> None:
        self._mod = mod
        self._aliases = aliases
        self.nodes: list[GraphNode] = []
        self.bindings: list[VarBinding | None] = []
        self._index: dict[int, int] = {}
        self._keep: list[Any] = []

    def add_function(self, func: Function) -> None:
        for param in func.params:
            self._leaf(param)
        self._add_seq(func.body)

    def _add_seq(self, seq: SeqExpr) -> None:
        for block in seq.blocks:
            for binding in block.bindings:
                if isinstance(block, DataflowBlock) and isinstance(binding, VarBinding):
                    self._add_binding(binding)
                else:
                    self._add_opaque(binding)
        for expr in leaves(seq.body):
            self.nodes[self._leaf(expr)].is_external = True

    def _leaf(self, expr: Expr) -> int:
        index = self._index.get(id(expr))
        if index is None:
            index = self._index[id(expr)] = len(self.nodes)
            self._keep.append(expr)
            self.nodes.append(GraphNode(OpPatternKind.kOpaque))
            self.bindings.append(None)
        return index

    def _add_opaque(self, binding: Any) -> None:
        """What other passes must not move: everything it uses has to exist, and so does what it makes."""
        used: list[Expr] = []

        def visit(node: Any) -> None:
            if isinstance(node, Var):
                used.append(node)
            else:
                node._visit_children(visit)

        visit(binding.value)
        for expr in used:
            if id(expr) in self._index:
                self.nodes[self._index[id(expr)]].is_external = True
        self._leaf(binding.var)

    def _pattern(self, value: Expr) -> OpPatternKind:
        if is_call_to(value, "relax.call_tir"):
            kernel = value.args[0]
            callee = self._mod[kernel] if isinstance(kernel, GlobalVar) and kernel in self._mod else None
            if isinstance(callee, PrimFunc) and "op_pattern" in callee.attrs:
                return OpPatternKind(int(callee.attrs.get_int("op_pattern")))
            return OpPatternKind.kOpaque
        if isinstance(value, TupleGetItem):
            return OpPatternKind.kInjective
        return OpPatternKind.kOpaque

    def _add_binding(self, binding: VarBinding) -> None:
        operands = [self._leaf(expr) for expr in leaves(binding.value)]
        # A group is computed where its last binding is; what reads memory that is overwritten must not move.
        stays = self._aliases.is_written(binding.var, *leaves(binding.value))
        pattern = OpPatternKind.kOpaque if stays else self._pattern(binding.value)
        index = len(self.nodes)
        self._index[id(binding.var)] = index
        self._keep.append(binding.var)
        self.nodes.append(GraphNode(pattern, n_args=1))
        self.bindings.append(binding)
        if not isinstance(binding.var, DataflowVar):
            self.nodes[index].is_external = True
        for operand in operands:
            if isinstance(binding.value, Call | TupleGetItem):
                self.nodes[operand].outputs.append((index, pattern))
            elif isinstance(binding.value, Tuple | Var):
                # The tensors of a tuple are handed on as they are, so they have to exist.
                self.nodes[operand].is_external = True


def _group_name(bindings: list[VarBinding]) -> str:
    name = "fused_" + "_".join(op_name(b.value) for b in bindings if not isinstance(b.value, TupleGetItem))
    if len(name) > _MAX_NAME:
        name = f"{name[: _MAX_NAME - 9]}_{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}"
    return name


@dataclass(frozen=True)
class FuseOps(ModulePass):
    """Group bindings of dataflow blocks by their operators' patterns; each group becomes a private ``Primitive`` function.

    Heavy operators (convolutions, matrix products) take the elementwise operators behind them, reductions those before them,
    and injective operators merge in chains. AnnotateTIROpPattern has to run before, FuseTIR makes kernels of the groups.

    Before::

        with R.dataflow():
            lv0 = R.call_tir(cls.add, (x, p), R.Tensor((8,), "float32"))
            gv = R.call_tir(cls.exp, (lv0,), R.Tensor((8,), "float32"))
            R.output(gv)

    After::

        with R.dataflow():
            gv = cls.fused_add_exp(x, p)
            R.output(gv)

        @R.function(private=True)
        def fused_add_exp(x: R.Tensor((8,), "float32"), p: R.Tensor((8,), "float32")):
            R.func_attr({"Primitive": True})
            with R.dataflow():
                lv0 = R.call_tir(cls.add, (x, p), R.Tensor((8,), "float32"))
                gv = R.call_tir(cls.exp, (lv0,), R.Tensor((8,), "float32"))
                R.output(gv)
            return gv

    Args:
        fuse_opt_level: 0 fuses nothing; -1 takes the pass context's level.
    """

    fuse_opt_level: int = -1

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with grouped operators."""
        level = ctx.opt_level if self.fuse_opt_level == -1 else self.fuse_opt_level
        depth = ctx.get("relax.FuseOps.max_depth") or DEFAULT_MAX_FUSE_DEPTH
        result = mod.clone()
        names = NameTable(mod)
        memory = MemoryAnalysis(mod)
        changed = False
        for var, func in list(mod.functions.items()):
            if not isinstance(func, Function) or func.attrs.get("Primitive") or "Codegen" in func.attrs:
                continue
            builder = _GraphBuilder(mod, memory.aliases(func))
            builder.add_function(func)
            found = partition(builder.nodes, level, int(depth))
            members: dict[int, list[VarBinding]] = {}
            for group, binding in zip(found, builder.bindings, strict=True):
                if binding is not None:
                    members.setdefault(id(group.find()), []).append(binding)
            groups = [
                Group(bindings, _group_name(bindings), {"Primitive": True})
                for bindings in members.values()
                if len(bindings) > 1 and any(isinstance(b.value, Call) for b in bindings)
            ]
            if groups:
                changed = True
                result.functions[var] = GroupRewriter(result, groups, func, names).visit_expr(func)
        return result if changed else mod
