"""Schedule: a program together with the primitives that transform it step by step, and the trace of those steps.

Every method checks its legality before it changes anything and raises :class:`~schedules.error.ScheduleError` when it would
change the program's meaning; a failed step leaves the schedule as it was. The primitives themselves are functions on the
loop tree in :mod:`schedules.primitive`; this class resolves random variables, records the trace, and documents them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ir import IRModule, tir
from ir.tir import IndexMap, PrimFunc

from . import analysis
from .error import ScheduleError
from .instruction import Instruction, InstructionKind
from .primitive import annotate as annotate_primitive
from .primitive import caching, compute_at, for_kind, inline, layout, loops, reduction, sampling
from .primitive import rfactor as rfactor_primitive
from .random_variable import BlockRV, DecisionVar, ExprRV, LoopRV, RandomVariable
from .trace import Trace
from .tree import BlockNode, LoopNode, TreeNode, child_blocks, loops_around, root_of, tree_of, walk

_ERROR_WINDOW = 60
"""Lines of the program that an error quotes."""


class Schedule:
    """A schedulable program.

    Args:
        mod: an IRModule, or a PrimFunc (which becomes ``main``).
        seed: of all random decisions; None draws one.
        debug_mask: "all" verifies the program after each step, "none" does not.
        error_render_level: "detail" quotes the program in errors, "fast" and "none" do not (searches want that).
        enable_check: kept for compatibility; legality is always checked.

    >>> from ir import te
    >>> A = te.placeholder((64, 64), name="A")
    >>> B = te.compute((64, 64), lambda i, j: A[i, j] + 1.0, name="B")
    >>> sch = Schedule(te.create_prim_func([A, B]))
    >>> i, j = sch.get_loops(sch.get_block("B"))
    >>> i0, i1 = sch.split(i, [None, 8])
    >>> [sch.get(loop).extent.value for loop in sch.get_loops("B")]
    [8, 8, 64]
    """

    def __init__(
        self,
        mod: PrimFunc | IRModule,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
        enable_check: bool = True,
    ) -> None:
        module = IRModule({"main": mod}) if isinstance(mod, PrimFunc) else mod
        if error_render_level not in ("detail", "fast", "none"):
            raise ScheduleError(f"error_render_level must be detail, fast or none, got {error_render_level!r}")
        self._module = module
        self._functions: dict[str, PrimFunc] = {}
        self._roots: dict[str, BlockNode] = {}
        self._buffer_maps: dict[str, dict[Any, tir.Buffer]] = {}
        for var, func in module.functions.items():
            if isinstance(func, PrimFunc):
                self._functions[var.name_hint] = func
        self._debug = debug_mask not in ("none", 0)
        self._error_render_level = error_render_level
        self._table: dict[Any, Any] = {}
        self._block_values: dict[Any, BlockNode] = {}
        self.trace: Trace | None = Trace()
        self._generator = np.random.default_rng(seed)
        self._working_on: str | None = None
        if "main" in self._functions:
            self._working_on = "main"
        elif len(self._functions) == 1:
            self._working_on = next(iter(self._functions))

    # ---- the program -------------------------------------------------------------------------------------------

    @property
    def mod(self) -> IRModule:
        """The module as scheduled so far."""
        functions = dict(self._module.functions)
        for var in functions:
            name = var.name_hint
            if name in self._roots:
                functions[var] = self._current_function(name)
        return IRModule(functions, self._module.attrs, self._module.global_infos)

    def _current_function(self, name: str) -> PrimFunc:
        func = self._functions[name]
        body = self._roots[name].stmt()
        buffer_map = self._buffer_maps[name]
        unchanged = all(buffer_map[param] is buffer for param, buffer in func.buffer_map.items())
        if body is func.body and unchanged:
            return func
        func = func.replace(body=body, buffer_map=dict(buffer_map))
        self._functions[name] = func
        return func

    def _root(self, name: str) -> BlockNode:
        if name not in self._roots:
            if name not in self._functions:
                raise ScheduleError(f"the module has no PrimFunc {name!r}; it has {sorted(self._functions)}")
            func = self._functions[name]
            root = tree_of(func.body)
            if not isinstance(root, BlockNode):
                root = BlockNode("root", (), (), (), (), root)
            self._roots[name] = root
            self._buffer_maps[name] = dict(func.buffer_map)
        return self._roots[name]

    @property
    def func_working_on(self) -> str | None:
        """The function in which :meth:`get_block` looks by default."""
        return self._working_on

    def work_on(self, func_name: str) -> None:
        """Choose the function in which :meth:`get_block` looks by default."""
        self._root(func_name)
        self._working_on = func_name

    def copy(self) -> Schedule:
        """An independent copy; random variables of this schedule are valid in the copy."""
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        memo: dict[int, TreeNode] = {}
        new._roots = {name: root.copy(memo) for name, root in self._roots.items()}  # type: ignore[misc]
        new._functions = dict(self._functions)
        new._buffer_maps = {name: dict(buffers) for name, buffers in self._buffer_maps.items()}
        new._table = {
            key: memo.get(id(value), value) if isinstance(value, TreeNode) else value
            for key, value in self._table.items()
        }
        new.trace = None if self.trace is None else self.trace.copy()
        new._generator = np.random.default_rng(self.fork_seed())
        return new

    def seed(self, seed: int) -> None:
        """Restart the random decisions from a seed."""
        self._generator = np.random.default_rng(seed)

    def fork_seed(self) -> int:
        """A seed for another schedule, drawn from this one's."""
        return int(self._generator.integers(1 << 31))

    def show(self, **options: Any) -> None:
        """Print the program and the trace."""
        print(self.mod.script(**options))
        if self.trace is not None:
            self.trace.show()

    # ---- random variables --------------------------------------------------------------------------------------

    def get(self, rand_var_or_sref: Any) -> Any:
        """What a random variable stands for: a Block, a For, or an integer (a decision variable in a sketch)."""
        if isinstance(rand_var_or_sref, BlockRV):
            return self._node(rand_var_or_sref).block()
        if isinstance(rand_var_or_sref, LoopRV):
            return self._node(rand_var_or_sref).stmt()
        if isinstance(rand_var_or_sref, ExprRV):
            value = self._table[rand_var_or_sref]
            return value.value if isinstance(value, tir.IntImm) else value
        if isinstance(rand_var_or_sref, tir.PrimExpr):
            value = self._value(rand_var_or_sref)
            return value.value if isinstance(value, tir.IntImm) else value
        return rand_var_or_sref

    def remove_rv(self, rand_var: RandomVariable | ExprRV) -> None:
        """Forget a random variable."""
        if rand_var not in self._table:
            raise ScheduleError(f"{rand_var!r} is not a random variable of this schedule")
        del self._table[rand_var]

    def _node(self, rv: Any) -> Any:
        if isinstance(rv, str):
            return self._find_block(rv, None)
        node = self._table.get(rv) if isinstance(rv, BlockRV | LoopRV) else None
        if node is None:
            raise ScheduleError(
                f"{rv!r} is no block or loop of this schedule, or a primitive has consumed it; get it anew"
            )
        return node

    def _block(self, rv: Any, primitive: str) -> BlockNode:
        node = self._node(rv)
        if not isinstance(node, BlockNode):
            raise ScheduleError(f"{primitive}: expected a block, got loop {node.var.name!r}")
        if root_of(node) not in self._roots.values():
            raise ScheduleError(f"{primitive}: block {node.name!r} was consumed by an earlier primitive; get it anew")
        return node

    def _loop(self, rv: Any, primitive: str) -> LoopNode:
        if isinstance(rv, str):
            raise ScheduleError(f"{primitive}: expected a loop, got the string {rv!r}; use get_loops")
        node = self._node(rv)
        if not isinstance(node, LoopNode):
            raise ScheduleError(f"{primitive}: expected a loop, got block {node.name!r}")
        if root_of(node) not in self._roots.values():
            raise ScheduleError(f"{primitive}: loop {node.var.name!r} was consumed by an earlier primitive; get it anew")
        return node

    def _value(self, item: Any) -> Any:
        """A number, or an expression over sampled integers, with the samples filled in."""
        if item is None:
            return None
        if isinstance(item, ExprRV):
            return self._table[item]
        if isinstance(item, tir.PrimExpr) and not isinstance(item, tir.IntImm):
            return tir.substitute(item, lambda var: self._table.get(var) if isinstance(var, ExprRV) else None)
        return tir.convert(item)

    def _new(self, node: TreeNode) -> Any:
        rv = BlockRV() if isinstance(node, BlockNode) else LoopRV()
        self._table[rv] = node
        return rv

    def _run(
        self, kind: str, inputs: Sequence[Any], attrs: Sequence[Any], step: Callable[[], Any], decision: Any = None
    ) -> Any:
        """Run a primitive, wrap the nodes that it returns, and record the instruction."""
        try:
            result = step()
        except ScheduleError as error:
            self._explain(error)
            raise
        if isinstance(result, list):
            outputs: Any = [self._new(node) for node in result]
            flat = outputs
        elif isinstance(result, TreeNode):
            outputs = self._new(result)
            flat = [outputs]
        else:
            outputs, flat = None, []
        self._record(kind, inputs, attrs, flat, decision)
        if self._debug:
            self._verify(kind)
        return outputs

    def _record(self, kind: str, inputs: Sequence[Any], attrs: Sequence[Any], outputs: Sequence[Any], decision: Any = None) -> None:
        if self.trace is not None:
            self.trace.append(Instruction(InstructionKind.get(kind), tuple(inputs), tuple(attrs), tuple(outputs)), decision)

    def _verify(self, kind: str) -> None:
        from ir.tir.analysis import verify_well_formed

        for name in self._roots:
            if not verify_well_formed(self._current_function(name), assert_mode=False):
                raise ScheduleError(f"{kind} left function {name!r} malformed; this is a defect of the primitive")

    def _explain(self, error: ScheduleError) -> None:
        if self._error_render_level != "detail" or self._working_on is None:
            return
        lines = self._current_function(self._working_on).script().splitlines() if self._roots else []
        if lines:
            window = lines[:_ERROR_WINDOW] + ([f"... ({len(lines) - _ERROR_WINDOW} more lines)"] if len(lines) > _ERROR_WINDOW else [])
            error.add_note("in the program:\n" + "\n".join(window))

    # ---- looking around ----------------------------------------------------------------------------------------

    def _find_block(self, name: str, func_name: str | None) -> BlockNode:
        func = func_name or self._working_on
        if func is None:
            raise ScheduleError(
                f"get_block: the module has several functions and no 'main'; pass func_name or call work_on."
                f" Functions: {sorted(self._functions)}"
            )
        found = [node for node in walk(self._root(func)) if isinstance(node, BlockNode) and node.name == name]
        if len(found) == 1:
            return found[0]
        names = sorted({node.name for node in walk(self._root(func)) if isinstance(node, BlockNode)})
        problem = "no block" if not found else f"{len(found)} blocks"
        raise ScheduleError(f"get_block: {problem} named {name!r} in function {func!r}; its blocks are {names}")

    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block called ``name`` in ``func_name`` (default: the function that is worked on)."""
        func = func_name or self._working_on
        return self._run("GetBlock", [], [name, func], lambda: self._find_block(name, func_name))

    def get_loops(self, block: BlockRV | str) -> list[LoopRV]:
        """The loops around a block up to the enclosing block, outermost first."""
        block = self._as_rv(block)
        return self._run("GetLoops", [block], [], lambda: loops_around(self._block(block, "get_loops")))

    def _as_rv(self, block: Any) -> Any:
        return self.get_block(block) if isinstance(block, str) else block

    def get_child_blocks(self, block_or_loop: BlockRV | LoopRV) -> list[BlockRV]:
        """The blocks directly inside a block, or under a loop."""
        node = self._node(block_or_loop)
        return self._run("GetChildBlocks", [block_or_loop], [], lambda: child_blocks(node))

    def get_producers(self, block: BlockRV | str) -> list[BlockRV]:
        """The blocks of the same scope that write what this one reads."""
        block = self._as_rv(block)
        return self._run("GetProducers", [block], [], lambda: analysis.producers_of(self._block(block, "get_producers")))

    def get_consumers(self, block: BlockRV | str) -> list[BlockRV]:
        """The blocks of the same scope that read what this one writes."""
        block = self._as_rv(block)
        return self._run("GetConsumers", [block], [], lambda: analysis.consumers_of(self._block(block, "get_consumers")))

    def get_output_blocks(self, scope_block: BlockRV | str) -> list[BlockRV]:
        """The blocks in a scope that write buffers which the scope does not allocate."""
        scope_block = self._as_rv(scope_block)

        def find() -> list[BlockNode]:
            scope = self._block(scope_block, "get_output_blocks")
            return [item for item in child_blocks(scope) if analysis.is_output_block(item)]

        return self._run("GetOutputBlocks", [scope_block], [], find)

    # ---- sampling ----------------------------------------------------------------------------------------------

    def sample_categorical(self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None) -> ExprRV:
        """One of ``candidates``, drawn with probabilities ``probs``; ``decision`` is its position."""
        if decision is None:
            decision = sampling.sample_categorical(self._generator, candidates, probs)
        if not 0 <= decision < len(candidates):
            raise ScheduleError(f"sample_categorical: decision {decision} is not a position among {len(candidates)} candidates")
        rv = ExprRV()
        self._table[rv] = tir.const(int(candidates[decision]), "int32")
        self._record("SampleCategorical", [], [list(candidates), list(probs)], [rv], int(decision))
        return rv

    def sample_perfect_tile(
        self, loop: LoopRV, n: int, max_innermost_factor: int = 16, decision: Sequence[int] | None = None
    ) -> list[ExprRV]:
        """``n`` factors whose product is the loop's extent, uniformly among all; the innermost is bounded."""
        node = self._loop(loop, "sample_perfect_tile")
        if not isinstance(node.extent, tir.IntImm):
            raise ScheduleError(f"sample_perfect_tile: loop {node.var.name!r} has extent {node.extent}, it must be constant")
        extent = node.extent.value
        factors = self._tile_decision(extent, n, max_innermost_factor, decision)
        rvs = [ExprRV() for _ in factors]
        self._table.update(zip(rvs, [tir.const(item, node.var.dtype) for item in factors], strict=True))
        self._record("SamplePerfectTile", [loop], [n, max_innermost_factor], rvs, list(factors))
        return rvs

    def _tile_decision(self, extent: int, n: int, max_innermost_factor: int, decision: Sequence[int] | None) -> list[int]:
        if decision is None:
            return list(sampling.sample_perfect_tile(self._generator, extent, n, max_innermost_factor))
        factors = [int(getattr(item, "value", item)) for item in decision]
        if len(factors) != n:
            raise ScheduleError(f"sample_perfect_tile: the decision has {len(factors)} factors, expected {n}")
        inner = int(np.prod(factors[1:], dtype=np.int64))
        if inner * factors[0] != extent:
            # A decision made for another extent: keep the inner tiles as far as they fit, cover the loop with the outer.
            factors = _fit_tile(extent, factors)
        return factors

    def sample_compute_location(self, block: BlockRV | str, decision: int | None = None) -> LoopRV:
        """A loop at which the block may be computed; the root (-2) and inlining (-1) are choices too."""
        block = self._as_rv(block)
        node = self._block(block, "sample_compute_location")
        locations, positions = sampling.compute_locations(node)
        choices = [-2, -1, *positions] if analysis.why_not_complete(node) is None else [-2, *positions]
        if decision is None:
            decision = int(self._generator.choice(choices))
        if decision >= 0 and decision not in positions:
            decision = max((item for item in positions if item < decision), default=-2)
        rv = LoopRV()
        self._table[rv] = _Location(decision) if decision < 0 else locations[positions.index(decision)]
        self._record("SampleComputeLocation", [block], [], [rv], decision)
        return rv

    # ---- loops -------------------------------------------------------------------------------------------------

    def fuse(self, *loops_to_fuse: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """Join directly nested loops into one.

        ``for i in 4: for j in 8: B[i, j]`` becomes ``for i_j_fused in 32: B[i_j_fused // 8, i_j_fused % 8]``.

        Raises:
            ScheduleError: a loop is not the only child of the one before it, does not start at 0, or has annotations.
        """
        items = list(loops_to_fuse[0]) if len(loops_to_fuse) == 1 and isinstance(loops_to_fuse[0], list) else list(loops_to_fuse)
        return self._run(
            "Fuse", items, [preserve_unit_iters], lambda: loops.fuse([self._loop(item, "fuse") for item in items], preserve_unit_iters)
        )

    def split(
        self,
        loop: LoopRV,
        factors: Sequence[int | ExprRV | None],
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        """Replace a loop by nested loops; one factor may be None and is inferred.

        ``for i in 64: B[i]`` with factors [None, 8] becomes ``for i_0 in 8: for i_1 in 8: B[i_0 * 8 + i_1]``. Factors that
        do not divide the extent add a predicate (unless ``disable_predication``).

        Raises:
            ScheduleError: the loop does not start at 0, has annotations, or the factors are too small or more than one is None.
        """
        values = [self._value(item) for item in factors]
        exact = any(isinstance(item, DecisionVar) for item in values)

        def step() -> Any:
            node = self._loop(loop, "split")
            return loops.split(node, values, preserve_unit_iters, disable_predication, exact)

        return self._run("Split", [loop, *factors], [preserve_unit_iters, disable_predication], step)

    def reorder(self, *ordered_loops: LoopRV) -> None:
        """Put loops of one chain into the given order, outermost first.

        ``for i: for j: for k: S`` reordered by (k, i) becomes ``for k: for j: for i: S``.

        Raises:
            ScheduleError: the loops are not on one chain, or a block below must run in order.
        """
        items = list(ordered_loops[0]) if len(ordered_loops) == 1 and isinstance(ordered_loops[0], list) else list(ordered_loops)
        self._run("Reorder", items, [], lambda: loops.reorder([self._loop(item, "reorder") for item in items]))

    def add_unit_loop(self, block_or_loop: LoopRV | BlockRV) -> LoopRV:
        """A loop of extent 1 around a block or loop: ``B[0]`` becomes ``for u in 1: B[0]``."""
        return self._run("AddUnitLoop", [block_or_loop], [], lambda: loops.add_unit_loop(self._node(block_or_loop)))

    def parallel(self, loop: LoopRV) -> None:
        """Run the iterations on several cores; every block below must allow any order of this loop."""
        self._run("Parallel", [loop], [], lambda: for_kind.parallel(self._loop(loop, "parallel")))

    def vectorize(self, loop: LoopRV) -> None:
        """Run the iterations as vector lanes; every block below must allow any order of this loop."""
        self._run("Vectorize", [loop], [], lambda: for_kind.vectorize(self._loop(loop, "vectorize")))

    def unroll(self, loop: LoopRV) -> None:
        """Write out the iterations."""
        self._run("Unroll", [loop], [], lambda: for_kind.unroll(self._loop(loop, "unroll")))

    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Bind to a GPU axis: blockIdx.x/y/z, threadIdx.x/y/z, vthread.x/y/z."""
        self._run("Bind", [loop], [thread_axis], lambda: for_kind.bind(self._loop(loop, "bind"), thread_axis))

    # ---- caching -----------------------------------------------------------------------------------------------

    def cache_read(
        self,
        block: BlockRV | str,
        read_buffer_index: int | str | tir.Buffer,
        storage_scope: str,
        consumer_blocks: Sequence[BlockRV | str] | None = None,
    ) -> BlockRV:
        """Stage a buffer that a block reads: a new block copies it to ``storage_scope``, and consumers read the copy.

        ``B[i] = A[i]`` becomes ``A_local[i] = A[i]; B[i] = A_local[i]``.

        Returns:
            The copying block, placed before the first consumer (behind the producer, if there is one).
        """
        block = self._as_rv(block)
        consumers = [self._as_rv(item) for item in consumer_blocks or []]
        index = self._buffer_index(block, read_buffer_index, False, "cache_read")
        return self._run(
            "CacheRead",
            [block, *consumers],
            [index, storage_scope],
            lambda: caching.cache_read(
                self._block(block, "cache_read"), index, storage_scope, [self._block(item, "cache_read") for item in consumers]
            ),
        )

    def cache_write(
        self,
        block: BlockRV | str,
        write_buffer_index: int | str | tir.Buffer,
        storage_scope: str,
        consumer_blocks: Sequence[BlockRV | str] | None = None,
    ) -> BlockRV:
        """Let a block write to ``storage_scope`` first: a new block behind it copies the result to the buffer.

        ``B[i] = A[i]`` becomes ``B_local[i] = A[i]; B[i] = B_local[i]``.
        """
        block = self._as_rv(block)
        consumers = [self._as_rv(item) for item in consumer_blocks or []]
        index = self._buffer_index(block, write_buffer_index, True, "cache_write")
        return self._run(
            "CacheWrite",
            [block, *consumers],
            [index, storage_scope],
            lambda: caching.cache_write(
                self._block(block, "cache_write"), index, storage_scope, [self._block(item, "cache_write") for item in consumers]
            ),
        )

    def _buffer_index(self, block: BlockRV, which: Any, is_write: bool, primitive: str) -> int:
        if isinstance(which, int):
            return which
        node = self._block(block, primitive)
        regions = node.writes if is_write else node.reads
        for index, region in enumerate(regions):
            if region.buffer is which or region.buffer.name == which:
                return index
        names = [region.buffer.name for region in regions]
        raise ScheduleError(f"{primitive}: block {node.name!r} accesses {names}, not {getattr(which, 'name', which)!r}")

    # ---- compute location --------------------------------------------------------------------------------------

    def compute_at(self, block: BlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1) -> None:
        """Move a producer under a loop of its consumers, computing only what one iteration needs.

        ``B = f(A); for i: C[i] = g(B[i])`` becomes ``for i: B[i] = f(A[i]); C[i] = g(B[i])``.

        Raises:
            ScheduleError: a consumer is not under the loop, or the block writes an output, or it is neither complete nor a
                reduction.
        """
        block = self._as_rv(block)

        def step() -> None:
            node = self._block(block, "compute_at")
            target = self._node(loop)
            if isinstance(target, _Location):
                if target.decision == -1:
                    inline.compute_inline(node)
                return
            compute_at.compute_at(node, self._loop(loop, "compute_at"), preserve_unit_loops, index)

        self._run("ComputeAt", [block, loop], [preserve_unit_loops, index], step)

    def reverse_compute_at(
        self, block: BlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Move a consumer under a loop of its producers, consuming what one iteration produces.

        ``for i: B[i] = f(A[i])`` followed by ``C = g(B)`` becomes ``for i: B[i] = f(A[i]); C[i] = g(B[i])``.
        """
        block = self._as_rv(block)

        def step() -> None:
            node = self._block(block, "reverse_compute_at")
            target = self._node(loop)
            if isinstance(target, _Location):
                if target.decision == -1:
                    inline.reverse_compute_inline(node)
                return
            compute_at.reverse_compute_at(node, self._loop(loop, "reverse_compute_at"), preserve_unit_loops, index)

        self._run("ReverseComputeAt", [block, loop], [preserve_unit_loops, index], step)

    def compute_inline(self, block: BlockRV | str) -> None:
        """Replace every load of the block's result by its expression: ``B[i] = A[i] + 1; C[i] = B[i] * 2`` becomes ``C[i] = (A[i] + 1) * 2``."""
        block = self._as_rv(block)
        self._run("ComputeInline", [block], [], lambda: inline.compute_inline(self._block(block, "compute_inline")))

    def reverse_compute_inline(self, block: BlockRV | str) -> None:
        """Merge a block into its only producer: ``B[i] = A[i] + 1; C[i] = B[i] * 2`` becomes ``C[i] = (A[i] + 1) * 2``."""
        block = self._as_rv(block)
        self._run(
            "ReverseComputeInline", [block], [], lambda: inline.reverse_compute_inline(self._block(block, "reverse_compute_inline"))
        )

    # ---- reductions --------------------------------------------------------------------------------------------

    def decompose_reduction(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Split a reduction into an init block before ``loop`` and an update block; returns the init block.

        ``for i: for k: (init: C[i] = 0) C[i] += A[i, k]`` at loop k becomes ``for i: C[i] = 0; for k: C[i] += A[i, k]``.
        """
        block = self._as_rv(block)
        return self._run(
            "DecomposeReduction",
            [block, loop],
            [],
            lambda: reduction.decompose_reduction(
                self._block(block, "decompose_reduction"), self._loop(loop, "decompose_reduction")
            ),
        )

    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        """Factor a reduction loop out into partial results: returns the block that computes them.

        ``for i: for k: C[i] += A[i, k]`` by k becomes ``for i: for k: C_rf[k, i] = A[i, k]`` and ``for i: for k: C[i] += C_rf[k, i]``.
        """
        return self._run("RFactor", [loop], [factor_axis], lambda: rfactor_primitive.rfactor(self._loop(loop, "rfactor"), factor_axis))

    # ---- annotations -------------------------------------------------------------------------------------------

    def annotate(self, block_or_loop: BlockRV | LoopRV, ann_key: str, ann_val: Any) -> None:
        """Attach a value to a block or loop."""
        self._run(
            "Annotate",
            [block_or_loop, ann_val],
            [ann_key],
            lambda: annotate_primitive.annotate(self._node(block_or_loop), ann_key, self._annotation(ann_val)),
        )

    def _annotation(self, value: Any) -> Any:
        if isinstance(value, ExprRV):
            return self._value(value)
        if isinstance(value, list | tuple):
            return tuple(self._annotation(item) for item in value)
        if isinstance(value, dict):
            return {key: self._annotation(item) for key, item in value.items()}
        return value

    def unannotate(self, block_or_loop: BlockRV | LoopRV, ann_key: str) -> None:
        """Remove an annotation."""
        self._run("Unannotate", [block_or_loop], [ann_key], lambda: annotate_primitive.unannotate(self._node(block_or_loop), ann_key))

    # ---- layout ------------------------------------------------------------------------------------------------

    def transform_layout(
        self,
        block: BlockRV | str,
        buffer: tuple[str, int] | int | str | tir.Buffer,
        index_map: IndexMap | Callable[..., Any],
        pad_value: Any = None,
        *,
        assume_injective_transform: bool = False,
    ) -> None:
        """Store a buffer in another layout, rewriting every access in its scope.

        ``buffer`` is ("read" or "write", position), a name, or a Buffer. With ``lambda i, j: [j, i]`` an access ``B[i, j]``
        becomes ``B[j, i]``.
        """
        block = self._as_rv(block)
        node = self._block(block, "transform_layout")
        is_write, position = self._which_buffer(node, buffer)
        ndim = len((node.writes if is_write else node.reads)[position].buffer.shape)
        mapping = index_map if isinstance(index_map, IndexMap) else IndexMap.from_func(index_map, ndim, index_dtype=_index_dtype(node))
        resolved = self._resolved_map(mapping)

        def step() -> None:
            func = self._function_of(node)
            layout.transform_layout(
                node, position, is_write, resolved, self._pad_value(pad_value), self._buffer_maps[func],
                self._symbolic_shape(resolved, (node.writes if is_write else node.reads)[position].buffer.shape),
            )

        self._run("TransformLayout", [block], [position, is_write, self._recorded_map(mapping, resolved), pad_value, assume_injective_transform], step)

    def _resolved_map(self, index_map: IndexMap) -> IndexMap:
        """The map with sampled integers filled in."""
        finals = tuple(self._value(item) for item in index_map.final_indices)
        inverse = index_map.inverse_index_map
        if isinstance(inverse, IndexMap):
            inverse = IndexMap(inverse.initial_indices, tuple(self._value(item) for item in inverse.final_indices))
        return IndexMap(index_map.initial_indices, finals, inverse)

    def _recorded_map(self, index_map: IndexMap, resolved: IndexMap) -> IndexMap:
        """What the trace stores: a map of numbers (a sketch keeps the random variables instead)."""
        return resolved

    def _symbolic_shape(self, index_map: IndexMap, shape: Sequence[Any]) -> list[Any] | None:
        """The new shape when open decisions occur in the map (a sketch computes it another way); None otherwise."""
        return None

    def _pad_value(self, pad_value: Any) -> Any:
        return pad_value

    def _which_buffer(self, node: BlockNode, buffer: Any) -> tuple[bool, int]:
        if isinstance(buffer, tuple | list):
            kind, position = buffer
            if kind not in ("read", "write"):
                raise ScheduleError(f"transform_layout: expected ('read' or 'write', index), got {buffer!r}")
            return kind == "write", int(position)
        for is_write, regions in ((True, node.writes), (False, node.reads)):
            for position, region in enumerate(regions):
                if region.buffer is buffer or region.buffer.name == buffer:
                    return is_write, position
        raise ScheduleError(f"transform_layout: block {node.name!r} does not access buffer {getattr(buffer, 'name', buffer)!r}")

    def _function_of(self, node: TreeNode) -> str:
        root = root_of(node)
        return next(name for name, item in self._roots.items() if item is root)

    def transform_block_layout(self, block: BlockRV | str, index_map: IndexMap | Callable[..., Any]) -> None:
        """Iterate a block over the mapped index space; its loops become the final indices of the map."""
        block = self._as_rv(block)
        node = self._block(block, "transform_block_layout")
        mapping = (
            index_map
            if isinstance(index_map, IndexMap)
            else IndexMap.from_func(index_map, len(node.iter_vars), index_dtype=_index_dtype(node))
        )
        resolved = self._resolved_map(mapping)
        self._run(
            "TransformBlockLayout",
            [block],
            [self._recorded_map(mapping, resolved)],
            lambda: layout.transform_block_layout(
                node, resolved, self._symbolic_shape(resolved, [item.dom.extent for item in node.iter_vars])
            ),
        )

    def set_scope(self, block: BlockRV | str, buffer_index: int | str | tir.Buffer, storage_scope: str) -> None:
        """Put the buffer that a block writes at ``buffer_index`` into another storage scope."""
        block = self._as_rv(block)
        index = self._buffer_index(block, buffer_index, True, "set_scope")
        self._run(
            "SetScope", [block], [index, storage_scope], lambda: _no_output(layout.set_scope(self._block(block, "set_scope"), index, storage_scope))
        )

    def storage_align(self, block: BlockRV | str, buffer_index: int, axis: int, factor: int, offset: int) -> None:
        """Ask that the stride of ``axis`` is ``offset`` modulo ``factor`` elements."""
        block = self._as_rv(block)
        self._run(
            "StorageAlign",
            [block],
            [buffer_index, axis, factor, offset],
            lambda: layout.storage_align(self._block(block, "storage_align"), buffer_index, axis, factor, offset),
        )

    def enter_postproc(self) -> None:
        """Mark that what follows in the trace is postprocessing, not design space."""
        self._record("EnterPostproc", [], [], [])


class _Location(TreeNode):
    """A compute location that is no loop: -1 inlines, -2 leaves the block at the root."""

    __slots__ = ("decision",)

    def __init__(self, decision: int) -> None:
        super().__init__()
        self.decision = decision


def _no_output(_result: Any) -> None:
    return None


def _index_dtype(node: BlockNode) -> str:
    return node.iter_vars[0].var.dtype if node.iter_vars else "int32"


def _fit_tile(extent: int, factors: Sequence[int]) -> list[int]:
    """Divide ``extent`` by the inner factors from the innermost outwards, taking the largest divisor up to each."""
    rest, inner = extent, []
    for factor in reversed(list(factors[1:])):
        best = max(d for d in range(1, min(factor, rest) + 1) if rest % d == 0)
        inner.append(best)
        rest //= best
    return [rest, *reversed(inner)]

