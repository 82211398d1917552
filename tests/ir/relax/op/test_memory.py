"""What every operator declares to do to memory, and that no lowered form shares more than that."""

from __future__ import annotations

from typing import Any

import pytest

import ir
from ir import relax as rx
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
    releases,
    reuses,
    view_of,
    writes,
)

from .calls import build, origins, params_of
from .cases import CASES, Case

R = rx.op

VIEW = view_of(0)
MEMORY: dict[str, Any] = {
    # what is not named here makes new memory
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


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_memory(name: str) -> None:
    """Every operator's declaration against this table, and its purity against its declaration."""
    short = name.removeprefix("relax.")
    declared = OPERATORS[name].memory
    if short in READ_FROM_CALL:
        assert isinstance(declared, ReadFromCall)
    else:
        assert declared == MEMORY.get(short, FRESH)
    assert ir.Op.get(name).get_attr("FPurity") is declared.pure


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
