"""Which combiner the update of a block is, with which identity, and what is not known to be one."""

from __future__ import annotations

from typing import Any

import pytest

from ir import tir
from ir.script import from_source
from ir.tir.analysis.reducer import Reduction, UnknownReducerError, reduction_of
from ir.tir.analysis.reducer_by_hand import reduction_with_any_combiner


def block_of(init: str, update: str, dtype: str = "float32") -> tir.Block:
    """The block of a reduction of ``A[vk]`` to ``C[0]`` (and ``D[0]``)."""
    source = f"""@T.prim_func
def main(A: T.Buffer((8,), "{dtype}"), C: T.Buffer((1,), "{dtype}"), D: T.Buffer((1,), "{dtype}")):
    for k in range(8):
        with T.block("C"):
            vk = T.axis.reduce(8, k)
            with T.init():
{init}
{update}
"""
    found: list[tir.Block] = []
    func: Any = from_source(source)
    tir.post_order_visit(
        func.body,
        lambda node: found.append(node) if isinstance(node, tir.Block) and node.name_hint == "C" else None,
    )
    return found[0]


def reduction(init: str, update: str, dtype: str = "float32") -> Reduction:
    """What is found in it."""
    indented = [
        "\n".join(f"{space}{line}" for line in text.split("; "))
        for space, text in ((" " * 16, init), (" " * 12, update))
    ]
    block = block_of(*indented, dtype)
    return reduction_of(block.init, block.body, block.name_hint)


@pytest.mark.parametrize(
    ("init", "update", "combined"),
    [
        ("C[0] = T.float32(0)", "C[0] = C[0] + A[vk] * A[vk]", "x + y"),
        ("C[0] = T.float32(1)", "C[0] = A[vk] * C[0]", "x * y"),
        ('C[0] = T.float32("-inf")', "C[0] = T.max(C[0], A[vk])", "T.max(x, y)"),
        ('C[0] = T.max_value("float32")', "C[0] = T.min(A[vk], C[0])", "T.min(x, y)"),
    ],
)
def test_one_value(init: str, update: str, combined: str) -> None:
    found = reduction(init, update)
    combiner = found.combiner
    assert [buffer.name for buffer in found.outputs] == ["C"]
    assert str(combiner.result[0]) == combined
    assert all("A[vk]" in str(operand) and "C[0]" not in str(operand) for operand in found.operands)
    assert tir.analysis.expr_deep_equal(combiner.identity_element[0], found.inits[0].value)


def test_several_values_take_their_operands_by_their_place() -> None:
    found = reduction(
        'C[0] = T.float32("-inf"); D[0] = T.float32(0)',
        "a: T.float32 = T.max(C[0], A[vk]); b: T.float32 = D[0] + A[vk]; C[0] = a; D[0] = b",
    )
    assert [str(item) for item in found.combiner.result] == ["T.max(x0, y0)", "x1 + y1"]
    counted = reduction(
        "C[0] = T.float32(0); D[0] = T.float32(0)",
        "a: T.float32 = C[0] + A[vk]; b: T.float32 = D[0] + T.float32(1); C[0] = a; D[0] = b",
    )
    assert [str(item) for item in counted.combiner.result] == ["x0 + y0", "x1 + y1"]
    assert [str(item) for item in counted.operands] == ["A[vk]", "T.float32(1)"]


def test_a_selection_follows_one_comparison() -> None:
    found = reduction(
        'C[0] = -1; D[0] = T.min_value("int32")',
        "a: T.int32 = T.Select(D[0] >= A[vk], C[0], vk); b: T.int32 = T.Select(D[0] >= A[vk], D[0], A[vk]); C[0] = a; D[0] = b",
        "int32",
    )
    assert [str(item) for item in found.combiner.result] == [
        "T.Select(x1 >= y1, x0, y0)",
        "T.Select(x1 >= y1, x1, y1)",
    ]
    assert [str(item) for item in found.operands] == ["vk", "A[vk]"]


