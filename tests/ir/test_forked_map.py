"""Functions of many items in forked processes."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from ir.error import KilledProcessError
from ir.forked_map import forked_map
from tests.new_process import in_a_new_process

several_processors = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")


def test_results_keep_the_order_of_the_items() -> None:
    assert forked_map(lambda item: item * item, range(20)) == [item * item for item in range(20)]
    assert forked_map(str, []) == []


@several_processors
def test_many_items_are_shared_by_children() -> None:
    """In a process of its own, which has one thread."""
    found = in_a_new_process(lambda: (os.getpid(), forked_map(lambda _: os.getpid(), range(8))))
    own, processes = found
    assert processes[0] == own and own not in processes[1:]


def test_few_items_are_not_worth_a_process() -> None:
    assert forked_map(lambda _: os.getpid(), range(3)) == [os.getpid()] * 3


def test_a_process_with_other_threads_does_not_fork() -> None:
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        assert forked_map(lambda _: os.getpid(), range(8)) == [os.getpid()] * 8
    finally:
        done.set()
        other.join()


@several_processors
def test_what_a_child_raises_is_raised_and_the_next_call_works() -> None:
    def divided(item: int) -> float:
        return 1 / (item - 5)

    def run() -> tuple[str, list[int]]:
        try:
            forked_map(divided, range(8))
        except ZeroDivisionError as error:
            return str(error), forked_map(abs, [-1, -2, -3, -4])
        return "nothing was raised", []

    assert in_a_new_process(run) == ("division by zero", [1, 2, 3, 4])


@several_processors
def test_a_child_that_is_killed_is_an_error_that_names_what_it_computed() -> None:
    def killed(item: int) -> None:
        if item == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    def run() -> str:
        try:
            forked_map(killed, range(40), named=lambda item: f"item {item}")
        except KilledProcessError as error:
            return str(error)
        return "nothing was raised"

    message = in_a_new_process(run)
    assert "killed" in message and "item 3" in message and "memory" in message


@several_processors
def test_children_have_no_children() -> None:
    def processes(_: int) -> list[int]:
        return forked_map(lambda _: os.getpid(), range(4))

    found = in_a_new_process(lambda: forked_map(processes, range(5)))
    assert all(len(set(inside)) == 1 for inside in found[1:])
