"""How fast programs are printed and read: milliseconds per 1,000 lines for one PrimFunc module and one Relax module.

Run from the repository root: ``python -m experiments.script_speed [--profile]``.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
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


def measure(name: str, mod: IRModule, profile: bool) -> None:
    """Print the figures of a module."""
    text = mod.script()
    lines = text.count("\n") + 1
    printing = best(mod.script) / lines * 1e6
    reading = best(lambda: from_source(text), 3) / lines * 1e6
    unchecked = best(lambda: from_source(text, check_well_formed=False), 3) / lines * 1e6
    print(
        f"{name:6} {lines:5} lines; ms per 1,000 lines: print {printing:.0f}, read {reading:.0f}, without verification {unchecked:.0f}"
    )
    if profile:
        profiler = cProfile.Profile()
        profiler.runcall(from_source, text, None, False)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(18)


def main() -> None:
    """Measure both dialects."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true", help="show where reading spends its time")
    options = parser.parse_args()
    measure("tir", tir_module(), options.profile)
    measure("relax", relax_module(), options.profile)


if __name__ == "__main__":
    main()
