"""Iterations of parallel loops that meet are found by counting, whether or not threads meet in a call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir.script import from_source
from runners.verify import Iterations, iterations_of
from tests.programs.nodes import matmul


def program(body: str) -> Any:
    lines = "\n".join(f"        {line}" for line in body.strip().splitlines())
    return from_source(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(I: T.Buffer((8,), "int32"), A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32"), S: T.Buffer((8,), "float32")):
{lines}
""")


def iterations(body: str) -> Iterations:
    return iterations_of(program(body))


def race(body: str) -> str | None:
    return iterations(body).met


@pytest.mark.parametrize(
    "body",
    [
        "for i in T.parallel(8):\n    for j in range(6):\n        B[i, j] = A[i, j]",
        "for f in T.parallel(48):\n    B[f // 6, f % 6] = A[f // 6, f % 6]",
        "for i in T.parallel(8):\n    for j in range(6):\n        S[i] = S[i] + A[i, j]",
        "for i in T.parallel(3):\n    for j in range(3):\n        if i * 3 + j < 8:\n            S[i * 3 + j] = A[i * 3 + j, 0]",
        "for i in T.parallel(8):\n    with T.block(''):\n        C = T.alloc_buffer((1,))\n        C[0] = A[i, 0]\n        S[i] = C[0]",
        "for i in T.parallel(8):\n    S[I[i]] = A[i, 0]",  # not known
        "for i in range(8):\n    for j in T.parallel(6):\n        B[i, j] = A[i, j]",
        "for k in T.serial(1, 2):\n    for i in T.parallel(8):\n        S[i * k] = A[i, 0]",
        "for i in T.parallel(8):\n    P = T.allocate((1,), 'float32')\n    C = T.Buffer((1,), data=P)\n    C[0] = A[i, 0]\n    S[i] = C[0]",
        "for i in T.parallel(1):\n    for j in range(6):\n        S[0] = S[0] + A[i, j]",
        "for i in T.parallel(2):\n    B[i, T.Ramp(0, 1, 6)] = A[i, T.Ramp(0, 1, 6)]",
        # neighbours overlap but where the block does not run
        "for i in T.parallel(3):\n    for j in range(3):\n        with T.block('S'):\n            v = T.axis.spatial(8, i * 2 + j)\n"
        "            T.where(j < 2)\n            S[v] = A[v, 0]",
    ],
)
def test_iterations_that_keep_apart(body: str) -> None:
    assert race(body) is None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "for i in range(8):\n    for j in T.parallel(6):\n        S[i] = S[i] + A[i, j]",
            "0 and 1 of the parallel loop j",
        ),
        (
            "for i in T.parallel(8):\n    for j in range(6):\n        B[0, j] = A[i, j]",
            "store to the same element of B",
        ),
        ("for i in T.parallel(7):\n    S[i] = S[i + 1]", "touch the same element of S"),
        (  # the right side of "or" is evaluated where the left one does not hold
            "for i in T.parallel(8):\n    if i == 0 or S[i - 1] > 0.0:\n        B[i, 0] = 1.0\n    S[i] = A[i, 0]",
            "touch the same element of S",
        ),
        ("for i in T.parallel(7):\n    S[i] = A[i, 0]\n    S[i + 1] = A[i, 1]", "loop i"),
        ("for f in T.parallel(48):\n    S[f // 6] = A[f // 6, f % 6]", "0 and 1"),
        # numbers but zero are True
        ("for i in T.parallel(8):\n    S[T.Cast('int32', T.Cast('bool', i)) * 2 + 1] = A[i, 0]", "1 and 2"),
        # loops around that do not begin at zero, and meet in their second turn only
        ("for k in T.serial(1, 3):\n    for i in T.parallel(8):\n        S[i // k] = A[i, 0]", "0 and 1"),
        # one element, whatever the index
        (
            "C = T.alloc_buffer((8, 2), strides=[0, 1])\nfor i in T.parallel(8):\n    C[i, 0] = A[i, 0]\nS[0] = C[0, 0]",
            "0 and 1",
        ),
        # shifts are of data, and wrap
        ("for i in T.parallel(8):\n    S[T.shift_right(T.shift_left(i, 30), 30) + 4] = A[i, 0]", "0 and 4"),
    ],
)
def test_iterations_that_meet(body: str, message: str) -> None:
    assert message in (race(body) or "")


