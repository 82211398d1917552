"""What is derived from the history of a search."""

from __future__ import annotations

from experiments.search.rows import best_after, trials_to

HISTORY = [None, 4.0, 8.0, 2.05, None, 2.0, 2.0]


def test_best_after_every_trial() -> None:
    assert best_after(HISTORY) == [None, 4000.0, 4000.0, 2050.0, 2050.0, 2000.0, 2000.0]
    assert best_after([]) == []


def test_trials_to_a_share_of_the_best() -> None:
    assert trials_to(HISTORY, 0.95) == 4  # 2.05 s is 97.5 % of the speed of 2 s
    assert trials_to(HISTORY, 0.99) == 6
    assert trials_to([None], 0.95) is None
