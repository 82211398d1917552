"""What programs combine, choose and sum up, whether blocks say so or not; and kernels that leave some of it out."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ir.script import from_source
from runners.verify import entry, facts_of
from runners.verify.instances import chosen_from, instances_of

from .test_rare_inputs import accepted, program


def reduction(dtype: str, begin: str, combine: str, block: str, loop: str = "range(300)") -> Any:
    """Over the second input, added to the first one; with a block that says so, or in a plain loop."""
    plain = f"""
M = T.alloc_buffer((1,), "{dtype}")
M[0] = {begin}
for k in {loop}:
    M[0] = {combine}
for i in range(8):
    B[i] = S[i] + M[0]"""
    reduced = f"""
M = T.alloc_buffer((1,), "{dtype}")
for k in {loop}:
    with T.block("M"):
        vk = T.axis.reduce(300, k)
        with T.init():
            M[0] = {begin}
        M[0] = {combine.replace("k]", "vk]")}
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = S[vi] + M[0]"""
    params = f'S: T.Buffer((8,), "{dtype}"), A: T.Buffer((300,), "{dtype}"), B: T.Buffer((8,), "{dtype}")'
    return program(params, reduced if block == "block" else plain)


MAXIMUM = "T.max(M[0], A[k])"


@pytest.mark.parametrize("block", ["block", "plain"])
@pytest.mark.parametrize(
    ("dtype", "begin", "combine"),
    [
        ("float32", 'T.float32("-inf")', MAXIMUM),
        ("float16", 'T.float16("inf")', "T.min(M[0], A[k])"),
        ("int32", 'T.min_value("int32")', MAXIMUM),
        ("uint8", "T.uint8(0)", MAXIMUM),
        ("float32", 'T.float32("-inf")', "T.if_then_else(M[0] < A[k], A[k], M[0])"),
        ("bool", "False", "M[0] or A[k]"),
        ("bool", "True", "M[0] and A[k]"),
    ],
)
@pytest.mark.parametrize("loop", ["range(299)", "range(1, 300)", "range(150)"])
def test_what_is_chosen_from_any_input_leaves_out_nothing(
    reference_of: Any, dtype: str, begin: str, combine: str, block: str, loop: str
) -> None:
    right = reduction(dtype, begin, combine, block)
    assert not accepted(reference_of, right, reduction(dtype, begin, combine, "plain", loop))


@pytest.mark.parametrize(
    ("dtype", "begin", "combine"),
    [
        ("float32", 'T.float32("-inf")', "T.max({}, {})"),
        ("int8", 'T.min_value("int8")', "T.max({}, {})"),
        ("uint8", "T.uint8(255)", "T.min({}, {})"),
        ("bool", "False", "{} or {}"),
        ("bool", "True", "{} and {}"),
    ],
)
@pytest.mark.parametrize("part", ["range(31)", "range(1, 32)"])
def test_a_maximum_of_maxima(reference_of: Any, dtype: str, begin: str, combine: str, part: str) -> None:
    def maximum(rows: str, columns: str) -> Any:
        body = f"""
M = T.alloc_buffer((32,), "{dtype}")
for i in range(32):
    M[i] = {begin}
    for k in {columns}:
        M[i] = {combine.format("M[i]", "A[i, k]")}
B[0] = {begin}
for i in {rows}:
    B[0] = {combine.format("B[0]", "M[i]")}"""
        return program(f'A: T.Buffer((32, 32), "{dtype}"), B: T.Buffer((1,), "{dtype}")', body)

    right = maximum("range(32)", "range(32)")
    assert not accepted(reference_of, right, maximum(part, "range(32)"))
    assert not accepted(reference_of, right, maximum("range(32)", part))


@pytest.mark.parametrize("first", ["A", "W"])
@pytest.mark.parametrize("loop", ["range(199)", "range(1, 200)"])
def test_a_maximum_of_products(reference_of: Any, first: str, loop: str) -> None:
    def maximum(loop: str) -> Any:
        params = {"A": 'A: T.Buffer((16,), "float32")', "W": 'W: T.Buffer((16, 200), "float32")'}
        body = f"""
M = T.alloc_buffer((200,), "float32")
for j in range(200):
    M[j] = T.float32(0)
    for k in range(16):
        M[j] = M[j] + A[k] * W[k, j]
B[0] = T.float32("-inf")
for j in {loop}:
    B[0] = T.max(B[0], M[j])"""
        ordered = [params.pop(first), *params.values(), 'B: T.Buffer((1,), "float32")']
        return program(", ".join(ordered), body)

    assert not accepted(reference_of, maximum("range(200)"), maximum(loop))


def test_a_softmax_in_plain_loops_whose_maximum_leaves_out_a_number(reference_of: Any) -> None:
    def softmax(loop: str) -> Any:
        body = f"""
