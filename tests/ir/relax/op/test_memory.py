"""What every operator declares to do to memory, and that no lowered form shares more than that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ir
from ir import relax as rx
from ir.relax.analysis.memory import MemoryAnalysis, is_pure
from ir.relax.op import OPERATORS
from ir.relax.op.memory_effect import (
    EFFECT,
    FRESH,
    IDENTITY,
    OPAQUE,
    UNKNOWN,
    MemoryEffect,
    ReadFromCall,
    View,
    external_memory,
    releases,
    reuses,
    view_of,
    writes,
)
from ir.relax.testing import evaluate
from ir.relax.transform import DataflowUseInplaceCalls, RewriteDataflowReshape

from .calls import build, flat, origins, params_of, reference
from .cases import CASES, Case

R = rx.op

VIEW = view_of(0)
MEMORY: dict[str, Any] = {
    # What the built-in operators do, said a second time. Others need no line: what they do is looked at (`judge`).
    **{name: VIEW for name in "reshape expand_dims squeeze flatten nn.batch_flatten memory.view".split()},
    **{name: VIEW for name in "to_vdevice hint_on_device memory.ensure_zero_offset".split()},
    **{name: VIEW for name in "grad.no_grad grad.start_checkpoint grad.end_checkpoint".split()},
    **{name: VIEW for name in "builtin.stop_lift_params dist.annotate_sharding dist.redistribute".split()},
    "make_closure": view_of(1),
    "nn.dropout": MemoryEffect(views=(View((0,), (0,)),)),
    "nn.batch_norm": MemoryEffect(views=(View((3,), (1,)), View((4,), (2,)))),
    **{name: reuses(0, 1) for name in "add subtract multiply divide".split()},
    **{name: reuses(0) for name in "nn.relu nn.silu".split()},
    "builtin.alloc_tensor": IDENTITY,
    **{name: IDENTITY | EFFECT for name in "memory.alloc_storage vm.alloc_storage".split()},
    **{name: VIEW | IDENTITY | EFFECT for name in "memory.alloc_tensor vm.alloc_tensor".split()},
    **{
        name: releases(0) | EFFECT for name in "memory.kill_storage memory.kill_tensor vm.kill_object".split()
    },
    "vm.call_tir_dyn": writes(1) | EFFECT,
    **{name: EFFECT for name in "print assert_op".split()},
    "invoke_closure": OPAQUE,
    "invoke_pure_closure": UNKNOWN,
}
READ_FROM_CALL = {"call_tir_inplace", "call_pure_packed", "call_inplace_packed", "call_builtin_with_ctx"}


def judge(name: str) -> None:
    """Hold a declaration that is in no table to what the operator does: in its cases, or as its packed function declares."""
    item = OPERATORS[name]
    assert isinstance(item.memory, MemoryEffect)
    cases = [case for case in CASES if case.op == name]
    if item.call_packed:
        assert item.memory == external_memory(item.call_packed), (
            f"say with declare_external what {item.call_packed} does"
        )
    elif item.legalize and cases:
        found = [(what_is_done(case, False), what_is_done(case, True)) for case in cases]
        assert any([declared == done for declared, done in found]), (
            f"{name}: declared, and done by what it becomes: {found}"
        )
        for path in item.memory.reuses:
            assert any([takes_the_place_of(path, case) for case in cases]), (
                f"{name} declares to reuse argument {path}, and no case has a result like it"
            )
    else:
        assert item.memory == FRESH, f"nothing shows what {name} does: it has no case that is legalized"


def called(item: Case, value_of: Callable[[rx.BlockBuilder, list[Any]], Any]) -> ir.IRModule:
    """A function with what ``value_of`` makes of the case's parameters, in a dataflow block."""
    params, _ = params_of(item, False)
    bb = rx.BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(value_of(bb, params))
        bb.emit_func_output(out)
    return bb.finalize()


