"""Cases, arguments and verdicts: what else a call may have changed."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from ir import IRModule, topi
from ir.script import from_source
from runners import RunnerError
from runners.error import ProgramError
from runners.verify import Reference, compute_reference, entry, facts_of, params_of, reference
from tests.programs.irregular import IRREGULAR
from tests.programs.nodes import matmul, scaled

from .conftest import native, te_program, verdict


def test_a_tensor_that_is_written_through_a_view_is_an_output() -> None:
    """And one that is read through a view before keeps what the caller put there."""
    copied = params_of(IRREGULAR["views"].func())
    assert [(param.output, param.updated) for param in copied] == [(False, False), (True, False)]
    added = params_of(IRREGULAR["update through a view"].func())
    assert [(param.output, param.updated) for param in added] == [(False, False), (True, True)]


@pytest.fixture
def product() -> Reference:
    return compute_reference(matmul(6, 7, 8), native)


def right(a: Any, b: Any, c: Any) -> None:
    with np.errstate(all="ignore"):
        c[...] = 0
        for k in range(a.shape[1]):
            c += np.outer(a[:, k], b[k])


def test_facts_of_a_matmul() -> None:
    facts = facts_of(matmul(4, 5, 6))
    assert [(p.name, p.dtype, p.shape, p.output) for p in facts.params] == [
        ("A", "float32", (4, 6), False),
        ("B", "float32", (6, 5), False),
        ("C", "float32", (4, 5), True),
    ]
    assert (facts.terms, facts.narrow, facts.repeatable) == (6, 2.0**24, True)


def test_a_program_without_main_is_refused() -> None:
    func = next(iter(matmul().functions.values()))
    with pytest.raises(RunnerError, match=r"\['f', 'g'\]"):
        params_of(entry(IRModule({"f": func, "g": func})))


def test_a_program_that_reads_its_output_first_is_not_repeatable() -> None:
    mod = from_source("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = B[i] + A[i]
""")
    assert not facts_of(mod).repeatable


def test_a_right_kernel_is_right_on_all_kinds(product: Reference) -> None:
    assert [case.name for case in product.cases][:2] == ["small integers", "random numbers"]
    assert verdict(product, right) is None


@pytest.mark.meaning("tune-exact")
def test_small_integers_must_agree_to_the_last_bit(product: Reference) -> None:
    def nearly(a: Any, b: Any, c: Any) -> None:
        right(a, b, c)
        c[1, 1] = np.nextafter(c[1, 1], np.float32(1e9))

    assert "in 1 of 42 elements; at (1, 1)" in (verdict(product, nearly) or "")


@pytest.mark.parametrize("written", [0, 1])
def test_a_kernel_that_writes_to_an_input_is_refused(product: Reference, written: int) -> None:
    def call(*arrays: Any) -> None:
        right(*arrays)
        arrays[written][2, 3] += 1

    assert f"input {'AB'[written]} was written to, first at (2, 3)" in (verdict(product, call) or "")
    assert verdict(product, right) is None  # it was made anew for the next


@pytest.mark.parametrize("tensor", [0, 1, 2])
@pytest.mark.parametrize("offset", [-4, 0])
def test_a_store_beside_an_array_is_refused(product: Reference, tensor: int, offset: int) -> None:
    def call(*arrays: Any) -> None:
        right(*arrays)
        place = arrays[tensor].ctypes.data + (offset if offset < 0 else arrays[tensor].nbytes)
        ctypes.memset(place, 0, 4)

    assert f"beside tensor {'ABC'[tensor]}" in (verdict(product, call) or "")


def test_unwritten_elements_show(product: Reference) -> None:
    def call(a: Any, b: Any, c: Any) -> None:
        kept = c[5, 6]
        right(a, b, c)
        c[5, 6] = kept

    assert "at (5, 6)" in (verdict(product, call) or "")


def test_a_missing_initialization_shows() -> None:
    result = compute_reference(scaled(16), native)
    assert verdict(result, lambda a, b: np.copyto(b, a * 2)) is None

    def accumulates(a: Any, b: Any) -> None:
        b[...] = b + a * 2

    assert verdict(result, accumulates) is not None


def test_large_inputs_share_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "_KEPT_BYTES", 0)
    result = compute_reference(matmul(6, 7, 8), native)
    places = {result.prepare(case).arrays[0].ctypes.data for case in result.cases}
    assert len(places) == 1 and verdict(result, right) is None


def test_later_kinds_are_left_out_where_bounds_would_be_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "_BOUND_BYTES", 0)
    assert len(compute_reference(matmul(), native).cases) == 3


def test_packed_parameters_share_one_place_per_position(product: Reference) -> None:
    first = product.room(1, (2, 4, 7), np.dtype("float32"))
    second = product.room(1, (4, 4), np.dtype("float32"))
    assert first.ctypes.data == second.ctypes.data and first.ctypes.data % 64 == 0
    assert product.room(0, (4, 4), np.dtype("float32")).ctypes.data != first.ctypes.data
    ctypes.memset(second.ctypes.data + second.nbytes, 0, 1)
    assert "beside the packed tensor B" in (verdict(product, right) or "")


def test_a_product_of_many_is_not_tried_on_numbers_of_every_exponent(reference_of: Any) -> None:
    """Half of them first overflows, and vanishes times the other half: no order of a product is wrong."""
    reduced = {kind: te_program(function, ((24, 9), "float32")) for kind, function in (
        ("sum", lambda x: topi.sum(x, axis=1)), ("product", lambda x: topi.prod(x, axis=1)),
    )}  # fmt: skip
    names = {kind: [case.name for case in reference_of(mod).cases] for kind, mod in reduced.items()}
    assert "numbers of every exponent" in names["sum"]
    assert "numbers of every exponent" not in names["product"]
    assert "numbers of all magnitudes" in names["product"]


def test_where_each_case_is_asked_for_once_all_take_the_same_memory(product: Reference) -> None:
    one, other = (product.prepare(case).arrays[0] for case in product.cases[:2])
    assert one is not other
    product.once = True
    one, other = (product.prepare(case).arrays[0] for case in product.cases[:2])
    assert one is other


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize(("rows", "words"), [(4, r"\[bounds\]"), (200, "beside tensor B")])
def test_a_program_that_writes_beside_its_outputs_is_itself_wrong(dtype: str, rows: int, words: str) -> None:
    """The interpreter says so of a small one, guarded memory of a large one."""
    mod = from_source(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer(({rows}, 64), "{dtype}"), B: T.Buffer(({rows}, 64), "{dtype}")):
        for i in range({rows}):
            for j in range(65):
                B[i, j] = A[i, T.min(j, 63)]
""")
    with pytest.raises(ProgramError, match=words):
        compute_reference(mod, native)


def test_a_program_that_the_interpreter_does_not_know_is_no_wrong_one() -> None:
    mod = from_source("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = T.call_pure_extern("float32", "fabsf", A[i])
""")
    assert compute_reference(mod, native).cases
