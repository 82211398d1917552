"""What descriptions of intrinsics say of layouts, and products without them."""

from __future__ import annotations

import numpy as np
import pytest

from ir.tir.tensor_intrin import get_mma_intrin_group, get_wmma_intrin_group
from schedules import ScheduleError
from schedules.rule.fragments import described_in_memory, held_layout, tile_extents, written_scope


def test_layouts_are_those_of_the_group() -> None:
    group = get_mma_intrin_group("shared", "global", "int8", "int32", False, False)
    roles = (("load_a", False), ("load_b", False), ("store", True))
    for (role, is_store), layout in zip(roles, group["index_map"], strict=True):
        found = held_layout(group[role], is_store)
        for place in np.ndindex(tile_extents(group[role], is_store)):
            assert tuple(int(item) for item in found.map_indices(list(place))) == layout(*place)
    assert tile_extents(group["load_b"], False) == (32, 16)
    assert written_scope(group["load_a"]) == "warp" and written_scope(group["store"]) == "global"


@pytest.mark.parametrize(
    ("trans_a", "trans_b", "left", "right"),
    [
        (False, False, "a[v0, v2]", "b[v2, v1]"),
        (False, True, "a[v0, v2]", "b[v1, v2]"),
        (True, False, "a[v2, v0]", "b[v2, v1]"),
    ],
)
def test_products_are_described_by_row_and_column(
    trans_a: bool, trans_b: bool, left: str, right: str
) -> None:
    group = get_mma_intrin_group("shared", "global", "float16", "float32", trans_a, trans_b)
    factors = [f'T.Cast("float32", {item})' for item in (left, right)]
    assert f"sums[v0, v1] = sums[v0, v1] + {' * '.join(factors)}" in described_in_memory(group).desc.script()


def test_wmma_holds_rows_as_they_are() -> None:
    group = get_wmma_intrin_group("shared", "shared", "float16", "float32", True)
    assert described_in_memory(group).desc.script().count("[v1, v2]") == 1
    assert [int(item) for item in held_layout(group["store"], True).map_indices([3, 5])] == [3, 5]


def test_what_is_no_copy_or_belongs_to_another_group_is_refused() -> None:
    group = get_mma_intrin_group("shared", "global", "float16", "float32", False, False)
    with pytest.raises(ScheduleError, match="copies no tile"):
        held_layout(group["compute"], False)
    other = get_mma_intrin_group("shared", "global", "float16", "float32", False, True)
    with pytest.raises(ScheduleError, match="not how its tile"):
        described_in_memory({**group, "load_b": "mma_ldmatrix_i8_b", "store": other["store"]})
