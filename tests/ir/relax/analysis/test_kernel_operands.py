"""What kernels of call_tir declare of their operands reaches them, or is compared: extents, strides and offsets."""

from __future__ import annotations

import numpy as np
import pytest

import runners
from ir import IRModule, relax
from ir.error import IRError
from ir.relax.analysis import WellFormedError, check_well_formed
from ir.relax.testing import evaluate
from ir.script import from_source

X = np.arange(24, dtype="float32").reshape(4, 6)

_PROGRAM = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def kernel(a: T.handle, b: T.handle):
        m, n, k, s0, s1, t0, off = (T.int64(), T.int64(), T.int64(), T.int64(), T.int64(), T.int64(), T.int64())
        A = T.match_buffer(a, {given}, "float32", {more})
        B = T.match_buffer(b, {made}, "float32", {out})
        for i, j in T.grid({loops}):
            with T.block("c"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    @R.function
    def main(x: R.Tensor({shape}, "float32")):
        {symbols}
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.kernel, (x,), out_sinfo=R.Tensor({result}, "float32"))
            R.output(y)
        return y
"""
STATIC = {"shape": "(4, 6)", "result": "(4, 6)", "symbols": ""}
ROW = {"shape": "(1, 6)", "result": "(1, 6)", "symbols": ""}
GROWN = {"shape": '("p", "p + 1")', "result": "(p, p + 1)", "symbols": "p = T.int64()"}
SYMBOLIC = {"shape": '("p", "q")', "result": "(p, q)", "symbols": "p, q = T.int64(), T.int64()"}
FORMS = {"static": STATIC, "symbolic": SYMBOLIC}
OTHERS = {"row": ROW, "grown": GROWN}


def program(
    form: str, given: str = "(m, n)", more: str = "", made: str = "(m, n)", out: str = ""
) -> IRModule:
    loops = made.strip("()")
    text = _PROGRAM.format(**(FORMS | OTHERS)[form], given=given, more=more, made=made, out=out, loops=loops)
    mod = from_source(text, check_well_formed=False)
    assert isinstance(mod, IRModule)
    return mod


def run(mod: IRModule) -> np.ndarray:
    return runners.VirtualMachine(relax.build(mod, "llvm"), runners.cpu())["main"](X).numpy()  # type: ignore[no-any-return]


RIGHT = [
    {"more": "strides=[s0, s1]"},
    {"more": "strides=[s0, 1]", "out": "strides=[t0, s1]"},
    {"given": "(4, 6)", "made": "(4, 6)", "more": "strides=[s0, s1]", "out": "strides=[t0, 1]"},
    {"more": "elem_offset=off"},
    {"more": "elem_offset=off, strides=[s0, s1]", "out": "elem_offset=off"},
    {"given": "(4, 6)", "made": "(4, 6)", "more": "strides=[6, 1], elem_offset=0"},
    {"more": "strides=[n, 1]"},
    {"given": "(m, k)", "more": "strides=[n, 1]"},
]


@pytest.mark.meaning("relax-call-tir")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("declared", RIGHT, ids=str)
def test_strides_and_offsets_reach_the_kernel(form: str, declared: dict[str, str]) -> None:
    mod = program(form, **declared)
    check_well_formed(mod)
    np.testing.assert_array_equal(evaluate(mod, X), X + 1)
    np.testing.assert_array_equal(run(mod), X + 1)


WRONG = [
    ({"given": "(4, 6)", "made": "(4, 6)", "more": "strides=[8, 1]"}, "a stride of 8 along axis 0"),
    ({"given": "(4, 6)", "made": "(4, 6)", "out": "strides=[1, 4]"}, "a stride of 1 along axis 0"),
    ({"more": "strides=[m, 1]"}, "a stride of 4 along axis 0"),
    ({"given": "(5, 6)", "made": "(4, 6)"}, "an extent of 5 along axis 0"),
    ({"given": "(m, m)", "made": "(4, 6)"}, "an extent of 4 along axis 1"),
    ({"given": "(m, n * 2)"}, "an extent of 12 along axis 1"),
    ({"given": "(m, s0)", "more": "strides=[s0, s0]"}, "a stride of 6 along axis 1"),
]


@pytest.mark.meaning("relax-call-tir")
@pytest.mark.parametrize(("declared", "message"), WRONG, ids=str)
def test_what_does_not_fit_is_refused_before_anything_runs(declared: dict[str, str], message: str) -> None:
    mod = program("static", **declared)
    with pytest.raises(WellFormedError, match=message):
        check_well_formed(mod)
    with pytest.raises(IRError, match="kernel"):
        run(mod)


@pytest.mark.meaning("relax-call-tir")
@pytest.mark.parametrize(("declared", "message"), WRONG, ids=str)
def test_what_only_a_run_can_tell_is_compared_there(declared: dict[str, str], message: str) -> None:
    mod = program("symbolic", **declared)
    check_well_formed(mod)
    with pytest.raises(runners.RunnerError, match="operands_of_kernel"):
        run(mod)


@pytest.mark.meaning("relax-call-tir")
@pytest.mark.parametrize("form", FORMS)
def test_no_tensor_begins_behind_its_first_element(form: str) -> None:
    with pytest.raises(WellFormedError, match="an offset of 8"):
        check_well_formed(program(form, more="elem_offset=8"))


def test_extents_that_surely_differ_are_refused_without_numbers() -> None:
    """The kernel wants one extent twice and is given p and p + 1."""
    with pytest.raises(WellFormedError, match="along axis 1"):
        check_well_formed(program("grown", given="(m, m)", made="(m, m)"))


@pytest.mark.meaning("relax-call-tir")
def test_strides_of_no_elements_do_not_matter() -> None:
    """A tensor of two rows without columns fits a buffer whose rows lie eight elements apart."""
    mod = from_source("""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def kernel(a: T.handle, B: T.Buffer((4,), "float32")):
        n = T.int64()
        A = T.match_buffer(a, (2, n), "float32", strides=[8, 1])
        for i in range(4):
            B[i] = T.Cast("float32", n)

    @R.function
    def main(x: R.Tensor((2, 0), "float32")):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.kernel, (x,), out_sinfo=R.Tensor((4,), "float32"))
            R.output(y)
        return y
""")
    check_well_formed(mod)
    with pytest.raises(WellFormedError, match="a stride of 8"):
        check_well_formed(from_source(mod.script().replace("(2, 0)", "(2, 3)"), check_well_formed=False))


def test_the_stride_along_an_axis_of_one_element_does_not_matter() -> None:
    given = X[:1].copy()
    mod = program("row", given="(1, 6)", made="(1, 6)", more="strides=[100, 1]")
    check_well_formed(mod)
    found = runners.VirtualMachine(relax.build(mod, "llvm"), runners.cpu())["main"](given).numpy()
    np.testing.assert_array_equal(found, given + 1)
