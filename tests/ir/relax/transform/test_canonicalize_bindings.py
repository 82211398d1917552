"""CanonicalizeBindings: other names of a value, known fields and unused outputs go."""

from __future__ import annotations

from ir.relax import transform
from ir.relax.analysis import check_well_formed
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T

from .conftest import verify


def test_canonicalize_renames_and_outputs():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                lv0 = R.add(x, x)
                lv1 = lv0
                gv = lv1
                R.output(gv)
            z = gv
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                gv = R.add(x, x)
                R.output(gv)
            return gv

    verify(transform.CanonicalizeBindings()(Before), Expected)


def test_canonicalize_tuples_and_unused_outputs():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                pair = (x, y)
                a = pair[0]
                b = R.add(a, y)
                gv = R.multiply(b, b)
                R.output(b, gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                pair = (x, y)
                b = R.add(x, y)
                gv = R.multiply(b, b)
                R.output(gv)
            return gv

    verify(transform.CanonicalizeBindings()(Before), Expected)


def test_canonicalize_trivial_match_cast_and_known_symbols():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8, 4), "float32")) -> R.Tensor((8, 4), "float32"):
            n = T.int64()
            y = R.match_cast(x, R.Tensor((n, 4), "float32"))
            z = R.add(y, y)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8, 4), "float32")) -> R.Tensor((8, 4), "float32"):
            z = R.add(x, x)
            return z

    verify(transform.CanonicalizeBindings()(Before), Expected)


def test_what_one_round_uncovers_is_done_in_the_next():
    """The copy's field is known only when the copy is the tuple; behind that an output is used by nobody."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                a = R.add(x, y)
                pair = (a, y)
                R.output(a, pair)
            again = pair
            b = again[1]
            with R.dataflow():
                gv = R.multiply(b, x)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                a = R.add(x, y)
                pair = (a, y)
            with R.dataflow():
                gv = R.multiply(y, x)
                R.output(gv)
            return gv

    verify(transform.CanonicalizeBindings()(Before), Expected)


def test_a_name_in_a_branch_is_found():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((8,), "float32"):
            y = R.exp(x)
            if c:
                a = y
                z = R.add(a, y)
            else:
                z = R.exp(x)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((8,), "float32"):
            y = R.exp(x)
            if c:
                z = R.add(y, y)
            else:
                z = R.exp(x)
            return z

    after = transform.CanonicalizeBindings()(Before)
    verify(after, Expected)
    assert transform.CanonicalizeBindings()(after) is after


def test_fields_and_tuples_of_a_block_are_not_seen_outside(same_numbers):
    """A field that its dataflow block does not output stays an access of the tuple, and so does a tuple that is put together again."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")):
            with R.dataflow():
                v = R.add(x, x)
                inner = (v, y)
                first = inner[0]
                t = (first, y)
                s = R.split(y, 2)
                a = s[0]
                b = s[1]
                R.output(t, a, b)

            @R.function
            def local(z: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
                captured = t[0]
                q = R.add(captured, z)
                return q

            w = t[0]
            again = (a, b)
            r = local(w)
            return (w, again, r)

    after = transform.CanonicalizeBindings()(Before)
    check_well_formed(after)
    assert "(v, y)" in after.script() and "first" not in after.script()
    lifted = transform.LambdaLift()
    same_numbers(lifted(Before), lifted(after), [(8,), (8,)])