@pytest.mark.parametrize(
    ("init", "update", "message"),
    [
        ("C[0] = T.float32(3)", "C[0] = C[0] + A[vk]", "not the identity of Add"),
        ("C[0] = T.float32(0)", "C[0] = A[vk] - C[0]", r"not out = out \(\+, \*, max, min\) value"),
        ("C[0] = T.float32(0)", "C[0] = C[0] + (C[0] + A[vk])", "depends on that result"),
        ("C[0] = T.float32(0)", "D[0] = D[0] + A[vk]", "same buffers in the same order"),
        (
            "C[0] = T.float32(0); D[0] = T.float32(0)",
            "C[0] = C[0] + A[vk]; D[0] = D[0] + C[0]",
            "one after the other",
        ),
        (
            'C[0] = T.float32(0); D[0] = T.float32("-inf")',
            "a: T.float32 = T.Select(D[0] >= A[vk], C[0], A[vk]); b: T.float32 = T.Select(D[0] <= A[vk], D[0], A[vk]); C[0] = a; D[0] = b",
            "argmax or argmin",
        ),
    ],
)
def test_what_is_not_known_is_refused_with_the_name_of_the_block(
    init: str, update: str, message: str
) -> None:
    with pytest.raises(UnknownReducerError, match=message) as refused:
        reduction(init, update)
    assert "'C'" in str(refused.value)


# -- written by hand ---------------------------------------------------------------
def by_hand(init: str, update: str, dtype: str = "float32") -> Reduction:
    """What is found with any combiner."""
    indented = [
        "\n".join(f"{space}{line}" for line in text.split("; "))
        for space, text in ((" " * 16, init), (" " * 12, update))
    ]
    block = block_of(*indented, dtype)
    return reduction_with_any_combiner(block.init, block.body, block.name_hint)


@pytest.mark.parametrize(
    ("init", "update", "dtype", "combined", "operands"),
    [
        ("C[0] = T.float32(0)", "C[0] = C[0] + A[vk]", "float32", ["x + y"], ["A[vk]"]),
        (
            "C[0] = T.float32(0)",
            "C[0] = C[0] + T.abs(A[vk]) - C[0] * T.abs(A[vk])",
            "float32",
            ["x + y - x * y"],
            ["T.fabs(A[vk])"],
        ),
        ("C[0] = True", "C[0] = C[0] and A[vk]", "bool", ["x and y"], ["A[vk]"]),
        ("C[0] = False", "C[0] = A[vk] or C[0]", "bool", ["y or x"], ["A[vk]"]),
        ("C[0] = 0", "C[0] = T.bitwise_xor(C[0], A[vk])", "int32", ["T.bitwise_xor(x, y)"], ["A[vk]"]),
        (  # the maximum, and the sum of powers relative to it
            'C[0] = T.min_value("float32"); D[0] = T.float32(0)',
            "a: T.float32 = T.max(C[0], A[vk]); b: T.float32 = D[0] * T.exp(C[0] - T.max(C[0], A[vk]))"
            " + T.cos(A[0]) * T.exp(A[vk] - T.max(C[0], A[vk])); C[0] = a; D[0] = b",
            "float32",
            [
                "T.max(x0, y0)",
                "x1 * T.exp(x0 - T.max(x0, y0)) + y1 * T.exp(y0 - T.max(x0, y0))",
            ],
            ["A[vk]", "T.cos(A[0])"],
        ),
    ],
)
def test_a_combiner_written_by_hand(
    init: str, update: str, dtype: str, combined: list[str], operands: list[str]
) -> None:
    found = by_hand(init, update, dtype)
    assert [str(item) for item in found.combiner.result] == combined
    assert [str(item) for item in found.operands] == operands


@pytest.mark.parametrize(
    ("init", "update", "dtype"),
    [
        ("C[0] = T.float32(0)", "C[0] = A[vk] - C[0]", "float32"),  # depends on the order
        ("C[0] = T.float32(0)", "C[0] = (C[0] + A[vk]) * T.float32(0.5)", "float32"),  # and on the grouping
        (
            "C[0] = T.float32(1)",
            "C[0] = C[0] + A[vk] - C[0] * A[vk]",
            "float32",
        ),  # begins with something else
        ("C[0] = T.float32(0)", "C[0] = C[0] + A[vk] - C[0] * A[0]", "float32"),  # two operands
        ("C[0] = T.float32(0)", "C[0] = C[0] * C[0] + A[vk]", "float32"),
        (  # infinities less infinities, where a thread has no part
            'C[0] = T.float32("-inf"); D[0] = T.float32(0)',
            "a: T.float32 = T.max(C[0], A[vk]); b: T.float32 = D[0] * T.exp(C[0] - T.max(C[0], A[vk]))"
            " + T.cos(A[0]) * T.exp(A[vk] - T.max(C[0], A[vk])); C[0] = a; D[0] = b",
            "float32",
        ),
    ],
)
def test_what_disobeys_the_laws_of_a_reducer_is_refused(init: str, update: str, dtype: str) -> None:
    with pytest.raises(UnknownReducerError, match="'C'"):
        by_hand(init, update, dtype)
