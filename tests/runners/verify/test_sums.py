"""Which statements add to an element, and how many terms it has."""

from __future__ import annotations

import math

import pytest

from ir.script import from_source
from ir.tir.buffer import decl_buffer
from ir.tir.expr import BufferLoad, IntImm, Var
from ir.tir.stmt import BufferStore, LetStmt, seq
from ir.tir.stmt_functor import post_order_visit
from runners.verify.facts import entry
from runners.verify.sums import Sums


def found_in(body: str) -> list[tuple[int, ...] | None]:
    """For each store to C, in order: the signs of its terms."""
    lines = "\n".join(f"        {line}" for line in body.strip().splitlines())
    func = entry(
        from_source(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
{lines}
""")
    )
    stores: list[BufferStore] = []
    post_order_visit(
        func.body,
        lambda node: (
            stores.append(node) if isinstance(node, BufferStore) and node.buffer.name == "C" else None
        ),
    )
    additions = [Sums(func.body).addition(store) for store in stores]
    return [None if addition is None else tuple(sign for _, sign in addition) for addition in additions]


@pytest.mark.parametrize(
    ("statement", "signs"),
    [
        ("C[0] = C[0] + A[0]", (1,)),
        ("C[0] = A[0] + C[0]", (1,)),
        ("C[0] = A[0] + C[0] - A[1] + A[2]", (1, -1, 1)),
        ("C[0] = C[0] + (A[0] + A[1])", (1,)),
        ("C[0] = T.if_then_else(A[0] > T.float32(0), C[0] + A[0] - A[1], C[0])", (1, -1)),
        ("C[0] = T.Select(A[0] > T.float32(0), C[0], C[0] + A[0])", (1,)),
        ("C[0] = T.Select(A[0] > T.float32(0), C[0] + A[0], C[0] - A[1])", (1, -1)),
        ("C[0] = T.Select(A[0] > T.float32(0), C[0] + A[0], A[1])", None),
        ("C[0] = A[0] - C[0]", None),
        ("C[0] = C[1] + A[0]", None),
        ("C[0] = C[0] + C[0]", None),
        ("C[0] = C[0] + A[0] * C[1]", None),
        ("C[0] = C[0]", None),
    ],
)
def test_what_is_added(statement: str, signs: tuple[int, ...] | None) -> None:
    assert found_in(statement) == [signs]


def test_a_name_stands_for_what_was_added_until_memory_changes() -> None:
    named = "v: T.float32 = C[0] + A[0]\n"
    assert found_in(named + "C[0] = v") == [(1,)]
    assert found_in(named + "D[0] = A[1]\nC[0] = v") == [(1,)]
    assert found_in(named + "w: T.float32 = v\nC[0] = w") == [(1,)]
    assert found_in("v: T.float32 = C[0]\nC[0] = v + A[0]") == [(1,)]
    assert found_in(named + "C[0] = v - A[1]") == [(1, -1)]
    assert found_in("v: T.float32 = C[0]\nC[0] = v + v") == [None]
    assert found_in("v: T.float32 = C[0]\nw: T.float32 = v * A[0]\nC[0] = v + w") == [None]
    assert found_in(named + "C[0] = A[1]\nC[0] = v") == [None, None]
    assert found_in(named + "for i in range(3):\n    C[0] = v") == [None]
    assert found_in(named + "if A[0] > T.float32(0):\n    C[0] = v") == [None]
    assert found_in(named + "for i in range(3):\n    D[0] = A[1]\nC[0] = v") == [None]


def test_one_statement_at_two_places_adds_what_both_add() -> None:
    a, c = decl_buffer((8,), "float32", "A"), decl_buffer((8,), "float32", "C")
    name, zero = Var("v", "float32"), IntImm("int32", 0)
    store = BufferStore(c, name, [zero])

    def added(place: int) -> LetStmt:
        return LetStmt(name, BufferLoad(c, [zero]) + BufferLoad(a, [IntImm("int32", place)]), store)

    assert Sums(seq(added(1), added(1))).addition(store) is not None
    assert Sums(seq(added(1), added(2))).addition(store) is None


@pytest.mark.parametrize(
    ("loops", "terms"),
    [
        ("for i, k in T.grid(4, 100):\n    C[i] = C[i] + A[k]", 100),
        ("for i, k in T.grid(4, 100):\n    C[i] = C[i] + A[k] - A[i]", 200),
        ("for i, j, k in T.grid(2, 4, 100):\n    C[i * 4 + j] = C[i * 4 + j] + A[k]", 100),
        (
            "for i, k in T.grid(4, 100):\n    C[i] = C[i] + A[k]\nfor i in range(4):\n    C[i] = C[i] + A[i]",
            101,
        ),
        ("for i, j in T.grid(4, 4):\n    C[i + j] = C[i + j] + A[i]", math.inf),
        ("for i, j in T.grid(2, 4):\n    C[i * 3 + j] = C[i * 3 + j] + A[i]", math.inf),
        ("for k in range(100):\n    C[k // 20] = C[k // 20] + A[k]", math.inf),
        ("for i in range(4):\n    for k in range(i):\n        C[i] = C[i] + A[k]", math.inf),
        ("for i, j in T.grid(2, 4):\n    C[i + j, i] = C[i + j, i] + A[i]", 1),
        ("for i, j in T.grid(4, 4):\n    C[i + j, i + j] = C[i + j, i + j] + A[i]", math.inf),
        (
            "for o in range(4):\n    for t in range(o * 2, o * 2 + 2):\n        C[t - o * 2] = C[t - o * 2] + A[t]",
            math.inf,
        ),
        ("for k in range(8):\n    C[k - I[0]] = C[k - I[0]] + A[k]", math.inf),
        ("for i in T.serial(T.uint8(8)):\n    C[i * T.uint8(128)] = C[i * T.uint8(128)] + A[i]", math.inf),
        ("for k in range(8):\n    C[I[k]] = C[I[k]] + A[k]", 8),
        ("for k in range(8):\n    C[T.min(I[k] + k * 8, 7)] = C[T.min(I[k] + k * 8, 7)] + A[k]", math.inf),
    ],
)
def test_how_many_terms_an_element_has(loops: str, terms: float) -> None:
    shape = "(8, 8)" if "C[i + j, i" in loops else "(8,)"
    lines = "\n".join(f"        {line}" for line in loops.splitlines())
    func = entry(
        from_source(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((100,), "float32"), I: T.Buffer((8,), "int32"), C: T.Buffer({shape}, "float32")):
{lines}
""")
    )
    assert Sums(func.body).terms(func.buffer_map[func.params[2]]) == terms


def test_an_index_may_have_a_loaded_step_or_many_names() -> None:
    names = "\n".join(f"        x{n + 1}: T.int32 = x{n} + x{n} - x{n}" for n in range(14))
    func = entry(
        from_source(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), J: T.Buffer((1,), "int64"), C: T.Buffer((8,), "float32")):
        for i in range(4):
            C[i * T.Cast("int32", J[0])] = A[i]
        x0: T.int32 = T.Cast("int32", J[0])
{names}
        C[x14] = C[x14] + A[0]
""")
    )
    assert Sums(func.body).terms(func.buffer_map[func.params[2]]) == 1


def test_names_of_choices_are_not_followed_for_ever() -> None:
    names = "".join(
        f"x{n + 1}: T.float32 = T.Select(A[0] > T.float32(0), x{n}, x{n} + A[1])\n" for n in range(20)
    )
    assert found_in("x0: T.float32 = C[0] + A[0]\n" + names + "C[0] = x20") == [None]
