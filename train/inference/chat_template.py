"""Chat templates: how the messages of a conversation become one text. Free of torch.

    [{"role": "user", "content": "Hello"}]  ── template ──>  "User: Hello\\nAssistant:"      the answer follows

A template is Jinja, as in ``chat_template`` of a Hugging Face folder's tokenizer_config.json.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.data_prep.tokenization.special_tokens import TOKENIZER_CONFIG
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import read_json, write_json

TEMPLATE_FILE = "chat_template.jinja"

DEFAULT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'system' %}{{ message['content'] }}\n\n"
    "{% elif message['role'] == 'user' %}User: {{ message['content'] }}\n"
    "{% else %}Assistant: {{ message['content'] }}{{ eos_token }}\n"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
"""The template of a model without one. It needs no special token but the end of text."""
DEFAULT_STOPS = ("\nUser:",)
"""The texts that end an answer under ``DEFAULT_TEMPLATE``: a model that was not fine-tuned goes on with the user's."""

FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The errors that an expression of a template may end in, besides those of Jinja."""

SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""The special tokens that a template may name."""

Message = dict[str, str]
"""``role`` (system, user or assistant) and ``content``."""


@dataclasses.dataclass(frozen=True)
class ChatTemplate:
    """A template with the special tokens that it names."""

    text: str
    special: Mapping[str, str]
    """Role (``eos_token``, …) → token."""

    @classmethod
    def of_folder(cls, folder: Path) -> "ChatTemplate | None":
        """Returns the template of the tokenizer in a Hugging Face ``folder``; None where it has none.

        Of several named ones, the one with the name ``default``.

        Raises:
            ArtifactError: when a file is not JSON or UTF-8, or the template no text.
        """
        path, alone = folder / TOKENIZER_CONFIG, folder / TEMPLATE_FILE
        values = read_json(path) if path.is_file() else {}
        if not isinstance(values, dict):
            raise ArtifactError(str(path), "holds no object", "fetch it again")
        text = template_file(alone) if alone.is_file() else values.get("chat_template")
        if isinstance(text, list):
            named = {entry.get("name"): entry.get("template") for entry in text if isinstance(entry, dict)}
            text = named.get("default")
        if not isinstance(text, str | None):
            raise ArtifactError(str(path), "has a chat_template that is no text", "write it in Jinja")
        tokens = {name: value for name, value in values.items() if name.endswith("_token")}
        special = {name: value.get("content") if isinstance(value, dict) else value for name, value in tokens.items()}
        return (
            None
            if text is None
            else cls(text, {name: token for name, token in special.items() if isinstance(token, str)})
        )

    def rendered(self, messages: Sequence[Message], begins_answer: bool) -> str:
        """Returns ``messages`` as one text, as ``apply_chat_template`` of transformers renders them.

        Args:
            messages: the conversation.
            begins_answer: whether the text that asks for the next answer follows.

        Raises:
            ConfigError: when the template refuses them.
        """
        return self._rendered(messages, add_generation_prompt=begins_answer)

    def continued(self, messages: Sequence[Message]) -> str:
        """Returns ``messages`` as one text that ends in the last of them: the model goes on with it.

        Raises:
            ConfigError: when the template refuses them.
        """
        return self._rendered(messages, continue_final_message=True)

    @functools.cached_property
    def takes_system(self) -> bool:
        """Whether a conversation may begin with a message of the system."""
        question = {"role": "user", "content": "?"}
        self.rendered([question], True)
        try:
            self.rendered([{"role": "system", "content": "?"}, question], True)
        except ConfigError:
            return False
        return True

    def _rendered(self, messages: Sequence[Message], **options: bool) -> str:
        from jinja2 import TemplateError, TemplateSyntaxError
        from transformers.utils.chat_template_utils import render_jinja_template

        special: dict[str, Any] = dict(self.special)
        try:
            rendered: Any = render_jinja_template(
                [[dict(message) for message in messages]],
                chat_template=self.text,
                **options,
                **special,
            )
        except TemplateSyntaxError as error:
            problem = f"is no Jinja ({error.message}, line {error.lineno})"
            raise ConfigError("the chat template", problem, "correct it") from None
        except (TemplateError, *FAULTS) as error:
            problem = f"cannot write these messages ({error})"
            raise ConfigError("the chat template", problem, "correct it, or the roles of the messages") from None
        return str(rendered[0][0])

    def answers(self, messages: Sequence[Message]) -> "list[AnsweredText]":
        """Returns the texts from which a model learns the answers of ``messages``, each as it will read what comes
        before: one text with all answers or, where the template writes earlier messages in another way when others
        follow (without the thoughts of an answer, say), a text for each answer that ends with it.

        Raises:
            ConfigError: when an answer does not go on from the text that asks for it.
        """
        numbers = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
        texts = [self._answered(messages, number) for number in numbers]
        whole = self.rendered(messages, False)
        if all(whole.startswith(answered.text[: answered.spans[0][1]]) for answered in texts):
            return [AnsweredText(whole, tuple(span for answered in texts for span in answered.spans))]
        return texts

    def _answered(self, messages: Sequence[Message], number: int) -> "AnsweredText":
        """Returns the text that ends with the message of this ``number``, an answer."""
        before, text = self.rendered(messages[:number], True), self.rendered(messages[: number + 1], False)
        if not text.startswith(before):
            problem = f"writes message {number} in another way than it asks for it"
            raise ConfigError("the chat template", problem, "give one that asks for an answer with its beginning")
        return AnsweredText(text, ((len(before), len(text.rstrip())),))

    def write(self, folder: Path) -> None:
        """Adds the template and its special tokens to the tokenizer of the Hugging Face ``folder``, if it has others.

        A template in a file of its own would come first: it is removed.
        """
        if self.of_folder(folder) == self:
            return
        path = folder / TOKENIZER_CONFIG
        (folder / TEMPLATE_FILE).unlink(missing_ok=True)
        write_json(path, read_json(path) | dict(self.special) | {"chat_template": self.text})


@dataclasses.dataclass(frozen=True)
class AnsweredText:
    """A text with answers of the assistant."""

    text: str
    spans: tuple[tuple[int, int], ...]
    """First and end character of each answer. It begins after what asks for it, and ends with its end token; spaces
    after it do not belong to it."""


def template_file(path: Path) -> str:
    """Returns the template in the file ``path``.

    Raises:
        ArtifactError: when it is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 (byte {error.object[error.start]:#04x})"
        raise ArtifactError(str(path), problem, "convert the file to UTF-8") from None
