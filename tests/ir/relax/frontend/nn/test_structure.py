"""The programs that modules are exported to, in script, compared by structure."""

from __future__ import annotations

from typing import Any

from ir import IRModule, assert_structural_equal
from ir.relax.analysis import check_well_formed
from ir.relax.frontend import nn
from ir.relax.frontend.nn import op, spec
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T


def verify(
    module: nn.Module, expected: IRModule, method: str = "forward", debug: bool = True, **inputs: Any
) -> None:
    """The export of one method is the expected module, up to names."""
    mod, _ = module.export_tvm(spec={method: inputs}, debug=debug)
    check_well_formed(mod)
    assert_structural_equal(mod, expected, True)


def test_linear() -> None:
    @I.ir_module
    class Expected:
        @R.function
        def _initialize_effect() -> R.Tuple(R.Object):
            with R.dataflow():
                _io: R.Object = R.null_value()
                lv: R.Tuple(R.Object) = (_io,)
                gv: R.Tuple(R.Object) = lv
                R.output(gv)
            return gv

        @R.function
        def forward(
            x: R.Tensor((1, 4), dtype="float32"),
            _io: R.Object,
            weight: R.Tensor((8, 4), dtype="float32"),
            bias: R.Tensor((8,), dtype="float32"),
        ) -> R.Tuple(R.Tensor((1, 8), dtype="float32"), R.Tuple(R.Object)):
            R.func_attr({"num_input": 2})
            with R.dataflow():
                permute_dims: R.Tensor((4, 8), dtype="float32") = R.permute_dims(weight, axes=None)
                matmul: R.Tensor((1, 8), dtype="float32") = R.matmul(x, permute_dims, out_dtype="void")
                add: R.Tensor((1, 8), dtype="float32") = R.add(matmul, bias)
                gv1: R.Tuple(R.Tensor((1, 8), dtype="float32"), R.Tuple(R.Object)) = (add, (_io,))
                R.output(gv1)
            return gv1

    verify(nn.Linear(4, 8), Expected, x=spec.Tensor((1, 4), "float32"))


def test_without_effects() -> None:
    @I.ir_module
    class Expected:
        @R.function
        def forward(x: R.Tensor(("n", 4), dtype="float32")) -> R.Tensor(("n", 4), dtype="float32"):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                relu = R.nn.relu(x)
                gv = relu
                R.output(gv)
            return gv

    verify(nn.ReLU(), Expected, debug=False, x=spec.Tensor(("n", 4), "float32"))


def test_conv2d_with_bias() -> None:
    @I.ir_module
    class Expected:
        @R.function
        def forward(
            x: R.Tensor((1, 3, 32, 32), dtype="float32"),
            weight: R.Tensor((32, 3, 3, 3), dtype="float32"),
            bias: R.Tensor((32,), dtype="float32"),
        ) -> R.Tensor((1, 32, 30, 30), dtype="float32"):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                lv1 = R.nn.conv2d(x, weight, strides=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1)
                lv2 = R.reshape(bias, R.shape([1, 32, 1, 1]))
                conv2d = R.add(lv1, lv2)
                gv = conv2d
                R.output(gv)
            return gv

    verify(nn.Conv2D(3, 32, 3, bias=True), Expected, debug=False, x=spec.Tensor([1, 3, 32, 32], "float32"))


def test_normalizations() -> None:
    class Model(nn.Module):
        def forward(self, x: nn.Tensor, w: nn.Tensor, b: nn.Tensor) -> Any:
            return op.layer_norm(x, 3, w, b), op.rms_norm(x, w, axes=[-1]), op.softmax(x, axis=2)

    @I.ir_module
    class Expected:
        @R.function
        def forward(
            x: R.Tensor((2, 4, 3), dtype="float32"),
            w: R.Tensor((3,), dtype="float32"),
            b: R.Tensor((3,), dtype="float32"),
        ):
            R.func_attr({"num_input": 3})
            with R.dataflow():
                layer_norm = R.nn.layer_norm(x, w, b, axes=[-1], epsilon=1e-5)
                rms_norm = R.nn.rms_norm(x, w, axes=[-1], epsilon=1e-5)
                softmax = R.nn.softmax(x, axis=2)
                gv = (layer_norm, rms_norm, softmax)
                R.output(gv)
            return gv

    three = spec.Tensor([3], "float32")
    verify(Model(), Expected, debug=False, x=spec.Tensor([2, 4, 3], "float32"), w=three, b=three)


