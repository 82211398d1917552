"""Every documented name of the nn library exists with the documented parameters, order and defaults."""
# ruff: noqa: E501

from __future__ import annotations

import inspect

import pytest

from ir.relax.frontend import nn

# As in the reference documents; where the two differ, the newer one, which has more parameters.
SIGNATURES = [
    "Conv1D(in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, dtype=None)",
    "Conv2D(in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, dtype=None, data_layout='NCHW')",
    "Conv3D(in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, dtype=None, data_layout='NCDHW')",
    "ConvTranspose1D(in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, dilation=1, groups=1, bias=True, dtype=None)",
    "Embedding(num, dim, dtype=None)",
    "ExternModule(symbols)",
    "GroupNorm(num_groups, num_channels, eps=1e-05, affine=True, dtype=None)",
    "KVCache(init_seq_len, unit_shape, dtype=None)",
    "LayerNorm(normalized_shape, eps=1e-05, elementwise_affine=True, dtype=None)",
    "Linear(in_features, out_features, bias=True, dtype=None, out_dtype=None)",
    "ModuleList(modules)",
    "Object(*, _expr, _name)",
    "ObjectModule(symbols, filepath)",
    "Parameter(shape, dtype=None)",
    "RMSNorm(hidden_size, axes, epsilon=1e-05, bias=True, dtype=None)",
    "SourceModule(symbols, source_code, source_format, compile_options=None, compiler=None, output_format='obj')",
    "Tensor(*, _expr)",
    "add(a, b, name='add')",
    "add_extern(mod)",
    "argsort(data, axis=-1, descending=False, dtype='int32', name='argsort')",
    "astype(x, dtype, name='astype')",
    "broadcast_to(x, shape, name='broadcast_to')",
    "ccl_allgather(x, num_workers, name='ccl_allgather')",
    "ccl_allreduce(x, op_type='sum', in_group=True, name='ccl_allreduce')",
    "ccl_broadcast_from_worker0(x, name='broadcast_from_worker')",
    "chunk(x, chunks, dim=0, name='chunk')",
    "concat(x, dim, name='concat')",
    "conv1d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, name='conv1d')",
    "conv1d_transpose(x, weight, bias=None, stride=1, padding=0, output_padding=0, dilation=1, groups=1, name='conv1d_transpose')",
    "conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, data_layout='NCHW', name='conv2d')",
    "conv3d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, data_layout='NCDHW', name='conv3d')",
    "cumsum(data, axis=None, dtype=None, exclusive=None, name='cumsum')",
    "debug_func(name, *args, _line_info=None)",
    "divide(a, b, name='divide')",
    "empty(shape, dtype='float32', name='empty')",
    "equal(a, b, name='equal')",
    "exp(x, name='exp')",
    "extern(name, args, out)",
    "full(shape, fill_value, dtype='float32', name='full')",
    "gelu(x, approximate=None, name='gelu')",
    "get_default_dtype()",
    "get_timestep_embedding(x, embedding_dim, flip_sin_to_cos=False, downscale_freq_shift=1, scale=1, max_period=10000, name='get_timestep_embedding')",
    "greater(a, b, name='greater')",
    "greater_equal(a, b, name='greater_equal')",
    "group_norm(x, num_groups, weight, bias, eps=1e-05, channel_axis=1, axes=None, name='group_norm')",
    "interpolate(x, size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None, antialias=None, data_layout='NCHW', name='interpolate')",
    "layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-05, name='layer_norm')",
    "less(a, b, name='less')",
    "less_equal(a, b, name='less_equal')",
    "matmul(a, b, out_dtype=None, name='matmul')",
    "maximum(x1, x2, name='maximum')",
    "minimum(x1, x2, name='minimum')",
    "multinomial_from_uniform(prob, uniform_sample, sample_indices=None, dtype='int64', name='multinomial_from_uniform')",
    "multiply(a, b, name='mul')",
    "negative(x, name='neg')",
    "not_equal(a, b, name='not_equal')",
    "ones(shape, dtype='float32', name='ones')",
    "pad(x, pad, mode='constant', value=0.0, name='pad')",
    "permute(x, axes, name='permute')",
    "permute_dims(x, axes=None, name=None)",
    "print_(tensor)",
    "relu(x, name='relu')",
    "renormalize_top_p_top_k_prob(prob, sorted_prob, top_p, top_k)",
    "repeat(x, repeats, axis=None, name='repeat')",
    "reshape(x, shape, name='reshape')",
    "rms_norm(x, weight, axes, epsilon=1e-05, name='rms_norm')",
    "sample_top_p_top_k_from_sorted_prob(sorted_prob, sorted_index, top_p, top_k, uniform_sample, sample_indices=None)",
    "scaled_dot_product_attention(query, key, value, attn_mask=None, is_causal=False, scale=None, name='scaled_dot_product_attention')",
    "sigmoid(x, name='sigmoid')",
    "silu(x, name='silu')",
    "softmax(x, axis=-1, name='softmax')",
    "sort(x, axis=-1, descending=False, name='sort')",
    "split(ary, indices_or_sections, axis=0, name='split')",
    "sqrt(x, name='sqrt')",
    "square(x, name='square')",
    "squeeze(x, axis=-1, name='squeeze')",
    "subtract(a, b, name='subtract')",
    "sum(x, axis=None, keepdims=False, name='sum')",
    "take(x, indices, axis=None, name='take')",
    "tanh(x, name='tanh')",
    "tensor_expr_op(tensor_expr_func, name_hint, args, *, attrs=None)",
    "tensor_ir_inplace_op(func, name_hint, args, inplace_indices, out)",
    "tensor_ir_op(func, name_hint, args, out)",
    "topk(data, k=1, axis=-1, ret_type='both', largest=True, dtype='int32', name='topk')",
    "triu(x, diagonal=0, name='triu')",
    "unsqueeze(x, dim, name='unsqueeze')",
    "where(condition, x1, x2, name='where')",
    "wrap_nested(expr, name)",
    "zeros(shape, dtype='float32', name='zeros')",
]
METHODS = [
    "Effect.create(self, name_hint)",
    "Effect.emit_init(self, name_hint, builder)",
    "Effect.finalize(self)",
    "Effect.set_state(self, state_vars)",
    "Effect.to(self, dtype=None)",
    "IOEffect.emit_init(self, name_hint, builder)",
    "KVCache.append(self, new_element)",
    "KVCache.emit_init(self, name_hint, bb)",
    "KVCache.view(self, seq_len)",
    "Module.export_tvm(self, spec, debug=False, allow_extern=False)",
    "Module.jit(self, spec, device='cpu', pipeline='default_build', out_format='torch', debug=False)",
    "Module.load_state_dict(self, state_dict, strict=True)",
    "Module.named_parameters(self, prefix='')",
    "Module.parameters(self)",
    "Module.state_dict(self, *, prefix='', destination=None)",
    "Module.to(self, dtype=None)",
    "ModuleList.append(self, module)",
    "ModuleList.forward(self, x)",
    "Mutator.visit(self, name, node)",
    "Mutator.visit_effect(self, name, node)",
    "Mutator.visit_module(self, name, node)",
    "Mutator.visit_modulelist(self, name, node)",
    "Mutator.visit_param(self, name, node)",
    "ObjectModule.load(self)",
    "SourceModule.compile(self, output_path)",
    "SourceModule.get_compile_options(source_format, tvm_pkg=None)",
    "SourceModule.get_includes(tvm_pkg=None)",
    "SourceModule.tvm_home()",
    "Tensor.from_const(data)",
    "Tensor.from_scalar(data, dtype)",
    "Tensor.from_struct_info(struct_info, name='tensor')",
    "Tensor.placeholder(shape, dtype, name='tensor')",
]


