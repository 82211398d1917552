"""Which values share memory, and what calls do to it: through operators, kernels, functions, branches and closures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ir
import runners
from ir import relax as rx
from ir.relax import transform
from ir.relax.analysis.memory import Aliases, MemoryAnalysis, is_pure, is_removable
from ir.relax.expr import is_call_to
from ir.relax.frontend import nn
from ir.relax.op.memory_effect import (
    EFFECT,
    FRESH,
    IDENTITY,
    OPAQUE,
    MemoryEffect,
    View,
    declare_external,
    reuses,
    view_of,
    writes,
)
from ir.relax.testing import evaluate
from ir.script import from_source
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T


def aliases_of(mod: ir.IRModule, name: str = "main") -> tuple[Aliases, dict[str, rx.Var]]:
    func = mod[name]
    variables = {var.name_hint: var for var in rx.analysis.all_vars(func)}
    return MemoryAnalysis(mod).aliases(func), variables


def test_effects_are_joined_and_moved() -> None:
    effect = view_of(0) | writes(0) | IDENTITY
    assert effect == MemoryEffect(views=(View((0,)),), writes=((0,),), identity=True)
    assert effect.among((1,)) == MemoryEffect(views=(View((1, 0)),), writes=((1, 0),), identity=True)
    assert effect.among((), 2).views == (View((2,)),)
    assert effect.pure and not effect.repeatable
    assert not EFFECT.pure and OPAQUE.opaque and not EFFECT.opaque
    assert OPAQUE.promised_pure().pure
    assert FRESH.repeatable and view_of(0).repeatable and reuses(0, 1).repeatable
    assert not (writes(0).repeatable or IDENTITY.repeatable or EFFECT.repeatable)


def test_views_share_memory_and_fresh_results_do_not() -> None:
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            a = R.add(x, y)
            b = R.reshape(a, R.shape([6]))
            c = R.expand_dims(b, axis=[0])
            d = R.permute_dims(a)
            e = (c, d)
            f = e[0]
            g = e[1]
            return (f, g)

    aliases, v = aliases_of(Mod)
    assert aliases.sharing(v["a"]) >= {v["a"], v["b"], v["c"], v["f"]}
    assert not aliases.may_alias(v["a"], v["d"]) and not aliases.may_alias(v["f"], v["g"])
    assert aliases.may_alias(v["a"], v["e"]) and aliases.may_alias(v["g"], v["e"])
    assert aliases.may_alias(v["x"], v["y"]), "a caller may give the same tensor twice"
    assert aliases.belongs_to_caller(v["x"]) and not aliases.belongs_to_caller(v["f"])
    assert aliases.belongs_to_caller(rx.const([1.0]))


def test_fields_of_results() -> None:
    @I.ir_module
    class Mod:
        @R.function
        def main(
            x: R.Tensor((2, 3), "float32"),
            s: R.Tensor((3,), "float32"),
            t: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32")),
        ):
            bn = R.nn.batch_norm(x, s, s, s, s, axis=1)
            y = bn[0]
            mean = bn[1]
            parts = R.split(x, 3, axis=1)
            first = parts[0]
            second = parts[1]
            left = t[0]
            dropped = R.nn.dropout(x)
            same = dropped[0]
            mask = dropped[1]
            return (y, mean, first, second, left, same, mask)

    aliases, v = aliases_of(Mod)
    assert aliases.may_alias(v["mean"], v["s"]) and not aliases.belongs_to_caller(v["y"])
    assert not aliases.may_alias(v["first"], v["second"]) and not aliases.may_alias(v["first"], v["x"])
    assert {root.path for root in aliases.roots(v["left"])} == {(0,)}
    assert aliases.may_alias(v["same"], v["x"]) and not aliases.may_alias(v["mask"], v["x"])


def test_branches_and_casts() -> None:
    @I.ir_module
    class Mod:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
            n = T.int64()
            new = R.exp(x)
            other = R.exp(new)
            if c:
                y = R.reshape(x, R.shape([4]))
            else:
                y = new
            z = R.match_cast(y, R.Tensor((n,), "float32"))
            return (z, other)

    aliases, v = aliases_of(Mod)
    func = Mod["main"]
    result = func.body.body
    assert aliases.belongs_to_caller(v["z"]) and aliases.may_alias(v["z"], v["new"])
    assert not aliases.may_alias(v["z"], v["other"])
    assert aliases.roots(result) >= aliases.roots(v["z"])


def test_in_place_calls_write_what_they_return() -> None:
    @I.ir_module
    class Mod:
        @T.prim_func(private=True)
        def both(a: T.handle, b: T.handle, c: T.handle):
            A, B, C = T.match_buffer(a, (4,)), T.match_buffer(b, (4,)), T.match_buffer(c, (4,))
            for i in range(4):
                with T.block("b"):
                    vi = T.axis.remap("S", [i])
                    B[vi] = A[vi] + B[vi]
                    C[vi] = A[vi]

        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            cls = Mod
            out = R.call_tir_inplace(
                cls.both,
                (x, y),
                out_sinfo=[R.Tensor((4,), "float32"), R.Tensor((4,), "float32")],
                inplace_indices=[1, -1],
            )
            first = out[0]
            second = out[1]
            return (first, second)

    aliases, v = aliases_of(Mod)
    assert {root.owner for root in aliases.written} == {v["y"]}
    assert aliases.roots(v["first"]) == aliases.roots(v["y"])
    assert not aliases.belongs_to_caller(v["second"])
    summary = MemoryAnalysis(Mod).summary(Mod["main"])
    assert summary.views == (View((1,), (0,)),) and summary.writes == ((1,),) and summary.pure


def test_kernels_tell_what_they_write() -> None:
    @I.ir_module
    class Mod:
        @T.prim_func
        def copy(a: T.Buffer((4,)), b: T.Buffer((4,))):
            for i in range(4):
                with T.block("b"):
                    vi = T.axis.remap("S", [i])
                    b[vi] = a[vi]

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            cls = Mod
            y = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0))
            z = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0))
            _ = cls.copy(x, y)
            _1 = R.vm.call_tir_dyn(cls.copy, (x, z))
            _2 = R.memory.kill_tensor(y)
            return z

    aliases, v = aliases_of(Mod)
    assert aliases.written == aliases.roots(v["y"]) | aliases.roots(v["z"])
    assert aliases.released == aliases.roots(v["y"])
    assert not aliases.may_alias(v["y"], v["z"])
    assert aliases.has_identity


def test_called_functions_return_their_arguments() -> None:
    @I.ir_module
    class Mod:
        @R.function(private=True)
        def second(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            gv = R.reshape(y, R.shape([4]))
            return gv

        @R.function(private=True)
        def through(x: R.Tensor((4,), "float32")) -> R.Tuple(
            R.Tensor((4,), "float32"), R.Tensor((4,), "float32")
        ):
            cls = Mod
            a = R.exp(x)
            b = cls.second(a, x)
            return (a, b)

        @R.function(private=True)
        def forever(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Mod
            y: R.Tensor((4,), "float32") = cls.forever(x)
            return y

        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            cls = Mod
            a = R.exp(x)
            b = R.exp(y)
            c = cls.second(a, b)
            d = cls.through(b)
            e = d[0]
            f = d[1]
            g = cls.forever(a)
            return (c, e, f, g)

    aliases, v = aliases_of(Mod)
    assert aliases.may_alias(v["c"], v["b"]) and not aliases.may_alias(v["c"], v["a"])
    assert aliases.may_alias(v["f"], v["b"]) and not aliases.may_alias(v["e"], v["b"])
    assert not aliases.may_alias(v["g"], v["a"]), "what never returns returns nothing of its argument"
    alone = MemoryAnalysis().aliases(Mod["main"])
    assert alone.may_alias(v["c"], v["a"]), "without the module, a callee may return any argument"


def test_functions_that_call_each_other() -> None:
    """What they return and write is the least that agrees with what they do."""

    @I.ir_module
    class Mod:
        @T.prim_func(private=True)
        def clear(a: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("b"):
                    vi = T.axis.remap("S", [i])
                    a[vi] = T.float32(0)

        @R.function(private=True)
        def odd(
            c: R.Tensor((), "bool"),
            x: R.Tensor((4,), "float32"),
            y: R.Tensor((4,), "float32"),
            z: R.Tensor((4,), "float32"),
        ) -> R.Tensor((4,), "float32"):
            cls = Mod
            if c:
                r: R.Tensor((4,), "float32") = cls.even(c, y, x, z)
            else:
                r: R.Tensor((4,), "float32") = R.reshape(x, R.shape([4]))
            return r

        @R.function(private=True)
        def even(
            c: R.Tensor((), "bool"),
            x: R.Tensor((4,), "float32"),
            y: R.Tensor((4,), "float32"),
            z: R.Tensor((4,), "float32"),
        ) -> R.Tensor((4,), "float32"):
            cls = Mod
            w = R.call_tir_inplace(cls.clear, (z,), out_sinfo=R.Tensor((4,), "float32"), inplace_indices=[0])
            r: R.Tensor((4,), "float32") = cls.odd(c, x, y, w)
            return r

        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
            cls = Mod
            a = R.exp(x)
            b = R.exp(a)
            d = R.exp(b)
            e = cls.even(c, a, b, d)
            return e

    aliases, v = aliases_of(Mod)
    assert aliases.may_alias(v["e"], v["a"]) and aliases.may_alias(v["e"], v["b"])
    assert not aliases.may_alias(v["e"], v["d"]) and not aliases.belongs_to_caller(v["e"])
    assert aliases.is_written(v["d"]) and not aliases.is_written(v["a"], v["b"], v["x"])


class _Counting(MemoryAnalysis):
    """Counts how many functions are looked into."""

    walks = 0

    def aliases(self, func: Any) -> Aliases:
        self.walks += 1
        return super().aliases(func)


def _chain(depth: int, last: str) -> tuple[ir.IRModule, list[ir.GlobalVar]]:
    """Functions f0, f1, ... that return what the next one gives for their argument; the last one calls ``last`` or returns it."""
    info = rx.TensorStructInfo((4,), "float32")
    mod = ir.IRModule()
    variables = [ir.GlobalVar(f"f{number}", rx.FuncStructInfo([info], info)) for number in range(depth)]
    named = {variable.name_hint: variable for variable in variables}
    for variable, callee in zip(variables, [*variables[1:], named.get(last)], strict=True):
        x, y = rx.Var("x", info), rx.Var("y", info)
        value = x if callee is None else rx.Call(callee, [x], sinfo_args=[info])
        mod[variable] = rx.Function([x], rx.SeqExpr([rx.BindingBlock([rx.VarBinding(y, value)])], y), info)
    return mod, variables


@pytest.mark.parametrize(("last", "walks"), [("", 40), ("f39", 41), ("f0", 80)])
def test_a_chain_of_calls_is_looked_into_once(last: str, walks: int) -> None:
    """Not twice for each function on the way, whose work would double with each call."""
    mod, variables = _chain(40, last)
    analysis = _Counting(mod)
    effect = analysis.effect_of_function(variables[0])
    assert effect.views == ((View((0,)),) if not last else ()), (
        "what never returns returns nothing of its argument"
    )
    assert analysis.walks <= walks


def test_local_functions_are_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    walks = []
    walk = Aliases.__init__
    monkeypatch.setattr(Aliases, "__init__", lambda *args: (walks.append(1), walk(*args))[1])
    info = rx.TensorStructInfo((4,), "float32")

    def nested(depth: int) -> rx.Function:
        x, y, f = rx.Var("x", info), rx.Var("y", info), rx.Var("f", rx.FuncStructInfo([info], info))
        if depth == 0:
            return rx.Function([x], rx.SeqExpr([], x), info)
        bindings = [rx.VarBinding(f, nested(depth - 1)), rx.VarBinding(y, rx.Call(f, [x], sinfo_args=[info]))]
        return rx.Function([x], rx.SeqExpr([rx.BindingBlock(bindings)], y), info)

    effect = MemoryAnalysis().summary(nested(30))
    assert effect.views == (View((0,)),) and len(walks) == 31


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param({"a": ["b"], "b": ["c", "a swapped"], "c": ["b"]}, id="a circle in a circle"),
        pytest.param(
            {"a": ["c", "b swapped"], "b": ["c"], "c": ["a"]}, id="a result that is asked for twice"
        ),
    ],
)
def test_effects_of_functions_that_call_each_other_are_settled_together(calls: dict[str, list[str]]) -> None:
    """What follows from an assumption that proves wrong is found again, also where an inner circle has settled on it.

    Each function returns its first parameter or the result of one of its calls, which get its parameters, one of them swapped: so
    that each of them may return both.
    """
    info, boolean = rx.TensorStructInfo((4,), "float32"), rx.PrimStructInfo("bool")
    variables = {name: ir.GlobalVar(name, rx.FuncStructInfo([info, info], info)) for name in calls}
    mod = ir.IRModule()
    for name, callees in calls.items():
        x, y = rx.Var("x", info), rx.Var("y", info)
        result, bindings = x, []
        for number, callee in enumerate(callees):
            condition, call, joined = (
                rx.Var("p", boolean),
                rx.Var(f"r{number}", info),
                rx.Var(f"j{number}", info),
            )
            args = [y, x] if callee.endswith("swapped") else [x, y]
            bindings += [
                rx.VarBinding(condition, rx.PrimValue(ir.tir.const(True, "bool"))),
                rx.VarBinding(call, rx.Call(variables[callee[0]], args, sinfo_args=[info])),
                rx.VarBinding(joined, rx.If(condition, rx.SeqExpr([], call), rx.SeqExpr([], result))),
            ]
            result = joined
        mod[variables[name]] = rx.Function([x, y], rx.SeqExpr([rx.BindingBlock(bindings)], result), info)
    for start in calls:
        analysis = MemoryAnalysis(mod)
        analysis.effect_of_function(variables[start])
        for name, variable in variables.items():
            assert analysis.effect_of_function(variable).views == (View((0,)), View((1,))), (start, name)


def test_writes_that_are_seen_are_kept() -> None:
    """A call that overwrites a parameter, or what is read later, is there for that, though nobody uses its result."""

    @I.ir_module
    class Mod:
        @T.prim_func(private=True)
        def clear(a: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("b"):
                    vi = T.axis.remap("S", [i])
                    a[vi] = T.float32(0)

        @R.function(private=True)
        def wipe(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Mod
            gone = R.call_tir_inplace(
                cls.clear, (a,), out_sinfo=R.Tensor((4,), "float32"), inplace_indices=[0]
            )
            return gone

        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            cls = Mod
            own = R.exp(x)

            @R.function
            def inner(z: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                unused1 = cls.wipe(z)
                return own

            if c:
                with R.dataflow():
                    unused2 = cls.wipe(x)
                    one = R.exp(own)
                    R.output(one)
                r = one
            else:
                r = own
            unused3 = inner(y)
            scratch = R.exp(own)
            dead = cls.wipe(scratch)
            return r

    after = transform.DeadCodeElimination()(Mod)
    text = after.script()
    assert all(name in text for name in ("unused1", "unused2", "unused3"))
    assert "dead" not in text and "scratch" not in text
    for condition in (True, False):
        lifted = transform.LambdaLift()(after)
        for mod in (Mod, after, lifted, transform.DeadCodeElimination()(lifted)):
            x, y = np.float32([1, 2, 3, 4]), np.float32([5, 6, 7, 8])
            evaluate(mod, np.array(condition), x, y)
            assert (not x.any()) == condition and not y.any()


def test_closures_hold_what_they_capture() -> None:
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            a = R.exp(x)
            b = R.exp(y)

            @R.function
            def inner(z: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                w = R.reshape(a, R.shape([4]))
                return w

            c = inner(b)
            d = R.exp(b)
            return (c, d)

    for mod in (Mod, transform.LambdaLift()(Mod)):
        aliases, v = aliases_of(mod)
        assert aliases.may_alias(v["c"], v["a"])
        assert not aliases.may_alias(v["d"], v["b"])


@pytest.mark.parametrize("overwritten", ["captured", "given"])
def test_closures_write_what_they_capture_or_what_they_are_given(overwritten: str) -> None:
    mod: Any = from_source(f"""
