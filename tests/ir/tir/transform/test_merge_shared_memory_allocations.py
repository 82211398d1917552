"""MergeSharedMemoryAllocations: one piece of memory, in which what is never used at one time has the same bytes."""

import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ir import IRModule, assert_structural_equal
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.error import IRValueError
from ir.script import from_source
from ir.target import Target
from ir.tir.interpreter import run
from ir.tir.lower import lower
from ir.tir.transform import MergeSharedMemoryAllocations, ThreadSync
from ir.transform import PassContext
from tests.programs.thread_kernels import thread_kernel

KERNEL = """
@T.prim_func
def main(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
    tx = T.launch_thread("threadIdx.x", 32)
{body}
"""


def kernel(body):
    """A kernel of 32 threads around a body, in which ``name: count dtype`` allocates shared memory, and ``sync`` is a barrier."""
    lines = []
    for line in body.strip("\n").split("\n"):
        found = re.fullmatch(r"( *)(\w+): (\d+) (\w+)", line)
        if found is None:
            lines.append(re.sub(r"\bsync\b", 'T.tvm_storage_sync("shared")', line))
            continue
        indent, name, count, dtype = found.groups()
        data = f"{name.lower()}_data"
        lines.append(f'{indent}{data} = T.allocate([{count}], "{dtype}", "shared.dyn")')
        lines.append(f'{indent}{name} = T.Buffer(({count},), "{dtype}", data={data}, scope="shared.dyn")')
    return from_source(KERNEL.format(body="\n".join(f"    {line}" for line in lines)))


def merged(func):
    return MergeSharedMemoryAllocations()(IRModule({"main": func}))["main"]


def places(func):
    """By name of the variable where its memory begins, and under "" how much there is in all."""
    script = func.script()
    found = {name: int(place) for name, place in re.findall(r"(\w+)_data: T.handle.*\[(\d+)\]\)", script)}
    return {"": int(re.search(r'T.allocate\(\[(\d+)\], "uint8"', script)[1]), **found}


def results(func):
    given_ = np.random.default_rng(0).integers(-8, 9, 512).astype("float32")
    found = np.zeros(512, "float32")
    run(func, given_, found)
    return found


ONE_AFTER_THE_OTHER = """
X: 32 float32
H: 64 float16
Y: 40 float32
for k in range(4):
    X[tx] = A[k * 32 + tx]
    H[tx] = T.Cast("float16", A[k * 32 + tx])
    sync
    B[tx] = B[tx] + X[31 - tx] + T.Cast("float32", H[31 - tx])
    sync
Y[tx] = B[tx]
{barrier}B[tx] = Y[31 - tx]
"""


def test_what_is_used_later_has_the_same_bytes():
    before = kernel(ONE_AFTER_THE_OTHER.format(barrier="sync\n"))
    expected = from_source("""
@T.prim_func
def main(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
    tx = T.launch_thread("threadIdx.x", 32)
    dynamic_shared_memory = T.allocate([256], "uint8", "shared.dyn", annotations={"data_alignment": 16})
    bytes = T.Buffer((256,), "uint8", data=dynamic_shared_memory, scope="shared.dyn")
    x_data: T.handle("float32", "shared.dyn") = T.address_of(bytes[0])
    h_data: T.handle("float16", "shared.dyn") = T.address_of(bytes[128])
    y_data: T.handle("float32", "shared.dyn") = T.address_of(bytes[0])
    X = T.Buffer((32,), "float32", data=x_data, scope="shared.dyn")
    H = T.Buffer((64,), "float16", data=h_data, scope="shared.dyn")
    Y = T.Buffer((40,), "float32", data=y_data, scope="shared.dyn")
    for k in range(4):
        X[tx] = A[k * 32 + tx]
        H[tx] = T.Cast("float16", A[k * 32 + tx])
        T.tvm_storage_sync("shared")
        B[tx] = B[tx] + X[31 - tx] + T.Cast("float32", H[31 - tx])
        T.tvm_storage_sync("shared")
    Y[tx] = B[tx]
    T.tvm_storage_sync("shared")
    B[tx] = Y[31 - tx]
""")
    after = merged(before)
    assert_structural_equal(after.without_attr("global_symbol"), expected.without_attr("global_symbol"), True)
    np.testing.assert_array_equal(results(after), results(before))


