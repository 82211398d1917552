"""What the foundation costs: microseconds of the operations that hundreds of passes and operators stand on.

Each figure is the best of several rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ir
from ir import Range, tir
from ir.arith import Analyzer
from ir.node import Mutator, Visitor, post_order_visit
from ir.tir import Var, analysis, decl_buffer


def best(run: Callable[[], Any], rounds: int = 7, prepare: Callable[[], Any] | None = None) -> float:
    """Seconds of the fastest round."""
    times = []
    for _ in range(rounds):
        if prepare is not None:
            prepare()
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def count(node: Any) -> int:
    """Distinct nodes of a program."""
    total = 0

    def add(_: Any) -> None:
        nonlocal total
        total += 1

    post_order_visit(node, add)
    return total


def function(statements: int) -> tir.PrimFunc:
    """A function of stores with index arithmetic, about 20 nodes a statement."""
    a, b = decl_buffer((1024, 1024), "float32", "A"), decl_buffer((1024, 1024), "float32", "B")
    i, j = Var("i"), Var("j")
    stores = [
        tir.BufferStore(b, a[i * 4 + k, j * 8 + k // 3] * 2.0 + a[j + k, i % 7], [i * 4 + k, j])
        for k in range(statements)
    ]
    body = tir.For(i, 0, 16, tir.ForKind.SERIAL, tir.For(j, 0, 16, tir.ForKind.SERIAL, tir.seq(*stores)))
    return tir.PrimFunc([a, b], body)


class _Count(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.loads = 0

    def visit_BufferLoad(self, load: Any) -> None:
        self.loads += 1
        self.generic_visit(load)


class _Identity(Mutator):
    """Changes nothing."""


class _Bump(Mutator):
    """Changes every integer constant, so that nearly every node is rebuilt."""

    def visit_IntImm(self, imm: Any) -> Any:
        return tir.const(imm.value + 1, imm.dtype)

    def visit_Buffer(self, buffer: Any) -> Any:
        return buffer


def construction() -> dict[str, float]:
    """Seconds per node."""
    x, y = Var("x"), Var("y")
    buffer = decl_buffer((8, 8), "float32", "A")
    n = 10_000

    def repeat(make: Callable[[], Any]) -> float:
        def run() -> None:
            for _ in range(n):
                make()

        return best(run) / n

    return {
        "construct Add": repeat(lambda: tir.Add(x, y)),
        "x + y by operator": repeat(lambda: x + y),
        "x * 4 + y by operators (2 nodes)": repeat(lambda: x * 4 + y),
        "construct BufferLoad": repeat(lambda: tir.BufferLoad(buffer, (x, y))),
        "construct Var": repeat(lambda: Var("v")),
    }


def structure() -> dict[str, float]:
    """Hash and equality of functions of about 1000 nodes."""
    one, two = function(50), function(50)
    text = ir.save_json(one)
    return {
        f"structural hash of {count(one)} nodes": best(lambda: ir.structural_hash(one)),
        "structural equality with an equal copy": best(lambda: ir.structural_equal(one, two)),
        "save as JSON": best(lambda: ir.save_json(one)),
        "load from JSON": best(lambda: ir.load_json(text)),
        "verify well-formed": best(lambda: analysis.verify_well_formed(one)),
    }


def walks() -> dict[str, float]:
    """Visiting and rewriting 100,000 nodes, per node."""
    big = function(4200)
    nodes = count(big)
    return {
        "visit a node": best(lambda: _Count().visit(big), 3) / nodes,
        "rewrite a node, nothing changes": best(lambda: _Identity().visit(big.body), 3) / nodes,
        "rewrite a node, everything changes": best(lambda: _Bump().visit(big.body), 3) / nodes,
        "post_order_visit a node": best(lambda: post_order_visit(big, lambda node: None), 3) / nodes,
    }


def simplification() -> dict[str, float]:
    """Typical index expressions, each met for the first time by its analyzer."""
    v = [Var(f"i{k}") for k in range(8)]
    extents = (4, 8, 2, 16, 4, 8, 3, 3)
    cases: dict[str, Callable[[], Any]] = {
        "i + 1": lambda: v[0] + 1,
        "tiled index": lambda: v[0] * 256 + v[1] * 32 + v[2] * 16 + v[3],
        "convolution index": lambda: (v[0] * 8 + v[1]) * 2 + v[6] - 1,
        "fused and split again": lambda: ((v[0] * 8 + v[1]) * 2 + v[2]) // 16 % 8,
        "division with carry": lambda: (v[0] * 128 + v[1] * 16 + v[2] * 8 + v[4]) // 16,
        "bounds condition": lambda: tir.all(v[0] * 8 + v[1] + v[6] >= 1, v[0] * 8 + v[1] + v[6] < 30),
    }
    found = {}
    for name, make in cases.items():
        times = []
        for _ in range(40):
            analyzer = Analyzer()
            for var, extent in zip(v, extents):
                analyzer.bind(var, Range(0, extent))
            expr = make()
            start = time.perf_counter()
            analyzer.simplify(expr)
            times.append(time.perf_counter() - start)
        found[f"simplify: {name}"] = sorted(times)[len(times) // 2]
    return found


def figures() -> dict[str, tuple[float, str]]:
    """Every figure in microseconds."""
    start = time.perf_counter()
    Analyzer().simplify(Var("x") * 4 // 2 + Var("y") % 3)
    found = {"first simplification (compiles rules)": time.perf_counter() - start}
    for measure in (construction, structure, walks, simplification):
        found.update(measure())
    return {name: (seconds * 1e6, "us") for name, seconds in found.items()}
