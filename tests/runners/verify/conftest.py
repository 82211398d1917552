"""References of small programs, computed by native code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ir import IRModule, te
from runners.native import build_native
from runners.verify import Reference, compute_reference


def te_program(function: Callable[..., Any], *inputs: tuple[tuple[int, ...], str]) -> IRModule:
    """A kernel of tensor expressions."""
    tensors = [te.placeholder(shape, dtype, f"p{number}") for number, (shape, dtype) in enumerate(inputs)]
    outputs = function(*tensors)
    return IRModule({"main": te.create_prim_func([*tensors, outputs])})


def native(mod: Any) -> Callable[[list[Any]], object]:
    """A module as a function of all arguments."""
    kernel = build_native(mod, "llvm")
    return lambda arguments: kernel(*arguments)


def verdict(reference: Reference, call: Callable[..., object]) -> str | None:
    """What the check says of a kernel on all cases; None when it is right."""
    for case in reference.cases:
        given = reference.prepare(case)
        call(*given.arrays)
        wrong = reference.wrong(case, given.arrays) or reference.spoiled(given)
        if wrong is not None:
            return f"{case.name}: {wrong}"
    return None


@pytest.fixture
def reference_of() -> Callable[[Any], Reference]:
    """A function from a module to its reference."""
    return lambda mod: compute_reference(mod, native)
