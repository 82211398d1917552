"""Random Relax modules: programs of a seed, what the oracle tells apart, and planted mistakes that are found, named and made small."""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from experiments.fuzz.children import judged_alone
from experiments.fuzz.kind import KINDS
from experiments.fuzz.passes.relax import ON_KERNELS, ON_OPERATORS, SameMeaning, pass_sequence
from experiments.fuzz.passes.step import judge_sequence
from experiments.fuzz.relax import effects
from experiments.fuzz.relax.arguments import argument
from experiments.fuzz.relax.blame import first_wrong_pass
from experiments.fuzz.relax.oracle import Meaning, evaluated, judge_native, judge_text, meaning
from experiments.fuzz.relax.program import Writer, relax_program
from experiments.fuzz.relax.reduce import reduced
from experiments.fuzz.relax.scope import FunctionScope, Scope
from experiments.fuzz.relax.structure import cast
from experiments.fuzz.verdict import Verdict
from ir import IRModule
from ir import relax as rx
from ir.op import Op
from ir.relax import PyExprMutator
from ir.relax import transform as T
from ir.relax.op import OPERATORS
from ir.relax.testing import EvaluationError
from ir.relax.testing.evaluate import Frame
from ir.script import from_source
from ir.transform import PassContext, module_pass

TARGET = "cpu"


def program(body: str, parameters: str = 'whole_0: R.Tensor((2, 3), "float32")', pure: bool = True) -> str:
    """The script of a module with one function."""
    lines = "\n".join(f"        {line}" for line in body.strip().splitlines())
    decorator = "@R.function" if pure else "@R.function(pure=False)"
    text = f"@I.ir_module\nclass Module:\n    {decorator}\n    def main({parameters}):\n{lines}\n"
    return from_source(text).script(show_meta=True)


def meant(text: str) -> Meaning:
    """What a program means; it must mean something."""
    found = meaning(text, 0)
    assert isinstance(found, Meaning), found
    return found


# -- programs ------------------------------------------------------------------------
def test_a_seed_is_a_module() -> None:
    texts = [relax_program(seed) for seed in range(12)]
    assert texts == [relax_program(seed) for seed in range(12)]
    assert len(set(texts)) == 12


def test_what_a_branch_calls_an_extent_is_no_name_behind_it() -> None:
    writer = Writer(Scope(0))
    scope = writer.scope
    with scope.writing(FunctionScope("main"), Frame()):
        scope.param("any_1", rx.TensorStructInfo((3, 4), "float32"))
        known = set(scope.function.symbols)
        with scope.nested():
            cast(writer)
            assert len(scope.function.symbols) == len(known) + 1
        assert set(scope.function.symbols) == known


def written(seed: int) -> str:
    """The module of a seed; nothing where the reference of an operator fails, which is a finding of campaigns."""
    try:
        return relax_program(seed)
    except ValueError:
        return ""


def test_modules_have_everything_that_relax_has() -> None:
    text = "".join(written(seed) for seed in range(150))
    wanted = [
        "R.dataflow()",
        "        if ",
        "cls.f",
        "match_cast",
        "R.call_tir_inplace",
        "R.call_inplace_packed",
    ]
    wanted += [
        "R.call_pure_packed",
        "R.call_dps_packed",
        effects.NOTE,
        effects.NEXT,
        "R.memory.view",
        "R.shape_of",
    ]
    wanted += ["T.int64()", "(0,", "R.function(private=True", "R.prim_value", "R.const(", "metadata["]
    wanted += [f'"{dtype}"' for dtype in ("float16", "bfloat16", "float64", "int8", "uint8", "int64", "bool")]
    assert [item for item in wanted if item not in text] == []


def test_every_operator_is_among_them() -> None:
    """Of the operators that the table of tests computes, only those that need devices are left out."""
    from experiments.fuzz.relax.declared import RUN
    from tests.ir.relax.op.cases import CASES

    assert {CASES[number].op for number in RUN} >= {item.op for item in CASES} - {
        "relax.to_vdevice",
        "relax.hint_on_device",
    }
    assert {item.op for item in CASES} <= set(OPERATORS)