@pytest.mark.parametrize(
    ("body", "followed"),
    [
        ("for i in T.parallel(8):\n    for j in range(6):\n        B[i, j] = A[i, j]", True),
        ("for i in T.parallel(8):\n    S[i] = A[I[i], 0]", True),  # what only is read does not matter
        ("for i in range(8):\n    S[I[i]] = A[i, 0]", True),  # nothing is parallel
        ("for i in T.parallel(8):\n    S[I[i]] = A[i, 0]", False),
        ("for i in T.parallel(8):\n    S[i] = T.call_extern('float32', 'f', T.address_of(B[0, 0]))", False),
        ("for i in T.parallel(8):\n    if A[i, 0] > 0.0:\n        S[i] = A[i, 0]", False),
        ("for i in range(8):\n    for j in T.parallel(6):\n        B[i, j] = A[i, j]", False),
        ("for i in T.parallel(8):\n    for j in range(I[i]):\n        B[i, j] = A[i, j]", False),
        ("for i in T.parallel(4):\n    for j in range(i * 2, i * 2 + 2):\n        S[j] = A[j, 0]", False),
        (
            "for i in T.parallel(4):\n    for j in range(i * 2, T.min(i * 2 + 2, 7)):\n        S[j] = A[j, 0]",
            False,
        ),
        (
            "for i in T.parallel(8):\n    for j in range(7):\n        B[i, j] = 0.0",
            False,
        ),  # past the end of a row
        ("for i in T.parallel(2):\n    B[i, T.Ramp(0, 1, 6)] = A[i, T.Ramp(0, 1, 6)]", False),
        (
            "for i in T.parallel(8):\n    with T.block(''):\n        C = T.match_buffer(S[0], (1,))\n        C[0] = A[i, 0]",
            False,
        ),
    ],
)
def test_what_is_certain_and_what_is_not(body: str, followed: bool) -> None:
    assert iterations(body) == Iterations(None, followed)


@pytest.mark.parametrize(
    "body",
    [
        "for i in T.parallel(7):\n    S[i] = A[i, 0]\n    if S[i + 1] > 0.0:\n        B[i, 0] = A[i, 0]",
        "for i in T.parallel(7):\n    S[i] = A[i, 0]\n    while S[i + 1] > 0.0:\n        B[i, 0] = A[i, 0]",
        "for i in T.parallel(7):\n    S[i] = A[i, 0]\n    with T.block(''):\n        T.where(S[i + 1] > 0.0)\n        B[i, 0] = A[i, 0]",
        "for i in T.parallel(7):\n    for j in range(T.Cast('int32', S[i + 1])):\n        S[i] = A[i, 0]",
    ],
)
def test_conditions_and_extents_are_loads_too(body: str) -> None:
    assert "touch the same element of S" in (race(body) or "")


def test_block_variables_stand_for_loops() -> None:
    assert iterations_of(matmul()) == Iterations(None, True)
    body = """
for i, j, k in T.grid(8, 1, 1):
    for l in T.parallel(6):
        with T.block("S"):
            vi = T.axis.spatial(8, i)
            vl = T.axis.reduce(6, l)
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + A[vi, vl]"""
    assert "parallel loop l store to the same element of S" in (race(body) or "")
    serial = body.replace("for l in T.parallel(6)", "for l in range(6)")
    assert race(serial.replace("for i, j, k in T.grid(8, 1, 1)", "for i in T.parallel(8)")) is None


def test_a_buffer_of_one_iteration_is_its_own_wherever_it_is_declared() -> None:
    inside = """
C = T.alloc_buffer((1,), "float32")
for i in T.parallel(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[0] = A[vi, 0]
        S[vi] = C[0]"""
    assert race(inside) is None
    outside = (
        inside
        + """
for j in range(6):
    with T.block("B"):
        vj = T.axis.spatial(6, j)
        B[0, vj] = C[0]"""
    )
    assert "element of C" in (race(outside) or "")


def test_large_loops_are_looked_at_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    from runners.verify import accesses

    monkeypatch.setattr(accesses, "MOST", 8)
    assert race("for i in T.parallel(8):\n    for j in range(6):\n        B[i, j] = A[i, j]") is None
    assert race("for i in T.parallel(8):\n    for j in range(6):\n        B[0, j] = A[i, j]") is not None


@pytest.mark.parametrize("guard", ["k == 1", "k == 7", "k > 0"])
def test_a_race_in_some_turns_of_a_loop_around(guard: str) -> None:
    body = f"for k in range(8):\n    if {guard}:\n        for i in T.parallel(8):\n            S[k] = S[k] + A[i, 0]"
    assert "0 and 1 of the parallel loop i" in (race(body) or "")