def test_embedding() -> None:
    @I.ir_module
    class Expected:
        @R.function
        def forward(
            x: R.Tensor((1, 4), dtype="int32"), weight: R.Tensor((8, 16), dtype="float32")
        ) -> R.Tensor((1, 4, 16), dtype="float32"):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                reshape = R.reshape(x, R.shape([4]))
                take = R.take(weight, reshape, axis=0)
                reshape1 = R.reshape(take, R.shape([1, 4, 16]))
                gv = reshape1
                R.output(gv)
            return gv

    verify(nn.Embedding(8, 16), Expected, debug=False, x=spec.Tensor((1, 4), "int32"))


def test_kv_cache() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            self.cache = nn.KVCache(8, [2, 4])

        def forward(self, x: nn.Tensor) -> nn.Tensor:
            self.cache.append(x)
            return self.cache.view(4)

    @I.ir_module
    class Expected:
        @R.function
        def _initialize_effect() -> R.Tuple(R.Object, R.Object):
            with R.dataflow():
                _io: R.Object = R.null_value()
                lv: R.Tensor((8, 2, 4), dtype="float32") = R.zeros(R.shape([8, 2, 4]), dtype="float32")
                cache: R.Object = R.call_pure_packed(
                    "vm.builtin.attention_kv_cache_create",
                    lv,
                    R.shape([8, 2, 4]),
                    R.prim_value(0),
                    sinfo_args=(R.Object,),
                )
                lv1: R.Tuple(R.Object, R.Object) = (_io, cache)
                gv: R.Tuple(R.Object, R.Object) = lv1
                R.output(gv)
            return gv

        @R.function
        def forward(x: R.Tensor((2, 4), dtype="float32"), _io: R.Object, cache: R.Object) -> R.Tuple(
            R.Tensor((4, 2, 4), dtype="float32"), R.Tuple(R.Object, R.Object)
        ):
            R.func_attr({"num_input": 3})
            with R.dataflow():
                lv1: R.Object = R.call_inplace_packed(
                    "vm.builtin.attention_kv_cache_append",
                    cache,
                    x,
                    inplace_indices=[0],
                    sinfo_args=(R.Object,),
                )
                lv2: R.Tensor((4, 2, 4), dtype="float32") = R.call_pure_packed(
                    "vm.builtin.attention_kv_cache_view",
                    lv1,
                    R.shape([4, 2, 4]),
                    sinfo_args=(R.Tensor((4, 2, 4), dtype="float32"),),
                )
                gv1 = (lv2, (_io, lv1))
                R.output(gv1)
            return gv1

    verify(Model(), Expected, x=spec.Tensor([2, 4], "float32"))


def test_subroutines() -> None:
    class Activation(nn.Module):
        define_subroutine = True

        def forward(self, state: nn.Tensor) -> nn.Tensor:
            return op.silu(state)

    class Layer(nn.Module):
        define_subroutine = True

        def __init__(self, in_features: int, out_features: int) -> None:
            self.weights = nn.Parameter((in_features, out_features), dtype="float32")
            self.activation = Activation()

        def forward(self, state: nn.Tensor) -> nn.Tensor:
            return self.activation(op.matmul(state, self.weights))

    @I.ir_module
    class Expected:
        @R.function
        def forward(
            state: R.Tensor(("batch_size", 64), dtype="float32"), weights: R.Tensor((64, 32), dtype="float32")
        ) -> R.Tensor(("batch_size", 32), dtype="float32"):
            R.func_attr({"num_input": 1})
            cls = Expected
            with R.dataflow():
                state1 = cls.layer(state, weights)
                gv = state1
                R.output(gv)
            return gv

        @R.function(private=True)
        def layer(
            state: R.Tensor(("batch_size", 64), dtype="float32"), weights: R.Tensor((64, 32), dtype="float32")
        ) -> R.Tensor(("batch_size", 32), dtype="float32"):
            cls = Expected
            with R.dataflow():
                state1 = R.matmul(state, weights)
                state2 = cls.activation(state1)
                gv = state2
                R.output(gv)
            return gv

        @R.function(private=True)
        def activation(
            state: R.Tensor(("batch_size", 32), dtype="float32"),
        ) -> R.Tensor(("batch_size", 32), dtype="float32"):
            with R.dataflow():
                state1 = R.nn.silu(state)
                gv = state1
                R.output(gv)
            return gv

    verify(Layer(64, 32), Expected, debug=False, state=spec.Tensor(("batch_size", 64), "float32"))