@pytest.mark.parametrize(
    ("name", "least", "greatest"),
    [("any_1", -2, 2), ("positive_2", 0.5, 2), ("unit_3", -1, 1), ("index4_4", 0, 3)],
)
def test_a_parameter_s_name_says_what_it_holds(name: str, least: float, greatest: float) -> None:
    dtype = "int64" if name.startswith("index") else "float32"
    found = argument(name, rx.TensorStructInfo([50], dtype), 3)
    assert least <= found.min() < found.max() <= greatest
    np.testing.assert_array_equal(found, argument(name, rx.TensorStructInfo([50], dtype), 3))


# -- the oracle -------------------------------------------------------------------------
def test_small_integers_have_to_be_right_to_the_last_bit() -> None:
    exact = meant(program("a = R.add(whole_0, whole_0)\nreturn R.matmul(a, R.permute_dims(whole_0))"))
    assert all((bound == 0).all() for bound in exact.tolerances if bound is not None)
    rounded = meant(program("return R.exp(whole_0)"))
    assert rounded.tolerances[0] is not None and (rounded.tolerances[0] > 0).all()
    assert (rounded.tolerances[0] < 1e-3).all()


def test_what_depends_on_rounding_is_not_held_to_a_number() -> None:
    """The difference of a number and its cube root's cube is noise, and whether that is positive is anything."""
    text = program(
        """
a = R.exp(R.log(positive_0))
b = R.subtract(a, positive_0)
return (R.greater(b, R.const(0.0, "float32")), R.divide(b, b))
""",
        'positive_0: R.Tensor((40,), "float32")',
    )
    found = meant(text)
    assert found.tolerances[0] is not None and np.isinf(found.tolerances[0]).any()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("return R.add(whole_0, whole_0)", "return R.subtract(whole_0, whole_0)"),
        ("return R.exp(whole_0)", 'return R.add(R.exp(whole_0), R.const(0.001, "float32"))'),
        ("return R.nn.softmax(whole_0)", "return R.nn.softmax(whole_0, axis=0)"),
        ("return R.sum(whole_0)", "return R.sum(whole_0, axis=[0])"),
    ],
)
def test_other_numbers_are_wrong(right: str, wrong: str) -> None:
    found = meant(program(right))
    assert judge_native(found, TARGET) == Verdict("ok")
    other = Meaning(meant(program(wrong)).mod, found.given, found.expected, found.tolerances)
    assert judge_native(other, TARGET).kind == "wrong"


def noted(first: int, second: int) -> str:
    """A program that calls twice what sees its arguments."""
    call = f'R.call_packed("{effects.NOTE}", R.prim_value(LABEL), whole_0, sinfo_args=(R.Tuple,))'
    lines = [f"e{label} = {call.replace('LABEL', str(label))}" for label in (first, second)]
    return program("\n".join([*lines, "return whole_0"]), pure=False)


def test_the_order_of_effects_counts() -> None:
    found = meant(noted(1, 2))
    assert found.expected.labels == ["note 1", "note 2"]
    assert judge_native(found, TARGET) == Verdict("ok")
    swapped = Meaning(meant(noted(2, 1)).mod, found.given, found.expected, found.tolerances)
    assert "effects" in judge_native(swapped, TARGET).detail


def test_a_program_that_writes_to_its_arguments_is_invalid() -> None:
    call = f'R.call_inplace_packed("{effects.NEGATE}", whole_0, inplace_indices=[0], sinfo_args=(R.Tensor((2, 3), "float32"),))'
    assert meaning(program(f"return {call}"), 0) == Verdict("invalid", "it writes to its arguments")


# -- planted mistakes ----------------------------------------------------------------------
class Swapped(PyExprMutator):
    """Minima where there are maxima."""

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        return rx.op.minimum(*call.args) if getattr(call.op, "name", "") == "relax.maximum" else call


def swap(mod: IRModule) -> IRModule:
    """A module with minima where there were maxima."""
    found = {
        var: Swapped(mod).visit_expr(func) if isinstance(func, rx.Function) else func
        for var, func in mod.functions.items()
    }
    return IRModule(found)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """EliminateCommonSubexpr makes minima of maxima."""
    right = T.EliminateCommonSubexpr.run

    def wrong(self: Any, mod: IRModule, ctx: PassContext) -> IRModule:
        return swap(right(self, mod, ctx))

    monkeypatch.setattr(T.EliminateCommonSubexpr, "run", wrong)


