"""What a schedule is made of: the loop trees of a module's functions, the random variables that point into them, and the trace.

The primitives' methods are mixins over this class, one file per family in :mod:`schedules.methods`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import numpy as np

from ir import IRModule, tir
from ir.tir import IndexMap, PrimFunc
from ir.tir.analysis import verify_well_formed

from .affine import simplify_polynomial
from .error import ScheduleError
from .instruction import Instruction, InstructionKind
from .random_variable import BlockRV, ExprRV, LoopRV, RandomVariable
from .trace import Trace
from .tree import BlockNode, LoopNode, TreeNode, all_blocks, root_of, tree_of, walk

_RV = TypeVar("_RV", bound=RandomVariable)

_ERROR_WINDOW = 60
"""Lines of the program that an error quotes."""


class ScheduleState:
    """The state behind :class:`~schedules.Schedule`."""

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
            raise ScheduleError(
                f"error_render_level must be detail, fast or none, got {error_render_level!r}"
            )
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

    # ---- the program ----

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
        changed: PrimFunc = func.replace(body=body, buffer_map=dict(buffer_map))
        self._functions[name] = changed
        return changed

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

    def copy(self) -> Self:
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

    # ---- random variables ----

    def get(self, rand_var_or_sref: Any) -> Any:
        """What a random variable stands for: a Block, a For, or an integer (a decision variable in a sketch)."""
        if isinstance(rand_var_or_sref, BlockRV):
            return self._block(rand_var_or_sref, "get").block()
        if isinstance(rand_var_or_sref, LoopRV):
            node = self._node(rand_var_or_sref)
            return None if isinstance(node, ComputeLocation) else self._loop(rand_var_or_sref, "get").stmt()
        if isinstance(rand_var_or_sref, ExprRV):
            value = self._table[rand_var_or_sref]
            return value.value if isinstance(value, tir.IntImm) else value
        if isinstance(rand_var_or_sref, tir.PrimExpr):
            value = self._value(rand_var_or_sref)
            return value.value if isinstance(value, tir.IntImm) else value
        return rand_var_or_sref

    def get_sref(self, rand_var_or_stmt: Any) -> StmtSRef:
        """Where a block or loop is in the program: its statement, and the block or loop around it."""
        if isinstance(rand_var_or_stmt, tir.Stmt):
            wanted = rand_var_or_stmt
            for root in self._roots.values():
                for node in walk(root):
                    if isinstance(node, BlockNode | LoopNode) and _statement(node) is wanted:
                        return StmtSRef(node)
            raise ScheduleError("get_sref: the statement is no block or loop of the program as it is now")
        return StmtSRef(self._node(rand_var_or_stmt))

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
            raise ScheduleError(
                f"{primitive}: block {node.name!r} was consumed by an earlier primitive; get it anew"
            )
        return node

    def _loop(self, rv: Any, primitive: str) -> LoopNode:
        if isinstance(rv, str):
            raise ScheduleError(f"{primitive}: expected a loop, got the string {rv!r}; use get_loops")
        node = self._node(rv)
        if not isinstance(node, LoopNode):
            raise ScheduleError(f"{primitive}: expected a loop, got block {node.name!r}")
        if root_of(node) not in self._roots.values():
            raise ScheduleError(
                f"{primitive}: loop {node.var.name!r} was consumed by an earlier primitive; get it anew"
            )
        return node

    def _value(self, item: Any) -> Any:
        """A number, or an expression over sampled integers, with the samples filled in."""
        if item is None:
            return None
        if isinstance(item, ExprRV):
            return self._table[item]
        if isinstance(item, tir.PrimExpr) and not isinstance(item, tir.IntImm):
            filled = tir.substitute(
                item, lambda var: self._table.get(var) if isinstance(var, ExprRV) else None
            )
            return item if filled is item else simplify_polynomial(filled)
        return tir.convert(item)

    def _new(self, node: TreeNode) -> Any:
        rv = BlockRV() if isinstance(node, BlockNode) else LoopRV()
        self._table[rv] = node
        return rv

    @overload
    def _run(
        self, kind: str, inputs: Sequence[Any], attrs: Sequence[Any], step: Callable[[], BlockNode]
    ) -> BlockRV: ...

    @overload
    def _run(
        self, kind: str, inputs: Sequence[Any], attrs: Sequence[Any], step: Callable[[], LoopNode]
    ) -> LoopRV: ...

    @overload
    def _run(
        self, kind: str, inputs: Sequence[Any], attrs: Sequence[Any], step: Callable[[], list[BlockNode]]
    ) -> list[BlockRV]: ...

    @overload
    def _run(
        self, kind: str, inputs: Sequence[Any], attrs: Sequence[Any], step: Callable[[], list[LoopNode]]
    ) -> list[LoopRV]: ...

    @overload
    def _run(
        self, kind: str, inputs: Sequence[Any], attrs: Sequence[Any], step: Callable[[], None]
    ) -> None: ...

    def _run(
        self,
        kind: str,
        inputs: Sequence[Any],
        attrs: Sequence[Any],
        step: Callable[[], Any],
        decision: Any = None,
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

    def _record(
        self,
        kind: str,
        inputs: Sequence[Any],
        attrs: Sequence[Any],
        outputs: Sequence[Any],
        decision: Any = None,
    ) -> None:
        if self.trace is not None:
            self.trace.append(
                Instruction(InstructionKind.get(kind), tuple(inputs), tuple(attrs), tuple(outputs)), decision
            )

    def _verify(self, kind: str) -> None:
        for name in self._roots:
            if not verify_well_formed(self._current_function(name), assert_mode=False):
                raise ScheduleError(
                    f"{kind} left function {name!r} malformed; this is a defect of the primitive"
                )

    def _explain(self, error: ScheduleError) -> None:
        if self._error_render_level != "detail" or self._working_on is None:
            return
        lines = self._current_function(self._working_on).script().splitlines() if self._roots else []
        if lines:
            window = lines[:_ERROR_WINDOW] + (
                [f"... ({len(lines) - _ERROR_WINDOW} more lines)"] if len(lines) > _ERROR_WINDOW else []
            )
            error.add_note("in the program:\n" + "\n".join(window))

    def _find_block(self, name: str, func_name: str | None) -> BlockNode:
        func = func_name or self._working_on
        if func is None:
            raise ScheduleError(
                f"get_block: the module has several functions and no 'main'; pass func_name or call work_on."
                f" Functions: {sorted(self._functions)}"
            )
        blocks = all_blocks(self._root(func))
        found = [node for node in blocks if node.name == name]
        if len(found) == 1:
            return found[0]
        names = sorted({node.name for node in blocks})
        problem = "no block" if not found else f"{len(found)} blocks"
        raise ScheduleError(
            f"get_block: {problem} named {name!r} in function {func!r}; its blocks are {names}"
        )

    if TYPE_CHECKING:
        # A primitive of the trace like any other, so it is in LookupMethods; names stand for blocks here too.
        def get_block(self, name: str, func_name: str | None = None) -> BlockRV: ...

    def _as_rv(self, block: _RV | str) -> _RV | BlockRV:
        return self.get_block(block) if isinstance(block, str) else block

    # ---- arguments that several primitives share ----

    def _buffer_index(self, block: BlockRV, which: Any, is_write: bool, primitive: str) -> int:
        if isinstance(which, int):
            return which
        node = self._block(block, primitive)
        regions = node.writes if is_write else node.reads
        for index, region in enumerate(regions):
            if region.buffer is which or region.buffer.name == which:
                return index
        names = [region.buffer.name for region in regions]
        raise ScheduleError(
            f"{primitive}: block {node.name!r} accesses {names}, not {getattr(which, 'name', which)!r}"
        )

    def _which_buffer(self, node: BlockNode, buffer: Any, primitive: str) -> tuple[bool, int]:
        if isinstance(buffer, tuple | list):
            kind, position = buffer
            if kind not in ("read", "write"):
                raise ScheduleError(f"{primitive}: expected ('read' or 'write', index), got {buffer!r}")
            return kind == "write", int(position)
        for is_write, regions in ((True, node.writes), (False, node.reads)):
            for position, region in enumerate(regions):
                if region.buffer is buffer or region.buffer.name == buffer:
                    return is_write, position
        raise ScheduleError(
            f"{primitive}: block {node.name!r} does not access buffer {getattr(buffer, 'name', buffer)!r}"
        )

    def _function_of(self, node: TreeNode) -> str:
        root = root_of(node)
        return next(name for name, item in self._roots.items() if item is root)

    def _as_index_map(self, index_map: IndexMap | Callable[..., Any], ndim: int, node: BlockNode) -> IndexMap:
        """A map of ``ndim`` indices, made of a Python function where one is given."""
        if isinstance(index_map, IndexMap):
            return index_map
        return IndexMap.from_func(index_map, ndim, index_dtype=index_dtype(node))

    def _resolved_map(self, index_map: IndexMap) -> IndexMap:
        """The map with sampled integers filled in."""
        finals = tuple(self._value(item) for item in index_map.final_indices)
        inverse = index_map.inverse_index_map
        if isinstance(inverse, IndexMap):
            inverse = IndexMap(
                inverse.initial_indices, tuple(self._value(item) for item in inverse.final_indices)
            )
        return IndexMap(index_map.initial_indices, finals, inverse)

    def _recorded_map(self, index_map: IndexMap, resolved: IndexMap) -> IndexMap:
        """What the trace stores: a map of numbers (a sketch keeps the random variables instead)."""
        return resolved

    def _symbolic_shape(self, index_map: IndexMap, shape: Sequence[Any]) -> list[Any] | None:
        """The new shape when open decisions occur in the map (a sketch computes it another way); None otherwise."""
        return None


class ComputeLocation(TreeNode):
    """A compute location that is no loop: -2 inlines, -1 leaves the block where it is (TVM's convention)."""

    __slots__ = ("decision",)

    def __init__(self, decision: int) -> None:
        super().__init__()
        self.decision = decision


def index_dtype(node: BlockNode) -> str:
    """The dtype of a block's iteration variables."""
    return node.iter_vars[0].var.dtype if node.iter_vars else "int32"


def _statement(node: BlockNode | LoopNode) -> tir.Stmt:
    return node.block() if isinstance(node, BlockNode) else node.stmt()


class StmtSRef:
    """A block or loop in its place: :attr:`stmt` is what it is now, :attr:`parent` what is around it."""

    __slots__ = ("_node",)

    def __init__(self, node: BlockNode | LoopNode) -> None:
        self._node = node

    @property
    def stmt(self) -> tir.Stmt:
        """The Block or For."""
        return _statement(self._node)

    @property
    def parent(self) -> StmtSRef | None:
        """The block or loop directly around, None for a root block."""
        node = self._node.parent
        while node is not None and not isinstance(node, BlockNode | LoopNode):
            node = node.parent
        return None if node is None else StmtSRef(node)