def test_either_order_with_thread_sync():
    """Behind ThreadSync, which then has nothing to do; before it, without barriers, nothing shares bytes."""
    body = ONE_AFTER_THE_OTHER.replace("    sync\n", "").format(barrier="")
    module = IRModule({"main": kernel(body)})
    behind = MergeSharedMemoryAllocations()(ThreadSync("shared.dyn")(module))
    assert ThreadSync("shared.dyn")(behind) is behind
    before = ThreadSync("shared.dyn")(MergeSharedMemoryAllocations()(module))["main"]
    assert places(behind["main"])[""] < places(before)[""]
    np.testing.assert_array_equal(results(before), results(behind["main"]))


TURN = "X[tx] = A[k]\n    B[tx] = X[tx]\n    sync\n    Y[tx] = A[k]\n    B[tx] = Y[tx]"


@pytest.mark.parametrize(
    ("body", "total"),
    [
        # threads may still be at the first when others come to the second
        ("X: 32 float32\nY: 32 float32\nX[tx] = A[tx]\nB[tx] = X[tx]\nY[tx] = A[tx]\nB[tx] = Y[tx]", 256),
        (
            "X: 32 float32\nY: 32 float32\nX[tx] = A[tx]\nB[tx] = X[tx]\nsync\nY[tx] = A[tx]\nB[tx] = Y[tx]",
            128,
        ),
        # outside of the loop it lasts for all of it
        (f"X: 32 float32\nY: 32 float32\nfor k in range(4):\n    {TURN}\n    sync", 256),
        # in it, for an iteration, behind which a barrier is needed as well
        (f"for k in range(4):\n    X: 32 float32\n    Y: 32 float32\n    {TURN}\n    sync", 128),
        (f"for k in range(4):\n    X: 32 float32\n    Y: 32 float32\n    {TURN}", 256),
        # a barrier that not all threads come to, or not always
        (
            "X: 32 float32\nY: 32 float32\nX[tx] = A[tx]\nif A[0] > T.float32(0):\n    sync\nY[tx] = A[tx]",
            256,
        ),
        # three, of which the first and the last share
        (
            "X: 8 float32\nY: 32 float32\nZ: 16 float32\nX[tx % 8] = A[0]\nsync\nY[tx] = X[0]\nsync\nZ[tx % 16] = Y[0]",
            192,
        ),
    ],
)
def test_how_much_there_is(body, total):
    assert places(merged(kernel(body)))[""] == total


def test_alignment():
    body = "X: 3 float16\nY: 3 float32\n{use}X[tx % 3] = T.float16(1)\nY[tx % 3] = T.float32(1)"
    assert places(merged(kernel(body.format(use="")))) == {"": 32, "x": 16, "y": 0}
    use = 'r = T.allocate([8], "float16", "local")\nT.evaluate(T.ptx_ldmatrix("float16", 0, 4, ".b16", r, 0, x_data, 0))\n'
    assert places(merged(kernel(body.format(use=use)))) == {"": 144, "x": 128, "y": 0}


@pytest.mark.parametrize(("groups", "total"), [(0, 128), (1, 256)])
def test_copies_must_have_arrived(groups, total):
    body = f"""
X: 32 float32
Y: 32 float32
T.evaluate(T.ptx_cp_async("float32", x_data, tx, A.data, tx, 4))
T.evaluate(T.ptx_commit_group())
T.evaluate(T.ptx_wait_group({groups}))
sync
B[tx] = X[31 - tx]
sync
Y[tx] = A[tx]
"""
    assert places(merged(kernel(body)))[""] == total


def test_one_alone_stays():
    func = kernel("X: 32 float32\nX[tx] = A[tx]")
    assert merged(func) is func


