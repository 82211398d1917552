"""Scratch memory that a program reads before it writes it, which no call shows for sure: a compiler may take it for zero."""

from __future__ import annotations

import pytest

from ir import IRModule
from ir.script import from_source
from runners.verify import iterations_of


def program(body: str) -> IRModule:
    lines = "\n".join(f"        {line}" for line in body.strip().splitlines())
    found = from_source(f"""@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8, 6), "float32"), I: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")):
{lines}
""")
    assert isinstance(found, IRModule)
    return found


SUM = """
C = T.alloc_buffer((8,), "float32")
for i in range(8):
    for k in range(6):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                INIT
            C[vi] = C[vi] + A[vi, vk]
for i in range(8):
    B[i] = C[i]
"""
SCAN = """
C = T.alloc_buffer((8,), "float32")
C[FIRST] = A[0, 0]
for i in range(7):
    C[i + 1] = C[i] + A[i + 1, 0]
for i in range(8):
    B[i] = C[i]
"""
TILES = """
for o in range(4):
    C = T.alloc_buffer((8, 6), "float32")
    for i, k in T.grid(2, 6):
        if STORED:
            C[o * 2 + i, k] = A[o * 2 + i, k]
    for i, k in T.grid(2, 6):
        B[o * 2 + i] = C[o * 2 + i, k]
"""
RIGHT = {
    "an init": SUM.replace("INIT", "C[vi] = T.float32(0)"),
    "a scan": SCAN.replace("FIRST", "0"),
    "tiles": TILES.replace("STORED", "o >= 0"),
    "a value that data choose": """
C = T.alloc_buffer((8,), "float32")
for i in range(8):
    if I[i] > 0:
        C[i] = T.float32(1)
    else:
        C[i] = T.float32(2)
for i in range(8):
    B[i] = C[i]""",
    "what a condition keeps": """
C = T.alloc_buffer((8,), "float32")
for i in range(4):
    C[i] = A[i, 0]
for i in range(8):
    if i < 4:
        B[i] = C[i]
    else:
        B[i] = T.float32(0)""",
    "a value kept for the next iteration": """
C = T.alloc_buffer((1,), "float32")
for i in range(8):
    if i == 0:
        C[0] = A[0, 0]
    B[i] = C[0]
    C[0] = A[i, 1]""",
    "a lazy operand": """
C = T.alloc_buffer((8,), "float32")
for i in range(4):
    C[i] = A[i, 0]
for i in range(8):
    B[i] = T.if_then_else(i < 4, C[i], T.float32(0))""",
    "a call that fills": """
C = T.alloc_buffer((8,), "float32")
T.evaluate(T.call_extern("int32", "fill", C.data))
for i in range(8):
    B[i] = C[i]""",
    "vectors": """
C = T.alloc_buffer((8,), "float32")
C[T.Ramp(0, 1, 8)] = T.Broadcast(T.float32(1), 8)
for i in range(8):
    B[i] = C[i]""",
}
WRONG = {
    "no init": SUM.replace("INIT", "T.evaluate(0)"),
    "an init elsewhere": SUM.replace("INIT", "C[(vi + 1) % 8] = T.float32(0)"),
    "an init of a part": SUM.replace("INIT", "if vi < 7:\n                    C[vi] = T.float32(0)"),
    "a scan from elsewhere": SCAN.replace("FIRST", "1"),
    "a tile that is not full": TILES.replace("STORED", "o < 3 or i == 0"),
    "a value of data beside one that is always read": """
C = T.alloc_buffer((8,), "int32")
for i in range(8):
    for k in range(6):
        C[i] = T.Select(I[i] < k and C[i] < k, C[i], k)
    B[i] = T.Cast("float32", C[i])""",
}
AGAIN = """
for i in T.parallel(8):
    for j in range(6):
        with T.block("C"):
            C = T.alloc_buffer((2,), "float32")
            C[0] = A[i, j]
            if CONDITION:
                C[1] = T.float32(0)
            B[i] = C[0] + C[1]"""


@pytest.mark.parametrize("condition", ["j == 0", "j < 5", "i < 7", "j > 0"])
def test_what_another_turn_in_an_iteration_wrote(condition: str) -> None:
    """Memory is new whenever its allocation is reached."""
    assert iterations_of(program(AGAIN.replace("CONDITION", "j < 6"))).met is None
    found = iterations_of(program(AGAIN.replace("CONDITION", condition)))
    assert found.met is not None and "reads an element of C before" in found.met


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_written_first(name: str) -> None:
    assert iterations_of(program(RIGHT[name])).met is None


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not(name: str) -> None:
    assert iterations_of(program(WRONG[name])).met == "it reads an element of C before it writes it"


def test_of_many_loads_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    from runners.verify import own_memory

    monkeypatch.setattr(own_memory, "_FEW", 12)
    many = """
C = T.alloc_buffer((8,), "float32")
for i in range(4):
    C[i] = A[i, 0]
for i, k in T.grid(8, 6):
    if k < 6:
        B[i] = C[i]"""
    assert iterations_of(program(many)).met is not None
    monkeypatch.setattr(own_memory, "_FEW", 3)
    assert iterations_of(program(many)).met is None, "stores that are not all looked at tell nothing"
