"""The texts of an example of fields, and the formats that have none."""

import pytest

from headrace.pipeline.core.errors import ConfigError
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.files.published import Glue
from headrace.train.finetune.tasks.text_forms import TextForm
from headrace.train.finetune.tasks.text_to_text import TextToText


def example(texts: dict[str, str], **more: object) -> Example:
    return Example(id="1", texts=texts, **more)


def test_fields_follow_their_names_after_the_prefix() -> None:
    form, fine = TextForm(), example({"text": "A.", "about": "B"}, label="fine")
    assert form.inputs(fine, "") == "about: B text: A."
    assert form.inputs(fine, "judge") == "judge about: B text: A."
    assert (form.targets(fine), form.targets(example({"text": "A."}))) == (("fine",), ())
    assert form.targets(example({"text": "A."}, value=2.50)) == ("2.5",)
    assert form.targets(example({"question": "Q"}, answers=())) == ("no answer",)


def test_a_format_without_a_text_form_is_refused() -> None:
    with pytest.raises(ConfigError) as error:
        TextToText(format=Glue(task="cola"))
    assert str(error.value) == (
        "finetune.task.format.type: is glue, and no package is installed that makes texts of its examples; "
        "give fields or templates"
    )
