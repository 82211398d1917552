"""Passwords are no part of what is kept or shown: texts that may name a database's URL are masked before they are either.

Whoever prints a URL that a user gave, or puts it into a record, passes it through :func:`masked` first.
"""

from __future__ import annotations

import re

_MASK = "***"
_WORD = re.compile(r"\S+")
_USER = re.compile(r"://[^\s:/]*:")
"""What stands before a password: the user, who may be one of a tenant, ``ann@tenant``."""
_WITH_BLANKS = re.compile(r"(://[^\s:/]*:)(?!\d*[\s/])[^\s/@][^/@\n]*@")
"""A password with blanks behind its user: what follows the colon is no port."""
_FIELD = re.compile(
    r"(?i)([?&;\s=]|%3B|%26|%3D|^)((?:\w*password|passwd|pwd|passphrase|passfile|sslkey|\w*token|\w*secret|api_?key)\s*(?:=|%3D))\s*"
    r"('[^']*'|\"[^\"]*\"|\{[^}\s]*\}|(?:(?!%3B|%26)[^&;\s'\"])*)"
)
"""Fields of a URL's query, or of a connection string, that hold a secret; a connection string may be a field of a query by itself
(``odbc_connect=``), with ``;`` and ``=`` escaped."""


def masked(text: str) -> str:
    """A text in which the passwords of URLs and connection strings are stars.

    >>> masked("loopsmith tune --database postgresql://ann:top@server/db")
    'loopsmith tune --database postgresql://ann:***@server/db'
    >>> masked("postgresql://server/db?user=ann&password=top")
    'postgresql://server/db?user=ann&password=***'
    """
    # Messages come from anywhere and may be long: each part looks at a text once.
    text = _WITH_BLANKS.sub(rf"\1{_MASK}@", _WORD.sub(_masked_word, text))
    return _FIELD.sub(rf"\1\2{_MASK}", text)


def _masked_word(match: re.Match[str]) -> str:
    """A word without the password of a URL. One that is not escaped may hold anything, so that the last '@' of the word ends it."""
    before, at, behind = match.group().rpartition("@")
    user = _USER.search(before) if at else None
    return match.group() if user is None else f"{before[: user.end()]}{_MASK}@{behind}"