def test_chunk_and_external_calls() -> None:
    class Model(nn.Module):
        def forward(self, x: nn.Tensor) -> Any:
            first, second = op.chunk(x, 2, dim=1)
            return op.extern("my.function", [first, second, 3], nn.Tensor.placeholder((2, 2), "float32"))

    @I.ir_module
    class Expected:
        @R.function
        def forward(x: R.Tensor((2, 4), dtype="float32")) -> R.Tensor((2, 2), dtype="float32"):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                chunk = R.split(x, indices_or_sections=2, axis=1)
                chunk_0 = chunk[0]
                chunk_1 = chunk[1]
                out = R.call_dps_packed(
                    "my.function",
                    (chunk_0, chunk_1, R.prim_value(3)),
                    out_sinfo=R.Tensor((2, 2), dtype="float32"),
                )
                gv = out
                R.output(gv)
            return gv

    verify(Model(), Expected, debug=False, x=spec.Tensor([2, 4], "float32"))


def test_timestep_embedding() -> None:
    @I.ir_module
    class Expected:
        @R.function
        def forward(x: R.Tensor((3,), dtype="float32")) -> R.Tensor((3, 10), dtype="float32"):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                lv1 = R.astype(x, dtype="float32")
                lv2 = R.expand_dims(lv1, axis=[1])
                lv3 = R.arange(R.prim_value(0), R.prim_value(5), R.prim_value(1), dtype="float32")
                lv4 = R.multiply(R.const(-9.210340371976184, "float32"), lv3)
                lv5 = R.divide(lv4, R.const(4, "float32"))
                lv6 = R.exp(lv5)
                lv7 = R.expand_dims(lv6, axis=[0])
                lv8 = R.multiply(lv2, lv7)
                lv9 = R.sin(lv8)
                lv10 = R.cos(lv8)
                lv11 = R.concat((lv9, lv10), axis=-1)
                embedding = R.astype(lv11, dtype="float32")
                gv = embedding
                R.output(gv)
            return gv

    verify(nn.Timesteps(10), Expected, debug=False, x=spec.Tensor([3], "float32"))


def test_sampling_kernel_is_in_the_module() -> None:
    class Model(nn.Module):
        def forward(self, prob: nn.Tensor, usample: nn.Tensor, indices: nn.Tensor) -> nn.Tensor:
            return op.multinomial_from_uniform(prob, usample, indices)

    @I.ir_module
    class Expected:
        @T.prim_func(private=True)
        def get_sample_index(A: T.handle, B: T.handle, C: T.handle, D: T.handle):
            batch, vocab_size = T.int64(), T.int64()
            prob = T.match_buffer(A, (batch, vocab_size))
            out_batch = T.int64()
            usample = T.match_buffer(B, (out_batch, 1))
            sample_indices = T.match_buffer(C, (out_batch, 1), "int64")
            output_index = T.match_buffer(D, (out_batch, 1), "int64")
            for ax0, ax1 in T.grid(out_batch, vocab_size):
                with T.block("T_get_sample_index"):
                    v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                    T.writes(output_index[v_ax0, 0])
                    if (
                        usample[v_ax0, T.int64(0)] < prob[sample_indices[v_ax0, T.int64(0)], v_ax1]
                        or v_ax1 + T.int64(1) == vocab_size
                    ):
                        if v_ax1 == T.int64(0):
                            output_index[v_ax0, 0] = T.int64(0)
                        else:
                            if (
                                usample[v_ax0, T.int64(0)]
                                >= prob[sample_indices[v_ax0, T.int64(0)], v_ax1 - T.int64(1)]
                            ):
                                output_index[v_ax0, 0] = v_ax1

        @R.function
        def forward(
            prob: R.Tensor((3, 5), dtype="float32"),
            usample: R.Tensor((6, 1), dtype="float32"),
            indices: R.Tensor((6, 1), dtype="int64"),
        ) -> R.Tensor((6, 1), dtype="int64"):
            R.func_attr({"num_input": 3})
            cls = Expected
            with R.dataflow():
                cumsum = R.cumsum(prob, axis=1, dtype="void", exclusive=False)
                lv1 = R.call_tir(
                    cls.get_sample_index,
                    (cumsum, usample, indices),
                    out_sinfo=R.Tensor((6, 1), dtype="int64"),
                )
                gv = lv1
                R.output(gv)
            return gv

    verify(
        Model(),
        Expected,
        debug=False,
        prob=spec.Tensor([3, 5], "float32"),
        usample=spec.Tensor([6, 1], "float32"),
        indices=spec.Tensor([6, 1], "int64"),
    )
