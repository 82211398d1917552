"""The partition of a graph of operators into groups that are fused."""

from __future__ import annotations

from ir.relax.op.declaration import OpPatternKind
from ir.relax.transform.operator_groups import GraphNode, partition


def test_partition_of_a_diamond():
    elementwise, heavy = OpPatternKind.kElemWise, OpPatternKind.kOutEWiseFusable
    # x -> conv -> (a, b) -> add
    nodes = [
        GraphNode(OpPatternKind.kOpaque, [(1, heavy)]),
        GraphNode(heavy, [(2, elementwise), (3, elementwise)]),
        GraphNode(elementwise, [(4, elementwise)]),
        GraphNode(elementwise, [(4, elementwise)]),
        GraphNode(elementwise, [], is_external=True),
    ]
    groups = [group.find() for group in partition(nodes)]
    assert len({id(group) for group in groups[1:]}) == 1 and groups[0] is not groups[1]
    assert groups[1].anchor == 1
    limited = [group.find() for group in partition(nodes, max_fuse_depth=2)]
    assert max(group.n_nodes for group in limited) <= 2