def what_is_done(item: Case, legal: bool) -> MemoryEffect:
    """What a case does to memory: as the operator declares, or as what it becomes does. Kernels that renumber are views."""

    def value_of(bb: rx.BlockBuilder, params: list[Any]) -> Any:
        value = bb.normalize(item.build(*params))
        return value.op.get_attr("FLegalize")(bb, value) if legal else value

    mod = called(item, value_of)
    if legal:
        mod = RewriteDataflowReshape()(mod)
    values = [binding.value for block in mod["main"].body.blocks for binding in block.bindings]
    return replace(
        MemoryAnalysis(mod).summary(mod["main"]),
        effect=not all(is_pure(value) for value in values if isinstance(value, rx.Call)),
    )


def takes_the_place_of(path: tuple[int, ...], item: Case) -> bool:
    """Whether a case can be computed where one of its operands is; the numbers must then be the reference's."""
    (number,) = path

    def value_of(bb: rx.BlockBuilder, params: list[Any]) -> Any:
        # parameters are never overwritten, copies of them are
        return item.build(*[bb.emit(R.maximum(p, p)) if n == number else p for n, p in enumerate(params)])

    mod = DataflowUseInplaceCalls()(called(item, value_of))
    if "call_tir_inplace" not in mod.script():
        return False
    found, expected = flat(evaluate(mod, *item.inputs)), flat(reference(item, params_of(item, False)[0]))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=item.tolerance, atol=item.tolerance, err_msg=str(item))
    return True


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_memory(name: str) -> None:
    """Every operator's declaration against this table or what it does, and its purity against its declaration."""
    short = name.removeprefix("relax.")
    declared = OPERATORS[name].memory
    if short in READ_FROM_CALL:
        assert isinstance(declared, ReadFromCall)
    elif short in MEMORY:
        assert declared == MEMORY[short]
    elif declared != FRESH:
        judge(name)
    assert ir.Op.get(name).get_attr("FPurity") is declared.pure


def test_no_case_shows_less_than_the_table_says() -> None:
    """The operators of the table that a case runs in place pass the judge as well: it refuses none that is right."""
    for name in ("add", "divide", "nn.relu", "nn.silu", "reshape", "squeeze"):
        judge(f"relax.{name}")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("flip", reuses(0)),  # reads elements whose place is written already
        ("sum", reuses(0)),  # the result is smaller
        ("nn.relu", view_of(0)),
        ("nn.relu", writes(0)),
        ("nn.relu", EFFECT),
        ("unique", EFFECT),
        ("null_value", IDENTITY),
    ],
    ids=str,
)
def test_a_declaration_that_is_in_no_table_is_held_to_what_the_operator_does(
    name: str, wrong: MemoryEffect, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"relax.{name}"
    monkeypatch.setitem(OPERATORS, name, replace(OPERATORS[name], memory=wrong))
    with pytest.raises(AssertionError):
        judge(name)


@pytest.mark.parametrize("item", [item for item in CASES if OPERATORS[item.op].legalize], ids=str)
def test_lowered_forms_share_no_more_memory_than_declared(item: Case) -> None:
    """What an operator becomes must not be a view of an argument that the operator does not declare to view."""
    params, _ = params_of(item, False)

    for lowered, declared in zip(
        origins(build(item, params, True)["main"]), origins(build(item, params, False)["main"]), strict=True
    ):
        assert lowered <= declared


def test_what_is_not_legalized_has_another_way_down() -> None:
    """By a lowering, a packed function, or because lowered programs consist of it; what has none is listed here."""
    nowhere = {
        name
        for name, item in OPERATORS.items()
        if not (item.legalize or item.lowering or item.call_packed or item.is_lowered)
    }
    # the last is unwrapped by RemovePurityChecking, those of several devices have no runtime
    assert {name.removeprefix("relax.") for name in nowhere} == {
        "dist.annotate_sharding",
        "dist.redistribute",
        "dist.redistribute_replica_to_shard",
        "nn.attention_var_len",
        "invoke_pure_closure",
    }
