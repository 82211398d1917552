"""What the virtual machine adds to a kernel call: chains of tiny additions, short and long, timed in turns.

The slope between the two lengths is the cost of one more call. It includes the kernel, which takes a few nanoseconds. Static
shapes become one native function here; a symbolic shape shows the bytecode. Written for any language with the names of
Relax, so that a peer runs the same chain.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from ..harness.child import Ready

SHORT, LONG = 1, 129


def chain(lang: Any, length: int, symbolic: bool) -> Any:
    """A module whose ``main`` calls ``length`` kernels, each on the result of the one before."""
    extent = lang.var("n", "int64") if symbolic else 16
    x = lang.relax.Var("x", lang.tensor((extent,), "float32"))
    bb = lang.relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            value = x
            for _ in range(length):
                value = bb.emit_te(lang.topi.add, value, value)
            out = bb.emit_output(value)
        bb.emit_func_output(out)
    return bb.get()


def loopsmith(length: int, symbolic: bool, threads: int = 1) -> Ready:
    """Our virtual machine."""
    import runners
    from ir import relax, tir, topi

    lang = SimpleNamespace(relax=relax, topi=topi, var=tir.Var, tensor=relax.TensorStructInfo)
    built = relax.build(chain(lang, length, symbolic), "cpu", pipeline=None)
    main = runners.VirtualMachine(built, runners.cpu())["main"]
    x = np.zeros(16, "float32")
    return Ready(lambda: main(x))


def tvm(length: int, symbolic: bool, threads: int = 1) -> Ready:
    """TVM's virtual machine, without passes that would fuse the chain."""
    import tvm as library
    from tvm import relax, tirx, topi

    lang = SimpleNamespace(relax=relax, topi=topi, var=tirx.Var, tensor=relax.TensorType)
    target = library.target.Target({"kind": "llvm", "num-cores": threads})
    passes = [
        relax.transform.CallTIRRewrite(),
        relax.transform.StaticPlanBlockMemory(),
        relax.transform.LowerAllocTensor(),
    ]
    passes += [
        relax.transform.KillAfterLastUse(),
        relax.transform.LowerRuntimeBuiltin(),
        relax.transform.ComputePrimValue(),
    ]
    passes += [relax.transform.VMShapeLower(), relax.transform.AttachGlobalSymbol()]
    built = library.compile(
        chain(lang, length, symbolic), target=target, relax_pipeline=library.transform.Sequential(passes)
    )
    main = relax.VirtualMachine(built, library.cpu())["main"]
    x = library.runtime.tensor(np.zeros(16, "float32"), library.cpu())
    return Ready(lambda: main(x))
