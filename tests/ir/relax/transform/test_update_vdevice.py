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
