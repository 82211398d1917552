"""Errors in scripts: what was found, what was expected, and the line with the place marked."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import ir
from ir.script import from_source
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from ir.tir.interpreter import run

ARRAY = np.zeros((2, 3), "float32")


def message_of(text: str) -> str:
    with pytest.raises(ir.DiagnosticError) as caught:
        from_source(textwrap.dedent(text), {"ARRAY": ARRAY})
    return str(caught.value)


def in_prim_func(body: str) -> str:
    return message_of(
        f"@T.prim_func\ndef f(A: T.Buffer((16, 16), 'float32'), n: T.int32):\n{textwrap.indent(body, '    ')}\n"
    )


def in_relax(body: str) -> str:
    return message_of(
        f"@R.function\ndef f(x: R.Tensor((2, 3), 'float32')):\n{textwrap.indent(body, '    ')}\n"
    )


def test_the_place_is_marked() -> None:
    message = in_prim_func("for i in range(4):\n    A[i, 0] = A[i, j] + 1.0")
    lines = message.split("\n")
    assert lines[0] == "error: name 'j' is not defined"
    assert lines[1].strip() == "--> <string>:4:24"
    assert lines[3].endswith("A[i, 0] = A[i, j] + 1.0")
    assert lines[4].index("^") == lines[3].index("j]")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("A[0, 0] = T.exq(A[0, 0])", "the namespace T has no 'exq'; did you mean T.exp?"),
        ("A[0] = 1.0", "buffer A has 2 dimensions, got 1 indices: A[0]"),
        (
            "for i in T.grid(4, 4, 4):\n    A[i] = 1.0",
            "buffer A has 2 dimensions, got 3 indices: A[i_0, i_1, i_2]",
        ),
        ("A[0, 0] = A + 1.0", "buffer A is no value; read an element, as in A[i]"),
        ("for i in 5:\n    pass", "expected a loop such as range"),
        ("for i, j in range(5):\n    pass", "expected one loop variable, got 2"),
        ("for i in range(0, 8, 2):\n    pass", "range with a step is not supported"),
        ("for i in range(1.5):\n    pass", "a loop's bound must be an integer, got float32"),
        ("with n:\n    pass", "expected a scope such as T.block"),
        ("T.where(n > 0)", "T.where must be inside a block"),
        ("T.axis.spatial(16, n)", "T.axis must be inside a block"),
        (
            "for i in range(4):\n    break",
            "Break statements are not supported in a prim_func; say in a condition when the loop ends",
        ),
        ("for i in range(4):\n    continue", "in a prim_func; guard the rest of the body with if"),
        ("x = n\ndel x", "in a prim_func; a name ends with its scope"),
        (
            "for i in range(4):\n    with T.block('b'):\n        v = T.axis.spatial(i, 4)\n        A[v, 0] = 1.0",
            "an axis takes its extent, then its value, got the loop variable i as extent; write T.axis.spatial(4, i)",
        ),
        ("A[A[0, 0], 0] = 1.0", 'has dtype float32, expected integers; cast it, as in T.Cast("int32", ...)'),
        ("A[0, 0] = n / 2", "truncdiv or indexdiv (of T in script, of tir else)"),
        ("with T.init():\n    pass", "T.init() must stand directly in a block"),
        (
            "with T.block('b'):\n    v = T.axis.remap('S', [n])\n    T.evaluate(v)",
            "n is not the variable of a loop around the block",
        ),
        (
            "for i in range(4):\n    with T.block('b'):\n        v = T.axis.remap('SS', [i])",
            "2 kinds in 'SS', but 1 bindings",
        ),
        ("B = T.match_buffer(n + 1, (16,))", "T.match_buffer of a region must be inside a block"),
        (
            "for i in range(4):\n    pass\nA[i, 0] = 1.0",
            "name 'i' is not defined here; it is bound in a loop, a block or a branch",
        ),
        ("p = T.handle('float32')\nA[0, 0] = p[0]", 'as in B = T.match_buffer(p, (16,), "float32")'),
        ("A[0, 0] = n[0]", "expected a buffer to read, got the int32 variable n"),
        ("n[0] = 1", "expected a buffer to store to, got the int32 variable n"),
        (
            "p = T.handle('float32')\np[0] = 1",
            'as in B = T.match_buffer(p, (16,), "float32")',
        ),
        (
            "with T.block:\n    pass",
            "expected a scope, got the function T.block; call it, as in T.block(...)",
        ),
        (
            "for i in range(4):\n    with T.block('b'):\n        v = T.axis.spacial(4, i)",
            "T.axis has no 'spacial'; did you mean 'spatial'?",
        ),
        ("T.print(A[0, 0])", 'as in T.call_packed("name", ...)'),
        ("return A", "a prim_func returns a number or nothing, got buffer A"),
        ("import math", "Import statements are not supported in a prim_func; import at the top of the file"),
        (
            "A[0, 0] = A[0, 0] + ARRAY",
            "an array of numpy of shape (2, 3) is no number; take an element of it",
        ),
        ("a = b = n", "assign to one target at a time"),
        ("T.evaluate(1 / n)", "/ on integers is ambiguous"),
        ("x: T.int64 = n", "x is declared int64, but its value is int32"),
        ("try:\n    pass\nexcept ValueError:\n    pass", "Try statements are not supported in a prim_func"),
        ("def g():\n    pass", "functions inside a prim_func must be macros"),
        ("A", "a Buffer is no statement"),
        ("if A[0, 0]:\n    pass", "the condition of if must be bool, got float32"),
        ("B = T.alloc_buffer((-3,), 'int32')\nB[0] = 1", "extent 0 of the buffer is -3; expected an integer"),
        ("B = T.alloc_buffer((3.5,), 'int32')\nB[0] = 1", "extent 0 of the buffer is 3.5, of dtype float32"),
        ("assert A[0, 0], 'A'", "the condition of assert must be bool, got float32; compare it"),
        (
            "with T.block('b'):\n    T.reads(A[0, 0])\n    T.reads(A[0, 0])\n    T.writes()",
            "block 'b' has two T.reads",
        ),
        (
            "with T.block('b', exec_scope='warp'):\n    T.evaluate(0)",
            "there are no execution scopes, got exec_scope='warp'",
        ),
        (
            "for i in range(4):\n    with T.block('b'):\n        v = T.axis.remap('S', [i], dtype='int64')",
            "is int32, its axis cannot be int64",
        ),
        ("p = T.handle('float32', is_size_var=True)", "a pointer is no size"),
        ("p = T.ptr('float32', is_size_var=True)", "a pointer is no size"),
    ],
    ids=lambda value: value.split("\n")[-1].strip()[:40],
)
def test_prim_func(body: str, expected: str) -> None:
    message = in_prim_func(body)
    assert expected in message
    assert "^" in message


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = R.add(x, x)", "must end with a return statement"),
        ("return R.addd(x, x)", "there is no operator or function R.addd; did you mean R.add?"),
        ("return y", "name 'y' is not defined"),
        (
            "y: R.Tensor((4, 4), 'float32') = R.add(x, x)\n    return y".replace("    ", ""),
            "y is declared R.Tensor((4, 4)",
        ),
        ("with R.dataflow():\n    y = R.add(x, x)\n    R.output(z)\nreturn x", "name 'z' is not defined"),
        ("with R.dataflow():\n    return x", "return cannot stand inside a dataflow block"),
        ("if R.const(True, 'bool'):\n    y = x\nreturn x", "needs an else"),
        (
            "if R.const(True, 'bool'):\n    y = x\nelse:\n    z = x\nreturn x",
            "both branches must bind one name last",
        ),
        (
            "for i in range(4):\n    pass\nreturn x",
            "For statements are not supported in a Relax function; write its turns one by one",
        ),
        ("x += x\nreturn x", "AugAssign statements are not supported in a Relax function; write x = x + y"),
        (
            "with R.dataflow():\n    y = R.add(x, x)\nreturn y",
            "name 'y' is not defined here; it is bound in a dataflow block, whose last statement, R.output(y), gives it",
        ),
        ("y = R.const('a')\nreturn y", "relax.const: 'a' is no number and no array of numbers"),
        ("y = R.take(x, ARRAY, axis=0)\nreturn y", "write R.const(array)"),
        ("y = x.strct_info\nreturn y", "x has no 'strct_info'; did you mean 'struct_info"),
        ("a, b, c = (x, x)\nreturn x", "expected 3 values, got 2"),
        ("y = R.matmul(x, x)\nreturn y", "matmul"),
        ("y = R.emit(x, R.Tensor((4, 4), 'float32'))\nreturn y", "R.emit: annotate the assignment instead"),
    ],
    ids=lambda value: value.split("\n")[0][:40],
)
def test_relax(body: str, expected: str) -> None:
    message = in_relax(body)
    assert expected in message
    assert "^" in message


def test_signatures() -> None:
    assert "parameter 'a' needs an annotation, such as T.Buffer((16,), \"float32\")" in message_of(
        "@T.prim_func\ndef f(a):\n    pass"
    )
    assert "expected T.Buffer(shape, dtype), T.handle, or a dtype" in message_of(
        "@T.prim_func\ndef f(a: 3):\n    pass"
    )
    assert "parameter 'x' needs an annotation" in message_of("@R.function\ndef f(x):\n    return x")
    assert "takes positional parameters only" in message_of("@T.prim_func\ndef f(*a):\n    pass")
    assert "is declared to return" in message_of(
        "@R.function\ndef f(x: R.Tensor((2,), 'float32')) -> R.Tensor((3,), 'float32'):\n    return x"
    )


def test_modules() -> None:
    assert "needs the decorator T.prim_func or R.function" in message_of(
        "@I.ir_module\nclass M:\n    def f():\n        pass"
    )
    twice = "@I.ir_module\nclass M:\n    @T.prim_func\n    def f():\n        pass\n    @T.prim_func\n    def f():\n        pass"
    assert "module M has two functions 'f'" in message_of(twice)
    missing = """
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return M.other(x)
    """
    assert "module M has no function 'other'; it has: main" in message_of(missing)


@pytest.mark.parametrize(
    ("body", "rule", "marked"),
    [
        ("A[0, 0] = 1.0\nA[1.5, 0] = 2.0", "index dtype", "A[1.5, 0] = 2.0"),
        (
            "for i in range(4):\n    with T.block('b'):\n        v = T.axis.spatial(16, i)\n        A[v, i] = 1.0",
            "block isolation",
            "A[v, i] = 1.0",
        ),
        (
            "A[0, 0] = 1.0\nfor i in range(4):\n    if A[i, 0] > 0.0:\n        A['i', 0] = 0.0",
            "index dtype",
            "A['i', 0] = 0.0",
        ),
    ],
)
def test_a_broken_rule_is_marked_at_its_statement(body: str, rule: str, marked: str) -> None:
    message = in_prim_func(body)
    assert f"is not well-formed ({rule})" in message
    assert marked in _marked_line(message)


def _marked_line(message: str) -> str:
    lines = message.split("\n")
    assert lines[-1].strip(" |").startswith("^")
    return lines[-2]


def test_an_impure_call_is_marked_at_its_line() -> None:
    message = in_relax("y = R.add(x, x)\nR.print(y, format='{}')\nreturn y")
    assert "impure call in a function that claims to be pure" in message
    assert "R.print(y, format='{}')" in _marked_line(message)


def test_what_a_dataflow_block_bound_is_forgotten_in_the_next_function() -> None:
    message = message_of(
        """