HIDDEN = """
a = R.multiply(whole_0, whole_0)
b = R.maximum(a, any_1)
c = R.exp(any_1)
t = R.split(c, 3, axis=1)
if flag_2:
    d = R.add(b, c)
else:
    d = R.subtract(b, c)
e = R.sum(d, axis=[0])
return (e, t, R.permute_dims(d))
"""
PARAMETERS = (
    'whole_0: R.Tensor((2, 3), "float32"), any_1: R.Tensor((2, 3), "float32"), flag_2: R.Tensor((), "bool")'
)


def test_a_planted_mistake_is_found_named_and_made_small(planted: None) -> None:
    text = program(HIDDEN, PARAMETERS)

    def judge(text: str) -> Verdict:
        return judged_alone(lambda: judge_text(text, 0, [TARGET]))

    assert judge(text).kind == "wrong"
    assert first_wrong_pass(text, 0, TARGET) == "wrong after EliminateCommonSubexpr"
    small = reduced(text, lambda text: judge(text).kind == "wrong", seconds=60)
    assert judge(small).kind == "wrong"
    bindings = [line for line in small.splitlines() if " = R." in line]
    assert len(bindings) == 1 and "R.maximum" in bindings[0]
    assert "if " not in small and first_wrong_pass(small, 0, TARGET) == "wrong after EliminateCommonSubexpr"


def test_a_right_compiler_is_not_blamed() -> None:
    assert first_wrong_pass(program(HIDDEN, PARAMETERS), 0, TARGET) == ""


def judged(passes: Sequence[Any]) -> Verdict:
    found = meant(program(HIDDEN, PARAMETERS))
    return judge_sequence(found.mod, passes, SameMeaning(found))


def test_sequences_find_the_pass_that_is_wrong(planted: None) -> None:
    assert judged([T.Normalize(), T.FoldConstant()]) == Verdict("ok")
    verdict = judged([T.Normalize(), T.EliminateCommonSubexpr(), T.FoldConstant()])
    assert (verdict.kind, verdict.place) == ("wrong", "EliminateCommonSubexpr")
    assert "behind Normalize" in verdict.detail


def test_sequences_find_passes_that_raise_change_their_input_or_leave_nonsense() -> None:
    def raising(mod: IRModule, ctx: Any) -> IRModule:
        raise KeyError("planted")

    def nonsense(mod: IRModule, ctx: Any) -> IRModule:
        return IRModule({})

    for function, kind in ((raising, "crash KeyError"), (nonsense, "left what fails: IRValueError")):
        verdict = judged([module_pass(function, opt_level=0, name="Planted")])
        assert (verdict.kind, verdict.place[:7]) == (kind, "Planted"), verdict


def test_a_sequence_of_a_seed_is_the_same_always() -> None:
    found = meant(program(HIDDEN, PARAMETERS))

    def names(seed: int, alone: bool) -> list[str]:
        return [item.info.name for item in pass_sequence(seed, alone, found)]

    for alone in (True, False):
        assert [names(seed, alone) for seed in range(40)] == [names(seed, alone) for seed in range(40)]
    drawn = {name for seed in range(800) for name in names(seed, False)}
    generator = random.Random(0)
    assert {make(generator, found).info.name for make in (*ON_OPERATORS, *ON_KERNELS)} <= drawn


def test_arguments_that_a_pass_binds_are_followed() -> None:
    assert judged([T.BindParams("main", {"any_1": meant(program(HIDDEN, PARAMETERS)).given[1]})]) == Verdict(
        "ok"
    )
    wrong = np.zeros((2, 3), "float32")
    assert judged([T.BindParams("main", {"any_1": wrong})]).kind == "wrong"


@pytest.mark.parametrize("name", ["relax", "relax-passes"])
def test_options_of_a_kind_reach_its_programs(name: str) -> None:
    kind = KINDS[name]()
    command = argparse.ArgumentParser()
    kind.add_options(command)
    short, long = (kind.show(3, command.parse_args(["--size", size])) for size in ("2", "20"))
    assert len(short) < len(long)


def test_noise_is_another_in_every_run_and_none_on_integers() -> None:
    found = meant(program("return (R.exp(whole_0), R.add(whole_0, whole_0))"))
    first, second = (evaluated(found.mod, found.given, run).arrays for run in (1, 2))
    assert (first[0] != second[0]).any()
    np.testing.assert_array_equal(first[1], second[1])


