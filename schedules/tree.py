"""The loop tree that a schedule edits: a mutable mirror of a PrimFunc's loops and blocks.

Programs are immutable, but a schedule makes hundreds of small edits and its random variables must keep pointing at the
same loops and blocks. So a schedule works on this tree, whose nodes have parents and are edited in place, and turns it back
into a PrimFunc on demand; subtrees that did not change since are reused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from ir import tir
from ir.node import Node
from ir.tir import ForKind


class TreeNode:
    """A node of the loop tree; ``parent`` is None for a root block."""

    __slots__ = ("_stmt", "parent")

    def __init__(self) -> None:
        self.parent: TreeNode | None = None
        self._stmt: tir.Stmt | None = None

    def children(self) -> list[TreeNode]:
        """The nodes directly below."""
        return []

    def stmt(self) -> tir.Stmt:
        """The statement that this subtree stands for."""
        if self._stmt is None:
            self._stmt = self._build()
        return self._stmt

    def _build(self) -> tir.Stmt:
        raise AssertionError("abstract")

    def replace_child(self, old: TreeNode, new: TreeNode) -> None:
        """Put ``new`` where ``old`` was."""
        raise AssertionError("abstract")

    def touch(self) -> None:
        """Forget the built statements of this node and everything around it: something here changed."""
        node: TreeNode | None = self
        while node is not None:
            node._stmt = None
            node = node.parent

    def copy(self, memo: dict[int, TreeNode]) -> TreeNode:
        """A deep copy; ``memo`` maps ids of old nodes to new nodes."""
        raise AssertionError("abstract")


def _orphan(node: TreeNode, parent: TreeNode) -> None:
    """A replaced node has no parent, unless it has moved below its replacement already."""
    if node.parent is parent:
        node.parent = None


class LoopNode(TreeNode):
    """A ``for`` loop."""

    __slots__ = ("annotations", "body", "extent", "kind", "min", "thread_binding", "var")

    def __init__(
        self,
        var: tir.Var,
        extent: tir.PrimExpr,
        body: TreeNode,
        kind: ForKind = ForKind.SERIAL,
        min_value: tir.PrimExpr | None = None,
        annotations: dict[str, Any] | None = None,
        thread_binding: tir.IterVar | None = None,
    ) -> None:
        super().__init__()
        self.var, self.extent, self.kind = var, extent, kind
        self.min = tir.const(0, var.dtype) if min_value is None else min_value
        self.annotations = dict(annotations or {})
        self.thread_binding = thread_binding
        self.set_body(body)

    def set_body(self, body: TreeNode) -> None:
        """Put another subtree below the loop."""
        self.body = body
        body.parent = self
        self.touch()

    def children(self) -> list[TreeNode]:
        return [self.body]

    def replace_child(self, old: TreeNode, new: TreeNode) -> None:
        _orphan(old, self)
        self.set_body(new)

    def range(self) -> tir.Range:
        """The values of the loop variable."""
        return tir.Range.from_min_extent(self.min, self.extent)

    @property
    def begins_at_zero(self) -> bool:
        """Whether the loop is one that can be split and fused."""
        return isinstance(self.min, tir.IntImm) and self.min.value == 0

    def _build(self) -> tir.Stmt:
        return tir.For(
            self.var,
            self.min,
            self.extent,
            self.kind,
            self.body.stmt(),
            self.thread_binding,
            self.annotations,
        )

    def copy(self, memo: dict[int, TreeNode]) -> TreeNode:
        new = LoopNode(
            self.var,
            self.extent,
            self.body.copy(memo),
            self.kind,
            self.min,
            self.annotations,
            self.thread_binding,
        )
        memo[id(self)] = new
        new._stmt = self._stmt
        return new


class SeqNode(TreeNode):
    """Subtrees in order."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: list[TreeNode]) -> None:
        super().__init__()
        self.nodes = list(nodes)
        for node in self.nodes:
            node.parent = self

    def children(self) -> list[TreeNode]:
        return self.nodes

    def replace_child(self, old: TreeNode, new: TreeNode) -> None:
        index = self.index(old)
        _orphan(old, self)
        self.nodes[index] = new
        new.parent = self
        self.touch()

    def index(self, child: TreeNode) -> int:
        """The position of a direct child."""
        return next(i for i, node in enumerate(self.nodes) if node is child)

    def insert(self, index: int, node: TreeNode) -> None:
        """Insert a subtree at a position."""
        self.nodes.insert(index, node)
        node.parent = self
        self.touch()

    def _build(self) -> tir.Stmt:
        return tir.SeqStmt([node.stmt() for node in self.nodes])

    def copy(self, memo: dict[int, TreeNode]) -> TreeNode:
        new = SeqNode([node.copy(memo) for node in self.nodes])
        memo[id(self)] = new
        new._stmt = self._stmt
        return new


