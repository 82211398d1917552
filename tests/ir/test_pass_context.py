"""The options of a context: each is asked for by something and changes it; what nothing would follow is refused by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ir
from ir import pass_context, relax
from ir.codegen.build import build
from ir.pass_context import _REFUSED, PassContext, PassError
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from ir.tir.transform import LoopPartition, UnrollLoop

ROOT = Path(ir.__file__).parent.parent


def test_every_option_has_a_reader() -> None:
    texts = [
        path.read_text()
        for package in ("ir", "schedules", "cost_models", "database", "runners", "tuner")
        for path in (ROOT / package).rglob("*.py")
        if path.name != "pass_context.py"
    ]
    for name, described in PassContext.list_configs().items():
        if name.startswith("test."):
            continue
        assert described["doc"], name
        # A pass asks for the option of its own name by Pass.configured.
        asked = re.compile(rf'\.get\("{re.escape(name)}"|pass_name = "{re.escape(name)}"')
        assert any(asked.search(text) for text in texts), f"nothing asks for the option {name}"


OWN_OPTION = """
from dataclasses import dataclass
from ir.transform import ModulePass, register_config_option

register_config_option("relax.RepeatItself", dict, "fields of the pass RepeatItself by name")

@dataclass(frozen=True)
class RepeatItself(ModulePass):
    times: int = 1
    pass_name = "relax.RepeatItself"

    def transform_module(self, mod, ctx):
        return mod.with_attr("repeated", self.configured(ctx).times)
