"""Index maps that lead to numbers beyond int32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir import tir
from ir.tir import IndexMap


def all_held(shape: Sequence[Any]) -> bool:
    """Whether int32 holds the indices of a mapped shape, as far as its extents are known."""
    return not any(isinstance(item, int) and item >= 1 << 31 for item in shape)


def in_int64(index_map: IndexMap) -> IndexMap:
    """A map of int64 indices: int32 does not hold all that the map makes of them."""
    variables = [tir.Var(item.name, "int64") for item in index_map.initial_indices]
    return IndexMap(variables, index_map.substituted(variables), index_map.inverse_index_map)
