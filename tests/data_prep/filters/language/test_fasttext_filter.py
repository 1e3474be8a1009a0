import hashlib
import io
import json
import shutil

import pytest
import zstandard
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.fasttext_model import language_model, load
from headrace.data_prep.filters.language.fasttext_filter import LanguageFasttext
from headrace.pipeline.core.errors import ArtifactError, ConfigError

ENGLISH = "The river runs down the valley and turns the wheel of the old mill."
GERMAN = "Der Fluss fließt durch das Tal und treibt das Rad der alten Mühle an."


def test_score_and_language_are_kept() -> None:
    document = Document(ENGLISH, "a:0")
    assert LanguageFasttext().judge(document) is None
    [(language, score)] = load(language_model())(ENGLISH, 1)
    assert document.metadata == {"language": "en", "language_score": score}
    assert language == "en"
    assert LanguageFasttext(min_score=score).judge(document) is None
    assert LanguageFasttext(min_score=score + 1e-6).judge(document) == Drop("language_fasttext", f"en {score:.4f}")
    assert LanguageFasttext(languages=None, min_score=0).judge(Document(GERMAN, "a:1")) is None


def test_only_the_beginning_is_looked_at() -> None:
    document = Document(ENGLISH + "\n" + GERMAN * 9, "a:0")
    assert LanguageFasttext().judge(document) is not None
    assert LanguageFasttext(max_characters=len(ENGLISH)).judge(document) is None


def test_a_model_of_ones_own(tmp_path) -> None:
    path = tmp_path / "own.ftz"
    shutil.copy(language_model(), path)
    rule = LanguageFasttext(path=str(path))
    assert rule.judge(Document(ENGLISH, "a:0")) is None
    [file] = rule.raw_files()
    assert (file.name, file.sha256) == ("own.ftz", hashlib.sha256(path.read_bytes()).hexdigest())
    assert LanguageFasttext().raw_files() == ()
    with pytest.raises(ConfigError) as caught:
        LanguageFasttext(path=str(tmp_path / "none"))
    assert str(caught.value) == (f"language_fasttext.path: there is no file {tmp_path / 'none'}; name a fastText model")
    path = tmp_path / "text"
    path.write_text("no model")
    with pytest.raises(ArtifactError) as error:
        LanguageFasttext(path=str(path)).judge(Document(ENGLISH, "a:0"))
    assert str(error.value) == (
        f"{path}: is not a fastText model ({path} has wrong file format!); give a .bin or .ftz file"
    )


def test_real_sentences(data_folder) -> None:
    path = data_folder("language/sentences_75_languages.jsonl.zst")
    rule = LanguageFasttext(languages=None, min_score=0)
    right = total = 0
    with io.TextIOWrapper(zstandard.open(path, "rb"), encoding="utf-8") as stream:
        for line in list(stream)[::200]:
            row = json.loads(line)
            if row["lang"] in ("en", "de", "fr", "es", "ru", "ja", "zh", "ar", "pl", "fi"):
                document = Document(row["text"], "a:0")
                rule.judge(document)
                total += 1
                right += document.metadata["language"] == row["lang"]
    assert total > 30
    assert right / total > 0.9
