"""Which operators of a dataflow graph belong into one kernel: fusion along post-dominators.

An operator may be fused into its immediate post-dominator (the first operator that all its results flow through) when
every operator between the two is simple enough. The graph is given as plain arrays of nodes, so that the decision can be
read and tested without a program. The method is that of Chen et al., "TVM: An Automated End-to-End Optimizing Compiler for
Deep Learning" (OSDI 2018).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..op.declaration import OpPatternKind

DEFAULT_MAX_FUSE_DEPTH = 256
"""Operators in one kernel at most: compile time and the search grow with the number of blocks."""


@dataclass(slots=True)
class GraphNode:
    """One value of the graph.

    Attributes:
        pattern: the operator's kind; parameters and constants are OPAQUE.
        outputs: (index of a consumer, kind of the edge) pairs.
        is_external: also used outside of the graph (returned), so it has to exist in memory.
        n_args: buffers that a kernel gets for this node as an operator.
    """

    pattern: OpPatternKind
    outputs: list[tuple[int, OpPatternKind]] = field(default_factory=list)
    is_external: bool = False
    n_args: int = 0


@dataclass(slots=True)
class _Dominator:
    parent: int | None
    pattern: OpPatternKind
    depth: int


class Group:
    """A set of nodes in union-find form; ``anchor`` is the heavy operator of the group, if it has one."""

    __slots__ = ("anchor", "n_nodes", "parent", "pattern")

    def __init__(self, index: int, pattern: OpPatternKind) -> None:
        self.parent: Group | None = None
        self.pattern = pattern
        self.anchor: int | None = index if pattern == OpPatternKind.kOutEWiseFusable else None
        self.n_nodes = 1

    def find(self) -> Group:
        """The group that this one was merged into, itself when it was not."""
        root = self
        while root.parent is not None:
            root = root.parent
        node = self
        while node is not root:
            node.parent, node = root, node.parent or root
        return root


def _post_dominators(nodes: list[GraphNode]) -> list[_Dominator]:
    """The immediate post-dominator of every node; edges carry the largest kind on the way to it."""
    tree: list[_Dominator] = [_Dominator(None, OpPatternKind.kOpaque, 1)] * len(nodes)

    def common_ancestor(
        a: int | None, b: int | None, pattern: OpPatternKind
    ) -> tuple[int | None, OpPatternKind]:
        while a != b:
            if a is None or b is None:
                return None, pattern
            depth_a, depth_b = tree[a].depth, tree[b].depth
            if depth_a >= depth_b:
                pattern = max(pattern, tree[a].pattern)
                next_a = tree[a].parent
            else:
                next_a = a
            if depth_b >= depth_a:
                pattern = max(pattern, tree[b].pattern)
                next_b = tree[b].parent
            else:
                next_b = b
            a, b = next_a, next_b
        return a, pattern

    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        if node.is_external or not node.outputs:
            tree[index] = _Dominator(None, OpPatternKind.kOpaque, 1)
            continue
        parent: int | None = node.outputs[0][0]
        pattern = node.outputs[0][1]
        for consumer, edge in node.outputs[1:]:
            pattern = max(pattern, edge)
            parent, pattern = common_ancestor(parent, consumer, pattern)
        depth = tree[parent].depth + 1 if parent is not None else 1
        tree[index] = _Dominator(parent, pattern, depth)
    return tree


class _Partitioner:
    def __init__(self, nodes: list[GraphNode], max_depth: int, max_args: int) -> None:
        self._nodes = nodes
        self._max_depth = max_depth
        self._max_args = max_args
        self.groups = [Group(index, node.pattern) for index, node in enumerate(nodes)]
        self._tree = _post_dominators(nodes)

    def run(self) -> list[Group]:
        for phase in range(3):
            for index in range(len(self._nodes)):
                self._visit(index, phase)
        return self.groups

    def _path_fits(self, source: int, sink: int, fits: Callable[[OpPatternKind, bool], bool]) -> bool:
        """Whether every node on a path from ``source`` to ``sink`` satisfies ``fits(kind, is_sink)``."""
        visited: set[int] = set()
        stack = [consumer for consumer, _ in self._nodes[source].outputs]
        while stack:
            index = stack.pop()
            if index in visited:
                continue
            visited.add(index)
            if not fits(self.groups[index].find().pattern, index == sink):
                return False
            if index != sink:
                stack.extend(consumer for consumer, _ in self._nodes[index].outputs)
        return True

    def _members_on_path(self, source: int, sink: int) -> set[int]:
        members: set[int] = set()
        stack = [source]
        while stack:
            index = stack.pop()
            if index == sink or index in members:
                continue
            members.add(index)
            stack.extend(consumer for consumer, _ in self._nodes[index].outputs)
        return members

    def _commit(self, source: int, sink: int) -> None:
        target = self.groups[sink]
        for index in self._members_on_path(source, sink):
            self._merge(self.groups[index], target)

    def _merge(self, child: Group, parent: Group) -> None:
        child, parent = child.find(), parent.find()
        if child is parent:
            return
        parent.n_nodes += child.n_nodes
        child.parent = parent
        if child.anchor is not None:
            parent.anchor = child.anchor
            # A group with an anchor is as hard to fuse as the anchor, whatever its last operator is.
            parent.pattern = max(child.pattern, parent.pattern)
        elif parent.pattern < child.pattern <= OpPatternKind.kInjective:
            parent.pattern = child.pattern

    def _fused_size(self, source: int, sink: int) -> tuple[int, int]:
        groups = {
            id(self.groups[i].find()): self.groups[i].find() for i in self._members_on_path(source, sink)
        }
        groups[id(self.groups[sink].find())] = self.groups[sink].find()
        args = 0
        if self._max_args:
            args = sum(
                node.n_args
                for index, node in enumerate(self._nodes)
                if id(self.groups[index].find()) in groups
            )
        return sum(group.n_nodes for group in groups.values()), args

    def _visit(self, index: int, phase: int) -> None:
        group = self.groups[index].find()
        dominator = self._tree[index]
        sink = dominator.parent
        if self._nodes[index].pattern == OpPatternKind.kOpaque or sink is None:
            return
        if group is self.groups[sink].find():
            return
        sink_pattern = self.groups[sink].find().pattern
        if phase == 2:
            # Injective operators go into the kernels of the tuples' consumers only in the last phase.
            if group.pattern > OpPatternKind.kInjective or sink_pattern > OpPatternKind.kInjective:
                return
        n_nodes, n_args = self._fused_size(index, sink)
        if n_nodes > self._max_depth or (self._max_args and n_args > self._max_args):
            return
        if sink_pattern == OpPatternKind.kTuple:
            return
        if group.pattern == OpPatternKind.kOutEWiseFusable:
            if phase == 0 and dominator.pattern == OpPatternKind.kElemWise:
                self._try(index, sink, lambda kind, is_sink: kind <= OpPatternKind.kBroadcast)
        elif group.pattern <= OpPatternKind.kBroadcast:
            if (
                dominator.pattern <= OpPatternKind.kInjective
                or dominator.pattern == OpPatternKind.kCommReduce
            ):
                self._try(
                    index,
                    sink,
                    lambda kind, is_sink: (
                        kind <= (OpPatternKind.kOutEWiseFusable if is_sink else OpPatternKind.kInjective)
                    ),
                )
        elif group.pattern in (OpPatternKind.kInjective, OpPatternKind.kTuple):
            if phase == 1:
                self._try(index, sink, lambda kind, is_sink: kind <= OpPatternKind.kInjective)

    def _try(self, index: int, sink: int, fits: Callable[[OpPatternKind, bool], bool]) -> None:
        if self._path_fits(index, sink, fits):
            self._commit(index, sink)


def partition(
    nodes: list[GraphNode],
    opt_level: int = 2,
    max_fuse_depth: int = DEFAULT_MAX_FUSE_DEPTH,
    max_args: int = 0,
) -> list[Group]:
    """Group the nodes of a graph that is given in topological order; one :class:`Group` per node.

    Args:
        nodes: in topological order (producers first).
        opt_level: 0 leaves every node alone.
        max_fuse_depth: nodes in one group at most.
        max_args: buffers that one kernel may take, 0 for any number.
    """
    if opt_level == 0:
        return [Group(index, node.pattern) for index, node in enumerate(nodes)]
    return _Partitioner(nodes, max_fuse_depth, max_args).run()
