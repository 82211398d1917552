"""Which strings are dtypes, and that every door that takes one from a user refuses what is none, naming what is near."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import runners
from ir import dtype as dt
from ir import relax, te, tir, topi, type
from ir.error import IRTypeError
from ir.relax.frontend.nn import modules, spec, tensor
from ir.script import relax as R
from ir.script import tir as T


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize("function", ["ir.dtype.to_numpy", "runners.ndarray.numpy_dtype"])
def test_numpy_has_narrow_numbers_in_a_new_process(function: str, dtype: str) -> None:
    """It knows the names only once ml_dtypes is imported, which this process has done long ago."""
    module, _, name = function.rpartition(".")
    program = f"from {module} import {name} as of; print(of('{dtype}').name)"
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == f"{dtype}\n"
    )


@pytest.mark.parametrize(
    ("dtype", "parts"),
    [
        ("float32", ("float", 32, 1)),
        ("float32x8", ("float", 32, 8)),
        ("uint1", ("uint", 1, 1)),
        ("bool", ("bool", 1, 1)),
        ("boolx4", ("bool", 1, 4)),
        ("bfloat16x2", ("bfloat", 16, 2)),
        ("float8_e4m3fn", ("float8_e4m3fn", 8, 1)),
        ("float8_e8m0fnux16", ("float8_e8m0fnu", 8, 16)),
        ("float4_e2m1fn", ("float4_e2m1fn", 4, 1)),
        ("handle", ("handle", 64, 1)),
        ("", ("void", 0, 1)),
    ],
)
def test_parts(dtype: str, parts: tuple[str, int, int]) -> None:
    assert dt.parse(dtype) == parts


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("f32", "'float32'"),
        ("float33", "'float32'"),
        ("int", "'int8'"),
        ("uint7", "'uint"),
        ("bfloat32", "'float32'"),
        ("float32x0", "'float32'"),
        ("int32x-1", "'int32'"),
        ("bool8", "'bool'"),
        ("float8", "'float"),
        ("float8_e4m3fnn", "'float8_e4m3fn'"),
        ("complex", "for example float32"),
        (np.float32, "a dtype is a string such as 'float32', got <class 'numpy.float32'>"),
        (np.dtype("int8"), "a dtype is a string"),
        (4, "a dtype is a string"),
    ],
)
def test_what_is_no_dtype_is_refused_with_what_is_near(wrong: Any, near: str) -> None:
    with pytest.raises(IRTypeError, match=re.escape(near)):
        dt.parse(wrong)


_A = te.placeholder((4,), name="A")
_X = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
_DOORS: dict[str, Callable[[str], Any]] = {
    "te.placeholder": lambda d: te.placeholder((4,), d),
    "te.var": lambda d: te.var("n", d),
    "te.size_var": lambda d: te.size_var("n", d),
    "te.extern": lambda d: te.extern((4,), [_A], lambda ins, outs: tir.Evaluate(tir.const(0)), dtype=d),
    "tir.decl_buffer": lambda d: tir.decl_buffer((4,), d),
    "tir.Var": lambda d: tir.Var("x", d),
    "tir.Cast": lambda d: tir.Cast(d, tir.const(1)),
    "tir.astype": lambda d: tir.const(1).astype(d),
    "tir.const": lambda d: tir.const(1, d),
    "PrimType": type.PrimType,
    "topi.cast": lambda d: topi.cast(_A, d),
    "topi.full": lambda d: topi.full((4,), d, 1),
    "TensorStructInfo": lambda d: relax.TensorStructInfo((4,), d),
    "PrimStructInfo": relax.PrimStructInfo,
    "relax.const": lambda d: relax.const(1, d),
    "relax.op.zeros": lambda d: relax.op.zeros((4,), d),
    "relax.op.zeros_like": lambda d: relax.op.zeros_like(_X, d),
    "relax.op.full": lambda d: relax.op.full((4,), 1, d),
    "relax.op.arange": lambda d: relax.op.arange(4, dtype=d),
    "relax.op.astype": lambda d: relax.op.astype(_X, d),
    "relax.op.matmul": lambda d: relax.op.matmul(_X, _X, out_dtype=d),
    "relax.op.argsort": lambda d: relax.op.argsort(_X, dtype=d),
    "R.Tensor": lambda d: R.Tensor((4,), d),
    "nn.Parameter": lambda d: tensor.Parameter((4,), d),
    "nn.Linear": lambda d: modules.Linear(4, 4, dtype=d),
    "nn.spec.Tensor": lambda d: spec.Tensor([4], d),
    "nn.set_default_dtype": tensor.set_default_dtype,
    "runners.empty": lambda d: runners.empty((4,), d),
}


@pytest.mark.parametrize("door", _DOORS)
@pytest.mark.parametrize("wrong", ["f32", "float33"])
def test_every_door_refuses_an_unknown_dtype(door: str, wrong: str) -> None:
    with pytest.raises(TypeError, match=f"unknown dtype '{wrong}'; did you mean .*'float32'"):
        _DOORS[door](wrong)


def test_a_script_is_told_which_dtype_is_meant() -> None:
    with pytest.raises(IRTypeError, match="unknown dtype 'f32'; did you mean 'float32'"):
        T.Buffer((4,), "f32")
    with pytest.raises(AttributeError, match="no 'flaot32'; did you mean T.float32"):
        _ = T.flaot32


def test_dtypes_of_c() -> None:
    assert all(dt.has_c_type(name) for name in ("int8", "uint64", "bool", "float32", "float64", "handle"))
    assert not any(
        dt.has_c_type(name) for name in ("float16", "bfloat16", "float8_e4m3fn", "int32x4", "float64x2")
    )