def written(name: str, function: object) -> str:
    """A signature without annotations."""
    signature = inspect.signature(function)  # type: ignore[arg-type]
    bare = [item.replace(annotation=inspect.Parameter.empty) for item in signature.parameters.values()]
    return name + str(inspect.Signature(bare))


@pytest.mark.parametrize("expected", SIGNATURES, ids=lambda text: text.split("(")[0])
def test_functions_and_classes(expected: str) -> None:
    name = expected.split("(")[0]
    assert written(name, getattr(nn, name)) == expected


@pytest.mark.parametrize("expected", METHODS, ids=lambda text: text.split("(")[0])
def test_methods(expected: str) -> None:
    owner, _, rest = expected.partition(".")
    name = rest.split("(")[0]
    assert written(f"{owner}.{name}", getattr(getattr(nn, owner), name)) == expected


def test_layers_without_parameters() -> None:
    for name in ("ReLU", "SiLU", "GELU", "Identity", "SubroutineMixin", "TypeVar"):
        assert hasattr(nn, name)


def test_functions_are_in_op_too() -> None:
    for expected in SIGNATURES:
        name = expected.split("(")[0]
        if name[0].islower() and name not in ("add_extern", "get_default_dtype"):
            assert getattr(nn.op, name) is getattr(nn, name)
