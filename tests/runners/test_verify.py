"""Which programs are exact on integers, what counts as equal, and that references are shared through files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir import IRModule, te
from ir import dtype as dt
from ir.tir import interpreter
from runners import RunnerError, verify
from runners.verify import (
    Case,
    Param,
    ReferenceStore,
    compare,
    compute_reference,
    facts_of,
    make_value,
    params_of,
    tolerance,
)
from tests.programs.nodes import matmul, scaled


def run_of(mod: Any) -> Any:
    return lambda arguments: interpreter.run(mod, *arguments)


def test_facts_of_a_matmul() -> None:
    facts = facts_of(matmul(4, 5, 6))
    assert [(p.name, p.dtype, p.shape, p.output) for p in facts.params] == [
        ("A", "float32", (4, 6), False),
        ("B", "float32", (6, 5), False),
        ("C", "float32", (4, 5), True),
    ]
    assert facts.reduction == 6
    assert facts.magnitude == 4


@pytest.mark.parametrize(
    ("mod", "magnitude"),
    [
        (matmul(2, 2, 100, "float16"), 4),
        (matmul(2, 2, 500, "float16"), 2),
        (matmul(2, 2, 5000, "float16"), 0),
        (matmul(2, 2, 1 << 20), 4),
        (matmul(2, 2, (1 << 20) + 1), 2),
        (matmul(2, 2, 16, "bfloat16"), 4),
        (matmul(2, 2, 17, "bfloat16"), 2),
        (matmul(2, 2, 1 << 30, "int8"), 4),
        (scaled(factor=2.0), 4),
        (scaled(factor=0.3), 0),
    ],
)
def test_integers_are_used_where_all_sums_stay_exact(mod: Any, magnitude: int) -> None:
    assert facts_of(mod).magnitude == magnitude


@pytest.mark.parametrize(("function", "is_exact"), [(te.abs, True), (te.exp, False), (te.sqrt, False)])
def test_intrinsics_say_whether_they_are_exact(function: Any, is_exact: bool) -> None:
    a = te.placeholder((4,), "float32", "A")
    mod = IRModule.from_expr(te.create_prim_func([a, te.compute((4,), lambda i: function(a[i]))]))
    assert bool(facts_of(mod).magnitude) == is_exact


def test_reference_has_an_exact_and_a_random_case() -> None:
    reference = compute_reference(matmul(), run_of(matmul()))
    assert [case.exact for case in reference.cases] == [True, False]
    for case in reference.cases:
        a, b, _ = case.arguments(reference.facts.params)
        np.testing.assert_allclose(case.outputs[0], a @ b, rtol=1e-5, atol=1e-6)


def test_equal_up_to_rounding_is_equal_and_a_missing_term_is_not() -> None:
    facts = facts_of(matmul(8, 8, 64))
    rng = np.random.default_rng(0)
    a, b = rng.random((8, 64), np.float32), rng.random((64, 8), np.float32)
    case = Case("random numbers", 0, False, [(a.astype(np.float64) @ b).astype(np.float32)])
    right = a @ b
    assert compare(case, facts, [a, b, right]) is None
    wrong = right - np.outer(a[:, 0], b[0])
    message = compare(case, facts, [a, b, wrong])
    assert message is not None and "output C differs" in message and "64 of 64" in message


def test_unwritten_elements_show() -> None:
    reference = compute_reference(matmul(), run_of(matmul()))
    case = reference.cases[0]
    arguments = case.arguments(reference.facts.params)
    assert compare(case, reference.facts, arguments) is not None
    arguments[-1][...] = case.outputs[0]
    assert compare(case, reference.facts, arguments) is None


def test_nan_equals_nan_and_infinity_equals_infinity() -> None:
    facts = facts_of(scaled(3))
    case = Case("random numbers", 0, False, [np.array([np.nan, np.inf, 1.0], np.float32)])
    assert compare(case, facts, [np.zeros(3), np.array([np.nan, np.inf, 1.0], np.float32)]) is None
    assert compare(case, facts, [np.zeros(3), np.array([0.0, np.inf, 1.0], np.float32)]) is not None
    assert compare(case, facts, [np.zeros(3), np.array([np.nan, -np.inf, 1.0], np.float32)]) is not None


@given(dtype=st.sampled_from(["float16", "float32", "float64", "bfloat16"]), length=st.integers(1, 10**6))
def test_tolerance_grows_with_the_reduction(dtype: str, length: int) -> None:
    assert 0 < tolerance(dtype, 1) <= tolerance(dtype, length)
    assert tolerance("int8", length) == 0


@pytest.mark.parametrize(
    ("dtype", "unit"), [("float16", 2**-10), ("bfloat16", 2**-7), ("float32", 2**-23), ("float64", 1e-14)]
)
def test_tolerance_is_some_roundings_and_grows_like_a_random_walk(dtype: str, unit: float) -> None:
    assert 16 * unit < tolerance(dtype, 1) < 64 * unit
    assert tolerance(dtype, 10**8) / tolerance(dtype, 10**6) == pytest.approx(10, rel=0.02)
    assert tolerance(dtype, 10**8) == pytest.approx(4 * 10**4 * unit, rel=1e-3)  # four deviations of it


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "int8", "uint8", "int32", "bool", "float64"]
)
def test_inputs_of_every_dtype_are_reproducible(dtype: str) -> None:
    param = Param("a", dtype, (64,), output=False)
    first, second, other = (
        make_value(param, np.random.default_rng(seed), magnitude=2, positive=False) for seed in (1, 1, 2)
    )
    assert first.dtype == dt.to_numpy(dtype) and first.shape == (64,)
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)
    assert len(np.unique(first)) > 1 and np.abs(first.astype(np.float32)).max() <= 4


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int32"])
def test_small_integers_are_all_those_up_to_the_magnitude(dtype: str) -> None:
    def values(dtype: str, magnitude: int, positive: bool) -> set[int]:
        param = Param("a", dtype, (500,), output=False)
        made = make_value(param, np.random.default_rng(0), magnitude=magnitude, positive=positive)
        return {int(item) for item in made}

    assert values(dtype, 2, positive=False) == {-2, -1, 0, 1, 2}
    assert values(dtype, 2, positive=True) - {0} == {1, 2}
    assert values("u" + dtype if dtype.startswith("int") else dtype, 1, positive=True) <= {0, 1}


def test_values_where_no_magnitude_is_asked_for() -> None:
    def made(dtype: str, positive: bool = False, **options: Any) -> Any:
        param = Param("a", dtype, (500,), output=False, **options)
        return make_value(param, np.random.default_rng(0), magnitude=0, positive=positive)

    assert set(made("int32")) == set(range(-4, 5)) and set(made("uint8")) == set(range(5))
    assert set(made("int32", index=True)) == {0, 1}
    signed, positive = made("float32"), made("float32", positive=True)
    assert -1 <= signed.min() < -0.9 and 0.9 < signed.max() <= 1
    assert 0.5 <= positive.min() < 0.6 and 1.4 < positive.max() <= 1.5


def test_integers_must_agree_to_the_last_bit() -> None:
    facts, right = facts_of(scaled(3)), np.array([1, 2, 3], np.float32)
    nearly = np.nextafter(right, np.float32(9))
    assert compare(Case("small integers", 4, False, [right]), facts, [right, right]) is None
    assert compare(Case("small integers", 4, False, [right]), facts, [right, nearly]) is not None
    assert compare(Case("random numbers", 0, False, [right]), facts, [right, nearly]) is None
    whole = right.astype("int32")
    assert compare(Case("random numbers", 0, False, [whole]), facts, [right, whole + 1]) is not None


def test_dtypes_of_a_few_bits_have_no_exact_integers() -> None:
    assert facts_of(matmul(2, 2, 2, "float8_e4m3fn")).magnitude == 0


def test_large_inputs_repeat_a_drawn_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "_PERIOD", 7)
    param = Param("a", "float32", (4, 5), output=False)
    flat = make_value(param, np.random.default_rng(0), magnitude=0, positive=False).reshape(-1)
    np.testing.assert_array_equal(flat[7:14], flat[:7])
    np.testing.assert_array_equal(flat[14:], flat[:6])
    assert len(np.unique(flat[:7])) == 7


def test_old_references_go_before_a_new_one_is_made() -> None:
    store = ReferenceStore(None, memory_bytes=4000)  # two of about 1.5 kB, not three
    made: list[str] = []

    def get(key: str) -> None:
        mod = matmul(8, 8, int(key))

        def make_run() -> Any:
            made.append(key)
            return run_of(mod)

        store.get(key, mod, make_run)

    for key in ("8", "7", "8", "6"):
        get(key)
    assert made == ["8", "7", "6"]
    assert store.in_memory("7") is None and store.in_memory("8") is not None


def test_packed_parameters_share_one_place_per_position() -> None:
    reference = compute_reference(matmul(), run_of(matmul()))
    before = reference.nbytes
    first = reference.room(1, (2, 4, 2), np.dtype("float32"))
    second = reference.room(1, (4, 4), np.dtype("float32"))
    assert first.ctypes.data == second.ctypes.data and first.ctypes.data % 64 == 0
    assert reference.nbytes == before + 64
    assert reference.room(0, (4, 4), np.dtype("float32")).ctypes.data != first.ctypes.data


def test_references_are_shared_through_a_file(tmp_path: Path) -> None:
    mod = matmul(3, 3, 3)
    calls: list[int] = []

    def make_run() -> Any:
        calls.append(1)
        return run_of(mod)

    key = ReferenceStore.key(mod, "cpu")
    first = ReferenceStore(tmp_path).get(key, mod, make_run)
    second = ReferenceStore(tmp_path).get(key, mod, make_run)
    assert len(calls) == 1
    assert first.cases
    for one, other in zip(first.cases, second.cases, strict=True):
        assert (one.name, one.exact) == (other.name, other.exact)
        np.testing.assert_array_equal(one.outputs[0], other.outputs[0])
    assert second.secs == first.secs
    (tmp_path / f"{key}.npz").write_bytes(b"damaged")
    ReferenceStore(tmp_path).get(key, mod, make_run)
    assert len(calls) == 2


def test_a_program_without_main_is_refused() -> None:
    from ir import IRModule

    func = _only(matmul())
    with pytest.raises(RunnerError, match=r"\['f', 'g'\]"):
        params_of(_entry(IRModule({"f": func, "g": func})))


def _only(mod: Any) -> Any:
    return next(iter(mod.functions.values()))


def _entry(mod: Any) -> Any:
    from runners.verify import entry

    return entry(mod)
