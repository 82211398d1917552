"""Asynchronous copies: what they write arrives where their thread waits for it."""

from __future__ import annotations

import numpy as np
import pytest

from ir import tir
from ir.tir.interpreter import run
from tests.semantics.running import script

from .test_threads import PAIR, SYNC, arrays, refused

SHARED = (
    'tx = T.launch_thread("threadIdx.x", 8)',
    's = T.allocate([64], "int32", "shared")',
    'S = T.Buffer((64,), "int32", data=s, scope="shared")',
)
COMMIT = "T.evaluate(T.ptx_commit_group())"


def copy(to: str, source: str, size: int = 16, more: str = "") -> str:
    return f'T.evaluate(T.ptx_cp_async("int32", s, {to}, A.data, {source}, {size}{more}))'


def wait(groups: int) -> str:
    return f"T.evaluate(T.ptx_wait_group({groups}))"


def kernel(*lines: str) -> tir.PrimFunc:
    return script(PAIR, *SHARED, *lines)


@pytest.mark.meaning("async-copy")
@pytest.mark.parametrize("size", [4, 8, 16])
def test_what_is_waited_for_arrives(size: int) -> None:
    count = size // 4
    a, b = arrays()
    lines = (copy(f"tx * {count}", f"8 + tx * {count}", size), COMMIT, wait(0))
    run(kernel(*lines, f"for i in range({count}):", f"    B[tx * {count} + i] = S[tx * {count} + i]"), a, b)
    assert (b[: 8 * count] == a[8 : 8 + 8 * count]).all() and (b[8 * count :] == -1).all()
    run(kernel(*lines, SYNC, f"B[tx] = S[{8 * count - 1} - tx]"), a, b)
    assert (b[:8] == (a[8 : 8 + 8 * count])[::-1][:8]).all()


@pytest.mark.meaning("async-copy")
def test_groups_arrive_in_order() -> None:
    """A pipeline of two stages: the third copy is begun while the second one is under way."""
    program = kernel(
        copy("tx * 4", "tx", 4),
        COMMIT,
        copy("tx * 4 + 1", "8 + tx", 4),
        COMMIT,
        "for k in range(6):",
        f"    {wait(1)}",
        "    B[k * 8 + tx] = S[tx * 4 + k % 2]",
        "    if k < 4:",
        f"        {copy('tx * 4 + k % 2', '16 + k * 8 + tx', 4)}",
        f"    {COMMIT}",
    )
    a, b = arrays()
    run(program, a, b)
    assert (b[:48] == a[:48]).all()