def test_indices_of_data_are_followed_on_the_arrays_of_a_call() -> None:
    mod = program("for i in T.parallel(8):\n    if I[i] >= 0:\n        S[I[i] // 2] = S[I[i] // 2] + A[i, 0]")
    rest = [np.zeros((8, 6), np.float32), np.zeros((8, 6), np.float32), np.zeros(8, np.float32)]
    assert iterations_of(mod) == Iterations(None, False)
    apart = [np.array([0, 2, 4, 6, -1, 8, 10, 12], np.int32), *rest]
    assert iterations_of(mod, apart) == Iterations(None, False), "in this call, but not in every one"
    meets = [np.array([0, 2, 4, 6, -1, -1, 1, 12], np.int32), *rest]
    assert "iterations 0 and 6 of the parallel loop i" in (iterations_of(mod, meets).met or "")


def test_an_index_that_the_program_writes_is_not_the_callers() -> None:
    body = "for i in range(8):\n    I[i] = i\nfor i in T.parallel(8):\n    S[I[i]] = A[i, 0]"
    arrays = [np.zeros(8, np.int32), np.zeros((8, 6), np.float32), np.zeros((8, 6), np.float32)]
    assert iterations_of(program(body), [*arrays, np.zeros(8, np.float32)]) == Iterations(None, False)


@pytest.mark.parametrize(
    ("name", "body", "met"),
    [
        ("(4, 12), 'float32'", "N[i, 0] = A[i, 0]\n    B[i * 2, 1] = A[i, 1]", None),
        (
            "(4, 12), 'float32'",
            "N[i, 0] = A[i, 0]\n    B[i * 2 + 2, 0] = A[i, 1]",
            "of B",
        ),  # the row of the next
        (
            "(60,), 'float32'",
            "N[i + 50] = A[i, 0]\n    N[i] = A[i, 1]",
            None,
        ),  # more elements than the parameter has
        ("(192,), 'int8'", "N[i * 24] = T.int8(1)\n    B[i, 0] = A[i, 0]", None),
        ("(192,), 'int8'", "N[i * 24 + 26] = T.int8(1)\n    B[i, 0] = A[i, 0]", "of B"),  # a byte of the next
        ("(192,), 'int8', strides=(2,)", "N[i * 12 + 13] = T.int8(1)\n    B[i, 0] = A[i, 0]", "of B"),
        ("(24,), 'float32', elem_offset=6", "N[i * 6] = A[i, 0]\n    B[i, 0] = A[i, 0]", "of B"),
    ],
)
def test_two_buffers_of_one_pointer(name: str, body: str, met: str | None) -> None:
    found = iterations(f"N = T.decl_buffer({name}, data=B.data)\nfor i in T.parallel(4):\n    {body}")
    if met is None:
        assert found == Iterations(None, True)
    else:
        assert f"the same element {met}" in (found.met or "")


OWN = """
C = T.alloc_buffer((8,), "float32")
for i in T.parallel(8):
    BODY
"""
FILLED = [
    "for j in range(6):\n        C[j] = A[i, j]\n    for j in range(6):\n        B[i, j] = C[5 - j]",
    "for j in range(6):\n        C[j] = A[i, j]\n        B[i, j] = C[j] + T.if_then_else(j > 0, C[j - 1], 0.0)",
    "for j in range(6):\n        if j == 0:\n            C[0] = 0.0\n        C[0] = C[0] + A[i, j]\n    S[i] = C[0]",
    "if i < 4:\n        C[0] = A[i, 0]\n    if i < 3:\n        S[i] = C[0]",
    "for j, k in T.grid(6, 6):\n        with T.block('C'):\n            vi = T.axis.spatial(8, i)\n"
    "            vj, vk = T.axis.remap('SR', [j, k])\n            with T.init():\n                C[vj] = 0.0\n"
    "            C[vj] = C[vj] + A[vi, vk]\n    for j in range(6):\n        B[i, j] = C[j]",
    "for k, j in T.grid(6, 6):\n        with T.block('C'):\n            vi = T.axis.spatial(8, i)\n"
    "            vj, vk = T.axis.remap('SR', [j, k])\n            with T.init():\n                C[vj] = 0.0\n"
    "            C[vj] = C[vj] + A[vi, vk]\n    for j in range(6):\n        B[i, j] = C[j]",
]
UNFILLED = [
    "for j in range(6):\n        B[i, j] = T.if_then_else(i > 0, C[j], 0.0)\n        C[j] = A[i, j]",
    "for j in range(6):\n        C[j] = A[i, j]\n        B[i, j] = T.if_then_else(i > 0 and j < 5, C[j + 1], 0.0)",
    "if i % 2 == 0:\n        C[0] = A[i, 0]\n    S[i] = C[0]",
    "for j in range(5):\n        C[j] = A[i, j]\n    for j in range(6):\n        B[i, j] = C[j]",
    "for j in range(1, 6):\n        if j == 0:\n            C[0] = 0.0\n        C[0] = C[0] + A[i, j]\n    S[i] = C[0]",
    "for j, k in T.grid(6, 5):\n        with T.block('C'):\n            vi = T.axis.spatial(8, i)\n"
    "            vj = T.axis.spatial(6, j)\n            vk = T.axis.reduce(6, k + 1)\n            with T.init():\n"
    "                C[vj] = 0.0\n            C[vj] = C[vj] + A[vi, vk]\n    for j in range(6):\n        B[i, j] = C[j]",
]


