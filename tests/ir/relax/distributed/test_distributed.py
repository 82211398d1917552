"""Meshes, placements, tensors on meshes and their operators."""

from __future__ import annotations

import pytest

import ir
from ir import relax as rx
from ir.relax.distributed import DeviceMesh, DTensorStructInfo, Placement, device_mesh

R, T = rx.op.distributed, rx.TensorStructInfo
mesh = device_mesh((2, 2), ir.Range(0, 4))


def infer(call: rx.Call) -> rx.StructInfo:
    bb = rx.BlockBuilder()
    with bb.testing_scope([]):
        return bb.normalize(call).struct_info


def test_meshes() -> None:
    assert mesh == DeviceMesh([2, 2], [0, 1, 2, 3]) and mesh != DeviceMesh([4], [0, 1, 2, 3])
    with pytest.raises(ir.IRValueError, match="4 places for 3"):
        DeviceMesh([2, 2], [0, 1, 2])


def test_placements() -> None:
    placement = Placement.from_text("S[1], R")
    assert placement.to_text() == "S[1], R"
    with pytest.raises(ir.IRValueError, match="'Q'"):
        Placement.from_text("Q")


def test_struct_info() -> None:
    info = DTensorStructInfo(T((8, 4)), mesh, "S[0], R")
    assert info.ndim == 2 and info == ir.load_json(ir.save_json(info))
    with pytest.raises(ir.IRValueError, match="2 axes"):
        DTensorStructInfo(T((8, 4)), mesh, "R")
    with pytest.raises(ir.IRValueError, match="shard axis 2"):
        DTensorStructInfo(T((8, 4)), mesh, "S[2], R")


def test_operators() -> None:
    x = rx.Var("x", T((8, 4)))
    assert infer(R.annotate_sharding(x, mesh, "S[0], R")) == T((8, 4))
    d = rx.Var("d", DTensorStructInfo(T((8, 4)), mesh, "R, R"))
    assert infer(R.redistribute(d, mesh, "S[0], R")) == DTensorStructInfo(T((8, 4)), mesh, "S[0], R")
    assert infer(R.redistribute_replica_to_shard(x, 2, 1)) == T((8, 2))
    with pytest.raises(ir.IRTypeError, match="annotate_sharding"):
        infer(R.redistribute(x, mesh, "R, R"))
    out = DTensorStructInfo(T((8, 4)), mesh, "S[0], R")
    assert infer(R.call_tir_local_view(rx.GlobalVar("f"), [d], out)) == out
