"""KeepFloatOrder: marks on what looks like a step of a reduction and is none."""

from __future__ import annotations

from ir import tir
from ir.node import post_order_visit
from ir.script import from_source
from ir.tir.transform import KeepFloatOrder
from tests.programs import kernels


def marks(func: tir.PrimFunc) -> int:
    found: list[object] = []
    post_order_visit(func.body, lambda node: found.append(node) if _is_mark(node) else None)
    return len(found)


def _is_mark(node: object) -> bool:
    return isinstance(node, tir.Call) and getattr(node.op, "name", "") == "tir.in_order"


def program(*lines: str, dtype: str = "float32") -> tir.PrimFunc:
    body = "\n".join(f"    {line}" for line in lines)
    func = from_source(
        f'@T.prim_func\ndef main(B: T.Buffer((16,), "{dtype}"), C: T.Buffer((16,), "{dtype}")):\n{body}\n'
    )
    assert isinstance(func, tir.PrimFunc)
    return func


def test_a_spatial_block_and_a_plain_loop(check):  # type: ignore[no-untyped-def]
    before = program(
        "for i in range(16):",
        '    with T.block("scale"):',
        "        v = T.axis.spatial(16, i)",
        "        C[v] = C[v] * B[v]",
        "for i in range(16):",
        "    C[0] = B[i] + C[0]",
    )
    after = program(
        "for i in range(16):",
        '    with T.block("scale"):',
        "        v = T.axis.spatial(16, i)",
        "        C[v] = T.in_order(C[v] * B[v])",
        "for i in range(16):",
        "    C[0] = T.in_order(B[i] + C[0])",
    )
    check(KeepFloatOrder(), before, after)


def test_reductions_stay_the_same_object(apply):  # type: ignore[no-untyped-def]
    func = kernels.row_sum(4, 8)
    assert apply(KeepFloatOrder(), func) is func


def test_a_block_within_a_reduction_is_a_part_of_it(apply):  # type: ignore[no-untyped-def]
    func = program(
        "for i in range(4):",
        '    with T.block("outer"):',
        "        vi = T.axis.reduce(4, i)",
        "        T.reads(B[vi * 4:vi * 4 + 4], C[0])",
        "        T.writes(C[0])",
        "        for j in range(4):",
        '            with T.block("inner"):',
        "                vj = T.axis.opaque(4, j)",
        "                C[0] = C[0] + B[vi * 4 + vj]",
    )
    assert apply(KeepFloatOrder(), func) is func


def test_what_does_not_look_so_is_left_alone(apply):  # type: ignore[no-untyped-def]
    others = program(
        "for i in range(16):",
        "    C[i] = B[i] * B[i]",
        "for i in range(16):",
        "    C[i] = C[i] / B[i]",
        "for i in range(16):",
        "    C[i] = T.max(C[i], B[i])",
    )
    assert apply(KeepFloatOrder(), others) is others
    integers = program("for i in range(16):", "    C[0] = C[0] + B[i]", dtype="int32")
    assert apply(KeepFloatOrder(), integers) is integers


def test_what_may_come_to_look_so(apply):  # type: ignore[no-untyped-def]
    """Views of one memory, indices that may be equal, choices that may prove to be none, variables."""
    func = program(
        'with T.block("view"):',
        "    T.reads(C[0:16])",
        "    T.writes(C[0:16])",
        '    V = T.match_buffer(C[0:16], (16,), "float32")',
        "    for i in range(16):",
        "        V[i] = C[i] * T.float32(2)",
        "for i in range(15):",
        "    C[i] = C[i + 1] + C[i]",
        "for i in range(16):",
        "    C[i] = T.if_then_else(i < 16, C[i] + B[i], B[i])",
        "for i in range(16):",
        "    t: T.float32 = C[0] + B[i]",
        "    C[0] = t",
    )
    assert marks(apply(KeepFloatOrder(), func)) == 4


def test_twice_is_once(apply):  # type: ignore[no-untyped-def]
    once = apply(KeepFloatOrder(), program("for i in range(16):", "    C[0] = C[0] + B[i]"))
    assert marks(once) == 1
    assert apply(KeepFloatOrder(), once) is once