@pytest.mark.meaning("parallel-local")
@pytest.mark.parametrize("body", FILLED)
def test_an_iteration_fills_what_it_has_for_itself(body: str) -> None:
    assert iterations(OWN.replace("BODY", body)) == Iterations(None, True)


@pytest.mark.meaning("parallel-local")
@pytest.mark.parametrize("body", UNFILLED)
def test_what_another_iteration_would_have_written_is_found(body: str) -> None:
    """Lowering gives each iteration a buffer of its own, so that no element has two owners: it is one that nobody wrote."""
    assert "reads an element of C before it writes it" in (race(OWN.replace("BODY", body)) or "")


ROWS = """
C = T.alloc_buffer((8, 6), "float32")
for i in T.parallel(8):
    for j in range(6):
        C[STORED] = A[i, j]
    for j in range(6):
        B[i, j] = C[LOADED]
"""


@pytest.mark.meaning("parallel-local")
@pytest.mark.parametrize(
    ("stored", "loaded"),
    [
        ("i, j", "i, 5 - j"),
        ("7 - i, j", "7 - i, j"),
        ("i // 2 * 2 + i % 2, j", "i, j"),
        ("(i * 2 + j) % 8, j", "(i * 2 + j) % 8, j"),  # a shift that other variables decide
        ("2 * (i - j) - i + 2 * j, j", "i, j"),
        ("i % 2, j", "i - i // 2 * 2, 5 - j"),
    ],
)
def test_rows_that_an_iteration_fills_for_itself(stored: str, loaded: str) -> None:
    assert iterations(ROWS.replace("STORED", stored).replace("LOADED", loaded)) == Iterations(None, True)


@pytest.mark.meaning("parallel-local")
@pytest.mark.parametrize(
    ("stored", "loaded"),
    [
        ("i, j", "(i + 1) % 8, j"),
        ("i, j", "7 - i, j"),  # every row is one that some iteration filled
        ("i // 2, j", "i // 4, j"),  # alike in the first iterations
        ("(i * 2 + j) % 8, j", "(i + j) % 8, j"),
        ("i, j // 2", "i, j"),
        ("0, (i + j // 2) % 6", "0, (i + j) % 6"),
    ],
)
def test_rows_that_an_iteration_did_not_fill(stored: str, loaded: str) -> None:
    found = race(ROWS.replace("STORED", stored).replace("LOADED", loaded))
    assert "reads an element of C before it writes it" in (found or "")


def test_one_of_iterations_that_are_alike_tells_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    from runners.verify import accesses

    body = ROWS.replace("LOADED", "i, j").replace("B[i, j]", "S[i]")
    monkeypatch.setattr(accesses, "MOST", 8)
    assert iterations(body.replace("STORED", "i, j")) == Iterations(None, True)
    assert iterations(body.replace("STORED", "(i * 2 + j) % 8, j")) == Iterations(None, False)


@pytest.mark.parametrize(
    "body",
    [
        "if A[i, 0] > 0.0:\n        C[0] = A[i, 0]\n    S[i] = C[0]",
        "C[T.Ramp(0, 1, 6)] = A[i, T.Ramp(0, 1, 6)]\n    S[i] = C[3]",
        "for j in range(I[i]):\n        C[j] = A[i, j]\n    S[i] = C[0]",
        "T.evaluate(T.call_extern('int32', 'fill', C.data))\n    S[i] = C[0]",
    ],
)
def test_what_data_or_a_call_decides_is_not_certain(body: str) -> None:
    assert iterations(OWN.replace("BODY", body)) == Iterations(None, False)


