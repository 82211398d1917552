"""How fast programs are printed and read: milliseconds per 1,000 lines for one PrimFunc module and one Relax module."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ir import IRModule, relax
from ir.script import from_source


def tir_module(functions: int = 70) -> IRModule:
    """Matrix products with an elementwise epilogue, about 14 lines each."""
    from ir import te, topi

    mod = IRModule()
    for number in range(functions):
        a = te.placeholder((64 + number, 64), "float32", "A")
        b = te.placeholder((64, 64), "float32", "B")
        func = te.create_prim_func([a, b, topi.nn.relu(topi.matmul(a, b))])
        mod[f"matmul{number}"] = func.with_attr("global_symbol", f"matmul{number}")
    return mod


def relax_module(bindings: int = 1000) -> IRModule:
    """One dataflow block of elementwise operators and matrix products."""
    x = relax.Var("x", relax.TensorStructInfo((64, 64), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            value: Any = x
            for number in range(bindings):
                value = bb.emit(relax.op.matmul(value, x) if number % 3 == 0 else relax.op.add(value, x))
            out = bb.emit_output(value)
        bb.emit_func_output(out)
    return bb.finalize()


def best(run: Callable[[], Any], repeat: int = 5) -> float:
    """The shortest of some runs, in seconds."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def figures() -> dict[str, tuple[float, str]]:
    """Both dialects, in milliseconds per 1,000 lines."""
    found: dict[str, tuple[float, str]] = {}
    for name, mod in (("tir", tir_module()), ("relax", relax_module())):
        text = mod.script()
        lines = text.count("\n") + 1

        def read(text: str = text, checked: bool = True) -> Any:
            return from_source(text, check_well_formed=checked)

        costs = {
            "print": best(mod.script),
            "read": best(read, 3),
            "read without verification": best(lambda read=read: read(checked=False), 3),  # type: ignore[misc]
        }
        for what, seconds in costs.items():
            found[f"{what} 1,000 lines of {name} script"] = seconds / lines * 1e6, "ms"
    return found
