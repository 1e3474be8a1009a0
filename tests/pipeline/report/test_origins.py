from headrace.data_prep.dedup.config import Dedup
from headrace.pipeline.report.funnel import CountRow
from headrace.pipeline.report.origins import ORIGINS_SHOWN, origins
from tests.data_prep.test_repeats import numbered, stages


def test_shares_are_of_the_documents_of_each_origin(tmp_path):
    page, other = numbered(0, 60), numbered(0, 50, "o")
    shards = [
        {"a.jsonl:0": page, "a.jsonl:1": page, "a.jsonl:2": other, "b.jsonl:0": numbered(0, 9, "b")},
        {"b.jsonl:1": page, "b.jsonl:2": numbered(5, 40), "c.jsonl:0": numbered(0, 70, "c")},
    ]
    hosts = {"a.jsonl:0": "x.org", "a.jsonl:1": "x.org", "b.jsonl:1": "y.net:80", "b.jsonl:0": "y.net"}
    metadata = {name: {"url": f"http://{host}/{name}"} for name, host in hosts.items()}
    artifacts = stages(Dedup(buckets=2, contained=0.9), tmp_path, shards, metadata)
    assert origins(artifacts["clean"], artifacts["unique"]) == {
        "source": [CountRow("b.jsonl", 2, 2 / 3), CountRow("a.jsonl", 1, 1 / 3)],
        "host": [CountRow("x.org", 1, 1 / 2), CountRow("y.net", 1, 1 / 2)],
    }


def test_few_are_shown(tmp_path):
    texts = {f"{number:02}.txt:{copy}": numbered(0, 30, f"n{number}x") for number in range(20) for copy in range(2)}
    artifacts = stages(Dedup(buckets=2), tmp_path, [texts])
    assert [row.name for row in origins(artifacts["clean"], artifacts["unique"])["source"]] == [
        f"{number:02}.txt" for number in range(ORIGINS_SHOWN)
    ]
