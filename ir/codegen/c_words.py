"""Names of a model's functions as words of C, no two of which are the same."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable


def c_word(name: str) -> str:
    """A name with what C does not allow in one replaced.

    >>> c_word("resnet-50")
    'resnet_50'
    """
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def c_words(
    names: Iterable[str], taken: Collection[str] = (), endings: Collection[str] = ("",)
) -> dict[str, str]:
    """A word for each name, to stand behind others in a symbol: the name itself, unless that is none or is taken.

    Args:
        names: of functions.
        taken: words that mean something else.
        endings: with each of which a word is different from all others with theirs.

    >>> c_words(["a.b", "a_b", "last_error"], taken={"last_error"})
    {'a_b': 'a_b', 'last_error': 'last_error_', 'a.b': 'a_b_'}
    """
    words: dict[str, str] = {}
    used = set(taken)
    for name in sorted(names, key=lambda item: (c_word(item) != item, item)):
        word = c_word(name)
        while any(word + ending in used for ending in endings):
            word += "_"
        used.update([word + ending for ending in endings])
        words[name] = word
    return words


def in_capitals(words: Collection[str]) -> dict[str, str]:
    """How words stand in macros: in capitals, unless that is what another one would be.

    >>> in_capitals(["main", "grow", "Grow"])
    {'main': 'MAIN', 'grow': 'grow', 'Grow': 'Grow'}
    """
    capitals = [word.upper() for word in words]
    return {
        word: capital if capitals.count(capital) == 1 else word
        for word, capital in zip(words, capitals, strict=True)
    }