WRAPPING = [
    "for i in T.parallel(8):\n    S[T.Cast('int32', T.Cast('uint8', i) * T.uint8(64)) // 64] = A[i, 0]",
    "for i in T.parallel(T.uint8(8)):\n    S[T.Cast('int32', i * T.uint8(64)) // 64] = A[0, 0]",
    "for i in T.parallel(8):\n    S[T.Cast('int32', T.Cast('int8', i * 64 + 192)) // 64 % 8] = A[i, 0]",
]


@pytest.mark.parametrize("body", WRAPPING)
def test_narrow_types_wrap(body: str) -> None:
    assert "store to the same element of S" in (race(body) or "")


def test_what_an_iteration_reads_of_its_own_by_indices_that_wrap() -> None:
    body = """
C = T.alloc_buffer((1000,), 'float32')
for i in T.parallel(8):
    for j in range(6):
        C[T.Cast('uint8', i) * T.uint8(100) + T.Cast('uint8', j)] = A[i, j]
    for j in range(6):
        B[i, j] = C[i * 100 + j]
"""
    assert "reads an element of C before it writes it" in (race(body) or "")


def test_elements_beyond_the_end_are_not_certain() -> None:
    body = (
        ROWS.replace('(8, 6), "float32"', '(40,), "float32"')
        .replace("STORED", "i * 6 + j")
        .replace("LOADED", "i * 6 + j")
    )
    assert iterations(body) == Iterations(None, False)


def test_scalars_and_tables_that_are_filled_under_another_name() -> None:
    """A scalar is no array; what a view of a table fills is not what the caller gave."""
    mod = from_source("""@I.ir_module
class Module:
    @T.prim_func
    def main(n: T.int32, I: T.Buffer((8,), "int32"), S: T.Buffer((8,), "float32")):
        with T.block("fill"):
            V = T.match_buffer(I[0:8], (8,), "int32")
            for i in range(8):
                V[i] = i
        for i in T.parallel(8):
            S[I[i]] = T.Cast("float32", n)
""")
    stale = [np.int32(1), np.zeros(8, np.int32), np.zeros(8, np.float32)]
    assert iterations_of(mod, stale) == Iterations(None, False)


@pytest.mark.parametrize(
    "body",
    [
        "for i in T.parallel(8):\n            S[i * n] = T.float32(1)",
        "for k in range(1, n):\n            for i in T.parallel(8):\n                S[i * k] = T.float32(1)",
    ],
)
def test_what_symbols_say_is_not_known(body: str) -> None:
    """A stride that only a call tells is not taken for zero."""
    mod = from_source(f"""@I.ir_module
class Module:
    @T.prim_func
    def main(n: T.int32, S: T.Buffer((64,), "float32")):
        {body}
""")
    assert iterations_of(mod) == Iterations(None, False)


def test_one_pointer_of_two_types_in_memory_of_an_iteration() -> None:
    """A float of four bytes is stored, and one of its neighbour's bytes is read."""
    body = """
for i in T.parallel(8):
    with T.block(""):
        C = T.alloc_buffer((64,), "float32")
        D = T.Buffer((256,), "int8", data=C.data)
        C[i] = A[i, 0]
        S[i] = T.Cast("float32", D[READ])"""
    for read, is_right in (("i * 4", True), ("i * 4 + 3", True), ("i * 4 + 4", False), ("i", False)):
        found = iterations(body.replace("READ", read))
        assert (found.met is None) == is_right, read


@pytest.mark.parametrize("turn", range(10))
def test_what_happens_in_one_turn_of_loops_around(turn: int) -> None:
    meeting = f"""
for k in range(10):
    for i in T.parallel(8):
        S[i] = A[i, 0]
        if k == {turn}:
            S[(i + 1) % 8] = A[(i + 1) % 8, 0]"""
    assert race(meeting) is not None
    assert race(meeting.replace("(i + 1) % 8", "i")) is None
    assert iterations(meeting.replace("range(10)", "range(100)")).followed is False


def test_what_lies_before_an_array_is_no_element_of_it() -> None:
    assert iterations("for i in T.parallel(8):\n    S[i - 1] = A[i, 0]") == Iterations(None, False)


def test_a_loop_that_begins_where_a_variable_says_is_not_known() -> None:
    body = "for k in range(4):\n    for i in T.parallel(k, k + 4):\n"
    body += "        if i == 5:\n            S[0] = A[i, 0]\n        if i == 6:\n            S[0] = A[i, 1]"
    assert iterations(body) == Iterations(None, False)
