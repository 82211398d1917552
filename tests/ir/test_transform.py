"""Passes, contexts, sequences, decorators and instruments."""

from __future__ import annotations

import io

import pytest

import ir
from ir import IRModule, tir
from ir.instrument import (
    DumpIR,
    PassInstrument,
    PassPrintingInstrument,
    PassTimingInstrument,
    PrintAfterAll,
    WellFormedInstrument,
    pass_instrument,
)
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from ir.tir.transform import PrimFuncPass, prim_func_pass
from ir.transform import (
    ApplyPassToFunction,
    ModulePass,
    PassContext,
    PassError,
    PassInfo,
    PrintIR,
    Sequential,
    module_pass,
    register_config_option,
    register_pass,
)


def module(*names: str) -> IRModule:
    """A module of functions that store a constant."""
    funcs = {}
    for name in names or ("main",):
        a = tir.decl_buffer((4,), name="A")
        i = tir.Var("i")
        body = tir.For(i, 0, 4, tir.ForKind.SERIAL, tir.BufferStore(a, tir.const(1.0), [i]))
        funcs[name] = tir.PrimFunc([a], body).with_attr("global_symbol", name)
    return IRModule(funcs)


def mark(name: str, opt_level: int = 0, **info: object) -> ModulePass:
    """A pass that appends its name to the module attribute ``ran``."""

    @module_pass(opt_level=opt_level, name=name, **info)
    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        return mod.with_attr("ran", (*(mod.get_attr("ran") or ()), name))

    return run


def ran(mod: IRModule) -> tuple[str, ...]:
    """Which marks the module carries."""
    return tuple(mod.get_attr("ran") or ())


# ---- decorators -------------------------------------------------------------------------------------------------


def test_decorated_function_is_a_pass_with_its_name_and_level() -> None:
    @module_pass(opt_level=2)
    def transform(mod: IRModule, ctx: PassContext) -> IRModule:
        return mod

    assert isinstance(transform, ModulePass)
    assert transform.info == PassInfo(2, "transform")


def test_decorated_class_becomes_a_pass_class_that_keeps_its_attributes() -> None:
    @module_pass(opt_level=1)
    class AddAttr:
        """Adds an attribute."""

        def __init__(self, value: int) -> None:
            self.value = value

        def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
            return mod.with_attr("value", self.value)

    added = AddAttr(7)
    assert isinstance(added, ModulePass) and added.value == 7 and AddAttr.__doc__ == "Adds an attribute."
    assert added(module()).get_attr("value") == 7


def test_decorated_class_needs_the_method() -> None:
    with pytest.raises(PassError, match="must define transform_module"):
        module_pass(opt_level=0)(type("Empty", (), {}))


def test_prim_func_pass_maps_functions_and_keeps_an_unchanged_module() -> None:
    @prim_func_pass(opt_level=0)
    def tag(func: tir.PrimFunc, mod: IRModule, ctx: PassContext) -> tir.PrimFunc:
        return func.with_attr("tagged", True)

    mod = module("f", "g")
    out = tag(mod)
    assert isinstance(tag, PrimFuncPass)
    assert [f.attrs.get("tagged") for f in out.functions.values()] == [True, True]
    assert not mod["f"].attrs.get("tagged")
    assert prim_func_pass(lambda func, mod, ctx: func, opt_level=0)(mod) is mod
    assert len(prim_func_pass(lambda func, mod, ctx: None, opt_level=0)(mod)) == 0


# ---- sequences --------------------------------------------------------------------------------------------------


def test_sequence_runs_what_the_level_allows() -> None:
    sequence = Sequential([mark("one", 1), mark("three", 3), mark("two", 2)])
    assert ran(sequence(module())) == ("one", "two")
    with PassContext(opt_level=3):
        assert ran(sequence(module())) == ("one", "three", "two")
    with PassContext(opt_level=0, required_pass=["three"]):
        assert ran(sequence(module())) == ("three",)
    with PassContext(opt_level=3, disabled_pass=["t*"]):
        assert ran(sequence(module())) == ("one",)


def test_a_pass_runs_at_every_level_unless_it_says_otherwise() -> None:
    class Plain(PrimFuncPass):
        pass_name = "test.Plain"

    assert Plain().info.opt_level == 0


