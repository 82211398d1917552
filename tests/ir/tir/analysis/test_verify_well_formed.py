"""The verifier: a good function passes, and each rule names itself, the thing and the place when it is broken."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import ir
from ir import IRModule, Range, tir
from ir.tir import BufferStore, For, ForKind, IterVar, Var, decl_buffer
from ir.tir.analysis import WellFormedError, assert_well_formed, verify_well_formed

A = decl_buffer((8, 8), "float32", "A")
i, j = Var("i"), Var("j")
ZERO = tir.const(0.0)


def loop(var: Var, body: Any, extent: Any = 8) -> For:
    """A serial loop."""
    return For(var, 0, extent, ForKind.SERIAL, body)


def func(body: Any) -> tir.PrimFunc:
    """A function of the buffer A."""
    return tir.PrimFunc([A], body).with_attr("global_symbol", "main")


def store(*indices: Any, value: Any = ZERO, buffer: Any = A) -> BufferStore:
    """A[indices] = value."""
    return BufferStore(buffer, value, indices)


def realize(body: Any, values: list[Any], *variables: Var, predicate: Any = None) -> tir.BlockRealize:
    """A block over the variables."""
    iters = [IterVar(Range(0, 8), var, IterVar.DataPar) for var in variables]
    return tir.BlockRealize(
        values, tir.const(True) if predicate is None else predicate, tir.Block(iters, [], [], "b", body)
    )


vi, vj = Var("vi"), Var("vj")
other = decl_buffer((8,), "float32", "other")
wide = Var("wide", "int64")

GOOD = [
    loop(i, store(i, 0)),
    loop(i, loop(j, store(i, j))),
    tir.seq(loop(i, store(i, 0)), loop(i, store(i, 1))),
    loop(i, loop(j, realize(store(vi, vj), [i, j], vi, vj))),
    loop(i, realize(store(i, 0), [])),
    tir.LetStmt(j, tir.const(3), store(j, 0)),
    tir.AttrStmt(i, "pragma_auto_unroll_max_step", tir.const(16), loop(i, store(i, 0))),
    loop(i, tir.DeclBuffer(decl_buffer((64,), "float32", "flat", data=A.data), store(i, 0))),
    loop(i, store(tir.Ramp(i, 1, 4), tir.Ramp(i, 1, 4), value=tir.Broadcast(ZERO, 4))),
]


@pytest.mark.parametrize("body", GOOD, ids=range(len(GOOD)))
def test_good_functions_pass(body: Any) -> None:
    assert_well_formed(func(body))
    assert verify_well_formed(IRModule({"main": func(body)}))


sized = tir.decl_buffer((j, 4), "float32", "sized", data=A.data)

BAD: list[tuple[str, str, Any]] = [
    ("undefined variable", "variable j .int32. is not defined", loop(i, store(i, j))),
    (
        "undefined variable",
        "outside of the scope that defines it",
        tir.seq(loop(i, store(i, 0)), store(i, 1)),
    ),
    ("undeclared buffer", "buffer other is neither", loop(i, store(i, buffer=other))),
    ("nested redefinition", "variable i is defined inside its own scope", loop(i, loop(i, store(i, 0)))),
    ("index count", "buffer A has 2 dimensions, the access has 1", loop(i, store(i))),
    ("index dtype", "dtype float32, expected integers", store(tir.const(1.0), 0)),
    ("stored dtype", "dtype int32 is stored to buffer A of float32", store(0, 0, value=tir.const(1))),
    ("block isolation", "loop variable i from outside", loop(i, realize(store(i, vi), [i], vi))),
    ("block iteration variables", "variable vi twice", loop(i, realize(store(vi, 0), [i, i], vi, vi))),
    (
        "block iteration variables",
        "has dtype int32, its value int64",
        loop(wide, realize(store(vi, 0), [wide], vi)),
    ),
    ("undefined variable", "variable j .int32. is not defined", tir.DeclBuffer(sized, store(0, 0))),
    ("loop bounds", "extent of loop i has dtype float32", loop(i, store(i, 0), tir.const(8.0))),
]


@pytest.mark.parametrize(
    ("rule", "message", "body"), BAD, ids=[f"{rule}-{n}" for n, (rule, _, _) in enumerate(BAD)]
)
def test_each_rule_is_named(rule: str, message: str, body: Any) -> None:
    with pytest.raises(
        WellFormedError, match=rf"TIR function main is not well-formed \({rule}\): .*{message}"
    ) as raised:
        assert_well_formed(func(body))
    assert raised.value.rule == rule and "\nat:\n" in str(raised.value)
    assert not verify_well_formed(func(body), assert_mode=False)
    with pytest.raises(WellFormedError):
        verify_well_formed(func(body))


def test_the_error_comes_from_another_process_as_it_is() -> None:
    _, _, body = BAD[0]
    with pytest.raises(WellFormedError) as raised:
        assert_well_formed(func(body))
    found = pickle.loads(pickle.dumps(raised.value))
    assert (str(found), found.rule) == (str(raised.value), raised.value.rule)
    assert ir.structural_equal(found.node, raised.value.node, map_free_vars=True)


def test_the_shown_program_is_bounded() -> None:
    body = loop(i, tir.SeqStmt([store(i, 0)] * 60 + [store(i)]))
    with pytest.raises(WellFormedError) as raised:
        assert_well_formed(func(body))
    assert len(str(raised.value).splitlines()) <= 25


def test_symbolic_shapes_define_their_variables() -> None:
    n = tir.SizeVar("n")
    symbolic = decl_buffer((n, n + 1), "float32", "S")
    assert_well_formed(tir.PrimFunc([symbolic], loop(i, BufferStore(symbolic, ZERO, [i, n]), n)))


def test_an_extent_that_no_argument_tells_says_how_it_can_be_told() -> None:
    n = tir.Var("n", "int32")
    source = tir.decl_buffer((n * 2,), "float32", "source")
    handle = tir.Var("source", "handle")
    with pytest.raises(
        WellFormedError, match="variable n .int32. is not defined by a parameter; give one n itself"
    ):
        assert_well_formed(tir.PrimFunc([handle], tir.Evaluate(0), None, {handle: source}))


def test_errors_are_errors_of_the_package() -> None:
    assert issubclass(WellFormedError, ir.IRError) and issubclass(WellFormedError, ValueError)
