"""BindTarget: functions without a target get one."""

from ir import tir
from ir.target import Target
from tests.programs.kernels import public_and_private


def test_what_is_there_is_kept():
    target, other = Target("llvm"), Target("llvm -mcpu=haswell")
    once = tir.transform.BindTarget(target)(public_and_private())
    again = tir.transform.BindTarget(other)(once)
    assert again is once and all(func.attrs["target"] is target for func in once.functions.values())
