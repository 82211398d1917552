"""No well-formed call contradicts what it calls."""

from __future__ import annotations

from typing import Any

import pytest

from ir import IRModule, relax, tir
from ir.relax.analysis import check_well_formed, well_formed
from ir.relax.analysis.well_formed import WellFormedError
from ir.script import from_source
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T

op = relax.op


def info(*shape: Any, dtype: str = "float32") -> relax.TensorStructInfo:
    return relax.TensorStructInfo(shape, dtype)


@I.ir_module
class Callees:
    @T.prim_func(private=True)
    def scale(a: T.handle, b: T.handle, c: T.Buffer((4,), "float32")):
        n = T.int64()
        A, B = T.match_buffer(a, (n, 4), "float32"), T.match_buffer(b, (n * 2, 4), "float32")
        for i, j in T.grid(n * 2, 4):
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi // 2, vj] * c[vj]

    @T.prim_func(private=True)
    def clear(a: T.Buffer((4,), "float32"), k: T.int64):
        for i in range(4):
            with T.block("b"):
                vi = T.axis.remap("S", [i])
                a[vi] = T.Cast("float32", k)

    @R.function(private=True)
    def same(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        gv = R.add(x, y)
        return gv

    @R.function(private=True, pure=False)
    def loud(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        _ = R.print(x, format="{}")
        return x


def calling(params: list[Any], make: Any) -> IRModule:
    """``Callees`` with a function ``main`` whose one binding is a call; nothing infers or checks it."""
    mod = Callees.clone()
    variables = [relax.Var(f"p{number}", item) for number, item in enumerate(params)]
    call = make(mod.get_global_var, *variables)
    result = relax.Var("result", call.struct_info)
    seq = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(result, call)])], result, call.struct_info)
    mod["main"] = relax.Function(variables, seq, call.struct_info, False)
    return mod


def problem_of(mod: IRModule) -> str:
    with pytest.raises(WellFormedError) as caught:
        check_well_formed(mod)
    return str(caught.value)


VECTOR = info(4)


@pytest.mark.parametrize(
    "params, result, problem",
    [
        ([VECTOR, VECTOR], VECTOR, None),
        ([VECTOR, relax.TensorStructInfo(dtype="float32", ndim=1)], VECTOR, None),
        ([VECTOR, relax.ObjectStructInfo()], VECTOR, None),
        ([VECTOR], VECTOR, "same takes 2 arguments, the call gives 1"),
        ([VECTOR] * 3, VECTOR, "same takes 2 arguments, the call gives 3"),
        ([VECTOR, info(5)], VECTOR, "argument 1 of the call of same"),
        ([VECTOR, info(4, dtype="int32")], VECTOR, "argument 1 of the call of same"),
        ([VECTOR, info(4, 1)], VECTOR, "argument 1 of the call of same"),
        ([VECTOR, relax.TupleStructInfo([VECTOR])], VECTOR, "argument 1 of the call of same"),
        ([VECTOR, VECTOR], info(5), "same returns"),
        ([VECTOR, VECTOR], info(4, dtype="int32"), "same returns"),
    ],
    ids=str,
)
def test_functions(params: list[Any], result: Any, problem: str | None) -> None:
    mod = calling(params, lambda get, *args: relax.Call(get("same"), args, None, None, None, result))
    if problem is None:
        check_well_formed(mod)
    else:
        assert problem in problem_of(mod)


def kernel_call(name: str, n_inputs: int, out: Any, scalars: Any = None, **inplace: Any) -> Any:
    operator = "relax.call_tir_inplace" if inplace else "relax.call_tir"

    def make(get: Any, *args: Any) -> relax.Call:
        operands: list[Any] = [get(name), relax.Tuple(args[:n_inputs])]
        if scalars is not None:
            operands.append(relax.ShapeExpr(scalars))
        return relax.Call(operator, operands, inplace or None, [out], None, out)

    return make


