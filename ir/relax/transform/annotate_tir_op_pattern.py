"""AnnotateTIROpPattern: classify every PrimFunc by how its outputs depend on its inputs, for operator fusion.

The kind is found from the program's blocks alone (index patterns of loads and stores, reduction axes), so that kernels
from any source take part in fusion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...node import post_order_visit
from ...op import Op
from ...tir.expr import Add, BufferLoad, Cast, IntImm, IterVar, Mul, Ramp, Var
from ...tir.expr import Call as TirCall
from ...tir.function import PrimFunc
from ...tir.intrinsic.declaration import CallEffectKind, effect_of
from ...tir.stmt import Block, BufferStore, For, ForKind, SeqStmt, While
from ...tir.stmt_functor import variables_in
from ...transform import ModulePass, PassContext
from ..expr import Call
from ..op.declaration import OpPatternKind


def _same_index(a: Any, b: Any) -> bool:
    if a is b:
        return True
    return isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value


def _is_elementwise(store: BufferStore, load: BufferLoad) -> bool:
    """``out[i, j] = f(in[i, j])`` with equal ranks."""
    return len(store.indices) == len(load.indices) and all(map(_same_index, store.indices, load.indices))


def _is_broadcast(store: BufferStore, load: BufferLoad) -> bool:
    """The load's indices are a subsequence of the store's (constants stand for extents of one)."""
    position = 0
    for index in load.indices:
        if isinstance(index, IntImm):
            continue
        while position < len(store.indices) and store.indices[position] is not index:
            position += 1
        if position == len(store.indices):
            return False
        position += 1
    return True


def _is_injective(store: BufferStore, load: BufferLoad) -> bool:
    """Every variable in the load's indices is an index of the store."""
    stored = {index for index in store.indices if isinstance(index, Var)}
    return stored.issuperset(variables_in(*load.indices))


def _strip_casts(value: Any) -> Any:
    while isinstance(value, Cast):
        value = value.value
    return value


def _is_multiply_add(body: Any) -> bool:
    """``C[i] = C[i] + A[..] * B[..]``: a matrix product or a convolution."""
    if not isinstance(body, BufferStore) or not isinstance(body.value, Add):
        return False
    accumulator, product = body.value.a, _strip_casts(body.value.b)
    if not isinstance(accumulator, BufferLoad):
        accumulator, product = body.value.b, _strip_casts(body.value.a)
    if not isinstance(accumulator, BufferLoad) or not isinstance(product, Mul):
        return False
    factors = [_strip_casts(product.a), _strip_casts(product.b)]
    return (
        accumulator.buffer is body.buffer
        and all(isinstance(factor, BufferLoad) for factor in factors)
        and _is_elementwise(body, accumulator)
    )


def _is_pure_reduction(reduce_vars: set[Var], indices: tuple[Any, ...]) -> bool:
    """Every reduction axis is an index by itself, as in sum over an axis (not ``i + k`` as in pooling)."""
    for index in indices:
        if not isinstance(index, Var) and not reduce_vars.isdisjoint(variables_in(index)):
            return False
    return True


