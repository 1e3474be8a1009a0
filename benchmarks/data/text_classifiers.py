"""Measures linear classifiers beside fastText's own on the same texts: accuracy, AUC, and texts a second.

    python -m benchmarks.data.text_classifiers [--sets dclm sst2 kinds] [--fasttext FOLDER]

The sets are those of the data folder ($HEADRACE_DATA, else ../shared/data): web pages with a keep/drop label (DCLM),
sentences of film reviews (SST-2, its own dev part is held out), and the kind of a web page (WCXB's checked text). 30 %
of the others are held out, by a hash of the text; our features and cost were chosen on the rest. FOLDER holds the
package fasttext, which trains (the one that the project uses only predicts); its learning rate, longest n-gram and
casing are chosen by three-fold cross-validation on the training part. Both train with one thread.

Prints a JSON line a set:

    accuracy, auc                   on the held-out texts, with 95 % intervals (Wilson, DeLong; several classes: the
                                    mean area of each class against the rest, without one)
    accuracy_above, auc_above       by how much ours is above fastText's on the same texts, with 95 % intervals
    training_per_second             texts a second of training; ours counts n-grams, trains four times and calibrates
    scoring_per_second              texts a second, one at a time, after the first
"""

import argparse
import hashlib
import importlib
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.classifiers.judgement import auc, placements, share_of
from headrace.data_prep.classifiers.linear_training import CountedSample, LabelledText, LinearTraining, trained
from headrace.data_prep.text.words import words
from headrace.pipeline.core.statistics import Z95, Estimate
from headrace.pipeline.core.text_files import read_lines

DATA = Path(os.environ.get("HEADRACE_DATA", Path(__file__).parents[3] / "shared" / "data"))
HELD_OUT, FOLDS = 3, 3
"""Tenths of the texts that are held out, and parts of the others."""
GRID = [
    {"lr": rate, "epoch": 25, "wordNgrams": longest, "folds": folds}
    for rate, longest, folds in itertools.product((0.1, 0.5, 1.0), (1, 2), (True, False))
]
"""fastText's settings to choose from; ``folds``: small letters and words as ours, else what white space divides."""
Part = list[LabelledText]
Scorer = Callable[[str], dict[str, float]]


def rows(name: str) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in read_lines(DATA / name))


def dclm() -> tuple[Part, Part]:
    return divided([(row["text"], str(row["label"])) for row in rows("web/dclm_keep_drop_labels.jsonl.zst")])


def kinds() -> tuple[Part, Part]:
    return divided([(row["truth"], row["page_type"]) for row in rows("web/wcxb_dev.jsonl.zst") if row["truth"]])


def sst2() -> tuple[Part, Part]:
    parts: dict[str, Part] = {"train": [], "dev": []}
    for number, row in enumerate(rows("evaluation/sst2.jsonl.zst")):
        text, _, label = row["line"].rpartition("\t")
        if row["split"] in parts:
            parts[row["split"]].append(LabelledText(str(number), text, label))
    return parts["train"], parts["dev"]


def divided(labelled: Sequence[tuple[str, str]]) -> tuple[Part, Part]:
    parts: tuple[Part, Part] = ([], [])
    for number, (text, label) in enumerate(labelled):
        is_held_out = int(hashlib.md5(f"held:{text}".encode()).hexdigest(), 16) % 10 < HELD_OUT
        parts[is_held_out].append(LabelledText(str(number), text, label))
    return parts


def ours(part: Part) -> Scorer:
    training = LinearTraining()
    return trained(CountedSample.of(part, training.ngrams, 1), training).scores


def as_fasttext(text: str, folds: bool) -> str:
    return " ".join(words(text) if folds else text.split())


def fasttext_trained(package: Any, part: Part, choice: dict[str, Any], seed: int = 0) -> Scorer:
    options = {key: value for key, value in choice.items() if key != "folds"}
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.writelines(f"__label__{row.label} {as_fasttext(row.text, choice['folds'])}\n" for row in part)
        file.flush()
        model = package.train_supervised(file.name, thread=1, verbose=0, seed=seed, **options)

    def score(text: str) -> dict[str, float]:
        answers = model.f.predict(as_fasttext(text, choice["folds"]) + "\n", -1, -1.0, "strict")
        return {label.removeprefix("__label__"): value for value, label in answers}

    return score


