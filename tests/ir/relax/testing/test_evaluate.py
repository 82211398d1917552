"""The reference evaluator: every form that a program takes, and the mistakes that it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import ir
from ir import relax
from ir.error import IRError
from ir.relax.op.declaration import OPERATORS
from ir.relax.testing import EvaluationError, evaluate
from ir.relax.testing.evaluate import Evaluator
from ir.script import from_source
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from ir.tir.interpreter import InterpreterError

X = np.array([1.0, 2.0, 3.0, 4.0], "float32")


@pytest.fixture
def functions():
    """Registers Python functions under names for one test."""
    names = []

    def register(**given):
        for name, function in given.items():
            ir.register_func(f"test.evaluate.{name}", function, override=True)
            names.append(f"test.evaluate.{name}")

    yield register
    for name in names:
        ir.registry.remove_global_func(name)


@I.ir_module
class Kernels:
    @T.prim_func(private=True)
    def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("double"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] * T.float32(2)

    @T.prim_func(private=True)
    def increment(A: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("increment"):
                vi = T.axis.spatial(4, i)
                A[vi] = A[vi] + T.float32(1)

    @T.prim_func(private=True)
    def half(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(2):
            with T.block("half"):
                vi = T.axis.spatial(2, i)
                B[vi] = A[vi]

    @T.prim_func(private=True)
    def fill(a: T.handle, value: T.int64):
        n = T.int64()
        A = T.match_buffer(a, (n,), "int64")
        for i in range(n):
            with T.block("fill"):
                vi = T.axis.spatial(n, i)
                A[vi] = value

    @T.prim_func(private=True)
    def halving(A: T.Buffer((1,), "int32"), B: T.Buffer((1,), "int32")):
        left = T.alloc_buffer((1,), "int32")
        left[0] = A[0]
        B[0] = 0
        while left[0] > 1:
            left[0] = left[0] // 2
            B[0] = B[0] + 1


def program(body: str, params: str = 'x: R.Tensor((4,), "float32")', pure: bool = True) -> ir.IRModule:
    """A module of the kernels above and ``main``, whose body is given."""
    lines = "\n".join("        " + line for line in body.strip().splitlines())
    head = f"    @R.function{'' if pure else '(pure=False)'}\n    def main({params}):\n        cls = Module\n"
    kernels = Kernels.script().replace("class Kernels", "class Module")
    return from_source(kernels + "\n" + head + lines + "\n", check_well_formed=False)


def test_kernels_in_destination_passing_style():
    mod = program(
        """
y = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((4,), "float32"))
return y
"""
    )
    np.testing.assert_array_equal(evaluate(mod, X), 2 * X)


def test_integers_behind_the_tensors():
    mod = program(
        """
n = T.int64()
y = R.call_tir(cls.fill, R.tuple(), out_sinfo=R.Tensor((n * 2,), "int64"), tir_vars=R.shape([n + 5]))
return y
""",
        'x: R.Tensor(("n",), "float32")',
    )
    np.testing.assert_array_equal(evaluate(mod, X[:2]), [7, 7, 7, 7])


def test_loops_that_end_by_their_condition():
    mod = program(
        """
y = R.call_tir(cls.halving, (x,), out_sinfo=R.Tensor((1,), "int32"))
return y
""",
        'x: R.Tensor((1,), "int32")',
    )
    assert evaluate(mod, np.array([37], "int32")) == 5


def test_what_a_kernel_does_not_write_is_no_number():
    mod = program(
        """
y = R.call_tir(cls.half, (x,), out_sinfo=R.Tensor((4,), "float32"))
return y
"""
    )
    np.testing.assert_array_equal(evaluate(mod, X), [1, 2, np.nan, np.nan])


def test_kernels_may_write_to_their_outputs_only():
    mod = program(
        """
y = R.call_tir(cls.increment, (x,), out_sinfo=[])
return x
"""
    )
    with pytest.raises(
        EvaluationError, match="kernel increment writes to its argument 0, which is no output"
    ):
        evaluate(mod, X)


def test_in_place_results_are_the_array_that_was_passed():
    mod = program(
        """
a = R.add(x, x)
b = R.call_tir_inplace(cls.increment, (a,), inplace_indices=[0], out_sinfo=[R.Tensor((4,), "float32")])
return b
"""
    )
    given = X.copy()
    np.testing.assert_array_equal(evaluate(mod, given)[0], 2 * X + 1)
    np.testing.assert_array_equal(given, X)


def test_in_place_calls_of_a_parameter_change_the_callers_array():
    mod = program(
        """
