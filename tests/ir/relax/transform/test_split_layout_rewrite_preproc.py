"""SplitLayoutRewritePreproc: the packing of weights becomes a kernel of its own."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T


def test_split_layout_rewrite_preproc(same_numbers):
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def add(
            x: T.Buffer((8, 4), "float32"), w: T.Buffer((8, 4), "float32"), out: T.Buffer((8, 4), "float32")
        ):
            T.func_attr({"tir.noalias": True, "tir.is_scheduled": True})
            packed = T.alloc_buffer((4, 8))
            for i, j in T.grid(8, 4):
                with T.block("w_reindex"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                    packed[vj, vi] = w[vi, vj]
            for i, j in T.grid(8, 4):
                with T.block("add"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    out[vi, vj] = x[vi, vj] + packed[vj, vi]

        @R.function
        def main(x: R.Tensor((8, 4), "float32"), w: R.Tensor((8, 4), "float32")) -> R.Tensor(
            (8, 4), "float32"
        ):
            cls = Before
            with R.dataflow():
                gv = R.call_tir(cls.add, (x, w), out_sinfo=R.Tensor((8, 4), "float32"))
                R.output(gv)
            return gv

    after = transform.SplitLayoutRewritePreproc()(Before)
    assert sorted(var.name_hint for var in after.functions) == ["add_prepacked", "add_weight_prepack", "main"]
    first, second = after["main"].body.blocks[0].bindings
    assert [int(d.value) for d in first.var.struct_info.shape_values] == [4, 8]
    assert second.value.args[1].fields[1] is first.var
    same_numbers(Before, after, [(8, 4), (8, 4)])


def test_what_is_computed_of_weights_before_they_are_packed_goes_with_it(same_numbers):
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def add(
            x: T.Buffer((8, 4), "float32"), w: T.Buffer((8, 4), "float32"), out: T.Buffer((8, 4), "float32")
        ):
            T.func_attr({"tir.noalias": True, "tir.is_scheduled": True})
            doubled = T.alloc_buffer((8, 4))
            packed = T.alloc_buffer((4, 8))
            for i, j in T.grid(8, 4):
                with T.block("w_doubled"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                    doubled[vi, vj] = w[vi, vj] + w[vi, vj]
            for i, j in T.grid(8, 4):
                with T.block("w_reindex"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                    packed[vj, vi] = doubled[vi, vj]
            for i, j in T.grid(8, 4):
                with T.block("add"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    out[vi, vj] = x[vi, vj] + packed[vj, vi]

        @R.function
        def main(x: R.Tensor((8, 4), "float32"), w: R.Tensor((8, 4), "float32")) -> R.Tensor(
            (8, 4), "float32"
        ):
            cls = Before
            with R.dataflow():
                gv = R.call_tir(cls.add, (x, w), out_sinfo=R.Tensor((8, 4), "float32"))
                R.output(gv)
            return gv

    after = transform.SplitLayoutRewritePreproc()(Before)
    main, prepack = after["add_prepacked"], after["add_weight_prepack"]
    assert not main.body.block.alloc_buffers
    assert [buffer.name for buffer in prepack.body.block.alloc_buffers] == ["doubled"]
    first, _ = after["main"].body.blocks[0].bindings
    assert [int(d.value) for d in first.var.struct_info.shape_values] == [4, 8]
    same_numbers(Before, after, [(8, 4), (8, 4)])
