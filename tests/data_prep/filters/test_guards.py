"""A page that takes too much CPU time is dropped as too_slow, and the run continues; waiting costs nothing."""

import json
import re
import signal
import time

import pytest
from datatrove.data import Document
from datatrove.pipeline.filters.base_filter import BaseFilter

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.document import read_documents
from headrace.data_prep.filters import guards
from headrace.data_prep.filters.c4.lines import StrippedLines
from headrace.data_prep.filters.datatrove_filter import DatatroveFilter
from headrace.data_prep.filters.guards import CpuLimit, TooSlow
from headrace.data_prep.sources.jsonl import Jsonl


class Burning(BaseFilter):
    """A filter that never ends on some pages, in Python or in a regular expression, and sleeps on others."""

    name = "burning"
    loaded = False

    def filter(self, doc: Document) -> bool:
        if doc.text == "loop":
            while True:
                pass
        if doc.text == "match":
            return re.fullmatch("(a+)+b", "a" * 60) is not None
        if doc.text == "wait":
            time.sleep(1)
        if doc.text == "load" and not Burning.loaded:
            Burning.loaded = True
            burn(0.5)
        return True


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(guards, "CPU_SECONDS", 0.2)
    monkeypatch.setattr(guards, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(Burning, "loaded", False)


def test_slow_pages_are_dropped_and_the_others_stay(short, tmp_path, run_clean) -> None:
    texts = ["before", "loop", "between", "match", "wait", "load", "after"]
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps({"text": f"  {text}"}) + "\n" for text in texts))
    burning = DatatroveFilter(path=f"{__name__}.Burning")
    cleaning = Cleaning(filters=(StrippedLines(), burning))
    artifact = run_clean(Jsonl(paths=(str(tmp_path / "pages.jsonl"),)), cleaning, tmp_path)
    kept, dropped = (
        [document for path in artifact.shards(kind) for document in read_documents(path)]
        for kind in ("documents", "dropped")
    )
    assert [document.text for document in kept] == ["before", "between", "wait", "load", "after"]
    assert [document.text for document in dropped] == ["  loop", "  match"]
    assert [document.metadata["drop"] for document in dropped] == [
        {"rule": "too_slow", "value": "more than 0 s of CPU time"}
    ] * 2
    assert artifact.counts["dropped:too_slow"] == 2
    assert artifact.counts["documents_in"] == 7


def test_the_limit_grows_with_the_page(monkeypatch) -> None:
    monkeypatch.setattr(guards, "CPU_SECONDS", 0.0)
    monkeypatch.setattr(guards, "CPU_SECONDS_PER_CHARACTER", 1e-3)
    limit = CpuLimit()  # measures without signals until it is entered
    limit.start(10_000)
    burn(0.01)
    limit.stop()
    limit.start(1)
    burn(0.01)
    with pytest.raises(TooSlow):
        limit.stop()


def test_nothing_is_left_behind(short) -> None:
    before = signal.getsignal(signal.SIGPROF)
    with CpuLimit() as limit:
        limit.start(1)
        limit.stop()
        burn(0.5)  # between pages: no limit
    assert signal.getsignal(signal.SIGPROF) == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
