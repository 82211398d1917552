"""What the blocks around a statement say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ir import tir
from ir.tir.stmt_functor import substitute

from ..annotation import AUTO_TENSORIZE
from ..tree import BlockNode, LeafNode, TreeNode
from .warp_tile import WarpTile, warp_tile_of


@dataclass(frozen=True)
class Surroundings:
    """What blocks around a statement say of it."""

    tile: WarpTile | None = None
    matched: Mapping[tir.Buffer, tuple[tir.Buffer, list[Any]]] = field(default_factory=dict)
    """Buffers that are parts of others, with what they begin at there."""
    is_opaque: bool = False
    """Whether it is a part of a statement that has loops of its own."""
    box_dims: int = 0
    """See :attr:`.skeleton.Nest.box_dims`."""

    @classmethod
    def of(cls, leaf: LeafNode, values: Mapping[Any, Any]) -> Surroundings:
        """Those of a statement; ``values`` are those of the blocks' variables."""
        tile, matched = None, {}
        node: TreeNode | None = leaf
        while node is not None:
            if isinstance(node, BlockNode):
                name = node.annotations.get(AUTO_TENSORIZE)
                if name is not None and tile is None:
                    tile = warp_tile_of(str(getattr(name, "value", name)))
                for item in node.match_buffers:
                    begin = [substitute(part.min, values) for part in item.source.region]
                    matched[item.buffer] = (item.source.buffer, begin)
            node = node.parent
        return cls(tile, matched)

    def source_of(self, buffer: tir.Buffer, indices: Sequence[Any]) -> tuple[tir.Buffer, list[Any]]:
        """The buffer that an element is of, and its indices there."""
        found = self.matched.get(buffer)
        if found is None or len(found[1]) < len(indices):
            return buffer, list(indices)
        source, begin = found
        kept = len(begin) - len(indices)
        inside = [*begin[:kept], *(at + index for at, index in zip(begin[kept:], indices, strict=True))]
        return self.source_of(source, inside)