class LeafNode(TreeNode):
    """A statement without blocks."""

    __slots__ = ("_leaf",)

    def __init__(self, stmt: tir.Stmt) -> None:
        super().__init__()
        self._leaf = stmt

    @property
    def leaf(self) -> tir.Stmt:
        """The statement; setting another one counts as a change."""
        return self._leaf

    @leaf.setter
    def leaf(self, stmt: tir.Stmt) -> None:
        if stmt is not self._leaf:
            self._leaf = stmt
            self.touch()

    def _build(self) -> tir.Stmt:
        return self._leaf

    def copy(self, memo: dict[int, TreeNode]) -> TreeNode:
        new = LeafNode(self.leaf)
        memo[id(self)] = new
        return new


class WrapNode(TreeNode):
    """A statement of another kind (if, let, attribute, while) around subtrees that contain blocks."""

    __slots__ = ("bodies", "template")

    def __init__(self, template: tir.Stmt, bodies: dict[str, TreeNode]) -> None:
        super().__init__()
        self.template, self.bodies = template, bodies
        for node in bodies.values():
            node.parent = self

    def children(self) -> list[TreeNode]:
        return list(self.bodies.values())

    def replace_child(self, old: TreeNode, new: TreeNode) -> None:
        name = next(key for key, node in self.bodies.items() if node is old)
        _orphan(old, self)
        self.bodies[name] = new
        new.parent = self
        self.touch()

    def _build(self) -> tir.Stmt:
        built: tir.Stmt = self.template.replace(**{name: node.stmt() for name, node in self.bodies.items()})
        return built

    def copy(self, memo: dict[int, TreeNode]) -> TreeNode:
        new = WrapNode(self.template, {name: node.copy(memo) for name, node in self.bodies.items()})
        memo[id(self)] = new
        new._stmt = self._stmt
        return new