"""


def test_an_option_is_found_in_the_file_of_its_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "repeat_itself.py").write_text(OWN_OPTION)
    monkeypatch.setattr(pass_context, "_OPTIONS", dict(pass_context._OPTIONS))
    monkeypatch.setattr(relax.transform, "__path__", [*relax.transform.__path__, str(tmp_path)])
    with pytest.raises(PassError, match=re.escape("no config option 'relax.RepeatsItself'")):
        PassContext(config={"relax.RepeatsItself": {}})
    with PassContext(config={"relax.RepeatItself": {"times": 3}}):
        assert relax.transform.RepeatItself()(ir.IRModule()).attrs["repeated"] == 3
    with (
        PassContext(config={"relax.RepeatItself": {"time": 3}}),
        pytest.raises(PassError, match="'relax.RepeatItself' has no entry 'time'; there are times"),
    ):
        relax.transform.RepeatItself()(ir.IRModule())


@pytest.mark.parametrize("name", _REFUSED)
def test_what_nothing_would_follow_is_refused(name: str) -> None:
    with pytest.raises(PassError, match=re.escape(f"option {name!r} cannot be followed: {_REFUSED[name]}")):
        PassContext(config={name: True})
    assert PassContext(config={name: False}).config == {}
    assert name not in PassContext.list_configs()


@T.prim_func
def shifted(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")) -> None:
    T.func_attr({"tir.noalias": True})
    for i in range(16):
        B[i] = A[i] + T.float32(1)


def test_noalias_may_be_switched_off() -> None:
    def parameters() -> str:
        return re.search(r"define i32 @\"?shifted\"?\(.*", build(shifted).llvm_ir)[0]  # type: ignore[index]

    assert parameters().count("noalias") == 2
    with PassContext(config={"tir.noalias": False}):
        assert "noalias" not in parameters()
        memory = np.zeros(17, np.float32)
        build(shifted)["shifted"](memory[:16], memory[1:])
    np.testing.assert_array_equal(memory, np.arange(17, dtype=np.float32))


@pytest.mark.parametrize(
    "name",
    ["tir.LowerParallel", "tir.LoopPartition", "tir.PartitionChoices", "tir.UnrollLoop", "tir.PlanWorkspace"],
)
def test_fields_of_passes_are_checked(name: str) -> None:
    with PassContext(config={name: {"nonsense": 1}}):
        with pytest.raises(PassError, match=f"'{name}' has no entry 'nonsense'; there are"):
            build(shifted)
    field = {
        "tir.LowerParallel": "least_operations",
        "tir.LoopPartition": "max_partitions",
        "tir.PartitionChoices": "most_pieces",
        "tir.PlanWorkspace": "stack_bytes",
    }.get(name, "max_statements")
    with PassContext(config={name: {field: "many"}}):
        with pytest.raises(PassError, match=f"'{name}': {field} takes (int|a number), got 'many'"):
            build(shifted)


def test_assertions_may_be_left_out() -> None:
    @T.prim_func
    def checked(A: T.Buffer((4,), "int32"), n: T.int32) -> None:
        assert n > 0, "n must be positive"
        A[0] = n

    with pytest.raises(ir.IRError, match="n must be positive"):
        build(checked)["checked"](np.zeros(4, np.int32), -1)
    with PassContext(config={"tir.disable_assert": True}):
        array = np.zeros(4, np.int32)
        build(checked)["checked"](array, -1)
    assert array[0] == -1


@T.prim_func
def guarded(A: T.Buffer((64,), "float32")) -> None:
    for i, j in T.grid(5, 14):
        if i * 14 + j < 64:
            A[i * 14 + j] = 0.0


def test_passes_take_their_fields_from_the_context() -> None:
    mod = ir.IRModule({"main": guarded})
    assert not ir.structural_equal(LoopPartition()(mod), mod)
    with PassContext(config={"tir.LoopPartition": {"max_partitions": 0}}):
        assert ir.structural_equal(LoopPartition()(mod), mod)
    with PassContext(config={"tir.UnrollLoop": {"auto_max_step": ir.tir.const(16)}}):
        assert "for" not in UnrollLoop()(ir.IRModule({"main": shifted})).script()


@pytest.mark.parametrize("name", ["tir.LoopPartition", "tir.UnrollLoop", "tir.Simplify"])
def test_an_unknown_entry_is_refused(name: str) -> None:
    run: Any = {"tir.Simplify": ir.tir.transform.Simplify(), "tir.LoopPartition": LoopPartition()}
    with (
        PassContext(config={name: {"partition_const_loop": True}}),
        pytest.raises(PassError, match=f"'{name}' has no entry 'partition_const_loop'; there are "),
    ):
        run.get(name, UnrollLoop())(ir.IRModule({"main": guarded}))


@I.ir_module
class Sum:
    @R.function
    def main(x: R.Tensor((8,), "float32")):
        with R.dataflow():
            y = R.add(x, x)
            R.output(y)
        return y


def test_operators_may_stay() -> None:
    assert not ir.structural_equal(relax.transform.LegalizeOps()(Sum), Sum)
    with PassContext(config={"relax.transform.apply_legalize_ops": False}):
        assert relax.transform.LegalizeOps()(Sum) is Sum


def test_fused_groups_may_be_small() -> None:
    @I.ir_module
    class Chain:
        @R.function
        def main(x: R.Tensor((8,), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.exp(a)
                c = R.exp(b)
                R.output(c)
            return c

    prepared = relax.transform.AnnotateTIROpPattern()(relax.transform.LegalizeOps()(Chain))

    def groups() -> int:
        return sum(
            "Primitive" in func.attrs for func in relax.transform.FuseOps()(prepared).functions.values()
        )

    assert groups() == 1
    with PassContext(config={"relax.FuseOps.max_depth": 1}):
        assert groups() == 0


def test_kernels_that_were_built_under_other_options_are_not_taken_again() -> None:
    seen: list[str] = []

    @ir.tir.transform.prim_func_pass(opt_level=0)
    def note(func: Any, mod: Any, ctx: PassContext) -> Any:
        seen.append("lowered")
        return func

    def built() -> Any:
        return relax.build(Sum, "llvm")

    built()
    with PassContext(config={"tir.add_lower_pass": [(0, note)]}):
        built()
        built()
    assert seen == ["lowered"] * 2


def test_an_optimization_level_is_a_number() -> None:
    with pytest.raises(PassError, match="opt_level is a number such as 2, got '3'"):
        PassContext(opt_level="3")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"tir.disable_assert": 7}, "takes bool, got 7"),
        (["tir.disable_assert"], "config is a dict of options by name"),
    ],
)
def test_a_config_of_the_wrong_kind_is_refused(config: object, says: str) -> None:
    with pytest.raises(PassError, match=says):
        PassContext(config=config)  # type: ignore[arg-type]
    assert PassContext(config={"tir.disable_assert": 1}).config == {"tir.disable_assert": True}


def test_a_misspelt_pass_is_told_what_is_near() -> None:
    from ir import tir

    with pytest.raises(AttributeError, match="no attribute 'UnrolLoop'; did you mean 'UnrollLoop'"):
        tir.transform.UnrolLoop
