"""Whether iterations that are alike are recognized by what each adds to the indices of the first one."""

from __future__ import annotations

import pytest

from ir.script import from_source
from runners.verify import iterations_of

PROGRAM = """@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
        C = T.alloc_buffer((64, 6), "float32")
        for i in T.parallel(8):
            for j in range(6):
                C[STORED, j] = A[i, j]
            for j in range(6):
                B[i, j] = C[LOADED, 5 - j]
"""
SHIFTS = {
    # stored, loaded: what is wrong
    ("i", "i"): False,
    ("i * 2 + 3", "i * 2 + 3"): False,
    ("i * 2", "i * 3"): True,
    ("i + 1", "i"): True,
    ("i * i", "i * i"): False,
    ("i * i", "i"): True,  # alike in the first two iterations
    ("i % 3", "i % 4"): True,  # in the first three
}


@pytest.mark.parametrize("most", [None, 60])
@pytest.mark.parametrize(("stored", "loaded"), SHIFTS)
def test_iterations_that_shift_alike(
    stored: str, loaded: str, most: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from runners.verify import accesses

    if most is not None:
        monkeypatch.setattr(accesses, "MOST", most)
    found = iterations_of(from_source(PROGRAM.replace("STORED", stored).replace("LOADED", loaded)))
    assert (found.met is not None) == SHIFTS[stored, loaded]