class _Analyzer:
    """Walks the blocks in program order and keeps the kind of what has been seen so far."""

    def __init__(self, func: PrimFunc) -> None:
        self.kind = OpPatternKind.kElemWise
        self._params = set(func.buffer_map.values())

    def walk(self, stmt: Any) -> None:
        if isinstance(stmt, SeqStmt):
            for item in stmt.seq:
                self.walk(item)
        elif isinstance(stmt, For) and stmt.kind == ForKind.SERIAL:
            self.walk(stmt.body)
        elif isinstance(stmt, Block):
            self._block(stmt)
        elif type(stmt).__name__ == "BlockRealize":
            self.walk(stmt.block)
        else:  # branches, loops with conditions, calls of intrinsics outside blocks
            self.kind = OpPatternKind.kOpaque

    def _block(self, block: Block) -> None:
        if block.name_hint == "root" or (not block.iter_vars and not isinstance(block.body, BufferStore)):
            self.walk(block.body)
            return
        stores: list[BufferStore] = []
        loads: list[BufferLoad] = []
        opaque = False

        def collect(node: Any) -> None:
            nonlocal opaque
            if isinstance(node, BufferStore):
                stores.append(node)
            elif isinstance(node, BufferLoad):
                loads.append(node)
            elif isinstance(node, While | Ramp):
                opaque = True
            elif isinstance(node, TirCall) and effect_of(node) > CallEffectKind.PURE:
                opaque = True  # the analysis does not see what it reads or does

        post_order_visit(block.body, collect)
        if opaque or len(stores) != 1 or block.body is not stores[0]:
            self.kind = OpPatternKind.kOpaque
            return
        store = stores[0]
        pattern = OpPatternKind.kElemWise
        has_elementwise = False
        for load in loads:
            if _is_elementwise(store, load):
                has_elementwise = True
            elif _is_broadcast(store, load):
                pattern = max(pattern, OpPatternKind.kBroadcast)
            elif _is_injective(store, load):
                pattern = max(pattern, OpPatternKind.kInjective)
            else:
                pattern = OpPatternKind.kOpaque
                break
        reduce_vars = {item.var for item in block.iter_vars if item.iter_type == IterVar.CommReduce}
        if pattern == OpPatternKind.kBroadcast and has_elementwise:
            pattern = OpPatternKind.kElemWise
        if pattern != OpPatternKind.kOpaque and not reduce_vars:
            writes_output = store.buffer in self._params
            if writes_output and self.kind == OpPatternKind.kCommReduce:
                # Softmax and normalization: what follows can still be fused behind them.
                self.kind = OpPatternKind.kOutEWiseFusable
            else:
                self.kind = max(self.kind, pattern)
            return
        if not reduce_vars:
            self.kind = OpPatternKind.kOpaque
        elif _is_multiply_add(block.body):
            self.kind = max(self.kind, OpPatternKind.kOutEWiseFusable)
        elif all(_is_pure_reduction(reduce_vars, load.indices) for load in loads):
            self.kind = max(self.kind, OpPatternKind.kCommReduce)
        else:  # pooling
            self.kind = max(self.kind, OpPatternKind.kOutEWiseFusable)


def op_pattern_kind(func: PrimFunc) -> OpPatternKind:
    """The fusion kind of a PrimFunc, from its blocks.

    Returns:
        ``OPAQUE`` when the function is no composition of blocks with one store each.
    """
    if func.attrs.get("tir.is_scheduled"):
        return OpPatternKind.kOpaque  # its loops are as they shall be
    analyzer = _Analyzer(func)
    analyzer.walk(func.body)
    return analyzer.kind


def get_op_pattern(node: Op | str | Call | PrimFunc) -> OpPatternKind:
    """The fusion kind of an operator (itself, its name or a call of it) or of a PrimFunc.

    A PrimFunc that is annotated with ``op_pattern`` has that kind, another one is analysed. Operators that declare no kind
    are opaque.
    """
    if isinstance(node, PrimFunc):
        given = node.attrs.get("op_pattern")
        return op_pattern_kind(node) if given is None else OpPatternKind(int(getattr(given, "value", given)))
    found = node.op if isinstance(node, Call) else Op.get(node) if isinstance(node, str) else node
    kind = found.get_attr("TOpPattern") if isinstance(found, Op) else None
    return OpPatternKind.kOpaque if kind is None else OpPatternKind(kind)


@dataclass(frozen=True)
class AnnotateTIROpPattern(ModulePass):
    """Set the attribute ``op_pattern`` (an :class:`OpPatternKind` as int) on every PrimFunc that has none.

    Before::

        @T.prim_func
        def relu(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("relu"):
                    v = T.axis.spatial(8, i)
                    B[v] = T.max(A[v], T.float32(0))

    After: the same with ``T.func_attr({"op_pattern": 0})``.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with annotated PrimFuncs."""
        result = mod.clone()
        for var, func in mod.functions.items():
            if isinstance(func, PrimFunc) and "op_pattern" not in func.attrs:
                result.functions[var] = func.with_attr("op_pattern", int(op_pattern_kind(func)))
        return result