def chosen(package: Any, part: Part) -> dict[str, Any]:
    """Returns the settings of GRID with the highest accuracy in cross-validation."""
    return max(GRID, key=lambda choice: cross_validated(package, part, choice))


def cross_validated(package: Any, part: Part, choice: dict[str, Any]) -> float:
    right = 0
    for fold in range(FOLDS):
        others = [row for number, row in enumerate(part) if number % FOLDS != fold]
        try:
            score = fasttext_trained(package, others, choice)
        except RuntimeError:  # fastText's training does not converge with every learning rate: "Encountered NaN"
            return 0.0
        for row in part[fold::FOLDS]:
            scores = score(row.text)
            right += max(scores, key=scores.__getitem__, default="") == row.label
    return right / len(part)


def measured(
    train: Callable[[Part], Scorer], part: Part, held: Part, names: Sequence[str]
) -> tuple[Any, dict[str, float]]:
    """Returns the scores of the held-out texts, (texts, classes), and texts a second of training and scoring."""
    start = time.perf_counter()
    score = train(part)
    trained_at = time.perf_counter()
    score("Zoë's text, the first one, loads what is needed.")
    scoring = time.perf_counter()
    scores = [score(row.text) for row in held]
    seconds = time.perf_counter() - scoring
    table = np.array([[own.get(name, 0.0) for name in names] for own in scores])
    return table, {
        "training_per_second": round(len(part) / (trained_at - start), 1),
        "scoring_per_second": round(len(held) / seconds, 1),
    }


def judged(table: NDArray[np.float64], truth: NDArray[np.int64]) -> dict[str, Any]:
    right = table.argmax(axis=1) == truth
    accuracy = share_of(int(right.sum()), len(right))
    result: dict[str, Any] = {"accuracy": rounded(accuracy)}
    if table.shape[1] == 2:
        return result | {"auc": rounded(auc(table[:, 1], truth == 1))}
    return result | {
        "auc": [round(float(np.mean([auc(table[:, k], truth == k).value for k in range(table.shape[1])])), 4)]
    }


def above(first: NDArray[np.float64], second: NDArray[np.float64], truth: NDArray[np.int64]) -> dict[str, Any]:
    gain = (first.argmax(axis=1) == truth).astype(float) - (second.argmax(axis=1) == truth)
    half = Z95 * float(gain.std(ddof=1)) / len(gain) ** 0.5
    result: dict[str, Any] = {"accuracy_above": [round(float(gain.mean()) + part, 4) for part in (0, -half, half)]}
    if first.shape[1] == 2:
        result["auc_above"] = rounded(auc_difference(first[:, 1], second[:, 1], truth == 1))
    return result


def auc_difference(scores: NDArray[np.float64], other: NDArray[np.float64], is_of_class: NDArray[np.bool_]) -> Estimate:
    """Returns by how much the area of ``scores`` is above that of ``other``, with DeLong's interval."""
    pairs = zip(placements(scores, is_of_class), placements(other, is_of_class), strict=True)
    differences = [first - second for first, second in pairs]
    value = float(differences[0].mean())
    half = Z95 * float(sum(part.var(ddof=1) / part.size for part in differences)) ** 0.5
    return Estimate(value, value - half, value + half)


def rounded(estimate: Any) -> list[float]:
    return [round(value, 4) for value in (estimate.value, estimate.low, estimate.high)]


def compare(name: str, package: Any) -> dict[str, Any]:
    part, held = SETS[name]()
    names = sorted({row.label for row in part})
    truth = np.array([names.index(row.label) for row in held])
    ours(part[:50] + part[-50:])  # compiles
    table, speed = measured(ours, part, held, names)
    result: dict[str, Any] = {"set": name, "training": len(part), "held_out": len(held), "classes": len(names)}
    result["ours"] = judged(table, truth) | speed
    if package is not None:
        choice = chosen(package, part)
        theirs, speed = measured(lambda own: fasttext_trained(package, own, choice), part, held, names)
        result["fasttext"] = judged(theirs, truth) | speed | {"chosen": choice}
        result |= above(table, theirs, truth)
    return result


SETS = {"dclm": dclm, "sst2": sst2, "kinds": kinds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--fasttext", metavar="FOLDER")
    options = parser.parse_args()
    package = None
    if options.fasttext:
        sys.path.insert(0, options.fasttext)
        package = importlib.import_module("fasttext")
    for name in options.sets:
        print(json.dumps(compare(name, package)), flush=True)


if __name__ == "__main__":
    main()
