"""What LLVM is told of a function: no more than is true."""

from __future__ import annotations

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
        B[{place}] = B[0] + A[i]"""
    assert "fadd reassoc" in printed(sums.format(place="0"))
    assert "fadd reassoc" not in printed(sums.format(place="1"))
    assert "fadd reassoc" not in printed(sums.format(place="i + 1"))


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
