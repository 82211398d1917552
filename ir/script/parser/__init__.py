"""Reading programs from their text form."""

from __future__ import annotations