b = R.call_tir_inplace(cls.increment, (x,), inplace_indices=[0], out_sinfo=[R.Tensor((4,), "float32")])
return b
"""
    )
    given = X.copy()
    assert evaluate(mod, given)[0] is given
    np.testing.assert_array_equal(given, X + 1)


@pytest.mark.parametrize("view", ["a", "R.reshape(a, (2, 2))", "R.expand_dims(a, 0)", "(a, x)"])
def test_reading_what_was_overwritten(view):
    mod = program(
        f"""
a = R.add(x, x)
v = {view}
b = R.call_tir_inplace(cls.increment, (a,), inplace_indices=[0], out_sinfo=[R.Tensor((4,), "float32")])
return (b, v)
"""
    )
    with pytest.raises(EvaluationError, match="overwrote its memory"):
        evaluate(mod, X)


@pytest.mark.parametrize("axes", [[1, 0], [0, 1]])
def test_a_transposed_tensor_has_its_own_memory(axes):
    """Also where numpy hands on the operand, for there is nothing to transpose."""
    mod = program(
        f"""
a = R.reshape(x, (2, 2))
t = R.permute_dims(a, {axes})
b = R.call_tir_inplace(cls.increment, (x,), inplace_indices=[0], out_sinfo=[R.Tensor((4,), "float32")])
return (b, t)
"""
    )
    np.testing.assert_array_equal(evaluate(mod, X.copy())[1], X.reshape(2, 2).transpose(axes))


def test_constants_are_not_overwritten():
    mod = program(
        """
c = R.const([1.0, 1.0, 1.0, 1.0], "float32")
b = R.call_tir_inplace(cls.increment, (c,), inplace_indices=[0], out_sinfo=[R.Tensor((4,), "float32")])
return b
"""
    )
    data = mod["main"].body.blocks[0].bindings[0].value.data
    for _ in range(2):
        np.testing.assert_array_equal(np.squeeze(evaluate(mod, X)), [2, 2, 2, 2])  # a copy is
    np.testing.assert_array_equal(data, [1, 1, 1, 1])


def test_constants_that_are_gone_are_not_taken_for_others():
    """A constant may be a view or not in C order: what it was made of goes with it, and the next array is where that was."""
    evaluator = Evaluator(None)
    for rows in range(1, 50):
        data = np.full((4, rows), rows, "float32").T
        np.testing.assert_array_equal(evaluator.expr(relax.const(data)), np.full((rows, 4), rows, "float32"))


def test_arrays_that_may_only_be_read_are_not_overwritten():
    mod = program(
        """
b = R.call_tir_inplace(cls.increment, (x,), inplace_indices=[0], out_sinfo=[R.Tensor((4,), "float32")])
return b
"""
    )
    frozen = X.copy()
    frozen.setflags(write=False)
    with pytest.raises(EvaluationError, match="may only be read"):
        evaluate(mod, frozen)


@pytest.mark.parametrize("shape", [(0, 4), (2, 0, 4), (1, 4), (3, 4)])
def test_results_of_operators_may_be_overwritten(functions, shape):
    """Also those of no elements, which share no memory with what they are a view of in numpy."""

    def negate(data):
        np.negative(np.asarray(data), out=np.asarray(data))
        return data

    functions(flipped=negate)
    extents = ", ".join(map(str, shape))
    operand = np.ones([extent if extent == 0 else 1 for extent in shape[-2:]][:-1] + [4], "float32")
    mod = from_source(f"""
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor({operand.shape}, "float32")):
        y = R.broadcast_to(x, ({extents}))
        z = R.call_inplace_packed("test.evaluate.flipped", y, inplace_indices=[0], sinfo_args=R.Tensor(({extents}), "float32"))
        return z
""")
    frozen = operand.copy()
    frozen.setflags(write=False)
    np.testing.assert_array_equal(evaluate(mod, frozen), np.full(shape, -1, "float32"))


def test_registered_functions(functions):
    def negate(source, out):
        np.negative(np.asarray(source), out=np.asarray(out))

    functions(negate=negate, twice=lambda source: np.asarray(source) * 2, shape=lambda s: tuple(reversed(s)))
    mod = program(
        """
