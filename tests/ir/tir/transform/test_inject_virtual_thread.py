"""InjectVirtualThread: copies of statements beside each other, of memory where its content differs, and barriers once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir import IRModule, assert_structural_equal
from ir.error import IRValueError
from ir.script import from_source
from ir.tir.interpreter import run
from ir.tir.transform import InjectVirtualThread

KERNEL = """
@T.prim_func
def main(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
{launch}    tx = T.launch_thread("threadIdx.x", 8)
{body}"""

LOCAL = """c = T.allocate([{size}], "float32", "local")
C = T.Buffer(({size},), data=c, scope="local")
"""
SHARED = """s = T.allocate([{size}], "float32", "shared")
S = T.Buffer(({size},), data=s, scope="shared")
"""


def kernel(body, launch='v = T.launch_thread("vthread.x", 2)'):
    """A kernel of eight threads around a body."""
    first = "".join(f"    {line}\n" for line in launch.split("\n")) if launch else ""
    lines = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    return from_source(KERNEL.format(launch=first, body=lines) + "\n")


def injected(func):
    return InjectVirtualThread()(IRModule({"main": func}))["main"]


def results(func):
    """What a function leaves in its second parameter."""
    given_ = np.random.default_rng(0).integers(-8, 9, 512).astype("float32")
    found = np.zeros(512, "float32")
    run(func, given_, found)
    return found


def expect(before, after, launch='v = T.launch_thread("vthread.x", 2)', same_results=True):
    func = kernel(before, launch)
    found = injected(func)
    assert_structural_equal(found, kernel(after, None), True)
    if same_results:
        np.testing.assert_array_equal(results(found), results(func))


def test_accumulators_get_a_copy_each():
    expect(
        LOCAL.format(size=1)
        + SHARED.format(size=32)
        + """
C[0] = T.float32(0)
for k in range(4):
    S[tx * 4 + k] = A[k * 8 + tx]
    C[0] = C[0] + S[tx * 4 + k] * A[v * 32 + k]
B[v * 8 + tx] = C[0]
""",
        LOCAL.format(size=2)
        + SHARED.format(size=32)
        + """
for v in T.unroll(2):
    C[v] = T.float32(0)
for k in range(4):
    S[tx * 4 + k] = A[k * 8 + tx]
    for v in T.unroll(2):
        C[v] = C[v] + S[tx * 4 + k] * A[v * 32 + k]
for v in T.unroll(2):
    B[v * 8 + tx] = C[v]
""",
    )


def test_several_axes():
    expect(
        LOCAL.format(size=3)
        + """
for i in range(3):
    C[i] = A[v * 3 + i] * A[w * 3 + i]
for i in range(3):
    B[v * 256 + w * 24 + tx * 3 + i] = C[i]
""",
        LOCAL.format(size=18)
        + """
for i in range(3):
    for w in T.unroll(3):
        for v in T.unroll(2):
            C[i + w * 3 + v * 9] = A[v * 3 + i] * A[w * 3 + i]
for i in range(3):
    for w in T.unroll(3):
        for v in T.unroll(2):
            B[v * 256 + w * 24 + tx * 3 + i] = C[i + w * 3 + v * 9]
""",
        'v = T.launch_thread("vthread.x", 2)\nw = T.launch_thread("vthread.y", 3)',
    )


def test_barriers_run_once():
    body = """
for k in range(4):
    S[tx] = A[k * 8 + tx]
    T.tvm_storage_sync("shared")
    {once}B[v * 8 + tx] = B[v * 8 + tx] + S[7 - tx]
    T.tvm_storage_sync("shared")
"""
    expect(
        SHARED.format(size=8) + body.format(once=""),
        SHARED.format(size=8) + body.format(once="for v in T.unroll(2):\n        "),
        same_results=False,
    )


def test_copies_are_begun_and_waited_for_once():
    body = """
T.evaluate(T.ptx_cp_async("float32", s, tx, A.data, tx, 4))
T.evaluate(T.ptx_commit_group())
T.evaluate(T.ptx_wait_group(0))
{once}B[v * 8 + tx] = S[tx]
"""
    expect(
        SHARED.format(size=8) + body.format(once=""),
        SHARED.format(size=8) + body.format(once="for v in T.unroll(2):\n    "),
        same_results=False,
    )


def test_a_condition_that_holds_a_barrier():
    """All virtual threads come to it."""
    expect(
        LOCAL.format(size=1)
        + """
C[0] = A[tx]
if v + tx < 5:
    C[0] = C[0] + A[v]
    T.tvm_storage_sync("shared")
    for i in range(2):
        B[v * 16 + i * 8 + tx] = C[0]
else:
    B[v * 16 + tx] = A[0]
""",
        LOCAL.format(size=2)
        + """
for v in T.unroll(2):
    C[v] = A[tx]
for v in T.unroll(2):
    if v + tx < 5:
        C[v] = C[v] + A[v]
T.tvm_storage_sync("shared")
for v in T.unroll(2):
    if v + tx < 5:
        for i in range(2):
            B[v * 16 + i * 8 + tx] = C[v]
for v in T.unroll(2):
    if not v + tx < 5:
        B[v * 16 + tx] = A[0]
""",
        same_results=False,
    )


def test_a_condition_is_repeated_as_a_whole():
    body = "if v + tx < 5:\n    B[v * 8 + tx] = A[tx]\n    B[v * 8 + tx + 64] = A[tx]"
    expect(body, "for v in T.unroll(2):\n" + "\n".join(f"    {line}" for line in body.split("\n")))


def test_a_condition_that_is_the_same_is_asked_once():
    expect(
        "if tx < 5:\n    B[v * 8 + tx] = A[tx]\nelse:\n    B[tx + 64] = A[tx]",
        "if tx < 5:\n    for v in T.unroll(2):\n        B[v * 8 + tx] = A[tx]\nelse:\n    B[tx + 64] = A[tx]",
    )


def test_lets():
    """One of numbers goes, one of data has a scope for each virtual thread, one that is the same for all stays."""
    expect(
        """
i = v * 8 + tx
same = A[tx]
for k in range(2):
    B[i + k * 16] = same
x = A[i]
B[i + 32] = x
B[i + 48] = x
""",
        """
same: T.float32 = A[tx]
for k in range(2):
    for v in T.unroll(2):
        B[v * 8 + tx + k * 16] = same
for v in T.unroll(2):
    x = A[v * 8 + tx]
    B[v * 8 + tx + 32] = x
    B[v * 8 + tx + 48] = x
""",
    )


def test_a_let_over_a_barrier_is_kept_in_registers():
    found = injected(kernel('x = A[v * 8 + tx]\nT.tvm_storage_sync("shared")\nB[v * 8 + tx] = x'))
    expected = kernel(
        """
x = T.decl_buffer((2,), scope="local")
for v in T.unroll(2):
    x[v] = A[v * 8 + tx]
T.tvm_storage_sync("shared")
for v in T.unroll(2):
    B[v * 8 + tx] = x[v]
""",
        None,
    )
    assert found.script() == expected.script().replace(
        "T.decl_buffer((2,), scope", "T.decl_buffer((2,), scope"
    )


def test_what_an_own_let_guards_counts_once_for_each():
    """What is counted in the scope of a let is counted for one virtual thread alone, though it does not depend on it."""
    func = kernel(
        LOCAL.format(size=1)
        + "C[0] = T.float32(0)\nx = A[v]\nC[0] = C[0] + T.float32(1)\nB[v * 8 + tx] = x + C[0]"
    )
    np.testing.assert_array_equal(results(injected(func)), results(func))


def test_loops_and_whiles_whose_bounds_differ():
    expect(
        LOCAL.format(size=1)
        + """
C[0] = T.float32(0)
for k in range(v + 1):
    C[0] = C[0] + A[k]
while C[0] < T.float32(20):
    C[0] = C[0] + T.float32(7)
B[v * 8 + tx] = C[0]
""",
        LOCAL.format(size=2)
        + """
for v in T.unroll(2):
    C[v] = T.float32(0)
for v in T.unroll(2):
    for k in range(v + 1):
        C[v] = C[v] + A[k]
for v in T.unroll(2):
    while C[v] < T.float32(20):
        C[v] = C[v] + T.float32(7)
for v in T.unroll(2):
    B[v * 8 + tx] = C[v]
""",
    )


def test_an_update_of_outer_memory_is_one_for_each():
    expect("B[tx] = B[tx] + T.float32(1)", "for v in T.unroll(2):\n    B[tx] = B[tx] + T.float32(1)")


def test_vectors_and_addresses_move_to_the_copy():
    expect(
        LOCAL.format(size=4)
        + """
C[T.Ramp(0, 1, 4)] = A[T.Ramp(v * 32 + tx * 4, 1, 4)]
T.evaluate(T.atomic_add("float32", T.address_of(C[1]), T.float32(1)))
T.evaluate(T.atomic_add("float32", T.tvm_access_ptr(T.type_annotation("float32"), c, 2, 1, 3), T.float32(1)))
B[T.Ramp(v * 32 + tx * 4, 1, 4)] = C[T.Ramp(0, 1, 4)]
""",
        LOCAL.format(size=8)
        + """
for v in T.unroll(2):
    C[T.Ramp(v * 4, 1, 4)] = A[T.Ramp(v * 32 + tx * 4, 1, 4)]
for v in T.unroll(2):
    T.evaluate(T.atomic_add("float32", T.address_of(C[1 + v * 4]), T.float32(1)))
for v in T.unroll(2):
    T.evaluate(T.atomic_add("float32", T.tvm_access_ptr(T.type_annotation("float32"), c, 2 + v * 4, 1, 3), T.float32(1)))
for v in T.unroll(2):
    B[T.Ramp(v * 32 + tx * 4, 1, 4)] = C[T.Ramp(v * 4, 1, 4)]
""",
        same_results=False,
    )


def test_another_view_of_the_same_memory():
    expect(
        LOCAL.format(size=2)
        + 'H = T.Buffer((4,), "float16", data=c, scope="local")\nH[3] = T.Cast("float16", A[v])\nB[v * 8 + tx] = T.Cast("float32", H[3])',
        LOCAL.format(size=4)
        + """
H = T.Buffer((8,), "float16", data=c, scope="local")
for v in T.unroll(2):
    H[3 + v * 4] = T.Cast("float16", A[v])
for v in T.unroll(2):
    B[v * 8 + tx] = T.Cast("float32", H[3 + v * 4])
""",
    )


def test_allocations_within_what_is_repeated_stay():
    before = "for k in range(v + 1):\n" + "\n".join(
        f"    {line}" for line in (LOCAL.format(size=1) + "C[0] = A[k + v]\nB[v * 8 + tx] = C[0]").split("\n")
    )
    found = injected(kernel(before))
    assert "T.allocate([1]" in found.script()
    np.testing.assert_array_equal(results(found), results(kernel(before)))


@pytest.mark.parametrize(("extent", "kind"), [(1, None), (16, "T.unroll(16)"), (17, "range(17)")])
def test_how_copies_are_made(extent, kind):
    func = kernel("B[v * 8 + tx] = A[v]", f'v = T.launch_thread("cthread", {extent})')
    script = injected(func).script()
    assert script.count("for ") == (kind is not None) and (kind or "") in script
    np.testing.assert_array_equal(results(injected(func)), results(func))


def test_nothing_virtual_stays_as_it_is():
    func = kernel("B[tx] = A[tx]", None)
    assert injected(func) is func


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            'for k in range(v):\n    T.tvm_storage_sync("shared")',
            "a barrier stands within 'the bounds of the loop over k', which is different",
        ),
        (
            'while A[v] < B[v]:\n    B[v] = A[v]\n    T.tvm_storage_sync("shared")',
            "a barrier stands within 'while",
        ),
        (
            'c = T.allocate([2, 2], "float32", "local")\nC = T.Buffer((2, 2), data=c, scope="local")\nC[0, 0] = A[v]',
            "it needs one constant extent, which FlattenBuffer gives it",
        ),
        (
            LOCAL.format(size=1) + 'C[0] = A[v]\nT.evaluate(T.call_extern("int32", "f", c))',
            "c gets a copy for each virtual thread v, of which a call that takes its address could not tell",
        ),
        (
            'c = T.allocate([3], "float16", "local")\nC = T.Buffer((1,), data=c, scope="local")\nC[0] = A[v]',
            "of 6 bytes, which no number of float32 fills",
        ),
    ],
)
def test_refused(body, message):
    with pytest.raises(IRValueError, match=message):
        injected(kernel(body))


def test_as_many_as_is_not_known():
    source = KERNEL.format(launch='    v = T.launch_thread("vthread.x", n)\n', body="    B[v] = A[v]")
    func = from_source(source.replace("main(", "main(n: T.int32, ") + "\n")
    with pytest.raises(
        IRValueError, match="virtual thread v has the extent n; the number of copies must be constant"
    ):
        injected(func)


# ---- random programs -----------------------------------------------------------------------------------------------------------


class Writer:
    """Writes a body with registers C, D of each virtual thread, and memory S, which only the thread itself uses."""

    def __init__(self, rng, axes):
        self.rng, self.axes = rng, axes
        self.lines, self.names = [], 0

    def line(self, indent, text):
        self.lines.append("    " * indent + text)

    def number(self, loops):
        return self.rng.choice([*self.axes, *loops, "tx", str(self.rng.randrange(3))])

    def value(self, loops, lets):
        choices = [f"{name}[({self.number(loops)} + {self.rng.randrange(2)}) % 4]" for name in "CD"]
        choices += [
            f"A[{self.number(loops)} * 8 + {self.number(loops)}]",
            f"S[tx * 4 + {self.number(loops)} % 4]",
            *lets,
        ]
        value = self.rng.choice(choices)
        if self.rng.random() < 0.3:
            return f"T.if_then_else({self.condition(loops)}, {value}, T.float32(1))"
        return value

    def condition(self, loops, is_same=False):
        """On which all threads decide as one, where a barrier may depend on it."""
        a, b = [self.rng.choice([*self.axes, *loops]) if is_same else self.number(loops) for _ in range(2)]
        return f"{a} + {b} < {self.rng.randrange(1, 5)}"

    def block(self, indent, loops, lets, may_wait):
        lets = list(lets)
        for _ in range(self.rng.choice([1, 2, 3])):
            kind = self.rng.random()
            if kind < 0.35 or (len(loops) > 2 and kind < 0.75):
                target = f"{self.rng.choice('CD')}[{self.number(loops)} % 4]"
                self.line(indent, f"{target} = {self.value(loops, lets)} + {self.value(loops, lets)}")
            elif kind < 0.42:
                self.line(
                    indent,
                    f"S[tx * 4 + {self.rng.choice([*loops, 'tx', '1'])} % 4] = A[tx + {self.rng.choice([*loops, '2'])}]",
                )
            elif kind < 0.5:
                self.names += 1
                self.line(indent, f"x{self.names} = {self.value(loops, lets)}")
                lets.append(f"x{self.names}")
            elif kind < 0.58 and may_wait:
                self.line(indent, "wait")
            elif kind < 0.75:
                self.names += 1
                extent = self.rng.choice(["1", "2", "3", *([] if may_wait else self.axes)])
                self.line(indent, f"for k{self.names} in range({extent}):")
                self.block(indent + 1, [*loops, f"k{self.names}"], lets, may_wait)
            else:
                waits = may_wait and self.rng.random() < 0.7
                self.line(indent, f"if {self.condition(loops, waits)}:")
                self.block(indent + 1, loops, lets, waits)
                if self.rng.random() < 0.3:
                    self.line(indent, "else:")
                    self.block(indent + 1, loops, lets, waits)

    def body(self):
        for name in "CD":
            self.line(0, f'{name.lower()} = T.allocate([4], "float32", "local")')
            self.line(0, f'{name} = T.Buffer((4,), data={name.lower()}, scope="local")')
        self.lines += SHARED.format(size=32).strip().split("\n")
        self.line(0, "for i in range(4):")
        self.line(1, "C[i] = A[i]")
        self.line(1, "D[i] = T.float32(2)")
        self.line(1, "S[tx * 4 + i] = A[tx * 4 + i]")
        self.block(0, [], [], True)
        place = " + ".join(f"{axis} * {32 << 2 * at}" for at, axis in enumerate(self.axes))
        self.line(0, "for i in range(4):")
        self.line(1, f"B[{place} + tx * 4 + i] = C[i] + D[i]")
        return "\n".join(self.lines)


@given(st.randoms(use_true_random=False), st.integers(1, 2))
def test_random_programs_compute_the_same(rng, count):
    """Threads use what is theirs only, so that barriers change nothing, and the program without them says what is right."""
    axes = ["v", "w"][:count]
    body = Writer(rng, axes).body()
    launch = "\n".join(
        f'{axis} = T.launch_thread("vthread.{tag}", {rng.randrange(2, 4)})' for axis, tag in zip(axes, "xy")
    )
    reference = kernel(body.replace("wait", "T.evaluate(0)"), launch)
    found = injected(kernel(body.replace("wait", 'T.tvm_storage_sync("shared")'), launch))
    np.testing.assert_array_equal(results(found), results(reference))


def test_memory_that_is_common_has_no_copies():
    source = """
        @T.prim_func
        def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
            tx = T.launch_thread("threadIdx.x", 4)
            v = T.launch_thread("vthread.x", 2)
            rows = T.allocate([64], "float32", "shared"{annotations})
            rows_1 = T.Buffer((64,), data=rows, scope="shared")
            for i in range(8):
                rows_1[v * 32 + i * 4 + tx] = A[v * 32 + i * 4 + tx]
            for i in range(8):
                C[v * 32 + i * 4 + tx] = rows_1[v * 32 + i * 4 + tx]
    """
    notes = ', annotations={"tir.common_to_virtual_threads": 1}'
    own, common = (
        injected(from_source(source.replace("{annotations}", text))).script() for text in ("", notes)
    )
    assert "T.allocate([128]" in own and "T.allocate([64]" in common
    assert "rows_1[v * 32 + i * 4 + tx] = A[" in common
