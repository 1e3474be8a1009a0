"""Measures how well identifiers name the language of sentences in 75 languages, and how fast.

    python -m benchmarks.data.language_identification [--sentences FILE] [--every 1]

FILE is JSONL, plain or .zst, with ``lang`` (ISO 639-1) and ``text``; default: the sentences in 75 languages of the data
folder ($HEADRACE_DATA, else ../shared/data). Identifiers: langdetect (compiled_langdetect.py), fastText's lid.176.ftz
as it is, and as ``cleaning=multilingual`` uses it (lower case, no noise); and of the packages py3langid, pycld2
those that are installed. Texts: each sentence, three sentences of a language together, these in capitals.

Prints one JSON line for each identifier and kind of text:

    known              labels of the sentences that it can answer
    accuracy           fraction of all texts with the right language
    macro_f1           mean over all labels of 2·TP / (2·TP + FP + FN); a label that it cannot answer has 0
    macro_f1_known     the mean over the labels that all identifiers can answer
    texts_per_second   CPU time of one process, model loaded
    f1                 by label (three sentences only)
"""

import argparse
import importlib.util
import itertools
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from datatrove.data import Document

from headrace.data_prep.filters.fasttext_model import labels_of, language_model
from headrace.data_prep.filters.language import compiled_langdetect
from headrace.data_prep.filters.language.identification import LanguageFasttext
from headrace.data_prep.filters.language.language_codes import first_code
from headrace.pipeline.core.text_files import read_lines

DATA = Path(os.environ.get("HEADRACE_DATA", Path(__file__).parents[3] / "shared" / "data"))
TOGETHER = 3
UNKNOWN = "unknown"
Identify = Callable[[str], str]
Text = tuple[str, str]
"""The label and the text."""


def langdetect(text: str) -> str:
    return first_code((compiled_langdetect.identify(text) or (UNKNOWN,))[0])


def fasttext(prepared: bool) -> Identify:
    rule = LanguageFasttext(languages=None, min_score=0, lower_case=prepared, noise=prepared)

    def identify(text: str) -> str:
        document = Document(text, "a:0")
        rule.judge(document)
        return first_code(document.metadata.get("language", UNKNOWN))

    return identify


def py3langid() -> tuple[Identify, set[str]]:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    model = LanguageIdentifier.from_model_file(MODEL_FILE)
    return lambda text: first_code(model.classify(text)[0]), set(map(first_code, model.labels))


def pycld2() -> tuple[Identify, set[str]]:
    import pycld2

    def identify(text: str) -> str:
        letters = "".join(character for character in text if character.isprintable())
        return first_code(pycld2.detect(letters)[2][0][1])

    return identify, {first_code(code) for _, code in pycld2.LANGUAGES}


def identifiers() -> Iterator[tuple[str, Identify, set[str]]]:
    """Yields name, function and the languages that it can answer."""
    lid = set(map(first_code, labels_of(language_model())))
    yield "langdetect", langdetect, set(map(first_code, compiled_langdetect.load()[0]))
    yield "fasttext", fasttext(False), lid
    yield "fasttext, lower case, noise", fasttext(True), lid
    for package in (py3langid, pycld2):
        if importlib.util.find_spec(package.__name__):
            yield package.__name__, *package()


def kinds(path: Path, every: int) -> dict[str, list[Text]]:
    sentences = defaultdict(list)
    for line in itertools.islice(read_lines(path), 0, None, every):
        row = json.loads(line)
        sentences[first_code(row["lang"])].append(row["text"])
    together = [
        (label, " ".join(rows[start : start + TOGETHER]))
        for label, rows in sentences.items()
        for start in range(0, len(rows), TOGETHER)
    ]
    return {
        "sentence": [(label, text) for label, rows in sentences.items() for text in rows],
        "three sentences": together,
        "three in capitals": [(label, text.upper()) for label, text in together],
    }


def f1_of(labels: Sequence[str], answers: Sequence[str]) -> dict[str, float]:
    """Returns the F1 of each label."""
    true, named = Counter(labels), Counter(answers)
    right = Counter(label for label, answer in zip(labels, answers, strict=True) if label == answer)
    return {label: 2 * right[label] / (true[label] + named[label]) for label in sorted(true)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=Path, default=DATA / "language" / "sentences_75_languages.jsonl.zst")
    parser.add_argument("--every", type=int, default=1, help="take each Nth sentence (default: all)")
    arguments = parser.parse_args()
    compared = list(identifiers())
    texts = kinds(arguments.sentences, arguments.every)
    common = set.intersection({label for label, _ in texts["sentence"]}, *(known for _, _, known in compared))
    for kind, rows in texts.items():
        labels = [label for label, _ in rows]
        for name, identify, known in compared:
            identify("The first text loads what is needed.")
            start = time.process_time()
            answers = [identify(text) for _, text in rows]
            seconds = time.process_time() - start
            f1 = f1_of(labels, answers)
            right = sum(label == answer for label, answer in zip(labels, answers, strict=True))
            result = {"identifier": name, "text": kind, "texts": len(rows), "known": len(known & set(labels))}
            result |= {"accuracy": round(right / len(rows), 4), "macro_f1": round(sum(f1.values()) / len(f1), 4)}
            result["macro_f1_known"] = round(sum(f1[label] for label in common) / len(common), 4)
            result |= {"labels_known": len(common), "texts_per_second": round(len(rows) / seconds)}
            if kind == "three sentences":
                result["f1"] = {label: round(value, 3) for label, value in f1.items()}
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
