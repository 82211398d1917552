"""Code that several threads load and call, and processes that are forked meanwhile."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from ir.codegen.build import build
from ir.codegen.llvm.runtime import runtime
from ir.registry import register_func
from ir.script import tir as T

_FORKED = """
import os, pickle, signal, threading
import numpy as np
from ir.codegen.build import build
from ir.script import from_source

blob = pickle.dumps(build(from_source('''
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        B[i] = A[i] * T.float32(2)
'''), "cpu"))
a, stop = np.ones(64, "float32"), False

def load():
    b = np.zeros(64, "float32")
    while not stop:
        pickle.loads(blob)["main"](a, b)

threads = [threading.Thread(target=load) for _ in range(3)]
for thread in threads:
    thread.start()
ends = []
for _ in range(8):
    child = os.fork()
    if not child:
        signal.alarm(30)
        b = np.zeros(64, "float32")
        pickle.loads(blob)["main"](a, b)
        os._exit(0 if (b == 2).all() else 1)
    ends.append(os.waitpid(child, 0)[1])
stop = True
for thread in threads:
    thread.join()
print(ends)
"""


def test_a_child_loads_code_although_other_threads_did_when_it_was_forked() -> None:
    ran = subprocess.run([sys.executable, "-c", _FORKED], capture_output=True, text=True, check=False)
    assert ran.stdout == f"{[0] * 8}\n", (ran.stdout, ran.stderr[-2000:])


@register_func("tests.raise_number", override=True)
def _raise_number(number: int) -> int:
    threading.Event().wait(0.003)
    raise ValueError(f"number {number}")


@T.prim_func
def raising(n: T.int32) -> None:
    T.evaluate(T.call_packed("tests.raise_number", n))


@T.prim_func
def raising_in_parallel(n: T.int32) -> None:
    for i in T.parallel(2):
        T.evaluate(T.call_packed("tests.raise_number", n + i - i))


def _what_is_raised(kernel: object, number: int) -> str:
    try:
        kernel(number)  # type: ignore[operator]
    except Exception as error:
        return f"{error} / {error.__cause__!r}"
    return "nothing"


def test_each_thread_gets_what_its_own_call_raised() -> None:
    kernel, found = build(raising, "cpu")["raising"], dict[int, list[str]]()

    def call(number: int) -> None:
        found[number] = [_what_is_raised(kernel, number) for _ in range(20)]

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, messages in found.items():
        expected = f"ValueError: number {number} / ValueError('number {number}')"
        assert all(message.endswith(expected) for message in messages), messages


def test_what_a_worker_of_a_parallel_loop_raises_is_told() -> None:
    kernel = build(raising_in_parallel, "cpu")["raising_in_parallel"]
    assert "ValueError: number 7 / ValueError" in _what_is_raised(kernel, 7)


@register_func("tests.raise_iteration", override=True)
def _raise_iteration(call: int, iteration: int) -> int:
    _BOTH_THREADS.wait(10)
    if call < 0:
        return 0
    raise ValueError(f"call {call}")


_BOTH_THREADS = threading.Barrier(2)


@T.prim_func
def raising_in_two_threads(n: T.int32) -> None:
    for i in T.parallel(2):
        T.evaluate(T.call_packed("tests.raise_iteration", n, i))


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = runtime().get_num_threads()
    runtime().set_num_threads(2)
    yield
    runtime().set_num_threads(before)


def test_no_exception_of_a_call_outlives_it(two_threads: None) -> None:
    module = build(raising_in_two_threads, "cpu")
    for number in range(5):
        assert f"ValueError('call {number}')" in _what_is_raised(module["raising_in_two_threads"], number)
        assert len(module.raised) == 0
    module["raising_in_two_threads"](-1)


def test_an_exception_of_a_call_is_not_taken_by_a_call_at_the_same_time(two_threads: None) -> None:
    """One call fails of itself while another has raised and not returned yet."""

    @T.prim_func
    def mixed(A: T.Buffer((1,), "int32"), n: T.int32) -> None:
        if n > 0:
            T.evaluate(T.call_packed("tests.raise_while_another_fails", n))
        assert A[0] == 1, "A[0] is not one"

    kernel, raised, failed = build(mixed, "cpu")["mixed"], threading.Event(), threading.Event()

    def _raise(number: int) -> int:
        raised.set()
        failed.wait(10)
        raise ValueError(f"number {number}")

    register_func("tests.raise_while_another_fails", _raise, override=True)
    found: list[str] = []
    first = threading.Thread(
        target=lambda: found.append(_what_is_raised(lambda n: kernel(np.ones(1, "int32"), n), 5))
    )
    first.start()
    raised.wait(10)
    second = _what_is_raised(lambda n: kernel(np.zeros(1, "int32"), n), 0)
    failed.set()
    first.join()
    assert "A[0] is not one / None" in second
    assert "ValueError('number 5')" in found[0]


def test_concurrent_calls_of_parallel_loops_get_their_own_exceptions(two_threads: None) -> None:
    kernel, found = build(raising_in_parallel, "cpu")["raising_in_parallel"], dict[int, list[str]]()

    def call(number: int) -> None:
        found[number] = [_what_is_raised(kernel, number) for _ in range(30)]

    threads = [threading.Thread(target=call, args=(number,)) for number in range(100, 104)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, messages in found.items():
        assert all(f"ValueError('number {number}')" in message for message in messages), messages
    assert len(kernel._module.raised) == 0


def test_an_error_of_the_kernel_itself_is_not_taken_for_an_old_exception() -> None:
    @T.prim_func
    def both(A: T.Buffer((1,), "int32"), n: T.int32) -> None:
        if n > 0:
            T.evaluate(T.call_packed("tests.raise_number", n))
        assert A[0] == 1, "A[0] is not one"

    kernel = build(both, "cpu")["both"]
    messages = []
    for number in (3, 0):
        try:
            kernel(np.zeros(1, "int32"), number)
        except Exception as error:
            messages.append(str(error))
    assert "number 3" in messages[0] and "A[0] is not one" in messages[1]