def test_memory_of_constant_size_is_merged_where_asked_for():
    source = KERNEL.format(
        body="\n".join(
            f"    {line}"
            for line in """x = T.allocate([32], "float32", "shared")
X = T.Buffer((32,), data=x, scope="shared")
y = T.allocate([32], "float32", "shared")
Y = T.Buffer((32,), data=y, scope="shared")
X[tx] = A[tx]
T.tvm_storage_sync("shared")
B[tx] = X[0]
T.tvm_storage_sync("shared")
Y[tx] = A[tx]""".split("\n")
        )
    )
    func = from_source(source)
    assert merged(func) is func
    with PassContext(config={"tir.merge_static_smem": True}):
        script = merged(func).script()
    assert 'shared_memory = T.allocate([128], "uint8", "shared"' in script and "shared.dyn" not in script


def test_each_kernel_has_its_own():
    source = """
@T.prim_func
def main(A: T.Buffer((32,), "float32")):
    for i in range(2):
        with T.launch_thread("threadIdx.x", 32) as tx:
            x = T.allocate([32], "float32", "shared.dyn")
            X = T.Buffer((32,), data=x, scope="shared.dyn")
            y = T.allocate([8], "float32", "shared.dyn")
            Y = T.Buffer((8,), data=y, scope="shared.dyn")
            X[tx] = A[tx]
            Y[tx % 8] = A[tx]
    with T.launch_thread("threadIdx.x", 32) as ty:
        z = T.allocate([32], "float32", "shared.dyn")
        Z = T.Buffer((32,), data=z, scope="shared.dyn")
        Z[ty] = A[ty]
"""
    script = merged(from_source(source)).script()
    assert (
        script.count('"uint8", "shared.dyn"') == 1
        and 'z = T.allocate([32], "float32", "shared.dyn")' in script
    )


def test_refused():
    source = KERNEL.replace("main(", "main(n: T.int32, ").format(
        body='    x = T.allocate([n], "float32", "shared.dyn")\n    y = T.allocate([8], "float32", "shared.dyn")\n    B[tx] = A[tx]'
    )
    with pytest.raises(
        IRValueError, match=r"shared allocation x has extents \['n'\]; a place .* needs constant ones"
    ):
        merged(from_source(source))


@given(st.randoms(use_true_random=False))
def test_random_kernels_compute_the_same(rng):
    """Their buffers live one after the other, with as many barriers as these need by themselves."""
    parts = [thread_kernel(rng, "shared.dyn", 1) for _ in range(2)]
    func = _in_a_row(*parts)
    try:
        before = ThreadSync("shared.dyn")(IRModule({"main": func}))["main"]
    except IRValueError:  # a statement that no barrier mends
        assume(False)
    after = merged(before)
    places_first = ThreadSync("shared.dyn")(IRModule({"main": merged(func)}))["main"]
    threads = int(func.buffer_map[func.params[0]].shape[0])
    found = []
    for item in (before, after, places_first):
        output = np.zeros((2, threads), "float32")
        run(item, np.arange(threads, dtype="float32"), output)
        found.append(output)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def _in_a_row(first, second):
    """Two kernels of as many threads, or the first alone twice, as one kernel."""
    head, body = first.split("    s0 = ", 1)
    if second.split("    s0 = ", 1)[0] != head:
        second = first
    other = re.sub(r"\bs0\b", "s1", re.sub(r"\bS0\b", "S1", second.split("    s0 = ", 1)[1]))
    other = re.sub(r"\b([kv])(\d+)\b", r"\1\g<2>b", other)
    return from_source(f"{head}    s0 = {body}    s1 = {other}")


@pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
def test_as_cuda():
    """Pointers into one array of bytes, of their own types."""
    func = merged(kernel(ONE_AFTER_THE_OTHER.format(barrier="sync\n")))
    lowered = lower(func, Target("nvidia/nvidia-a100"))
    program = EmulatedProgram(lowered, generate(lowered))
    given_ = np.random.default_rng(0).integers(-8, 9, 512).astype("float32")
    found = np.zeros(512, "float32")
    program(given_, found, name="main")
    np.testing.assert_array_equal(found, results(func))
