"""RealizeVDevice: every value knows its device, copies stand where devices differ."""

from __future__ import annotations

import pytest

from ir.error import IRValueError
from ir.global_info import VDevice
from ir.relax import transform
from ir.relax.analysis import well_formed
from ir.script import ir as I
from ir.script import relax as R


def test_hints_name_devices_of_the_module():
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 1, "shared")]})

        @R.function
        def main(x: R.Tensor((4,), "float32", "llvm")):
            y = R.hint_on_device(x, device_type="cuda", index=1, memory_scope="shared")
            z = R.exp(y)
            return z

    (_, there) = Before.global_infos["vdevice"]
    after = transform.RealizeVDevice()(Before)
    copy, exp = after["main"].body.blocks[0].bindings
    assert copy.value.op.name == "relax.to_vdevice" and copy.value.attrs["dst_vdevice"] == there
    assert exp.var.struct_info.vdevice == there

    without = Before.clone()
    without.update_global_info("vdevice", [VDevice("llvm")])
    with pytest.raises(IRValueError, match="asks for device cuda:1 with memory 'shared'"):
        transform.RealizeVDevice()(without)


def test_hints_work_backwards():
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm")]})

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            y = R.exp(x)
            z = R.hint_on_device(y, device_type="cpu", index=0, memory_scope="global")
            return z

    (here,) = Before.global_infos["vdevice"]
    after = transform.RealizeVDevice()(Before)
    assert all(item.var.struct_info.vdevice == here for item in after["main"].body.blocks[0].bindings)


def test_hints_become_copies_where_devices_differ():
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 0)]})

        @R.function
        def main(x: R.Tensor((4,), "float32", "llvm")) -> R.Tensor((4,), "float32"):
            a: R.Tensor((4,), "float32") = R.exp(x)
            b: R.Tensor((4,), "float32") = R.hint_on_device(a, I.vdevice("cuda", 0))
            c: R.Tensor((4,), "float32") = R.negative(b)
            return c

    after = transform.RealizeVDevice()(Before)
    assert well_formed(after)
    values = [binding.value for binding in after["main"].body.blocks[0].bindings]
    assert [value.op.name for value in values] == ["relax.exp", "relax.to_vdevice", "relax.negative"]
    kinds = [value.struct_info.vdevice.target.kind.name for value in values]
    assert kinds == ["llvm", "cuda", "cuda"]
    assert after["main"].ret_struct_info.vdevice.target.kind.name == "cuda"
