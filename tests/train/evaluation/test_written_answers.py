"""Written answers: prompts, the part of a text that counts, scores as the packages compute them."""

import dataclasses
import json

import pytest
import sacrebleu
from rouge_score.rouge_scorer import RougeScorer

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.benchmarks.base import Item
from headrace.train.evaluation.benchmarks.written_answers import WrittenAnswers, first_sentences
from headrace.train.evaluation.contamination import BenchmarkOverlap
from headrace.train.evaluation.harness_files import by_task, config
from headrace.train.evaluation.score_rows import markdown
from headrace.train.evaluation.scoring import score
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.generator import generator_of
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.queries import Written
from headrace.train.inference.settings import Sampling
from tests.train.evaluation.test_benchmarks import questions, sources
from tests.train.small_models import WINDOW_TOKENS, OfHuggingFace, model_of, story

PAIRS = [(f"On day {number} it rained.", f"Am Tag {number} regnete es.") for number in range(6)]


@pytest.fixture
def aligned(tmp_path) -> tuple[str, str]:
    """Aligned files of sentences."""
    for name, texts in zip(("test.en", "test.de"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
    return str(tmp_path / "test.en"), str(tmp_path / "test.de")


def translation(paths, **more: object) -> WrittenAnswers:
    settings = {"prompt": "{en} =", "answer": "{de}", "lines": ("en", "de"), "scores": ("bleu", "chrf", "f1")}
    return WrittenAnswers(paths=paths, **settings | {"max_tokens": 9, "shot_delimiter": "\n"} | more)


def test_prompts_with_worked_examples(aligned):
    items = translation(aligned, shots=2, stops=("\n",)).items(sources())
    assert [item.name for item in items] == [f"test.en:{number}" for number in range(1, 7)]
    (query,) = items[0].queries
    assert (query.sampling, items[0].choices) == (Sampling(max_tokens=9, stops=("\n",)), (PAIRS[0][1],))
    *worked, asked = query.context.split("\n")
    assert asked == "On day 0 it rained. ="
    assert {*worked} < {f"{source} = {target}" for source, target in PAIRS[1:]}
    assert len(worked) == 2


@pytest.mark.parametrize(
    ("text", "number", "shown"),
    [
        (" It rained. The river rose. It fell.", 2, "It rained.\nThe river rose."),
        ("no end", 3, "no end"),
        ("One\n\nTwo \n Three", 2, "One\nTwo"),
        ('He said "no!" Then  he\u00a0left? Yes.', 2, 'He said "no!"\nThen he left?'),
        ("", 1, ""),
    ],
)
def test_first_sentences(text, number, shown):
    assert first_sentences(text, number) == shown


@pytest.fixture(scope="module")
def subject(gpt2, encoder) -> InferenceModel:
    return model_of(OfHuggingFace(gpt2), encoder)


def test_scores_of_written_texts_are_those_of_the_packages(subject, write_lines):
    rows = [{"text": story(number)[:80], "right": [story(number)[80:120], "the old river"]} for number in range(8)]
    settings = {"prompt": "{text}", "answer": "{right}", "temperature": 1.0, "top_k": 2, "seed": 3, "max_tokens": 20}
    scores = ("chrf", "bleu", "rouge1", "rougeLsum", "exact_match", "f1")
    path = str(questions(write_lines, *rows))
    benchmark = WrittenAnswers(paths=(path,), scores=scores, sentences=1, delimiter="", **settings)
    found = score("own", benchmark, sources(), None, subject)
    sampling = Sampling(max_tokens=20, temperature=1.0, top_k=2, seed=3)
    made = generator_of(subject).generate([row["text"] for row in rows], sampling)
    assert [row["written"] for row in found.samples()] == [[text.text] for text in made]
    assert [row["right_answers"] for row in found.samples()] == [row["right"] for row in rows]

    written = [first_sentences(text.text, 1) for text in made]
    streams = [[row["right"][number] for row in rows] for number in range(2)]
    metrics = {metric.name: metric for metric in found.scores.metrics}
    assert [*metrics] == list(scores)
    for name, theirs in (("bleu", sacrebleu.metrics.BLEU()), ("chrf", sacrebleu.metrics.CHRF())):
        with_interval = theirs.corpus_score(written, streams, n_bootstrap=1000)
        assert metrics[name].value == with_interval.score
        assert metrics[name].signature == str(theirs.get_signature())
        assert f"{name} {metrics[name].signature}" in markdown([found.scores])
    rouge = RougeScorer(["rouge1", "rougeLsum"])
    for name in ("rouge1", "rougeLsum"):
        best = [
            max(rouge.score(right, text)[name].fmeasure for right in row["right"])
            for row, text in zip(rows, written, strict=True)
        ]
        assert [row["outcome"][name] for row in found.samples()] == pytest.approx(best, abs=1e-6)
        assert metrics[name].value == pytest.approx(sum(best) / len(best))
    row = found.scores.row()
    assert [metric.get("signature", "") for metric in row["metrics"]] == [metrics[name].signature for name in scores]
    assert type(found.scores).read(json.loads(json.dumps(row))) == found.scores


def test_clean_and_dirty_items_have_their_own_bleu(subject, aligned):
    overlap = BenchmarkOverlap({"test.en:1": 1, "test.en:3": 2}, frozenset())
    found = score("own", translation(aligned, scores=("bleu",)), sources(), overlap, subject)
    (metric,) = found.scores.metrics
    assert (metric.items, metric.clean.items, metric.dirty.items) == (6, 4, 2)
    (task, lines), = by_task("own", found.samples())  # fmt: skip
    assert (task, lines[0]["target"], config(lines[0])["output_type"]) == ("own", PAIRS[0][1], "generate_until")


def test_a_document_that_is_too_long_loses_its_end(subject, write_lines):
    document = " ".join(story(number) for number in range(9))
    path = str(questions(write_lines, {"text": document, "right": "x"}, {"text": "Short.", "right": "x"}))
    settings = {"prompt": "{text}\nTL;DR:", "answer": "{right}", "document": "text", "max_tokens": 9}
    benchmark = WrittenAnswers(paths=(path,), **settings)
    of_model = dataclasses.replace(sources(), tokenizer=subject.tokenizer, window_tokens=WINDOW_TOKENS)
    found = score("own", benchmark, of_model, None, subject)
    cut, short = (row["prompts"][0] for row in found.samples())
    assert short == "Short.\nTL;DR:"
    assert cut.endswith("\nTL;DR:")
    kept = cut.removesuffix("\nTL;DR:")
    assert document.startswith(kept)
    (tokens,) = subject.tokenizer.encode([cut])
    assert WINDOW_TOKENS - 9 - 16 <= len(tokens) <= WINDOW_TOKENS - 9
    assert found.scores.tally.truncated_contexts == 0


def test_items_by_hand():
    benchmark = WrittenAnswers(paths=(), prompt="{q}", answer="{a}")
    item = Item("1", (), ("The Normans", "in Normandy"))
    assert benchmark.outcome(item, [Written(" normans!", 2)]) == {"f1": 1.0, "exact_match": 1.0}
    assert benchmark.outcome(item, [Written("in", 1)]) == {"f1": pytest.approx(2 / 3), "exact_match": 0.0}
    assert benchmark.outcome(item, [Written("", 0)]) == {"f1": 0.0, "exact_match": 0.0}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lines": ["en", "fr"]}, "prompt or answer names 'de', and the lines are en, fr; name some of these"),
        ({"document": "fr"}, "document is 'fr', and the prompt names en; name one of these fields"),
        ({"scores": []}, "scores: must not be empty (got [])"),
        ({"prompt": "English"},
         "prompt: 'English' names no field; write names of fields in braces, as {en}, and {{ for a brace"),
        ({"temperature": 1.0, "beams": 2}, "beam search draws no random token"),
    ],
)  # fmt: skip
def test_bad_settings(settings, message):
    own = {"type": "written_answers", "paths": ["a"], "prompt": "{en}", "answer": "{de}", **settings}
    with pytest.raises(ConfigError) as caught:
        decode(Evaluation, {"benchmarks": {"x": own}})
    assert message in str(caught.value)


def test_bad_files(write_lines, tmp_path):
    path = write_lines("bad.jsonl", '{"en": "a", "de": "b"}', '{"en": "a"}')
    with pytest.raises(ArtifactError) as caught:
        translation((str(path),), lines=()).read(tmp_path)
    assert str(caught.value) == f"{path}:2: is no record (no_field de); its fields are: en"
    (tmp_path / "a.en").write_text("a\n\n")
    (tmp_path / "a.de").write_text("b\nc\n")
    with pytest.raises(ArtifactError) as caught:
        translation(("a.en", "a.de")).read(tmp_path)
    assert str(caught.value) == f"{tmp_path / 'a.en'}:2: is no record (blank_text); correct the line, or remove it"
