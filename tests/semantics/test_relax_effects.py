"""What Relax calls may be removed, merged and moved; how they agree with what they call; branches and shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ir
from ir import relax
from ir.relax import transform
from ir.relax.analysis import check_well_formed, well_formed
from ir.relax.analysis.well_formed import WellFormedError
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T

from .relax_running import executors, holds, plain

CALLS: list[int] = []


@pytest.fixture(autouse=True)
def noted() -> Iterator[None]:
    """A function that remembers its calls and returns how many there were, in every element."""

    def note(x: Any) -> Any:
        CALLS.append(int(np.asarray(x).flat[0]))
        return np.full(4, len(CALLS), "float32")

    ir.register_func("tests.semantics.note", note, override=True)
    CALLS.clear()
    yield
    CALLS.clear()


X = np.float32([1, 2, 3, 4])


@pytest.mark.meaning("relax-effect")
@pytest.mark.parametrize("closure", [False, True])
def test_effects_happen_once_and_in_order(closure: bool) -> None:
    @I.ir_module
    class Direct:
        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            a = R.call_packed("tests.semantics.note", x, sinfo_args=R.Tensor((4,), "float32"))
            unused = R.call_packed("tests.semantics.note", y, sinfo_args=R.Tensor((4,), "float32"))
            b = R.call_packed("tests.semantics.note", x, sinfo_args=R.Tensor((4,), "float32"))
            return (a, b)

    @I.ir_module
    class Closures:
        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            @R.function(pure=False)
            def inner(z: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                n = R.call_packed("tests.semantics.note", z, sinfo_args=R.Tensor((4,), "float32"))
                zero = R.subtract(x, x)
                m = R.add(n, zero)
                return m

            a = inner(x)
            unused = inner(y)
            b = inner(x)
            return (a, b)

    mod = Closures if closure else Direct
    lifted = transform.LambdaLift()(mod)
    steps = [transform.EliminateCommonSubexpr(), transform.DeadCodeElimination()]
    for program in (mod, lifted, steps[1](steps[0](lifted)), transform.LambdaLift()(steps[1](steps[0](mod)))):
        for name, execute in executors(program):
            CALLS.clear()
            a, b = plain(execute(X, 5 * X))
            assert CALLS == [1, 5, 1], name
            assert (a[0], b[0]) == (1, 3), name


@pytest.mark.meaning("relax-effect")
def test_assertions_and_prints_stay(capfd: pytest.CaptureFixture[str]) -> None:
    @I.ir_module
    class Mod:
        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
            _ = R.print(x, format="printed {}")
            _1 = R.assert_op(c, format="asserted")
            return x

    for name, execute in executors(transform.DeadCodeElimination()(Mod)):
        execute(X, np.array(True))
        assert "printed" in capfd.readouterr().out, name
        with pytest.raises(Exception, match="asserted"):
            execute(X, np.array(False))
        capfd.readouterr()


@pytest.mark.meaning("relax-remove")
def test_pure_calls_are_removed_and_merged() -> None:
    """``call_pure_packed`` is a promise: what returns nothing is there for what it does, everything else for its result."""

    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            unused = R.call_pure_packed("tests.semantics.note", x, sinfo_args=R.Tensor((4,), "float32"))
            kept = R.call_pure_packed("tests.semantics.note", x, sinfo_args=R.Tuple())
            a = R.exp(x)
            b = R.exp(x)
            c = R.add(a, b)
            return c

    merged = transform.CanonicalizeBindings()(transform.EliminateCommonSubexpr()(Mod))
    after = transform.DeadCodeElimination()(merged)
    assert after.script().count("R.exp") == 1 and after.script().count("tests.semantics.note") == 1
    assert "kept" in after.script()


@pytest.mark.meaning("relax-dataflow")
def test_a_dataflow_block_holds_pure_calls_only() -> None:
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    call = relax.BlockBuilder().normalize(relax.op.print(x))
    var = relax.DataflowVar("_", call.struct_info)
    block = relax.DataflowBlock([relax.VarBinding(var, call)])
    func = relax.Function([x], relax.SeqExpr([block], x, x.struct_info), x.struct_info, False)
    with pytest.raises(WellFormedError, match="impure call in a dataflow block"):
        check_well_formed(func)


@pytest.mark.meaning("relax-if")
@pytest.mark.parametrize("condition", [True, False])
def test_only_the_chosen_branch_is_evaluated(condition: bool) -> None:
    @I.ir_module
    class Mod:
        @R.function(pure=False)
        def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
            if c:
                y = R.call_packed("tests.semantics.note", x, sinfo_args=R.Tensor((4,), "float32"))
            else:
                z = R.multiply(x, x)
                y = R.call_packed("tests.semantics.note", z, sinfo_args=R.Tensor((4,), "float32"))
            return y

    for name, execute in executors(Mod):
        CALLS.clear()
        execute(np.array(condition), 3 * X)
        assert CALLS == [3 if condition else 9], name


@pytest.mark.meaning("relax-shape")
def test_extents_are_compared_at_entry_and_at_match_cast() -> None:
    @I.ir_module
    class Entry:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
            z = R.add(x, y)
            return z

    @I.ir_module
    class Cast:
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32"), y: R.Tensor(("n",), "float32")):
            n = T.int64()
            z = R.match_cast(x, R.Tensor((n,), "float32"))
            w = R.add(z, y)
            return w

    for mod in (Entry, Cast):
        holds(mod, [X, X], 2 * X)
        for _, execute in executors(mod):
            with pytest.raises(Exception, match="n|extent|shape"):
                execute(X, X[:3])


@pytest.mark.meaning("relax-callee")
def test_calls_agree_with_what_they_call() -> None:
    vector, other = (relax.TensorStructInfo((size,), "float32") for size in (4, 5))
    x, y = relax.Var("x", vector), relax.Var("y", vector)
    callee = relax.Function([x], relax.SeqExpr([], x, vector), vector)
    var = relax.GlobalVar("callee", callee.struct_info)

    def caller(args: list[Any], result: Any) -> ir.IRModule:
        z = relax.Var("z", result)
        call = relax.Call(var, args, None, None, None, result)
        seq = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(z, call)])], z, result)
        return ir.IRModule({var: callee, "main": relax.Function([y], seq, result)})

    assert well_formed(caller([y], vector))
    assert not well_formed(caller([y, y], vector))
    assert not well_formed(caller([], vector))
    assert not well_formed(caller([y], other))


@pytest.mark.meaning("relax-callee")
@pytest.mark.parametrize(
    "step",
    [
        transform.BundleModelParams(),
        transform.LiftTransformParams(),
        transform.ToMixedPrecision(fp16_input_names=["w"]),
        transform.RemoveUnusedParameters(),
        transform.RemoveUnusedOutputs(),
        transform.ExpandTupleArguments(),
    ],
    ids=lambda step: type(step).__name__,
)
def test_who_changes_a_signature_changes_the_callers(step: Any) -> None:
    @I.ir_module
    class Mod:
        @R.function
        def layer(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32")) -> R.Tensor(
            (2, 4), "float32"
        ):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                wt = R.permute_dims(w)
                y = R.matmul(x, wt)
                R.output(y)
            return y

        @R.function(private=True)
        def both(
            t: R.Tuple(R.Tensor((2, 4), "float32"), R.Tensor((2, 4), "float32")),
            unused: R.Tensor((4,), "float32"),
        ) -> R.Tuple(R.Tensor((2, 4), "float32"), R.Tensor((2, 4), "float32")):
            a = t[0]
            b = t[1]
            c = R.add(a, b)
            d = R.subtract(a, b)
            return (c, d)

        @R.function
        def main(
            c: R.Tensor((), "bool"),
            x: R.Tensor((2, 4), "float32"),
            w2: R.Tensor((4, 4), "float32"),
            v: R.Tensor((4,), "float32"),
        ):
            cls = Mod

            @R.function
            def inner(z: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
                cls = Mod
                r = cls.layer(z, w2)
                return r

            if c:
                y = cls.layer(x, w2)
            else:
                y = inner(x)
            pair = cls.both((x, y), v)
            first = pair[0]
            return first

    after = step(Mod)
    check_well_formed(after)
    rng = np.random.default_rng(0)
    x, w, v = (rng.integers(-3, 4, shape).astype("float32") for shape in ((2, 4), (4, 4), (4,)))
    for condition in (True, False):
        holds(after, [np.array(condition), x, w, v], x + x @ w.T)