def test_a_pass_called_alone_runs_whatever_its_level() -> None:
    with PassContext(opt_level=0):
        assert ran(mark("three", 3)(module())) == ("three",)


def test_required_passes_run_first() -> None:
    register_pass("test.before", lambda: mark("test.before"))
    assert ran(Sequential([mark("main", required=["test.before"])])(module())) == ("test.before", "main")
    with pytest.raises(PassError, match="no pass is registered as 'test.unknown'"):
        Sequential([mark("main", required=["test.unknown"])])(module())


def test_a_sequence_refuses_what_is_no_pass() -> None:
    with pytest.raises(ir.IRTypeError, match="takes passes, got type"):
        Sequential([ModulePass])  # type: ignore[list-item]


# ---- contexts ---------------------------------------------------------------------------------------------------


def test_contexts_nest() -> None:
    outer = PassContext(opt_level=1)
    with outer:
        with PassContext(opt_level=3) as inner:
            assert PassContext.current() is inner
        assert PassContext.current() is outer
    assert PassContext.current().opt_level == 2


def test_config_is_checked_by_name_and_type() -> None:
    register_config_option("test.option", int)
    assert PassContext(config={"test.option": 3}).config["test.option"] == 3
    assert PassContext(config={"test.option": tir.const(4)}).config["test.option"] == 4
    with pytest.raises(PassError, match=r"no config option 'test.optoin'; did you mean test.option"):
        PassContext(config={"test.optoin": 3})
    with pytest.raises(PassError, match="takes int, got 'x'"):
        PassContext(config={"test.option": "x"})
    with pytest.raises(PassError, match="registered with type"):
        register_config_option("test.option", str)
    assert PassContext.list_configs()["test.option"]["type"] == "int"


# ---- the contract -----------------------------------------------------------------------------------------------


def test_a_pass_that_changes_its_input_is_caught() -> None:
    @module_pass(opt_level=0)
    def mutate(mod: IRModule, ctx: PassContext) -> IRModule:
        del mod["main"]
        return mod

    with (
        PassContext(config={"testing.immutable_module": True}),
        pytest.raises(PassError, match="changed its input"),
    ):
        mutate(module())


def test_inputs_and_results_are_modules() -> None:
    with pytest.raises(ir.IRTypeError, match="takes an IRModule, got PrimFunc"):
        mark("x")(module()["main"])
    with pytest.raises(ir.IRTypeError, match="must return an IRModule, got NoneType"):
        module_pass(lambda mod, ctx: None, opt_level=0, name="nothing")(module())


def test_errors_name_the_passes_around() -> None:
    @module_pass(opt_level=0, name="breaks")
    def breaks(mod: IRModule, ctx: PassContext) -> IRModule:
        raise ir.IRValueError("no")

    with pytest.raises(ir.IRValueError) as raised:
        Sequential([breaks], name="pipeline")(module())
    assert raised.value.__notes__ == ["while running pass breaks", "while running pass pipeline"]


# ---- stock passes -----------------------------------------------------------------------------------------------


def test_apply_pass_to_function() -> None:
    tag = prim_func_pass(lambda func, mod, ctx: func.with_attr("tagged", len(mod)), opt_level=0, name="tag")
    out = ApplyPassToFunction(tag, "conv.*")(module("conv1", "conv2", "dense"))
    assert {v.name_hint: f.attrs.get("tagged") for v, f in out.functions.items()} == {
        "conv1": 2,
        "conv2": 2,
        "dense": None,
    }
    assert ApplyPassToFunction(tag, "none")(out) is out
    with pytest.raises(PassError, match="no function matches 'none'; the module has: conv1"):
        ApplyPassToFunction(tag, "none", True)(out)


def test_print_ir(capsys: pytest.CaptureFixture[str]) -> None:
    mod = module()
    assert PrintIR("# here")(mod) is mod
    assert capsys.readouterr().out.startswith("# here\n")


# ---- instruments ------------------------------------------------------------------------------------------------


class Recorder(PassInstrument):
    """Writes down its hooks."""

    def __init__(self, name: str, log: list[str], skip: str = "") -> None:
        self.name, self.log, self.skip = name, log, skip

    def enter_pass_ctx(self) -> None:
        self.log.append(f"{self.name} enters")

    def exit_pass_ctx(self) -> None:
        self.log.append(f"{self.name} exits")

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        return info.name != self.skip

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.log.append(f"{self.name} before {info.name}")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.log.append(f"{self.name} after {info.name}")


