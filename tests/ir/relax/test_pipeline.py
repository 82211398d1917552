"""The way down: each pass of the lowering keeps what programs mean, and the whole list is what a build applies."""

from __future__ import annotations

import numpy as np
import pytest

import ir
import runners
from ir import relax
from ir.relax.analysis import check_well_formed
from ir.relax.pipeline import graph_passes, lowering_passes, weight_passes
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from ir.transform import Sequential


@I.ir_module
class Chain:
    """Tensors that can share memory, views of them, a constant, two results of which one is a view."""

    @R.function
    def main(x: R.Tensor((4, 6), "float32"), w: R.Tensor((6, 4), "float32")) -> R.Tuple(
        R.Tensor((16,), "float32"), R.Tensor((4, 4), "float32")
    ):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.exp(a)
            flat = R.reshape(b, (16,))
            c = R.multiply(flat, R.const(2, "float32"))
            d = R.negative(c)
            e = R.reshape(d, (4, 4))
            f = R.add(e, a)
            g = R.reshape(f, (16,))
            R.output(f, g)
        return (g, f)


@I.ir_module
class InPlace:
    """A kernel that overwrites an intermediate result, and one with two outputs."""

    @T.prim_func(private=True)
    def double(A: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("double"):
                vi = T.axis.spatial(8, i)
                A[vi] = A[vi] * T.float32(2)

    @T.prim_func(private=True)
    def both(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("both"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + T.float32(1)
                C[vi] = A[vi] - T.float32(1)

    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        cls = InPlace
        with R.dataflow():
            a = R.exp(x)
            b = R.call_tir_inplace(cls.double, (a,), 0, R.Tensor((8,), "float32"))
            pair = R.call_tir(cls.both, (b,), [R.Tensor((8,), "float32"), R.Tensor((8,), "float32")])
            c = pair[0]
            d = pair[1]
            e = R.multiply(c, d)
            R.output(e)
        return e


@I.ir_module
class Symbolic:
    """Extents that are known at run time, a shape as a value, a match_cast."""

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(dtype="float32", ndim=1)) -> R.Tuple(
        R.Tensor(("n * 4",), "float32"), R.Shape(ndim=2)
    ):
        n, m = T.int64(), T.int64()
        a = R.exp(x)
        b = R.add(a, a)
        c = R.reshape(b, (n * 4,))
        z = R.match_cast(y, R.Tensor((m,), "float32"))
        d = R.sum(z)
        e = R.add(c, d)
        s = R.shape([n + m, n * 2])
        return (e, s)


@I.ir_module
class Branches:
    """A branch, and a call of a function."""

    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((5,), "float32")) -> R.Tensor((5,), "float32"):
        cls = Branches
        a = R.exp(x)
        if c:
            b = R.add(a, a)
            r = R.negative(b)
        else:
            d: R.Tensor((5,), "float32") = cls.helper(a)
            r = R.multiply(d, x)
        y = R.add(r, a)
        return y

    @R.function(private=True)
    def helper(x: R.Tensor((5,), "float32")) -> R.Tensor((5,), "float32"):
        y = R.exp(x)
        z = R.add(y, x)
        return z


RNG = np.random.default_rng(0)


def _floats(*shape):
    return RNG.standard_normal(shape).astype("float32")


PROGRAMS = {
    "chain": (Chain, [_floats(4, 6), _floats(6, 4)], "native"),
    "in place": (InPlace, [_floats(8)], "native"),
    "symbolic": (Symbolic, [_floats(3, 4), _floats(5)], "bytecode"),
    "branches": (Branches, [np.array(True), _floats(5)], "bytecode"),
    "branches, otherwise": (Branches, [np.array(False), _floats(5)], "bytecode"),
}


def _flat(value):
    if isinstance(value, tuple | list):
        return [item for part in value for item in _flat(part)]
    return [value.numpy() if hasattr(value, "numpy") else np.asarray(value)]


def _agree(got, expected):
    for a, b in zip(_flat(got), _flat(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_step_keeps_the_meaning(name):
    mod, inputs, kind = PROGRAMS[name]
    expected = evaluate(mod, *inputs)
    mod = relax.get_pipeline("zero")(mod)
    for item in lowering_passes():
        mod = item(mod)
        check_well_formed(mod)
        _agree(evaluate(mod, *inputs), expected)
    executable = relax.build(mod, "llvm", pipeline=None)
    assert executable.metadata["functions"]["main"]["kind"] == kind
    _agree(runners.VirtualMachine(executable)["main"](*inputs), expected)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_build_is_the_default_list(name):
    mod, inputs, kind = PROGRAMS[name]
    target = ir.target.Target("llvm")
    with target:
        lowered = relax.get_default_pipeline(target)(mod)
    built, again = relax.build(mod, target), relax.build(lowered, target, pipeline=None)
    main, other = (item.metadata["functions"]["main"] for item in (built, again))
    assert main["kind"] == other["kind"] == kind
    if kind == "native":
        assert main["memory"] == other["memory"] and main["calls"] == other["calls"]
    _agree(runners.VirtualMachine(built)["main"](*inputs), evaluate(mod, *inputs))
    _agree(runners.VirtualMachine(again)["main"](*inputs), evaluate(mod, *inputs))


def test_the_lists_are_one_list():
    names = [type(item).__name__ for item in relax.get_default_pipeline().passes]
    lowering = [type(item).__name__ for item in lowering_passes()]
    assert names[: len(graph_passes())] == [type(item).__name__ for item in graph_passes()]
    assert names[-len(lowering) - len(weight_passes()) :] == [
        type(item).__name__ for item in [*weight_passes(), *lowering_passes()]
    ]
    assert "MetaScheduleApplyDatabase" in names
    order = [
        "CallTIRRewrite",
        "StaticPlanBlockMemory",
        "LowerAllocTensor",
        "KillAfterLastUse",
        "LowerRuntimeBuiltin",
    ]
    assert [name for name in lowering if name in order] == order
    assert isinstance(relax.get_pipeline("default"), Sequential)


def test_one_plan_for_native_code():
    """The workspace is the storage that the pass planned; what is returned is not in it."""
    mod, inputs, _ = PROGRAMS["chain"]
    lowered = relax.get_pipeline("default")(mod)
    sizes = [
        int(binding.value.args[0].values[0].value)
        for block in lowered["main"].body.blocks
        for binding in block.bindings
        if getattr(getattr(binding.value, "op", None), "name", "") == "relax.vm.alloc_storage"
    ]
    entry = relax.build(lowered, "llvm", pipeline=None).metadata["functions"]["main"]
    assert len(sizes) == 2 and sizes[1] == 16 * 4  # the arena, and the result of which both are views
    assert entry["workspace_bytes"] == entry["memory"]["arena_bytes"] == sizes[0]
    assert entry["memory"]["n_buffers"] >= 1 and len(entry["outputs"]) == 1
