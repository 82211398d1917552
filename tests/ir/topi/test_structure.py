"""The loops and blocks that operators become: names of blocks and axes, annotations, the form of values."""

from collections.abc import Callable

import pytest

from ir import te, tir, topi
from ir.te import Tensor


def text_of(*tensors: Tensor) -> str:
    return te.create_prim_func(list(tensors)).script()


def tensor(*shape: int, name: str = "A", dtype: str = "float32") -> Tensor:
    return te.placeholder(shape, dtype, name)


CASES: list[tuple[str, Callable[[Tensor], Tensor], tuple[int, ...], list[str]]] = [
    ("flip", lambda a: topi.flip(a, 1), (4, 8), ['with T.block("T_reverse_sequence"):']),
    (
        "sign",
        topi.sign,
        (4,),
        [
            "T.Select(T.float32(0) < A[v_ax0], T.float32(1), T.Select(A[v_ax0] < T.float32(0), T.float32(-1), "
            "T.Select(A[v_ax0] == T.float32(0), T.float32(0), A[v_ax0])))"
        ],
    ),
    ("compared", lambda a: topi.greater_equal(a, tir.const(1.0)), (4,), ["T.float32(1) <= A[v_ax0]"]),
    (
        "layout",
        lambda a: topi.layout_transform(a, "NCHW", "NCHW4c"),
        (1, 8, 4, 4),
        ['"input_shape": [1, 8, 4, 4]', "A[v_ax0, v_ax1 * 4 + v_ax4, v_ax2, v_ax3]"],
    ),
    (
        "padded average",
        lambda a: topi.nn.pool2d(a, [3, 3], [2, 2], [1, 1], [1, 1, 1, 1], "avg", count_include_pad=False),
        (1, 8, 6, 6),
        [
            '"schedule_rule": "meta_schedule.pool_avg"',
            "for ax0, ax1, ax2, ax3 in T.grid(1, 8, 8, 8):",
            "pad_temp",
        ],
    ),
    (
        "global maximum",
        lambda a: topi.nn.global_pool(a, "max"),
        (1, 8, 6, 6),
        ['"schedule_rule": "meta_schedule.adaptive_pool_max"'],
    ),
    (
        "mirror",
        lambda a: topi.nn.mirror_pad(a, (0, 1), (0, 2), "REFLECT"),
        (4, 8),
        ["T.if_then_else(9 <= v_i1, 15 - v_i1, T.if_then_else(v_i1 < 1, 1 - v_i1, v_i1 - 1))"],
    ),
    (
        "normalized",
        lambda a: topi.nn.lrn(a, 5),
        (1, 8, 4, 4),
        ["for ax0, ax1, ax2, ax3 in T.grid(1, 12, 4, 4):"],
    ),
]


@pytest.mark.parametrize(
    ("operator", "shape", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_form(operator: Callable[[Tensor], Tensor], shape: tuple[int, ...], expected: list[str]) -> None:
    a = tensor(*shape)
    text = text_of(a, operator(a))
    for part in expected:
        assert part in text, text


def test_where_tests_that_a_bool_is_not_zero() -> None:
    c, a, b = tensor(4, name="C", dtype="bool"), tensor(4), tensor(4, name="B")
    text = text_of(c, a, b, topi.where(c, a, b))
    assert 'T.Select(0 < T.Cast("int32", C[v_ax0]), A[v_ax0], B[v_ax0])' in text


def test_group_norm_names_its_sums_after_the_data() -> None:
    a, b, c = tensor(1, 8, 4, 4), tensor(8, name="B"), tensor(8, name="C")
    text = text_of(a, b, c, topi.nn.group_norm(a, b, c, 2, 1, [2, 3]))
    assert 'with T.block("A_red_temp"):' in text and "A_red_temp_v1" in text