a = R.call_dps_packed("test.evaluate.negate", (x,), out_sinfo=R.Tensor((4,), "float32"))
b = R.call_pure_packed("test.evaluate.twice", a, sinfo_args=(R.Tensor((4,), "float32"),))
c = R.call_packed("test.evaluate.twice", b, sinfo_args=(R.Tensor((4,), "float32"),))
s = R.call_pure_packed("test.evaluate.shape", R.shape([4, 3]), sinfo_args=(R.Shape(ndim=2),))
return (c, s)
""",
        pure=False,
    )
    found, shape = evaluate(mod, X)
    np.testing.assert_array_equal(found, -4 * X)
    assert shape == (3, 4)


def test_pure_functions_that_write(functions):
    def overwrite(source, *rest):
        np.asarray(source)[...] = 0

    functions(overwrite=overwrite)
    for call in (
        'R.call_pure_packed("test.evaluate.overwrite", x, sinfo_args=(R.Object,))',
        'R.call_dps_packed("test.evaluate.overwrite", (x,), out_sinfo=R.Tensor((4,), "float32"))',
    ):
        with pytest.raises(EvaluationError, match="writes to its argument 0"):
            evaluate(program(f"y = {call}\nreturn x"), X.copy())


def test_in_place_functions(functions):
    def grow(source):
        np.asarray(source)[...] += 1
        return source

    functions(grow=grow, new=lambda source: np.asarray(source) + 1)
    call = """
a = R.add(x, x)
b = R.call_inplace_packed(
    "test.evaluate.{}", a, inplace_indices=[0], sinfo_args=(R.Tensor((4,), "float32"),)
)
return {}
"""
    np.testing.assert_array_equal(evaluate(program(call.format("grow", "b")), X), 2 * X + 1)
    with pytest.raises(EvaluationError, match="overwrote its memory"):
        evaluate(program(call.format("grow", "(a, b)")), X)
    with pytest.raises(EvaluationError, match="does not return its argument 0"):
        evaluate(program(call.format("new", "b")), X)


def test_branches():
    mod = program(
        """
if c:
    r = R.add(x, x)
else:
    s = R.negative(x)
    r = R.exp(s)
return r
""",
        'c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")',
    )
    np.testing.assert_array_equal(evaluate(mod, np.array(True), X), 2 * X)
    np.testing.assert_array_equal(evaluate(mod, np.array(False), X), np.exp(-X))


@I.ir_module
class Recursive:
    @R.function
    def power(x: R.Tensor((), "float32"), n: R.Tensor((), "int32")) -> R.Tensor((), "float32"):
        cls = Recursive
        done = R.equal(n, R.const(0, "int32"))
        if done:
            r = R.const(1.0, "float32")
        else:
            less = R.subtract(n, R.const(1, "int32"))
            part: R.Tensor((), "float32") = cls.power(x, less)
            left = R.astype(n, "float32")
            step = R.multiply(x, left)  # n is still this call's
            r = R.multiply(part, step)
        return r


def test_every_call_has_its_own_variables():
    assert evaluate(Recursive, np.array(2, "float32"), np.array(3, "int32"), name="power") == 2**3 * 6


def test_local_functions_know_what_is_around_them():
    mod = program(
        """