@I.ir_module
class Module:
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            y = R.add(x, x)
            z = R.add(y, x)
            R.output(z)
        return z

    @R.function
    def g(x: R.Tensor((2,), "float32")):
        return y
"""
    )
    assert message.startswith("error: name 'y' is not defined\n")


def test_a_kernel_that_is_called_like_a_function_is_marked_and_told_of_call_tir() -> None:
    message = message_of(
        """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def k(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
        B[0] = A[1]

    @R.function
    def main(x: R.Tensor((2,), "float32")):
        y = Module.k(x)
        return y
"""
    )
    assert "k takes 2 arguments, its outputs among them, the call gives 1" in message
    assert "R.call_tir(k, (...), out_sinfo=...)" in message
    assert "y = Module.k(x)" in _marked_line(message)


def test_a_broken_rule_of_a_module_is_marked_at_its_statement() -> None:
    message = message_of(
        """
        @I.ir_module
        class M:
            @T.prim_func
            def k(A: T.Buffer((4,), "float32")):
                A[0] = 1.0

            @R.function
            def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                with R.dataflow():
                    y = R.add(x, x)
                    z = R.call_packed("f", y, sinfo_args=R.Tensor((4,), "float32"))
                    R.output(z)
                return z
        """
    )
    assert "impure call in a dataflow block" in message
    assert 'z = R.call_packed("f", y' in _marked_line(message)


@pytest.mark.parametrize(
    ("condition", "shown"), [("x", 'R.Tensor((2, 3), dtype="float32")'), ("R.sum(x)", 'dtype="float32"')]
)
def test_a_condition_that_is_no_bool_is_refused(condition: str, shown: str) -> None:
    message = in_relax(f"if {condition}:\n    y = x\nelse:\n    y = x\nreturn y")
    assert "the condition of if must be one bool, got" in message
    assert shown in message
    assert f"if {condition}:" in _marked_line(message)


@pytest.mark.parametrize("dialect", ["T.prim_func", "R.function"])
def test_two_parameters_of_one_name_are_refused(dialect: str) -> None:
    annotation = "T.int32" if dialect[0] == "T" else "R.Tensor((4,), 'float32')"
    message = message_of(f"@{dialect}\ndef f(a: {annotation}, a: {annotation}):\n    return a\n")
    assert "function 'f' has two parameters 'a'" in message


def test_an_argument_too_many_is_no_span() -> None:
    assert "is there an argument too many?" in in_prim_func("A[0, 0] = T.exp(A[0, 0], A[0, 1])")


def test_syntax_and_empty_text() -> None:
    assert "syntax error" in message_of("@T.prim_func\ndef f(:\n    pass")
    assert message_of("").startswith("<string>:1:1: the text contains no program")


def test_decorated_function_names_its_file() -> None:
    with pytest.raises(ir.DiagnosticError, match=r"test_diagnostics\.py:\d+:\d+") as caught:

        @T.prim_func
        def f(A: T.Buffer((4,), "float32")):
            A[0] = undefined_name

    assert "A[0] = undefined_name" in str(caught.value)


def test_errors_leave_the_parser_usable() -> None:
    assert "not defined" in in_prim_func("with T.block('b'):\n    T.evaluate(zzz)")
    func = from_source("@T.prim_func\ndef f(n: T.int32):\n    T.evaluate(n)")
    assert func.script().endswith("T.evaluate(n)")


def test_ill_formed_programs_are_refused_unless_told() -> None:
    text = """
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = i
        for j in range(4):
            A[j] = i
    """
    assert "name 'i' is not defined" in message_of(text)
    assert I is not None and R is not None


def test_script_only_names_outside_of_scripts() -> None:
    with pytest.raises(ir.IRError, match=r"R.func_attr can be used in a script only"):
        R.func_attr({"a": 1})
    with pytest.raises(ir.IRError, match="no builder is open"):
        T.reads()


def test_unknown_printer_option() -> None:
    func = from_source("@T.prim_func\ndef f(n: T.int32):\n    T.evaluate(n)")
    with pytest.raises(ir.IRTypeError, match="unknown option 'colour'"):
        func.script(colour=True)


@pytest.mark.parametrize("target", ["missing", "missing[0]"])
def test_what_is_added_to_must_be_known(target: str) -> None:
    with pytest.raises(ir.DiagnosticError, match=r"name 'missing' is not defined\n +--> <string>:4:9"):
        from_source(
            f"@T.prim_func\ndef f(B: T.Buffer((4,), 'float32')):\n    for i in range(4):\n        {target} += 1.0"
        )


def test_a_repeated_dtype_is_that_of_the_result() -> None:
    source = "@T.prim_func\ndef main(A: T.Buffer((4,), 'float32')):\n    A[0] = T.exp(A[1], dtype={!r})\n"
    assert "T.exp" in from_source(source.format("float32")).script()
    with pytest.raises(ir.DiagnosticError, match=r"exp: the result is float32, not dtype='float16'"):
        from_source(source.format("float16"))


@pytest.mark.parametrize(
    ("statement", "says", "place"),
    [
        ("print(i)", "print would run now, while the program is read", "print(i)"),
        ("print('a', 3)", "T.call_packed", "print('a', 3)"),
        (
            "print(f'{i}')",
            "i has no value while the program is read, which is when an f-string is made",
            "i}",
        ),
        ("assert i < 8, f'bad {i + 1}'", "i + 1 has no value", "i + 1"),
        ("assert i < 8, i", "the message of an assert is a text in quotes, got i", "i"),
    ],
)
def test_what_would_be_said_while_the_program_is_read(statement: str, says: str, place: str) -> None:
    message = in_prim_func(f"for i in range(4):\n    {statement}")
    lines = message.split("\n")
    assert says in lines[0]
    assert lines[4].index("^") == lines[3].rindex(place)


def test_print_in_a_relax_function() -> None:
    assert "R.call_packed" in in_relax("print(x)\nreturn x")


def test_a_text_of_what_is_known_is_formatted() -> None:
    assert (
        'T.block("step_3")'
        in from_source(
            "@T.prim_func\ndef f(A: T.Buffer((4,), 'float32')):\n    for i in range(4):\n        with T.block(f'step_{1 + 2}'):\n"
            "            A[i] = T.float32(0)"
        ).script()
    )


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        ("int8", 300),
        ("int8", -129),
        ("uint8", -1),
        ("int32", 2**31),
        ("int64", 2**63),
        ("int4", 8),
        ("uint8", 1e3),
    ],
)
def test_a_constant_that_its_dtype_does_not_hold(dtype: str, number: float) -> None:
    message = in_prim_func(f"A[0, 0] = T.float32(T.{dtype}({number}))")
    assert f"T.{dtype}: {number} does not fit; it holds the numbers from " in message


def test_constants_at_the_ends_of_their_dtypes() -> None:
    assert (T.int8(-128).value, T.uint8(255).value, T.uint64(2**64 - 1).value) == (-128, 255, 2**64 - 1)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "k = 3\nfor k in range(2):\n    A[k, 0] = 1.0\nA[k, 0] = 9.0",
            "k is a variable that a loop variable of this name",
        ),
        (
            "for i in range(2):\n    for i in range(4):\n        A[i, 0] = 1.0\n    A[i, 0] += 2.0",
            "i is a variable that",
        ),
        (
            "for i in range(2):\n    for j, i in T.grid(4, 4):\n        A[i, j] = 1.0\n    A[i, 0] = 1.0",
            "i is a variable",
        ),
        ("for n in range(2):\n    A[n, 0] = 1.0\nA[0, 0] = n", "give the loop variable another name"),
        (
            "while A[0, 0] < n:\n    for n in range(2):\n        A[n, 1] = 1.0\n    A[0, 0] += 1.0",
            "in an earlier turn of a loop around",
        ),
        (
            "for k in range(3):\n    A[k, 0] = n\n    if k > 0:\n        for n in range(2):\n            A[n, 1] = 1.0",
            "in an earlier turn of a loop around",
        ),
        (
            "A[0, 0] = [1, 5, 7].count(n)",
            "count of a list looks for an equal value while the program is read",
        ),
        ("A[0, 0] = [n, n + 1].count(2)", "count of a list looks for an equal value"),
        ("A[0, 0] = (1, 5).index(n)", "index of a tuple looks for an equal value"),
        ("A[0, 0] = {1: 5}.get(n, 7)", "get of a dict looks for an equal value"),
        ("A[0, 0] = len({A[1, 0], A[2, 0]})", "write a list"),
        ("A[0, 0] = len({A[k, 0] for k in [1, 2]})", "write a list"),
        (
            "if A[1, 0] == None:\n    A[0, 0] = 1.0",
            "A[1, 0] is a number when the program runs, and never None",
        ),
        ("if None != n:\n    A[0, 0] = 1.0", "n is a number when the program runs, and never None"),
        ("if n == 'a':\n    A[0, 0] = 1.0", "n, of dtype int32, is compared with 'a', a str"),
        ("if n == [1, 2]:\n    A[0, 0] = 1.0", "n, of dtype int32, is compared with [1, 2], a list"),
        ("if n == A:\n    A[0, 0] = 1.0", "n, of dtype int32, is compared with buffer A"),
        ("A[0, 0] == 1", "to store, write A[0, 0] = 1, to demand it, assert A[0, 0] == 1"),
        ("A[0, 0] + 1.0", "A[0, 0] + 1.0 is computed and nothing is done with it"),
        ("n", "n is computed and nothing is done with it"),
        ("x: T.int64 = n", 'convert the value, as in T.Cast("int64", ...), or declare it int32'),
    ],
)
def test_what_python_would_answer_silently_is_refused(body: str, expected: str) -> None:
    assert expected in in_prim_func(body)


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(4):\n    B = T.alloc_buffer((i + 1,))\n    B[i] = 1.0",
        "m = n * 2\nB = T.alloc_buffer((4, m))\nB[0, 0] = 1.0",
        'for i in range(4):\n    with T.block("b"):\n        m = n * 2\n        B = T.alloc_buffer((m,))\n        B[0] = 1.0',
    ],
)
def test_an_allocation_of_what_is_not_known_where_its_block_begins(body: str) -> None:
    """The error was that a variable is not defined, at the function's first loop."""
    message = in_prim_func(body)
    assert "T.decl_buffer allocates where it stands" in message
    assert "T.alloc_buffer(" in message.split("\n")[3], message


def test_an_allocation_where_it_stands_may_be_as_large_as_a_loop_says() -> None:
    func = from_source(
        "@T.prim_func\ndef f(A: T.Buffer((4,), 'int32')):\n    for i in range(4):\n"
        "        B = T.decl_buffer((i + 1,), 'int32')\n        B[i] = A[i] * 2\n        A[i] = B[i]\n"
    )
    a = np.arange(4, dtype="int32")
    run(func, a)
    assert a.tolist() == [0, 2, 4, 6]


def test_none_that_is_stored_is_marked() -> None:
    lines = in_prim_func("A[0, 0] = None").split("\n")
    assert lines[0] == "error: None is no value that an element can have; expected a number or an expression"
    assert lines[4].index("^") == lines[3].index("None")


def test_a_variable_that_is_hidden_and_not_used_behind_the_loop_is_no_error() -> None:
    func = from_source(
        "@T.prim_func\ndef f(A: T.Buffer((4,), 'int32'), n: T.int32):\n"
        "    A[0] = n\n    for n in range(2):\n        A[n + 1] = n\n    for n in range(2, 4):\n        A[n] = 7\n"
    )
    a = np.zeros(4, "int32")
    run(func, a, 5)
    assert a.tolist() == [5, 0, 7, 7]


def test_a_loop_may_be_repeated_by_one_whose_variable_it_hides() -> None:
    """Each turn of the outer loop has its variable anew, and what a turn computes is its own."""
    func = from_source(
        "@T.prim_func\ndef f(A: T.Buffer((4,), 'int32'), n: T.int32):\n"
        "    for i in range(4):\n        A[i] = i\n        m = A[i] + n\n        A[i] = m\n"
        "        for i in range(2):\n            A[i] = A[i] + 1\n        for m in range(1):\n            A[m] = A[m] + 10\n"
    )
    a = np.zeros(4, "int32")
    run(func, a, 100)
    assert a.tolist() == [100 + 4 * 11, 101 + 3, 102, 103]
