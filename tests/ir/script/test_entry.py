"""Decorators in Python programs: what surrounds a script is visible in it; macros; text with extra names."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ir
from ir import tir
from ir.error import DiagnosticError
from ir.script import from_source
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from tests.ir.script.roundtrip import check

EXTENT = 8
SCALE = tir.const(2.0, "float32")


def test_globals_and_locals_are_visible() -> None:
    n = 4
    dtype = "float16"

    @T.prim_func
    def func(A: T.Buffer((n, EXTENT), dtype)):
        for i, j in T.grid(n, EXTENT):
            A[i, j] = A[i, j] * SCALE.astype(dtype)

    assert [int(item) for item in func.buffer_map[func.params[0]].shape] == [4, 8]
    assert "T.float16(2)" in func.script()


def test_functions_of_functions() -> None:
    def make(extent: int) -> tir.PrimFunc:
        @T.prim_func(private=True)
        def func(A: T.Buffer((extent,), "float32")):
            for i in T.serial(extent):
                A[i] = float(extent)

        return func

    assert "T.Buffer((3,)" in make(3).script()
    assert "T.Buffer((5,)" in make(5).script()
    assert "global_symbol" not in make(3).attrs


def test_static_conditions_and_comprehensions() -> None:
    flag = True

    @T.prim_func
    def func(A: T.Buffer((4, 4), "int32")):
        if flag:
            A[0, 0] = sum([i * i for i in [1, 2, 3]])
        else:
            A[0, 0] = 0
        A[(0 if flag else 1), 1] = max(1, 2) if not flag else len("abc")

    text = func.script()
    assert "if" not in text
    assert "A[0, 0] = 14" in text and "A[0, 1] = 3" in text


def test_starred_shapes_and_loops() -> None:
    dims = (4, 8)

    @T.prim_func(private=True)
    def starred(a: T.handle, b: T.handle):
        A = T.match_buffer(a, [*dims, 16], "int32")
        B = T.match_buffer(b, dims, "int32")
        for *spatial, reduction in T.grid(*A.shape):
            with T.block("reduce"):
                i, j, k = T.axis.remap("SSR", [*spatial, reduction])
                with T.init():
                    B[i, j] = 0
                B[i, j] = B[i, j] + A[i, j, k]

    text = check(starred)
    assert "for spatial_0, spatial_1, reduction in T.grid(4, 8, 16):" in text


def test_conditional_expression() -> None:
    @T.prim_func(private=True)
    def func(A: T.Buffer((4, 4), "int32")):
        for i, j in T.grid(4, 4):
            A[i, j] = i if i < j else j

    assert "A[i, j] = T.if_then_else(i < j, i, j)" in func.script()


def test_module_in_function() -> None:
    n = 16

    @I.ir_module
    class Module:
        @T.prim_func
        def double(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
            for i in range(n):
                with T.block("B"):
                    v = T.axis.spatial(n, i)
                    B[v] = A[v] * T.float32(2)

        @R.function
        def main(x: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            cls = Module
            y = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((n,), "float32"))
            return y

    assert isinstance(Module, ir.IRModule)
    check(Module)


def test_decorators_by_their_long_names() -> None:
    @ir.script.ir_module
    class Module:
        @T.prim_func
        def func(A: T.Buffer((4,), "float32")):
            T.evaluate(0)

    assert isinstance(Module["func"], tir.PrimFunc)


class TestInPlainClass:
    """A class that is no module: functions in it are read one by one."""

    @T.prim_func
    def before(A: T.Buffer((4,), "float32")):
        A[0] = T.float32(1)

    def test_it_is_a_function(self) -> None:
        assert isinstance(TestInPlainClass.before, tir.PrimFunc)


def test_text_with_extra_names() -> None:
    text = "@T.prim_func\ndef f(A: T.Buffer((n,), 'float32')):\n    A[0] = value"
    func = from_source(text, {"n": 4, "value": 3.0})
    assert "A[0] = T.float32(3)" in func.script()


def test_text_with_imports_and_several_definitions() -> None:
    text = """
# from ir.script import tir as T
from ir.script import tir as T

@T.prim_func
def first(A: T.Buffer((4,), "float32")):
    T.evaluate(0)

@T.prim_func
def second(A: T.Buffer((8,), "float32")):
    T.evaluate(1)
