"""The page as text: whatever a database holds, it is one file that is well formed, and asks for nothing else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from database import MemoryDatabase
from tests.tuner.report.databases import HOSTILE, filled
from tuner.error import TunerError
from tuner.report import page_of, report_of, write_report

_VOID = {"meta"}


class Tags(HTMLParser):
    """The elements of a page; every one that is opened has to be closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.seen: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def hostile() -> str:
    store = filled(["conv", HOSTILE, "softmax"], 30)
    return page_of(report_of(store, HOSTILE, 2))


def test_names_are_no_markup(hostile: str) -> None:
    tags = Tags(hostile)
    assert "script" not in tags.seen and "img" not in tags.seen
    assert not any(name.startswith("on") for name, _ in tags.attributes)
    assert sum('<script>document.title="broken"' in text for text in tags.texts) >= 5
    assert not re.search(r"[\x00-\x08\x0b-\x1f\ud800-\udfff]", hostile)
    hostile.encode()


def test_a_page_asks_for_nothing(hostile: str) -> None:
    tags = Tags(hostile)
    assert not {"link", "script", "iframe", "object"} & set(tags.seen)
    sources = [
        value for name, value in tags.attributes if name in ("src", "href", "srcset", "action", "xlink:href")
    ]
    assert sources and all(value and value.startswith("#") for value in sources)
    assert "url(" not in hostile and "@import" not in hostile
    assert "default-src 'none'" in hostile


def test_links_and_labels_lead_somewhere(hostile: str) -> None:
    tags = Tags(hostile)
    names = [value for name, value in tags.attributes if name == "id"]
    assert len(names) == len(set(names))
    wanted = [str(value)[1:] for name, value in tags.attributes if name == "href"]
    wanted += [str(value) for name, value in tags.attributes if name == "aria-labelledby"]
    assert set(wanted) <= set(names)


def test_every_drawing_has_words_and_a_table(hostile: str) -> None:
    tags = Tags(hostile)
    assert tags.seen.count("svg") == len(
        re.findall(r'<svg [^>]*role="img"[^>]*aria-label="[^"]{20,}|<svg [^>]*aria-label="[^"]{20,}', hostile)
    )
    assert tags.seen.count("table") >= tags.seen.count("svg")
    assert tags.seen.count("caption") == tags.seen.count("table")
    assert tags.attributes.count(("scope", "row")) > 10 and tags.attributes.count(("scope", "col")) > 10


def test_the_sections_that_were_asked_for_have_drawings(hostile: str) -> None:
    for key in ("shares", "curves", "failures", "spread", "phases", "roofline", "predictions"):
        part = hostile.partition(f'id="{key}"')[2].partition("</section>")[0]
        assert "<svg" in part and "nothing" not in part, key
    programs = hostile.partition('id="programs"')[2]
    assert programs.count("<pre") == 4 and "def main" in programs and "T.Buffer" in programs


@pytest.mark.parametrize(
    ("store", "says"),
    [
        (MemoryDatabase(), "There are no records yet"),
        (filled(["one"], 1), "in 1 trials"),
        (filled(["one"], 1, only_failures=True), "All 1 trials failed"),
        (filled(["a", "b"], 40, only_failures=True), "All 40 trials failed"),
        (filled(["a"], 10, named=False, calibrated=False), "`loopsmith calibrate --database`"),
    ],
    ids=["empty", "one", "one failure", "failures only", "nothing beside records"],
)
def test_a_page_of_little_says_what_is_missing(store: MemoryDatabase, says: str) -> None:
    page = page_of(report_of(store, "t", 1))
    Tags(page)
    assert says in page
    assert "nan" not in re.sub(r"<style>.*?</style>", "", page, flags=re.S).lower() and "inf " not in page


def test_thousands_of_records_stay_small() -> None:
    store = filled(["a", "b", "c"], 2500)
    page = page_of(report_of(store, "t", 0))
    assert len(page) < 1_000_000
    assert "7500" in page


def test_a_file_is_written_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    size = write_report(filled(["a"], 3), path, "t", 0)
    assert path.stat().st_size == size > 5000
    with pytest.raises(TunerError, match="cannot write .*missing.*No such file"):
        write_report(MemoryDatabase(), tmp_path / "missing" / "r.html", "t")
