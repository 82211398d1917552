"""Claims: how often those are renewed that a commit keeps alive."""

from __future__ import annotations

import pytest

from database.base import RENEWAL_SECONDS
from database.claims import Holders


def test_claims_are_renewed_by_the_first_commit_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by each: that would be a transaction more for every record."""
    now = [1e9]
    monkeypatch.setattr("database.claims.time.time", lambda: now[0])
    holders = Holders()
    assert holders.due() == set()
    holders.add("a")
    holders.add("b")
    assert holders.due() == set()
    now[0] += RENEWAL_SECONDS
    assert holders.due() == {"a", "b"} and holders.due() == set()
    now[0] -= 3 * RENEWAL_SECONDS  # a clock that is set back does not stop it for ever
    holders.remove("a")
    assert holders.due() == {"b"}
