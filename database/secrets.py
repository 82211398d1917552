"""Passwords are no part of what is kept or shown: texts that may name a database's URL are masked before they are either.

Whoever prints a URL that a user gave, or puts it into a record, passes it through :func:`masked` first.
"""

from __future__ import annotations

import re

_MASK = "***"
_USER_INFO = re.compile(r"([A-Za-z][\w+.-]*://[^\s:/]*):(?:\S*|(?!\d*[\s/])[^\s/@][^/@\n]*)@")
"""Scheme, user and password. A password that is not escaped may hold anything, so that the last '@' of a word ends it; it may have blanks
where what follows the colon is no port. A user may be one of a tenant, ``ann@tenant``."""
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
    text = _USER_INFO.sub(rf"\1:{_MASK}@", text)
    return _FIELD.sub(rf"\1\2{_MASK}", text)
