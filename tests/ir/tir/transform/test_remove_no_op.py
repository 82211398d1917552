"""RemoveNoOp: what has no effect goes, what has one stays."""

from ir import IRModule, tir
from ir.registry import register_func
from ir.script import tir as T


def test_everything_without_effect(check):
    @T.prim_func
    def before(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for _i in range(16):
            T.evaluate(0)
        if A[0] > T.float32(0):
            T.evaluate(0)
        A[0] = A[0]
        B[0] = T.float32(1)

    @T.prim_func
    def after(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        B[0] = T.float32(1)

    check(tir.transform.RemoveNoOp(), before, after)


def test_effects_stay(check):
    @T.prim_func
    def before(A: T.Buffer((4,), "float32")):
        for i in range(4):
            if A[i] > T.float32(0):
                T.evaluate(0)
            else:
                A[i] = T.float32(5)

    @T.prim_func
    def after(A: T.Buffer((4,), "float32")):
        for i in range(4):
            if not A[i] > T.float32(0):
                A[i] = T.float32(5)

    check(tir.transform.RemoveNoOp(), before, after)


def test_a_place_that_is_another_each_time_is_stored_to():
    """``A[next()] = A[next()]`` moves an element, though both places are one object."""
    buffer = tir.decl_buffer((4,), "float32", "A")
    place = tir.Call("int32", "tir.tvm_call_packed", (tir.StringImm("next"),))
    store = tir.BufferStore(buffer, tir.BufferLoad(buffer, [place]), [place])
    mod = IRModule({"main": tir.PrimFunc([buffer], store)})
    assert tir.transform.RemoveNoOp()(mod)["main"].body is store


def test_an_allocation_goes_with_its_last_use(check):
    @T.prim_func
    def before(A: T.Buffer((4,), "float32")):
        data = T.allocate([4], "float32", "global")
        unused = T.Buffer((4,), data=data)
        kept = T.allocate([4], "float32", "global")
        used = T.Buffer((4,), data=kept)
        unused[0] = unused[0]
        used[0] = T.float32(1)
        A[0] = used[0]

    @T.prim_func
    def after(A: T.Buffer((4,), "float32")):
        kept = T.allocate([4], "float32", "global")
        used = T.Buffer((4,), data=kept)
        used[0] = T.float32(1)
        A[0] = used[0]

    # it reads what nobody wrote, so it has no results to compare
    check(tir.transform.RemoveNoOp(), before, after, same_results=False)


def test_what_is_called_for_a_name_that_nobody_uses_is_called():
    register_func("test_remove_no_op.next", lambda: 1, override=True)
    value = tir.Call("int32", "tir.tvm_call_packed", (tir.StringImm("test_remove_no_op.next"),))
    func = tir.PrimFunc([], tir.LetStmt(tir.Var("x"), value, tir.Evaluate(tir.const(0))))
    body = tir.transform.RemoveNoOp()(IRModule({"main": func}))["main"].body
    assert isinstance(body, tir.Evaluate) and body.value is value


def test_a_loop_goes_when_it_never_runs_and_stays_when_it_runs_once(check):
    @T.prim_func
    def before(A: T.Buffer((4,), "float32")):
        for i in range(0):
            A[i] = T.float32(1)
        for i in range(1):
            A[i + 1] = T.float32(2)

    @T.prim_func
    def after(A: T.Buffer((4,), "float32")):
        for i in range(1):
            A[i + 1] = T.float32(2)

    check(tir.transform.RemoveNoOp(), before, after)


def test_a_masked_load_is_zero_where_it_does_not_read(check):
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        for i in range(8):
            A[i] = A.vload([i], predicate=i < 3)

    check(tir.transform.RemoveNoOp(), before, before)


def test_memory_that_nobody_reads_is_not_written(check):
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
        unread_data = T.allocate([16], "float32", "global")
        unread = T.Buffer((16,), data=unread_data)
        for i in range(16):
            unread[i] = A[i] + T.float32(1)
            C[i] = A[i]

    @T.prim_func
    def expected(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
        for i in range(16):
            C[i] = A[i]

    check(tir.transform.RemoveNoOp(), before, expected)


def test_memory_whose_address_goes_somewhere_stays(apply):
    @T.prim_func
    def func(A: T.Buffer((16,), "float32")):
        shown_data = T.allocate([1], "float32", "global")
        shown = T.Buffer((1,), data=shown_data)
        shown[0] = A[0]
        T.evaluate(T.call_extern("int32", "show", shown_data))

    after = tir.transform.RemoveNoOp()(IRModule({"main": func}))["main"]
    assert "shown_1[0] = A[0]" in after.script() or "shown[0] = A[0]" in after.script()


def test_what_an_unread_value_does_stays(apply):
    @T.prim_func
    def func(A: T.Buffer((16,), "float32")):
        unread_data = T.allocate([1], "int32", "global")
        unread = T.Buffer((1,), "int32", data=unread_data)
        unread[0] = T.call_extern("int32", "tick")

    text = tir.transform.RemoveNoOp()(IRModule({"main": func}))["main"].script()
    assert "tick" in text and "allocate" not in text
