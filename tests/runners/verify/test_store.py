"""References are kept in memory up to a limit and shared through files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runners.verify import ReferenceStore
from tests.programs.nodes import matmul

from .conftest import native


def test_references_are_shared_through_a_file(tmp_path: Path) -> None:
    mod = matmul(3, 3, 3)
    calls: list[Any] = []

    def make_run(program: Any) -> Any:
        calls.append(program)
        return native(program)

    key = ReferenceStore.key(mod, "cpu")
    first = ReferenceStore(tmp_path).get(key, mod, make_run)
    second = ReferenceStore(tmp_path).get(key, mod, make_run)
    assert len(calls) == 1 and second.secs == first.secs
    for one, other in zip(first.cases, second.cases, strict=True):
        assert (one.kind, one.number) == (other.kind, other.number)
        for a, b in zip(one.outputs, other.outputs, strict=True):
            np.testing.assert_array_equal(a.low, b.low)
            assert a.plain == b.plain and (a.high is None) == (b.high is None)
            assert not a.low.size or not b.low.flags.writeable  # it is the file


@pytest.mark.parametrize("end", ["json", "bounds"])
@pytest.mark.parametrize("damage", [b"", b"{}", b"damaged", None])
def test_a_damaged_file_is_computed_again(tmp_path: Path, end: str, damage: bytes | None) -> None:
    mod = matmul(3, 3, 3)
    calls: list[Any] = []

    def make_run(program: Any) -> Any:
        calls.append(program)
        return native(program)

    key = ReferenceStore.key(mod, "cpu")
    ReferenceStore(tmp_path).get(key, mod, make_run)
    file = tmp_path / f"{key}.{end}"
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage)
    for _ in range(2):
        again = ReferenceStore(tmp_path).get(key, mod, make_run)
        assert len(calls) == 2 and again.cases


def test_old_references_go_before_a_new_one_is_made() -> None:
    store = ReferenceStore(None, memory_bytes=16_000)  # two of about 7 kB, not three
    made: list[int] = []

    def get(k: int) -> None:
        mod = matmul(8, 8, k)

        def make_run(program: Any) -> Any:
            made.append(k)
            return native(program)

        store.get(str(k), mod, make_run)

    for k in (8, 7, 8, 6):
        get(k)
    assert made == [8, 7, 6]
    assert store.in_memory("7") is None and store.in_memory("8") is not None
    store.forget("8")
    assert store.in_memory("8") is None