"""
    assert from_source(text).attrs["global_symbol"] == "second"


def test_bare_statements_and_expressions() -> None:
    assert repr(from_source("x = T.int32()\nx * 2 + 1")) == "x * 2 + 1"
    loop = from_source("A = T.Buffer((4,))\nfor i in range(4):\n    A[i] = 0")
    assert isinstance(loop, tir.For)
    ir.assert_structural_equal(loop, from_source(loop.script()), map_free_vars=True)


def test_macros() -> None:
    x_value = 2

    @T.macro(hygienic=True)
    def hygienic(A, B):
        B[()] = A[x_value]

    @T.macro(hygienic=False)
    def dynamic(A, B):
        B[()] = A[x_value]

    @T.prim_func(private=True)
    def static(A: T.Buffer((8,), "int32"), B: T.Buffer((), "int32")):
        for x_value in T.serial(8):
            hygienic(A, B)

    @T.prim_func(private=True)
    def moving(A: T.Buffer((8,), "int32"), B: T.Buffer((), "int32")):
        for x_value in T.serial(8):
            dynamic(A, B=B)

    assert "B[()] = A[2]" in static.script()
    assert "B[()] = A[x_value]" in moving.script()


def test_macro_with_control_flow_defaults_and_methods() -> None:
    class Holder:
        def __init__(self, value: int) -> None:
            self.value = value

        @T.macro
        def store(self, A, index, twice=False):
            A[index] = self.value
            if twice:
                A[index] = self.value * 2

    holder = Holder(5)

    @T.prim_func(private=True)
    def func(A: T.Buffer((8,), "int32")):
        for i in range(8):
            holder.store(A, i)
            holder.store(A, i, twice=True)

    text = func.script()
    assert text.count("A[i] = 5") == 2
    assert text.count("A[i] = 10") == 1


def test_macro_outside_of_scripts_and_with_wrong_arguments() -> None:
    @T.macro
    def one(A):
        T.evaluate(A[0])

    with pytest.raises(ir.IRError, match="can be called from a script only"):
        one(1)
    with pytest.raises(ir.DiagnosticError, match="macro 'one' takes 1 arguments, got 2"):

        @T.prim_func
        def f(A: T.Buffer((4,), "int32")):
            one(A, A)


def test_meta_var_binds_python_values() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "int32")):
        x = T.meta_var(3)
        A[0] = x
        y = 3
        A[1] = y

    text = func.script()
    assert "A[0] = 3" in text
    assert "y: T.int32 = 3" in text


def test_private_functions_have_no_symbol() -> None:
    with pytest.raises(ir.DiagnosticError, match="is private, but sets global_symbol"):

        @T.prim_func(private=True)
        def f():
            T.func_attr({"global_symbol": "f"})
            T.evaluate(0)


def test_values_outside_of_scripts() -> None:
    assert T.int64(3).dtype == "int64"
    assert T.float32("inf").value == float("inf")
    assert T.int32().dtype == "int32"
    assert T.handle("float32", "shared").type_annotation == ir.PointerType(ir.PrimType("float32"), "shared")
    assert T.Buffer((128, 128), "float16").dtype == "float16"
    assert T.exp(T.float32()).op.name == "tir.exp"
    assert repr(R.Tensor((2, 3), "float32")) == 'R.Tensor((2, 3), dtype="float32")'
    assert R.const(1).data.dtype.name == "int32"


def test_show_prints(capsys: pytest.CaptureFixture[str]) -> None:
    func = from_source("@T.prim_func\ndef f():\n    T.evaluate(0)")
    func.show(black_format=False)
    assert "T.evaluate(0)" in capsys.readouterr().out
    with pytest.raises(ir.IRTypeError, match="show prints plain text"):
        func.show(style="dark")


def test_metadata_is_carried_by_the_text() -> None:
    import numpy as np

    value = np.arange(24, dtype="float32").reshape(4, 6)
    func = from_source(
        "@R.function\ndef main(x: R.Tensor((4, 6), 'float32')):\n    y = R.add(x, weights)\n    return y",
        {"weights": R.const(value)},
    )
    text = func.script(show_meta=True)
    assert 'metadata["relax.expr.Constant"][0]' in text
    again = from_source(text)
    ir.assert_structural_equal(func, again)
    short = func.script()
    assert "# Metadata omitted. Use show_meta=True" in short


def test_namespaces_by_the_parsers_name() -> None:
    from ir.script import parser

    assert parser.tir is T and parser.relax is R and parser.ir is I


def test_decorator_with_options_on_several_lines() -> None:
    @I.ir_module(
        check_well_formed=False,
    )
    class Module:
        @T.prim_func(
            private=True,
        )
        def func(A: T.Buffer((4,), "float32")):
            T.evaluate(0)

    assert "global_symbol" not in Module["func"].attrs


def test_relax_macros_return_values() -> None:
    @R.macro
    def scaled(x, factor):
        doubled = R.multiply(x, R.const(factor, "float32"))
        return R.add(doubled, x)

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y = scaled(x, 3)
        z = scaled(y, factor=4)
        return z

    text = check(main)
    assert text.count("R.multiply") == 2
    assert 'R.const(4.0, "float32")' in text


def test_printing_needs_no_parser() -> None:
    program = (
        "import sys, ir; from ir.script import printer; printer.script(ir.tir.const(1));"
        "print([name for name in sys.modules if name.startswith('ir.script.parser')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_frame_that_is_entered_by_assignment_ends_with_the_text() -> None:
    found = from_source("tx = T.launch_thread('threadIdx.x', 4)\nT.evaluate(tx)")
    assert isinstance(found, tir.AttrStmt) and found.attr_key == "thread_extent"
    assert isinstance(found.body, tir.Evaluate) and found.body.value is found.node.var


@pytest.mark.parametrize(("condition", "expected"), [
    ("A[0] in (1, 2)", "A[0] == 1 or A[0] == 2"),
    ("A[0] not in [5, A[1]]", "A[0] != 5 and A[0] != A[1]"),
    ("1 in (A[0], A[1])", "1 == A[0] or 1 == A[1]"),
    ("A[0] in {3}", "A[0] == 3"),
    ("any([A[0] == 1, A[1] == 7])", "A[0] == 1 or A[1] == 7"),
    ("all([A[0] == 1, A[1]])", "A[0] == 1 and A[1]"),
    ("all(A[i] > 0 for i in [0, 1])", "A[0] > 0 and A[1] > 0"),
    ("any([1 > 2, A[0] == 1])", "A[0] == 1"),
    ("bool(A[0] == 1)", "A[0] == 1"),
    ("bool(A[0])", "A[0]"),
])  # fmt: skip
def test_what_decides_in_python_is_a_condition_of_the_program(condition: str, expected: str) -> None:
    written, meant = (
        from_source(
            f'@T.prim_func\ndef main(A: T.Buffer((2,), "int32")):\n    if {item}:\n        A[0] = 9\n'
        )
        for item in (condition, expected)
    )
    ir.assert_structural_equal(written, meant)


@pytest.mark.parametrize(("condition", "message"), [
    ("A[0] in range(3)", "in looks for an expression in a list of values, got a range; compare instead, as in 0 <= x and x < n"),
    ("A[0] is 1", r"is compares Python objects, and A\[0\] is an expression of the program; compare values with =="),
    ("True is not (A[0] == 1)", r"is not compares Python objects, and A\[0\] == 1 is an expression of the program; compare values with !="),
    ("sum([A[i] for i in [0, 1] if A[i] == 1]) > 0", "the condition of a comprehension must be known while the program is read"),
])  # fmt: skip
def test_what_cannot_be_a_condition_is_refused(condition: str, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message):
        from_source(
            f'@T.prim_func\ndef main(A: T.Buffer((2,), "int32")):\n    if {condition}:\n        A[0] = 9\n'
        )


def test_what_python_knows_is_decided_while_the_program_is_read() -> None:
    program = from_source("""
