"""What inputs of each kind hold, and that a write to them is noticed."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from runners.ndarray import numpy_dtype
from runners.verify import KINDS, KernelFacts, Param, inputs, make_value, repetitions
from runners.verify.domains import Domain
from runners.verify.inputs import base_values, density, poison
from runners.verify.repetitions import changed, fill
from runners.verify.rounding import format_of

FACTS = KernelFacts((), 64, 2.0**24, True)
BY_NAME = {kind.name: kind for kind in KINDS}


def drawn(kind: str, dtype: str = "float32", facts: KernelFacts = FACTS, number: int = 0) -> Any:
    return base_values(Param("a", dtype, (5000,), output=False), BY_NAME[kind], facts, number)


@pytest.mark.parametrize("kind", BY_NAME)
@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "float64", "int8", "uint8", "int64", "bool"]
)
def test_inputs_of_every_dtype_are_reproducible(kind: str, dtype: str) -> None:
    first, second, other = drawn(kind, dtype), drawn(kind, dtype), drawn(kind, dtype, number=1)
    assert first.dtype == numpy_dtype(dtype) and first.tobytes() == second.tobytes()
    assert len(np.unique(other.astype("float64"))) > 1
    stands_out_in_each = dtype == "bool" and BY_NAME[kind].alone is not None
    assert (first.tobytes() == other.tobytes()) == stands_out_in_each


@pytest.mark.parametrize(
    ("dtype", "least", "largest"),
    [("float32", -np.inf, np.inf), ("bfloat16", -np.inf, np.inf), ("int8", -128, 127)],
)
def test_the_first_input_is_nothing_but_an_end(dtype: str, least: float, largest: float) -> None:
    assert set(drawn("nothing but -infinity", dtype).astype("float64")) == {least}
    assert set(drawn("nothing but infinity", dtype).astype("float64")) == {largest}
    assert np.isfinite(drawn("nothing but infinity", dtype, number=1).astype("float64")).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn"])
def test_every_exponent_is_there(dtype: str) -> None:
    numbers = format_of(dtype)
    values = np.abs(drawn("numbers of every exponent", dtype).astype("float64"))
    assert values.max() > numbers.largest / 64 and 0 < values[values > 0].min() < numbers.tiny * 64
    assert np.mean((values > 2.0**-9) & (values < 2.0**9)) > 0.45


def test_float64_has_all_its_digits() -> None:
    for kind in BY_NAME.values():
        if not kind.exact and kind.end is None and kind.others is None:
            values = drawn(kind.name, "float64")
            with np.errstate(over="ignore"):
                assert np.mean(values == values.astype(np.float32)) < 0.5, kind.name


@pytest.mark.parametrize("count", [1, 2, 3, 5, 20])
def test_small_inputs_have_special_numbers_too(count: int) -> None:
    seen = set()
    for number in range(4):
        values = base_values(
            Param("a", "float32", (count,), output=False),
            BY_NAME["numbers with NaN and infinities"],
            FACTS,
            number,
        )
        seen |= {str(value) for value in values}
    assert {"nan", "inf", "-inf", "-0.0"} <= seen


def test_small_integers_go_beyond_six_and_are_sparse_where_sums_are_narrow() -> None:
    assert set(drawn("small integers").tolist()) == set(range(-8, 9))
    narrow = KernelFacts((), 4096, 256.0, True)
    assert density(FACTS) == 1.0 and density(narrow) < 0.05
    values = drawn("small integers", facts=narrow)
    assert 0 < np.count_nonzero(values) < 400


def test_magnitudes_and_signs() -> None:
    spread = np.abs(drawn("numbers of all magnitudes"))
    assert spread.min() < 0.02 and spread.max() > 25
    assert (drawn("negative numbers") < 0).all() and (drawn("negative numbers", number=1) > 0).all()
    assert (drawn("positive numbers") > 0).all()


def test_rows_differ_in_magnitude() -> None:
    param = Param("a", "float32", (48, 20), output=False)
    rows = {kind: base_values(param, BY_NAME[kind], FACTS, 0).reshape(48, 20) for kind in BY_NAME}
    spread = np.abs(rows["numbers of all magnitudes"]).max(axis=1)
    assert spread[0] > 8 and spread[3] < 0.01 and spread[4] > 8
    negative = rows["negative numbers"]
    assert (negative < 0).all() and negative[0].max() < -96 and negative[30].min() > -1.3
    assert negative[1].max() < -30_000 and negative[4].max() < -10_000  # below what stands for infinity
    near = np.delete(negative[:32], np.arange(1, 32, 3), axis=0).min(axis=1)
    assert 1 < np.median(near[:-1] / near[1:]) < 1.6


def test_special_numbers_are_few() -> None:
    values = drawn("numbers with NaN and infinities")
    assert np.isnan(values).any() and np.isposinf(values).any() and np.isneginf(values).any()
    assert np.isfinite(values).mean() > 0.95


def test_integers_take_their_whole_range() -> None:
    values = drawn("random numbers", "int8")
    assert values.min() == -128 and values.max() == 127
    assert drawn("random numbers", "uint8").max() == 255
    assert np.abs(drawn("small integers", "int32")).max() <= 16
    for dtype in ("int32", "int64", "uint32", "uint64"):
        ends = np.iinfo(dtype)
        values = set(drawn("random numbers", dtype).tolist())
        assert {ends.min, ends.min + 1, ends.max - 1, ends.max, 0, 1} <= values
        assert all(
            any(2 ** (bits - 1) <= value < 2**bits for value in values) for bits in range(1, ends.bits - 1)
        )


def test_integers_stay_in_their_domain() -> None:
    param = Param("a", "int32", (5000,), output=False, domain=Domain(-3, 2**31 - 1, zero=False))
    for kind in KINDS:
        values = base_values(param, kind, FACTS, 0)
        assert values.min() >= -3 and (values != 0).all()
    only = Param("a", "int32", (50,), output=False, domain=Domain(-5, -1))
    assert set(base_values(only, BY_NAME["small integers"], FACTS, 0).tolist()) == {-5, -4, -3, -2, -1}


def test_large_inputs_repeat_a_drawn_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "PERIOD", 7)
    monkeypatch.setattr(repetitions, "_SHIFT", 1)
    flat = make_value(Param("a", "float32", (4, 5), output=False), np.random.default_rng(0)).reshape(-1)
    np.testing.assert_array_equal(flat[7:14], np.roll(flat[:7], -1))
    np.testing.assert_array_equal(flat[14:], np.roll(flat[:7], -3)[:6])
    assert len(np.unique(flat[:7])) == 7


def test_rows_of_large_inputs_are_not_alike() -> None:
    """Whatever their length: a kernel that takes one for another is found."""
    values = make_value(Param("a", "float32", (1 << 19,), output=False), np.random.default_rng(0))
    for distance in [*range(1 << 14, 1 << 18, 16), 65_520]:
        rows = values[: values.size // distance * distance].reshape(-1, distance)[:, ::61]
        assert (rows[0] == rows[1]).mean() < 0.5, distance


def test_corners_of_small_integers_are_not_all_thinned_out() -> None:
    """A sum that leaves out its first or last term differs, however long it is."""
    long = replace(FACTS, terms=1 << 20, narrow=256.0)
    for shape in ((1 << 20,), (8, 4096), (3, 5, 70_001)):
        param = Param("a", "float32", shape, output=False)
        flat = np.empty(math.prod(shape), np.float32)
        fill(flat, base_values(param, BY_NAME["small integers"], long, 0))
        whole = flat.reshape(shape)
        assert all(whole[corner] for corner in itertools.product(*[(0, -1)] * len(shape)))
        assert np.count_nonzero(flat) < flat.size / 50


@pytest.mark.parametrize("where", [0, 9, 22])
def test_a_write_to_an_input_is_noticed_by_its_bits(where: int) -> None:
    base = np.arange(10, dtype=np.float32)
    flat = np.empty(23, np.float32)
    fill(flat, base)
    assert changed(flat, base) is None
    flat[where] = -0.0 if flat[where] == 0 else flat[where] + 1
    assert changed(flat, base) == where


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "int8", "int4", "uint4", "bool"]
)
def test_outputs_hold_two_different_things_before_calls(dtype: str) -> None:
    first, second = np.zeros(3, numpy_dtype(dtype)), np.zeros(3, numpy_dtype(dtype))
    poison(first, 0)
    poison(second, 1)
    assert first.tobytes() != second.tobytes()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_unwritten_integers_show_in_minima_and_in_maxima(dtype: str) -> None:
    values = np.zeros((2, 1), numpy_dtype(dtype))
    poison(values[0], 0)
    poison(values[1], 1)
    least, most = sorted(int(value) for value in values.ravel())
    assert least < 100 < most


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("kind", [kind.name for kind in KINDS if not kind.special and kind.end is None])
def test_no_number_is_infinite_where_none_is_meant_to_be(kind: str, dtype: str) -> None:
    """What stands beside the largest number, and its multiples: infinities, with which sums that overflow on the way are NaN."""
    largest = format_of(dtype).largest
    facts = replace(FACTS, constants=(-largest, largest / 3, 1.0, largest), extremes=True)
    for number in range(2):
        assert np.isfinite(drawn(kind, dtype, facts, number).astype(np.float64)).all()


def test_ends_of_several_inputs_meet_in_all_combinations() -> None:
    """A product of two inputs that saturates, or wraps, is right where only one of them is an end."""
    domain, count = Domain(-128, 127), 5000
    found = [np.zeros(count, np.int8) for _ in range(3)]
    for number, values in enumerate(found):
        inputs._meet(values, domain, (count,), number)
    combinations = np.unique(np.stack(found, 1)[found[0] != 0], axis=0)
    assert len(combinations) == 8


@pytest.mark.parametrize("shape", [(9, 40), (4, 1000), (128, 12), (40,), (6, 5, 7), (2, 300, 900)])
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_special_numbers_stand_twice_in_rows_along_each_axis(shape: tuple[int, ...], special: float) -> None:
    """Which one an argmax finds does not show where there is one."""
    facts = KernelFacts((), shape[-1], 2.0**24, True, extremes=True)
    param = Param("a", "float32", shape, output=False)
    flat = np.zeros(shape, np.float32).reshape(-1)
    fill(flat, base_values(param, BY_NAME["numbers with NaN and infinities"], facts, 0))
    values = flat.reshape(shape)
    same = np.isnan(values) if np.isnan(special) else values == special
    if len(shape) == 1 and not np.isnan(special):
        return  # the only row has a NaN, which hides infinities
    assert all((same.sum(axis) >= 2).any() for axis, extent in enumerate(shape) if extent > 2)


@pytest.mark.parametrize(("distinct", "least"), [(False, 0.2), (True, 0.0)])
def test_positions_stand_side_by_side_where_they_may(distinct: bool, least: float) -> None:
    param = Param("a", "int32", (5000,), output=False, domain=Domain(0, 199, index=True, distinct=distinct))
    values = base_values(param, BY_NAME["small integers"], FACTS, 0)
    equal = np.mean(values[1:] == values[:-1])
    assert equal > least if least else equal < 0.01
    assert set(values.tolist()) == set(range(200))
    assert (np.bincount(values).max() > 1000) is not distinct


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16"])
@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (3, 300), (24, 64), (300, 400)])
@pytest.mark.parametrize(("kind", "sign"), [("few large numbers", 1), ("few low numbers", -1)])
def test_few_numbers_stand_out(kind: str, sign: int, shape: tuple[int, ...], dtype: str) -> None:
    """The last one does, and none beside it along any axis."""
    param = Param("a", dtype, shape, output=False)
    between = base_values(param, BY_NAME[kind], FACTS, 1).astype("float64")
    least = (int(np.iinfo(dtype).min) + int(np.iinfo(dtype).max)) // 2 if "int" in dtype else 0
    assert (between >= least).all()
    flat = np.empty(math.prod(shape), numpy_dtype(dtype))
    fill(flat, base_values(param, BY_NAME[kind], FACTS, 0))
    values = flat.reshape(shape).astype("float64")
    if values.size:
        last = values[(-1,) * len(shape)]
        stands_out = values == last
        assert (sign * values <= sign * last).all() and stands_out.sum() <= max(1, values.size / 8)
        assert stands_out[-1].sum() == 1 and stands_out[..., -1].sum() == 1


def test_along_each_axis_one_slice_is_all_lows_and_one_all_highs() -> None:
    param = Param("A", "int8", (16, 16), output=False)
    values = base_values(param, KINDS[1], FACTS, 0).reshape(16, 16)
    columns, rows = values, np.delete(values, [1, 14], axis=1)
    for end in (-128, 127):
        assert (columns == end).all(axis=0).any() and (rows == end).all(axis=1).any()


def test_positive_numbers_have_one_far_above_the_rest_in_every_other_row() -> None:
    param = Param("A", "float32", (64, 16), output=False)
    values = base_values(param, BY_NAME["positive numbers"], FACTS, 0).reshape(64, 16)
    high = values == 256
    assert (high.sum(axis=1) == np.arange(len(high)) % 2).all()
    assert high[1::4, -1].all() and not high[3::4, -1].all()
