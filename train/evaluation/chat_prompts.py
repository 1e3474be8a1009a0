"""Settings of prompts that a chat template writes, as lm-evaluation-harness does with --apply_chat_template.

evaluation.chat.template=own              the template of the model's folder
evaluation.chat.template=template.jinja   that of a file
evaluation.chat.examples=turns            worked examples are turns before the question (--fewshot_as_multiturn)
evaluation.chat.examples=text             one message of the user holds them and the question
evaluation.chat.system="Be brief."        the first message, before a description (--system_instruction)
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import FilePath, by_content, settings
from headrace.pipeline.core.stage import RawFile, raw_file
from headrace.train.evaluation.prompt import ExampleForm, PromptForm
from headrace.train.inference.chat_template import SPECIAL_TOKENS, ChatTemplate, template_file
from headrace.train.parts import WRITING, StackName

TEMPLATE = "evaluation.chat.template"


@settings
class ChatPrompts:
    """Prompts as the messages of a conversation."""

    template: Literal["own"] | FilePath | None = by_content(None)
    """The chat template: ``own`` is that of the model's folder, a path that of a file in Jinja; null: prompts are plain
    text."""
    examples: ExampleForm = "turns"
    """turns: each worked example is a message of the user and an answer; text: they are text before the question."""
    system: str | None = None
    """The text of the system's message, before a benchmark's description; null: the description alone."""

    def __post_init__(self) -> None:
        for name, value, default in (("examples", self.examples, "turns"), ("system", self.system, None)):
            if self.template is None and value != default:
                problem = f"is {value!r}, and prompts are plain text"
                raise ConfigError(f"evaluation.chat.{name}", problem, f"give {TEMPLATE}=own, or the path of one")

    @property
    def revision(self) -> int:
        """1 with the template of the model, for an address of its own; that of a file is among the raw files."""
        return int(self.template == "own")

    def raw_files(self) -> tuple[RawFile, ...]:
        """Returns the file of the template.

        Raises:
            ConfigError: when it is missing, or writes no message of a user.
        """
        if self.template is None or self.template == "own":
            return ()
        blank = dict.fromkeys(SPECIAL_TOKENS, "")
        ChatTemplate(_text(self.template), blank).rendered([{"role": "user", "content": "?"}], True)
        return (raw_file("chat_template", Path(self.template)),)

    def check_stack(self, stack: StackName) -> None:
        """Checks that a model of this ``stack`` can answer.

        Raises:
            ConfigError: when it writes no text.
        """
        if self.template is not None and stack not in WRITING:
            problem = f"is {self.template!r}, and a model with model.stack={stack} writes no answer"
            raise ConfigError(TEMPLATE, problem, "leave it out")

    def check_run(self, initial_weights: str | None, is_scored_early: bool) -> None:
        """Checks that the model of a run has a template of its own where that is asked for, before it is trained.

        Args:
            initial_weights: the folder that the first weights come from, whose template a model keeps; None: none.
            is_scored_early: whether checkpoints are scored, too, which have a tokenizer and no template.

        Raises:
            ConfigError: when it has none.
        """
        if self.template != "own":
            return
        remedy = "give the path of a template"
        if initial_weights is None or ChatTemplate.of_folder(Path(initial_weights)) is None:
            raise ConfigError(TEMPLATE, "is own, and the first weights of the run bring no chat template", remedy)
        if is_scored_early:
            problem = "is own, and training.evaluate_every scores checkpoints, which have no chat template"
            raise ConfigError(TEMPLATE, problem, remedy)

    def form(self, own: ChatTemplate | None, special: Mapping[str, str]) -> PromptForm:
        """Returns the form of prompts.

        Args:
            own: the template of the model; None: it has none.
            special: role (``eos_token``, …) → special token of the model, for the template of a file.

        Raises:
            ConfigError: when the model has no template of its own and that is asked for.
        """
        if self.template is None:
            return PromptForm()
        if self.template != "own":
            template = ChatTemplate(_text(self.template), special)
        elif own is None:
            raise ConfigError(TEMPLATE, "is own, and the model has no chat template", "give the path of a template")
        else:
            template = own
        return PromptForm(template, self.examples, self.system or "", template.takes_system)


def _text(template: str) -> str:
    if not Path(template).is_file():
        problem = f"is {template!r}, and there is no such file"
        raise ConfigError(TEMPLATE, problem, "give own, or the path of a file with a template in Jinja")
    return template_file(Path(template))
