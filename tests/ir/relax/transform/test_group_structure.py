"""What fusion hands to its functions, how values are named, and what is inlined, merged and overwritten."""

from __future__ import annotations

import pytest

from ir import relax
from ir.relax import transform
from ir.relax.analysis import get_op_pattern
from ir.relax.op.declaration import OpPatternKind
from ir.script import ir as I
from ir.script import relax as R

from .conftest import verify


def _fused(mod):
    for step in (transform.LegalizeOps(), transform.AnnotateTIROpPattern(), transform.FuseOps()):
        mod = step(mod)
    return mod


def _values(mod, name="main"):
    return [binding.value for block in mod[name].body.blocks for binding in block.bindings]


def test_a_group_takes_the_fields_of_a_tuple_that_it_uses():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((4, 8), "float32"),
            t: R.Tuple(R.Tensor((4, 8), "float32"), R.Tensor((4, 8), "float32"), R.Tensor((4, 8), "float32")),
        ):
            with R.dataflow():
                a = t[0]
                b = t[2]
                c = R.add(a, b)
                d = R.nn.relu(c)
                R.output(d)
            return d

    after = _fused(Before)
    group = after["fused_add_relu"]
    assert [param.name_hint for param in group.params] == ["t_0", "t_2"]
    assert len(group.body.blocks[0].bindings) == 2
    first, second, call = _values(after)
    assert (first.index, second.index) == (0, 2)
    names = [binding.var.name_hint for binding in after["main"].body.blocks[0].bindings]
    assert names == ["lv", "lv1", "gv"] and isinstance(call.op, relax.GlobalVar)


def test_a_tuple_that_is_used_whole_stays_whole():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 8), "float32")):
            with R.dataflow():
                s = R.split(x, 2, axis=1)
                a = s[0]
                c = R.exp(a)
                R.output(c, a)
            return (c, a)

    after = _fused(Before)
    # a is a result, so that nothing is gained by taking it apart inside
    assert [type(value).__name__ for value in _values(after)][-1] == "Call"


def test_parameters_that_a_fused_function_ignores_go():
    @I.ir_module
    class Before:
        @R.function(private=True)
        def inner(x: R.Tensor((4,), "float32"), unused: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.add(x, x)
                b = R.nn.relu(a)
                R.output(b)
            return b

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = Before
            y: R.Tensor((4,), "float32") = cls.inner(x, x)
            return y

    after = transform.FuseTIR()(_fused(Before))
    assert [param.name_hint for param in after["inner"].params] == ["x"]
    assert len(_values(after)[0].args) == 1


def test_neighbouring_dataflow_blocks_are_one():
    @I.ir_module
    class Two:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.exp(x)
                R.output(a)
            with R.dataflow():
                b = R.exp(a)
                R.output(b)
            return b

    (block,) = Two["main"].body.blocks
    assert isinstance(block, relax.DataflowBlock) and len(block.bindings) == 2


def test_inlining_leaves_no_renamed_variables():
    @I.ir_module
    class Before:
        @R.function(private=True)
        def double(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            with R.dataflow():
                a = R.add(x, x)
                R.output(a)
            return a

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = Before
            y: R.Tensor((4,), "float32") = cls.double(x)
            z: R.Tensor((4,), "float32") = cls.double(y)
            u = R.exp(z)
            return u

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.add(x, x)
                b = R.add(a, a)
                R.output(b)
            u = R.exp(b)
            return u

    verify(transform.InlinePrivateFunctions()(Before), Expected)


def test_the_last_operand_that_is_free_is_overwritten():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 8), "float32")):
            with R.dataflow():
                s = R.split(x, 2, axis=1)
                a = s[0]
                b = R.nn.relu(a)
                c = R.exp(x)
                d = R.multiply(c, c)
                e = R.add(d, d)
                f = R.exp(d)
                g = R.subtract(e, f)
                h = R.sin(g)
                R.output(b, h)
            return (b, h)

    after = transform.DataflowUseInplaceCalls()(Before)
    calls = {
        binding.var.name_hint: [int(index) for index in binding.value.attrs["inplace_indices"]]
        for binding in after["main"].body.blocks[0].bindings
        if getattr(getattr(binding.value, "op", None), "name", "") == "relax.call_tir_inplace"
    }
    assert calls == {"b": [0], "d": [1], "g": [1]}  # e's operand is read later; sine computes elsewhere


def test_kinds_of_operators_and_kernels():
    assert get_op_pattern("relax.add") == OpPatternKind.kBroadcast
    assert get_op_pattern("relax.call_tir") == OpPatternKind.kOpaque

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            y = R.exp(x)
            return y

    legal = transform.LegalizeOps()(Before)
    assert get_op_pattern(Before["main"].body.blocks[0].bindings[0].value) == OpPatternKind.kElemWise
    assert get_op_pattern(legal["tir_exp"]) == OpPatternKind.kElemWise
    assert get_op_pattern(legal["tir_exp"].with_attr("op_pattern", 8)) == OpPatternKind.kOpaque


def test_a_packed_call_returns_what_it_says():
    @I.ir_module
    class Mod:
        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            y = R.call_packed("f", x, sinfo_args=(R.Tensor((4,), "float32"),))
            return y

    assert Mod["main"].ret_struct_info == relax.TensorStructInfo([4], "float32")


@pytest.mark.parametrize(
    ("expr", "name"),
    [
        (lambda x: relax.op.exp(x), "tir_exp"),
        (lambda x: relax.op.square(x), "tir_square"),
        (lambda x: relax.op.clip(x, 0, 1), "tir_clip"),
        (lambda x: relax.op.erf(x), "erf"),
        (lambda x: relax.op.expand_dims(x, [0, -1]), "expand_dims"),
        (lambda x: relax.op.nn.pad(x, [1, 1], "reflect"), "reflect_pad"),
        (lambda x: relax.op.eye_like(relax.op.reshape(x, (2, 2))), "eye_like"),
    ],
)
def test_names_of_kernels(expr, name):
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo([4], "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(expr(x)))
    after = transform.LegalizeOps()(bb.get())
    assert name in {var.name_hint for var in after.functions}


def test_average_pools_count_their_padding_where_the_field_s_do():
    counts = [
        relax.op.nn.avg_pool1d(relax.Var("x", relax.TensorStructInfo([1, 2, 8], "float32"))),
        relax.op.nn.avg_pool2d(relax.Var("x", relax.TensorStructInfo([1, 2, 8, 8], "float32"))),
        relax.op.nn.avg_pool3d(relax.Var("x", relax.TensorStructInfo([1, 2, 8, 8, 8], "float32"))),
    ]
    assert [call.attrs["count_include_pad"] for call in counts] == [True, False, True]