@I.ir_module
class Mod:
    @T.prim_func(private=True)
    def ones(a: T.Buffer((4,))):
        for i in range(4):
            a[i] = T.float32(1)

    @R.function(private=True)
    def fill(captured: R.Tensor((4,), "float32"), given: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Mod
        out = R.call_tir_inplace(cls.ones, ({overwritten},), out_sinfo=R.Tensor((4,), "float32"), inplace_indices=[0])
        return out

    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        cls = Mod
        captured = R.exp(x)
        given = R.exp(y)
        f = R.make_closure(cls.fill, (captured,))
        z = R.invoke_pure_closure(f, (given,), sinfo_args=(R.Tensor((4,), "float32"),))
        return (captured, given, z)
""")
    aliases, v = aliases_of(mod)
    (call,) = [
        binding.value
        for block in mod["main"].body.blocks
        for binding in block.bindings
        if is_call_to(binding.value, "relax.invoke_pure_closure")
    ]
    assert aliases.written == aliases.changed_by(call) == aliases.roots(v[overwritten])


def test_a_function_that_makes_an_object_makes_another_one_each_time() -> None:
    @I.ir_module
    class Mod:
        @R.function(private=True)
        def made() -> R.Tensor((4,), "float32"):
            z = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0))
            return z

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = Mod
            a = cls.made()
            b = R.exp(x)
            return (a, b)

    analysis = MemoryAnalysis(Mod)
    made, computed = (b.value for block in Mod["main"].body.blocks for b in block.bindings)
    assert analysis.effect_of(made).identity and not analysis.is_repeatable(made)
    assert analysis.is_repeatable(computed)


def test_external_functions() -> None:
    declare_external("tests.memory.first", view_of(0))
    x, y = (rx.Var(name, rx.TensorStructInfo((4,), "float32")) for name in "xy")
    info, nothing = rx.TensorStructInfo((4,), "float32"), rx.TupleStructInfo(())
    analysis = MemoryAnalysis()
    known = rx.op.call_pure_packed("tests.memory.first", x, y, sinfo_args=info)
    unknown = rx.op.call_pure_packed("tests.memory.unknown", x, y, sinfo_args=info)
    assert analysis.effect_of(known) == MemoryEffect(views=(View((1,)),))
    assert analysis.effect_of(unknown) == OPAQUE.promised_pure()
    assert analysis.is_repeatable(known) and analysis.is_repeatable(unknown)
    made = rx.op.call_pure_packed("tests.memory.unknown", x, sinfo_args=rx.ObjectStructInfo())
    assert not analysis.is_repeatable(rx.BlockBuilder().normalize(made)), "it may be a cache"
    direct = rx.Call(rx.ExternFunc("tests.memory.unknown"), (x, y), None, None, None, nothing)
    assert analysis.effect_of(direct) == writes(0, 1) | EFFECT
    assert not is_pure(direct) and is_pure(unknown) and is_removable(unknown)
    builtin = rx.op.call_builtin_with_ctx("tests.memory.first", (x,), sinfo_args=info)
    assert analysis.effect_of(builtin) == MemoryEffect(views=(View((1, 0)),)) | EFFECT
    assert not is_removable(builtin)


def test_calls_without_result_are_kept() -> None:
    @I.ir_module
    class Mod:
        @T.prim_func
        def fill(a: T.Buffer((4,))):
            for i in range(4):
                with T.block("b"):
                    vi = T.axis.remap("S", [i])
                    a[vi] = T.float32(1)

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            cls = Mod
            _ = cls.fill(x)
            unused = R.exp(x)
            return x

    after = transform.DeadCodeElimination()(Mod)
    values = [binding.value for block in after["main"].body.blocks for binding in block.bindings]
    assert len(values) == 1 and values[0].op.name_hint == "fill"


class _Decoder(nn.Module):
    def __init__(self) -> None:
        self.keys = nn.KVCache(4, [2])
        self.values = nn.KVCache(4, [2])

    def forward(self, k: nn.Tensor, v: nn.Tensor) -> tuple[nn.Tensor, nn.Tensor]:
        self.keys.append(k)
        self.values.append(v)
        return self.keys.view(1), self.values.view(1)


def test_two_caches_stay_two() -> None:
    """Calls that create them look alike, but what is appended to one must not be seen in the other."""
    mod, _ = _Decoder().export_tvm(
        {"forward": {"k": nn.spec.Tensor([1, 2], "float32"), "v": nn.spec.Tensor([1, 2], "float32")}}
    )
    k, v = np.float32([[1, 2]]), np.float32([[3, 4]])
    vm = runners.VirtualMachine(rx.build(mod, "llvm", tir_pipeline=None), runners.cpu())
    (found_k, found_v), _ = vm["forward"](k, v, *vm["_initialize_effect"]())
    np.testing.assert_array_equal(np.asarray(found_k), k)
    np.testing.assert_array_equal(np.asarray(found_v), v)


@pytest.mark.parametrize("operator", ["reshape", "expand_dims", "squeeze", "flatten"])
def test_views_of_parameters_are_not_overwritten(operator: str) -> None:
    x = rx.Var("x", rx.TensorStructInfo((1, 4), "float32"))
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            arguments: dict[str, Any] = {"reshape": ((2, 2),), "expand_dims": (0,), "squeeze": (0,)}
            seen = builder.emit(getattr(rx.op, operator)(x, *arguments.get(operator, ())))
            out = builder.emit_output(rx.op.nn.relu(seen))
        builder.emit_func_output(out)
    mod = builder.finalize()
    data = np.float32([[-1, 2, -3, 4]])
    expected = evaluate(mod, data.copy())
    after = transform.DataflowUseInplaceCalls()(mod)
    given = data.copy()
    vm = runners.VirtualMachine(rx.build(after, "llvm", tir_pipeline=None), runners.cpu())
    np.testing.assert_array_equal(np.asarray(vm["main"](given)), expected)
    np.testing.assert_array_equal(given, data)


@pytest.mark.parametrize("overwritten", ["copy", "source"])
def test_a_copy_of_what_is_overwritten_stays_a_copy(overwritten: str) -> None:
    """permute_dims(x, [0, 1]) is a kernel that copies in order; as a view it would share what is written."""
    x = rx.Var("x", rx.TensorStructInfo((2, 3), "float32"))
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            source = builder.emit(rx.op.negative(x)) if overwritten == "source" else x
            copy = builder.emit(rx.op.permute_dims(source, [0, 1]))
            out = builder.emit(rx.op.nn.relu(copy if overwritten == "copy" else source))
            out = builder.emit_output(rx.Tuple([copy, out]) if overwritten == "source" else out)
        builder.emit_func_output(out)
    mod = builder.finalize()
    data = np.float32([[-1, 2, -3], [4, -5, 6]])
    expected = evaluate(mod, data.copy())
    after = transform.DataflowUseInplaceCalls()(mod)
    assert "call_tir_inplace" in after.script()
    given = data.copy()
    vm = runners.VirtualMachine(rx.build(after, "llvm", tir_pipeline=None), runners.cpu())
    found = vm["main"](given)
    parts = zip(found, expected, strict=True) if overwritten == "source" else [(found, expected)]
    for got, wanted in parts:
        np.testing.assert_array_equal(np.asarray(got), wanted)
    np.testing.assert_array_equal(given, data)


def test_result_of_a_function_that_returns_its_argument_is_not_overwritten() -> None:
    @I.ir_module
    class Mod:
        @R.function(private=True)
        def same(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return x

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = Mod
            with R.dataflow():
                y = cls.same(x)
                gv = R.nn.relu(y)
                R.output(gv)
            return gv

    after = transform.DataflowUseInplaceCalls()(Mod)
    data = np.float32([-1, 2, -3, 4])
    given = data.copy()
    np.testing.assert_array_equal(np.asarray(evaluate(after, given)), np.maximum(data, 0))
    np.testing.assert_array_equal(given, data)