def test_instruments_frame_passes_and_contexts() -> None:
    log: list[str] = []
    with PassContext(instruments=[Recorder("a", log), Recorder("b", log)]):
        mark("x")(module())
    assert log == [
        "a enters", "b enters", "a before x", "b before x", "a after x", "b after x", "a exits", "b exits",
    ]  # fmt: skip


def test_an_instrument_may_veto_a_pass_unless_it_is_required() -> None:
    with PassContext(instruments=[Recorder("a", [], skip="x")]):
        assert ran(mark("x")(module())) == ()
    with PassContext(instruments=[Recorder("a", [], skip="x")], required_pass=["x"]):
        assert ran(mark("x")(module())) == ("x",)


def test_an_instrument_that_fails_to_enter_undoes_the_others() -> None:
    log: list[str] = []

    @pass_instrument
    class Fails:
        def enter_pass_ctx(self) -> None:
            raise RuntimeError("no")

    with (
        pytest.raises(RuntimeError),
        PassContext(instruments=[Recorder("a", log), Fails(), Recorder("c", log)]),
    ):
        pass
    assert log == ["a enters", "a exits"]
    assert PassContext.current().opt_level == 2


def test_override_instruments() -> None:
    log: list[str] = []
    with PassContext(instruments=[Recorder("a", log)]) as context:
        context.override_instruments([Recorder("b", log)])
    assert log == ["a enters", "a exits", "b enters", "b exits"]


def test_timing_is_nested() -> None:
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing]):
        Sequential([mark("x"), mark("y")], name="both")(module())
    assert [(name, depth) for name, depth, _ in timing.profile()] == [("both", 0), ("x", 1), ("y", 1)]
    assert timing.render().startswith("both: ") and "(100.00%)" in PassTimingInstrument.render()


def test_printing_instruments() -> None:
    out = io.StringIO()
    with PassContext(instruments=[PassPrintingInstrument(["x"], None, out)]):
        Sequential([mark("x"), mark("y")])(module())
    assert out.getvalue().count("# Before running pass") == 1
    out = io.StringIO()
    with PassContext(instruments=[PrintAfterAll(out)]):
        Sequential([mark("x"), mark("y")])(module())
    assert out.getvalue().count("# After running pass") == 3


def test_dump(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with PassContext(instruments=[DumpIR(tmp_path)]):
        mark("tir/x")(mark("y")(module()))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000_y.py", "001_tir_x.py"]


@pytest.mark.ill_formed("it is about the instrument that finds that")
def test_well_formed_instrument_blames_the_pass() -> None:
    @prim_func_pass(opt_level=0, name="breaks")
    def breaks(func: tir.PrimFunc, mod: IRModule, ctx: PassContext) -> tir.PrimFunc:
        return func.replace(body=func.body.body)

    with PassContext(instruments=[WellFormedInstrument()]):
        mark("fine")(module())
        with pytest.raises(
            PassError, match=r"module made by pass breaks .* \(undefined variable\): variable i"
        ):
            breaks(module())


@pytest.mark.ill_formed("it is about the instrument that finds that")
def test_functions_are_verified_again_when_what_they_call_changes() -> None:
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def kernel(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
            for i in range(4):
                B[i] = A[i]

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = R.call_tir(Module.kernel, (x,), out_sinfo=R.Tensor((4,), "float32"))
            return y

    @module_pass(opt_level=0, name="removes")
    def removes(mod: IRModule, ctx: PassContext) -> IRModule:
        return IRModule({var: func for var, func in mod.functions.items() if var.name_hint == "main"})

    @prim_func_pass(opt_level=0, name="renames")
    def renames(func: tir.PrimFunc, mod: IRModule, ctx: PassContext) -> tir.PrimFunc:
        return func.with_attr("global_symbol", "other")

    with PassContext(instruments=[WellFormedInstrument()]):
        mark("fine")(Module)
        with pytest.raises(PassError, match="(?s)made by pass removes .* 'kernel' that is not in the module"):
            removes(Module)
        with pytest.raises(PassError, match="(?s)made by pass renames .* global_symbol attribute is 'other'"):
            renames(Module)
