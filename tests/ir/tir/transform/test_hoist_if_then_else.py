"""HoistIfThenElse: invariant clauses move out, others stay."""

from ir import tir
from ir.script import tir as T


def test_clause_by_clause(check):
    @T.prim_func
    def before(A: T.Buffer((16, 16), "float32")):
        for i in range(16):
            for j in range(16):
                if i < 10 and j > 3:
                    A[i, j] = T.float32(0)

    @T.prim_func
    def after(A: T.Buffer((16, 16), "float32")):
        for i in range(16):
            if i < 10:
                for j in range(16):
                    if j > 3:
                        A[i, j] = T.float32(0)

    check(tir.transform.HoistIfThenElse(), before, after)


def test_condition_on_memory_stays(apply):
    @T.prim_func
    def memory(A: T.Buffer((16,), "float32")):
        for _i in range(16):
            if A[0] > T.float32(0):
                A[0] = A[0] - T.float32(1)

    assert apply(tir.transform.HoistIfThenElse(), memory) is memory


def test_else_moves_along(apply):
    @T.prim_func
    def both(A: T.Buffer((4, 4), "float32")):
        for i in range(4):
            for j in range(4):
                if i < 2:
                    A[i, j] = T.float32(1)
                else:
                    A[i, j] = T.float32(2)

    after = apply(tir.transform.HoistIfThenElse(), both)
    assert after.script().count("for j") == 2


def test_a_choice_of_which_a_part_varies_stays(apply):
    """Where only the other part holds, the other side is chosen."""

    @T.prim_func
    def both(A: T.Buffer((4, 4), "float32")):
        for i in range(4):
            for j in range(4):
                if i < 2 and j < 2:
                    A[i, j] = T.float32(1)
                else:
                    A[i, j] = T.float32(2)

    assert apply(tir.transform.HoistIfThenElse(), both) is both


def test_what_may_fault_stays_where_it_is_guarded(apply):
    @T.prim_func
    def main(A: T.Buffer((16,), "float32"), n: T.int32, m: T.int32):
        for i in range(n):
            if i < m and 12 % m == 0:
                A[i] = T.float32(1)
        for i in range(n):
            if T.if_then_else(n < 3, 12 % n, 1) == 0:
                A[i] = T.float32(2)

    assert apply(tir.transform.HoistIfThenElse(), main) is main


def test_a_choice_within_a_choice_moves_along(apply):
    @T.prim_func
    def before(A: T.Buffer((4, 4), "float32"), n: T.int32):
        for i in range(4):
            for j in range(4):
                if i < 2:
                    if n < 3:
                        A[i, j] = T.float32(1)
                else:
                    if n < 5:
                        A[i, j] = T.float32(2)

    @T.prim_func
    def after(A: T.Buffer((4, 4), "float32"), n: T.int32):
        for i in range(4):
            if i < 2:
                if n < 3:
                    for j in range(4):
                        A[i, j] = T.float32(1)
            else:
                if n < 5:
                    for j in range(4):
                        A[i, j] = T.float32(2)

    found = apply(tir.transform.HoistIfThenElse(), before)
    assert found.script() == after.script().replace("def after", "def before")


def test_marks_of_conditions_stay(apply):
    @T.prim_func
    def before(A: T.Buffer((16, 16), "float32")):
        for i in range(16):
            for j in range(16):
                if T.ignore_loop_partition(i < 10 and j > 3):
                    A[i, j] = T.float32(0)

    text = apply(tir.transform.HoistIfThenElse(), before).script()
    assert "if T.ignore_loop_partition(i < 10):" in text and "if T.ignore_loop_partition(j > 3):" in text
