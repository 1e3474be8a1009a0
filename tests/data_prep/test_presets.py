"""Every preset of conf/cleaning through the stage: it keeps some pages and drops others, the same in any order."""

import json
from pathlib import Path

import pytest
import yaml

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.document import read_documents
from headrace.data_prep.filters.fasttext_model import language_model
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.pipeline.core.settings import decode

PRESETS = sorted((Path(__file__).parents[2] / "conf" / "cleaning").glob("*.yaml"))
PROSE = [
    "The river runs down the valley and turns the wheel of the old mill, as it has done for a hundred years or more.",
    "Nobody in the village could say who had built it, and the miller, who was asked by every visitor, did not know.",
    "In spring the water was high, so that the wheel had to be held back with a brake made of oak and iron chains.",
    "When summer came there were weeks without rain; then the stones stood still, and the farmers waited with sacks.",
    "His daughter kept a book of all that was brought: how much grain, by whom, and what the weather had been like.",
    "That book is now in the library of the town, and people who study prices of grain have used it more than once.",
]
GERMAN = [
    "Der Fluss fließt durch das Tal und treibt das Rad der alten Mühle an, wie er es seit hundert Jahren schon tut.",
    "Niemand im Dorf konnte sagen, wer sie gebaut hatte, und auch der Müller wusste es nicht, wenn man ihn fragte.",
]


def essay(first: int) -> str:
    """Three long lines of prose that are on no page with another ``first``."""
    turned = (" ".join(PROSE[n:] + PROSE[:n]) for n in range(3))
    return "\n".join(f"{text[:-1]} in the year {1900 + first + n}." for n, text in enumerate(turned))


def pages() -> list[dict[str, str]]:
    """Prose, the same again, German, a menu, code, and prose with what is taken out of it."""
    prose, german, menu = " ".join(PROSE), " ".join(GERMAN * 3), "Home\nAbout\nContact\n" * 9
    texts = [prose, essay(0), german, menu, "if (x) { y }", prose]
    texts += [f"SIGN IN\n{essay(10)}\nWrite to ann@a.org.", f"{essay(20)}\nA line about porn is no good line."]
    return [{"url": f"http://www.a{n % 3}.org/{n}", "text": text} for n, text in enumerate(texts)]


@pytest.fixture
def lists(tmp_path) -> dict[str, dict[str, object]]:
    """Returns the lists that presets need from the user, by filter."""
    (tmp_path / "sites.json").write_text('{"a0.org": true, "a1.org": ["www"]}', encoding="utf-8")
    return {
        "allowed_domains": {"path": str(tmp_path / "sites.json")},
        "fasttext_classifier": {"path": language_model(), "label": "en", "min_score": 0.5},
    }


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_a_preset_runs_the_same_in_any_order(path, lists, run_clean, tmp_path) -> None:
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    values["filters"] = [one | lists.get(one["type"], {}) for one in values["filters"]]
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        lines = "".join(json.dumps(page) + "\n" for page in pages()[number::3])
        (folder / f"{number}.jsonl").write_text(lines, encoding="utf-8")
    source, cleaning = Jsonl(paths=(str(folder),), task_bytes=1), decode(Cleaning, values)
    artifact = run_clean(source, cleaning, tmp_path / "forwards")
    other = run_clean(source, cleaning, tmp_path / "backwards", backwards=True)
    assert other.manifest == artifact.manifest
    counts = artifact.counts
    dropped = [d for shard in artifact.shards("dropped") for d in read_documents(shard)]
    assert counts["documents_in"] == len(pages()) == counts["kept"] + len(dropped)
    assert counts["kept"]
    assert dropped or path.stem in ("none", "pii")
    types = {one["type"] for one in values["filters"]}
    assert {d.metadata["drop"]["rule"].partition(".")[0] for d in dropped} <= types