S = T.alloc_buffer((2,), "float32")
S[0] = T.float32("-inf")
for k in {loop}:
    S[0] = T.max(S[0], A[k])
S[1] = T.float32(0)
for k in range(256):
    S[1] = S[1] + T.exp(A[k] - S[0])
for k in range(256):
    B[k] = T.exp(A[k] - S[0]) / S[1]"""
        return program('A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")', body)

    for loop in ("range(1, 256)", "range(255)"):
        assert not accepted(reference_of, softmax("range(256)"), softmax(loop))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_sum_in_a_plain_loop_that_leaves_out_its_last_term(reference_of: Any, dtype: str) -> None:
    def product(terms: int) -> Any:
        body = f"""
for i in range(4):
    C[i] = T.{dtype}(0)
    for k in range({terms}):
        C[i] = C[i] + A[i, k] * B[k]"""
        shapes = {"A": "(4, 1024)", "B": "(1024,)", "C": "(4,)"}
        return program(
            ", ".join(f'{name}: T.Buffer({shape}, "{dtype}")' for name, shape in shapes.items()), body
        )

    assert not accepted(reference_of, product(1024), product(1023))


@pytest.mark.parametrize(("dtype", "columns"), [("float16", 500), ("bfloat16", 200)])
@pytest.mark.parametrize("lost", [1, 16])
def test_a_sum_in_one_loop_over_all_rows_that_leaves_out_its_last_terms(
    reference_of: Any, dtype: str, columns: int, lost: int
) -> None:
    """An element has as many terms as turns there are for each: how the loop shares them is not known."""

    def product(terms: int) -> Any:
        row, column = f"q // {columns}", f"q % {columns}"
        body = f"""
for i in range(4):
    C[i] = T.{dtype}(0)
for q in range({4 * columns}):
    C[{row}] = T.if_then_else({column} < {terms}, C[{row}] + A[{row}, {column}] * B[{column}], C[{row}])"""
        shapes = {"A": f"(4, {columns})", "B": f"({columns},)", "C": "(4,)"}
        return program(
            ", ".join(f'{name}: T.Buffer({shape}, "{dtype}")' for name, shape in shapes.items()), body
        )

    assert not accepted(reference_of, product(columns), product(columns - lost))


@pytest.mark.parametrize("index", ["q // 5000", "q % 4", "(q + q // 5000) % 4"])
def test_few_numbers_are_asked_for_where_loops_share_elements(reference_of: Any, index: str) -> None:
    def sums(turns: int) -> Any:
        body = f"""
for i in range(4):
    C[i] = T.float32(0)
for q in range({turns}):
    C[{index}] = C[{index}] + T.exp(A[q])"""
        return program('A: T.Buffer((20000,), "float32"), C: T.Buffer((4,), "float32")', body)

    assert not accepted(reference_of, sums(20000), sums(19999))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.meaning("reduce-order")
def test_sums_that_data_place_are_rounded_as_often_as_they_may_be(reference_of: Any, dtype: str) -> None:
    def histogram(place: str) -> Any:
        body = f"""
for i in range(16):
    B[i] = T.{dtype}(0)
for i in range(2048):
    with T.block("B"):
        vi = T.axis.reduce(2048, i)
        B[I[{place}]] = B[I[{place}]] + A[{place}]"""
        params = (
            f'I: T.Buffer((2048,), "int32"), A: T.Buffer((2048,), "{dtype}"), B: T.Buffer((16,), "{dtype}")'
        )
        return program(params, body)

    assert accepted(reference_of, histogram("vi"), histogram("2047 - vi"))


@pytest.mark.parametrize(
    "value",
    [
        "B[vi] * A[vi, vk] * M[vk]",
        "T.if_then_else(M[vk] > T.float32(0), B[vi] * A[vi, vk], B[vi])",
        "T.Select(M[vk] > T.float32(0), B[vi] * A[vi, vk], B[vi])",
    ],
)
@pytest.mark.meaning("reduce-order")
def test_products_are_known_in_whatever_form_they_stand(reference_of: Any, value: str) -> None:
    def product(order: str) -> Any:
        body = f"""
