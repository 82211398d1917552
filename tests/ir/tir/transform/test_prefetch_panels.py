"""PrefetchPanels: where the next panel is fetched, how much at a time, and where nothing is to be gained."""

import numpy as np
import pytest

from ir import IRModule, tir
from ir.codegen.build import build
from ir.script import from_source
from ir.script import tir as T

SMALL = tir.transform.PrefetchPanels(min_bytes=0)


def product(
    tiles, loops="for p in T.parallel(4):\n        for tile in range({tiles}):", index="p * 512 + k * 32"
):
    """Products of tiles with panels of 16 x 32 weights."""
    body = f"C[(p * {tiles} + tile) * 32:(p * {tiles} + tile) * 32 + 32]"
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer(({tiles * 16},), "float32"), W: T.Buffer((2560,), "float32"), C: T.Buffer(({tiles * 128},), "float32")):
    {loops.format(tiles=tiles)}
            for k in range(16):
                {body} = {body} + T.Broadcast(A[tile * 16 + k], 32) * W[{index}:{index} + 32]
""")


def test_the_runs_share_the_next_panel(check):
    @T.prim_func
    def after(
        A: T.Buffer((128,), "float32"), W: T.Buffer((2560,), "float32"), C: T.Buffer((1024,), "float32")
    ):
        for p in T.parallel(4):
            for tile in range(8):
                for k in range(16):
                    T.prefetch(T.address_of(W[p * 512 + 512 + (tile * 16 + k) * 4]), 0, 3, 1)
                    C[(p * 8 + tile) * 32 : (p * 8 + tile) * 32 + 32] = (
                        C[(p * 8 + tile) * 32 : (p * 8 + tile) * 32 + 32]
                        + T.Broadcast(A[tile * 16 + k], 32) * W[p * 512 + k * 32 : p * 512 + k * 32 + 32]
                    )

    check(SMALL, product(8), after)


def test_one_fetch_per_cache_line(apply):
    assert apply(SMALL, product(2)).script().count("T.prefetch") == 1  # 16 elements a run: a line
    assert apply(SMALL, product(1)).script().count("T.prefetch") == 0  # nothing is used again


@pytest.mark.parametrize(
    "changed",
    [
        {"index": "p * 512 + k * 64"},  # not one stretch of memory
        {"index": "tile * 256 + k * 4"},  # every tile has its own panel
        {"loops": "for tile in range({tiles}):\n        for p in T.parallel(4):"},  # the panels change inside
    ],
)
def test_where_there_is_no_panel(apply, changed):
    func = product(8, **changed)
    assert apply(SMALL, func, same_results=False) is func


def test_small_buffers_are_left_alone(apply):
    func = product(8)
    assert apply(tir.transform.PrefetchPanels(), func) is func


def test_native_code_fetches_beyond_the_end():
    func = SMALL(IRModule({"main": product(8)}))["main"]
    kernel = build(func)
    assert "llvm.prefetch" in kernel.llvm_ir
    rng = np.random.default_rng(0)
    a, w = rng.random(128, "float32"), rng.random(2560, "float32")
    c = np.zeros(1024, "float32")
    kernel["main"](a, w, c)
    wanted = np.stack([a.reshape(8, 16) @ w[p * 512 : p * 512 + 512].reshape(16, 32) for p in range(4)])
    np.testing.assert_allclose(c, wanted.ravel(), rtol=1e-5)


def stream(rows: int, index: str = "p * 2048 + k * 32", loop: str = "range(64)"):
    """Products of a few rows with panels of 64 x 32 weights, each of which is used once."""
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer(({rows * 64},), "float32"), W: T.Buffer((8192,), "float32"), C: T.Buffer(({rows * 128},), "float32")):
    for p in T.parallel(4):
        for k in {loop}:
            for i in T.unroll({rows}):
                C[(p * {rows} + i) * 32:(p * {rows} + i) * 32 + 32] = C[(p * {rows} + i) * 32:(p * {rows} + i) * 32 + 32] + T.Broadcast(
                    A[i * 64 + k], 32) * W[{index}:{index} + 32]
""")


def test_what_is_used_once_is_fetched_a_page_ahead(apply):
    text = apply(SMALL, stream(8)).script()
    lines = [line.strip() for line in text.splitlines() if "T.prefetch" in line]
    assert lines == [
        "T.prefetch(T.address_of(W[p * 2048 + k * 32 + 1024]), 0, 3, 1)",
        "T.prefetch(T.address_of(W[p * 2048 + k * 32 + 1024 + 16]), 0, 3, 1)",
    ]


@pytest.mark.parametrize(
    "func",
    [
        stream(7),  # 14 lines of results for two of weights: memory is the limit
        stream(8, index="p * 2048 + k * 64"),  # with gaps
        stream(8, index="p * 2048 - k * 32 + 2016"),  # backwards
    ],
)
def test_what_is_not_fetched_ahead(apply, func):
    assert apply(SMALL, func, same_results=False) is func
