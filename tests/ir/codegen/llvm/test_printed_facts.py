"""What LLVM is told of a function: no more than is true."""

from __future__ import annotations

import re

import pytest

from ir.codegen.llvm.codegen import generate
from ir.script import from_source
from ir.tir.lower import lower


def printed(source: str) -> str:
    return generate(lower(from_source(f"@T.prim_func\n{source}"))).text()


def test_bytes_behind_a_parameter() -> None:
    text = printed("""def main(A: T.Buffer((16, 3), "float32"), B: T.Buffer((16,), "bool")):
    for i in range(16):
        B[i] = A[i, 0] > T.float32(0)""")
    assert "dereferenceable(192)" in text and "dereferenceable(16)" in text


def test_only_a_sum_into_the_place_that_it_reads_is_free_in_its_order() -> None:
    sums = """def main(A: T.Buffer((16,), "float32"), B: T.Buffer((17,), "float32")):
    for i in range(16):
        with T.block("sum"):
            v = T.axis.{kind}(16, i)
            B[{place}] = B[0] + A[v]"""
    assert "fadd reassoc" in printed(sums.format(kind="reduce", place="0"))
    assert "fadd reassoc" not in printed(sums.format(kind="spatial", place="0"))
    assert "fadd reassoc" not in printed(sums.format(kind="reduce", place="1"))
    assert "fadd reassoc" not in printed(sums.format(kind="reduce", place="v + 1"))


def test_who_leaves_early_gives_memory_back() -> None:
    text = printed("""def main(A: T.Buffer((4,), "int32"), n: T.int32):
    B = T.allocate([n], "int32", "global")
    B_1 = T.Buffer((n,), "int32", data=B)
    for i in range(4):
        B_1[i] = A[i]
        with T.Assert(A[i] < 7, "too large"):
            A[i] = B_1[i] + 1""")
    assert (
        text.count("call ptr @loopsmith_workspace_acquire")
        + text.count("noalias ptr @loopsmith_workspace_acquire")
        == 1
    )
    assert text.count("call void @loopsmith_workspace_release") == 2


@pytest.mark.parametrize("place", ["i * 4, 1", "i, 4"])
def test_whatever_is_called_is_declared(place: str) -> None:
    """Newer versions of LLVM know their intrinsics without; older ones do not."""
    text = printed(f"""def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(4):
        B.vstore([T.Ramp({place}, 4)], A[T.Ramp({place}, 4)], predicate=A[T.Ramp(0, 1, 4)] < T.Broadcast(T.float32(6), 4))""")
    called = set(re.findall(r"call [^@]*@([\w.]+)\(", text))
    assert "llvm.masked" in " ".join(called)
    assert called <= set(re.findall(r"^(?:declare|define) [^@]*@([\w.]+)\(", text, re.MULTILINE))


def test_functions_of_kernels_begin_on_a_cache_line() -> None:
    """A kernel in a library of many runs as it did alone, where it was measured."""
    text = printed("""def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in T.parallel(64):
        B[i] = A[i] + T.float32(1)""")
    kernels = [line for line in text.splitlines() if line.startswith("define") and ".part(" not in line]
    assert len(kernels) == 2 and all("align 64 {" in line for line in kernels)


def test_an_address_in_a_tile_is_what_the_loop_keeps_and_then_what_it_moves() -> None:
    """The accesses of a tile in a loop move with one register; their beginnings are computed outside."""
    text = printed("""def main(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    for i, j in T.grid(4, 8):
        for u in T.unroll(2):
            B[i * 64 + j * 8 + u * 2] = A[i * 32 + j * 8 + u]""")
    (moved,) = [line.split()[0] for line in text.splitlines() if "= call i64 asm" in line]
    moves = [line for line in text.splitlines() if line.endswith(f"i64 {moved}")]
    assert len(moves) == 2 and all("getelementptr float, ptr %v" in line for line in moves)
