"""Which task the gradient scheduler tunes next, by what their batches brought."""

from __future__ import annotations

import pytest

from database import Workload
from tests.programs.expressions import matmul
from tuner import TuneContext
from tuner.scheduler.gradient_based import GradientBased
from tuner.search.replay_trace import ReplayTrace
from tuner.state import TaskState


def state(history: list[float], *, trials: int = 64, weight: float = 1.0, flops: float = 1.0) -> TaskState:
    """A task whose best times after its batches are these."""
    context = TuneContext(matmul(16), "cpu", weight=weight, flops=flops)
    made = TaskState(context, ReplayTrace(), Workload(context.mod), trials=trials, history=history)
    made.best_secs = history[-1] if history else float("inf")
    return made


def chosen(*tasks: TaskState) -> int:
    scheduler = GradientBased()
    scheduler.tasks = list(tasks)
    return scheduler.next_task_id()


def test_first_every_task_has_a_batch_and_the_heaviest_the_first() -> None:
    light, heavy = state([], trials=0, flops=10.0), state([], trials=0, flops=3.0, weight=4.0)
    assert chosen(state([9.0]), light, heavy) == 2
    assert chosen(state([9.0]), light) == 1


def test_the_batch_goes_where_the_last_ones_brought_most_for_the_model() -> None:
    still, falling = state([1.0] * 4), state([1.3, 1.2, 1.1, 1.0])
    assert chosen(still, falling) == 1
    assert chosen(state([1.0] * 4, weight=50.0), falling) == 0


def test_of_those_that_stand_still_the_youngest_is_next() -> None:
    assert chosen(state([1.0] * 4, trials=128), state([1.0] * 4, trials=32)) == 1


def test_nothing_is_left_when_all_are_finished() -> None:
    done = state([1.0])
    done.finished = True
    assert chosen(done) == -1
    assert chosen(done, state([1.0])) == 1


@pytest.mark.parametrize("rise", [1.1, 2.0, 10.0])
def test_a_task_whose_best_time_was_luck_is_not_given_up(rise: float) -> None:
    """A time that was corrected upwards is no loss that the search made: such a task has the more to gain, since it takes longer."""
    assert chosen(state([1.0, 1.0, 1.0, rise]), state([1.0] * 4)) == 0
