"""drop_hidden_mask: values behind weights of 0; what it makes, what is left out then, what it refuses, and what checks think of it."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule
from ir.script import from_source
from ir.tir import PrimFunc
from runners.native import build_native
from runners.verify import Reference, allowing, compute_reference, rounding_program
from schedules import Schedule
from schedules.block_facts import node_of
from schedules.rule.online_tiles import inline_producers, tiles_of_chain
from schedules.rule.reduction_chain import Tile
from tests.programs import chains
from tests.runners.verify.conftest import native, verdict

from ..checks import assert_refused, assert_replays, main_of, outputs_of
from .test_add_into import without_regions
from .test_rfactor_chain import arrays_of


def unmasked(func: PrimFunc) -> Schedule:
    sch = Schedule(func, debug_mask="all")
    inline_producers(sch, sch.get_block("peak"))
    sch.drop_hidden_mask("mixed")
    return sch


@pytest.mark.meaning("tune-hidden")
@pytest.mark.parametrize("weights", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("mask", ["hidden", "window"])
def test_the_value_is_multiplied_as_it_is(mask: str, weights: str) -> None:
    """Results are the same numbers where values are finite; one that is not makes NaN of the rows that do not see it, and of them only."""
    func = chains.attention(1, 4, 5, 2, mask, weights=weights)
    sch = unmasked(func)
    assert_replays(sch, func)
    assert "T.if_then_else" not in str(node_of(sch, sch.get_block("mixed")).body.leaf)  # type: ignore[attr-defined]
    arrays = arrays_of(func, 0)
    for expected, found in zip(outputs_of(func, arrays), outputs_of(main_of(sch), arrays), strict=True):
        np.testing.assert_array_equal(found, expected)
    arrays[2][0, 4, 0] = np.inf  # the last key, which no row sees under either mask
    clean, spoilt = outputs_of(func, arrays)[-1], outputs_of(main_of(sch), arrays)[-1]
    assert np.isfinite(clean).all()
    np.testing.assert_array_equal(spoilt[..., 1], clean[..., 1])
    assert np.isnan(spoilt[..., 0]).any()


def in_tiles(func: PrimFunc) -> Schedule:
    """Attention in tiles of two keys, without those that are hidden."""
    sch = unmasked(func)
    _, loop, _ = tiles_of_chain(sch, sch.get_block("peak"), Tile(2, 2))
    sch.run_chain(loop, True)
    sch.add_into("mixed")
    sch.decompose_reduction("score", sch.get_loops("score")[-1])
    sch.skip_masked(loop, ["score_update", "mixed_rf"])
    return sch


@pytest.mark.parametrize("weights", ["float32", "float16", "bfloat16"])
def test_hidden_tiles_are_left_out(weights: str) -> None:
    """Also behind rounded weights: what is hidden there does not count, be it NaN."""
    func = chains.attention(1, 6, 6, 2, "hidden", weights=weights)
    sch = in_tiles(func)
    assert not node_of(sch, sch.get_block("mixed_rf")).is_unconditional
    arrays = arrays_of(func, 1)
    arrays[2][0, 5] = np.nan
    expected, found = outputs_of(func, arrays)[-1], outputs_of(main_of(sch), arrays)[-1]
    np.testing.assert_allclose(found[0, :4], expected[0, :4], rtol=1e-2 if weights != "float32" else 1e-5)
    assert np.isnan(found[0, 4:]).all(), "row 4 shares the tile of key 5, which it does not see"


def test_masks_that_stay_keep_products_with_zero() -> None:
    """Without the annotation 0 times what is not known is not 0."""
    func = chains.attention(1, 6, 6, 2, "hidden")
    text = without_regions(main_of(unmasked(func)).script())
    again = Schedule(
        from_source(
            "\n".join(
                line
                for line in text.splitlines()
                if "hidden_by_zero" not in line and "rounding_program" not in line
            )
        )
    )
    _, loop, _ = tiles_of_chain(again, again.get_block("peak"), Tile(2, 2))
    again.decompose_reduction("mixed_rf", again.get_loops("mixed_rf")[-1])
    assert_refused(again, lambda: again.skip_masked(loop, ["mixed_rf_update"]), "still stores")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("v_r <= v_i, value", "v_r < v_i, value"),  # another mask
        ('T.float32("-inf")) - peak', "T.float32(-1)) - peak"),  # what is hidden has a weight
        ("T.exp(T.if", "T.sin(T.if"),
        ("v_e], T.float32(0))", 'v_e], T.float32("inf"))'),  # 0 times that is NaN
    ],
)
def test_refuses_weights_that_are_not_known_to_be_zero(right: str, wrong: str) -> None:
    sch = Schedule(chains.attention(1, 4, 5, 2, "hidden"))
    inline_producers(sch, sch.get_block("peak"))
    text = main_of(sch).script()
    assert right in text, text
    other = Schedule(from_source(text.replace(right, wrong)))
    assert_refused(other, lambda: other.drop_hidden_mask("mixed"), "no factor of", "is surely 0")


FROM_MEMORY = """@T.prim_func
def main(S: T.Buffer((4, 6), "float32"), V: T.Buffer((6,), "float32"), O: T.Buffer((4,), "float32")):
    M = T.alloc_buffer((6,), "int32")
    W = T.alloc_buffer((4, 6))
    for j in range(6):
        with T.block("M"):
            vj = T.axis.spatial(6, j)
            M[vj] = vj % 2
    for i, j in T.grid(4, 6):
        with T.block("W"):
            vi, vj = T.axis.remap("SS", [i, j])
            W[vi, vj] = T.exp(T.if_then_else(M[vj] > 0, S[vi, vj], T.float32("-inf")) - V[0])
    for j in range(6):
        with T.block("again"):
            vj = T.axis.spatial(6, j)
            {again}[vj] = 1 - vj % 2
    for i, j in T.grid(4, 6):
        with T.block("O"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                O[vi] = T.float32(0)
            O[vi] = O[vi] + W[vi, vj] * T.if_then_else(M[vj] > 0, V[vj], T.float32(0))
"""


def test_a_mask_in_memory_must_stay_what_it_was() -> None:
    text = FROM_MEMORY.replace("    W = T", '    N = T.alloc_buffer((6,), "int32")\n    W = T')
    func = from_source(text.format(again="N"))
    sch = Schedule(func)
    sch.drop_hidden_mask("O")
    arrays = [np.random.default_rng(0).random(shape, "float32") for shape in ((4, 6), (6,), (4,))]
    for expected, found in zip(outputs_of(func, arrays), outputs_of(main_of(sch), arrays), strict=True):
        np.testing.assert_array_equal(found, expected)
    changed = Schedule(from_source(text.format(again="M")))
    assert_refused(changed, lambda: changed.drop_hidden_mask("O"), "no factor of", "is surely 0")


def test_refuses_what_is_no_sum_of_products() -> None:
    sch = Schedule(chains.attention(1, 4, 5, 2, "hidden"))
    assert_refused(sch, lambda: sch.drop_hidden_mask("total"), "adds up no products of floats")
    assert_refused(sch, lambda: sch.drop_hidden_mask("weight"), "is no reduction")


def test_a_check_takes_no_number_where_a_hidden_value_is_none() -> None:
    """It knows that from the program that the primitive leaves; a kernel that is wrong elsewhere is found out all the same."""
    func = chains.attention(2, 6, 24, 4, "hidden")
    sch = unmasked(func)
    plain = compute_reference(IRModule({"main": func}), native)
    kernel = build_native(sch.mod, "llvm")
    program = rounding_program(sch.mod)
    assert program is not None
    wider: Reference = allowing(plain, program, native)
    assert verdict(plain, kernel) is not None
    assert verdict(wider, kernel) is None

    def wrong(*arrays: np.ndarray) -> None:
        kernel(*arrays)
        arrays[-1][...] *= np.float32(1.001)

    assert verdict(wider, wrong) is not None