@T.prim_func
def main(A: T.Buffer((2,), "int32")):
    if 3 in (1, 3) and any([True, 1 > 2]) and bool(1) and "a" not in ("b",) and A[0] is not None and None is None:
        A[0] = 9
""")
    assert "if" not in program.script()


_HIDING = [
    "x = 0\nfor i in range(4):\n    x = x + i\nA[0] = x",
    "x = 0\nfor i in range(4):\n    x += i\nA[0] = x",
    "x = A[0]\nif A[1] > 0:\n    x = A[1]\nA[0] = x",
    "x = A[0]\nif A[1] > 0:\n    A[0] = x\nelse:\n    x: T.int32 = A[1]",
    "i: T.int32 = 0\nwhile A[i] < 9:\n    i = i + 1",
    "for i in range(2):\n    for j in range(2):\n        i = j\n        A[i] = 1",
    "x = 0\nwith T.block('B'):\n    x = 1\n    A[0] = x",
    "x = 1\nfor i in range(4):\n    x, y = 1, 2\n    A[0] = x",
]


@pytest.mark.meaning("data-let")
@pytest.mark.parametrize("body", _HIDING)
def test_an_inner_scope_does_not_hide_a_variable(body: str) -> None:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    message = r"variable [ix] is defined around this scope already, and is not changed here; .* store to a buffer of one element"
    with pytest.raises(DiagnosticError, match=message):
        from_source(f'@T.prim_func\ndef main(A: T.Buffer((2,), "int32")):\n{lines}')


@pytest.mark.meaning("data-let")
@pytest.mark.parametrize("second", ["x = 2", "x += 2", "x: T.int32 = 2"])
def test_a_scope_does_not_define_a_variable_twice(second: str) -> None:
    with pytest.raises(
        DiagnosticError, match="variable x is defined in this scope already; .* choose another name"
    ):
        from_source(
            f'@T.prim_func\ndef main(A: T.Buffer((2,), "int32")):\n    x = A[0]\n    {second}\n    A[0] = x\n'
        )


@pytest.mark.meaning("data-let")
def test_scopes_side_by_side_may_use_one_name() -> None:
    check(
        from_source("""
@T.prim_func
def main(A: T.Buffer((2,), "int32")):
    for i in range(2):
        x = A[i]
        A[i] = x + 1
    for i in range(2):
        if A[i] > 1:
            x = A[i]
            A[i] = x + 2
        else:
            x = 3
            A[i] = x
    x = A[0]
    for i in range(2):
        with T.block("B"):
            vi = T.axis.spatial(2, i)
            A[vi] = x
""")
    )