@pytest.mark.meaning("async-copy")
def test_where_the_predicate_does_not_hold_zeros_arrive() -> None:
    """The source may lie anywhere then."""
    program = kernel(copy("tx * 4", "tx * 1000", 4, ", tx < 1"), COMMIT, wait(0), "B[tx] = S[tx * 4]")
    a, b = arrays()
    a[0] = 5
    run(program, a, b)
    assert b[:8].tolist() == [5, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.meaning("async-copy", "unwritten")
@pytest.mark.parametrize(
    "lines",
    [
        (COMMIT,),
        (COMMIT, wait(1)),
        (wait(0), COMMIT),
        (COMMIT, COMMIT, wait(2)),
    ],
)
def test_what_is_not_waited_for_is_unwritten(lines: tuple[str, ...]) -> None:
    refused(kernel(copy("tx", "tx", 4), *lines, "B[tx] = S[tx]"), arrays(), "unwritten", "S[0] is read")
    refused(kernel(copy("tx", "tx", 4), *lines, SYNC, "B[tx] = S[7 - tx]"), arrays(), "unwritten")


@pytest.mark.meaning("async-copy", "thread-race")
@pytest.mark.parametrize("before", ["", SYNC])
@pytest.mark.parametrize("touch", ["B[tx] = S[tx]", "S[tx] = 1", copy("tx", "tx + 8", 4)])
def test_what_is_under_way_is_not_touched(before: str, touch: str) -> None:
    lines = ("S[tx] = 3", copy("tx", "tx", 4), COMMIT, *([before] if before else []))
    told = "thread (threadIdx.x = 0)", "which an asynchronous copy of thread (threadIdx.x = 0) writes"
    refused(kernel(*lines, touch, wait(0)), arrays(), "thread-race", *told)


@pytest.mark.meaning("async-copy", "thread-race")
def test_a_barrier_shows_to_others_what_has_arrived() -> None:
    wide = (copy("tx * 4", "tx * 4", 16), COMMIT, wait(0))
    a, b = arrays()
    run(kernel(*wide, SYNC, "B[tx] = S[31 - tx]"), a, b)
    assert (b[:8] == 31 - a[:8]).all()
    backwards = kernel(*wide, "B[tx] = S[T.max(tx * 4 - 1, 0)]")
    refused(
        backwards,
        arrays(),
        "thread-race",
        "thread (threadIdx.x = 1) reads S[3], which thread (threadIdx.x = 0) writes",
    )
    early = kernel("S[tx] = 0", SYNC, copy("7 - tx", "tx", 4), COMMIT, SYNC, "B[tx] = S[tx]", wait(0))
    refused(early, arrays(), "thread-race", "an asynchronous copy of thread", "no barrier lies between")
    twice = kernel(copy("tx // 2", "tx", 4))
    refused(
        twice,
        arrays(),
        "thread-race",
        "writes the 4 bytes at byte 0 of s, which an asynchronous copy of thread",
    )


@pytest.mark.meaning("async-copy", "thread-race")
def test_several_may_begin_to_copy_the_same() -> None:
    a, b = arrays()
    run(kernel(copy("tx // 2", "tx // 2", 4), COMMIT, wait(0), SYNC, "B[tx] = S[tx // 2]"), a, b)
    assert (b[:8] == a[np.arange(8) // 2]).all()
    stored = kernel(copy("tx", "tx", 4), COMMIT, "S[7 - tx] = 3", wait(0))
    refused(stored, arrays(), "thread-race", "bytes at byte 16 of s")


@pytest.mark.meaning("async-copy")
@pytest.mark.parametrize(
    ("lines", "rule", "told"),
    [
        ((copy("tx", "tx", 12),), "async-copy", "a copy is of 12 bytes, not of 4, 8, 16"),
        ((copy("tx + 1", "tx * 4", 16),), "async-copy", "the 16 bytes at byte 4 of s does not begin at a multiple"),
        ((copy("tx * 4", "tx * 4 + 2", 16),), "async-copy", "the 16 bytes at byte 8 of A"),
        ((copy("64", "tx", 4),), "bounds", "the 4 bytes at byte 256 of s is outside of the memory"),
        ((copy("tx", "60 + tx", 4),), "bounds", "at byte 256 of A"),
        (
            (copy("tx", "tx", 4), COMMIT, "A[tx] = 77", wait(0)),
            "async-copy",
            "the source of a copy changed while it was under way",
        ),
    ],
)  # fmt: skip
def test_copies_without_a_meaning(lines: tuple[str, ...], rule: str, told: str) -> None:
    refused(kernel(*lines), arrays(), rule, told)


@pytest.mark.meaning("async-copy", "unwritten")
def test_an_unwritten_source_is_refused() -> None:
    program = script(
        PAIR,
        "c = T.allocate([64], 'int32', 'global')",
        'C = T.Buffer((64,), "int32", data=c)',
        "C[0] = 1",
        *SHARED,
        'T.evaluate(T.ptx_cp_async("int32", s, tx, c, tx, 4))',
    )
    refused(program, arrays(), "unwritten", "the 4 bytes at byte 4 of c are read", "for tx = 1")


@pytest.mark.meaning("async-copy")
def test_halves() -> None:
    parameters = {"A": ((32,), "float16"), "B": ((32,), "float16")}
    program = script(
        parameters,
        'tx = T.launch_thread("threadIdx.x", 4)',
        's = T.allocate([32], "float16", "shared.dyn")',
        'S = T.Buffer((32,), "float16", data=s, scope="shared.dyn")',
        'T.evaluate(T.ptx_cp_async("float16", s, tx * 8, T.address_of(A[8]), (tx * 8) % 24, 16))',
        COMMIT,
        wait(0),
        'T.tvm_storage_sync("shared.dyn")',
        "for i in range(8):",
        "    B[tx * 8 + i] = S[(3 - tx) * 8 + i]",
    )
    a, b = np.arange(32, dtype="float16"), np.zeros(32, "float16")
    run(program, a, b)
    source = a[8 + np.concatenate([np.arange(24), np.arange(8)])]
    assert (b.reshape(4, 8) == source.reshape(4, 8)[::-1]).all()
