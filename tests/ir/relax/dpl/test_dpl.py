"""Patterns, matching in expressions and graphs, rewriting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ir
from ir import relax as rx
from ir import tir
from ir.relax.dpl import (
    ExprPatternRewriter,
    FunctionPattern,
    PatternContext,
    PatternMatchingRewriter,
    has_attr,
    has_dtype,
    is_call_dps_packed,
    is_call_tir,
    is_const,
    is_dfv,
    is_expr,
    is_gv,
    is_op,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    make_fused_bias_activation_pattern,
    make_residual_block_pattern,
    rewrite_bindings,
    rewrite_call,
    wildcard,
)
from ir.relax.testing import evaluate

T = rx.TensorStructInfo


def conv_block(bias: bool = True, relu: bool = True) -> rx.Function:
    x, w, b = rx.Var("x", T((1, 3, 8, 8))), rx.Var("w", T((4, 3, 3, 3))), rx.Var("b", T((1, 4, 1, 1)))
    bb = rx.BlockBuilder()
    with bb.function("main", [x, w, b]):
        with bb.dataflow():
            out = bb.emit(rx.op.nn.conv2d(x, w, padding=1))
            if bias:
                out = bb.emit(rx.op.add(out, b))
            if relu:
                out = bb.emit(rx.op.nn.relu(out))
            out = bb.emit_output(out)
        bb.emit_func_output(out)
    return bb.finalize()["main"]


def values_of(func: rx.Function) -> tuple[dict[rx.Var, Any], list[Any]]:
    bindings = func.body.blocks[0].bindings
    return rx.analysis.get_var2val(func), [b.value for b in bindings]


def test_leaves() -> None:
    x = rx.Var("x", T((2, 3)))
    lv = rx.DataflowVar("lv", T((2, 3)))
    assert is_var("x").match(x) and is_var().match(x) and not is_var("y").match(x)
    assert is_dfv().match(lv) and not is_dfv().match(x)
    assert is_gv("f").match(rx.GlobalVar("f")) and not is_gv("g").match(rx.GlobalVar("f"))
    assert is_const().match(rx.const(1)) and not is_const().match(x)
    assert is_expr(x).match(x) and not is_expr(x).match(lv)
    assert wildcard().match(rx.const(1))
    assert is_shape([2, 3]).match(rx.ShapeExpr((2, 3))) and not is_shape([2]).match(rx.ShapeExpr((2, 3)))


def test_tuples() -> None:
    x, y = rx.Var("x", T((2,))), rx.Var("y", T((3,)))
    pair = rx.Tuple([x, y])
    assert is_tuple([is_var("x"), is_var("y")]).match(pair)
    assert not is_tuple([is_var("y"), is_var("x")]).match(pair)
    assert is_tuple([is_var("y"), is_var("x")], unordered=True).match(pair)
    item = rx.TupleGetItem(rx.Var("t", pair.struct_info), 1)
    assert is_tuple_get_item(wildcard()).match(item) and is_tuple_get_item(wildcard(), 1).match(item)
    assert not is_tuple_get_item(wildcard(), 0).match(item)


def test_constraints() -> None:
    n = tir.Var("n", "int64")
    x = rx.Var("x", T((n, 3), "float16"))
    assert has_dtype("float16").match(x) and not has_dtype("float32").match(x)
    assert wildcard().has_shape((n, 3)).match(x) and not wildcard().has_shape((n, 4)).match(x)
    assert wildcard().has_struct_info(T(ndim=2, dtype="float16")).match(x)
    assert not wildcard().has_struct_info(T((2, 3), "float16")).match(x)
    assert (is_var("x") & has_dtype("float16")).match(x)
    assert (is_var("y") | is_var("x")).match(x) and not (~is_var("x")).match(x) and (~is_var("y")).match(x)


def test_calls_look_through_variables() -> None:
    func = conv_block()
    var2val, values = values_of(func)
    data, weight, bias = wildcard(), wildcard(), wildcard()
    conv = is_op("relax.nn.conv2d")(data, weight)
    pattern = is_op("relax.nn.relu")(is_op("relax.add")(conv, bias))
    assert pattern.match(values[2], var2val)
    assert not pattern.match(values[2])  # without the bindings, the argument is just a variable
    found = pattern.extract_matched_expr(values[2], var2val)
    assert found[data] is func.params[0] and found[weight] is func.params[1] and found[bias] is func.params[2]
    assert conv in found and found[pattern] is values[2]
    assert pattern.extract_matched_expr(values[1], var2val) is None


def test_commutative_operands_and_repeated_patterns() -> None:
    x, y = rx.Var("x", T((2,))), rx.Var("y", T((2,)))
    assert is_op("relax.add")(is_var("y"), is_var("x")).match(rx.op.add(x, y))
    assert not is_op("relax.subtract")(is_var("y"), is_var("x")).match(rx.op.subtract(x, y))
    same = wildcard()
    assert (same * same).match(rx.op.multiply(x, x)) and not (same * same).match(rx.op.multiply(x, y))


def test_attributes() -> None:
    _, values = values_of(conv_block())
    conv = is_op("relax.nn.conv2d")(wildcard(), wildcard())
    assert conv.has_attr({"padding": [1, 1, 1, 1], "groups": 1}).match(values[0])
    assert not conv.has_attr({"padding": [0, 0, 0, 0]}).match(values[0])
    assert has_attr({"groups": 1}, conv).match(values[0])


def test_variadic_and_unspecified_arguments() -> None:
    x = rx.Var("x", T((2,)))
    call = rx.op.add(x, x)
    assert is_op("relax.add")(None).match(call)
    assert is_op("relax.add")(wildcard(), varg_default_wildcard=True).match(call)
    assert not is_op("relax.add")(wildcard()).match(call)


def test_call_tir_and_packed() -> None:
    x = rx.Var("x", T((2,)))
    call = rx.call_tir(rx.GlobalVar("f"), [x], T((2,)))
    assert is_call_tir("f").match(call) and is_call_tir("f", [is_var("x")]).match(call)
    assert not is_call_tir("g").match(call) and not is_call_tir("f", [is_var("y")]).match(call)
    packed = rx.call_dps_packed("ext", [x], T((2,)))
    assert is_call_dps_packed("ext").match(packed) and not is_call_dps_packed("other").match(packed)


def test_ready_made_patterns() -> None:
    for bias in (False, True):
        for relu in (False, True):
            var2val, values = values_of(conv_block(bias, relu))
            pattern = make_fused_bias_activation_pattern(
                "relax.nn.conv2d", bias, "relax.nn.relu" if relu else None
            )
            assert pattern.match(values[bias + relu], var2val)
    var2val, values = values_of(conv_block())
    residual = make_residual_block_pattern(is_op("relax.nn.conv2d")(wildcard(), wildcard()))
    assert residual.match(values[2], var2val)


def test_optional() -> None:
    conv = is_op("relax.nn.conv2d")(wildcard(), wildcard())
    pattern = conv.optional(lambda p: is_op("relax.add")(p, wildcard()))
    for bias in (False, True):
        var2val, values = values_of(conv_block(bias, False))
        assert pattern.match(values[int(bias)], var2val)


def test_dup_matches_independently() -> None:
    x, y = rx.Var("x", T((2,))), rx.Var("y", T((2,)))
    p = wildcard()
    assert (p + p.dup()).match(rx.op.add(x, y)) and not (p + p).match(rx.op.add(x, y))


# graphs


def qkv() -> rx.Function:
    x = rx.Var("x", T((5, 4)))
    weights = [rx.Var(f"w{i}", T((4, 3))) for i in range(3)]
    bb = rx.BlockBuilder()
    with bb.function("main", [x, *weights]):
        with bb.dataflow():
            parts = [bb.emit(rx.op.matmul(x, w)) for w in weights]
            out = bb.emit_output(rx.op.add(rx.op.add(parts[0], parts[1]), parts[2]))
        bb.emit_func_output(out)
    return bb.finalize()["main"]


def test_graph_matching() -> None:
    func = qkv()
    with PatternContext() as ctx:
        x, w = wildcard(), [wildcard() for _ in range(3)]
        products = [is_op("relax.matmul")(x, item) for item in w]
    found = ctx.match_dfb(func.body.blocks[0])
    assert found is not None
    assert found[x] is func.params[0]
    assert {found[item] for item in w} == set(func.params[1:])
    assert len({found[p] for p in products}) == 3


def test_only_used_by() -> None:
    x = rx.Var("x", T((2,)))

    def block(second_use: bool) -> Any:
        bb = rx.BlockBuilder()
        with bb.function("main", [x]):
            with bb.dataflow():
                a = bb.emit(rx.op.abs(x))
                b = bb.emit(rx.op.exp(a))
                out = bb.emit_output(rx.op.add(b, a) if second_use else rx.op.add(b, b))
            bb.emit_func_output(out)
        return bb.finalize()["main"].body.blocks[0]

    with PatternContext() as ctx:
        inner, outer = is_op("relax.abs")(None), is_op("relax.exp")(None)
        inner.only_used_by(outer, 0)
    assert ctx.match_dfb(block(False)) is not None
    assert ctx.match_dfb(block(True)) is None
    with PatternContext() as loose:
        _ = inner ^ outer
    with PatternContext() as strict:
        _ = inner >> outer
    assert loose.match_dfb(block(True)) is not None
    assert strict.match_dfb(block(True)) is None


def test_sequences_duplicate_with_their_constraints() -> None:
    x = rx.Var("x", T((2,)))
    bb = rx.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            ends = [bb.emit(rx.op.exp(bb.emit(rx.op.abs(x)))) for _ in range(2)]
            out = bb.emit_output(rx.op.add(*ends))
        bb.emit_func_output(out)
    func = bb.finalize()["main"]
    with PatternContext() as ctx:
        first = is_op("relax.abs")(None) >> is_op("relax.exp")(None)
        second = first.dup()
        source = is_var("x")
        source.fork_to(first, second)
    found = ctx.match_dfb(func.body.blocks[0])
    assert found is not None and found[source] is x
    assert len({found[p] for p in (*first.patterns, *second.patterns)}) == 4
    assert {found[first[1]], found[second[1]]} == set(ends)


def test_used_by_outside_a_context() -> None:
    with pytest.raises(ir.IRValueError, match="PatternContext"):
        wildcard().used_by(wildcard())


def test_rewrite_bindings_combines_products() -> None:
    func = qkv()
    with PatternContext() as ctx:
        x, w = wildcard(), [wildcard() for _ in range(3)]
        products = [is_op("relax.matmul")(x, item) for item in w]

    def rewriter(matched: dict, values: dict) -> dict:
        joined = rx.op.concat([matched[item] for item in w], axis=1)
        product = rx.op.matmul(matched[x], joined)
        return {
            matched[p]: rx.op.strided_slice(product, [1], [3 * i], [3 * i + 3])
            for i, p in enumerate(products)
        }

    new = rewrite_bindings(ctx, rewriter, func)
    assert rx.analysis.well_formed(new)
    names = [b.value.op.name for b in new.body.blocks[0].bindings]
    assert (
        names.count("relax.matmul") == 1
        and names.count("relax.concat") == 1
        and names.count("relax.strided_slice") == 3
    )
    args = [
        np.random.default_rng(i).normal(size=s).astype("float32")
        for i, s in enumerate([(5, 4), (4, 3), (4, 3), (4, 3)])
    ]
    np.testing.assert_allclose(evaluate(new, *args), evaluate(func, *args), rtol=1e-5)


# rewriting of expressions


def test_rewrite_call_replaces_and_removes() -> None:
    func = conv_block()
    data, weight, bias = wildcard(), wildcard(), wildcard()
    pattern = is_op("relax.nn.relu")(is_op("relax.add")(is_op("relax.nn.conv2d")(data, weight), bias))

    def rewriter(expr: Any, matches: dict) -> Any:
        return rx.op.nn.gelu(rx.op.nn.conv2d(matches[data], matches[weight], padding=1))

    new = rewrite_call(pattern, rewriter, func)
    assert [b.value.op.name for b in new.body.blocks[0].bindings if isinstance(b.value, rx.Call)] == [
        "relax.nn.conv2d",
        "relax.nn.gelu",
    ]
    assert rx.analysis.well_formed(new)


def test_rewrite_call_without_a_match_returns_the_function() -> None:
    func = conv_block()
    pattern = is_op("relax.exp")(wildcard())
    assert rewrite_call(pattern, lambda expr, matches: expr, func) is func
    everything = is_op("relax.nn.relu")(wildcard())
    assert rewrite_call(everything, lambda expr, matches: expr, func) is func


def test_rewrite_call_reaches_a_fixed_point() -> None:
    x = rx.Var("x", T((2,)))
    bb = rx.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            value = x
            for _ in range(4):
                value = bb.emit(rx.op.negative(value))
            out = bb.emit_output(value)
        bb.emit_func_output(out)
    inner = wildcard()
    pattern = is_op("relax.negative")(is_op("relax.negative")(inner))
    new = rewrite_call(pattern, lambda expr, matches: matches[inner], bb.finalize()["main"])
    assert all(not isinstance(b.value, rx.Call) for block in new.body.blocks for b in block.bindings)
    assert evaluate(new, np.ones(2, "float32")).tolist() == [1, 1]


def test_rewriters_compose() -> None:
    x = wildcard()
    no_abs = PatternMatchingRewriter.from_pattern(is_op("relax.abs")(x), lambda expr, m: rx.op.negative(m[x]))
    y = wildcard()
    no_negative = ExprPatternRewriter(is_op("relax.negative")(y), lambda expr, m: rx.op.exp(m[y]))
    v = rx.Var("v", T((2,)))
    bb = rx.BlockBuilder()
    with bb.function("main", [v]):
        with bb.dataflow():
            out = bb.emit_output(rx.op.abs(v))
        bb.emit_func_output(out)
    new = (no_abs | no_negative)(bb.finalize())
    assert new["main"].body.blocks[0].bindings[0].value.op.name == "relax.exp"


def test_rewriter_of_a_module() -> None:
    a, b = rx.Var("a", T((2,))), rx.Var("b", T((2,)))
    bb = rx.BlockBuilder()
    with bb.function("pattern", [a, b], private=True):
        bb.emit_func_output(bb.emit(rx.op.add(rx.op.negative(a), b)))
    c, d = rx.Var("c", T((2,))), rx.Var("d", T((2,)))
    with bb.function("replacement", [c, d], private=True):
        bb.emit_func_output(bb.emit(rx.op.subtract(d, c)))
    rewriter = PatternMatchingRewriter.from_module(bb.finalize())
    x, y = rx.Var("x", T((2,))), rx.Var("y", T((2,)))
    main = rx.BlockBuilder()
    with main.function("main", [x, y]):
        with main.dataflow():
            out = main.emit_output(rx.op.add(rx.op.negative(x), y))
        main.emit_func_output(out)
    new = rewriter(main.finalize()["main"])
    (binding,) = new.body.blocks[0].bindings
    assert binding.value.op.name == "relax.subtract" and binding.value.args == (y, x)


def test_rewriter_of_several_outputs() -> None:
    def pair(name: str, join: bool) -> tuple[rx.Var, rx.Var, rx.Var]:
        return rx.Var("x", T((5, 4))), rx.Var("u", T((4, 3))), rx.Var("v", T((4, 3)))

    bb = rx.BlockBuilder()
    x, u, v = pair("pattern", False)
    with bb.function("pattern", [x, u, v], private=True):
        bb.emit_func_output(rx.Tuple([bb.emit(rx.op.matmul(x, u)), bb.emit(rx.op.matmul(x, v))]))
    x, u, v = pair("replacement", True)
    with bb.function("replacement", [x, u, v], private=True):
        product = bb.emit(rx.op.matmul(x, rx.op.concat([u, v], 1)))
        parts = bb.emit(rx.op.split(product, 2, 1))
        bb.emit_func_output(rx.Tuple([parts[0], parts[1]]))
    rewriter = PatternMatchingRewriter.from_module(bb.finalize())
    func = qkv()
    new = rewriter(func)
    names = [b.value.op.name for b in new.body.blocks[0].bindings if isinstance(b.value, rx.Call)]
    assert (
        names.count("relax.concat") == 1
        and names.count("relax.split") == 1
        and names.count("relax.matmul") == 2
    )
    assert rx.analysis.well_formed(new)
    args = [
        np.random.default_rng(i).normal(size=s).astype("float32")
        for i, s in enumerate([(5, 4), (4, 3), (4, 3), (4, 3)])
    ]
    np.testing.assert_allclose(evaluate(new, *args), evaluate(func, *args), rtol=1e-5)


def test_graph_patterns_take_different_arguments_of_one_consumer() -> None:
    inputs = [rx.Var(name, T((2,))) for name in "xyz"]
    bb = rx.BlockBuilder()
    with bb.function("main", inputs):
        with bb.dataflow():
            parts = [bb.emit(rx.op.exp(item)) for item in inputs]
            out = bb.emit_output(rx.op.ewise_fma(*parts))
        bb.emit_func_output(out)
    block = bb.finalize()["main"].body.blocks[0]
    with PatternContext() as ctx:
        total = is_op("relax.ewise_fma")(*[wildcard() for _ in range(3)], add_constraint=False)
        powers = [is_op("relax.exp")(wildcard()) for _ in range(3)]
        for power in powers:
            power.used_by(total)
    found = ctx.match_dfb(block)
    assert found is not None
    assert {found[power].name_hint for power in powers} == {part.name_hint for part in parts}


def test_graph_patterns_take_different_variables() -> None:
    x = rx.Var("x", T((2,)))
    bb = rx.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            first = bb.emit(rx.op.exp(bb.emit(rx.op.abs(x))))
            second = bb.emit(rx.op.exp(bb.emit(rx.op.negative(x))))
            out = bb.emit_output(rx.op.add(first, second))
        bb.emit_func_output(out)
    with PatternContext() as ctx:
        powers = [is_op("relax.exp")(None) for _ in range(2)]
        for name, power in zip(("abs", "negative"), powers, strict=True):
            is_op(f"relax.{name}")(None).used_by(power)
    found = ctx.match_dfb(bb.finalize()["main"].body.blocks[0])
    assert found is not None
    assert [found[power] for power in powers] == [first, second]


def test_functions_match_by_parameters_and_result() -> None:
    func = qkv()
    assert not FunctionPattern([wildcard()], wildcard()).match(func)
    assert FunctionPattern([wildcard() for _ in func.params], wildcard()).match(func)
    assert FunctionPattern(None, wildcard()).match(func)
    assert not FunctionPattern(None, wildcard()).match(func.params[0])
