"""A small input through the command line: shared out over the workers, and shown as one line per stage."""

import json
import re
from pathlib import Path

from headrace.pipeline.core.artifact import Artifact
from tests.command_line import headrace
from tests.small_runs import page


def test_a_small_input_uses_all_workers_and_shows_one_line_per_stage(tmp_path: Path) -> None:
    """Three files of 1.1 MB are three tasks, although source.task_bytes is 64 MB. A log has no line per phase;
    a slow machine adds lines with the time to go."""
    text = page(0) + "\n"
    rows = [json.dumps({"text": f"Page {number}. {text * 10}"}) + "\n" for number in range(150)]
    (tmp_path / "in").mkdir()
    for name in "abc":
        (tmp_path / "in" / f"{name}.jsonl").write_text("".join(rows))
    settings = [f"source.paths=[{tmp_path}/in]", "source=jsonl", "cleaning=none", f"root={tmp_path}/runs", "workers=2"]
    done = headrace(*settings, "until=duplicates")
    assert done.returncode == 0, done.stderr
    (texts,) = (tmp_path / "runs/texts").iterdir()
    assert Artifact(texts).manifest["phases"] == {"texts": 3}
    (duplicates,) = (tmp_path / "runs/duplicates").iterdir()
    assert Artifact(duplicates).counts["documents"] == 450
    lines = [line for line in done.stderr.splitlines() if re.search(r" phases? (?!.* to go$)", line)]
    assert [re.sub(r"\d:\d\d:\d\d$", "TIME", line) for line in lines] == [
        "texts: 1 phase in TIME",
        "clean: 1 phase in TIME",
        "signatures: 1 phase in TIME",
        "duplicates: 12 phases in TIME",
        "report: 1 phase in TIME",
    ]
