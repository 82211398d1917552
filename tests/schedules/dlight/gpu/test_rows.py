"""Rows of softmax and norms: read once, as vectors, into registers."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.operators import suite
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.nvrtc import compile_cuda
from ir.tir.lower import lower
from schedules.dlight import default_schedule

from .checks import TARGET, assert_computes

ROWS = [
    ("softmax", (4, 256)),
    ("layer_norm", (4, 256)),
    ("rms_norm", (4, 256)),
    ("softmax", (3, 96)),
    ("layer_norm", (2, 130)),
    ("group_norm", (2, 6, 4, 4, 3)),
]


@pytest.mark.parametrize(("name", "shape"), ROWS)
def test_rows_are_computed(name: str, shape: tuple[int, int]) -> None:
    inputs = suite.inputs(name, shape)
    expected = suite.reference(name, inputs, shape)
    mod = default_schedule(suite.workload(name, shape), TARGET).mod
    assert_computes(mod, [(inputs, np.asarray(expected, "float32"))])


@pytest.mark.parametrize(
    ("name", "argument"), [("softmax", "A"), ("layer_norm", "x"), ("rms_norm", "x"), ("group_norm", "x")]
)
def test_a_row_is_loaded_once(name: str, argument: str) -> None:
    """By each thread 16 bytes at a time; results are stored so, too."""
    shape = (8, 32, 8, 8, 4) if name == "group_norm" else (64, 1024)
    text = generate(lower(default_schedule(suite.workload(name, shape), TARGET).mod, TARGET)).text
    body = text[text.index("__global__") :]
    assert body.count(f"load_vec<4>({argument} +") == 1
    assert f" {argument}[" not in body and f"({argument}[" not in body, "it is read nowhere else"
    assert "store_vec(" in body


def test_rows_that_no_thread_holds_are_read_again() -> None:
    text = generate(lower(default_schedule(suite.workload("softmax", (4, 30522)), TARGET).mod, TARGET)).text
    assert "A_local" not in text


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("layer_norm", (8, 16384)),
        ("rms_norm", (128, 4096)),
        ("softmax", (4096, 64)),
        ("group_norm", (2, 64, 32, 32, 8)),
    ],
)
def test_rows_stay_in_registers(name: str, shape: tuple[int, int], arch: str) -> None:
    code = compile_cuda(
        generate(lower(default_schedule(suite.workload(name, shape), TARGET).mod, TARGET)).text, arch
    )
    (kernel,) = code.resources.values()
    assert not code.warnings
    assert kernel.spill_store_bytes == kernel.local_bytes == 0