k = R.exp(x)
@R.function
def inner(z: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    w = R.add(k, z)
    return w
a = inner(x)
b = inner(a)
return b
"""
    )
    np.testing.assert_allclose(evaluate(mod, X), 2 * np.exp(X) + X)


def test_closures():
    @I.ir_module
    class Module:
        @R.function(private=True)
        def add(a: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            c = R.add(a, b)
            return c

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Module
            y = R.exp(x)
            f = R.make_closure(cls.add, (y,))
            z = R.invoke_pure_closure(f, (x,), sinfo_args=R.Tensor((4,), "float32"))
            return z

        @R.function(pure=False)
        def given(x: R.Tensor((4,), "float32"), f: R.Object) -> R.Tensor((4,), "float32"):
            z = R.invoke_closure(f, (x,), sinfo_args=R.Tensor((4,), "float32"))
            return z

    np.testing.assert_allclose(evaluate(Module, X), np.exp(X) + X)
    np.testing.assert_array_equal(evaluate(Module, X, lambda x: 3 * np.asarray(x), name="given"), 3 * X)


def test_shapes():
    mod = program(
        """
n = T.int64()
s = R.shape_of(x)
t = R.shape_to_tensor(s)
u = R.tensor_to_shape(t)
m = T.int64()
v = R.match_cast(u, R.Shape([m]))
y = R.reshape(x, R.shape([1, m]))
p = R.prim_value(n + m)
return (s, t, u, y, p)
""",
        'x: R.Tensor(("n",), "float32")',
    )
    s, t, u, y, p = evaluate(mod, X)
    assert s == u == (4,) and y.shape == (1, 4) and p == 8
    np.testing.assert_array_equal(t, [4])


def test_printing_and_asserting(capsys):
    mod = program(
        """
_ = R.print(x, format="it is {}")
_1 = R.assert_op(c, x, format="not {}")
return x
""",
        'x: R.Tensor((1,), "float32"), c: R.Tensor((), "bool")',
        pure=False,
    )
    evaluate(mod, X[:1], np.array(True))
    assert capsys.readouterr().out == "it is [1.]\n"
    with pytest.raises(AssertionError, match=r"not \[1\.\]"):
        evaluate(mod, X[:1], np.array(False))


def test_descriptions_of_tensors():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo(None, "float32", ndim=2))
    fields = relax.op.inspect
    with bb.function("main", [x]):
        calls = [getattr(fields, f"tensor_dtype_{name}")(x) for name in ("code", "bits", "lanes")]
        calls += [fields.tensor_ndim(x), fields.tensor_byte_offset(x), fields.tensor_elem_offset(x)]
        calls += [fields.tensor_shape_i(x, 1), fields.tensor_stride_i(x, 0)]
        bb.emit_func_output(relax.Tuple([bb.emit(call) for call in calls]))
    found = evaluate(bb.finalize(), np.zeros((2, 3), "float32"))
    assert [int(value) for value in found] == [2, 32, 1, 2, 0, 0, 3, 3]
    assert [value.dtype.name for value in found[:4]] == ["uint8", "uint8", "uint16", "int32"]


STORAGE = 'R.memory.alloc_storage(R.shape([{}]), R.prim_value(0), R.str("global"), R.dtype("float32"))'
TENSOR = 'R.memory.alloc_tensor({}, R.prim_value({}), R.shape([4]), R.dtype("float32"))'


def test_tensors_in_one_storage_share_its_bytes():
    mod = program(
        f"""
s = {STORAGE.format(24)}
a = {TENSOR.format("s", 0)}
b = {TENSOR.format("s", 8)}
_ = cls.double(x, a)
_1 = cls.double(x, b)
return (a, b)
""",
        pure=False,
    )
    a, b = evaluate(mod, X)
    np.testing.assert_array_equal(b, 2 * X)
    np.testing.assert_array_equal(a, [2, 4, 2, 4])


def test_memory_that_nobody_wrote():
    mod = program(
        f"""
s = {STORAGE.format(16)}
a = {TENSOR.format("s", 0)}
b = R.builtin.alloc_tensor(R.shape([4]), R.dtype("int32"), R.prim_value(0))
return (a, b)
""",
        pure=False,
    )
    a, b = evaluate(mod, X)
    assert np.isnan(a).all() and (b == 0x55).all()


def test_memory_that_is_not_there():
    beyond = program(
        f"""
s = {STORAGE.format(16)}
a = {TENSOR.format("s", 4)}
return a
""",
        pure=False,
    )
    with pytest.raises(EvaluationError, match="at byte 4 does not fit a storage of 16"):
        evaluate(beyond, X)
    released = program(
        f"""
s = {STORAGE.format(16)}
a = {TENSOR.format("s", 0)}
_ = cls.double(x, a)
_1 = R.memory.kill_tensor(a)
y = R.add(a, a)
return y
""",
        pure=False,
    )
    with pytest.raises(EvaluationError, match="a was released"):
        evaluate(released, X)


def test_values_have_the_struct_info_that_is_declared(functions):
    mod = program("y = R.add(x, x)\nreturn y", 'x: R.Tensor(("n", "n * 2"), "float32")')
    assert evaluate(mod, np.ones((2, 4), "float32")).shape == (2, 4)
    with pytest.raises(EvaluationError, match="extent 3 where .* declares n \\* .*2.* = 4"):
        evaluate(mod, np.ones((2, 3), "float32"))
    with pytest.raises(EvaluationError, match="got a tensor of float64"):
        evaluate(mod, np.ones((2, 4)))
    with pytest.raises(EvaluationError, match=r"got the extents \(4,\)"):
        evaluate(mod, X)
    with pytest.raises(EvaluationError, match="main takes 1 arguments, got 2"):
        evaluate(mod, X, X)
    functions(wrong=lambda: np.zeros(3, "float32"))
    call = 'y = R.call_pure_packed("test.evaluate.wrong", sinfo_args=(R.Tensor((4,), "float32"),))\nreturn y'
    with pytest.raises(EvaluationError, match="call_pure_packed: a value of extent 3"):
        evaluate(program(call), X)
    cast = program(
        'm = T.int64()\ny = R.match_cast(x, R.Tensor((m,), "float32"))\n'
        'z = R.match_cast(y, R.Tensor((m + 1,), "float32"))\nreturn z'
    )
    with pytest.raises(EvaluationError, match="binding of z: a value of extent 4"):
        evaluate(cast, X)


def test_an_operator_that_breaks_its_inference(monkeypatch):
    mod = program("y = R.exp(x)\nreturn y")
    op = ir.Op.get("relax.exp")
    right = op.get_attr("FReference")
    op.set_attr("FReference", lambda x: np.exp(x).astype("float64"))
    try:
        with pytest.raises(EvaluationError, match="relax.exp: .* got a tensor of float64"):
            evaluate(mod, X)
    finally:
        op.set_attr("FReference", right)
    assert OPERATORS["relax.exp"].reference is right


def test_what_cannot_be_evaluated():
    mod = program('y = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((8,), "float32"))\nreturn y')
    with pytest.raises(InterpreterError, match=r"dimension 0 of buffer B is 4, got an array of shape \(8,\)"):
        evaluate(mod, X)
    with pytest.raises(InterpreterError, match=r"takes 2 arguments \(A, B\), got 1"):
        evaluate(program("y = cls.double(x)\nreturn y"), X)
    with pytest.raises(IRError, match="needs the module"):
        evaluate(mod["main"], X)
    bb = relax.BlockBuilder()
    q = relax.Var("q", relax.TensorStructInfo((4,)))
    with bb.function("main", [q]):
        bb.emit_func_output(bb.emit(relax.op.ccl.allreduce(q)))
    with pytest.raises(EvaluationError, match="relax.ccl.allreduce has no numpy reference"):
        evaluate(bb.finalize(), X)


def test_functions_that_call_back():
    @I.ir_module
    class Module:
        @R.function(private=True)
        def double(x: R.Tensor((4,), "float32")) -> R.Tuple(R.Tensor((4,), "float32")):
            y = R.add(x, x)
            return (y,)

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Module
            y = R.call_builtin_with_ctx(
                "vm.builtin.cuda_graph.run_or_capture",
                (cls.double, (x,), R.prim_value(0)),
                sinfo_args=(R.Tuple(R.Tensor((4,), "float32")),),
            )
            z = y[0]
            return z

    np.testing.assert_array_equal(evaluate(Module, X), 2 * X)


@pytest.mark.meaning("relax-depth")
def test_a_recursion_that_does_not_end_is_refused():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
            cls = Module
            y: R.Tensor((1,), "float32") = cls.main(x)
            return y

    with pytest.raises(EvaluationError, match="main is called 2000 calls deep, which is the limit"):
        evaluate(Module, np.zeros(1, "float32"))


@pytest.mark.parametrize(
    ("body", "parameters", "args", "error", "place"),
    [
        (
            "y = R.argmax(x, axis=0)\nreturn y",
            'x: R.Tensor(("n",), "float32")',
            [np.zeros(0, "float32")],
            r"relax\.argmax: .*empty",
            "binding of y in main",
        ),
        (
            "z = R.matmul(x, y)\nreturn z",
            'x: R.Tensor((2, "n"), "float32"), y: R.Tensor(("m", 2), "float32")',
            [np.zeros((2, 3), "float32"), np.zeros((4, 2), "float32")],
            r"relax\.matmul: .*size 4 is different from 3",
            "binding of z in main",
        ),
        (
            "z = R.take(x, i)\nreturn z",
            'x: R.Tensor((3,), "float32"), i: R.Tensor((1,), "int32")',
            [np.zeros(3, "float32"), np.array([5], "int32")],
            r"relax\.take: index 5 is out of bounds",
            "binding of z in main",
        ),
        (
            "_ = R.assert_op(c, x, format='not {}')\nreturn x",
            'x: R.Tensor((1,), "float32"), c: R.Tensor((), "bool")',
            [np.ones(1, "float32"), np.array(False)],
            r"relax\.assert_op: Assertion Failed: not \[1\.\]",
            "binding of _ in main",
        ),
    ],
    ids=["argmax", "matmul", "take", "assert_op"],
)
def test_an_operator_without_a_value_is_named_with_its_place(body, parameters, args, error, place):
    mod = program(f"\n{body}\n", parameters, pure=False)
    with pytest.raises(EvaluationError, match=error) as caught:
        evaluate(mod, *args)
    assert str(caught.value).endswith(f"in the {place}")
