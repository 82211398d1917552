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
    ("9 - i", "9 - i"): False,
    ("9 - i", "9 + i"): True,  # alike in the first one
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


PARTIAL = """@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((50, 6), "float32"), B: T.Buffer((13,), "float32")):
        C = T.alloc_buffer((50, 6), "float32")
        for i in T.parallel(13):
            for k, j in T.grid(4, 6):
                if STORED:
                    C[i * 4 + k, j] = A[i * 4 + k, j]
            for k, j in T.grid(4, 6):
                if LOADED:
                    B[i] = C[i * 4 + k, j]
"""
WITHIN = "i * 4 + k < 50"


@pytest.mark.parametrize(
    ("stored", "loaded", "is_wrong"),
    [
        (WITHIN, WITHIN, False),
        (f"{WITHIN} and (i * 4 + k) % 7 != 3", f"{WITHIN} and (i * 4 + k) % 7 != 3", False),
        ("i * 4 + k < 49", WITHIN, True),
        ("i != 5", WITHIN, True),
        (f"{WITHIN} and (i * 4 + k != 21 or j != 2)", WITHIN, True),
    ],
)
def test_iterations_are_alike_where_their_conditions_are(
    stored: str, loaded: str, is_wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tile that ends early is one of two kinds, however many there are; so few elements could not be looked at otherwise."""
    from runners.verify import accesses

    if not is_wrong and "%" not in stored:
        monkeypatch.setattr(accesses, "MOST", 13 * 4 * 6 - 1)
    found = iterations_of(from_source(PARTIAL.replace("STORED", stored).replace("LOADED", loaded)))
    assert (found.met is not None) == is_wrong
    assert found.followed == (not is_wrong)


def test_a_later_iteration_that_leaves_its_memory_is_not_like_the_first() -> None:
    """The first iteration stays within the buffer, and the last one does not: what it reads there nobody knows."""
    leaving = (
        PROGRAM.replace("(64, 6)", "(16, 6)").replace("STORED", "i * 2 + 2").replace("LOADED", "i * 2 + 2")
    )
    assert not iterations_of(from_source(leaving)).followed
    within = (
        PROGRAM.replace("(64, 6)", "(17, 6)").replace("STORED", "i * 2 + 2").replace("LOADED", "i * 2 + 2")
    )
    assert iterations_of(from_source(within)).followed
