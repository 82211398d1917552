"""Apply, Filter, BindTarget, AnnotateEntryFunc."""

from ir import IRModule, tir
from ir.script import tir as T
from ir.target import Target


@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    A[0] = T.float32(0)


@T.prim_func(private=True)
def g(A: T.Buffer((4,), "float32")):
    A[1] = T.float32(1)


MODULE = IRModule({"f": f, "g": g})


def test_apply():
    after = tir.transform.Apply(lambda func: func.with_attr("tag", 1))(MODULE)
    assert all(func.attrs["tag"] == 1 for func in after.functions.values())
    assert "tag" not in MODULE["f"].attrs


def test_filter():
    after = tir.transform.Filter(lambda func: "global_symbol" in func.attrs)(MODULE)
    assert [v.name_hint for v in after.functions] == ["f"]
    assert tir.transform.Filter(lambda func: True)(MODULE) is MODULE


def test_bind_target_keeps_what_is_there():
    target, other = Target("llvm"), Target("llvm -mcpu=haswell")
    once = tir.transform.BindTarget(target)(MODULE)
    again = tir.transform.BindTarget(other)(once)
    assert again is once and again["g"].attrs["target"] is target


def test_entry():
    after = tir.transform.AnnotateEntryFunc()(MODULE)
    assert after["f"].attrs.get("tir.is_entry_func") and "tir.is_entry_func" not in after["g"].attrs
