"""GradientBased: the next batch goes to the task whose expected gain for the whole model is largest.

The gain of another batch is estimated as in Ansor (Zheng et al., OSDI 2020): what the last batches brought, and what a task
at its age may still bring, weighted by how often the kernel runs in the model.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..callback.base import MeasureCallback
from ..state import TaskState
from .base import TaskScheduler


@TaskScheduler.kinds.register("gradient")
class GradientBased(TaskScheduler):
    """Gradient of expected gain.

    Args:
        alpha: weight of what recent batches brought against what age promises.
        window_size: how many batches count as recent.
    """

    def __init__(
        self, alpha: float = 0.2, window_size: int = 3, measure_callbacks: Sequence[MeasureCallback] = ()
    ) -> None:
        super().__init__(measure_callbacks)
        self.alpha, self.window_size = alpha, window_size

    def next_task_id(self) -> int:
        open_tasks = [i for i, task in enumerate(self.tasks) if not task.finished]
        if not open_tasks:
            return -1
        untried = [i for i in open_tasks if self.tasks[i].all_trials == 0]
        if untried:  # heaviest first, by work: times are not known yet
            return max(untried, key=lambda i: self.tasks[i].context.weight * self.tasks[i].context.flops)
        return max(open_tasks, key=lambda i: self._gain(self.tasks[i]))

    def _gain(self, task: TaskState) -> float:
        weight = task.context.weight
        if task.best_secs == float("inf"):
            # Nothing worked yet; keep trying, but less and less.
            return weight * 1e-3 / (1 + task.trials)
        batches = max(1, len(task.history))
        trials = max(1, task.all_trials)
        recent = task.history[-self.window_size - 1 :]
        finite = [value for value in recent if value < float("inf")]
        # A best time that turned out to be luck, and was corrected upwards, is nothing that a batch has lost.
        slope = (
            max(0.0, finite[0] - finite[-1]) / (len(finite) - 1) if len(finite) > 1 else task.best_secs * 0.2
        )
        promise = task.best_secs * 16.0 / trials
        return weight * (self.alpha * promise + (1 - self.alpha) * min(slope, promise)) / (1 + 0.01 * batches)
