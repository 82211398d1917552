"""``create_prim_func``: tensor expressions become one PrimFunc, a block per operation under a root block.

Every compute turns into a perfect loop nest around a block whose iteration variables are the compute's axes::

    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")

    for i, j, k in T.grid(n, m, l):
        with T.block("C"):
            v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[v_i, v_j] = 0
            C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..arith.analyzer import Analyzer
from ..error import IRTypeError, IRValueError
from ..structural import structural_equal
from ..tir.analysis.undefined_vars import undefined_vars
from ..tir.buffer import Buffer, decl_buffer
from ..tir.expr import BufferLoad, IntImm, IterVar, PrimExpr, ProducerLoad, Range, Reduce, Var
from ..tir.function import PrimFunc
from ..tir.kernel_attributes import LAYOUT_FREE_BUFFERS
from ..tir.op import if_then_else
from ..tir.operators import const
from ..tir.stmt import Block, BlockRealize, BufferStore, For, ForKind, LetStmt, Stmt, seq
from ..tir.stmt_functor import StmtExprMutator, loads_in, substitute
from .access_region import full_region, load_regions, point_region
from .index_dtype import with_index_dtype
from .tensor import ComputeOp, ExternOp, Operation, PlaceholderOp, Tensor

LAYOUT_FREE_PLACEHOLDERS = "layout_free_placeholders"
"""Attribute of a compute: the input tensors whose layout a schedule may choose (constant weights)."""


class _ToBuffers(StmtExprMutator):
    """Loads of tensors become loads of buffers, axes become block variables."""

    def __init__(self, buffers: dict[Tensor, Buffer], values: dict[Var, PrimExpr]) -> None:
        super().__init__()
        self._tensor_buffers = buffers
        self._values = values

    def visit_Var(self, node: Var) -> PrimExpr:
        return self._values.get(node, node)

    def visit_ProducerLoad(self, node: ProducerLoad) -> PrimExpr:
        try:
            buffer = self._tensor_buffers[node.producer]
        except KeyError:
            raise IRValueError(f"tensor {node.producer.name} is loaded before it is computed") from None
        return BufferLoad(buffer, [self.visit(index) for index in node.indices])


class _BlockNames(StmtExprMutator):
    """Gives the blocks of a statement names that no other block of the function has."""

    def __init__(self, fresh_name: Callable[[str], str]) -> None:
        super().__init__()
        self._fresh_name = fresh_name

    def visit_Block(self, node: Block) -> Any:
        named = node.replace(name_hint=self._fresh_name(node.name_hint))
        return self.generic_visit(named)


class _Builder:
    """State of one call: the buffers of tensors, names given, and what the root block allocates."""

    def __init__(self, arguments: Sequence[Tensor]) -> None:
        self.arguments = set(arguments)
        self.buffers: dict[Tensor, Buffer] = {}
        self.allocated: list[Buffer] = []
        self.analyzer = Analyzer()
        self._names: dict[str, int] = {}

    def fresh_name(self, name: str) -> str:
        """``name``, or with the first free number behind it: ``C``, ``C_1``, ``C_2``."""
        name = name.replace(".", "_")
        if name not in self._names:
            self._names[name] = 0
            return name
        while True:
            self._names[name] += 1
            candidate = f"{name}_{self._names[name]}"
            if candidate not in self._names:
                self._names[candidate] = 0
                return candidate

    def declare(self, tensor: Tensor, buffer: Buffer | None = None) -> Buffer:
        """The buffer of a tensor; what is no argument is allocated by the root block."""
        if buffer is None:
            buffer = decl_buffer(tensor.shape, tensor.dtype, tensor.name)
        self.buffers[tensor] = buffer
        if tensor not in self.arguments and not isinstance(tensor.op, PlaceholderOp):
            self.allocated.append(buffer)
        return buffer

    def statement_of(self, op: Operation) -> Stmt | None:
        """The loop nest of an operation; None for placeholders, which only get a buffer."""
        if isinstance(op, PlaceholderOp):
            self.declare(op.output(0))
            return None
        if isinstance(op, ComputeOp):
            return self._compute(op)
        if isinstance(op, ExternOp):
            return self._extern(op)
        raise IRTypeError(
            f"create_prim_func cannot lower a {type(op).__name__}; it takes placeholders, computes and externs"
        )

    def _compute(self, op: ComputeOp) -> Stmt:
        blocks: list[Stmt]
        axes: Sequence[IterVar] = (*op.axis, *op.reduce_axis)
        loop_vars = [Var(axis.var.name, axis.var.dtype) for axis in axes]
        if isinstance(op.body[0], Reduce):
            outputs = [op.output(index) for index in range(op.num_outputs)]
            if any(_is_empty(axis) for axis in op.reduce_axis):
                axes, loop_vars = op.axis, loop_vars[: len(op.axis)]
                blocks = self._identity_blocks(op, outputs, loop_vars)
            else:
                blocks = [self._reduction_block(op, outputs, loop_vars)]
        else:
            blocks = [self._spatial_block(op, op.output(index), loop_vars) for index in range(op.num_outputs)]
        body = seq(*blocks)
        for axis, loop_var in zip(reversed(axes), reversed(loop_vars), strict=True):
            domain = self._simplified(axis.dom)
            body = For(loop_var, domain.min, domain.extent, ForKind.SERIAL, body)
        return body

    def _simplified(self, domain: Range) -> Range:
        if isinstance(domain.min, IntImm) and isinstance(domain.extent, IntImm | Var):
            return domain
        return Range.from_min_extent(
            self.analyzer.simplify(domain.min), self.analyzer.simplify(domain.extent)
        )

    def _block_vars(
        self, op: ComputeOp, axes: Sequence[IterVar] | None = None
    ) -> tuple[list[IterVar], dict[Var, PrimExpr]]:
        iter_vars: list[IterVar] = []
        values: dict[Var, PrimExpr] = {}
        for axis in (*op.axis, *op.reduce_axis) if axes is None else axes:
            var = Var(f"v_{axis.var.name}", axis.var.dtype)
            values[axis.var] = var
            iter_vars.append(IterVar(self._simplified(axis.dom), var, axis.iter_type, axis.thread_tag))
        return iter_vars, values

    def _realize(
        self,
        op: ComputeOp,
        name: str,
        iter_vars: list[IterVar],
        loop_vars: list[Var],
        reads: Any,
        writes: Any,
        body: Stmt,
        init: Stmt | None = None,
    ) -> Stmt:
        bindings: list[PrimExpr] = list(loop_vars)
        if not iter_vars:
            iter_vars = [IterVar(Range(0, 1), Var("vi", "int32"), IterVar.DataPar)]
            bindings = [const(0)]
        annotations = {key: self._annotation(value) for key, value in op.attrs.items()}
        block = Block(iter_vars, reads, writes, name, body, init, (), (), annotations)
        return BlockRealize(bindings, const(True), block)

    def _annotation(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.buffers[value]
        if isinstance(value, tuple | list):
            return tuple(self._annotation(item) for item in value)
        return value

    def _spatial_block(self, op: ComputeOp, output: Tensor, loop_vars: list[Var]) -> Stmt:
        iter_vars, values = self._block_vars(op)
        value = self.analyzer.simplify_data(
            _ToBuffers(self.buffers, values).visit(op.body[output.value_index])
        )
        buffer = self.declare(output)
        indices = [values[axis.var] for axis in op.axis]
        reads = load_regions([value], self.analyzer, [buffer])
        store = BufferStore(buffer, value, indices)
        name = self.fresh_name(output.name)
        return self._realize(op, name, iter_vars, loop_vars, reads, [point_region(buffer, indices)], store)

    def _identity_blocks(self, op: ComputeOp, outputs: list[Tensor], loop_vars: list[Var]) -> list[Stmt]:
        """What a reduction over nothing is: its identity, stored by a block that reduces nothing."""
        reduce = _common_reduce(op)
        iter_vars, values = self._block_vars(op, op.axis)
        indices = [values[axis.var] for axis in op.axis]
        to_buffers = _ToBuffers(self.buffers, values)
        blocks = []
        for output, start in zip(outputs, reduce.init or reduce.combiner.identity_element, strict=True):
            buffer, value = self.declare(output), to_buffers.visit(start)
            reads = load_regions([value], self.analyzer, [buffer])
            name, writes = self.fresh_name(output.name), [point_region(buffer, indices)]
            store = BufferStore(buffer, value, indices)
            blocks.append(self._realize(op, name, iter_vars, loop_vars, reads, writes, store))
        return blocks

    def _reduction_block(self, op: ComputeOp, outputs: list[Tensor], loop_vars: list[Var]) -> Stmt:
        reduce = _common_reduce(op)
        iter_vars, values = self._block_vars(op)
        to_buffers = _ToBuffers(self.buffers, values)
        condition = to_buffers.visit(reduce.condition)
        combiner = reduce.combiner
        identity = reduce.init or combiner.identity_element
        sources = []
        for source, neutral in zip(reduce.source, combiner.identity_element, strict=True):
            value = self.analyzer.simplify_data(to_buffers.visit(source))
            always = isinstance(condition, IntImm) and condition.value
            # Lazy: the condition may say where the value is defined.
            sources.append(value if always else if_then_else(condition, value, neutral))
        buffers = [self.declare(output) for output in outputs]
        indices = [values[axis.var] for axis in op.axis]
        init = seq(
            *[
                BufferStore(buffer, to_buffers.visit(start), indices)
                for buffer, start in zip(buffers, identity, strict=True)
            ]
        )
        operands: dict[Any, Any] = dict(
            zip(combiner.lhs, [BufferLoad(buffer, indices) for buffer in buffers], strict=True)
        )
        operands.update(zip(combiner.rhs, sources, strict=True))
        results = [substitute(result, operands) for result in combiner.result]
        body: Stmt
        if len(buffers) == 1:
            body = BufferStore(buffers[0], results[0], indices)
        else:
            # All results are computed from the old values before any is stored.
            temporaries = [Var(f"v_{buffer.name}", buffer.dtype) for buffer in buffers]
            body = seq(
                *[
                    BufferStore(buffer, value, indices)
                    for buffer, value in zip(buffers, temporaries, strict=True)
                ]
            )
            for temporary, result in zip(reversed(temporaries), reversed(results), strict=True):
                body = LetStmt(temporary, result, body)
        reads = load_regions(results, self.analyzer, buffers)
        writes = [point_region(buffer, indices) for buffer in buffers]
        return self._realize(op, self.fresh_name(op.name), iter_vars, loop_vars, reads, writes, body, init)

    def _extern(self, op: ExternOp) -> Stmt:
        replaced: dict[Any, Any] = {}
        for tensor, placeholder in zip(op.inputs, op.input_placeholders, strict=True):
            replaced[placeholder] = self.buffers[tensor]
            replaced[placeholder.data] = self.buffers[tensor].data
        for index, placeholder in enumerate(op.output_placeholders):
            self.declare(op.output(index), placeholder)
        body = _ToBuffers(self.buffers, {}).visit(substitute(op.body, replaced))
        inputs = [self.buffers[tensor] for tensor in op.input_tensors]
        updated = [buffer for buffer in op.output_placeholders if buffer in _loaded(body)]
        reads = [full_region(buffer) for buffer in (*inputs, *updated)]
        writes = [full_region(buffer) for buffer in op.output_placeholders]
        if isinstance(body, BlockRealize) and not (body.block.reads or body.block.writes):
            # the root of a function, which states nothing there, is a block like any other here
            body = body.replace(block=body.block.replace(reads=reads, writes=writes))
        annotations = {key: self._annotation(value) for key, value in op.attrs.items()}
        name = self.fresh_name(op.name)
        body = _BlockNames(self.fresh_name).visit(body)
        block = Block((), reads, writes, name, body, None, (), (), annotations)
        return BlockRealize((), const(True), block)


def _loaded(body: Stmt) -> set[Buffer]:
    """The buffers that a statement loads from."""
    return {load.buffer for load in loads_in(body)}


def _is_empty(axis: IterVar) -> bool:
    return isinstance(axis.dom.extent, IntImm) and axis.dom.extent.value == 0


def _common_reduce(op: ComputeOp) -> Reduce:
    """The reduction of all outputs of ``op``; raises when they differ in more than the output that they give."""
    first = op.body[0]
    assert isinstance(first, Reduce)
    for other in op.body[1:]:
        assert isinstance(other, Reduce)
        same = other.combiner is first.combiner or structural_equal(
            other.replace(value_index=0), first.replace(value_index=0)
        )
        if not same:
            raise IRValueError(
                f"compute {op.name}: its outputs are different reductions; use one compute for each"
            )
    return first


def _operations_in_order(tensors: Iterable[Tensor]) -> list[Operation]:
    """The operations below ``tensors``, each behind those it reads from."""
    done: dict[int, Operation] = {}
    for tensor in tensors:
        stack: list[tuple[Operation, bool]] = [(tensor.op, False)]
        while stack:
            op, expanded = stack.pop()
            if id(op) in done:
                continue
            if expanded:
                done[id(op)] = op
                continue
            stack.append((op, True))
            stack += [(item.op, False) for item in reversed(op.input_tensors) if id(item.op) not in done]
    return list(done.values())


def create_prim_func(ops: Any, index_dtype_override: str | None = None) -> PrimFunc:
    """The PrimFunc of tensor expressions; ``ops`` lists its parameters: tensors, then perhaps scalar variables.

    Inputs and outputs are parameters; every other tensor is allocated by the root block. Tensors named by a compute's
    attribute ``layout_free_placeholders`` give the function attribute ``layout_free_buffers`` (their indices among the
    parameters). ``index_dtype_override`` makes all loops, shapes and indices of that dtype.
    """
    if not isinstance(index_dtype_override, str | None):
        raise IRTypeError(
            "create_prim_func takes a list of parameters, as in create_prim_func([A, B, C]), and perhaps the dtype of indices,"
            f" got {index_dtype_override!r} as dtype"
        )
    arguments = list(ops) if isinstance(ops, tuple | list) else [ops]
    for item in arguments:
        if not isinstance(item, Tensor | Var):
            raise IRTypeError(
                f"create_prim_func takes te.Tensor and tir.Var parameters, got {type(item).__name__}"
            )
    tensors = [item for item in arguments if isinstance(item, Tensor)]
    if len(set(tensors)) < len(tensors):
        again = next(item for position, item in enumerate(tensors) if item in tensors[:position])
        raise IRValueError(f"create_prim_func: tensor {again.name} is given twice; a parameter is one tensor")
    builder = _Builder(tensors)
    order = _operations_in_order(tensors)
    known = _variables_of(arguments)
    for op in order:
        _check_inputs_are_arguments(op, builder)
        _check_variables(op, known)
    statements = [found for op in order if (found := builder.statement_of(op)) is not None]
    params: list[Var] = []
    buffer_map: dict[Var, Buffer] = {}
    for item in arguments:
        if isinstance(item, Var):
            params.append(item)
        else:
            handle = Var(f"var_{item.name}", "handle")
            buffer_map[handle] = builder.buffers[item]
            params.append(handle)
    root = Block((), (), (), "root", seq(*statements), None, builder.allocated)
    attrs: dict[str, Any] = {"global_symbol": "main", "tir.noalias": True}
    func = PrimFunc(params, BlockRealize((), const(True), root), None, buffer_map, attrs)
    func = _with_layout_free_buffers(func)
    return func if index_dtype_override is None else with_index_dtype(func, index_dtype_override)


def _check_inputs_are_arguments(op: Operation, builder: _Builder) -> None:
    if isinstance(op, PlaceholderOp) and op.output(0) not in builder.arguments:
        raise IRValueError(
            f"placeholder {op.name} is read but is no parameter; add it to the list for create_prim_func"
        )


def _variables_of(arguments: Sequence[Tensor | Var]) -> list[Var]:
    """What the parameters of the function give a value: themselves, and the extents of tensors."""
    found: dict[Var, None] = {}
    for item in arguments:
        for expr in (item,) if isinstance(item, Var) else item.shape:
            found.update(dict.fromkeys(undefined_vars(expr)))
    return list(found)


def _check_variables(op: Operation, known: Sequence[Var]) -> None:
    """Each variable of a compute is one of its axes, or a parameter's."""
    if not isinstance(op, ComputeOp):
        return
    axes = [axis.var for axis in op.axis]
    for value in op.body:
        free = undefined_vars(value, [*axes, *known])
        if free:
            name = free[0].name
            raise IRValueError(
                f"compute {op.name}: {name} is no axis of it ({', '.join(axis.name for axis in axes)}) and no parameter of the function;"
                f" reduce over a reduce axis, as in te.sum(..., axis={name}), and list a variable of the function for create_prim_func"
            )