class BlockNode(TreeNode):
    """A block together with its realization (the values of its iteration variables and its predicate)."""

    __slots__ = (
        "alloc_buffers",
        "annotations",
        "body",
        "init",
        "iter_values",
        "iter_vars",
        "match_buffers",
        "name",
        "predicate",
        "reads",
        "writes",
    )

    def __init__(
        self,
        name: str,
        iter_vars: tuple[tir.IterVar, ...],
        iter_values: tuple[tir.PrimExpr, ...],
        reads: tuple[tir.BufferRegion, ...],
        writes: tuple[tir.BufferRegion, ...],
        body: TreeNode,
        predicate: tir.PrimExpr | None = None,
        init: tir.Stmt | None = None,
        alloc_buffers: tuple[tir.Buffer, ...] = (),
        match_buffers: tuple[tir.MatchBufferRegion, ...] = (),
        annotations: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.name, self.iter_vars, self.iter_values = name, tuple(iter_vars), tuple(iter_values)
        self.reads, self.writes, self.init = tuple(reads), tuple(writes), init
        self.predicate = tir.const(True) if predicate is None else predicate
        self.alloc_buffers, self.match_buffers = tuple(alloc_buffers), tuple(match_buffers)
        self.annotations = dict(annotations or {})
        self.set_body(body)

    def set_body(self, body: TreeNode) -> None:
        """Put another subtree into the block."""
        self.body = body
        body.parent = self
        self.touch()

    def children(self) -> list[TreeNode]:
        return [self.body]

    def replace_child(self, old: TreeNode, new: TreeNode) -> None:
        _orphan(old, self)
        self.set_body(new)

    def change(self, **fields: Any) -> None:
        """Set fields of the block."""
        for name, value in fields.items():
            setattr(self, name, value)
        self.touch()

    @property
    def is_unconditional(self) -> bool:
        """Whether the block has no predicate, and runs in every iteration of the loops around it. One whose predicate is False never
        does.
        """
        return isinstance(self.predicate, tir.IntImm) and bool(self.predicate.value)

    def block(self) -> tir.Block:
        """The block as an IR node."""
        return self.stmt().block  # type: ignore[attr-defined,no-any-return]

    def _build(self) -> tir.Stmt:
        block = tir.Block(
            self.iter_vars,
            self.reads,
            self.writes,
            self.name,
            self.body.stmt(),
            self.init,
            self.alloc_buffers,
            self.match_buffers,
            self.annotations,
        )
        return tir.BlockRealize(self.iter_values, self.predicate, block)

    def copy(self, memo: dict[int, TreeNode]) -> TreeNode:
        new = BlockNode(
            self.name,
            self.iter_vars,
            self.iter_values,
            self.reads,
            self.writes,
            self.body.copy(memo),
            self.predicate,
            self.init,
            self.alloc_buffers,
            self.match_buffers,
            self.annotations,
        )
        memo[id(self)] = new
        new._stmt = self._stmt
        return new


_BODY_FIELDS: dict[type, tuple[str, ...]] = {
    tir.IfThenElse: ("then_case", "else_case"),
    tir.LetStmt: ("body",),
    tir.AttrStmt: ("body",),
    tir.AssertStmt: ("body",),
    tir.While: ("body",),
    tir.Allocate: ("body",),
    tir.AllocateConst: ("body",),
    tir.DeclBuffer: ("body",),
    tir.BufferRealize: ("body",),
}


def _contains_block(stmt: tir.Stmt) -> bool:
    found: list[tir.BlockRealize] = []

    def visit(node: Node) -> bool:
        if found or isinstance(node, tir.PrimExpr):
            return False
        if isinstance(node, tir.BlockRealize):
            found.append(node)
            return False
        return True

    tir.pre_order_visit(stmt, visit)
    return bool(found)


def tree_of(stmt: tir.Stmt) -> TreeNode:
    """The loop tree of a statement. Loops are nodes wherever they are; statements without loops and blocks are leaves."""
    if isinstance(stmt, tir.For):
        node: TreeNode = LoopNode(
            stmt.loop_var,
            stmt.extent,
            tree_of(stmt.body),
            stmt.kind,
            stmt.min,
            stmt.annotations,
            stmt.thread_binding,
        )
    elif isinstance(stmt, tir.SeqStmt):
        node = SeqNode([tree_of(item) for item in stmt.seq])
    elif isinstance(stmt, tir.BlockRealize):
        block = stmt.block
        node = BlockNode(
            block.name_hint,
            block.iter_vars,
            stmt.iter_values,
            block.reads,
            block.writes,
            tree_of(block.body),
            stmt.predicate,
            block.init,
            block.alloc_buffers,
            block.match_buffers,
            block.annotations,
        )
    elif type(stmt) in _BODY_FIELDS and _contains_block(stmt):
        names = [name for name in _BODY_FIELDS[type(stmt)] if getattr(stmt, name) is not None]
        node = WrapNode(stmt, {name: tree_of(getattr(stmt, name)) for name in names})
    else:
        node = LeafNode(stmt)
    node._stmt = stmt
    return node


def walk(node: TreeNode, enters: Callable[[TreeNode], bool] = lambda _: True) -> Iterator[TreeNode]:
    """Every node of the subtree, parents first, in program order, but for what is below nodes that ``enters`` says no to."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if enters(current):
            stack.extend(reversed(current.children()))


def all_blocks(node: TreeNode) -> list[BlockNode]:
    """Every block of the subtree, blocks inside blocks too, in program order."""
    found: list[BlockNode] = []
    stack = [node]
    while stack:
        current: Any = stack.pop()
        while (
            kind := current.__class__
        ) is LoopNode or kind is BlockNode:  # one child each: no need of the stack
            if kind is BlockNode:
                found.append(current)
            current = current.body
        if kind is not LeafNode:
            stack.extend(reversed(current.children()))
    return found


def fresh_block_name(anywhere: TreeNode, name: str) -> str:
    """The name, with a number behind it where a block of the same function has it: blocks are found by their names."""
    taken = {block.name for block in all_blocks(root_of(anywhere))}
    numbered = (f"{name}_{number}" for number in count(1))
    return name if name not in taken else next(item for item in numbered if item not in taken)


def blocks_below(node: TreeNode) -> list[BlockNode]:
    """The blocks of a subtree that are not inside another block of it (``node`` itself counts), in program order."""
    found: list[BlockNode] = []
    stack = [node]
    while stack:
        current: Any = stack.pop()
        while (kind := current.__class__) is LoopNode:  # one child: no need of the stack
            current = current.body
        if kind is BlockNode:
            found.append(current)
        elif kind is not LeafNode:
            stack.extend(reversed(current.children()))
    return found


def child_blocks(node: TreeNode) -> list[BlockNode]:
    """The blocks directly inside a block, or below a loop."""
    return [block for child in node.children() for block in blocks_below(child)]


def loops_around(node: TreeNode) -> list[LoopNode]:
    """The loops between a node and the block around it, outermost first."""
    loops: list[LoopNode] = []
    current = node.parent
    while current is not None and not isinstance(current, BlockNode):
        if isinstance(current, LoopNode):
            loops.append(current)
        current = current.parent
    return loops[::-1]


def loops_of_its_own(block: BlockNode) -> list[LoopNode]:
    """Those of the loops around a block that run nothing else, outermost first."""
    found: list[LoopNode] = []
    node = block.parent
    while isinstance(node, LoopNode):
        found.append(node)
        node = node.parent
    return found[::-1]


def loops_below(node: TreeNode, place: TreeNode) -> list[LoopNode]:
    """Those of the loops around a node that lie below a place, outermost first."""
    return [loop for loop in loops_around(node) if loop is not place and is_ancestor(place, loop)]


def scope_of(node: TreeNode) -> BlockNode | None:
    """The block around a node, or None for a root block."""
    current = node.parent
    while current is not None and not isinstance(current, BlockNode):
        current = current.parent
    return current


def root_of(node: TreeNode) -> TreeNode:
    """The topmost node."""
    while node.parent is not None:
        node = node.parent
    return node


def is_ancestor(above: TreeNode, node: TreeNode) -> bool:
    """Whether ``above`` is ``node`` or lies around it."""
    current: TreeNode | None = node
    while current is not None:
        if current is above:
            return True
        current = current.parent
    return False


def replace_node(old: TreeNode, new: TreeNode) -> None:
    """Put ``new`` into the tree where ``old`` was."""
    parent = old.parent
    assert parent is not None
    parent.replace_child(old, new)


def take_place_of(block: BlockNode, other: BlockNode) -> None:
    """Let a block stand where another one does and run as that does: references to it follow. It keeps its name and what it allocates."""
    block.change(
        iter_vars=other.iter_vars,
        iter_values=other.iter_values,
        reads=other.reads,
        writes=other.writes,
        predicate=other.predicate,
        init=other.init,
        annotations=other.annotations,
    )
    replace_node(other, block)
    block.set_body(other.body)


def detach(node: TreeNode) -> None:
    """Take a subtree out of its tree; loops, conditions and sequences left empty around it disappear too."""
    parent = node.parent
    assert parent is not None
    if isinstance(parent, SeqNode):
        parent.nodes.remove(node)
        parent.touch()
        if len(parent.nodes) == 1:
            replace_node(parent, parent.nodes[0])
        elif not parent.nodes:
            detach(parent)
    elif isinstance(parent, BlockNode):
        parent.set_body(LeafNode(tir.Evaluate(tir.const(0))))
    else:
        detach(parent)
    node.parent = None


def insert_beside(anchor: TreeNode, node: TreeNode, before: bool) -> None:
    """Insert a subtree next to another one, making a sequence where there is none."""
    parent = anchor.parent
    if isinstance(parent, SeqNode):
        parent.insert(parent.index(anchor) + (0 if before else 1), node)
        return
    assert parent is not None
    placeholder = LeafNode(tir.Evaluate(tir.const(0)))
    parent.replace_child(anchor, placeholder)
    parent.replace_child(placeholder, SeqNode([node, anchor] if before else [anchor, node]))