@pytest.mark.parametrize(
    "params, make, problem",
    [
        ([info(3, 4)], kernel_call("scale", 1, [info(6, 4), VECTOR]), None),
        (
            [info(3, 4)],
            kernel_call("scale", 1, info(6, 4)),
            "takes 3 parameters, the call gives 1 arguments, 1 outputs",
        ),
        (
            [info(3, 4)],
            kernel_call("scale", 1, [info(6, 4), info(5)]),
            "the kernel takes an extent of 4 along axis 0",
        ),
        (
            [info(3, 4)],
            kernel_call("scale", 1, [info(5, 4), VECTOR]),
            "the kernel takes an extent of 6 along axis 0",
        ),
        (
            [info(3, 5)],
            kernel_call("scale", 1, [info(6, 4), VECTOR]),
            "the kernel takes an extent of 4 along axis 1",
        ),
        (
            [info(3)],
            kernel_call("scale", 1, [info(6, 4), VECTOR]),
            "the kernel takes a buffer of 2 dimensions",
        ),
        ([info(3, 4, dtype="int32")], kernel_call("scale", 1, [info(6, 4), VECTOR]), "a buffer of float32"),
        ([VECTOR], kernel_call("clear", 1, VECTOR, [2], inplace_indices=[0]), None),
        ([VECTOR], kernel_call("clear", 1, VECTOR, inplace_indices=[0]), "clear takes 2 parameters"),
        ([VECTOR], kernel_call("clear", 1, VECTOR, [2, 3], inplace_indices=[0]), "and 2 scalars"),
        ([VECTOR], kernel_call("clear", 1, info(2, 2), [2], inplace_indices=[0]), "in place of"),
        ([VECTOR, VECTOR], kernel_call("clear", 2, VECTOR, inplace_indices=[0]), "takes a number of int64"),
        ([VECTOR], kernel_call("same", 1, VECTOR), "same is no kernel"),
    ],
)
def test_kernels(params: list[Any], make: Any, problem: str | None) -> None:
    def as_info(out: Any) -> Any:
        return relax.TupleStructInfo(out) if isinstance(out, list) else out

    original = make

    def built(get: Any, *args: Any) -> relax.Call:
        call = original(get, *args)
        out = as_info(call.sinfo_args[0]) if call.sinfo_args else None
        return call.replace(sinfo_args=[out], struct_info_=out)

    mod = calling(params, built)
    if problem is None:
        check_well_formed(mod)
    else:
        assert problem in problem_of(mod)


@pytest.mark.parametrize("given", [1, 2, 4])
def test_a_direct_call_of_a_kernel_with_another_number_of_arguments(given: int) -> None:
    mod = calling(
        [VECTOR] * given, lambda get, *args: relax.Call(get("scale"), args, None, None, None, VECTOR)
    )
    assert f"scale takes 3 arguments, its outputs among them, the call gives {given}" in problem_of(mod)


def test_symbolic_extents_of_kernels() -> None:
    n = tir.Var("n", "int64")
    good = kernel_call("scale", 1, relax.TupleStructInfo([info(n * 2, 4), VECTOR]))
    assert well_formed(calling([info(n, 4)], good))


@pytest.mark.meaning("relax-call-tir")
def test_what_a_kernel_overwrites_is_named_by_its_call() -> None:
    """The caller's array would be overwritten by what counts as pure."""
    kernel = from_source(
        """@T.prim_func(private=True)
def bump(A: T.Buffer((4,), "float32"), W: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("b"):
            vi = T.axis.remap("S", [i])
            A[vi] = A[vi] + W[vi]
            B[vi] = A[vi]"""
    )
    both = relax.TupleStructInfo([VECTOR, VECTOR])
    problem = "bump writes A, argument 0 of the call; use call_tir_inplace"
    for call, expected in (
        (kernel_call("bump", 2, VECTOR), problem),
        (kernel_call("bump", 2, both, inplace_indices=[1, -1]), problem),
        (kernel_call("bump", 2, both, inplace_indices=[0, -1]), None),
    ):
        var = relax.GlobalVar("bump")
        mod = calling([VECTOR, VECTOR], lambda get, *args: call(lambda name: var, *args))
        mod[var] = kernel
        if expected is None:
            check_well_formed(mod)
        else:
            assert expected in problem_of(mod)


