"""Calls between PrimFuncs that do not fit are refused: where they are read, where they are built, and by the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from ir import GlobalVar, IRModule, tir
from ir.error import DiagnosticError
from ir.script import from_source
from ir.tir.analysis import WellFormedError, verify_well_formed
from ir.tir.analysis.call_fit import result_dtype
from ir.tir.interpreter import InterpreterError, run
from ir.tir.lower import lower

_MODULE = """
@I.ir_module
class M:
    @T.prim_func(private=True)
    def fill(A: T.Buffer((3,), "int32"), x: T.int32):
        for i in range(3):
            A[i] = x
    @T.prim_func(private=True)
    def sized(a: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        A[0] = n
    @T.prim_func(private=True)
    def double(x: T.int32) -> T.int32:
        return x * 2
    @T.prim_func(private=True)
    def undeclared(x: T.int32):
        T.ret(x * 2)
    @T.prim_func
    def main(O: T.Buffer((3,), "int32"), P: T.Buffer((3,), "float32")):
        {statement}
"""

_MISFITS = {
    "M.fill(O.data)": r"main calls fill with 1 arguments, expected 2 \(A, x\); pass one for each parameter",
    "M.fill(O.data, 1, 2)": r"main calls fill with 3 arguments, expected 2 \(A, x\)",
    "M.fill(O.data, 1.5)": r'passes .*1\.5.*, which is float32, to fill for parameter x, which is int32; .*T\.Cast\("int32", \.\.\.\)',
    "M.fill(O.data, T.int64(1))": "which is int64, to fill for parameter x, which is int32; convert it",
    "M.fill(O, 1)": r"main passes buffer O to fill for parameter A, which is an address; write O\.data for its address",
    "M.fill(O[0], 1)": "which is int32, to fill for parameter A, which takes an address",
    "M.fill(P.data, 1)": "main passes P, an address of float32, to fill for parameter A, a buffer of int32",
    "O[0] = M.double(O)": "main passes buffer O to double for parameter x, which is of dtype int32",
    "O[0] = M.fill(O.data, 1)": "main uses the result of fill, which returns nothing; let fill store it to a buffer",
    "O[0] = M.undeclared(1)": r"undeclared returns int32 without saying so; declare it, as in def undeclared\(\.\.\.\) -> T\.int32",
    "O[0] = T.Call('int64', M.double, [1])": "main uses the result of double as int64, but double returns int32",
    "M.sized(O.data)": "main calls sized, where nothing says what n is, of which buffer A is declared: .*; make n a parameter of sized",
    "if M.double(1.0) > 2:\n            O[0] = 1": "which is float32, to double for parameter x",
}  # fmt: skip


@pytest.mark.meaning("call")
@pytest.mark.parametrize("statement", _MISFITS)
def test_calls_that_do_not_fit_are_refused(statement: str) -> None:
    expected = _MISFITS[statement]
    with pytest.raises(DiagnosticError, match=rf"(?s){expected}.*\|"):
        from_source(_MODULE.format(statement=statement))
    module = from_source(_MODULE.format(statement=statement), check_well_formed=False)
    assert isinstance(module, IRModule)
    with pytest.raises(WellFormedError, match=rf"(?s)\(call\): .*{expected}.*at:"):
        lower(module)
    assert not verify_well_formed(module, assert_mode=False)
    with pytest.raises(InterpreterError, match=rf"(?s){expected}.*\[call\].*  at "):
        run(module, np.zeros(3, "int32"), np.zeros(3, "float32"))


@pytest.mark.parametrize("statement", [
    "M.fill(O.data, 1)", "M.fill(T.address_of(P[0]), 1)", "M.double(1)", "M.undeclared(1)", "O[0] = M.double(M.double(O[0]))",
])  # fmt: skip
def test_calls_that_fit_are_read(statement: str) -> None:
    lower(from_source(_MODULE.format(statement=statement)))  # type: ignore[arg-type]


def test_only_prim_funcs_are_called() -> None:
    source = """
@I.ir_module
class M:
    @R.function
    def graph(x: R.Tensor((3,), "float32")):
        return x
    @T.prim_func
    def main(O: T.Buffer((3,), "int32")):
        M.graph(O.data)
"""
    with pytest.raises(DiagnosticError, match="main calls graph, which is a Function; only PrimFuncs can be"):
        from_source(source)


def test_a_result_has_the_declared_dtype() -> None:
    source = "@T.prim_func\ndef main(x: T.int32) -> T.int32:\n    return T.float32(1)\n"
    with pytest.raises(
        DiagnosticError, match=r"\(result\).*dtype float32 is returned, where int32 is declared"
    ):
        from_source(source)
    both = "@T.prim_func\ndef main(x: T.int32):\n    if x > 0:\n        T.ret(1)\n    T.ret(T.int64(1))\n"
    with pytest.raises(DiagnosticError, match=r"dtype int64 is returned, where int32 .* returned elsewhere"):
        from_source(both)


@pytest.mark.meaning("call")
def test_a_function_that_ends_without_its_result() -> None:
    module = from_source("""
@I.ir_module
class M:
    @T.prim_func(private=True)
    def f(x: T.int32) -> T.int32:
        if x > 0:
            return x
    @T.prim_func
    def main(O: T.Buffer((1,), "int32")):
        O[0] = M.f(O[0])
""")
    assert isinstance(module, IRModule)
    run(module, np.ones(1, "int32"))
    with pytest.raises(InterpreterError, match=r"f ended without returning a int32.*\[call\]"):
        run(module, np.zeros(1, "int32"))


def test_calls_of_functions_of_another_module_are_left_alone() -> None:
    call = tir.Evaluate(tir.Call("void", GlobalVar("elsewhere"), (tir.const(1),)))
    assert verify_well_formed(IRModule({"main": tir.PrimFunc([], call)}))


def test_functions_are_found_by_name_as_where_they_are_called() -> None:
    func = from_source("@T.prim_func(private=True)\ndef f(x: T.int32):\n    T.evaluate(x)\n")
    call = tir.Evaluate(tir.Call("int32", GlobalVar("f"), (tir.const(1),)))
    with pytest.raises(
        WellFormedError, match='main calls f for a result of int32, but it returns nothing; .* "void"'
    ):
        lower(IRModule({"f": func, "main": tir.PrimFunc([], call)}))


def test_result_dtype() -> None:
    func = from_source("@T.prim_func\ndef main(x: T.int32):\n    T.ret(x > 1)\n")
    assert isinstance(func, tir.PrimFunc)
    assert result_dtype(func) == "bool"
    assert result_dtype(func.with_body(tir.Evaluate(tir.const(0)))) is None
