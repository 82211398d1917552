"""Constraints on decisions: what they join, and random rows that keep them."""

from __future__ import annotations

import numpy as np
import pytest

from schedules.population.constraint import Constraint, Sampler, groups_of
from schedules.population.decision import CategoricalDecision, TileDecision


def tiles(*extents: int) -> list[TileDecision]:
    return [TileDecision.create(f"t{number}", extent, 3, 64) for number, extent in enumerate(extents)]


def at_most(limit: int, *decisions: TileDecision) -> Constraint:
    """The product of the innermost factors of some tiles is small."""
    inner = [decision.variables[-1] for decision in decisions]
    return Constraint(
        frozenset(inner), lambda values: np.prod([values[var] for var in inner], axis=0) <= limit
    )


def keeps(matrix: np.ndarray, decisions: list[TileDecision], constraint: Constraint) -> np.ndarray:
    values = {}
    for position, decision in enumerate(decisions):
        values.update(decision.values(matrix[:, position]))
    return ~constraint.broken(values, len(matrix))


def test_constraints_join_columns_through_others() -> None:
    a, b, c, d = decisions = tiles(64, 64, 64, 64)
    groups = groups_of(decisions, [at_most(8, a, b), at_most(8, c), at_most(8, b, d)])
    assert sorted(group.columns for group in groups) == [[0, 1, 3], [2]]
    assert sorted(len(group.constraints) for group in groups) == [1, 2]


def test_a_constraint_joins_all_groups_that_it_touches() -> None:
    a, b, c, d, e = decisions = tiles(64, 64, 64, 64, 64)
    constraints = [at_most(8, e), at_most(8, a, c), at_most(8, b, d), at_most(8, a, b)]
    groups = groups_of(decisions, constraints)
    assert sorted(group.columns for group in groups) == [[0, 1, 2, 3], [4]]
    matrix = Sampler(decisions, constraints).sample(20, np.random.default_rng(0), attempts=8)
    assert len(matrix) == 20 and all(keeps(matrix, decisions, item).all() for item in constraints)


def test_columns_without_constraints_are_in_one_group() -> None:
    a, b, c = decisions = tiles(64, 64, 64)
    assert [group.columns for group in groups_of(decisions, [])] == [[0, 1, 2]]
    assert [group.columns for group in groups_of(decisions, [at_most(4, b)])] == [[0, 1, 2]]


@pytest.mark.parametrize("count", [1, 7, 300])
def test_rows_keep_all_constraints(count: int) -> None:
    a, b, c = decisions = tiles(720, 512, 96)
    constraints = [at_most(4, a, b), at_most(2, c)]
    matrix = Sampler(decisions, constraints).sample(count, np.random.default_rng(0), attempts=8)
    assert matrix.shape == (count, 3)
    assert all(keeps(matrix, decisions, constraint).all() for constraint in constraints)


def test_what_is_hardly_ever_drawn_is_repaired() -> None:
    """Of six tiles all must be one wide inside: one row in fifty thousand is."""
    decisions = tiles(*[1024] * 6)
    constraints = [at_most(1, decision) for decision in decisions]
    joined = [
        Constraint(frozenset().union(*[item.variables for item in constraints]), item.allowed)
        for item in constraints
    ]
    matrix = Sampler(decisions, joined).sample(50, np.random.default_rng(0), attempts=4)
    assert len(matrix) == 50
    assert all(keeps(matrix, decisions, constraint).all() for constraint in constraints)


def test_repairs_pass_through_rows_that_are_no_better() -> None:
    """Three choices must be right together: until the last of them is, nothing tells that the others are. Nothing is drawn before."""
    choices = [CategoricalDecision.create(f"c{number}", range(8), [1.0] * 8) for number in range(3)]
    together = Constraint(
        frozenset(item.variable for item in choices),
        lambda values: np.all([values[item.variable] == 5 for item in choices], axis=0),
    )
    rows = Sampler(choices, [together]).sample(64, np.random.default_rng(0), attempts=0)
    assert rows.tolist() == [[5, 5, 5]] * 64


def test_groups_are_drawn_apart_from_each_other() -> None:
    """Each half is valid now and then, both hardly ever."""
    decisions = tiles(4096, 4096)
    constraints = [
        Constraint(
            frozenset(decision.variables),
            lambda values, var=decision.variables: (values[var[0]] == 4096) & (values[var[2]] == 1),
        )
        for decision in decisions
    ]
    matrix = Sampler(decisions, constraints).sample(20, np.random.default_rng(0), attempts=64)
    assert len(matrix) == 20 and all(keeps(matrix, decisions, item).all() for item in constraints)


def test_where_nothing_is_allowed_there_are_no_rows() -> None:
    decisions = tiles(64, 64)
    never = Constraint(frozenset(decisions[1].variables), lambda values: np.zeros(1, dtype=bool))
    assert Sampler(decisions, [at_most(4, decisions[0]), never]).sample(
        5, np.random.default_rng(0), attempts=2
    ).shape == (0, 2)


def test_the_same_seed_draws_the_same_rows() -> None:
    decisions = [*tiles(720, 512), CategoricalDecision.create("c", [0, 16, 64], [0.2, 0.3, 0.5])]
    sampler = Sampler(decisions, [at_most(4, *decisions[:2])])
    first, second = (sampler.sample(30, np.random.default_rng(5), attempts=4) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert len(np.unique(first[:, 2])) == 3, "columns without constraints are drawn too"


def test_a_program_without_decisions_has_one_candidate() -> None:
    assert Sampler([], []).sample(5, np.random.default_rng(0), attempts=1).shape == (1, 0)


@pytest.mark.parametrize("decisions", [[], tiles(64, 64)], ids=["none", "two"])
@pytest.mark.parametrize("allowed", [True, False])
def test_a_constraint_on_no_decision_allows_all_or_nothing(
    decisions: list[TileDecision], allowed: bool
) -> None:
    constraint = Constraint(frozenset(), lambda values: np.asarray(allowed))
    limits = [at_most(4, *decisions)] if decisions else []
    rows = Sampler(decisions, [constraint, *limits]).sample(4, np.random.default_rng(0), attempts=2)
    assert len(rows) == ((4 if decisions else 1) if allowed else 0)


def test_rare_parts_are_repeated_and_every_valid_row_is_drawn() -> None:
    """One row of the second column is valid: it goes with many of the first, all of which occur."""
    decisions = tiles(64, 4)
    only = Constraint(
        frozenset(decisions[1].variables), lambda values: values[decisions[1].variables[0]] == 4
    )
    rows = Sampler(decisions, [at_most(64, decisions[0]), only]).sample(600, np.random.default_rng(0), 8)
    assert len(np.unique(rows[:, 1])) == 1 and len(np.unique(rows[:, 0])) == decisions[0].size
