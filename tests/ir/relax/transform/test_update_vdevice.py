"""UpdateVDevice: a device of the module is replaced."""

from __future__ import annotations

import pytest

from ir.error import IRValueError
from ir.global_info import VDevice
from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R


def test_vdevices():
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm")]})

        @R.function
        def main(x: R.Tensor((4,), "float32", "llvm")) -> R.Tensor((4,), "float32"):
            y: R.Tensor((4,), "float32") = R.exp(x)
            return y

    new = VDevice("llvm", 1)
    after = transform.UpdateVDevice(new, 0)(Before)
    assert after.global_infos["vdevice"] == (new,)
    assert after["main"].params[0].struct_info.vdevice == new
    realized = transform.RealizeVDevice()(Before)
    assert realized["main"].ret_struct_info.vdevice == Before["main"].params[0].struct_info.vdevice
    with pytest.raises(IRValueError, match="out of range"):
        transform.UpdateVDevice(new, 3)(Before)


def test_a_device_that_looks_alike_is_another():
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("llvm"), I.vdevice("cuda")]})

        @R.function
        def main(x: R.Tensor((4,), "float32", "llvm:0"), y: R.Tensor((4,), "float32", "llvm:1")) -> R.Tensor(
            (4,), "float32", "llvm:1"
        ):
            moved = R.to_vdevice(x, dst_vdevice="llvm:1")
            z = R.add(moved, y)
            return z

    first, second, third = Before.global_infos["vdevice"]
    assert first == second and first is not second
    for index in (0, 1):
        new = VDevice("cuda", 3)
        after = transform.UpdateVDevice(new, index)(Before)
        devices = after.global_infos["vdevice"]
        assert [item is new for item in devices] == [number == index for number in range(3)]
        x, y = after["main"].params
        assert (x.struct_info.vdevice is new) == (index == 0) and (y.struct_info.vdevice is new) == (
            index == 1
        )
        assert (after["main"].ret_struct_info.vdevice is new) == (index == 1)
    unchanged = transform.UpdateVDevice(VDevice("cuda", 3), 2)(Before)
    assert unchanged["main"].params[0].struct_info.vdevice is first