def test_steps_of_noise_do_not_cancel() -> None:
    """A scalar behind two roundings must not seem exact: with steps of one size, half of all runs would leave it where it is."""
    text = program("return R.negative(any_0)", 'any_0: R.Tensor((), "float32")')
    found = meant(text)
    unmoved = sum(
        evaluated(found.mod, found.given, run).arrays[0] == found.expected.arrays[0] for run in range(60)
    )
    assert unmoved < 12


def test_interfaces_are_called_as_passes_promise() -> None:
    """Weights that are bundled in another order are found, and so is an output that nobody hands out."""
    from experiments.fuzz.passes.interfaces import SameThroughInterface, with_weights

    text = program(
        "a = R.subtract(any_0, any_1)\nreturn R.divide(a, positive_2)",
        ", ".join(f'{name}: R.Tensor((3,), "float32")' for name in ("any_0", "any_1", "positive_2")),
    )
    found = meant(text)
    mod = next(
        made
        for made in (with_weights(found.mod, seed) for seed in range(99))
        if made["main"].attrs["num_input"] == 0
    )

    def after(*passes: Any) -> str:
        check, left, said = SameThroughInterface(found, mod), mod, ""
        for item in passes:
            left = item(left)
            said = said or check(left, item.info.name)
        return said

    assert after(T.LiftTransformParams(), T.BundleModelParams(), T.LazySetOutput()) == ""
    assert after(T.LazyGetInput(), T.LazySetOutput()) == ""
    turned = module_pass(
        lambda item, context: T.BundleModelParams()(_turned(item)), opt_level=0, name="BundleModelParams"
    )
    assert "result 0" in after(turned)
    silent = module_pass(lambda item, context: item, opt_level=0, name="LazySetOutput")
    with pytest.raises(EvaluationError, match="takes 3 arguments, got 4"):
        after(silent)


def test_gradients_are_compared_with_slopes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gradient of twice the slope is found; kinks are left out, and are rare."""
    from experiments.fuzz.passes.gradients import SameSlope
    from experiments.fuzz.relax.differentiable import Differentiable, differentiable

    def said(program: Differentiable, check: SameSlope) -> str:
        params = program.mod["main"].params  # type: ignore[attr-defined]
        gradient = T.Gradient("main", [params[number] for number in program.wanted])
        return check(gradient(program.mod), "Gradient")

    kinks = 0
    for seed in range(8):
        program = differentiable(seed, 9)
        check = SameSlope(program, seed)
        assert said(program, check) == ""
        kinks += check.kinks
    assert kinks <= 2
    right = Op.get("relax.sum").get_attr("FPrimalGradient")
    wrong = lambda *args: [rx.op.add(item, item) for item in right(*args)]
    monkeypatch.setitem(Op._attributes["FPrimalGradient"], "relax.sum", wrong)
    programs = [(differentiable(seed, 9), seed) for seed in range(8)]
    found = [said(program, SameSlope(program, seed)) for program, seed in programs]
    assert sum("its gradient gives" in item for item in found) >= 5


def _turned(mod: IRModule) -> IRModule:
    """The first two parameters change places."""
    main = mod["main"]
    first, second, *others = main.params  # type: ignore[attr-defined]
    new = rx.Function([second, first, *others], main.body, main.ret_struct_info, True, main.attrs)  # type: ignore[attr-defined]
    return mod.replace(functions={mod.get_global_var("main"): new})


# -- opinions from outside --------------------------------------------------------------------
def test_a_wrong_reference_is_contradicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch agrees with the references as they are, and not with one that rounds halves away from zero."""
    from experiments.fuzz.relax.opinions import OPINIONS, Asked, disagreement

    pytest.importorskip("torch")
    (rounding,) = [item for item in OPINIONS if item.name == "round"]
    question = Asked(rounding, [np.array([0.5, 1.5, -2.5, np.nan, np.inf], "float32")], 0)
    assert disagreement(question) == ""
    away = lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)
    monkeypatch.setitem(Op._attributes["FReference"], "relax.round", away)
    assert disagreement(question) == "at (0,) 1.0, PyTorch 0.0"