for i, k, o in T.grid(8, 8, 8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        vk = T.axis.reduce(64, {order})
        with T.init():
            B[vi] = T.float32(1)
        B[vi] = {value}"""
        params = (
            'A: T.Buffer((8, 64), "float32"), M: T.Buffer((64,), "float32"), B: T.Buffer((8,), "float32")'
        )
        return program(params, body)

    right = product("k * 8 + o")
    assert facts_of(right).multiplied
    initial = from_source(right.script().replace("k * 8 + o", "o * 8 + k"))
    assert accepted(reference_of, right, initial)


def test_small_outputs_of_much_work_are_not_interpreted(reference_of: Any) -> None:
    body = """
M = T.alloc_buffer((128, 128), "float32")
for i, j in T.grid(128, 128):
    M[i, j] = T.float32(0)
    for k in range(128):
        M[i, j] = M[i, j] + A[i, k] * A[k, j]
B[0] = T.float32(0)
for i, j in T.grid(128, 128):
    B[0] = B[0] + M[i, j]"""
    mod = program('A: T.Buffer((128, 128), "float32"), B: T.Buffer((1,), "float32")', body)
    begin = time.process_time()
    reference_of(mod)
    assert time.process_time() - begin < 20  # the interpreter takes minutes


def test_how_often_stores_run_and_meet() -> None:
    mod = program(
        'A: T.Buffer((8, 16), "float32"), N: T.Buffer((1,), "int32"), B: T.Buffer((8,), "float32")',
        """
for i in range(8):
    B[i] = T.float32(0)
    for k in range(16):
        with T.block("inner"):
            vi, vk = T.axis.remap("SR", [i, k])
            S = T.alloc_buffer((1,), "float32")
            S[0] = A[vi, vk]
            B[vi] = B[vi] + S[0]
    for k in range(N[0]):
        B[i] = T.max(B[i], A[i, k])""",
    )
    func = entry(mod)
    begin, scratch, total, largest = found = instances_of(func.body)
    assert [item.runs for item in (begin, scratch, total)] == [8, 128, 128]
    assert [item.terms for item in (begin, total)] == [1, 16]
    assert scratch.terms == 1 and largest.terms > 1 and largest.chooses == {1}
    assert total.per_element == 16 and largest.per_element > 500
    data = {buffer.name: buffer.data for buffer in func.buffer_map.values()}
    assert {data["A"], data["B"]} <= chosen_from(found) and data["N"] not in chosen_from(found)


def test_sums_of_a_length_that_is_not_known_are_bounded_as_long_ones(reference_of: Any) -> None:
    """They may be as long as a thousand terms, and no longer: terms that lose half of their digits differ by more."""
    params = 'A: T.Buffer((8, 64), "float32"), N: T.Buffer((1,), "int32"), B: T.Buffer((8,), "float32")'
    body = """
for i in range(8):
    B[i] = T.float32(0)
    for k in range(T.min(T.max(N[0], 48), 64)):
        B[i] = B[i] + TERM"""
    right = program(params, body.replace("TERM", "A[i, k]"))
    rounded = program(params, body.replace("TERM", 'T.Cast("float32", T.Cast("bfloat16", A[i, k]))'))
    backwards = program(params, body.replace("TERM", "A[i, T.min(T.max(N[0], 48), 64) - 1 - k]"))
    assert accepted(reference_of, right, backwards)
    assert not accepted(reference_of, right, rounded)


def test_an_index_that_is_loaded_may_be_the_same_in_each_turn() -> None:
    """So a maximum of what lands in one element combines several numbers."""
    mod = program(
        'A: T.Buffer((16,), "float32"), I: T.Buffer((16,), "int32"), B: T.Buffer((8,), "float32")',
        """
for i in range(16):
    B[I[i] % 8] = T.max(B[I[i] % 8], A[i])""",
    )
    (only,) = instances_of(entry(mod).body)
    assert only.terms == 16 and only.chooses == {1}


RESTARTED = {
    "scratch": """
M = T.alloc_buffer((1,), "float32")
for i in range(64):
    M[0] = A[i, 0]
    for k in range(1, 33):
        M[0] = T.max(M[0], A[i, k])
    B[i] = M[0]""",
    "at the first turn": """
for i in range(64):
    for k in range(33):
        if k == 0:
            B[i] = T.float32(0)
        B[i] = B[i] + A[i, k]""",
    "in one branch": """
M = T.alloc_buffer((1,), "float32")
for i in range(64):
    for k in range(33):
        if k == 0:
            M[0] = A[i, k]
        else:
            M[0] = M[0] + A[i, k]
    B[i] = M[0]""",
    "where a block runs": """
for i, k in T.grid(64, 33):
    with T.block("B_init"):
        vi = T.axis.spatial(64, i)
        T.where(k < 1)
        B[vi] = T.float32(0)
    with T.block("B"):
        vi, vk = T.axis.remap("SS", [i, k])
        B[vi] = B[vi] + A[vi, vk]""",
    "block outside": """
for k, i in T.grid(33, 64):
    with T.block("B"):
        vk, vi = T.axis.remap("RS", [k, i])
        with T.init():
            B[vi] = T.float32(0)
        B[vi] = B[vi] + A[vi, vk]""",
}
MOST_TERMS = {"scratch": 32, "in one branch": 33 * 64}
"""Where nothing is known of the branch, elements are taken to go on."""


@pytest.mark.parametrize("form", RESTARTED)
def test_terms_are_counted_from_where_an_element_begins_anew(form: str) -> None:
    params = 'A: T.Buffer((64, 33), "float32"), B: T.Buffer((64,), "float32")'
    assert facts_of(program(params, RESTARTED[form])).terms == MOST_TERMS.get(form, 33)


ROWS = """
for i in range(64):
    B[i] = {begin}
    for k in {loop}:
        {step}"""


@pytest.mark.parametrize(
    ("dtype", "begin", "step"),
    [
        ("int32", "-1", "B[i] = B[i] & A[i, k]"),
        ("uint8", "T.uint8(0)", "B[i] = B[i] | A[i, k]"),
        ("int32", "1", "B[i] = B[i] * A[i, k]"),
        ("uint8", "T.uint8(1)", "B[i] = B[i] * A[i, k]"),
    ],
)
@pytest.mark.parametrize("loop", ["range(31)", "range(1, 32)"])
def test_bits_and_products_leave_out_nothing(
    reference_of: Any, dtype: str, begin: str, step: str, loop: str
) -> None:
    """Of any 32 numbers no bit is left, or all are there, and the product is 0."""

    def reduced(loop: str) -> Any:
        params = f'A: T.Buffer((64, 32), "{dtype}"), B: T.Buffer((64,), "{dtype}")'
        return program(params, ROWS.format(begin=begin, loop=loop, step=step))

    assert not accepted(reference_of, reduced("range(32)"), reduced(loop))


@pytest.mark.parametrize("value", ["1", "k"])
@pytest.mark.parametrize("loop", ["range(31)", "range(1, 32)"])
def test_what_is_stored_where_data_says_so_is_a_choice(reference_of: Any, value: str, loop: str) -> None:
    def found(loop: str) -> Any:
        step = f"if A[i, k] > T.float32(0.5):\n            B[i] = {value}"
        params = 'A: T.Buffer((64, 32), "float32"), B: T.Buffer((64,), "int32")'
        return program(params, ROWS.format(begin="-1", loop=loop, step=step))

    right = found("range(32)")
    assert facts_of(right).chooses == {1, -1} and facts_of(right).terms == 32
    assert not accepted(reference_of, right, found(loop))


@pytest.mark.parametrize(
    ("begin", "step"),
    [("False", "B[i] = B[i] or (A[i, k] and M[k])"), ("True", "B[i] = B[i] and (A[i, k] or M[k])")],
)
@pytest.mark.parametrize("column", [3, 7])
def test_what_is_asked_of_two_truths_at_once_leaves_out_no_column(
    reference_of: Any, begin: str, step: str, column: int
) -> None:
    """Both stood out nowhere but at the end."""

    def found(left_out: int) -> Any:
        guarded = f"if k != {left_out}:\n            {step}"
        params = 'A: T.Buffer((64, 16), "bool"), M: T.Buffer((16,), "bool"), B: T.Buffer((64,), "bool")'
        return program(params, ROWS.format(begin=begin, loop="range(16)", step=guarded))

    assert not accepted(reference_of, found(16), found(column))


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32"])
@pytest.mark.parametrize("wrong", ["True", "False"])
def test_whether_numbers_are_distinct_has_either_answer(reference_of: Any, dtype: str, wrong: str) -> None:
    """Of any nine small integers two are equal, and of as many at the ends of their type."""
    right = """
for i in range(64):
    B[i] = True
    for j, k in T.grid(9, 9):
        B[i] = B[i] and (j == k or A[i, j] != A[i, k])"""
    params = f'A: T.Buffer((64, 9), "{dtype}"), B: T.Buffer((64,), "bool")'
    constant = f"""
for i in range(64):
    B[i] = A[i, 0] == A[i, 0] and {wrong}"""
    shifted = right.replace("A[i, j] !=", "A[i, T.Select(i < 8, (j + 1) % 9, j)] !=")
    mod = program(params, right)
    assert facts_of(mod).meets
    for candidate in (constant, shifted):
        assert not accepted(reference_of, mod, program(params, candidate))