def test_references_that_are_stale() -> None:
    """A reference that still says what the function once was."""
    mod = calling([VECTOR], lambda get, x: relax.Call(get("loud"), (x,), None, None, None, VECTOR))
    check_well_formed(mod)
    loud = mod["loud"]
    pure = relax.FuncStructInfo([VECTOR], VECTOR, True)
    stale = relax.GlobalVar("loud", pure)
    functions = {var: func for var, func in mod.functions.items() if var.name_hint not in ("loud", "main")}
    x, y = relax.Var("x", VECTOR), relax.Var("y", VECTOR)
    call = relax.Call(stale, (x,), None, None, None, VECTOR)
    seq = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(y, call)])], y, VECTOR)
    main = relax.Function([x], seq, VECTOR, True)
    broken = IRModule({**functions, stale: loud, relax.GlobalVar("main", pure): main})
    assert "calls loud pure, the function is not" in problem_of(broken)


def test_impure_functions_are_no_pure_arguments() -> None:
    wanted = relax.FuncStructInfo([VECTOR], VECTOR, True)
    f, x = relax.Var("f", wanted), relax.Var("x", VECTOR)
    y, z = relax.Var("y", VECTOR), relax.Var("z", VECTOR)
    inner = relax.Call(f, (x,), None, None, None, VECTOR)
    body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(y, inner)])], y, VECTOR)
    apply = relax.Function([f, x], body, VECTOR, True)
    mod = Callees.clone()
    mod["apply"] = apply
    for name, fits in (("loud", False), ("same", False)):
        main_x = relax.Var("x", VECTOR)
        args = (mod.get_global_var(name), main_x)
        call = relax.Call(mod.get_global_var("apply"), args, None, None, None, VECTOR)
        seq = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(z, call)])], z, VECTOR)
        mod["main"] = relax.Function([main_x], seq, VECTOR, False)
        assert well_formed(mod) == fits


def test_what_a_function_declares_to_return() -> None:
    x = relax.Var("x", VECTOR)
    seq = relax.SeqExpr([], x, VECTOR)
    assert well_formed(IRModule({"main": relax.Function([x], seq, VECTOR)}))
    wrong = IRModule({"main": relax.Function([x], seq, info(5))})
    assert "declares to return" in problem_of(wrong)


@pytest.mark.meaning("relax-callee")
@pytest.mark.parametrize(
    "captured, params, problem",
    [
        (1, [VECTOR, VECTOR], None),
        (0, [VECTOR, VECTOR], None),
        (1, [VECTOR, info(5)], "argument 1 of the call of the closure of same"),
        (1, [VECTOR, info(4, dtype="int32")], "argument 1 of the call of the closure of same"),
        (1, [VECTOR], "takes 2 arguments, the call gives 1"),
        (1, [VECTOR] * 3, "takes 2 arguments, the call gives 3"),
        (2, [VECTOR, VECTOR], None),
    ],
    ids=str,
)
@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("renamed", [True, False])
def test_closures(captured: int, params: list[Any], problem: str | None, pure: bool, renamed: bool) -> None:
    mod = invoking("same", captured, params, VECTOR, pure, renamed)
    if problem is None:
        check_well_formed(mod)
    else:
        assert problem in problem_of(mod)


@pytest.mark.meaning("relax-callee")
def test_results_and_purity_of_closures() -> None:
    assert "same returns" in problem_of(invoking("same", 1, [VECTOR, VECTOR], info(5), True))
    check_well_formed(invoking("loud", 0, [VECTOR], VECTOR, False))
    assert "says that loud is pure" in problem_of(invoking("loud", 0, [VECTOR], VECTOR, True))


def invoking(
    name: str, captured: int, params: list[Any], result: Any, pure: bool, renamed: bool = False
) -> IRModule:
    """``Callees`` with a function ``main`` that makes a closure of the first parameters and invokes it on the others."""
    mod = Callees.clone()
    variables = [relax.Var(f"p{number}", item) for number, item in enumerate(params)]
    bb = relax.BlockBuilder(mod)
    with bb.function("main", variables, pure=False):
        closure = bb.emit(op.make_closure(mod.get_global_var(name), relax.Tuple(variables[:captured])))
        if renamed:
            closure = bb.emit(closure)
        invoke = op.invoke_pure_closure if pure else op.invoke_closure
        bb.emit_func_output(bb.emit(invoke(closure, relax.Tuple(variables[captured:]), result)))
    return bb.get()
