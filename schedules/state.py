"""What a schedule is made of: the loop trees of a module's functions, and the random variables that point into them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self, overload

import numpy as np

from ir import IRModule, tir
from ir.error import IRTypeError
from ir.tir import IndexMap, PrimFunc

from .affine import simplify_polynomial
from .aliasing import require_elementwise_aliases, without_aliases
from .error import ScheduleError
from .random_variable import BlockRV, ExprRV, LoopRV, RandomVariable
from .tree import BlockNode, LoopNode, TreeNode, all_blocks, root_of, tree_of, walk

INLINE, ROOT = -2, -1
"""Compute locations that are no loop, as the field numbers them."""

_ERROR_WINDOW = 60
"""Lines of the program that an error quotes."""


class ScheduleState(ABC):
    """The state behind :class:`~schedules.Schedule`: programs and what points into them.

    Args:
        mod: an IRModule, or a PrimFunc (which becomes ``main``).
        seed: of all random decisions; None draws one.
        error_render_level: "detail" quotes the program in errors, "fast" and "none" do not.

    Raises:
        IRTypeError: ``mod`` is neither.
        ScheduleError: there is no such ``error_render_level``.
    """

    def __init__(self, mod: PrimFunc | IRModule, seed: int | None, error_render_level: str) -> None:
        module = IRModule({"main": mod}) if isinstance(mod, PrimFunc) else mod
        if not isinstance(module, IRModule):
            raise IRTypeError(
                f"a schedule is of an IRModule or a PrimFunc, got {mod!r} ({type(mod).__name__})"
            )
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
        self._error_render_level = error_render_level
        self._table: dict[Any, Any] = {}
        self._generator = np.random.default_rng(seed)
        self._step = "get"
        """The method that runs, for errors."""
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
        func, root = self._functions[name], self._roots[name]
        body = root.stmt()
        buffer_map = self._buffer_maps[name]
        unchanged = all(buffer_map[param] is buffer for param, buffer in func.buffer_map.items())
        is_wrapped = root.body.stmt() is func.body and not root.alloc_buffers and not root.annotations
        if unchanged and (body is func.body or is_wrapped):
            return func
        changed = self._functions[name] = self._function_with(name, root)
        return changed

    def _function_with(self, name: str, root: BlockNode) -> PrimFunc:
        """A function as it would be with another body."""
        buffers = dict(self._buffer_maps[name])
        return without_aliases(self._functions[name].replace(body=root.stmt(), buffer_map=buffers))

    def _root(self, name: str) -> BlockNode:
        if name not in self._roots:
            if name not in self._functions:
                raise ScheduleError(f"the module has no PrimFunc {name!r}; it has {sorted(self._functions)}")
            func = self._functions[name]
            require_elementwise_aliases(name, func)
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

    def _begin_change(self) -> None:
        """Called before each step that may change something."""

    def work_on(self, func_name: str) -> None:
        """Choose the function in which :meth:`get_block` looks by default."""
        self._begin_change()
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
        new._generator = np.random.default_rng(self.fork_seed())
        return new

    def seed(self, seed: int) -> None:
        """Restart the random decisions from a seed."""
        self._begin_change()
        self._generator = np.random.default_rng(seed)

    def fork_seed(self) -> int:
        """A seed for another schedule, drawn from this one's."""
        return int(self._generator.integers(1 << 31))

    # ---- random variables ----

    def get(self, rand_var_or_sref: Any) -> Any:
        """What a random variable stands for: a Block, a For, or an integer (a decision variable in a sketch)."""
        if isinstance(rand_var_or_sref, BlockRV):
            return self._block(rand_var_or_sref).block()
        if isinstance(rand_var_or_sref, LoopRV):
            node = self._node(rand_var_or_sref)
            return None if isinstance(node, ComputeLocation) else self._loop(rand_var_or_sref).stmt()
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

    def _block(self, rv: Any) -> BlockNode:
        node = self._node(rv)
        if not isinstance(node, BlockNode):
            raise ScheduleError(f"{self._step}: expected a block, got loop {node.var.name!r}")
        if root_of(node) not in self._roots.values():
            raise ScheduleError(
                f"{self._step}: block {node.name!r} was consumed by an earlier primitive; get it anew"
            )
        return node

    def _loop(self, rv: Any) -> LoopNode:
        if isinstance(rv, str):
            raise ScheduleError(f"{self._step}: expected a loop, got the string {rv!r}; use get_loops")
        node = self._node(rv)
        if not isinstance(node, LoopNode):
            raise ScheduleError(f"{self._step}: expected a loop, got block {node.name!r}")
        if root_of(node) not in self._roots.values():
            raise ScheduleError(
                f"{self._step}: loop {node.var.name!r} was consumed by an earlier primitive; get it anew"
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

    @overload
    def _new(self, made: BlockNode) -> BlockRV: ...

    @overload
    def _new(self, made: LoopNode) -> LoopRV: ...

    @overload
    def _new(self, made: list[BlockNode]) -> list[BlockRV]: ...

    @overload
    def _new(self, made: list[LoopNode]) -> list[LoopRV]: ...

    def _new(self, made: Any) -> Any:
        """New random variables for blocks and loops that a primitive returns."""
        nodes = made if isinstance(made, list) else [made]
        rvs = [BlockRV() if isinstance(node, BlockNode) else LoopRV() for node in nodes]
        self._table.update(zip(rvs, nodes, strict=True))
        return rvs if isinstance(made, list) else rvs[0]

    def _explain(self, error: ScheduleError) -> None:
        """Quote the program in an error, unless a step inside of this one did."""
        if self._error_render_level != "detail" or self._working_on is None or hasattr(error, "__notes__"):
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

    @abstractmethod
    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block called ``name``: a step of the trace, as names stand for blocks everywhere."""

    def _named(self, block: Any) -> Any:
        """A random variable in place of a name."""
        return self.get_block(block) if isinstance(block, str) else block

    # ---- arguments that several primitives share ----

    def _buffer_index(self, node: BlockNode, which: Any, is_write: bool) -> int:
        regions = node.writes if is_write else node.reads
        for index, region in enumerate(regions):
            if region.buffer is which or region.buffer.name == which:
                return index
        names = [region.buffer.name for region in regions]
        raise ScheduleError(
            f"{self._step}: block {node.name!r} accesses {names}, not {getattr(which, 'name', which)!r}"
        )

    def _which_buffer(self, node: BlockNode, buffer: Any) -> tuple[bool, int]:
        if isinstance(buffer, tuple | list):
            kind, position = buffer
            if kind not in ("read", "write"):
                raise ScheduleError(f"{self._step}: expected ('read' or 'write', index), got {buffer!r}")
            return kind == "write", int(position)
        for is_write, regions in ((True, node.writes), (False, node.reads)):
            for position, region in enumerate(regions):
                if region.buffer is buffer or region.buffer.name == buffer:
                    return is_write, position
        raise ScheduleError(
            f"{self._step}: block {node.name!r} does not access buffer {getattr(buffer, 'name', buffer)!r}"
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

    def _recorded_map(self, index_map: IndexMap) -> IndexMap:
        """What the trace stores: a map of numbers (a sketch keeps the random variables instead)."""
        return self._resolved_map(index_map)

    def _symbolic_shape(self, index_map: IndexMap, shape: Sequence[Any]) -> list[Any] | None:
        """The new shape when open decisions occur in the map (a sketch computes it another way); None otherwise."""
        return None


class ComputeLocation(TreeNode):
    """A compute location that is no loop: ``INLINE``, or ``ROOT``, which leaves the block where it is."""

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
