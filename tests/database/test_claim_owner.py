"""Owners of claims: whether the process that one names still runs, as far as this one can tell."""

from __future__ import annotations

import pytest

from database import claim_owner
from database.claim_owner import has_ended, new_owner
from tests.database.processes import OtherProcess


def test_names_differ_fit_the_column_and_are_alive() -> None:
    names = {new_owner() for _ in range(100)}
    assert len(names) == 100 and max(map(len, names)) <= 64
    assert not any(map(has_ended, names))


def test_a_process_has_ended_when_it_was_killed_and_when_its_number_is_free() -> None:
    with OtherProcess() as process:
        assert not has_ended(process.owner)
        process.kill()
        assert has_ended(process.owner)
        process.reap()
        assert has_ended(process.owner)


def _changed(owner: str, place: int, value: str) -> str:
    fields = owner.split(":")
    fields[place] = value
    return ":".join(fields)


def test_a_number_that_another_process_has_by_now_is_no_life() -> None:
    assert has_ended(_changed(new_owner(), 3, "1"))
    with OtherProcess() as process:  # it lives, and has started later than this one
        assert has_ended(_changed(new_owner(), 2, str(process.pid)))


def test_processes_of_other_machines_and_containers_are_not_judged() -> None:
    with OtherProcess() as process:
        process.kill()
        process.reap()
        assert not has_ended(_changed(process.owner, 1, "0" * 16))
    assert not has_ended("one") and not has_ended("a:b:c:d") and not has_ended("")


def test_where_the_system_tells_nothing_an_owner_is_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    known = new_owner()
    monkeypatch.setattr(claim_owner, "_space_of", lambda pid: None)
    owner = new_owner()
    assert ":" not in owner and not has_ended(owner) and not has_ended(known)


def test_a_process_of_another_user_is_alive() -> None:
    """It may be looked up, or not: the first process of the machine is not this user's, or this user is the administrator."""
    started = claim_owner._start_of(1)
    assert started is not None
    assert not has_ended(_changed(_changed(new_owner(), 2, "1"), 3, started[0]))
