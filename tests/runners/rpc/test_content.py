"""Contents by their names: what comes is what was named, and the folder has room."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.kernel_code import digest
from runners.rpc.content import ContentError, ContentMissing, ContentStore, ContentsUnwritable


@pytest.fixture
def store() -> Iterator[ContentStore]:
    made = ContentStore(limit=100)
    yield made
    made.close()


def test_contents_are_kept(store: ContentStore) -> None:
    data = b"machine code"
    key = digest(data)
    assert store.missing([key]) == [key]
    store.write(key, len(data), [data[:3], b"", data[3:]])
    assert store.missing([key]) == [] and store.read(key) == data
    assert store.add(data) == key
    assert store.add(b"") == digest(b"") and store.read(digest(b"")) == b""
    assert store.folder.stat().st_mode & 0o077 == 0 and store.path(key).stat().st_mode & 0o077 == 0
    assert list(store.parts(key, 5)) == [b"machi", b"ne co", b"de"] and list(store.parts(digest(b""), 5)) == [
        b""
    ]


@pytest.mark.parametrize("parts", [[b"other"], [b"cod"], [b"code", b"x"], [], [b"c" * 1000]])
def test_what_is_something_else_is_refused(store: ContentStore, parts: list[bytes]) -> None:
    with pytest.raises(ContentError, match="something else"):
        store.write(digest(b"code"), 4, parts)
    assert store.missing([digest(b"code")]) == [digest(b"code")]
    assert list(store.folder.iterdir()) == []


@pytest.mark.parametrize("key", ["", "../../etc/passwd", "A" * 64, "g" * 64, "0" * 63, "0" * 64 + "\n"])
def test_keys_are_digests(store: ContentStore, key: str) -> None:
    for use in (
        store.read,
        store.path,
        lambda name: store.missing([name]),
        lambda name: store.write(name, 0, []),
    ):
        with pytest.raises(ContentError, match="64 hexadecimal digits"):
            use(key)


def test_the_longest_unused_makes_room(store: ContentStore) -> None:
    first, second, third = (store.add(bytes([number]) * 40) for number in range(3))
    assert store.missing([first, second, third]) == [first]
    store.read(second)
    store.add(b"x" * 40)
    assert store.missing([second, third]) == [third]
    with pytest.raises(ContentMissing, match="send it"):
        store.read(third)


def test_what_is_too_large_is_refused_before_it_comes(store: ContentStore) -> None:
    for size in (101, -1, 1 << 60):
        with pytest.raises(ContentError, match="too large"):
            store.write("0" * 64, size, iter(()))
    assert store.add(b"y" * 100)


def test_what_is_coming_counts(store: ContentStore) -> None:
    """Two that fit one at a time do not fit together."""
    begun, go_on = threading.Event(), threading.Event()
    data = b"z" * 80

    def slowly() -> Iterator[bytes]:
        begun.set()
        go_on.wait(10)
        yield data

    thread = threading.Thread(target=store.write, args=(digest(data), 80, slowly()))
    thread.start()
    assert begun.wait(10)
    with pytest.raises(ContentError, match="too large"):
        store.add(b"q" * 30)
    go_on.set()
    thread.join()
    assert store.read(digest(data)) == data
    assert store.add(b"q" * 30)  # which the other one makes room for


def test_a_full_disk_takes_no_room_for_good(store: ContentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(dir: object) -> tuple[int, str]:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "mkstemp", full)
        with pytest.raises(ContentsUnwritable, match="cannot keep a content of 100 bytes: .*No space"):
            store.add(b"x" * 100)
    assert store.add(b"y" * 100)


def test_contents_of_a_server_that_was_killed_are_removed_by_the_next(tmp_path: Path) -> None:
    left_by = (
        "import os, pathlib; from runners.rpc.content import ContentStore\n"
        f"store = ContentStore(folder=pathlib.Path({str(tmp_path)!r})); store.add(b'code'); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", left_by], check=False).returncode == -9
    (left,) = tmp_path.iterdir()
    made = ContentStore(folder=tmp_path)
    assert list(tmp_path.iterdir()) == [made.folder] and made.folder != left
    made.close()
    assert list(tmp_path.iterdir()) == []


def test_what_somebody_has_removed_is_asked_for_again(store: ContentStore) -> None:
    """Systems clear their folders for temporary files of what is old; a server runs for months."""
    key = store.add(b"code")
    (store.folder / key).unlink()
    assert store.missing([key]) == [key]
    assert store.add(b"code") == key and store.read(key) == b"code"
    shutil.rmtree(store.folder)
    assert store.missing([key]) == [key]
    assert (
        store.add(b"code") == key and store.read(key) == b"code" and store.folder.stat().st_mode & 0o77 == 0
    )


def test_what_comes_twice_at_once_is_not_lost_where_others_make_room(
    store: ContentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one has its file in place, when the first one's entry makes room for another content."""
    data, replace = b"c" * 40, os.replace
    key = store.add(data)
    others: list[threading.Thread] = []

    def between(source: str, target: Path) -> None:
        replace(source, target)
        if not others:
            others.append(threading.Thread(target=store.add, args=(b"o" * 50,)))
            others[0].start()
            others[0].join(0.2)

    monkeypatch.setattr(os, "replace", between)
    store.write(key, len(data), [data])
    others[0].join(10)
    assert (store.missing([key]) == []) == (store.folder / key).exists()
    there = sum(path.stat().st_size for path in store.folder.iterdir())
    assert there == sum(store._sizes.values()) <= 100
