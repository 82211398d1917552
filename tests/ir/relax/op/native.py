"""Runs one operator natively, through the default pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ir
import runners
from ir import relax as rx


def run_natively(operator: Callable[..., Any], *arrays: np.ndarray) -> Any:
    """What ``operator`` (from expressions to an expression) gives: an array, or a list of them for a tuple."""
    params = [
        rx.Var(f"x{i}", rx.TensorStructInfo(item.shape, ir.dtype.from_numpy(item.dtype)))
        for i, item in enumerate(arrays)
    ]
    bb = rx.BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(operator(*params))
        bb.emit_func_output(out)
    found = runners.VirtualMachine(rx.build(bb.get(), "llvm"), runners.cpu())["main"](*arrays)
    return [item.numpy() for item in found] if isinstance(found, tuple | list) else found.numpy()