class _LayoutFree(StmtExprMutator):
    """Takes layout-free parameters out of block annotations and notes their indices."""

    def __init__(self, index_of: dict[Buffer, int]) -> None:
        super().__init__()
        self._index_of = index_of
        self.found: set[int] = set()

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_Block(self, block: Block) -> Block:
        block = self.generic_visit(block)
        marked = block.annotations.get(LAYOUT_FREE_PLACEHOLDERS)
        if marked is None:
            return block
        self.found.update(self._index_of[item] for item in marked if item in self._index_of)
        rest = tuple(item for item in marked if item not in self._index_of)
        annotations = {
            key: value for key, value in block.annotations.items() if key != LAYOUT_FREE_PLACEHOLDERS
        }
        if rest:
            annotations[LAYOUT_FREE_PLACEHOLDERS] = rest
        return block.replace(annotations=annotations)


def _with_layout_free_buffers(func: PrimFunc) -> PrimFunc:
    index_of = {
        func.buffer_map[param]: index for index, param in enumerate(func.params) if param in func.buffer_map
    }
    walker = _LayoutFree(index_of)
    body = walker.visit(func.body)
    if body is func.body:
        return func
    func = func.replace(body=body)
    return func.with_attr(LAYOUT_FREE_BUFFERS, tuple(sorted(walker.found))) if walker.found else func
